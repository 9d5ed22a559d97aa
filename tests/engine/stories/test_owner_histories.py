"""Owners that change shape while their pods run: room and quota are what is there, and a restart agrees on what runs.

LeaderWorkerSets, with a leader before its workers, are edited while pods come and go. After every step there is rest,
nothing is held that nobody waits for, and what runs is counted in the same queues by the next process.
"""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from bench.simulation.recounting import recounted
from tests.drawing import examples
from tests.engine.ingest.owners import IN_QUEUE, template
from tests.engine.world import World
from tutti.api.core import OwnerReference
from tutti.engine.records.workloads import GangStyle, Phase

LWS = "leaderworkerset.sigs.k8s.io/"
NAMES = ["a", "b"]
SHAPES = st.tuples(
    st.sampled_from(["LeaderReady", "LeaderCreated"]),
    st.sampled_from([1, 2, 3, 4, -8]),
    st.sampled_from([True, False]),
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("shape"), st.sampled_from(NAMES), SHAPES),
        st.tuples(st.just("shape"), st.sampled_from(NAMES), SHAPES),
        st.tuples(st.just("pod"), st.sampled_from(NAMES), st.integers(0, 3)),
        st.tuples(st.just("pod"), st.sampled_from(NAMES), st.integers(0, 3)),
        st.tuples(st.just("delete"), st.integers(0, 20)),
        st.tuples(st.just("finish"), st.integers(0, 20)),
        st.tuples(st.just("vip"), st.integers(1, 4)),
        st.tuples(st.just("wait"), st.sampled_from([1, 70])),
        st.tuples(st.just("restart"), st.booleans()),
    ),
    max_size=20,
)


def shape(world: World, name: str, policy: str, size: int, *, queued: bool) -> OwnerReference:
    spec = {
        "startupPolicy": policy,
        "leaderWorkerTemplate": {"size": size, "leaderTemplate": template(), "workerTemplate": template()},
    }
    return world.owner("LeaderWorkerSet", name, labels=IN_QUEUE if queued else {}, spec=spec)


def do(world: World, step: tuple[Any, ...], index: int, tops: dict[str, OwnerReference]) -> None:
    names = [name for (_, name), pod in world.pods.items() if not pod.terminated]
    match step:
        case ("shape", name, (policy, size, queued)):
            shape(world, name, policy, size, queued=queued)
        case ("pod", name, rank) if ("default", f"{name}-{rank}") not in world.pods:
            marks = {f"{LWS}group-key": name, f"{LWS}worker-index": str(rank)}
            world.pod(f"{name}-{rank}", owner=tops[name], labels=marks)
        case ("delete", at) if names:
            world.delete(names[at % len(names)])
        case ("finish", at) if names and world.pods["default", names[at % len(names)]].spec.node_name:
            world.finish(names[at % len(names)])
        case ("vip", gpus):
            world.pod(f"vip-{index}", gpus=gpus, priority=10)
        case ("wait", seconds):
            world.until(float(seconds))
        case ("restart", backwards):
            before = charged(world)
            world.restart(backwards=backwards)
            world.decide()
            after = charged(world)
            assert {name: after.get(name) for name in before} == before


def charged(world: World) -> dict[str, str]:
    """In which queue each pod is counted that has a node; "" for none."""
    members = (member for one in world.engine.state.workloads.values() for member in one.members())
    running = [one for one in members if one.pod.node and not one.pod.terminated]
    return {one.pod.name: "" if one.charge is None else one.charge.queue for one in running}


def check(world: World) -> None:
    state = world.engine.state
    assert (state.cluster.nodes.requested == recounted(state.cluster)).all()
    held = uses = 0
    for workload in state.workloads.values():
        holds = [hold for group in workload.groups.values() for hold in group.holds]
        assert not holds or (workload.phase is Phase.BINDING and workload.style is GangStyle.WITH_ROOM)
        assert len(holds) <= workload.required
        held += sum(hold.charge is not None for hold in holds)
        uses += sum(member.charge is not None for member in workload.members())
    assert world.used("team") == uses + held


@examples(60, suppress_health_check=list(HealthCheck))
@given(steps=STEPS)
def test_room_and_quota_follow_owners_that_change(steps):
    world = World()
    world.follow_owners()
    world.flavor()
    world.queue("team", 6, preemption={"withinClusterQueue": "LowerPriority"})
    world.node("n0", gpus=4)
    world.node("n1", gpus=4)
    tops = {name: shape(world, name, "LeaderReady", 3, queued=name == "a") for name in NAMES}
    for index, step in enumerate(steps):
        do(world, step, index, tops)
        world.run()
        check(world)
    assert not world.replay().differences
    for name in [name for _, name in world.pods]:
        world.delete(name)
    world.until(30)
    assert world.engine.state.workloads == {}
    assert world.used("team") == 0
    assert world.engine.state.unpaid == {}
