"""What was charged or promised is the same after any restart, held against random histories.

Each history is told twice, up to a moment at which one of both engines is started anew, from what the API server has.
In some of them something has happened while nobody looked. Then both look at everybody, and what they have promised is
compared. A restart gives nobody what was another's. It may count as in use what victims have yet to leave, and may find
as good a place, or a better one: for who starts, for what is kept for successors and for heads, and for whom a
reservation is made again; where that is another, others may find less than before. And it cannot know what nobody was told:

- where a member was that was deleted while nobody looked, or of a gang of which nothing is left that it had run;
- what a head would have been told in a moment, had there been one.

Who waits for victims whose room others have taken, since they go before it, chooses anew at once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from tests.drawing import tries
from tests.engine.histories.promised import PromisedHistory
from tests.engine.world import GPU, World
from tutti.api.core import Pod
from tutti.engine.backfill.promise_texts import WOULD_DELAY, told_promise
from tutti.engine.lifecycle.told_before import ToldBefore
from tutti.engine.records.decisions import Bind, Evict
from tutti.engine.records.explanation import REFRESH_SECONDS
from tutti.engine.records.members import Charge
from tutti.engine.records.nominations import Nomination
from tutti.engine.records.reservations import KeptForSuccessors
from tutti.engine.records.workloads import Phase, WorkloadKey
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
        kept: What is kept for whose successors: how much quota, on which nodes, and how many of these have the room.
        moves: What is kept for whom that is moved.
        started: Who is bound.
        kept_off: Who waits because of what is kept for a head.
        asked: Who is asked to leave.
        in_vain: Who waits for victims though others that go before it have taken the room.
        victims: For whom each waits to leave.
        reserved: For whom nodes are reserved, and which.
    """

    in_all: dict[tuple[str, str], int]
    used: dict[tuple[str, str], int]
    held: dict[Any, tuple[Any, ...]]
    heads: dict[str, Head]
    kept: dict[Any, Kept]
    moves: dict[str, tuple[Any, ...]]
    started: set[str]
    kept_off: set[str]
    asked: set[str]
    in_vain: set[WorkloadKey]
    victims: dict[WorkloadKey, set[str]]
    reserved: dict[WorkloadKey, list[str]]


class Kept(NamedTuple):
    """What is kept for the successors of one gang."""

    quota: dict[str, int]
    nodes: list[str]
    with_room: int


class Head(NamedTuple):
    """What a head is promised."""

    workload: WorkloadKey
    promised: float
    until: float


class Before(NamedTuple):
    """How things were when one of both engines was started anew.

    Attributes:
        told: What the head of each queue had been told of when it starts; None where of that nothing.
        unseen: Of which gangs and workloads members were deleted while nobody looked.
        vanished: Those of them of which nothing is left that has run.
        reserved: For whom nodes are reserved, and which.
    """

    told: dict[str, tuple[WorkloadKey, float | None]]
    unseen: set[str]
    vanished: set[str]
    reserved: dict[WorkloadKey, list[str]]


def promises(world: World, since: int) -> Promises:
    state, log = world.engine.state, world.log[since:]
    used = dict[tuple[str, str], int]()
    for queue in state.ledger.queues():
        used |= {(queue, name): amount for name, amount in _amounts(state.ledger.used(queue)).items()}
    in_all = dict(used)
    for handed in state.ledger.handed():
        add_to(in_all, {(handed.queue, name): amount for name, amount in _amounts(handed.usage).items()})
    for found in state.nominations.ours.values():
        if not _can_be_had(world, found):
            for charge, pods in found.charges:
                for total in (in_all, used):
                    add_to(total, {(charge.queue, name): n for name, n in _amounts(charge.usage).items()}, -pods)
            for handed in found.handed:
                add_to(used, {(handed.queue, name): n for name, n in _amounts(handed.usage).items()})
    return Promises(
        in_all,
        used,
        {
            key: (sorted((one.pod, one.node) for one in found.spots if one.pod), _charged(found.charges))
            for key, found in state.nominations.ours.items()
            if _can_be_had(world, found)
        },
        {queue: Head(one.workload, one.promised, one.until) for queue, one in state.backfill_reservations.of.items()},
        {
            key: Kept(_charged(found.charges), sorted(node for node, _ in found.spots), _with_room(world, found))
            for key, found in state.kept_for_successors.items()
        },
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
        {key for key, found in state.nominations.ours.items() if not _can_be_had(world, found)},
        {key: {name for _, name in found.victims} for key, found in state.nominations.ours.items()},
        _reserved(world),
    )


def _can_be_had(world: World, held: Nomination) -> bool:
    """Whether its pods have room when all have left who are leaving; others that go before it may have taken that."""
    left = _left(world, leaving=True)
    for spot in held.spots:
        left[spot.node] -= spot.pod_class.requests.get(GPU, 0)
    return all(amount >= 0 for amount in left.values())


def _with_room(world: World, kept: KeptForSuccessors) -> int:
    """How many successors would have room where that is kept."""
    left, count = _left(world, leaving=False), 0
    for node, amounts in kept.spots:
        left[node] = left.get(node, 0) - amounts.get(GPU, 0)
        count += left[node] >= 0
    return count


