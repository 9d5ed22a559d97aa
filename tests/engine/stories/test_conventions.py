"""Manifests as each project documents them are scheduled as gangs, by that project's rules.

Each case is what a user of the project has: pods, and the objects beside them. The first pods are too few; with the
last one the gang starts whole.
"""

from __future__ import annotations

import pytest
import yaml

from tests.engine.stories.manifests_of_users import KOORD, annotated, put
from tests.engine.world import World
from tutti.engine.records.decisions import CreatePodGroup, Evict

PFNET = "gang-scheduling.preferred.jp/gang"


# One entry per convention: objects as (apiVersion, kind, name, spec), and pods in the order in which they come.
CASES: dict[str, tuple[list[tuple[str, str, str, str]], list[str]]] = {
    "Kubernetes 1.36": (
        [("scheduling.k8s.io/v1alpha2", "PodGroup", "trio", "{schedulingPolicy: {gang: {minCount: 3}}}")],
        ["spec: {schedulingGroup: {podGroupName: trio}}"] * 3,
    ),
    "Kubernetes 1.37": (
        [
            (
                "scheduling.k8s.io/v1beta1",
                "PodGroup",
                "trio",
                """
                workloadRef: {workloadName: w, templateName: t}
                schedulingPolicy: {gang: {minCount: 3}}
                disruptionMode: {all: {}}
                """,
            )
        ],
        ["spec: {schedulingGroup: {podGroupName: trio}}"] * 3,
    ),
    "Kubernetes 1.35": (
        [
            (
                "scheduling.k8s.io/v1alpha1",
                "Workload",
                "w",
                "{podGroups: [{name: workers, policy: {gang: {minCount: 3}}}]}",
            )
        ],
        ["spec: {workloadRef: {name: w, podGroup: workers, podGroupReplicaKey: '0'}}"] * 3,
    ),
    "scheduler-plugins": (
        [("scheduling.x-k8s.io/v1alpha1", "PodGroup", "nginx", "{scheduleTimeoutSeconds: 10, minMember: 3}")],
        ["metadata: {labels: {scheduling.x-k8s.io/pod-group: nginx}}"] * 3,
    ),
    "scheduler-plugins, as it was, and koordinator": (
        [("scheduling.sigs.k8s.io/v1alpha1", "PodGroup", "nginx", "{scheduleTimeoutSeconds: 100, minMember: 3}")],
        ["metadata: {labels: {pod-group.scheduling.sigs.k8s.io: nginx}}"] * 3,
    ),
    "pfnet": (
        [],
        [annotated(**{f"{PFNET}-name": "example", f"{PFNET}-size": "3", f"{PFNET}-schedule-timeout-seconds": "60"})]
        * 3,
    ),
    "Volcano": (
        [("scheduling.volcano.sh/v1beta1", "PodGroup", "job-1", "{minMember: 3, queue: default}")],
        [annotated(**{"scheduling.k8s.io/group-name": "job-1"})] * 3,
    ),
    "Volcano without a PodGroup": (
        [],
        [
            """
            metadata:
              ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: rs, uid: rs-uid, controller: true}]
              annotations: {scheduling.volcano.sh/group-min-member: "3"}
            """
        ]
        * 3,
    ),
    "koordinator": (
        [],
        [annotated(**{f"{KOORD}/name": "gang-a", f"{KOORD}/min-available": "3", f"{KOORD}/waiting-time": "30s"})] * 3,
    ),
    "YuniKorn": (
        [],
        [
            """
            metadata:
              labels: {applicationId: gang-job, queue: root.default}
              annotations:
                yunikorn.apache.org/task-group-name: sleepers
                yunikorn.apache.org/task-groups: |-
                  [{"name": "sleepers", "minMember": 3}]
            """
        ]
        * 3,
    ),
    "Kueue": (
        [],
        [
            """
            metadata:
              labels: {kueue.x-k8s.io/pod-group-name: sample-group}
              annotations: {kueue.x-k8s.io/pod-group-total-count: "3"}
            """
        ]
        * 3,
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("objects_first", [True, False])
def test_an_unchanged_manifest_is_scheduled_as_a_gang(name, objects_first):
    world = World()
    world.node("n1")
    world.flavor()
    world.queue("cq", 8, local="default")
    objects, pods = CASES[name]
    for step in (objects_first, not objects_first):
        for version, kind, thing, spec in objects if step else []:
            world.gang_object(version, thing, yaml.safe_load(spec), kind=kind)
        for rank, text in enumerate([] if step else pods[:-1]):
            put(world, f"p-{rank}", text)
        world.run()
    assert world.where() == {}
    put(world, f"p-{len(pods) - 1}", pods[-1])
    world.decide()
    assert len(world.where()) == len(pods)
    world.run()
    (made,) = [d for d in world.log if isinstance(d, CreatePodGroup)]  # where its status can be seen
    assert world.condition("PodGroup", made.name, "Scheduled")["status"] == "True"
    for rank in range(len(pods)):
        world.delete(f"p-{rank}")
    world.run()
    assert ("PodGroup", "default", made.name) not in world.objects
    assert world.engine.state.workloads == {}
    assert not world.replay().differences


# Objects of other projects.


def test_a_gang_without_its_object_says_so():
    world = World()
    put(world, "p-0", "metadata: {labels: {scheduling.x-k8s.io/pod-group: nginx}}")
    world.run()
    assert world.reason("PodGroup", "nginx") == "PodGroupNotFound"
    world.gang_object("scheduling.x-k8s.io/v1alpha1", "nginx", {"minMember": 2})
    world.run()
    assert world.reason("PodGroup", "nginx") == "WaitingForMembers"
    world.remove_gang_object("scheduling.x-k8s.io/v1alpha1", "nginx")
    world.delete("p-0")
    put(world, "p-1", "metadata: {labels: {scheduling.x-k8s.io/pod-group: nginx}}")
    world.run()
    assert world.where() == {}


def test_our_pod_group_goes_before_an_object_of_another_project():
    world = World()
    world.node("n1")
    world.pod_group("nginx", 2)
    world.gang_object("scheduling.x-k8s.io/v1alpha1", "nginx", {"minMember": 3})
    for rank in range(2):
        put(world, f"p-{rank}", "metadata: {labels: {scheduling.x-k8s.io/pod-group: nginx}}")
    world.run()
    assert len(world.where()) == 2


def test_a_minimum_that_is_lowered_lets_the_gang_start():
    world = World()
    world.node("n1")
    world.gang_object("scheduling.x-k8s.io/v1alpha1", "nginx", {"minMember": 3})
    for rank in range(2):
        put(world, f"p-{rank}", "metadata: {labels: {scheduling.x-k8s.io/pod-group: nginx}}")
    world.run()
    assert world.where() == {}
    world.gang_object("scheduling.x-k8s.io/v1alpha1", "nginx", {"minMember": 2})
    world.run()
    assert len(world.where()) == 2


@pytest.mark.parametrize(
    ("version", "spec", "said"),
    [
        ("scheduling.x-k8s.io/v1alpha1", {"minMember": "three"}, "spec cannot be read"),
        ("scheduling.x-k8s.io/v1alpha1", {"minMember": 2, "minResources": {"cpu": "1x"}}, "minResources: cpu"),
        ("scheduling.x-k8s.io/v1alpha1", {"minMember": -1}, "minCount"),
        ("scheduling.volcano.sh/v1beta1", {"minMember": 2, "networkTopology": {"mode": "hard"}}, "networkTopology"),
    ],
)
def test_what_an_object_asks_for_and_cannot_have_is_said(version, spec, said):
    world = World()
    world.node("n1")
    world.gang_object(version, "g", spec)
    label = {"scheduling.x-k8s.io/v1alpha1": "labels: {scheduling.x-k8s.io/pod-group: g}"}
    text = label.get(version, "annotations: {scheduling.k8s.io/group-name: g}")
    for rank in range(2):
        put(world, f"p-{rank}", f"metadata: {{{text}}}")
    world.pod("other")
    world.run()
    assert world.where() == {"other": "n1"}
    why = world.why("PodGroup", "g")
    assert why.reason == "InvalidGang"
    assert f"{version} default/g: " in why.message
    assert said in why.message


def test_a_gang_waits_until_as_much_is_free_as_its_object_asks_for():
    """scheduler-plugins, pkg/coscheduling: the sum over all nodes, not what one node has."""
    world = World()
    world.node("n1", gpus=2)
    world.node("n2", gpus=2)
    world.gang_object(
        "scheduling.x-k8s.io/v1alpha1", "g", {"minMember": 2, "minResources": {"nvidia.com/gpu": "5", "cpu": "1"}}
    )
    for rank in range(2):
        put(world, f"p-{rank}", "metadata: {labels: {scheduling.x-k8s.io/pod-group: g}}")
    world.run()
    assert world.where() == {}
    assert (
        "minResources asks for 5 of nvidia.com/gpu to be free in the cluster; free now: 4"
        in world.why("PodGroup", "g").message
    )
    world.node("n3", gpus=1)
    world.run()
    assert len(world.where()) == 2


def test_the_timeout_of_its_object_is_how_long_a_gang_holds_its_reservation():
    world = World()
    world.gang_object("scheduling.x-k8s.io/v1alpha1", "g", {"minMember": 2, "scheduleTimeoutSeconds": 10})
    put(world, "p-0", "metadata: {labels: {scheduling.x-k8s.io/pod-group: g}}")
    world.run()
    assert world.engine.state.workloads["PodGroup", "default", "g"].permit_seconds == 10


def test_a_soft_topology_of_volcano_is_a_wish_and_holds_nobody_back():
    """It used to be refused like a hard one, and the gang never started (design/network-topology-aware-scheduling.md)."""
    world = World()
    world.node("n1")
    spec = {"minMember": 2, "networkTopology": {"mode": "soft", "highestTierAllowed": 2}}
    world.gang_object("scheduling.volcano.sh/v1beta1", "g", spec)
    for rank in range(2):
        put(world, f"p-{rank}", annotated(**{"scheduling.k8s.io/group-name": "g"}))
    world.run()
    assert len(world.where()) == 2


# Volcano.


def volcano(world: World, name: str, task: str) -> None:
    put(world, name, annotated(**{"scheduling.k8s.io/group-name": "job", "volcano.sh/task-spec": task}))


def test_each_task_of_a_volcano_job_has_a_minimum_of_its_own():
    world = World()
    world.node("n1")
    spec = {"minMember": 3, "minTaskMember": {"ps": 1, "worker": 2}}
    world.gang_object("scheduling.volcano.sh/v1beta1", "job", spec)
    for rank in range(3):
        volcano(world, f"worker-{rank}", "worker")
    world.run()
    assert world.where() == {}
    assert "0 of 1 member of pod group ps" in world.why("PodGroup", "job").message
    volcano(world, "ps-0", "ps")
    world.run()
    assert len(world.where()) == 4


def test_the_minimum_of_a_volcano_job_counts_beside_those_of_its_tasks():
    world = World()
    world.node("n1", gpus=4)
    spec = {"minMember": 4, "minTaskMember": {"ps": 1, "worker": 1}}
    world.gang_object("scheduling.volcano.sh/v1beta1", "job", spec)
    volcano(world, "ps-0", "ps")
    volcano(world, "worker-0", "worker")
    volcano(world, "worker-1", "worker")
    world.run()
    assert world.where() == {}
    volcano(world, "worker-2", "worker")
    world.run()
    assert len(world.where()) == 4


def test_minima_of_tasks_beyond_that_of_the_job_are_not_looked_at():
    """Volcano, pkg/scheduler/api/job_info.go: CheckTaskMinAvailable is left out below the sum of them."""
    world = World()
    world.node("n1")
    world.gang_object("scheduling.volcano.sh/v1beta1", "job", {"minMember": 2, "minTaskMember": {"ps": 1, "worker": 2}})
    volcano(world, "worker-0", "worker")
    volcano(world, "worker-1", "worker")
    world.run()
    assert len(world.where()) == 2


def test_a_task_that_no_longer_counts_is_not_waited_for():
    world = World()
    world.node("n1")
    world.gang_object("scheduling.volcano.sh/v1beta1", "job", {"minMember": 2, "minTaskMember": {"ps": 1, "worker": 1}})
    volcano(world, "worker-0", "worker")
    volcano(world, "worker-1", "worker")
    world.run()
    assert world.where() == {}
    world.gang_object("scheduling.volcano.sh/v1beta1", "job", {"minMember": 2})
    world.run()
    assert len(world.where()) == 2


# koordinator.


def koordinator(world: World, gang: str, rank: int, size: int, *, groups: str, namespace: str) -> None:
    said = {f"{KOORD}/name": gang, f"{KOORD}/min-available": str(size), f"{KOORD}/groups": groups}
    put(world, f"{gang}-{rank}", annotated(**said), namespace)


@pytest.mark.parametrize("b_first", [False, True])
def test_gangs_of_a_gang_group_start_together_whatever_their_namespaces(b_first):
    world = World(namespaces=("default", "prod"))
    world.node("n1", gpus=4)
    groups = '["prod/gang-b", "default/gang-a"]'
    parts = [("gang-a", 2, "default"), ("gang-b", 3, "prod")]
    for gang, size, namespace in reversed(parts) if b_first else parts:
        assert world.where() == world.where(namespace="prod") == {}
        for rank in range(size):
            koordinator(world, gang, rank, size, groups=groups, namespace=namespace)
        world.run()
    assert world.where() == world.where(namespace="prod") == {}  # five pods, four devices
    world.node("n2", gpus=1)
    world.run()
    assert len(world.where()) == 2
    assert len(world.where(namespace="prod")) == 3
    (made,) = [d for d in world.log if isinstance(d, CreatePodGroup)]
    assert made.spec["schedulingPolicy"] == {"gang": {"minCount": 5}}


def test_a_gang_whose_group_is_not_there_waits_and_names_it():
    world = World()
    world.node("n1")
    for rank in range(2):
        koordinator(world, "gang-a", rank, 2, groups='["default/gang-a", "default/gang-b"]', namespace="default")
    world.run()
    assert world.where() == {}
    (workload,) = world.engine.state.workloads.values()
    assert "0 of 1 member of pod group default/gang-b" in workload.explanation.message


@pytest.mark.parametrize("mode", ["Strict", "NonStrict"])
def test_neither_mode_of_koordinator_leaves_a_gang_in_part(mode):
    world = World()
    world.node("n1", gpus=2)
    for rank in range(3):
        put(
            world,
            f"p-{rank}",
            annotated(**{f"{KOORD}/name": "g", f"{KOORD}/min-available": "3", f"{KOORD}/mode": mode}),
        )
    world.until(700)
    assert world.where() == {}
    world.node("n2", gpus=1)
    world.run()
    assert len(world.where()) == 3


# pfnet.


def pfnet(world: World, name: str, **said: str) -> None:
    told = {"name": "job", "size": "2", **said}
    put(world, name, annotated(**{f"{PFNET}-{key.replace('_', '-')}": value for key, value in told.items()}))


@pytest.mark.parametrize("other", [{"size": "3"}, {"schedule_timeout_seconds": "90"}])
def test_members_of_a_pfnet_gang_must_say_the_same(other):
    """The gang plugin of pfnet: GangSpecInvalid while any member that has not ended says otherwise."""
    world = World()
    world.node("n1")
    pfnet(world, "a")
    world.run()
    pfnet(world, "b", **other)
    world.run()
    assert world.where() == {}
    assert world.reason("PodGroup", "job") == "InvalidGang"
    assert "give all the same" in world.why("PodGroup", "job").message
    world.delete("b")
    pfnet(world, "c")
    world.run()
    assert set(world.where()) == {"a", "c"}


def test_what_members_of_an_earlier_run_said_does_not_count():
    world = World()
    world.node("n1")
    pfnet(world, "a", size="2")
    pfnet(world, "b", size="2")
    world.run()
    world.finish("a", "b", phase="Failed")
    world.run()
    for name in ("c", "d"):
        pfnet(world, name, size="3")
    world.run()
    assert not {"c", "d"} & set(world.where())
    pfnet(world, "e", size="3")
    world.run()
    assert {"c", "d", "e"} <= set(world.where())


def test_no_more_members_of_a_pfnet_gang_run_at_once_than_its_size():
    """The gang plugin of pfnet: GangFullyScheduled; a spare member fills the place of one that fails (FillingRunningGang)."""
    world = World()
    world.node("n1")
    for name in ("a", "b", "c"):
        pfnet(world, name)
    world.run()
    assert set(world.where()) == {"a", "b"}
    assert world.reason("PodGroup", "job") == "GangFull"
    world.finish("a", phase="Failed")
    world.run()
    assert set(world.where()) == {"a", "b", "c"}


def test_all_pods_of_a_pfnet_gang_are_deleted_with_the_first_where_that_is_asked_for():
    world = World(conventions={"pfnetDeleteTogether": True})
    world.node("n1")
    for name in ("a", "b", "c"):  # c is spare, and has no node
        pfnet(world, name)
    world.run()
    world.hold_evictions = True
    world.begin_deleting("a")
    world.run()
    evicted = [d for d in world.log if isinstance(d, Evict)]
    assert {(d.name, d.reason) for d in evicted} == {("b", "DeletedAsPartOfGang"), ("c", "DeletedAsPartOfGang")}
    assert len(world.events("DeletedAsPartOfGang")) == 1


def test_pods_of_a_pfnet_gang_stay_where_nothing_is_said():
    world = World()
    world.node("n1")
    pfnet(world, "a")
    pfnet(world, "b")
    world.run()
    world.begin_deleting("a")
    world.run()
    assert not [d for d in world.log if isinstance(d, Evict)]


def test_a_deletion_that_was_refused_is_asked_for_again():
    world = World(conventions={"pfnetDeleteTogether": True})
    world.node("n1")
    pfnet(world, "a")
    pfnet(world, "b")
    world.run()
    world.refuse_evictions = True
    world.begin_deleting("a")
    world.until(5)
    world.refuse_evictions = False
    world.until(60)
    assert set(world.pods) == {("default", "a")}


# Kueue.


def test_no_more_pods_of_a_kueue_group_run_than_it_has():
    world = World()
    world.node("n1")
    for rank in range(3):
        put(
            world,
            f"p-{rank}",
            """
            metadata:
              labels: {kueue.x-k8s.io/pod-group-name: g}
              annotations: {kueue.x-k8s.io/pod-group-total-count: "2"}
            """,
        )
    world.run()
    assert len(world.where()) == 2
    assert world.reason("PodGroup", "g") == "GangFull"
