"""What was charged or promised is the same after any restart, held against random histories.

Each history is told twice, up to a moment at which one of both engines is started anew, from what the API server has.
In some of them something has happened while nobody looked. Then both look at everybody, and what they have promised is
compared. A restart may count as in use what victims have yet to leave, and may find as good a place, or a better one;
it gives nobody what was another's.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from tests.drawing import tries
from tests.engine.histories.promised import PromisedHistory
from tests.engine.world import GPU, World
from tutti.api.core import Pod
from tutti.engine.backfill.promise_texts import WOULD_DELAY
from tutti.engine.records.decisions import Bind, Evict
from tutti.engine.records.explanation import REFRESH_SECONDS
from tutti.engine.records.members import Charge
from tutti.engine.records.nominations import Nomination
from tutti.engine.records.workloads import WorkloadKey
from tutti.quota.tree import Usage, add_to

A_SECOND = 1.0
"""Statuses tell times in whole seconds."""
LENGTHS = (6, 9, 12, 16, 20)
NUMBERS = range(tries(80))


class Promises(NamedTuple):
    """What is charged and promised, and what has just been decided.

    Attributes:
        in_all: What is used of each queue and meant for somebody in it, of each resource.
        used: The same without what is used by some and meant for others, which counts once.
        held: For whom room and quota are held while others leave: for which pod on which node, and how much quota.
        heads: For whom each queue keeps something, when that starts at the latest, and until when it is kept.
        kept: What is kept for whose successors.
        moves: What is kept for whom that is moved.
        started: Who is bound.
        kept_off: Who waits because of what is kept for a head.
        asked: Who is asked to leave.
    """

    in_all: dict[tuple[str, str], int]
    used: dict[tuple[str, str], int]
    held: dict[Any, tuple[Any, ...]]
    heads: dict[str, Head]
    kept: dict[Any, tuple[Any, ...]]
    moves: dict[str, tuple[Any, ...]]
    started: set[str]
    kept_off: set[str]
    asked: set[str]


class Head(NamedTuple):
    """What a head is promised."""

    workload: WorkloadKey
    promised: float
    until: float


def promises(world: World, since: int) -> Promises:
    state, log = world.engine.state, world.log[since:]
    kept_for, used = state.kept_for_successors.items(), dict[tuple[str, str], int]()
    for queue in state.ledger.queues():
        used |= {(queue, name): amount for name, amount in _amounts(state.ledger.used(queue)).items()}
    in_all = dict(used)
    for handed in state.ledger.handed():
        add_to(in_all, {(handed.queue, name): amount for name, amount in _amounts(handed.usage).items()})
    return Promises(
        in_all,
        used,
        {
            key: (sorted((one.pod, one.node) for one in found.spots if one.pod), _charged(found.charges))
            for key, found in state.nominations.ours.items()
            if _can_be_had(world, found)
        },
        {queue: Head(one.workload, one.promised, one.until) for queue, one in state.backfill_reservations.of.items()},
        {key: (_charged(found.charges), sorted(node for node, _ in found.spots)) for key, found in kept_for},
        {
            queue: (plan.key, sorted((place.pod, place.node, place.charged) for place in plan.places()))
            for queue, plan in state.moves.plans.items()
        },
        {one.name for one in log if isinstance(one, Bind)},
        {
            name
            for (_, name), pod in world.pods.items()
            if any(one.reason == WOULD_DELAY for one in pod.status.conditions)
        },
        {one.name for one in log if isinstance(one, Evict)},
    )


def _can_be_had(world: World, held: Nomination) -> bool:
    """Whether its pods have room when all have left who are leaving; others that go before it may have taken that."""
    left = {name: int(node.status.allocatable[GPU]) for name, node in world.nodes.items()}
    for pod in world.pods.values():
        if pod.spec.node_name in left and not (pod.terminated or pod.metadata.deletion_timestamp):
            left[pod.spec.node_name] -= _gpus(pod)
    for spot in held.spots:
        left[spot.node] -= 0 if spot.pod is None else _gpus(world.pods[spot.pod])
    return all(amount >= 0 for amount in left.values())


def _gpus(pod: Pod) -> int:
    return int(pod.spec.containers[0].resources.requests.get(GPU, 0))


def _amounts(usage: Usage) -> dict[str, int]:
    """How much is used of each resource, whatever its flavor."""
    total: dict[str, int] = {}
    for (_, name), amount in usage.items():
        add_to(total, {name: amount})
    return {name: amount for name, amount in total.items() if amount}


def _charged(charges: list[tuple[Charge, int]]) -> dict[str, int]:
    total: Usage = {}
    for charge, pods in charges:
        add_to(total, charge.usage, pods)
    return _amounts(total)


def told(number: int, *, restarted: bool) -> Promises:
    """What a history comes to, and its engine decides next."""
    history = PromisedHistory(number)
    for _ in range(LENGTHS[number % len(LENGTHS)]):
        history.step()
        history.world.until(0.0)
    for _ in range(number % 3):
        history.step()  # nobody looks
    since = len(history.world.log)
    history.world.flavor("unused")  # so that everybody is looked at again, as after a restart
    if restarted:
        history.world.restart()
    history.world.until(2.0)  # who waits for victims is tried once a second where there is other room
    return promises(history.world, since)


@pytest.mark.parametrize("number", NUMBERS)
def test_what_was_charged_or_promised_is_the_same_after_a_restart(number):
    before, after = told(number, restarted=False), told(number, restarted=True)
    assert before.started <= after.started | after.kept_off
    assert after.asked <= before.asked
    assert (after.kept, after.moves) == (before.kept, before.moves)
    assert all(after.held.get(key) == held for key, held in before.held.items())
    if before.started <= after.started:
        assert _is_no_less(after.in_all, before.in_all)
        assert _is_no_less(after.used, before.used)
    for queue, head in before.heads.items():
        found = after.heads[queue]
        assert found.workload == head.workload
        assert found.promised <= head.promised + A_SECOND
        assert found.until <= head.until + REFRESH_SECONDS or found.promised < head.promised


def _is_no_less(now: dict[tuple[str, str], int], once: dict[tuple[str, str], int]) -> bool:
    return all(now.get(what, 0) >= amount for what, amount in once.items())
