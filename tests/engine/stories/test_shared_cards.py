"""Gangs and pods that share GPUs by HAMi: tight, whole or not at all, one after another through its device plugin."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.drawing import examples
from tests.engine.hami_world import HamiWorld, card
from tests.engine.world import GPU, replaced
from tutti.api.conditions import timestamp
from tutti.api.hami import (
    ALLOCATED,
    BIND_PHASE,
    BOUND_AT,
    CORDON,
    LOCK,
    MEMORY,
    NODE,
    PERCENTAGE,
    REGISTER,
    TO_ALLOCATE,
)
from tutti.engine.records.explanation import Gate
from tutti.engine.records.observations import NodeSeen


def test_pods_fill_the_tightest_hole_of_the_cluster_and_leave_cards_whole():
    world = HamiWorld()
    world.machine("a")
    world.machine("b")
    world.card_pod("large", 10000)
    world.run()
    world.card_pod("medium", 4000)
    world.run()
    world.card_pod("small", 2000)
    world.run()

    assert len(set(world.where().values())) == 1
    node = world.where()["large"]
    assert world.taken(node) in ([(16000, 0, 3), (0, 0, 0)], [(0, 0, 0), (16000, 0, 3)])
    assert not world.replay().differences


def test_a_gang_is_placed_whole_by_cards_or_not_at_all():
    world = HamiWorld()
    world.machine("a", 1)
    world.machine("b", 1)
    world.sharing_gang("late", 5, 7000)
    world.run()
    assert not world.where()
    why = world.why("PodGroup", "late")
    assert why is not None
    assert why.gate is Gate.PLACEMENT

    world.machine("c", 1)
    world.run()
    assert len(world.where("late")) == 5
    for node in ("a", "b", "c"):
        assert all(memory <= 16000 for memory, _, _ in world.taken(node))
    assert not world.replay().differences


def test_the_plugin_of_a_node_is_asked_for_one_pod_after_another():
    world = HamiWorld(answers=False)
    world.machine("a", 1)
    world.sharing_gang("g", 3, 4000)
    world.run()
    bound = world.where("g")
    assert len(bound) == 1

    for _ in range(3):
        first = next(
            name
            for name in world.where("g")
            if world.pods["default", name].metadata.annotations[BIND_PHASE] == "allocating"
        )
        world.serve(first)
        world.run()
    assert len(world.where("g")) == 3
    assert world.lock_of("a") is None
    assert not world.refused
    assert not world.replay().differences


def test_the_next_waits_for_the_lock_though_the_pod_is_seen_served_first():
    world = HamiWorld(answers=False)
    world.machine("a", 1)
    world.sharing_gang("g", 2, 4000)
    world.run()
    (first,) = world.where("g")
    lock = world.lock_of("a")
    world.serve(first)
    world.say("a", {LOCK: lock})  # the watch of nodes is late
    world.run()
    assert len(world.where("g")) == 1
    world.say("a", {LOCK: None})
    world.run()
    assert len(world.where("g")) == 2


def test_what_a_pod_has_is_the_same_after_a_restart():
    world = HamiWorld()
    world.machine("a", 1)
    world.card_pod("first", 9000, cores=50)
    world.run()
    for backwards in (False, True):
        world.restart(backwards=backwards)
        world.card_pod(f"wide-{backwards}", 8000)
        world.run()
        assert "wide" not in "".join(world.where())
    world.card_pod("narrow", 7000, cores=50)
    world.run()
    assert set(world.where()) == {"first", "narrow"}


def test_a_plugin_that_fails_frees_the_card_with_the_pod():
    world = HamiWorld(answers=False)
    world.machine("a", 1)
    world.card_pod("first", 16000)
    world.run()
    world.serve("first", fails=True)
    world.card_pod("second", 16000)
    world.run()
    assert world.where("second") == {"second": "a"}


def test_a_node_whose_plugin_does_not_answer_is_closed_until_it_does():
    world = HamiWorld(answers=False)
    world.machine("a", 1)
    world.card_pod("first", 4000)
    world.run()
    world.until(40)
    world.machine("b", 1)
    world.card_pod("second", 4000)
    world.run()
    assert world.where("second") == {"second": "b"}
    world.delete("second")
    world.remove_node("b")
    world.card_pod("third", 4000)
    world.run()
    why = world.why("Pod", "third")
    assert why is not None
    assert "1 node(s) where HAMi's device plugin does not answer" in why.message

    world.serve("first")
    world.until(20)
    assert world.where("third") == {"third": "a"}


def test_a_gang_that_was_begun_is_given_up_where_the_plugin_falls_silent():
    world = HamiWorld(answers=False)
    world.machine("a", 1)
    world.sharing_gang("g", 2, 4000)
    world.run()
    assert len(world.where("g")) == 1

    world.until(100)

    assert not world.where("g")


def test_a_card_that_is_given_away_while_a_gang_waits_for_its_turn_is_promised_no_second_time():
    """HAMi's own scheduler beside us: what is kept here for who waits for the lock of a node is nothing to it."""
    world = HamiWorld(answers=False)
    world.machine("a", 2)
    world.card_pod("theirs", 4000, scheduler="hami-scheduler", node="a")
    said(world, "theirs", "GPU-a-0,NVIDIA,4000,0:;", "allocating")
    world.say("a", {LOCK: f"{timestamp(world.now)},default,theirs"})
    world.sharing_gang("g", 2, 12000)
    world.run()
    assert world.reason("PodGroup", "g") == "WaitingForNodeLock"

    world.card_pod("more", 9000, scheduler="hami-scheduler", node="a")
    said(world, "more", "GPU-a-1,NVIDIA,9000,0:;", "success")
    world.answers = True
    world.serve("theirs")
    world.run()
    assert not world.where("g")
    assert world.reason("PodGroup", "g") != "WaitingForNodeLock"

    world.finish("more")
    world.until(120)
    assert len(world.where("g")) == 2
    assert world.taken("a") == [(16000, 0, 2), (12000, 0, 1)]


