"""The three ways in which controllers are known to misread a cluster (Sun et al., Sieve, OSDI 2022), for every kind watched.

Intermediate state: a controller dies between two of its writes; `test_crashes.py` has that. Stale state: it sees the
past for a while. Unobserved state: something comes and goes while it does not look.
"""

from __future__ import annotations

import pytest

from tests.simulation.run import play
from tests.simulation.steps import Step
from tests.simulation.stories import cluster, gang, story

KINDS = ("pods", "nodes", "podgroups", "workloads", "clusterqueues", "localqueues", "resourceflavors", "namespaces")
EVENTFUL = [
    *gang("g", 3, queue="q1", seconds=12.0, spread=0.3),
    *gang("w", 2, at=6.0, how="Workload", queue="q2", gpus=2, seconds=12.0),
    *gang("p", 3, at=9.0, how="pfnet", queue="q3", seconds=4.0, spread=0.5),
    Step(8.0, "delete_pod", {"name": "g-1"}),
    Step(10.0, "lose_node", {"name": "n1"}),
    Step(16.0, "node", {"name": "n1", "gpus": 4, "rack": "r0"}),
    Step(18.0, "cancel", {"gang": "p"}),
]


def fault(at: float, do: str, **args: object) -> Step:
    return Step(at, do, args)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_seen_late_converges(kind: str):
    """Stale state: changes of one kind come eight seconds after those of the others, in their order."""
    late = [fault(2.0, "lag", what=kind, seconds=8.0), fault(25.0, "lag", what=kind, seconds=0.0)]
    assert play(story(cluster(), EVENTFUL, late, heal_at=30)).violations == []


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_seen_twice_converges(kind: str):
    """Stale state: the past comes again, once with each change and once with a list."""
    twice = [fault(2.0, "double", what=kind), *(fault(at, "drop", what=kind) for at in (5.0, 9.5, 13.0))]
    assert play(story(cluster(), EVENTFUL, twice, heal_at=30)).violations == []


@pytest.mark.parametrize("at", [3.5, 7.5, 9.5, 15.0])
def test_what_came_and_went_unobserved_converges(at: float):
    """Unobserved state: the server is away, and when it is back it has no history: only a list tells what is gone."""
    away = [
        fault(at, "down", seconds=5.0),
        fault(at + 1.0, "member", gang="x", name="x-0", gpus=1, gated=False, seconds=1.0),
        fault(at + 1.0, "gang", gang="x", how="PodGroup", queue="q1", size=1, least=1, priority=0),
        fault(at + 2.0, "cancel", gang="x"),
        fault(at + 3.0, "cancel", gang="w"),
    ]
    assert play(story(cluster(), EVENTFUL, away, heal_at=40)).violations == []


@pytest.mark.parametrize("at", [3.5, 7.5, 9.5, 15.0])
def test_a_process_that_starts_in_the_middle_of_anything_converges(at: float):
    """Unobserved state: it has never seen how things came to be as they are."""
    restarts = [fault(at, "crash", replica="leader"), fault(at + 0.5, "drop", what="")]
    assert play(story(cluster(), EVENTFUL, restarts, heal_at=40)).violations == []
