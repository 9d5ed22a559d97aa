"""An engine that is started anew on a cluster at rest takes the same decisions as one that has seen it come about.

Whatever is kept in memory must be told by the objects themselves: who holds how much quota and in which flavor, where a
gang is at home, who waits for what. Histories draw gangs with topology, workloads of several pod groups, resizes,
LocalQueues that are made anew, and nodes that go.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.drawing import examples
from tests.engine.world import GPU, World, replaced
from tutti.api.core import ResourceRequirements
from tutti.engine.records.decisions import Bind, Evict

RACKS = ("r0", "r1")
NEAR: list[dict[str, Any]] = [
    {},
    {"mode": "Required", "level": "rack"},
    {"mode": "Preferred", "level": "rack"},
    {"mode": "Required", "level": "rack", "groupName": "x"},
]
QUEUES = st.sampled_from(["", "one", "two"])


def begin() -> World:
    """Two queues of one cohort, two flavors, two racks with nodes of both kinds."""
    world = World()
    world.object("Topology", "t", {"levels": [{"nodeLabel": "rack"}, {"nodeLabel": "kubernetes.io/hostname"}]})
    for flavor in "ab":
        world.flavor(flavor, nodeLabels={"kind": flavor}, topologyName="t")
    world.queue("cq1", 3, cohort="c", flavors=("a", "b"), local="one")
    world.queue("cq2", 3, cohort="c", flavors=("b", "a"), local="two", preemption={"reclaimWithinCohort": "Any"})
    for i in range(4):
        put_node(world, i, 3)
    world.run()
    return world


def put_node(world: World, number: int, gpus: int) -> None:
    world.node(f"n{number}", gpus=gpus, labels={"rack": RACKS[number % 2], "kind": "ab"[number // 2 % 2]})


def gang(world: World, size: int, mode: str, queue: str, gpus: int, priority: int, surplus: int) -> None:
    """A PodGroup comes with its pods."""
    name = new_name(world, "g")
    near = {"schedulingConstraints": {"topology": [{"key": "rack", "mode": mode}]}} if mode else {}
    world.pod_group(name, size, disruptionMode="PodGroup", **near, **named(queue))
    for rank in range(size + surplus):
        world.pod(f"{name}-{rank}", group=name, gpus=gpus, priority=priority)


def workload(world: World, sizes: list[tuple[int, int]], near: list[dict[str, Any]], queue: str, priority: int) -> None:
    """A Workload comes with the pods of its groups: how many each has, and GPUs of each."""
    name = new_name(world, "w")
    groups = [
        {"name": f"g{i}", "count": count, **({"topology": one} if one else {})}
        for i, ((count, _), one) in enumerate(zip(sizes, near, strict=False))
    ]
    world.workload(name, *groups, priority=priority, **named(queue))
    for group, (count, gpus) in zip(groups, sizes, strict=True):
        for rank in range(count):
            world.pod(f"{name}-{group['name']}-{rank}", workload=name, group=group["name"], gpus=gpus)


def single(world: World, queue: str, gpus: int, priority: int) -> None:
    """A pod comes."""
    world.pod(new_name(world, "p"), queue=queue, gpus=gpus, priority=priority)


def end(world: World, which: int, how: str) -> None:
    """A pod that runs is deleted, ends, or is told to."""
    names = sorted(world.where())
    if names:
        getattr(world, how)(names[which % len(names)])


def resize(world: World, which: int, gpus: int) -> None:
    """Pods that run ask for more or less in place: all of a gang alike, and none while successors are waited for.

    What a status says is kept for them is believed as far as some member has as much.
    """
    names = sorted(world.where())
    if not names or any(one.losses for one in world.engine.state.workloads.values()):
        return
    ours = names[which % len(names)].rpartition("-")[0]
    for name in names:
        if not ours or name.rpartition("-")[0] == ours:
            pod = world.pods["default", name]
            asked = {**pod.spec.containers[0].resources.requests, GPU: str(gpus)}
            containers = [replaced(pod.spec.containers[0], resources=ResourceRequirements(asked))]
            world.put(replaced(pod, spec=replaced(pod.spec, containers=containers)))


def remake(world: World, queue: str, of: str) -> None:
    """A LocalQueue is removed and made anew, perhaps of another ClusterQueue."""
    if ("LocalQueue", "default", queue) in world.objects:
        world.remove_object("LocalQueue", queue)
        world.run()
    world.object("LocalQueue", queue, {"clusterQueue": of})


def fund(world: World, of: str, gpus: int) -> None:
    """A ClusterQueue is given other quota."""
    world.queue(of, gpus, cohort="c", flavors=("a", "b"), local="")


def lose(world: World, number: int) -> None:
    """A node is removed, and then its pods."""
    if f"n{number}" in world.nodes:
        world.remove_node(f"n{number}")
        world.run()
        world.delete(*(name for name, node in world.where().items() if node == f"n{number}"))


def named(queue: str) -> dict[str, str]:
    return {"queueName": queue} if queue else {}


MODES, GPUS, PRIORITIES = st.sampled_from(["", "Required", "Preferred"]), st.integers(0, 3), st.integers(0, 2)
LOCAL, OF = st.sampled_from(["one", "two"]), st.sampled_from(["cq1", "cq2"])
GANG = st.tuples(st.just(gang), st.integers(1, 3), MODES, QUEUES, st.integers(0, 2), PRIORITIES, st.integers(0, 1))
STEPS = st.one_of(
    GANG,
    GANG,
    st.tuples(
        st.just(workload),
        st.lists(st.tuples(st.integers(1, 2), st.integers(0, 2)), min_size=1, max_size=2),
        st.lists(st.sampled_from(NEAR), min_size=2, max_size=2),
        QUEUES,
        PRIORITIES,
    ),
    st.tuples(st.just(single), QUEUES, GPUS, PRIORITIES),
    st.tuples(st.just(end), st.integers(0, 20), st.sampled_from(["delete", "finish", "begin_deleting"])),
    st.tuples(st.just(resize), st.integers(0, 20), GPUS),
    st.tuples(st.just(remake), LOCAL, OF),
    st.tuples(st.just(fund), OF, st.integers(0, 4)),
    st.tuples(st.just(lose), st.integers(0, 3)),
    st.tuples(st.just(put_node), st.integers(0, 4), GPUS),
)


def new_name(world: World, prefix: str) -> str:
    """The same in worlds of which the same has been told."""
    return f"{prefix}{sum(name.startswith(prefix) for _, name in world.pods)}x{len(world.objects)}x{len(world.pods)}"


def afresh(world: World) -> World:
    """A world with the same cluster, of which its engine has seen nothing come about."""
    out = World()
    out.now = world.now
    for name in ("objects", "gang_objects", "nodes", "pods"):
        setattr(out, name, deepcopy(getattr(world, name)))
    rows = world.engine.state.cluster.nodes.rows
    out.nodes = dict(sorted(out.nodes.items(), key=lambda node: rows[node[0]]))  # of equals the first is taken
    out._uids = deepcopy(world._uids)
    out.restart()
    return out


def known(world: World) -> dict[Any, Any]:
    """What an engine thinks of its cluster: usage, who waits, and what each node has given away."""
    state = world.engine.state
    out: dict[Any, Any] = {("used", queue): dict(state.holdings.used(queue)) for queue in state.holdings.queues()}
    for name in ("default/one", "default/two"):
        out["local", name] = {what: n for what, n in state.counts.of(name).reserved.items() if n}
    for key, one in state.workloads.items():
        out[key] = (one.phase, one.explanation is not None)  # which gate is told first is as it was tried last
    for name, row in state.cluster.nodes.rows.items():
        out["node", name] = state.cluster.nodes.requested[row].tolist()
    return out


def acted(world: World, since: int) -> list[tuple[str, ...]]:
    """Who was bound where and who was asked to leave, since so many decisions."""
    binds = [("bind", one.name, one.node) for one in world.log[since:] if isinstance(one, Bind)]
    return sorted(binds) + sorted(("evict", one.name) for one in world.log[since:] if isinstance(one, Evict))


@examples(80)
@given(st.lists(STEPS, max_size=14))
def test_a_fresh_engine_knows_and_decides_the_same_at_every_quiet_point(history):
    world = begin()
    fresh: World | None = afresh(world)
    for step, *how in history:
        since, again = len(world.log), 0 if fresh is None else len(fresh.log)
        for one in filter(None, (world, fresh)):
            step(one, *how)
            one.run()
        assert fresh is None or acted(fresh, again) == acted(world, since)
        fresh = None
        if not world.engine.state.nominations.ours:  # nobody waits for others to leave
            fresh = afresh(world)
            fresh.run()
            assert acted(fresh, 0) == []
            now, before = known(fresh), known(world)
            assert {key: (now.get(key), said) for key, said in before.items() if now.get(key) != said} == {}
            assert now.keys() == before.keys()