def said(world: HamiWorld, name: str, parts: str, phase: str) -> None:
    """Have a pod say that it has these parts of cards, as HAMi's scheduler writes it."""
    pod = world.pods["default", name]
    told = {NODE: "a", ALLOCATED: parts, TO_ALLOCATE: parts, BIND_PHASE: phase, BOUND_AT: str(int(world.now))}
    world.put(replaced(pod, metadata=replaced(pod.metadata, annotations=told)))


def test_a_lock_of_a_bind_that_never_was_is_taken_over_after_a_restart():
    world = HamiWorld()
    world.machine("a", 1)
    world.hold_binds = True
    world.card_pod("one", 4000)
    world.card_pod("two", 4000)
    world.run()
    bind = world.pending_binds[0]
    world.say("a", {LOCK: bind.card_lock.text})  # the operator is killed between the lock and the bind

    world.hold_binds = False
    world.restart()
    world.run()

    assert set(world.where()) == {"one", "two"}
    assert world.lock_of("a") is None


def test_a_lock_of_another_scheduler_is_waited_for_and_then_taken_over():
    world = HamiWorld(answers=False)
    world.machine("a", 1)
    world.card_pod("theirs", 4000, scheduler="hami-scheduler", node="a")
    parts = {
        NODE: "a",
        ALLOCATED: "GPU-a-0,NVIDIA,4000,0:;",
        TO_ALLOCATE: "GPU-a-0,NVIDIA,4000,0:;",
        BIND_PHASE: "allocating",
        "hami.io/bind-time": str(int(world.now)),
    }
    pod = world.pods["default", "theirs"]
    world.put(replaced(pod, metadata=replaced(pod.metadata, annotations=parts)))
    world.say("a", {LOCK: "1970-01-12T13:46:40Z,default,theirs"})
    world.sharing_gang("g", 2, 4000)
    world.run()
    assert not world.where("g")
    assert world.reason("PodGroup", "g") == "WaitingForNodeLock"

    world.answers = True
    world.serve("theirs")
    world.run()
    assert len(world.where("g")) == 2
    assert world.taken("a") == [(12000, 0, 3)]


