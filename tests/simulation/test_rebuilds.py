"""An engine that raises at nobody in particular is followed by another one in its process, and nothing is lost by it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest

from tests.simulation.network import Sent
from tests.simulation.operator import CheckedEngine, Operator
from tests.simulation.run import Outcome, play
from tests.simulation.steps import Scenario, Step
from tests.simulation.stories import cluster, gang, story
from tests.simulation.world import World
from tutti.controller.dispatch import Dispatch, Drained
from tutti.engine.cycle.engine import Engine

BROKEN = (3.02, 34.0)
"""When engines fail: from when the first gang is on its way, and for longer than the wait between two of them."""
GANGS = (gang("g", 3, queue="q1", gpus=2, seconds=60), gang("h", 3, at=10.0, queue="q2", gpus=2, seconds=60))
QUIET = story(cluster(), *GANGS, heal_at=40.0)
ENGINES_WRITE = ("pods/binding", "pods/status", "podgroups/status")


class Rebuilds:
    """Has every turn raise between two moments, once it has done its work, and looks at what is sent and begun."""

    def __init__(self, patch: pytest.MonkeyPatch, since: float = BROKEN[0], until: float = BROKEN[1]) -> None:
        self.made: list[CheckedEngine] = []
        self.at: list[float] = []
        self.sent: list[tuple[Sent, int]] = []  # what engines write, and the how-manieth engine it was
        self.late: list[str] = []
        self.terms: set[tuple[str, int]] = set()
        turn, make = Engine._turn, Operator._make_engine

        def raising(engine, most, enough):
            turn(engine, most, enough)
            if since <= self.world.loop.time() < until:
                raise RuntimeError("broken")

        def making(operator):
            self.made.append(make(operator))
            self.at.append(self.world.loop.time())
            return self.made[-1]

        patch.setattr(CheckedEngine, "may_fail", True)
        patch.setattr(Engine, "_turn", raising)
        patch.setattr(Operator, "_make_engine", making)

    def prepare(self, world: World) -> None:
        self.world = world
        world.network.sending.append(self.sending)
        world.network.handled.append(self.handled)

    def sending(self, sent: Sent) -> None:
        if sent.is_write and sent.what in ENGINES_WRITE:
            self.sent.append((sent, len(self.made)))

    def handled(self, sent: Sent, _: int) -> None:
        whose = next((number for one, number in self.sent if one is sent), len(self.made))
        if whose != len(self.made):
            self.late.append(f"{sent.method} {sent.path}")
        lease = self.world.server.backend.find("leases.coordination.k8s.io", "kube-system", "tutti")
        if lease is not None:
            self.terms.add((lease["spec"]["holderIdentity"], lease["spec"]["leaseTransitions"]))


def rebuilt(patch: pytest.MonkeyPatch, scenario: Scenario) -> tuple[Rebuilds, Outcome]:
    found = Rebuilds(patch)
    outcome = play(scenario, prepare=found.prepare)
    return found, outcome


def binds(outcome: Outcome) -> list[str]:
    return sorted(line.split()[3].split("/")[-2] for line in outcome.trace if "/binding 201" in line)


def troubled(how: str, seconds: float = 0.0) -> Scenario:
    trouble = {"what": "pods/binding", "method": "POST", "how": how, "seconds": seconds, "times": 3}
    return story(cluster(), *GANGS, [Step(0.0, "trouble", trouble)], heal_at=90.0)


@pytest.mark.parametrize(
    "scenario",
    [QUIET, troubled("hold", 5.0), troubled("hold", 25.0), troubled("swallow"), troubled("spoil")],
    ids=("answered", "answered late", "given up by the server", "never answered", "answered wrongly"),
)
def test_engines_that_fail_are_followed_by_others_under_the_same_lease(
    monkeypatch: pytest.MonkeyPatch, scenario: Scenario
):
    wanted = play(QUIET)
    found, outcome = rebuilt(monkeypatch, scenario)
    assert outcome.violations == []
    assert outcome.state == wanted.state
    assert {line.split()[1] for line in outcome.trace} == {"a.1"}
    assert found.terms <= {("a.1", 0), ("", 0)}
    assert binds(outcome) == ["g-0", "g-1", "g-2", "h-0", "h-1", "h-2"]
    assert len(found.made) > 2
    assert found.late == []


def test_without_the_drain_something_would_be_late(monkeypatch: pytest.MonkeyPatch):
    """So it is the drain that has nothing land after the next engine has listed, not luck."""

    async def nothing(*_: object, **__: object) -> Drained:
        return Drained(writes=True, statuses=True)

    monkeypatch.setattr(Dispatch, "drain", nothing)
    found, _ = rebuilt(monkeypatch, troubled("hold", 5.0))
    assert found.late


def test_engines_that_fail_at_once_are_waited_for_longer_and_longer(monkeypatch: pytest.MonkeyPatch):
    found, _ = rebuilt(monkeypatch, QUIET)
    begun = [at for at in found.at if at > BROKEN[0]]
    waits = [later - at for at, later in pairwise(begun)]
    assert len(waits) >= 3
    assert waits == sorted(waits)
    assert waits[-1] > 2 * waits[0]
    assert len(begun) < 10


def usage(engine: CheckedEngine) -> dict[str, object]:
    queues = engine.state.ledger.tree.queues
    return {name: {what: amount for what, amount in node.usage.items() if amount} for name, node in queues.items()}


LATE = (20.0, 21.0)


def test_what_runs_is_charged_by_the_next_engine_as_it_was(monkeypatch: pytest.MonkeyPatch):
    """Asked when nothing comes or goes: both gangs run."""
    found = Rebuilds(monkeypatch, *LATE)
    told: list[dict[str, object]] = []

    def prepare(world: World) -> None:
        found.prepare(world)
        for moment in (LATE[0] - 1, LATE[0] + 20):
            world.loop.call_at(moment, lambda: told.append(usage(found.made[-1])))

    outcome = play(
        story(cluster(), *GANGS, gang("late", 1, at=LATE[0] + 0.5, queue="q3", seconds=5), heal_at=50.0),
        prepare=prepare,
    )
    assert outcome.violations == []
    assert len(found.made) == 2
    before, after = told
    assert before == after
    assert any(before.values())


def test_a_standby_whose_engine_fails_is_there_when_it_is_needed(monkeypatch: pytest.MonkeyPatch):
    """An engine that only takes in what is seen can fail as well."""
    monkeypatch.setattr(CheckedEngine, "may_fail", True)
    observed: list[float] = []
    settle: Callable[[Engine], None] = Engine._forget_gone

    def prepare(world: World) -> None:
        def raising(engine: Engine) -> None:
            settle(engine)
            standby = world.operators.get("b")
            if standby is not None and engine is standby.engine and 5.0 <= world.loop.time() < 8.0:
                observed.append(world.loop.time())
                raise RuntimeError("broken")

        monkeypatch.setattr(Engine, "_forget_gone", raising)

    crash = Step(12.0, "crash", {"replica": "a"})
    gangs = [*gang("g", 3, queue="q1", seconds=60, at=6.0), *gang("h", 2, at=14.0, queue="q2")]
    outcome = play(story(cluster(replicas="ab"), gangs, [crash], heal_at=60), prepare=prepare)
    assert observed
    assert outcome.violations == []
    assert {line.split()[1] for line in outcome.trace} >= {"a.1", "b.1"}
    assert not any(line.split()[1] == "b.2" for line in outcome.trace)
