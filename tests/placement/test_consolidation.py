"""Moves that make room in one piece: certain where they are found, and found where few pods are to be looked at."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.drawing import examples
from tests.placement.scenes import node, pod
from tests.placement.test_gang_preemption import Scene
from tutti.api.selectors import LabelSelector
from tutti.cluster.cluster import Cluster
from tutti.cluster.pods import PodRecord
from tutti.placement.gang import Ask
from tutti.placement.preemption.consolidation import (
    FoundMoves,
    MovableUnit,
    find_moves,
    lacks_one_piece_only,
    worth_clearing,
)
from tutti.placement.preemption.victim_cost import Budget
from tutti.placement.profile import DEFAULT_PROFILE
from tutti.placement.topology.request import LevelRequest, Together, TopologyPlacement


def unit(
    cluster: Cluster, *names: str, elastic: bool = False, topology: TopologyPlacement | None = None
) -> MovableUnit:
    pods = [cluster.pods["default", name] for name in names]
    classes = dict.fromkeys(one.pod_class for one in pods)
    of = {each: [one for one in pods if one.pod_class is each] for each in classes}
    asks = [Ask(each, len(some), topology=topology) for each, some in of.items()]
    return MovableUnit([one for some in of.values() for one in some], asks, DEFAULT_PROFILE, elastic, names[0])


def found(
    scene: Scene, asks: Sequence[Ask], units: Sequence[MovableUnit], *, most: int = 8, **more: object
) -> FoundMoves | None:
    before = scene.cluster.nodes.requested.copy()
    out = find_moves(scene.cluster, asks, units, profile=DEFAULT_PROFILE, most=most, **more)  # type: ignore[arg-type]
    assert (scene.cluster.nodes.requested == before).all(), "looking changes nothing"
    return out


class Kept(Scene):
    """A scene that knows its pods by name."""

    def running(
        self, names: str, where: str, *, cpu: str = "1", priority: int = 0, started: int = 0, **more: object
    ) -> None:
        for name in names.split():
            self.cluster.put_pod(pod(name, node=where, cpu=cpu, priority=priority, **more), keep=True)  # type: ignore[arg-type]


def moved(scene: Scene, units: Sequence[MovableUnit], out: FoundMoves | None) -> list[str]:
    return [] if out is None else sorted(one.name for index, _ in out.moved for one in units[index].pods)


def test_the_fewest_pods_are_moved_that_will_do():
    scene = Kept(a=8, b=8)
    scene.running("a0 a1", "a", cpu="2")
    scene.running("b0", "b", cpu="4")
    units = [unit(scene.cluster, name) for name in ("a0", "a1", "b0")]
    out = found(scene, [scene.ask(1, "8")], units)
    assert moved(scene, units, out) == ["b0"]


def test_what_a_gang_can_do_without_goes_first_even_where_it_is_more():
    scene = Kept(a=8, b=8)
    scene.running("a0 a1", "a", cpu="2")
    scene.running("b0", "b", cpu="4")
    units = [
        unit(scene.cluster, "a0", elastic=True),
        unit(scene.cluster, "a1", elastic=True),
        unit(scene.cluster, "b0"),
    ]
    assert moved(scene, units, found(scene, [scene.ask(1, "8")], units)) == ["a0", "a1"]


@pytest.mark.parametrize(("taken", "fits"), [("3", True), ("4", True), ("5", False)])
def test_nobody_is_moved_without_a_node_for_all(taken, fits):
    scene = Kept(a=8, b=8)
    scene.running("a0", "a", cpu=taken)
    scene.running("b0", "b", cpu="4")
    units = [unit(scene.cluster, "a0")]
    out = found(scene, [scene.ask(1, "7")], units)
    assert moved(scene, units, out) == (["a0"] if fits else [])


def test_a_gang_that_lacks_more_than_one_piece_is_not_helped():
    scene = Kept(a=8, b=8)
    scene.running("a0", "a", cpu="5")
    scene.running("b0", "b", cpu="5")
    ask = scene.ask(1, "8")
    assert not lacks_one_piece_only(scene.cluster, [ask], DEFAULT_PROFILE)
    assert found(scene, [ask], [unit(scene.cluster, "a0"), unit(scene.cluster, "b0")]) is None


@pytest.mark.parametrize(("allowed", "fits"), [(1, True), (0, False)])
def test_disruption_budgets_are_kept(allowed, fits):
    scene = Kept(a=8, b=8)
    scene.running("a0", "a", cpu="4", labels={"app": "web"})
    scene.running("b0", "b", cpu="4", labels={"app": "web"})
    budget = Budget("default", LabelSelector({"app": "web"}), allowed)
    units = [unit(scene.cluster, "a0"), unit(scene.cluster, "b0")]
    out = found(scene, [scene.ask(1, "8")], units, budgets=[budget])
    assert len(moved(scene, units, out)) == int(fits)


@pytest.mark.parametrize(("most", "fits"), [(2, True), (1, False)])
def test_no_more_than_so_many_are_moved(most, fits):
    scene = Kept(a=8, b=8)
    scene.running("a0 a1", "a", cpu="2")
    scene.running("b0 b1", "b", cpu="2")
    units = [unit(scene.cluster, name) for name in ("a0", "a1", "b0", "b1")]
    assert (found(scene, [scene.ask(1, "8")], units, most=most) is not None) is fits


def test_a_gang_is_moved_whole_and_may_come_back_to_what_it_leaves():
    scene = Kept(a=8, b=8)
    scene.running("g0", "a", cpu="4")
    scene.running("g1", "b", cpu="4")
    units = [unit(scene.cluster, "g0", "g1")]
    out = found(scene, [scene.ask(1, "8")], units)
    assert out is not None
    where = {int(row) for rows in out.moved[0][1] for row in rows}
    assert where.isdisjoint(out.rows[0].tolist())


RACK = "topology.example.com/rack"


def test_who_is_moved_stays_as_near_as_it_must_be():
    scene = Kept()
    for name, rack, cpu in (("a", "r0", 8), ("b", "r0", 4), ("c", "r1", 4), ("d", "r1", 2)):
        scene.cluster.put_node(node(name, cpu=cpu, labels={RACK: rack, "kubernetes.io/hostname": name}))
    scene.running("g0", "a", cpu="4")
    scene.running("g1", "b", cpu="4")
    near = TopologyPlacement((RACK,), LevelRequest(Together.REQUIRED, RACK), "g")
    for topology, fits in ((None, True), (near, False)):
        units = [unit(scene.cluster, "g0", "g1", topology=topology)]
        assert (found(scene, [scene.ask(1, "8")], units) is not None) is fits


def test_nodes_that_lack_least_are_looked_at_and_full_ones_that_can_never_do_are_not():
    scene = Kept(a=8, b=8, c=4)
    scene.running("a0", "a", cpu="4")
    rows = worth_clearing(scene.cluster, [scene.ask(1, "8")], DEFAULT_PROFILE)
    names = [name for name, chosen in zip(scene.cluster.nodes.names, rows, strict=True) if chosen]
    assert "a" in names
    assert "c" not in names


CPUS = st.integers(1, 4)


@st.composite
def scenes(draw: st.DrawFn) -> tuple[Kept, list[MovableUnit], Ask]:
    sizes = draw(st.lists(st.integers(2, 6), min_size=2, max_size=3))
    scene = Kept(**{f"n{i}": size for i, size in enumerate(sizes)})
    names: list[str] = []
    for index, size in enumerate(sizes):
        left = size
        for number in range(draw(st.integers(0, 2))):
            cpu = draw(st.integers(1, 3))
            if cpu > left:
                break
            left -= cpu
            names.append(f"p{index}{number}")
            scene.running(names[-1], f"n{index}", cpu=str(cpu))
    movable = [name for name in names if draw(st.booleans())]
    pairs = draw(st.booleans()) and len(movable) > 1
    units = [unit(scene.cluster, *movable[:2])] if pairs else []
    units += [unit(scene.cluster, name) for name in (movable[2:] if pairs else movable)]
    return scene, units, scene.ask(draw(st.integers(1, 2)), str(draw(st.integers(2, 6))))


def by_brute_force(scene: Kept, units: Sequence[MovableUnit], ask: Ask) -> int | None:
    """Return the fewest pods whose moving would do, by trying everything; None where nothing would."""
    nodes = scene.cluster.nodes
    free = {row: int(nodes.allocatable[row, 0] - nodes.requested[row, 0]) for row in range(len(nodes.names))}
    best: int | None = None
    for size in range(len(units) + 1):
        for some in combinations(units, size):
            pods: list[PodRecord] = [one for each in some for one in each.pods]
            if best is not None and len(pods) >= best:
                continue
            room = dict(free)
            for one in pods:
                room[nodes.rows[one.place]] += one.held["cpu"]
            wanted = [ask.pod_class.requests["cpu"]] * ask.required + [one.held["cpu"] for one in pods]
            if _packs(room, wanted):
                best = len(pods)
    return best


def _packs(room: dict[int, int], wanted: Sequence[int]) -> bool:
    for where in product(room, repeat=len(wanted)):
        left = dict(room)
        for row, amount in zip(where, wanted, strict=True):
            left[row] -= amount
        if min(left.values()) >= 0:
            return True
    return False


@examples(150)
@given(scenes())
def test_it_finds_what_trying_everything_finds_and_nothing_else(drawn):
    scene, units, ask = drawn
    least = by_brute_force(scene, units, ask)
    out = found(scene, [ask], units)
    if least is None:
        assert out is None
        return
    if least == 0:
        return  # it fits as things are, so nobody asks
    assert out is not None, "a choice that would do was missed"
    _holds(scene, units, ask, out)


def _holds(scene: Kept, units: Sequence[MovableUnit], ask: Ask, out: FoundMoves) -> None:
    """Everybody has a node and no node more than it has."""
    nodes = scene.cluster.nodes
    used = nodes.requested[:, 0].astype(np.int64).copy()
    for index, rows in out.moved:
        for one, to in zip(units[index].pods, [row for some in rows for row in some.tolist()], strict=True):
            used[nodes.rows[one.place]] -= one.held["cpu"]
            used[to] += one.held["cpu"]
    assert sum(len(rows) for rows in out.rows) == ask.required
    for row in out.rows[0].tolist():
        used[row] += ask.pod_class.requests["cpu"]
    assert (used <= nodes.allocatable[:, 0]).all()