def test_quota_counts_memory_of_all_cards_and_closes_the_other_way_to_ask():
    world = HamiWorld()
    world.machine("a", 4)
    world.flavor()
    group = {
        "coveredResources": [GPU, MEMORY, "cpu", "memory"],
        "flavors": [
            {
                "name": "default",
                "resources": [
                    {"name": GPU, "nominalQuota": 10},
                    {"name": MEMORY, "nominalQuota": 20000},
                    {"name": "cpu", "nominalQuota": 100},
                    {"name": "memory", "nominalQuota": "1000Gi"},
                ],
            }
        ],
    }
    world.object("ClusterQueue", "team", {"namespaceSelector": {}, "resourceGroups": [group]})
    world.object("LocalQueue", "queue", {"clusterQueue": "team"})
    world.card_pod("first", 6000, count=2, queue="queue")
    world.card_pod("second", 9000, queue="queue")
    world.card_pod("by-percent", percent=10, queue="queue")
    world.run()

    assert set(world.where()) == {"first"}
    assert world.used("team", resource=MEMORY) == 12000
    second, by_percent = world.why("Pod", "second"), world.why("Pod", "by-percent")
    assert second is not None
    assert by_percent is not None
    assert second.gate is Gate.QUOTA
    assert by_percent.reason == "ResourceNotCovered"
    assert PERCENTAGE in by_percent.message
    world.delete("second", "by-percent")
    world.card_pod("third", 8000, queue="queue")
    world.run()
    assert "third" in world.where()


def test_quota_of_gpus_in_percent_counts_whole_cards_too():
    world = HamiWorld()
    world.machine("a", 4)
    world.flavor()
    names = {GPU: 10, PERCENTAGE: 250, "cpu": 100, "memory": "1000Gi"}
    quotas = [{"name": name, "nominalQuota": amount} for name, amount in names.items()]
    group = {"coveredResources": list(names), "flavors": [{"name": "default", "resources": quotas}]}
    world.object("ClusterQueue", "team", {"namespaceSelector": {}, "resourceGroups": [group]})
    world.object("LocalQueue", "queue", {"clusterQueue": "team"})
    world.card_pod("whole", count=2, queue="queue")
    world.card_pod("half", percent=50, queue="queue")
    world.run()
    world.card_pod("more", percent=1, queue="queue")
    world.run()
    assert set(world.where()) == {"whole", "half"}
    assert world.used("team", resource=PERCENTAGE) == 250


def test_a_queue_that_limits_neither_memory_nor_percent_lets_both_in():
    world = HamiWorld()
    world.machine("a", 4)
    world.flavor()
    world.queue("team", 10)
    world.card_pod("mib", 4000, cores=30, queue="queue")
    world.card_pod("percent", percent=10, queue="queue")
    world.run()
    assert set(world.where()) == {"mib", "percent"}


def test_a_more_important_pod_takes_the_memory_of_a_card():
    world = HamiWorld()
    world.machine("a", 1)
    world.card_pod("low", 12000)
    world.run()
    world.card_pod("high", 8000, priority=100)
    world.until(5)
    assert world.where() == {"high": "a"}


@pytest.mark.parametrize(
    ("annotations", "goes"),
    [
        ({"nvidia.com/use-gputype": "a100"}, "b"),
        ({"nvidia.com/nouse-gputype": "A100,V100"}, "a"),
        ({"nvidia.com/use-gpuuuid": "GPU-b-1"}, "b"),
        ({"nvidia.com/nouse-gpuuuid": "GPU-a-0,GPU-a-1,GPU-b-0"}, "b"),
        ({"nvidia.com/use-gputype": "H100"}, None),
    ],
)
def test_wishes_for_cards_are_heeded(annotations: dict[str, str], goes: str | None):
    world = HamiWorld()
    world.machine("a")
    world.machine("b", type="NVIDIA-A100-SXM4-40GB")
    world.card_pod("pod", 4000, annotations=annotations)
    world.run()
    assert world.where().get("pod") == goes
    if goes is None:
        why = world.why("Pod", "pod")
        assert why is not None
        assert "2 node(s) without a card as asked for" in why.message


def test_cordoned_and_unhealthy_cards_and_those_in_mig_mode_take_nobody():
    world = HamiWorld()
    world.machine("a", 1, health=False)
    world.machine("b", 1, mode="mig")
    world.machine("c", 1, annotations={CORDON: "GPU-c-0"})
    world.card_pod("pod", 4000)
    world.run()
    assert not world.where()
    world.say("c", {CORDON: None})
    world.run()
    assert world.where() == {"pod": "c"}