def _left(world: World, *, leaving: bool) -> dict[str, int]:
    """How much of each node nobody has, or will have once those have left who are leaving."""
    left = {name: int(node.status.allocatable[GPU]) for name, node in world.nodes.items()}
    for pod in world.pods.values():
        gone = pod.terminated or (leaving and pod.metadata.deletion_timestamp)
        if pod.spec.node_name in left and not gone:
            left[pod.spec.node_name] -= _gpus(pod)
    return left


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


def told(number: int, *, restarted: bool) -> tuple[Before, Promises]:
    """What a history comes to, and its engine decides next."""
    history = PromisedHistory(number)
    world = history.world
    for _ in range(LENGTHS[number % len(LENGTHS)]):
        history.step()
        world.until(0.0)
    bound = world.where()
    for _ in range(number % 3):
        history.step()  # nobody looks
    before, since = _before(world, bound), len(world.log)
    world.flavor("unused")  # so that everybody is looked at again, as after a restart
    if restarted:
        world.restart()
    world.until(2.0)  # who waits for victims is tried once a second where there is other room
    found = promises(world, since)
    if not restarted:
        world.until(A_SECOND)
    return before, found._replace(asked={one.name for one in world.log[since:] if isinstance(one, Evict)})


def _before(world: World, bound: dict[str, str]) -> Before:
    state = world.engine.state
    told = dict[str, tuple[WorkloadKey, float | None]]()
    for queue, one in state.backfill_reservations.of.items():
        reported = state.workloads[one.workload].reported if one.workload in state.workloads else ("", "", 0.0)
        said = told_promise(ToldBefore(*reported[:2]))
        told |= {queue: (one.workload, said.starts_at)} if said.kept else {}
    unseen = {_kin(name) for name in bound if ("default", name) not in world.pods}
    return Before(told, unseen, unseen - {_kin(name) for name in world.where()}, _reserved(world))


def _reserved(world: World) -> dict[WorkloadKey, list[str]]:
    found = dict[WorkloadKey, list[str]]()
    for workload in world.engine.state.workloads.values():
        if workload.phase is Phase.RESERVED:
            nodes = [member.pod.assumed for member in workload.members() if member.pod.assumed]
            held = [hold.node for group in workload.groups.values() for hold in group.holds]
            found[workload.key] = sorted([*nodes, *held])
    return found


def _kin(name: str) -> str:
    return name.split("-", maxsplit=1)[0]


@pytest.mark.parametrize("number", NUMBERS)
def test_what_was_charged_or_promised_is_the_same_after_a_restart(number):
    (known, before), (_, after) = told(number, restarted=False), told(number, restarted=True)
    same_places = all(after.reserved.get(key, nodes) == nodes for key, nodes in known.reserved.items())
    heads = [workload for workload, _ in known.told.values()]
    if same_places and all(_has_started(one, before) or not _has_started(one, after) for one in heads):
        assert before.started <= after.started | after.kept_off
        assert all(_is_held(key, held, after) for key, held in before.held.items())
        assert after.asked <= before.asked.union(*(after.victims.get(key, ()) for key in before.in_vain))
    assert after.moves == before.moves
    assert all(_is_kept(one, after.kept.get(key), key[2] in known.unseen) for key, one in _seen(before.kept, known))
    if before.started <= after.started and not known.vanished:
        assert _is_no_less(after.in_all, before.in_all)
        assert _is_no_less(after.used, before.used) or before.in_vain
    for queue, head in before.heads.items():
        workload, starts_at = known.told.get(queue, (None, None))
        if workload == head.workload and not _has_started(head.workload, after):
            found = after.heads[queue]
            assert found.workload == head.workload
            assert starts_at is None or found.promised <= max(head.promised, starts_at) + A_SECOND
            assert found.until <= head.until + REFRESH_SECONDS or found.promised < head.promised


def _seen(kept: dict[Any, Kept], known: Before) -> list[tuple[Any, Kept]]:
    """What is kept for gangs, but for those of which nothing was left when somebody looked."""
    return [(key, one) for key, one in kept.items() if key[2] not in known.vanished]


def _is_kept(before: Kept, after: Kept | None, unseen: bool) -> bool:
    """Whether as much quota is kept, and as many places that are as good, but for those of members lost unseen."""
    if after is None or after.quota != before.quota:
        return False
    return (
        unseen
        or after.nodes == before.nodes
        or (len(after.nodes) == len(before.nodes) and after.with_room > before.with_room)
    )


def _is_held(key: WorkloadKey, held: tuple[Any, ...], after: Promises) -> bool:
    """Whether the same is held for one that waits for victims, or it need not wait for them."""
    return after.held.get(key) == held or _has_started(key, after)


def _has_started(key: WorkloadKey, found: Promises) -> bool:
    return key[2] in {_kin(name) for name in found.started}


def _is_no_less(now: dict[tuple[str, str], int], once: dict[tuple[str, str], int]) -> bool:
    return all(now.get(what, 0) >= amount for what, amount in once.items())
