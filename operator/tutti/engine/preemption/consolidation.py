"""Moving running work so that a workload fits which lacks nothing but room in one piece.

Its ClusterQueue must allow it (`consolidation.maxMoves`), and who is moved must let itself be: by the annotation
`scheduling.tutti.dev/movable` on its pods or the object of its gang, or because its own ClusterQueue says so of all
that runs there. Members that a gang can do without are movable unless they say otherwise. Nobody is moved

- whom a disruption budget, `safe-to-evict: "false"` or the minimum runtime of its queue protects, whose controller
  would not make it again, or who was moved, or is a successor of who was, less than an hour ago;
- who is more important than the workload that waits: it would bear the cost for a lesser one;
- who might not be admitted again at once: its queue is on hold, strict, keeps room for its head or borrows what it
  uses; it needs an approval; a plugin has a say; it is not whole as it is.

What is found is certain (`placement/preemption/consolidation.py`), and is kept until all have their nodes (`moves.py`).
It is looked for again only when something has changed since, and not before SEARCH_SECONDS; a few times in a turn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from tutti.api.conditions import timestamp
from tutti.api.messages import counted
from tutti.engine.lifecycle import permits, quota_usage
from tutti.engine.preemption import PreemptionState, nominated_room, nominations
from tutti.engine.preemption.moves import WAITING_FOR_MOVES, home_of
from tutti.engine.preemption.surplus import surplus_members
from tutti.engine.reading.resolution import queue_of, through_local_queue
from tutti.engine.records.discretion import workload_named
from tutti.engine.records.explanation import Explanation, Gate, LifecycleStep
from tutti.engine.records.gang_membership import says_movable
from tutti.engine.records.members import Member, MemberGroup
from tutti.engine.records.moves import AGAIN_SECONDS, Home, KeptPlace, MovedPiece, MovePlan
from tutti.engine.records.nominations import Nomination
from tutti.engine.records.pod_set_topology import PodSetTopology
from tutti.engine.records.pod_sets import PreemptionOption, pod_set_group_of
from tutti.engine.records.queue_entries import QueueEntry
from tutti.engine.records.workloads import Phase, Workload, WorkloadKey
from tutti.placement.framework import NO_FLAVOR, Mask
from tutti.placement.gang import Ask
from tutti.placement.preemption.consolidation import (
    FoundMoves,
    MovableUnit,
    find_moves,
    lacks_one_piece_only,
    worth_clearing,
)
from tutti.quota.flavors import Queue, where_of

SEARCH_SECONDS = 10.0
"""How long it takes at least until moves are looked for again for one that has found none."""
MOST_SEARCHES = 4
"""For so many workloads are moves looked for in one turn."""
MOST_OF_A_QUEUE = 2
"""For so many of one queue, where others let work be moved as well, so that who waits in vain leaves them a part."""
MOST_NAMES = 3
"""So many of those that are moved are named in a message."""


def consolidate(
    state: PreemptionState, entry: QueueEntry, why: Explanation, options: Sequence[PreemptionOption], priority: int
) -> Explanation | None:
    """Decide who is moved for a workload that has found no nodes, and keep room and quota for all of them.

    Args:
        state: The engine's memory.
        entry: The workload.
        why: Why it found no nodes.
        options: What it could have if others were elsewhere, the best first.
        priority: That of its pods.

    Returns:
        What it waits for from now on; None where nobody is moved.
    """
    queue, workload, moves = entry.queue, entry.workload, state.moves
    if queue is None or not queue.max_moves or workload.phase is not Phase.WAITING:
        return None
    if why.gate is not Gate.PLACEMENT or why.reason != "Unschedulable" or queue.name in moves.plans:
        return None
    if state.configuration.extenders or state.plugins.get(workload.scheduler):
        return None  # they have not been asked about anybody else
    open_options = [one for one in options if not one.contested]
    if not any(lacks_one_piece_only(state.cluster, one.asks, one.profile) for one in open_options):
        return None
    if not _is_time(state, workload.key, queue.name):
        return None
    for option in open_options:
        with state.cluster.transaction() as transaction:
            nominated_room.take_covered(state, transaction)
            rows = worth_clearing(state.cluster, option.asks, option.profile)
            movable = _MovableWork(state, workload, priority, queue)
            units = movable.units(rows)
            budgets = list(state.budgets.values())
            found = find_moves(
                state.cluster, option.asks, units, profile=option.profile, budgets=budgets, most=queue.max_moves
            )
        if found is not None and moves.room_for(queue.name, len(found.moved), state.now):
            return _plan(state, entry, priority, option, units, found)
    return None


def _is_time(state: PreemptionState, key: WorkloadKey, queue: str) -> bool:
    """Whether to look for moves for a workload now: not again before something has changed, and a while has passed."""
    moves, cluster = state.moves, state.cluster
    seen = cluster.pod_columns.version, cluster.nodes.version, cluster.freed.count, state.catalog.version
    version = (*seen, state.budgets_eased)
    if moves.turn != state.now:
        moves.turn, moves.searches = state.now, Counter()
        moves.share = (
            MOST_OF_A_QUEUE if sum(one.max_moves > 0 for one in state.catalog.queues.values()) > 1 else MOST_SEARCHES
        )
    last = moves.searched.get(key)
    if last is not None and last[1] == version:
        return False
    again = state.now if last is None else last[0] + SEARCH_SECONDS
    if again > state.now or moves.searches.total() >= MOST_SEARCHES or moves.searches[queue] >= moves.share:
        state.nominations.look_again(again if again > state.now else state.now + SEARCH_SECONDS)
        return False
    moves.searches[queue] += 1
    if len(moves.searched) > 2 * len(state.workloads):
        moves.searched = {one: at for one, at in moves.searched.items() if one in state.workloads}
    moves.searched[key] = state.now, version
    return True


def _plan(
    state: PreemptionState,
    entry: QueueEntry,
    priority: int,
    option: PreemptionOption,
    units: Sequence[MovableUnit],
    found: FoundMoves,
) -> Explanation:
    """Keep room and quota for a workload and for those who are moved; who leave once that is written down."""
    workload, queue, names = entry.workload, entry.queue, state.cluster.nodes.names
    assert queue is not None  # it lets others be moved
    until = state.now + state.configuration.victims_timeout_seconds
    pieces: dict[Home, MovedPiece] = {}
    for index, rows in found.moved:
        pods = units[index].pods
        home = home_of(state.workloads[state.pod_group_of[pods[0].key][0]])
        least = min(pod.priority for pod in pods)
        piece = pieces.setdefault(
            home, MovedPiece(home, least, [], until + state.configuration.victims_timeout_seconds)
        )
        piece.priority = min(piece.priority, least)
        for pod, row in zip(pods, [row for some in rows for row in some.tolist()], strict=True):
            pod_class, charge = state.cluster.class_elsewhere(pod), state.members[pod.key].charge
            piece.places.append(KeptPlace(pod.key, pod.uid, names[row], pod_class.requests, pod_class, charge))
    plan = MovePlan(queue.name, workload.key, state.now, until, list(pieces.values()))
    state.moves.plans[queue.name] = plan
    state.moves.changed[queue.name] = None
    nomination = Nomination(
        priority=priority,
        spots=list(nominations.spots_of(state, option.needs, found.rows)),
        wants=nominations.wants_of(entry.needs),
        victims={place.pod: place.uid for place in plan.places()},
        charges=option.charged,
        until=until,
        why=_waiting_for(state, workload, plan, found, until),
        moves=True,
        asked=False,
    )
    nominations.begin_nomination(state, workload.key, nomination)
    workload.cluster_queue = queue.name
    state.reached(workload, LifecycleStep.HAS_MOVED, pods=len(nomination.victims))
    quota_usage.describe_holder(state, workload)
    return nomination.why


def _waiting_for(
    state: PreemptionState, workload: Workload, plan: MovePlan, found: FoundMoves, until: float
) -> Explanation:
    pods = [place.pod for place in plan.places()]
    told = [_told(state, workload, piece) for piece in plan.pieces]
    more = f" and {len(told) - MOST_NAMES} more" if len(told) > MOST_NAMES else ""
    names = state.cluster.nodes.names
    nodes = list(dict.fromkeys(names[row] for rows in found.rows for row in rows.tolist()))
    where = ", ".join(nodes[:MOST_NAMES]) + (" ..." if len(nodes) > MOST_NAMES else "")
    again = timestamp(until)
    text = (
        f"fits on {where} once {'; '.join(told[:MOST_NAMES])}{more}; {counted(len(pods), 'pod')} will be moved for it, "
    )
    text += f"and room and quota for all are held until {again}"
    return Explanation(
        Gate.VICTIMS, WAITING_FOR_MOVES, text, {"moves": str(len(pods)), "nodes": ",".join(nodes), "until": again}
    )


def _told(state: PreemptionState, reader: Workload, piece: MovedPiece) -> str:
    """Say who is moved from where to where."""
    places = piece.places
    other = state.workloads[state.pod_group_of[places[0].pod][0]]
    who = workload_named(other, reader.key[1], discreet=state.discreet)
    if piece.home[0] == "Owner" and len(places) > 1:
        who += " and others like it"
    before = ", ".join(dict.fromkeys(state.cluster.pods[place.pod].place for place in places))
    after = ", ".join(dict.fromkeys(place.node for place in places))
    return f"{who} ({counted(len(places), 'pod')}) moves from {before} to {after}"


@dataclass(slots=True)
class _MovableWork:
    """Who may be moved for a workload.

    Attributes:
        workload: That one.
        priority: That of its pods.
        queue: Its ClusterQueue.
    """

    state: PreemptionState
    workload: Workload
    priority: int
    queue: Queue
    _units: list[MovableUnit] = field(default_factory=list)

    def units(self, rows: Mask) -> list[MovableUnit]:
        """Return those with pods on some rows: surplus members one by one, and gangs and single pods as a whole."""
        columns = self.state.cluster.pod_columns
        there = np.flatnonzero((columns.row >= 0) & rows[columns.row] & (columns.priority <= self.priority))
        seen: dict[WorkloadKey, None] = {}
        for pod in columns.at(there):
            member = self.state.members.get(pod.key)
            if member is not None and member.pod is pod and member.movable is not False:
                seen[self.state.pod_group_of[pod.key][0]] = None
        for key in sorted(seen):
            other = self.state.workloads[key]
            if other is not self.workload:
                self._add(other, self._opted_in(other))
        return self._units

    def _add(self, other: Workload, opted_in: bool | None) -> None:
        """Add what of a workload may be moved."""
        surplus = [] if other.key[0] == "Pod" else list(surplus_members(other))
        if opted_in is False or not (opted_in or surplus) or not self._may_come_back(other):
            return
        members = [member for member in other.members() if member.pod.place]
        if any(member.movable is False or member.pod.priority > self.priority for member in members):
            members = []  # not as a whole; those that may be, and are not needed, by themselves
        beside: list[int] = []
        for member in surplus:
            allowed = member.movable is not False and member.pod.priority <= self.priority
            unit = self._unit(other, [member], elastic=True) if allowed and _comes_back(member) else None
            if unit is not None:
                beside.append(len(self._units))
                self._units.append(unit)
        apart = {member.pod.key for member in surplus}
        rest = [member for member in members if member.pod.key not in apart]
        if opted_in and rest and len(beside) == len(surplus):
            unit = self._unit(other, rest, elastic=False, beside=beside)
            if unit is not None:
                self._units.append(unit)

    def _opted_in(self, other: Workload) -> bool | None:
        """Whether a workload lets itself be moved; None where it does not say, and its queue does not either."""
        found = None if other.key[0] == "Pod" else self.state.catalog.find(other.key)
        said = None if found is None else says_movable(found.metadata.annotations)
        if said is None and all(member.movable for member in other.members()):
            said = True
        queue = self.state.catalog.queues.get(other.cluster_queue)
        if said is None and queue is not None and queue.movable and all(map(_is_owned, other.members())):
            said = True
        return said

    def _may_come_back(self, other: Workload) -> bool:
        """Whether a workload that runs is whole, may be taken out now, and would be admitted again at once."""
        state, tally = self.state, other.counts()
        if other.phase is not Phase.SCHEDULED or not (other.complete and other.active) or other.problem is not None:
            return False
        if tally.leaving or tally.reserved or tally.lost or other.degraded_since is not None or other.style is not None:
            return False
        if other.key in state.nominations.ours or other.key in state.kept_for_successors:
            return False
        if (
            state.moves.concerns(other.key)
            or state.plugins.get(other.scheduler)
            or permits.approval_asked(state, other)
        ):
            return False
        protected = max(quota_usage.protected_until(state, other), self._rests_until(other))
        if protected > state.now:
            state.nominations.look_again(protected)
            return False
        return self._has_its_queue(other)

    def _has_its_queue(self, other: Workload) -> bool:
        """Whether a workload keeps the quota that it has while it is moved, and nobody goes before it."""
        state = self.state
        now = queue_of(state.catalog, other, is_required=state.configuration.require_queue)
        then = through_local_queue(state.catalog, other) if other.queue else now
        if isinstance(now, Explanation) or isinstance(then, Explanation) or now is not then:
            return False
        if now is None:
            return True
        node = state.ledger.tree.queues.get(now.name)
        held = {what for member in other.members() if member.charge is not None for what in member.charge.usage}
        waits = now.strict or now.reserves or now.by_past_use or now.order is not None or now.user_limits
        return not (waits or node is None or node.borrows_any(held))

    def _rests_until(self, other: Workload) -> float:
        """Return until when a workload is not moved again, Unix seconds; 0 where it has not been moved lately."""
        last = self.state.moves.lately(home_of(other), self.state.now)
        if last is None or all(member.pod.created < int(last) for member in other.members() if member.pod.place):
            return 0.0
        return last + AGAIN_SECONDS

    def _unit(
        self, other: Workload, members: Sequence[Member], *, elastic: bool, beside: Sequence[int] = ()
    ) -> MovableUnit | None:
        """Return members as what is moved together; None where they could not come back as they are."""
        parts: dict[tuple[object, ...], list[Member]] = {}
        for member in members:
            group = other.groups[self.state.pod_group_of[member.pod.key][1]]
            flavors = () if member.charge is None else tuple(sorted(member.charge.flavors.items()))
            if member.pod.slot < 0 or not member.pod.node or not self._are_known(flavors):
                return None
            pod_class = self.state.cluster.class_elsewhere(member.pod)
            if pod_class.refusal:
                return None
            which = (group.name, pod_class, group.topology or member.topology, flavors)
            parts.setdefault(which, []).append(member)
        asks = [self._ask(other, some, elastic=elastic) for some in parts.values()]
        pods = [member.pod for some in parts.values() for member in some]
        profile = self.state.profiles.get(other.scheduler)
        if profile is None:
            return None
        name = "/".join((*other.key, members[0].pod.name))
        return MovableUnit(pods, asks, profile, elastic, name, tuple(beside))

    def _are_known(self, flavors: Sequence[tuple[str, str]]) -> bool:
        return all(flavor in self.state.catalog.flavors for _, flavor in flavors)

    def _ask(self, other: Workload, members: Sequence[Member], *, elastic: bool) -> Ask:
        """Return what successors of equal members of a group ask for: near those that stay, if they must be near."""
        first, known = members[0], self.state.catalog.flavors
        group = other.groups[self.state.pod_group_of[first.pod.key][1]]
        flavors = {} if first.charge is None else first.charge.flavors
        where = where_of(flavors, known) if flavors else NO_FLAVOR
        pod_class = self.state.cluster.class_elsewhere(first.pod)
        topology = group.topology or first.topology
        if topology is None:
            return Ask(pod_class, len(members), where=where)
        levels = next((known[one].levels for one in dict.fromkeys(flavors.values()) if known[one].levels), ())
        together = pod_set_group_of(group, pod_class, topology)
        placement = topology.on(levels, together, group.name, 0)
        if placement is not None:
            stay = list(self._staying(other, topology, together, first)) if elastic else []
            own = [row for row, theirs in stay if theirs is group]
            placement = placement.joining([row for row, _ in stay], own)
        return Ask(pod_class, len(members), where=where, topology=placement)

    def _staying(
        self, other: Workload, topology: PodSetTopology, together: Hashable, moved: Member
    ) -> Iterator[tuple[int, MemberGroup]]:
        """Yield the rows of those of a pod set group that stay where a member leaves that it can do without."""
        rows = self.state.cluster.nodes.rows
        for group in other.groups.values():
            for member in group.members.values():
                if member is moved or member.pod.place not in rows or (group.topology or member.topology) != topology:
                    continue
                if pod_set_group_of(group, member.pod.pod_class, topology) == together:
                    yield rows[member.pod.place], group


def _is_owned(member: Member) -> bool:
    """Whether a controller makes a pod again that is gone."""
    return member.marks.owner is not None and bool(member.marks.owner.controller)


def _comes_back(member: Member) -> bool:
    return _is_owned(member) or bool(member.movable)