def test_who_finds_only_cards_in_mig_mode_is_told_who_serves_those():
    """HAMi's own scheduler chooses instances by its configuration (`knownMigGeometries`)."""
    world = HamiWorld()
    world.machine("a", 2, mode="mig")
    world.machine("b", 1, health=False)
    world.card_pod("pod", 4000)
    world.card_pod("wish", 4000, annotations={"nvidia.com/vgpu-mode": "mig"})
    world.run()

    for name in ("pod", "wish"):
        said = world.why("Pod", name).message
        assert "3 cards there take nobody new: 2 in mode mig, 1 unhealthy" in said
        assert "cards in mode mig are left to HAMi's own scheduler" in said


def test_whole_cards_can_be_had_of_nodes_without_hami_and_parts_cannot():
    world = HamiWorld()
    world.node("plain", gpus=2)
    world.card_pod("whole")
    world.card_pod("part", 4000)
    world.run()
    assert world.where() == {"whole": "plain"}
    assert world.binds()[0].card_lock is None
    why = world.why("Pod", "part")
    assert why is not None
    assert "1 node(s) without cards of HAMi" in why.message


def test_memory_without_a_count_is_told():
    world = HamiWorld()
    world.machine("a")
    world.card_pod("pod", limits={MEMORY: "4000"})
    world.run()
    assert world.reason("Pod", "pod") == "InvalidPod"
    assert "write nvidia.com/gpu: 1" in world.pod_condition("pod").message


@pytest.mark.parametrize("said", [{"gpu-fraction": "0.5"}, {"gpu-memory": "4000"}, {"gpu-fraction-num-devices": "2"}])
@pytest.mark.parametrize("hami", [{}, None])
def test_parts_of_gpus_as_kai_asks_for_them_are_refused_with_the_reason(
    hami: dict[str, str] | None, said: dict[str, str]
):
    world = HamiWorld(hami=hami)
    world.machine("a")
    world.pod("pod", gpus=0, annotations=said)
    world.pod("other", gpus=0)
    world.run()
    assert set(world.where()) == {"other"}
    assert world.reason("Pod", "pod") == "UnsupportedGPUSharing"
    told = world.pod_condition("pod").message
    assert f"annotation {min(said)}: " in told
    assert "leave the pod to kai-scheduler" in told


def test_a_gpu_that_a_reservation_pod_of_kai_holds_is_taken():
    world = HamiWorld(hami=None)
    world.node("a", gpus=1)
    world.pod("gpu-reservation-0123456789abcdef", gpus=1, node="a", scheduler="kai-scheduler")
    world.pod("pod", gpus=1)
    world.run()
    assert "pod" not in world.where()
    world.delete("gpu-reservation-0123456789abcdef")
    world.run()
    assert world.where() == {"pod": "a"}


def test_without_hami_in_the_configuration_its_annotations_mean_nothing():
    world = HamiWorld(hami=None)
    world.machine("a", 1)
    world.card_pod("pod", limits={GPU: "1"})
    world.run()
    assert world.where() == {"pod": "a"}
    assert ALLOCATED not in world.pods["default", "pod"].metadata.annotations
    assert not world.engine.state.cluster.nodes.cards


def test_shared_and_mig_resources_are_counted_as_they_are():
    world = HamiWorld(hami=None)
    world.node("a", gpus=0)
    offers = {**world.nodes["a"].status.allocatable, "nvidia.com/gpu.shared": "4", "nvidia.com/mig-1g.5gb": "7"}
    world.nodes["a"] = replaced(world.nodes["a"], status=replaced(world.nodes["a"].status, allocatable=offers))
    world.tell(NodeSeen(world.nodes["a"]))
    world.flavor()
    names = {"nvidia.com/gpu.shared": 3, "nvidia.com/mig-1g.5gb": 2, "cpu": 100, "memory": "1000Gi"}
    quotas = [{"name": name, "nominalQuota": amount} for name, amount in names.items()]
    group = {"coveredResources": list(names), "flavors": [{"name": "default", "resources": quotas}]}
    world.object("ClusterQueue", "team", {"namespaceSelector": {}, "resourceGroups": [group]})
    world.object("LocalQueue", "queue", {"clusterQueue": "team"})
    world.sharing_gang("shared", 3, limits={"nvidia.com/gpu.shared": "1"}, queue="queue")
    for at in range(3):
        world.card_pod(f"mig-{at}", limits={"nvidia.com/mig-1g.5gb": "1"}, queue="queue")
    world.run()
    assert len(world.where("shared")) == 3
    assert len(world.where("mig")) == 2
    assert world.used("team", resource="nvidia.com/gpu.shared") == 3


