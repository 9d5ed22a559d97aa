"""Room that gangs keep for members which are yet to be made, given to work of higher priority.

The choice of victims looks at pods on nodes; what is kept is in none. So a gang that has started and keeps room for the
rest of it (`GangStyle.WITH_ROOM`) is asked last: where others fit into that room, it leaves as a whole and waits anew,
for what runs of it is of no use without the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tutti.engine.lifecycle.eviction import can_leave, evict
from tutti.engine.lifecycle.quota_usage import protected_until
from tutti.engine.preemption import PreemptionState, nominated_room
from tutti.engine.records.explanation import EvictionReason
from tutti.engine.records.pod_sets import PreemptionOption
from tutti.engine.records.queue_entries import QueueEntry
from tutti.engine.records.workloads import GangStyle, Phase, Workload, workload_named
from tutti.placement.together import Diagnosis, place_together


def take_kept_room(
    state: PreemptionState, entry: QueueEntry, options: Sequence[PreemptionOption], priority: int, reason: str
) -> bool:
    """Take gangs out in whose kept room a workload fits, the least important and latest first; as few as will do.

    Args:
        state: The engine's memory.
        entry: The workload, for whose pods no victims were found.
        options: What it could have if others were gone.
        priority: That of its pods.
        reason: What condition Preempted of those says that leave.

    Returns:
        Whether any were; the workload is tried again then, and finds the room free.
    """
    keeping = [one for one in _keeping(state) if _may_go(state, one, entry.workload, priority)]
    keeping.sort(key=lambda one: (one.priority, -one.queued_at))
    for count in range(1, len(keeping) + 1):
        chosen = keeping[:count]
        if any(not one.contested and _fits_without(state, chosen, one) for one in options):
            for other in chosen:
                named = workload_named(entry.workload, other.key[1], discreet=state.discreet)
                text = f"it makes room for {named}, whose pods have priority {priority}"
                queue = "" if entry.queue is None else entry.queue.name
                evict(state, other, EvictionReason.PREEMPTED, text, preempted=reason, for_queue=queue)
            return True
    return False


def _keeping(state: PreemptionState) -> list[Workload]:
    """Return the gangs that keep room for members that are yet to be made."""
    for key, one in list(state.keeping_room.items()):
        if one.phase is not Phase.BINDING or one.style is not GangStyle.WITH_ROOM:
            del state.keeping_room[key]
    return list(state.keeping_room.values())


def _may_go(state: PreemptionState, other: Workload, workload: Workload, priority: int) -> bool:
    if other is workload or other.priority >= workload.priority or not can_leave(other):
        return False
    if any(member.pod.priority >= priority for member in other.members() if member.pod.place):
        return False
    protected = protected_until(state, other)
    if protected > state.now:
        state.nominations.look_again(protected)
        return False
    return True


def _fits_without(state: PreemptionState, gangs: Sequence[Workload], option: PreemptionOption) -> bool:
    """Whether a workload has room once some gangs keep none."""
    with _without_holds(state, gangs), state.cluster.transaction() as transaction:
        nominated_room.take_covered(state, transaction)
        found = place_together(state.cluster.nodes, transaction, option.asks, option.profile)
    return not isinstance(found, Diagnosis)


@contextmanager
def _without_holds(state: PreemptionState, gangs: Sequence[Workload]) -> Iterator[None]:
    """Have the room of holds free for a while."""
    holds = [hold for one in gangs for group in one.groups.values() for hold in group.holds]
    held = [hold for hold in holds if state.cluster.is_held((hold.node, hold.number))]
    for hold in held:
        state.cluster.lend(hold.pod_class, (hold.node, hold.number))
    try:
        yield
    finally:
        for hold in held:
            state.cluster.lend(hold.pod_class, (hold.node, hold.number), back=True)
