"""What is lost between an operator and its server on any day, in the midst of binding and of taking out.

Whatever it is: each pod is bound once, nobody who runs has to leave for it, and for one need one goes.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.drawing import SEARCHES
from tests.simulation.network import WATCH
from tests.simulation.operator import WINDOW
from tests.simulation.run import play
from tests.simulation.steps import Scenario, Step
from tests.simulation.stories import PREEMPTS, cluster, devices, gang, story, with_devices
from tests.simulation.test_split_brain import bound
from tests.simulation.told import evicted

Loss = tuple[str, dict[str, Any]]

SENDER = {"replica": "sender"}
REFUSED = {"what": "", "method": "", "how": "refuse", "times": 10_000}
NEXT = {"what": "pods/binding", "method": "POST", "times": 2}
LOSSES: dict[str, Loss] = {
    "it is killed": ("crash", SENDER),
    "it stands still, and another takes over": ("pause", {**SENDER, "seconds": 45.0}),
    "it stands still for nearly as long as its lease lasts": ("pause", {**SENDER, "seconds": 12.0}),
    "every connection breaks": ("break", {}),
    "the server is started anew": ("down", {"seconds": 3.0}),
    "the server is away for longer than a lease lasts": ("down", {"seconds": 17.0}),
    "the server is away for longer than a bind window": ("down", {"seconds": 2.0 * WINDOW}),
    "what has happened is forgotten": ("relist", {"what": ""}),
    "watches of pods fall silent": ("silence", {"what": "pods", "seconds": 400.0}),
    "watches of pods tell of bookmarks alone": ("silence", {"what": "pods", "seconds": 400.0, "marks": True}),
    "watches of nodes fall silent": ("silence", {"what": "nodes", "seconds": 400.0}),
    "pods are seen late": ("lag", {"what": "pods", "seconds": 25.0, "lasts": 40.0}),
    "gangs are seen late": ("lag", {"what": "podgroups", "seconds": 25.0, "lasts": 40.0}),
    "tokens are not known for a while": ("trouble", {**REFUSED, "code": 401, "lasts": 4.0}),
    "it may do nothing for a while": ("trouble", {**REFUSED, "code": 403, "lasts": 4.0}),
    "the server is busy": ("trouble", {**NEXT, "how": "refuse", "code": 429, "retry_after": 2}),
    "what is done is said to have failed": ("trouble", {**NEXT, "how": "spoil", "code": 500}),
    "what is done is said to be invalid": ("trouble", {**NEXT, "how": "spoil", "code": 422}),
    "what is done is not answered": ("trouble", {**NEXT, "how": "swallow"}),
    "what is not answered is done later": ("trouble", {**NEXT, "how": "late", "seconds": 6.0}),
    "binds take longer than anybody waits": ("trouble", {**NEXT, "how": "hold", "seconds": 35.0}),
    "no watch can be opened": ("trouble", {"what": "", "method": WATCH, "how": "refuse", "code": 503, "times": 30}),
    "its clock goes back": ("clock", {"machine": "sender", "ahead": -7200.0}),
    "its clock goes ahead": ("clock", {"machine": "sender", "ahead": 86400.0}),
}


def at(what: str, method: str, number: int, loss: Loss, *, done: bool) -> Step:
    """Something happens at the n-th write of a kind."""
    do, args = loss
    about = {"what": what, "method": method, "number": number, "done": done}
    return Step(0.5, "at_write", {**about, "do": do, "args": args})


def over(name: str) -> float:
    """When the faults are over: what has fallen silent is found out about by itself before that."""
    return 450.0 if LOSSES[name][0] == "silence" else 120.0


def burst(step: Step, heal_at: float) -> Scenario:
    """Two gangs come, of which each takes all that its queue and its cohort give it."""
    gangs = [*gang("g", 3, queue="q1", gpus=2, seconds=100.0), *gang("h", 3, at=40.0, queue="q3", seconds=20.0)]
    return story(cluster(replicas="ab"), gangs, [step], heal_at=heal_at)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("done", [False, True], ids=["sent", "done"])
def test_in_the_midst_of_binding_nobody_is_bound_twice_or_has_to_leave(name: str, *, done: bool):
    for number in (1, 2, 3) if SEARCHES else (2,):
        outcome = play(burst(at("pods/binding", "POST", number, LOSSES[name], done=done), over(name)))
        assert outcome.violations == []
        assert sorted(bound(outcome)) == ["g-0", "g-1", "g-2", "h-0", "h-1", "h-2"]
        assert evicted(outcome) == []


@pytest.mark.parametrize("seconds", [WINDOW + 6.0, 2.0 * WINDOW])
def test_a_gang_whose_last_bind_is_answered_by_a_server_that_goes_away_is_not_taken_out_when_that_is_back(
    seconds: float,
):
    """All of it runs, which nobody can say before its window would be over."""
    away = at("pods/binding", "POST", 3, ("down", {"seconds": seconds}), done=True)
    for seed in (2, 3):  # in the latter the engine is asked when the server is back before it is told of the last bind
        outcome = play(story(cluster(replicas="ab"), gang("g", 3, queue="q1", gpus=2), [away], seed=seed, heal_at=60))
        assert outcome.violations == []
        assert evicted(outcome) == []


def taking(*steps: Step) -> Scenario:
    """Three have all that their queue has, any of whom can go for one who is more important."""
    low = [
        step for rank in range(3) for step in gang(f"low{rank}", 1, how="Workload", queue="q3", gpus=2, seconds=400.0)
    ]
    high = gang("high", 1, at=10.0, how="Workload", queue="q3", gpus=2, priority=10, seconds=200.0, slow=0.0)
    return story(cluster(replicas="ab", **PREEMPTS), low, high, list(steps), heal_at=150)


def gone_for_one(scenario: Scenario) -> list[str]:
    """Who was taken out before the important one has run, which it has to."""
    outcome = play(scenario)
    assert outcome.violations == []
    lines = [line.split() for line in outcome.trace]
    came = [float(line[0]) for line in lines if line[3].endswith("/high-0/binding") and line[4] == "201"]
    assert len(came) == 1
    return [
        line[3].split("/")[-1]
        for line in lines
        if line[2] == "DELETE" and "/pods/" in line[3] and line[4] == "200" and float(line[0]) < came[0] + 150.0
    ]


WRITES = (("pods", "DELETE"), ("pods/status", "PATCH"), ("workloads/status", "PATCH"))


@pytest.mark.parametrize("name", [name for name in LOSSES if LOSSES[name][0] != "silence"])
def test_for_one_need_one_goes(name: str):
    for what, method in WRITES if SEARCHES else WRITES[:1]:
        for done in (False, True):
            gone = gone_for_one(taking(at(what, method, 1, LOSSES[name], done=done)))
            assert len(set(gone)) == 1, f"{what} {method} {done}: {gone}"


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("what", ["resourceclaims", "resourceclaims/status"])
def test_while_claims_get_devices_none_is_given_twice(name: str, what: str):
    """Whether a device is given twice the simulation complains of."""
    for done in (False, True) if SEARCHES else (False,):
        step = at(what, "PATCH", 2, LOSSES[name], done=done)
        gangs = with_devices([*gang("g", 3, queue="q1"), *gang("h", 3, at=30.0, queue="q3")])
        outcome = play(story(cluster(replicas="ab"), devices(), gangs, [step], heal_at=over(name)))
        assert outcome.violations == []
        assert evicted(outcome) == []