HOSTILE = [
    "", "[", "null", "{}", "[[[[", "[1]", '[{"id":"x"}', '[{"id":1}]', '[{"id":"a,b","health":true}]',
    json.dumps([card(0, "a", devmem=2**40)]), json.dumps([card(0, "a", count=-1)]), json.dumps([card(0, "a", count=10**6)]),
    json.dumps([card(0, "a")] * 2), json.dumps([card(at, "a") for at in range(65)]), "x" * 300_000, "[" * 100_000,
    json.dumps([card(0, "a", devcore=-1)]), json.dumps([card(0, "a", devmem=-1)]), json.dumps([{**card(0, "a"), "id": ""}]),
    json.dumps([{**card(0, "a"), "id": "x" * 129}]), json.dumps([{**card(0, "a"), "id": "a\tb"}]),
    json.dumps([{**card(0, "a"), "id": "a;b"}]), json.dumps([card(0, "a")]) + " " * 300_000,
    "a,1,2,3:", "\x00",
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
def test_a_register_that_cannot_be_right_costs_its_node_only(text: str):
    world = HamiWorld()
    world.machine("a", 1)
    world.say("a", {REGISTER: text})
    world.card_pod("pod", 4000)
    world.run()
    assert not world.where()
    world.machine("b", 1)
    world.run()
    assert world.where() == {"pod": "b"}


@examples(25)
@given(
    st.dictionaries(
        st.sampled_from([
            "nvidia.com/use-gputype", "nvidia.com/use-gpuuuid", "nvidia.com/nouse-gpuuuid", "nvidia.com/vgpu-mode",
            "nvidia.com/numa-bind", "hami.io/gpu-scheduler-policy", "hami.io/node-scheduler-policy", NODE, ALLOCATED,
            BIND_PHASE, "hami.io/bind-time", "gpu-memory",
        ]),
        st.one_of(st.text(max_size=20), st.sampled_from(["x," * 5000, "a", "1" * 400, "GPU-a-0,NVIDIA,99999999999,1:;"])),
    ),
    st.dictionaries(
        st.sampled_from([GPU, MEMORY, "nvidia.com/gpucores", PERCENTAGE]),
        st.sampled_from(["0", "1", "2", "64", "65", "-1", "9223372036854775807", "1e30", "x", "500m"]),
    ),
)  # fmt: skip
def test_whatever_a_pod_says_everybody_else_goes_on(annotations: dict[str, str], limits: dict[str, str]):
    world = HamiWorld()
    world.machine("a", 1)
    world.card_pod("hostile", limits=limits, annotations=annotations)
    world.card_pod("there", limits=limits, annotations=annotations, node="a", scheduler="other")
    world.machine("b", 1)
    world.card_pod("pod", 4000)
    world.run()
    assert "pod" in world.where()


DEMANDS = st.tuples(
    st.sampled_from([0, 1000, 4000, 5333, 8000, 16000]), st.sampled_from([0, 10, 25, 50, 100]), st.integers(1, 3)
)


@examples(40)
@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
    st.lists(st.tuples(DEMANDS, st.integers(1, 5), st.booleans()), min_size=1, max_size=8),
)
def test_no_card_is_ever_promised_twice(machines, steps):
    world = HamiWorld()
    for at, cards in enumerate(machines):
        world.machine(f"n{at}", cards)
    for at, ((memory, cores, count), size, restarts) in enumerate(steps):
        world.sharing_gang(f"g{at}", size, memory, cores=cores, count=count)
        world.run()
        placed = world.where(f"g{at}")
        assert len(placed) in (0, size)
        if restarts:
            world.restart()
        if at % 3 == 2 and placed:
            world.delete(*placed)
            world.run()
        for node in world.nodes:
            assert all(used <= 16000 and busy <= 100 and slots <= 10 for used, busy, slots in world.taken(node)), (
                world.taken(node)
            )
        for name in world.where():
            for mine in world.parts(name):
                assert len({one for one, _, _ in mine}) == len(mine)


