"""The operator is killed before and after its writes in turn; whoever comes after it reaches the same end.

What queues and flavors say of themselves is half of all writes, and alike in most stories: it is cut off in the first,
and where the status of a queue tells what is being done.
To be killed after a write and before the next one leaves the same behind wherever one write follows the other, so two
kills in three writes try two of three ends; `make fuzz-histories` has every write cut on both sides.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.drawing import SEARCHES
from tests.simulation.killing import Killer
from tests.simulation.network import Sent
from tests.simulation.pods import NATIVE
from tests.simulation.run import Outcome, play
from tests.simulation.steps import Step
from tests.simulation.stories import LISTED, claims, cluster, devices, gang, on, story, with_claims, with_devices
from tests.simulation.world import World

MAY_MOVE = {"annotations": {"scheduling.tutti.dev/movable": "true"}}
REFUSED = {"what": "pods/binding", "method": "POST", "how": "refuse", "code": 403, "times": 10_000, "name": "g-2"}
OWED = {"preemption": {"reclaimWithinCohort": "Any"}}
MORE_IMPORTANT = {"preemption": {"withinClusterQueue": "LowerPriority"}}
STORIES = {
    "a gang of a queue": story(cluster(), gang("g", 3, queue="q1")),
    "a gang that only annotations tell of": story(cluster(), gang("g", 3, how="pfnet", queue="q2", spread=0.5)),
    "a workload with fewer members than it wants": story(
        cluster(), gang("w", 3, how="Workload", least=2, queue="q3", readyTimeoutSeconds=60)
    ),
    "a gang that takes another's place": story(
        cluster(**MORE_IMPORTANT),
        gang("low", 3, how="Workload", queue="q3", gpus=2, seconds=30),
        gang("high", 2, at=6.0, how="Workload", queue="q3", gpus=2, priority=10),
    ),
    "a workload that is out of time": story(
        cluster(), gang("w", 2, how="Workload", queue="q1", seconds=600, maximumExecutionTimeSeconds=20), heal_at=60
    ),
    "a gang for which others are moved": story(
        cluster(nodes=2, consolidation={"maxMoves": 4}),
        gang("a", 1, queue="q3", gpus=2, seconds=60, each={**MAY_MOVE, **on("n0")}),
        gang("b", 1, at=6.0, queue="q3", gpus=2, seconds=60, each=MAY_MOVE),
        gang("wide", 1, at=12.0, queue="q1", gpus=4, seconds=10),
        heal_at=40,
    ),
    "a gang that gets back what its queue has lent": story(
        cluster(**OWED),
        gang("low", 3, how="Workload", queue="q1", gpus=2, seconds=30),
        gang("owed", 2, at=6.0, queue="q2", gpus=2),
    ),
    "a gang that cannot be bound whole for a while": story(
        cluster(), gang("g", 3, queue="q1", seconds=10), [Step(0.0, "trouble", REFUSED)], heal_at=40
    ),
    "a gang whose volumes are made where its members go": story(
        cluster(), claims("g", 3), with_claims(gang("g", 3, queue="q1"))
    ),
    "a gang whose members go where a volume is": story(
        cluster(), claims("g", 3, volumes=4), with_claims(gang("g", 3, queue="q1", gpus=2))
    ),
    "a gang whose members claim devices": story(
        cluster(), devices(count=2), with_devices(gang("g", 3, queue="q1")), heal_at=20
    ),
    "a gang whose PodGroup has a claim of its own": story(
        cluster(), devices(), with_devices(gang("g", 3, how=NATIVE, queue="q1", **LISTED)), heal_at=20
    ),
}


EVERY = 1 if SEARCHES else 3
SAME_IN_ALL = frozenset({"clusterqueues/status", "localqueues/status", "resourceflavors/status"})
WHOLLY = (next(iter(STORIES)), "a gang for which others are moved")
"""In the second of these a queue's status tells what is being done."""


def counts(sent: Sent) -> bool:
    """Whether a request is a write that may be interrupted: renewals of the lease are all alike."""
    return sent.is_write and sent.method != "PUT"


def counts_but_what_is_same_in_all(sent: Sent) -> bool:
    """Whether it counts in those stories in which nothing new is written of queues and flavors."""
    return counts(sent) and sent.what not in SAME_IN_ALL


def counting_in(name: str) -> Callable[[Sent], bool]:
    """What counts in a story."""
    return counts if name in WHOLLY else counts_but_what_is_same_in_all


def writes_of(name: str) -> tuple[int, Outcome]:
    """How many writes of a story count when nobody is killed, and the outcome of that."""
    nobody = Killer(0, "never", counting_in(name))
    outcome = play(STORIES[name], prepare=nobody.prepare)
    return nobody.count, outcome


@pytest.mark.parametrize("name", STORIES)
@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_at_any_write_it_reaches_the_same_end(name: str, when: str):
    scenario = STORIES[name]
    writes, wanted = writes_of(name)
    assert wanted.violations == []
    assert writes > 8
    wrong = []
    for number in range(1, writes + 1, EVERY):
        killer = Killer(number, when, counting_in(name))
        outcome = play(scenario, prepare=killer.prepare)
        assert killer.victim is not None, f"there was no write {number}"
        if outcome.violations or outcome.state != wanted.state:
            about = f"{when} write {number}, {killer.victim.method} {killer.victim.path}"
            wrong.append(f"{about}: {outcome.violations or outcome.state}, wanted {wanted.state}")
    assert not wrong, "\n".join(wrong)


def test_the_stories_are_full_of_writes_of_every_kind():
    """What is not written in them is not tried."""
    written: set[tuple[str, str]] = set()

    def note(world: World) -> None:
        world.network.sending.append(lambda sent: written.add((sent.method, sent.what)))

    prepare: Callable[[World], None] = note
    for scenario in STORIES.values():
        play(scenario, prepare=prepare)
    for wanted in (
        ("POST", "pods/binding"),
        ("DELETE", "pods"),
        ("PATCH", "pods/status"),
        ("POST", "podgroups"),
        ("DELETE", "podgroups"),
        ("PATCH", "podgroups/status"),
        ("PATCH", "workloads/status"),
        ("PATCH", "workloads"),
        ("PATCH", "clusterqueues/status"),
        ("POST", "events"),
        ("POST", "leases"),
        ("PATCH", "persistentvolumeclaims"),
        ("PATCH", "persistentvolumes"),
        ("PATCH", "resourceclaims"),
        ("PATCH", "resourceclaims/status"),
    ):
        assert wanted in written
