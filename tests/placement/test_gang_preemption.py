"""Victims for a whole gang: the least cost that lets all of it be placed, or nobody."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import msgspec
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.drawing import examples
from tests.placement.scenes import LABELS, node, nodes, pod, specs
from tutti.api.selectors import LabelSelector
from tutti.cluster.cluster import Cluster
from tutti.placement.gang import Ask
from tutti.placement.preemption.by_trial import ByTrial
from tutti.placement.preemption.search import TrialBudget, VictimSearch
from tutti.placement.preemption.units import GangUnit, SimulatedRemoval, VictimUnits, always_true
from tutti.placement.preemption.victim_cost import Budget, Coverage
from tutti.placement.preemption.victims import ChosenVictims, choose_victims
from tutti.placement.profile import DEFAULT_PROFILE
from tutti.placement.together import Diagnosis, place_together
from tutti.placement.topology.request import LevelRequest, Together, TopologyPlacement

APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "x"}}}
        ]
    }
}


class Scene:
    """Nodes that are full, and a gang that wants some of them."""

    def __init__(self, **sizes: int) -> None:
        self.cluster = Cluster()
        for name, cpu in sizes.items():
            self.cluster.put_node(node(name, cpu=cpu))

    def running(
        self, names: str, where: str, *, cpu: str = "1", priority: int = 0, started: int = 0, **more: Any
    ) -> None:
        for name in names.split():
            one = pod(name, node=where, cpu=cpu, priority=priority, **more)
            status = {"phase": "Running", "startTime": f"2026-01-01T00:00:{started:02}Z"}
            self.cluster.put_pod(
                msgspec.structs.replace(one, status=msgspec.convert(status, type(one.status))), keep=False
            )

    def leaving(self, name: str, where: str, **more: Any) -> None:
        one = pod(name, node=where, **more)
        meta = msgspec.convert(
            {"name": name, "namespace": "default", "deletionTimestamp": "2026-01-01T00:00:00Z"}, type(one.metadata)
        )
        self.cluster.put_pod(msgspec.structs.replace(one, metadata=meta), keep=False)

    def ask(self, count: int, cpu: str = "1", labels: dict[str, str] | None = None, **spec: Any) -> Ask:
        return Ask(self.cluster.classes.of(pod("g", cpu=cpu, **spec).spec, "default", labels or {}), count)

    def units(self, priority: int, *parties: tuple[str, int, bool]) -> VictimUnits:
        """All of lower priority; of the parties (names, priority, harmless) only the pods of each together."""
        tenants = self.cluster.pod_columns
        there = [
            GangUnit([self.cluster.pods["default", one] for one in names.split()], *rest) for names, *rest in parties
        ]
        singles = (tenants.row >= 0) & (tenants.priority < priority)
        for party in there:
            singles[[one.slot for one in party.pods]] = False
        return VictimUnits.among(self.cluster, np.flatnonzero(singles), there)

    def victims(self, *asks: Ask, priority: int = 10, parties: Any = (), **options: Any) -> set[str] | None:
        found = self.choose(*asks, priority=priority, parties=parties, **options)
        return None if found is None else {record.name for record in found.victims}

    def choose(self, *asks: Ask, priority: int = 10, parties: Any = (), **options: Any) -> ChosenVictims | None:
        return choose_victims(self.cluster, asks, self.units(priority, *parties), profile=DEFAULT_PROFILE, **options)


def test_nobody_goes_for_a_gang_that_would_not_fit_anyway():
    scene = Scene(n0=2, n1=2)
    scene.running("a b", "n0", priority=1)
    scene.running("c", "n1", priority=1)
    scene.running("high", "n1", priority=50)
    assert scene.victims(scene.ask(4)) is None
    assert scene.victims(scene.ask(3)) == {"a", "b", "c"}


def test_nobody_goes_where_there_is_room():
    scene = Scene(n0=2, n1=2)
    scene.running("a b", "n0")
    assert scene.victims(scene.ask(2)) == set()


def test_free_room_is_used_before_anybody_is_taken_out():
    scene = Scene(n0=4, n1=4)
    scene.running("a b", "n0", cpu="2")
    scene.running("c", "n1", cpu="2", priority=1)
    assert len(scene.victims(scene.ask(3))) == 1


# The tie-breaks of pickOneNodeForPreemption, over the whole set instead of one node.
def test_the_highest_priority_among_the_victims_is_as_low_as_it_can_be():
    scene = Scene(n0=2, n1=2, n2=2)
    scene.running("a", "n0", cpu="2", priority=3)
    scene.running("b c", "n1", priority=2)
    scene.running("d e", "n2", priority=1)
    assert scene.victims(scene.ask(1, "2")) == {"d", "e"}
    assert scene.victims(scene.ask(2, "2")) == {"b", "c", "d", "e"}


def test_among_equals_as_few_go_as_can_be():
    scene = Scene(n0=4, n1=4, n2=4)
    scene.running("a b c d", "n0", started=9)
    scene.running("e", "n1", cpu="4", started=1)
    scene.running("f g", "n2", cpu="2", started=5)
    assert scene.victims(scene.ask(1, "4")) == {"e"}
    assert scene.victims(scene.ask(2, "4")) == {"e", "f", "g"}


def test_one_that_makes_room_for_many_goes_instead_of_many():
    scene = Scene(n0=8, n1=1, n2=1, n3=1, n4=1)
    scene.running("big", "n0", cpu="8", started=1)
    for i in range(1, 5):
        scene.running(f"s{i}", f"n{i}", started=9)
    assert scene.victims(scene.ask(4)) == {"big"}
    assert scene.victims(scene.ask(1)) != {"big"}


def test_among_equals_those_that_were_started_last_go():
    scene = Scene(n0=1, n1=1, n2=1)
    for i, started in enumerate((5, 1, 9)):
        scene.running(f"p{i}", f"n{i}", started=started)
    assert scene.victims(scene.ask(2)) == {"p0", "p2"}


def test_nobody_goes_beyond_a_budget_where_others_will_do():
    scene = Scene(n0=1, n1=1, n2=1)
    scene.running("kept", "n0", priority=0, labels={"app": "kept"})
    scene.running("kept2", "n1", priority=0, labels={"app": "kept"})
    scene.running("other", "n2", priority=5)
    budget = Budget("default", LabelSelector({"app": "kept"}), 1)
    assert scene.victims(scene.ask(2)) == {"kept", "kept2"}
    two = scene.victims(scene.ask(2), budgets=[budget])
    assert two in ({"kept", "other"}, {"kept2", "other"})
    three = scene.choose(scene.ask(3), budgets=[budget])
    assert three.cost.violations == 1


def test_what_is_leaving_already_goes_first_and_counts_as_no_harm():
    scene = Scene(n0=1, n1=1)
    scene.running("a", "n0", priority=0)
    scene.leaving("b", "n1", priority=5)
    chosen = scene.choose(scene.ask(1))
    assert [record.name for record in chosen.victims] == ["b"]
    assert chosen.cost.number == 0


def test_surplus_members_go_before_anybody_else():
    scene = Scene(n0=2, n1=1)
    scene.running("e0", "n0", priority=5)
    scene.running("e1", "n0", priority=5)
    scene.running("a", "n1", priority=0)
    assert scene.victims(scene.ask(1), parties=[("e1", 5, True)]) == {"e1"}
    assert scene.victims(scene.ask(2), parties=[("e1", 5, True)]) == {"a", "e1"}


def test_a_gang_that_is_disrupted_as_a_whole_leaves_as_a_whole_or_not_at_all():
    scene = Scene(n0=1, n1=1, n2=1)
    scene.running("g0", "n0")
    scene.running("g1", "n1")
    scene.running("a", "n2")
    whole = [("g0 g1", 0, False)]
    assert scene.victims(scene.ask(1), parties=whole) == {"a"}
    assert scene.victims(scene.ask(2), parties=whole) == {"g0", "g1"}
    assert scene.victims(scene.ask(3), parties=whole) == {"g0", "g1", "a"}


def test_one_gang_goes_instead_of_many_pods():
    scene = Scene(n0=4, n1=4, n2=4, n3=4)
    scene.running("g0", "n0", cpu="4")
    scene.running("g1", "n1", cpu="4")
    for i in (2, 3):
        scene.running(" ".join(f"s{i}{j}" for j in range(4)), f"n{i}")
    assert scene.victims(scene.ask(2, "4"), parties=[("g0 g1", 0, False)]) == {"g0", "g1"}


def test_what_else_must_hold_is_asked_of_every_choice():
    scene = Scene(n0=1, n1=1, n2=1)
    for i in range(3):
        scene.running(f"p{i}", f"n{i}", started=i)
    units = scene.units(10)
    number = {record.name: i for i, record in enumerate(scene.cluster.pod_columns.at(units.slots))}
    chosen = choose_victims(
        scene.cluster, [scene.ask(1)], units, profile=DEFAULT_PROFILE, enough=lambda gone: bool(gone[number["p0"]])
    )
    assert {record.name for record in chosen.victims} == {"p0"}
    assert choose_victims(scene.cluster, [scene.ask(1)], units, profile=DEFAULT_PROFILE, enough=lambda _: False) is None


def test_roles_are_made_room_for_together():
    scene = Scene(n0=4, n1=2, n2=2)
    scene.running("a b c d", "n0", priority=1)
    scene.running("e f", "n1", priority=1)
    scene.running("g h", "n2", priority=2)
    chosen = scene.choose(scene.ask(2), scene.ask(1, "4"))
    assert {record.name for record in chosen.victims} == {"a", "b", "c", "d", "e", "f"}
    assert [rows.tolist() for rows in chosen.rows] == [[1, 1], [0]]


def test_pods_that_keep_apart_are_made_room_for_on_as_many_nodes():
    scene = Scene(n0=4, n1=1, n2=1)
    scene.running("x", "n0", labels={"app": "x"}, priority=1)
    scene.running("a", "n1", priority=0)
    scene.running("b", "n2", priority=0)
    ask = scene.ask(2, labels={"app": "x"}, affinity=APART)
    assert scene.victims(ask) == {"a", "b"}
    assert scene.victims(scene.ask(3, labels={"app": "x"}, affinity=APART)) == {"x", "a", "b"}
    assert scene.victims(scene.ask(4, labels={"app": "x"}, affinity=APART)) is None


def near(level: str, together: Together = Together.REQUIRED) -> TopologyPlacement:
    return TopologyPlacement((level, "kubernetes.io/hostname"), LevelRequest(together, level))


def racks() -> Scene:
    """Two racks of two nodes, the first full of more important pods, the second of more of them."""
    scene = Scene()
    for i in range(4):
        scene.cluster.put_node(node(f"n{i}", cpu=2, labels={"rack": f"r{i // 2}"}))
    scene.running("a b", "n0", priority=2)
    scene.running("c", "n1", cpu="2", priority=2)
    scene.running("d e", "n2", priority=1)
    scene.running("f", "n3", cpu="2", priority=3)
    return scene


def test_a_gang_that_must_be_in_one_rack_takes_the_rack_where_that_hurts_least():
    scene = racks()
    ask = replace(scene.ask(2), topology=near("rack"))
    assert scene.victims(ask) == {"d", "e"}
    whole = replace(scene.ask(2, "2"), topology=near("rack"))
    assert scene.victims(whole) == {"a", "b", "c"}
    assert scene.victims(replace(scene.ask(3, "2"), topology=near("rack"))) is None
    spread = replace(scene.ask(3, "2"), topology=near("rack", Together.PREFERRED))
    assert scene.victims(spread) == {"a", "b", "c", "d", "e"}


def test_unlike_members_that_must_be_in_one_rack_take_the_rack_where_that_hurts_least():
    scene = racks()
    in_a_rack = replace(near("rack"), pod_set_group="gang")
    asks = [replace(scene.ask(1, cpu), topology=in_a_rack) for cpu in ("500m", "1")]
    assert scene.victims(*asks) == {"d", "e"}
    whole = [replace(scene.ask(1, cpu), topology=in_a_rack) for cpu in ("1800m", "2")]
    assert scene.victims(*whole) == {"a", "b", "c"}
    assert scene.victims(*whole, replace(scene.ask(1, "1"), topology=in_a_rack)) is None


def test_unlike_members_that_mind_each_other_are_tried_in_one_rack_after_another():
    scene = racks()
    in_a_rack = replace(near("rack"), pod_set_group="gang")
    labels = {"app": "x"}
    apart = [replace(scene.ask(1, cpu, labels, affinity=APART), topology=in_a_rack) for cpu in ("500m", "1")]
    chosen = scene.choose(*apart)
    assert sorted(np.concatenate(chosen.rows).tolist()) in ([0, 1], [2, 3])
    assert {record.name for record in chosen.victims} <= {"a", "b", "c", "d", "e", "f"}


def test_a_gang_in_one_rack_is_placed_in_it():
    scene = racks()
    chosen = scene.choose(replace(scene.ask(2, "2"), topology=near("rack")))
    assert [rows.tolist() for rows in chosen.rows] == [[0, 1]]


@st.composite
def scenes(draw: st.DrawFn, *, parties: bool = True, most: int = 8) -> tuple[Scene, list[tuple[str, int, bool]]]:
    """Up to 5 nodes with up to 8 pods of 4 priorities, some of which belong together."""
    scene = Scene()
    for one in draw(nodes(5)):
        scene.cluster.put_node(one)
    names = []
    for i in range(draw(st.integers(0, most))):
        names.append(f"p{i}")
        scene.running(
            f"p{i}",
            draw(st.sampled_from(sorted(scene.cluster.nodes.rows))),
            cpu=draw(st.sampled_from(["1", "2", "3"])),
            priority=draw(st.integers(0, 3)),
            started=draw(st.integers(0, 9)),
            labels=draw(st.sampled_from(LABELS)),
        )
    together: list[tuple[str, int, bool]] = []
    if parties and len(names) > 3:
        together.append((" ".join(names[:2]), draw(st.integers(0, 2)), False))
        together.append((names[2], 1, draw(st.booleans())))
    return scene, together


def fits(scene: Scene, asks: list[Ask], units: VictimUnits, gone: list[int]) -> bool:
    chosen = np.zeros(len(units), dtype=np.bool_)
    chosen[gone] = True
    with SimulatedRemoval(scene.cluster, units.pods(chosen), seen=True), scene.cluster.transaction() as transaction:
        return not isinstance(place_together(scene.cluster.nodes, transaction, asks, DEFAULT_PROFILE), Diagnosis)


def company_of(scene: Scene, asks: list[Ask], units: VictimUnits) -> set[int]:
    """The units with pods that the affinity of an ask means."""
    records = scene.cluster.pod_columns.at(units.slots)
    return {
        unit
        for terms in (ask.pod_class.inter_pod.affinity for ask in asks)
        for record, unit in zip(records, units.of.tolist(), strict=True)
        if terms and all(term.query.matches(record.namespace, {}, record.pod_signature.labels) for term in terms)
    }


BUDGETS = st.lists(
    st.builds(
        Budget,
        st.just("default"),
        st.sampled_from([LabelSelector({"app": "x"}), LabelSelector({"app": "y"})]),
        st.integers(0, 2),
    ),
    max_size=2,
)


@examples(400)
@given(scenes(), specs(), st.integers(1, 4), st.sampled_from(["1", "2"]), st.integers(0, 2), BUDGETS, st.booleans())
def test_a_gang_fits_without_its_victims_and_needs_each_of_them(made, spec, count, cpu, leaders, budgets, close):
    scene, together = made
    asks = [scene.ask(count, cpu, {"app": "x"}, **spec)]
    if close:
        asks = [replace(asks[0], topology=near("topology.kubernetes.io/zone"))]
    if leaders:
        asks.append(scene.ask(leaders, "3"))
    units = scene.units(3, *together)
    cluster = scene.cluster
    before = (cluster.nodes.requested.copy(), cluster.nodes.scored.copy(), cluster.nodes.label_index.snapshot())
    chosen = choose_victims(cluster, asks, units, profile=DEFAULT_PROFILE, budgets=budgets)
    assert (cluster.nodes.requested == before[0]).all()
    assert (cluster.nodes.scored == before[1]).all()
    assert cluster.nodes.label_index.snapshot() == before[2]
    everybody = list(range(len(units)))
    if chosen is None:
        # Who is to be near others does not take out all of these to be the first of its kind elsewhere.
        assert not fits(scene, asks, units, sorted(set(everybody) - company_of(scene, asks, units)))
        assert not fits(scene, asks, units, everybody) or company_of(scene, asks, units)
        return
    assert fits(scene, asks, units, everybody)
    gone = chosen.units.tolist()
    assert fits(scene, asks, units, gone)
    assert [len(rows) for rows in chosen.rows] == [ask.required for ask in asks]
    if len(asks) == 1:
        for unit in gone:
            assert not fits(scene, asks, units, [other for other in gone if other != unit])


@examples(200)
@given(scenes(), specs(), st.lists(st.sampled_from(["1", "2", "3"]), min_size=1, max_size=4), st.integers(0, 40))
def test_a_gang_fits_without_those_chosen_by_trial_however_few_trials_there_are(made, spec, sizes, many):
    scene, together = made
    asks = [scene.ask(1, cpu, {"app": "x"}, **spec) for cpu in sizes]
    cluster, units = scene.cluster, scene.units(3, *together)
    trials = TrialBudget(many)
    search = VictimSearch(cluster, units, Coverage(()), DEFAULT_PROFILE, always_true, trials)
    with SimulatedRemoval(cluster, np.zeros(0, dtype=np.int64), seen=False):
        gone = ByTrial(search, asks, seen=True).choose()
    assert trials.left >= min(many, 0) - 4 * len(asks)
    if gone is not None:
        assert fits(scene, asks, units, np.flatnonzero(gone).tolist())


def test_a_gang_of_many_unlike_members_is_tried_only_so_often():
    scene = Scene(**{f"n{i}": 8 for i in range(40)})
    for i in range(40):
        scene.running(" ".join(f"p{i}-{j}" for j in range(8)), f"n{i}", priority=i % 3, started=i)
    asks = [scene.ask(1, f"{1000 + i}m") for i in range(200)]
    trials = TrialBudget()
    search = VictimSearch(scene.cluster, scene.units(9), Coverage(()), DEFAULT_PROFILE, always_true, trials)
    with SimulatedRemoval(scene.cluster, np.zeros(0, dtype=np.int64), seen=False):
        gone = ByTrial(search, asks, seen=False).choose()
    assert fits(scene, asks, search.units, np.flatnonzero(gone).tolist())
    assert not gone.all()
    assert trials.left > -len(asks)


def test_those_out_of_the_way_stay_however_few_trials_there_are():
    scene = Scene()
    for i in range(12):
        scene.cluster.put_node(node(f"n{i}", cpu=9, labels={"zone": f"z{i % 3}"}))
        names = " ".join(f"p{i}-{j}" for j in range(8))
        scene.running(names, f"n{i}", priority=i % 4, started=i, labels={"app": "y"})
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "y"}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    search = VictimSearch(scene.cluster, scene.units(9), Coverage(()), DEFAULT_PROFILE, always_true, TrialBudget(20))
    with SimulatedRemoval(scene.cluster, np.zeros(0, dtype=np.int64), seen=False):
        gone = ByTrial(search, [scene.ask(1, affinity=affinity)], seen=True).choose()
    rows = scene.cluster.pod_columns.row[search.units.pods(gone)]
    assert len(rows) == 32
    assert len(set((rows % 3).tolist())) == 1


def parties_or_budgets() -> st.SearchStrategy[tuple[Any, list[Budget]]]:
    return st.one_of(
        st.tuples(scenes(most=7), st.just([])),
        st.tuples(scenes(parties=False, most=7), BUDGETS),
    )


@examples(300)
@given(parties_or_budgets(), st.integers(1, 4), st.sampled_from(["1", "2", "3"]))
def test_no_other_choice_would_hurt_fewer_budgets_or_lower_priorities_only(made, count, cpu):
    (scene, together), budgets = made
    ask, units = scene.ask(count, cpu), scene.units(3, *together)
    chosen = choose_victims(scene.cluster, [ask], units, profile=DEFAULT_PROFILE, budgets=budgets)
    if chosen is None:
        return
    coverage, best = Coverage(budgets, of_leaving=False), []
    for size in range(len(units) + 1):
        for some in combinations(range(len(units)), size):
            if fits(scene, [ask], units, list(some)):
                gone = np.zeros(len(units), dtype=np.bool_)
                gone[list(some)] = True
                best.append(units.cost(scene.cluster, gone, coverage))
    least = min(best)
    assert chosen.cost.violations == least.violations
    if not least.violations:
        assert chosen.cost.highest == least.highest


PORT = {"ports": [{"hostPort": 80}]}


def test_a_gang_takes_nodes_that_less_important_pods_keep_closed():
    scene = Scene(n0=4, n1=4, n2=4, n3=4)
    for name, where, priority in (("a", "n0", 1), ("b", "n1", 1), ("c", "n2", 9), ("d", "n3", 9)):
        scene.running(name, where, cpu="4", priority=priority, **(taken_port("4") if priority == 1 else {}))
    ask = scene.ask(2, **taken_port("1"))
    assert scene.victims(ask) == {"a", "b"}
    scene.running("e", "n0", priority=20, **taken_port("0"))
    assert scene.victims(ask) in ({"b", "c"}, {"b", "d"})
    assert scene.victims(replace(ask, required=3)) == {"b", "c", "d"}
    assert scene.victims(replace(ask, required=4)) is None


def taken_port(cpu: str) -> dict[str, Any]:
    return {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}, **PORT}]}


@st.composite
def closed_scenes(draw: st.DrawFn) -> Scene:
    """Nodes that some pods keep closed to others by a port or by anti-affinity."""
    scene = Scene()
    for one in draw(nodes(5)):
        scene.cluster.put_node(one)
    for i in range(draw(st.integers(1, 7))):
        spec = draw(st.sampled_from([{}, taken_port("1"), {"affinity": APART}]))
        where = draw(st.sampled_from(sorted(scene.cluster.nodes.rows)))
        labels = draw(st.sampled_from(LABELS))
        priority = draw(st.integers(0, 3))
        scene.running(f"p{i}", where, priority=priority, started=i, labels=labels, **spec)
    return scene


@examples(200)
@given(closed_scenes(), st.integers(1, 3), st.sampled_from([{}, taken_port("1"), {"affinity": APART}]))
def test_no_priority_is_taken_out_that_closed_nodes_would_have_spared(scene, count, spec):
    ask, units = scene.ask(count, labels={"app": "x"}, **spec), scene.units(3)
    chosen = choose_victims(scene.cluster, [ask], units, profile=DEFAULT_PROFILE)
    highest = [
        max((int(units.band[unit]) for unit in some), default=-1)
        for size in range(len(units) + 1)
        for some in combinations(range(len(units)), size)
        if fits(scene, [ask], units, list(some))
    ]
    assert (chosen is None) == (not highest)
    if chosen is not None:
        assert max((int(units.band[unit]) for unit in chosen.units), default=-1) == min(highest)
