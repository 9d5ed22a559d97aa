"""Whom the engine takes out for one pod is whom kube-scheduler's rule says, written down naively."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.differential.scheduler_reading import decided
from tests.drawing import examples
from tests.placement.naive_preemption import Cleared, World, cost, preempt, priority, violating
from tests.placement.scenes import KEYS, LABELS, SELECTORS, nodes
from tests.placement.storage import claim, csi_node, using, volume
from tutti.api.core import Node, Pod
from tutti.api.limits import PodDisruptionBudget
from tutti.engine.records.decisions import Bind, Evict, SetPodCondition

DRIVER = "csi.example.com"
PLAIN = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}
OFFERED = {"allocatable": {"cpu": "6", "memory": "4Gi", "pods": "8"}}
PORTS = [{"hostPort": 80}, {"hostPort": 80, "protocol": "UDP"}, {"hostPort": 80, "hostIP": "10.0.0.1"}]


def terms() -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({"topologyKey": st.sampled_from(KEYS), "labelSelector": st.sampled_from(SELECTORS)})


@st.composite
def specs(draw: st.DrawFn, *, may: tuple[str, ...], claims: list[str]) -> dict[str, Any]:
    """A pod's spec but for its node, its priority and its claims."""
    container: dict[str, Any] = {"name": "c", "resources": {"requests": {"cpu": draw(st.sampled_from("12"))}}}
    spec: dict[str, Any] = {"containers": [container]}
    kinds = {draw(st.sampled_from(("", *may))), draw(st.sampled_from(("", "", *may)))}
    if "port" in kinds:
        container["ports"] = [{"containerPort": 80, **draw(st.sampled_from(PORTS))}]
    affinity: dict[str, Any] = {}
    for kind, side in (("near", "podAffinity"), ("apart", "podAntiAffinity")):
        if kind in kinds:
            affinity[side] = {"requiredDuringSchedulingIgnoredDuringExecution": [draw(terms())]}
    if affinity:
        spec["affinity"] = affinity
    if "spread" in kinds:
        spec["topologySpreadConstraints"] = [
            {
                "topologyKey": draw(st.sampled_from(KEYS)),
                "maxSkew": draw(st.integers(1, 2)),
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": draw(st.sampled_from(SELECTORS)),
            }
        ]
    if "disk" in kinds:
        spec["volumes"] = [{"name": "disk", "gcePersistentDisk": {"pdName": "x"}}]
    if "claim" in kinds and claims:
        spec |= using(draw(st.sampled_from(claims)))
    return spec


def made(name: str, spec: dict[str, Any], labels: dict[str, str], status: dict[str, Any]) -> Pod:
    meta = {"name": name, "namespace": "default", "uid": f"uid-{name}", "labels": labels}
    return msgspec.convert({"metadata": meta, "spec": spec, "status": status}, Pod)


@st.composite
def budgets(draw: st.DrawFn) -> list[PodDisruptionBudget]:
    return [
        msgspec.convert(
            {
                "metadata": {"name": f"b{i}", "namespace": "default"},
                "spec": {"selector": draw(st.sampled_from(SELECTORS))},
                "status": {"disruptionsAllowed": draw(st.integers(0, 2))},
            },
            PodDisruptionBudget,
        )
        for i in range(draw(st.integers(1, 2)))
    ]


