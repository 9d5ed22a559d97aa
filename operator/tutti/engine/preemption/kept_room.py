"""Room that gangs keep for members which are yet to be made, given to work of higher priority.

The choice of victims looks at pods on nodes; what is kept is in none. So a gang that has started and keeps room for the
rest of it (`GangStyle.WITH_ROOM`) is asked last: where others fit into that room, it leaves as a whole and waits anew,
for what runs of it is of no use without the others. Those leave in whose place others go, the least important and
latest first; how often nodes are looked for hardly grows with how many keep some. First it is asked what fits into kept
room alone, which is free at once, and only then what would fit if the gangs' pods were gone as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tutti.cluster.pods import PodRecord
from tutti.engine.lifecycle.eviction import can_leave
from tutti.engine.lifecycle.quota_usage import protected_until
from tutti.engine.preemption import PreemptionState, nominated_room
from tutti.engine.records.pod_sets import PreemptionOption
from tutti.engine.records.workloads import GangStyle, Phase, Workload
from tutti.placement.framework import Rows
from tutti.placement.preemption.by_room import has_inter_pod_constraints
from tutti.placement.preemption.units import SimulatedRemoval
from tutti.placement.together import Diagnosis, place_together

MOST_TRIES = 16
"""How often it is looked whether some of those that were found can stay after all."""


class FreedRoom(NamedTuple):
    """Who has to leave so that a workload has room.

    Attributes:
        option: What it has then.
        rows: Where its required pods go.
        gangs: Who leaves.
        awaited: The pods of these that must have gone before; none where what they keep is enough.
    """

    option: PreemptionOption
    rows: list[Rows]
    gangs: list[Workload]
    awaited: list[PodRecord]


def find_kept_room(
    state: PreemptionState, workload: Workload, options: Sequence[PreemptionOption], priority: int
) -> FreedRoom | None:
    """Return which gangs have to leave so that a workload fits into what they keep, and where; None where it does not.

    Args:
        state: The engine's memory.
        workload: For whose pods no victims were found.
        options: What it could have if others were gone.
        priority: That of its pods.
    """
    keeping = [one for one in _keeping(state) if _may_go(state, one, workload, priority)]
    keeping.sort(key=lambda one: (one.priority, -one.queued_at))
    for pods_leave in (False, True) if keeping else ():
        for option in options:
            found = None if option.contested else _Trial(state, option, pods_leave).fewest(keeping)
            if found is not None:
                gangs, rows = found
                pods = (member.pod for one in gangs if pods_leave for member in one.members())
                return FreedRoom(option, rows, gangs, [pod for pod in pods if pod.place])
    return None


def _keeping(state: PreemptionState) -> list[Workload]:
    """Return the gangs that keep room for members that are yet to be made."""
    for key, one in list(state.keeping_room.items()):
        if one.phase is not Phase.BINDING or one.style is not GangStyle.WITH_ROOM:
            del state.keeping_room[key]
    return list(state.keeping_room.values())


def _may_go(state: PreemptionState, other: Workload, workload: Workload, priority: int) -> bool:
    if other is workload or other.priority >= workload.priority or not can_leave(other):
        return False
    if not any(group.holds for group in other.groups.values()):
        return False
    if any(member.pod.priority >= priority for member in other.members() if member.pod.place):
        return False
    protected = protected_until(state, other)
    if protected > state.now:
        state.nominations.look_again(protected)
        return False
    return True


@dataclass(slots=True)
class _Trial:
    """Tries where pods would go if some gangs kept no room, or had no pods either."""

    state: PreemptionState
    option: PreemptionOption
    pods_leave: bool

    def fewest(self, gangs: Sequence[Workload]) -> tuple[list[Workload], list[Rows]] | None:
        """Return who of some gangs has to leave, and where the pods go then; None where all of them are not enough.

        Args:
            gangs: The first to leave first.
        """
        rows = self.rows(gangs)
        if rows is None:
            return None
        enough, most = 1, len(gangs)
        while enough < most:  # how far down the order one has to go
            middle = (enough + most) // 2
            found = self.rows(gangs[:middle])
            enough, most, rows = (enough, middle, found) if found is not None else (middle + 1, most, rows)
        return self._needed(gangs[:most], rows)

    def _needed(self, gangs: Sequence[Workload], rows: list[Rows]) -> tuple[list[Workload], list[Rows]] | None:
        """Leave out those that have nothing where the pods go, then those without whom these fit, the last first."""
        chosen = self._there(gangs, rows)
        found = self.rows(chosen)
        if found is None:
            chosen, found = list(gangs), rows
        size = -(-len(chosen) // MOST_TRIES)
        for end in range(len(chosen), 0, -size) if size else ():
            some = {one.key for one in chosen[max(0, end - size) : end]}
            rest = [one for one in chosen if one.key not in some]
            fewer = self.rows(rest) if rest else None
            if fewer is not None:
                chosen, found = rest, fewer
        return (chosen, found) if chosen else None  # else nobody is in the way

    def _there(self, gangs: Sequence[Workload], rows: Sequence[Rows]) -> list[Workload]:
        """Return the gangs that keep room, or have pods that leave, on any of some rows."""
        names = self.state.cluster.nodes.names
        nodes = {names[row] for mine in rows for row in mine.tolist()}
        return [one for one in gangs if not nodes.isdisjoint(self._nodes_of(one))]

    def _nodes_of(self, gang: Workload) -> list[str]:
        nodes = [hold.node for group in gang.groups.values() for hold in group.holds]
        return nodes + [member.pod.place for member in gang.members() if self.pods_leave]

    def rows(self, gangs: Sequence[Workload]) -> list[Rows] | None:
        """Return where the required pods go once some gangs keep nothing; None where they do not fit."""
        state, cluster, option = self.state, self.state.cluster, self.option
        members = (member for one in gangs if self.pods_leave for member in one.members())
        slots = np.array([member.pod.slot for member in members if member.pod.slot >= 0], dtype=np.int64)
        seen = self.pods_leave and any(has_inter_pod_constraints(cluster, ask, option.profile) for ask in option.asks)
        with (
            SimulatedRemoval(cluster, slots, seen=seen),
            without_holds(state, gangs),
            cluster.transaction() as transaction,
        ):
            nominated_room.take_covered(state, transaction, slots if self.pods_leave else None)
            found = place_together(cluster.nodes, transaction, option.asks, option.profile)
        return None if isinstance(found, Diagnosis) else found


@contextmanager
def without_holds(state: PreemptionState, gangs: Sequence[Workload]) -> Iterator[None]:
    """Have the room of holds free for a while."""
    holds = [hold for one in gangs for group in one.groups.values() for hold in group.holds]
    held = [hold for hold in holds if state.cluster.held.is_held((hold.node, hold.number))]
    for hold in held:
        state.cluster.held.lend(hold.pod_class, (hold.node, hold.number))
    try:
        yield
    finally:
        for hold in held:
            state.cluster.held.lend(hold.pod_class, (hold.node, hold.number), back=True)