def test_what_cards_lack_is_told_in_numbers():
    world = HamiWorld()
    world.machine("a", 2)
    world.card_pod("first", 10000, cores=60)
    world.card_pod("second", 9000)
    world.run()
    world.sharing_gang("late", 2, 8000, cores=50)
    world.run()
    why = world.why("PodGroup", "late")
    assert why is not None
    assert (
        "0/1 nodes are available: 1 node(s) with too little free on each card. On 1 node no card has 8000 MiB and 50 % of "
        "the compute free; the largest hole is 7000 MiB, 100 % of the compute and 9 slots, on card 1 (GPU-a-1) of a."
    ) in why.message
    world.delete("first")
    world.run()
    why = world.why("PodGroup", "late")
    assert why is None
    world.sharing_gang("many", 5, 4000)
    world.run()
    why = world.why("PodGroup", "many")
    assert why is not None
    assert "Cards have room for 1 of 5 pods." in why.message


def test_the_lock_of_a_pod_that_is_no_more_closes_no_node():
    world = HamiWorld()
    world.machine("a", 1)
    world.say("a", {LOCK: f"{timestamp(world.now - 60)},default,gone"})
    world.card_pod("pod", 4000)
    world.hold_binds = True
    world.run()
    assert [bind.node for bind in world.pending_binds] == ["a"]


def test_room_for_members_yet_to_be_made_is_kept_on_cards_and_handed_over():
    world = HamiWorld()
    world.machine("a", 1)
    asked = {"cpu": "1", "memory": "1Gi", GPU: "1", MEMORY: "8000"}
    template = {"spec": {"containers": [{"name": "c", "resources": {"requests": asked}}]}}
    world.workload("job", {"name": "w", "count": 2, "template": template})
    labels = {"scheduling.tutti.dev/workload": "job", "scheduling.tutti.dev/pod-group": "w"}
    world.card_pod("w-0", 8000, labels=labels)
    world.run()
    world.card_pod("other", 8000)
    world.run()
    assert "other" not in world.where()
    world.card_pod("w-1", 8000, labels=labels)
    world.run()
    assert set(world.where()) == {"w-0", "w-1"}
    assert world.taken("a") == [(16000, 0, 2)]


def test_a_pod_of_which_too_many_containers_ask_for_cards_is_refused_with_the_reason():
    world = HamiWorld()
    world.machine("a", 2)
    pod = world.card_pod("many", 100)
    containers = [replaced(pod.spec.containers[0], name=f"c{at}") for at in range(9)]
    world.put(
        replaced(pod, metadata=replaced(pod.metadata, name="nine"), spec=replaced(pod.spec, containers=containers))
    )
    eight = replaced(pod.spec, containers=containers[:8])
    world.put(replaced(pod, metadata=replaced(pod.metadata, name="eight", uid="eight"), spec=eight))
    world.run()
    assert set(world.where()) == {"many", "eight"}
    why = world.why("Pod", "nine")
    assert why is not None
    assert "9 containers of the pod ask for nvidia.com/gpu, and 8 is the most that is placed" in why.message


def test_who_asks_for_no_cards_has_none_whatever_he_says_and_others_no_more_than_they_ask_for():
    world = HamiWorld()
    world.machine("a", 2)
    said = {NODE: "a", ALLOCATED: "GPU-a-0,NVIDIA,16000,100:GPU-a-1,NVIDIA,16000,100:;"}
    world.card_pod("liar", limits={}, annotations=said, node="a", scheduler="other")
    world.card_pod("greedy", 4000, annotations=said, node="a", scheduler="hami-scheduler")
    world.sharing_gang("g", 2, 12000)
    world.run()
    assert {"g-0", "g-1"} <= set(world.where())
    assert world.engine.state.cluster.nodes.cards.used_memory.tolist() == [[16000, 12000]]


