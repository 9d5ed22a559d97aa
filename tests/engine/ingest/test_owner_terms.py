"""What pods have from their owners besides their gang: run time, priority, topology, and what is told."""

from __future__ import annotations

import pytest

from tests.engine.ingest.owners import (
    IN_QUEUE,
    KUEUES,
    a_world,
    held,
    indexed,
    pods,
    racks,
    template,
    waiting,
)
from tutti.api.core import ObjectMeta, PriorityClass
from tutti.engine.lifecycle.limits import ends_at
from tutti.engine.records.decisions import EmitEvent
from tutti.engine.records.observations import PriorityClassSeen


@pytest.mark.parametrize("restarts", [False, True], ids=["", "operator restarts"])
def test_a_run_time_on_an_owner_ends_its_gang_for_good(restarts):
    world = a_world(4)
    limit = {"kueue.x-k8s.io/max-exec-time-seconds": "100"}
    job = world.owner("Job", "train", labels=IN_QUEUE | limit, spec=indexed(2))
    pods(world, job, 2)
    world.until(50)
    if restarts:
        world.restart()
    world.until(49)
    assert len(world.where()) == 2
    world.until(2)
    assert (world.where(), world.used("team")) == ({}, 0)
    pods(world, job, 2, name="again")
    world.run()
    if restarts:
        world.restart()
    world.until(500)
    assert world.where() == {}
    assert waiting(world)[0] == "MaximumExecutionTimeExceeded"


def test_a_pod_may_run_for_as_long_as_its_owner_says():
    world = a_world(4)
    limit = {"scheduling.tutti.dev/max-exec-time-seconds": "100"}
    job = world.owner("Job", "many", labels=IN_QUEUE | limit, spec={"parallelism": 1, "completions": 2})
    pods(world, job, 1)
    world.until(99)
    assert len(world.where()) == 1
    world.until(2)
    assert world.where() == {}
    world.pod("many-again", owner=job)
    world.run()
    assert len(world.where()) == 1


def test_the_default_of_a_queue_counts_for_gangs_by_owner():
    world = a_world(4)
    world.queue("timed", 4, local="timed", defaultMaximumExecutionTimeSeconds=100)
    pods(world, world.owner("Job", "train", labels={KUEUES: "timed"}, spec=indexed(2)), 2)
    world.until(99)
    assert len(world.where()) == 2
    world.until(2)
    assert world.where() == {}


def test_people_are_told_once_which_roles_are_not_counted():
    spec = {
        "pytorchReplicaSpecs": {
            "Master": {"replicas": 1, "template": {"spec": {"schedulerName": "other"}}},
            "Worker": {"replicas": 2, "template": template()},
        }
    }
    world = a_world()
    job = world.owner("PyTorchJob", "torch", spec=spec)
    told = []
    for index in range(2):
        labels = {"training.kubeflow.org/replica-type": "worker", "training.kubeflow.org/replica-index": str(index)}
        world.pod(f"torch-worker-{index}", owner=job, labels=labels)
        told += [one.note for one in world.run() if isinstance(one, EmitEvent) and one.reason == "ReadFromOwner"]
    assert len(world.where()) == 2
    assert told == ["role master is not counted: other places it"]


def test_a_priority_class_that_a_policy_names_counts_in_the_queue():
    world = a_world(2)
    world.tell(PriorityClassSeen(PriorityClass(ObjectMeta(name="high"), 1000)))
    low = world.owner("Job", "low", labels=IN_QUEUE, spec=indexed(2))
    policy = {"schedulingPolicy": {"priorityClass": "high"}}
    roles = {"Worker": {"replicas": 2, "template": template()}}
    high = world.owner("PyTorchJob", "torch", labels=IN_QUEUE, spec={"runPolicy": policy, "pytorchReplicaSpecs": roles})
    pods(world, low, 2)
    pods(world, high, 2, labels={"training.kubeflow.org/replica-type": "worker"})
    world.run()
    assert sorted(world.where()) == ["torch-0", "torch-1"]