@st.composite
def worlds(draw: st.DrawFn, *, protected: bool) -> World:
    """Up to 4 nodes with up to 9 pods of 4 priorities, and a pod that wants one of them."""
    there = draw(nodes(4))
    names = [one.metadata.name for one in there]
    modes = draw(st.lists(st.sampled_from(["ReadWriteOncePod", "ReadWriteMany"]), max_size=3))
    storage: list[Any] = [claim(f"d{i}", volume=f"v{i}", modes=(mode,)) for i, mode in enumerate(modes)]
    storage += [volume(f"v{i}", driver=DRIVER) for i in range(len(modes))]
    limits = draw(st.lists(st.sampled_from([None, 1, 2]), min_size=len(names), max_size=len(names)))
    storage += [csi_node(name, csi_example_com=most) for name, most in zip(names, limits, strict=True)]
    claims = [f"d{i}" for i in range(len(modes))]
    order = draw(st.permutations(range(10)))
    pods, used = [], set[str]()
    for i in range(draw(st.integers(1, 9))):
        spec = draw(specs(may=("port", "apart", "near", "disk", "claim"), claims=claims))
        once = {c for c in claims if modes[int(c[1:])] == "ReadWriteOncePod" and c in str(spec.get("volumes", ""))}
        if once & used:
            spec["volumes"] = []
        used |= once
        where = draw(st.sampled_from(names))
        spec |= {"nodeName": where, "priority": draw(st.integers(-1, 2)), "tolerations": [{"operator": "Exists"}]}
        started = f"2026-01-01T00:00:{order[i]:02}Z"
        status = {"phase": "Running", "startTime": started}
        pods.append(made(f"e{i}", spec, draw(st.sampled_from(LABELS)), status))
    wanted = draw(specs(may=("port", "apart", "near", "spread", "disk", "claim"), claims=claims))
    wanted |= {"priority": draw(st.integers(0, 3))}
    if draw(st.booleans()):
        wanted["tolerations"] = [{"key": "k", "operator": "Exists"}]
    probe = made("probe", wanted, draw(st.sampled_from(LABELS)), {})
    return World(there, pods, probe, budgets=draw(budgets()) if protected else (), storage=storage)


def answer(world: World) -> Cleared | None:
    """Whom the engine takes out, and for which node; None where nobody."""
    out = decided(world).decisions
    assert not any(isinstance(one, Bind) for one in out)
    gone = {one.name for one in out if isinstance(one, Evict)}
    if not gone:
        return None
    victims = [pod for pod in world.pods if pod.metadata.name in gone]
    (node,) = {one.nominated_node for one in out if isinstance(one, SetPodCondition) and one.nominated_node}
    assert all(priority(pod) < priority(world.probe) for pod in victims)
    assert world.fits(node, victims)
    return Cleared(node, victims)


@examples(150)
@given(worlds(protected=False))
def test_one_pod_takes_out_whom_kube_scheduler_would(world):
    assume(not any(feasible for feasible, _ in world.assessed().values()))
    expected, found = preempt(world), answer(world)
    if expected is not None:
        assert found is not None
        assert (found.cost, found.names) == (expected.cost, expected.names)
        assert found.node == expected.node
    elif found is not None:  # pods on several nodes, which kube-scheduler does not look for
        for pod in found.victims:
            assert not world.fits(found.node, [other for other in found.victims if other is not pod])


def test_nobody_leaves_who_was_in_the_way_only_before_others_were_put_back():
    """A pod that must be near any pod may go anywhere while there is none, and to no empty node once there is one."""
    racks = [{"kubernetes.io/hostname": "n0", "rack": "r"}, {"kubernetes.io/hostname": "n1"}]
    there = [
        msgspec.convert({"metadata": {"name": one["kubernetes.io/hostname"], "labels": one}, "status": OFFERED}, Node)
        for one in racks
    ]
    anybody = [{"topologyKey": "kubernetes.io/hostname", "labelSelector": {}}]
    away = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": anybody}}}
    near = {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": anybody}}}
    in_racks = {"topologyKey": "rack", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
    pods = [
        on("alone", "n0", priority=2, **away),
        on("elsewhere", "n1", priority=2),
        on("beside", "n0", priority=1),
    ]
    probe = made("probe", {**PLAIN, **near, "topologySpreadConstraints": [in_racks], "priority": 3}, {}, {})
    found = answer(World(there, pods, probe))
    assert found is not None
    assert (found.node, found.names) == ("n0", ["default/alone"])


def on(name: str, node: str, **spec: Any) -> Pod:
    """A pod that runs on a node."""
    running = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}
    return made(name, {**PLAIN, "nodeName": node, **spec}, {}, running)


@examples(120)
@given(worlds(protected=True))
def test_budgets_are_counted_over_those_that_leave(world):
    """kube-scheduler counts them over all that might, so that it spares some whom no budget protects.

    Ours never does more cost than that, counted over those that leave.
    """
    assume(not any(feasible for feasible, _ in world.assessed().values()))
    expected, found = preempt(world), answer(world)
    assert expected is None or found is not None
    if expected is not None and found is not None:
        assert _harm(world, found) <= _harm(world, expected)


def _harm(world: World, cleared: Cleared) -> tuple[float, ...]:
    return cost(cleared.victims, len(violating(world.budgets, cleared.victims)))
