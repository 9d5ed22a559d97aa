"""Shards share a cluster: whatever moves between them, and whoever dies meanwhile, nothing is two's at one time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.drawing import SEARCHES
from tests.simulation.killing import Killer
from tests.simulation.network import Sent
from tests.simulation.shards import RIGHT, ShardedOutcome, Step, basics, drawn, play
from tutti.controller import sharding
from tutti.controller.engine_run import EngineRun
from tutti.controller.sharding import Sharding
from tutti.shards import view
from tutti.shards.ownership import Ownership
from tutti.shards.view import ShardView

SEEDS = 60 if SEARCHES else 5
HANDING_OVER = ("nodes", "namespaces", "clusterqueues", "cohorts")


def gang(name: str, namespace: str, size: int, gpus: int, *, at: float = 5.0, seconds: float = 20.0) -> Step:
    return Step(at, "gang", {"name": name, "namespace": namespace, "size": size, "gpus": gpus, "seconds": seconds})


def relabelled(name: str, pool: str, at: float) -> Step:
    return Step(at, "relabel", {"name": name, "pool": pool})


MOVING = [
    *basics("abcd"),
    gang("a", "moves", 2, 2),
    gang("b", "stays-left", 1, 4, seconds=60),
    Step(10.0, "move", {"name": "moves", "cohort": RIGHT}),
    relabelled("n0", RIGHT, 10.0),
    relabelled("n3", "left", 10.0),
    gang("c", "moves", 2, 2, at=12.0),
    gang("d", "stays-right", 2, 2, at=12.0),
]
"""A tree goes to another shard while work of it runs, and nodes go both ways."""


def binders(outcome: ShardedOutcome) -> dict[str, str]:
    """Return which process has bound each pod; none is bound twice."""
    lines = [line.split() for line in outcome.trace if "/binding 201" in line]
    found = {line[3].split("/")[-2]: line[1] for line in lines}
    assert len(found) == len(lines)
    return found


@pytest.mark.parametrize("seed", range(SEEDS))
def test_whatever_moves_and_whoever_dies_nothing_is_two_shards_at_one_time(seed: int):
    assert play(drawn(seed), seed).violations == []


def test_each_shard_binds_its_own():
    outcome = play([*basics(), gang("l", "stays-left", 2, 1), gang("r", "stays-right", 2, 1)], heal_at=10.0)
    assert outcome.violations == []
    assert binders(outcome) == {"l-0": "a.1", "l-1": "a.1", "r-0": "c.1", "r-1": "c.1"}


def test_a_tree_that_moves_is_bound_by_its_new_shard_with_what_runs_of_it_counted():
    outcome = play(MOVING, heal_at=20.0)
    assert outcome.violations == []
    by = binders(outcome)
    assert (by["a-0"][0], by["c-0"][0]) in {("a", "c"), ("a", "d"), ("b", "c"), ("b", "d")}
    assert "ClusterQueue moves: default to right" in outcome.handed_over
    assert "Namespace moves: default to right" in outcome.handed_over
    assert "Node n3: right to default" in outcome.handed_over


def test_a_shard_that_begins_anew_while_the_server_is_away_waits_for_it():
    """No part of the process has failed by that."""
    given = {"what": "nodes", "method": "PATCH", "number": 1, "done": True}
    away = Step(0.5, "at_write", {**given, "do": "down", "args": {"seconds": 12.0}})
    outcome = play([*basics("ac"), away, gang("r", "stays-right", 2, 1)], heal_at=60.0)
    assert outcome.violations == []
    assert outcome.engines > 2


def test_a_successor_that_cannot_read_at_once_what_its_shard_has_reads_it_again():
    """Its engine has listed everything, and need not do that once more."""
    lost = {"what": "namespaces", "method": "GET", "how": "lose", "times": 4, "owner": "d.1"}
    steps = [*basics("acd"), Step(10.0, "trouble", lost), Step(10.0, "away", {"replica": "c"})]
    outcome = play([*steps, gang("r", "stays-right", 2, 1, at=11.0)], heal_at=60.0)
    assert outcome.violations == []
    assert binders(outcome)["r-0"] == "d.1"


@pytest.mark.parametrize("how", ["late", "swallow"])
def test_what_is_given_up_by_a_write_whose_answer_was_lost_is_used_by_one_shard(how: str):
    """It may have gone, or go later, and whoever gives it up hears of it late."""
    lost = {"what": "nodes", "method": "PATCH", "how": how, "seconds": 3.0, "times": 1}
    steps = [
        *basics(nodes={"n0": "left", "n3": RIGHT}),
        Step(9.0, "trouble", lost),
        Step(9.0, "lag", {"what": "nodes", "seconds": 8.0, "owner": "c.1"}),
        relabelled("n3", "left", 10.0),
        *(gang(f"r{n}", "stays-right", 1, 1, at=10.0 + 0.5 * n, seconds=4.0) for n in range(20)),
        *(gang(f"l{n}", "stays-left", 1, 1, at=10.0 + 0.5 * n, seconds=4.0) for n in range(20)),
        Step(40.0, "node", {"name": "n2", "pool": RIGHT}),
    ]
    outcome = play(steps, heal_at=60.0)
    assert outcome.violations == []
    assert "Node n3: right to default" in outcome.handed_over


def hands_over(sent: Sent) -> bool:
    """Whether a write hands something over to another shard."""
    return sent.method == "PATCH" and sent.what in HANDING_OVER


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("number", range(1, 11) if SEARCHES else (2, 6, 8))
def test_who_is_killed_while_handing_over_is_followed_by_one_who_ends_it(number: int, when: str):
    killer = Killer(number, when, hands_over)
    outcome = play(MOVING, number, heal_at=20.0, prepare=killer.prepare)
    assert killer.victim is not None
    assert outcome.violations == []
    assert "ClusterQueue moves: default to right" in outcome.handed_over


def test_for_a_shard_that_nobody_leads_any_more_another_stands_in():
    """Its processes are gone for good; once its lease has run out, what is due to others is theirs."""
    steps = [
        *basics("ac", {"n0": "left", "n1": "left"}),
        gang("l", "stays-left", 1, 1, seconds=300.0),
        Step(10.0, "pause", {"replica": "a", "seconds": 200.0}),
        relabelled("n0", RIGHT, 12.0),
        relabelled("n1", RIGHT, 12.0),
        gang("r", "stays-right", 2, 2, at=14.0),
    ]
    outcome = play(steps, heal_at=20.0)
    assert outcome.violations == []
    assert {"Node n0: default to right", "Node n1: default to right"} <= set(outcome.handed_over)
    bound = {line.split()[3].split("/")[-2]: float(line.split()[0]) for line in outcome.trace if "/binding 201" in line}
    assert 25.0 < bound["r-0"] < 100.0  # not before the lease has run out, nor only when the sleeper wakes


def test_what_cannot_be_given_up_costs_no_engine_after_the_other():
    """The right is missing, for minutes; the queue is closed meanwhile, everything else goes on, and it goes when it may."""
    refused = {"what": "clusterqueues", "method": "PATCH", "how": "refuse", "code": 403, "times": 10_000}
    steps = [
        *basics("ac", {"n0": "left", "n2": RIGHT}),
        Step(4.0, "trouble", {**refused, "name": "moves"}),
        Step(5.0, "move", {"name": "moves", "cohort": RIGHT}),
        gang("l", "stays-left", 1, 1, at=30.0, seconds=30.0),
        gang("m", "moves", 1, 1, at=30.0, seconds=30.0),
    ]
    outcome = play(steps, heal_at=150.0)
    assert outcome.violations == []
    assert outcome.engines <= 12
    assert binders(outcome) == {"l-0": "a.1", "m-0": "c.1"}
    assert "ClusterQueue moves: default to right" in outcome.handed_over


def test_a_namespace_that_has_just_been_made_costs_no_engine():
    """Its LocalQueue is there before its pods: it is taken and given up by engines that run on."""
    steps = [
        *basics(),
        Step(30.0, "tenant", {"name": "stays-right-too", "cohort": RIGHT}),
    ]
    first = play(steps, heal_at=60.0)
    steps += [
        Step(60.0, "door", {"namespace": "fresh", "cluster_queue": "stays-right-too"}),
        gang("f", "fresh", 2, 1, at=64.0),
    ]
    outcome = play(steps, heal_at=90.0)
    assert outcome.violations == []
    assert outcome.engines == first.engines
    assert binders(outcome) == {"f-0": "c.1", "f-1": "c.1"}


# The simulation is worth what it finds: each of these breakages, made on purpose, shows.

SLOW_BINDS = [
    *basics("ac", {"n0": "left"}),
    Step(3.0, "gang", {"name": "r", "namespace": "stays-right", "size": 1, "gpus": 4, "seconds": 5.0}),
    Step(4.0, "trouble", {"what": "pods/binding", "method": "POST", "how": "hold", "seconds": 11.0, "times": 4}),
    gang("l", "stays-left", 2, 2),
    relabelled("n0", RIGHT, 5.5),
]
"""A node goes while binds to it take their time."""

LATE_NEWS = [
    *basics("ac", {"n0": "left"}),
    Step(4.0, "lag", {"what": "pods", "seconds": 40.0, "owner": "c.1"}),
    Step(3.0, "gang", {"name": "r", "namespace": "stays-right", "size": 1, "gpus": 4, "seconds": 5.0}),
    gang("l", "stays-left", 1, 4, seconds=60.0),
    relabelled("n0", RIGHT, 8.0),
]
"""A node goes to a shard that hears late of the pod that runs there."""

Break = Callable[[pytest.MonkeyPatch], None]


def gives_up_what_is_used(patch: pytest.MonkeyPatch) -> None:
    async def give(self: Sharding, run: EngineRun) -> bool:
        if run.leads:
            await self._hand_over(self.ownership.leaving(self.shard))
        return False

    patch.setattr(Sharding, "_give", give)
    patch.setattr(ShardView, "lost", lambda _: set())


def takes_what_is_due(patch: pytest.MonkeyPatch) -> None:
    def held_by(self: Ownership, shard: str) -> Any:
        self.due(next(iter(self._has)))
        return {holding for holding, due in self._due.items() if due == shard}

    patch.setattr(Ownership, "held_by", held_by)
    patch.setattr(Ownership, "used_by", held_by)
    patch.setattr(Ownership, "belongs", lambda self, holding, shard: self.due(holding) == shard)


def waits_for_no_answer(patch: pytest.MonkeyPatch) -> None:
    async def finish(_: EngineRun) -> bool:
        return True

    patch.setattr(EngineRun, "finish", finish)


def reads_no_pods(patch: pytest.MonkeyPatch) -> None:
    async def read_pods(*_: Any, **__: Any) -> list[Any]:
        return []

    patch.setattr(sharding, "read_pods", read_pods)


def lends_room(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(view, "roomless", lambda node: node)


BREAKAGES: dict[str, tuple[Break, list[Step]]] = {
    "what an engine uses is given up": (gives_up_what_is_used, SLOW_BINDS),
    "what is due is used before it was given up": (takes_what_is_due, SLOW_BINDS),
    "answers are not waited for": (waits_for_no_answer, SLOW_BINDS),
    "a node is taken without reading who is there": (reads_no_pods, LATE_NEWS),
    "nodes of others are lent with their room": (lends_room, MOVING),
}


@pytest.mark.parametrize("name", BREAKAGES)
def test_a_breakage_shows(name: str, monkeypatch: pytest.MonkeyPatch):
    broken, steps = BREAKAGES[name]
    broken(monkeypatch)
    assert any(play(steps, seed, heal_at=40.0).violations for seed in range(3))


def test_a_standby_that_does_not_look_whose_all_is_shows(monkeypatch: pytest.MonkeyPatch):
    """Another shard has stood in between two leaders, of which the second has heard nothing of it yet."""

    async def still_has(_: Sharding) -> bool:
        return True

    monkeypatch.setattr(Sharding, "still_has", still_has)
    assert play(MOVING, 45, heal_at=20.0, prepare=Killer(2, "before", hands_over).prepare).violations


@pytest.mark.parametrize("steps", [SLOW_BINDS, LATE_NEWS], ids=["slow binds", "late news"])
def test_without_a_breakage_nothing_shows(steps: list[Step]):
    assert play(steps, heal_at=40.0).violations == []
