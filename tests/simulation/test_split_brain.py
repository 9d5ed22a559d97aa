"""Two replicas, of which only one may act: what is paused, or has lost its lease, writes nothing any more."""

from __future__ import annotations

import pytest

from tests.simulation.run import Outcome, play
from tests.simulation.scenario import Scenario, Step
from tests.simulation.stories import cluster, gang, story
from tutti.kube.lease import Elector

LEASE_SECONDS = 15


def bound(outcome: Outcome) -> dict[str, tuple[float, str]]:
    """When each pod was bound, and by whom; none is bound twice."""
    lines = [line.split() for line in outcome.trace if "/binding 201" in line]
    found = {line[3].split("/")[-2]: (float(line[0]), line[1]) for line in lines}
    assert len(found) == len(lines)
    return found


def asleep(at: float, seed: int = 0) -> Scenario:
    """The leader sleeps from a moment on, for three times as long as its lease lasts; gangs come meanwhile."""
    pause = Step(at, "pause", {"replica": "leader", "seconds": 3.0 * LEASE_SECONDS})
    gangs = [*gang("g", 3, queue="q1"), *gang("h", 3, at=20.0, queue="q2")]
    return story(cluster(replicas="ab"), gangs, [pause], heal_at=90, seed=seed)


@pytest.mark.parametrize("at", [3.0, 3.002, 3.004, 3.006, 3.01, 3.02, 3.05])
def test_a_leader_that_wakes_after_its_lease_was_taken_writes_nothing(at: float):
    """It sleeps while a gang is being bound; the other replica binds the rest, and each pod is bound once."""
    outcome = play(asleep(at))
    assert outcome.violations == []
    binds = bound(outcome)
    assert sorted(binds) == ["g-0", "g-1", "g-2", "h-0", "h-1", "h-2"]
    assert all(binds[name][0] < at + 3 * LEASE_SECONDS for name in binds)  # nobody has waited for the sleeper


def test_the_one_that_woke_stands_by_until_it_is_needed_again():
    """It ends, is started anew, and takes over when the other dies."""
    steps = [
        Step(4.0, "pause", {"replica": "leader", "seconds": 40.0}),
        Step(70.0, "crash", {"replica": "leader"}),
    ]
    gangs = [*gang("g", 2, queue="q1"), *gang("h", 2, at=71.0, queue="q1")]
    outcome = play(story(cluster(replicas="ab"), gangs, steps, heal_at=120))
    assert outcome.violations == []
    binds = bound(outcome)
    assert (binds["g-0"][1], binds["h-0"][1]) == ("a.1", "a.2")


def test_without_the_fence_it_would_write(monkeypatch: pytest.MonkeyPatch):
    """So it is the fence that keeps it from writing, not luck: each writer asks before each write."""
    monkeypatch.setattr(Elector, "check", lambda _: None)
    told = [one for seed in range(4) for one in play(asleep(3.004, seed)).violations]
    assert any("while b.1 holds the lease" in one for one in told)
