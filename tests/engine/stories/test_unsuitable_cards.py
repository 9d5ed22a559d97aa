"""Which cards will not do, which ways to ask for parts of them are refused, and how that is said."""

from __future__ import annotations

import pytest

from tests.engine.hami_world import HamiWorld
from tests.engine.world import GPU, replaced
from tutti.api.hami import ALLOCATED, CORDON, MEMORY


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