def test_a_gang_that_is_half_bound_goes_on_when_a_plugin_that_fell_silent_answers():
    world = HamiWorld(answers=False)
    world.machine("a", 1)
    world.machine("b", 1)
    world.sharing_gang("g", 4, 8000)
    world.run()
    first = {node: name for name, node in world.where("g").items()}
    assert set(first) == {"a", "b"}
    world.serve(first["a"])
    world.run()
    assert len(world.where("g")) == 3
    world.serve(next(name for name, node in world.where("g").items() if node == "a" and name != first["a"]))
    world.until(40)
    assert "b" in world.engine.state.cluster.nodes.cards.silent
    assert len(world.where("g")) == 3

    world.serve(first["b"])
    world.run()
    assert len(world.where("g")) == 4


def test_a_gang_whose_pods_share_cards_by_several_containers_fills_a_node():
    world = HamiWorld()
    world.machine("a", 2)
    world.pod_group("g", 8)
    for rank in range(8):
        begun = {GPU: "1", MEMORY: "4000"}
        world.card_pod(f"g-{rank}", 3000, group="g", begun=begun)
    world.run()
    assert len(world.where("g")) == 8
    world.card_pod("ninth", 1000)
    world.run()
    assert "ninth" not in world.where()


def test_who_is_served_or_gone_is_awaited_on_his_node_no_more():
    world = HamiWorld(answers=False)
    for node in ("a", "b"):
        world.machine(node, 1)
        world.card_pod(f"on-{node}", 12000)
    world.run()
    where, allocating = world.where(), world.engine.state.cluster.nodes.card_holders.allocating
    assert {node: [name for _, name in pods] for node, pods in allocating.items()} == {
        node: [name] for name, node in where.items()
    }
    world.serve("on-a")
    world.delete("on-b")
    world.run()
    assert not allocating


def test_a_pod_seen_before_the_cards_of_its_node_has_no_more_of_them_than_it_asks_for():
    world = HamiWorld()
    said = {NODE: "a", ALLOCATED: "GPU-a-0,NVIDIA,2147483647,100:;"}
    world.card_pod("tenth", percent=10, annotations=said, node="a", scheduler="hami-scheduler")
    world.machine("a", 1)
    world.run()
    cards = world.engine.state.cluster.nodes.cards
    cards.sync()
    assert cards.used_memory.tolist() == [[1600]]
    assert cards.used_slots.tolist() == [[1]]
    world.delete("tenth")
    world.run()
    assert cards.used_memory.tolist() == [[0]]


@pytest.mark.parametrize("restarts", [False, True])
def test_what_victims_leave_of_a_card_is_kept_for_whom_they_leave(restarts: bool):
    world = HamiWorld()
    world.machine("a", 1)
    world.hold_evictions = True
    for name in ("low-0", "low-1"):
        world.card_pod(name, 8000)
    world.run()
    world.card_pod("high", 12000, priority=100)
    world.run()
    assert world.reason("Pod", "high") == "WaitingForVictims"

    world.delete("low-0")
    if restarts:
        world.restart()
    world.card_pod("next", 8000)
    world.run()
    assert set(world.where()) == {"low-1"}, "half a card is free, and another's"

    world.delete("low-1")
    world.run()
    assert set(world.where()) == {"high"}
    world.card_pod("small", 4000)
    world.run()
    assert set(world.where()) == {"high", "small"}
    assert world.taken("a") == [(16000, 0, 2)]


def test_whose_pod_has_the_lock_of_a_node_is_told_by_name_in_its_own_namespace_alone():
    """What is written of why a gang waits is read by whoever may look into its namespace."""
    for namespace, named in (("default", True), ("elsewhere", False)):
        world = HamiWorld(answers=False)
        world.machine("a", 1)
        pod = world.card_pod("secret-plan", 4000, scheduler="hami-scheduler", node="a", namespace=namespace)
        world.say("a", {LOCK: f"{timestamp(world.now)},{namespace},secret-plan"})
        world.sharing_gang("g", 2, 4000)
        world.run()
        why = world.why("PodGroup", "g")

        assert why.reason == "WaitingForNodeLock"
        assert ("secret-plan" in why.message) is named
        if not named:
            assert f"a Pod of another namespace (uid {pod.metadata.uid})" in why.message
            assert not [one for one in world.events() if "secret-plan" in one.note or "elsewhere" in one.note]