def test_a_topology_that_only_an_owner_asks_for_holds_for_all_of_its_pods():
    world = racks(2, 2, 3)
    notes = {"scheduling.tutti.dev/podset-required-topology": "rack"}
    world.object("Topology", "racks", {"levels": [{"nodeLabel": "rack"}, {"nodeLabel": "kubernetes.io/hostname"}]})
    world.flavor(topologyName="racks")
    pods(world, world.owner("Job", "train", labels=IN_QUEUE, annotations=notes, spec=indexed(3)), 3)
    world.run()
    assert set(world.where().values()) == {"n2"}


@pytest.mark.parametrize("restarts", [False, True], ids=["", "operator restarts"])
@pytest.mark.parametrize("by", ["owner", "queue"])
def test_a_run_time_counts_though_some_members_are_never_made(by, restarts):
    world = a_world(8, quota=8)
    world.queue("timed", 8, local="timed", defaultMaximumExecutionTimeSeconds=100)
    lws = "leaderworkerset.sigs.k8s.io/"
    spec = {
        "startupPolicy": "LeaderReady",
        "leaderWorkerTemplate": {"size": 2, "leaderTemplate": template(), "workerTemplate": template(4)},
    }
    limit = {KUEUES: "timed"} | ({"kueue.x-k8s.io/max-exec-time-seconds": "100"} if by == "owner" else {})
    top = world.owner("LeaderWorkerSet", "lws", labels=limit, spec=spec)
    marks = {f"{lws}group-key": "k", f"{lws}worker-index": "0"}
    world.pod("lws-0", owner=top, labels=marks, annotations={f"{lws}size": "2"})
    world.run()
    assert list(world.where()) == ["lws-0"]
    world.start("lws-0")
    began = world.now
    world.until(60)
    if restarts:
        world.restart()
    world.until(30)
    assert list(world.where()) == ["lws-0"]
    (end,) = [ends_at(world.engine.state, one) for one in world.engine.state.workloads.values() if one.limit_seconds]
    assert end == pytest.approx(began + 100, abs=1)
    world.until(12)
    assert (world.where(), world.used("timed"), held(world)) == ({}, 0, 0)


SAID = {
    "run time": ("labels", "kueue.x-k8s.io/max-exec-time-seconds", "60", "3600"),
    "priority": ("labels", "scheduling.tutti.dev/priority-class", "low", "high"),
    "topology": ("annotations", "scheduling.tutti.dev/podset-required-topology", "rack", "block"),
}


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("order", ["ab", "ba"])
@pytest.mark.parametrize("what", SAID)
def test_where_the_objects_of_one_gang_disagree_whoever_is_seen_first_decides_nothing(what, order, backwards):
    where, key, *values = SAID[what]
    world = a_world(8)
    for name, value in (("low", 10), ("high", 1000)):
        world.tell(PriorityClassSeen(PriorityClass(ObjectMeta(name=name), value)))
    roles = [{"name": name, "template": {"spec": indexed(1)}} for name in "ab"]
    top = world.owner("JobSet", "js", labels=IN_QUEUE, spec={"replicatedJobs": roles})
    said = dict(zip("ab", values, strict=True))
    jobs = {
        name: world.owner("Job", f"js-{name}-0", controller=top, spec=indexed(1), **{where: {key: said[name]}})
        for name in "ab"
    }
    for name in order:
        labels = {"jobset.sigs.k8s.io/replicatedjob-name": name, "jobset.sigs.k8s.io/job-index": "0"}
        world.pod(name, owner=jobs[name], labels=labels, gated=True)
    world.run()
    for _ in range(2):
        (gang,) = world.engine.state.workloads.values()
        problem = "" if gang.problem is None else gang.problem.message
        assert (gang.limit_seconds, gang.priority) == {
            "run time": (60, 0),
            "priority": (None, 10),
            "topology": (None, 0),
        }[what]
        different = "its owners want its pods to be near in different ways: Required block, Required rack"
        assert problem.startswith(different) if what == "topology" else not problem
        world.restart(backwards=backwards)
        for name, value in (("high", 1000), ("low", 10)):
            world.tell(PriorityClassSeen(PriorityClass(ObjectMeta(name=name), value)))
        world.run()
