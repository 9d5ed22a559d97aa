"""Who is tried in this turn, and what wakes those that wait.

A workload that failed is parked at the gate where it failed and is tried again only when something happened that
can help there: for its gathering and its queue, a change of the objects concerned; for quota, quota that was given
back; for nodes, room that appeared. Nothing is polled.
"""

from __future__ import annotations

from collections.abc import Iterable

from tutti.api.conditions import timestamp
from tutti.engine import life
from tutti.engine.explanation import Explanation, Gate
from tutti.engine.extenders import WAITING
from tutti.engine.queues import queue_of
from tutti.engine.state import State
from tutti.engine.workloads import Group, Phase, Workload, WorkloadKey
from tutti.quota.flavors import Queue

Shape = tuple[object, ...]
BLOCKING = (Gate.QUOTA, Gate.PLACEMENT)
"""The gates at which the head of a strict queue holds back those behind it."""


class Candidates:
    """The parked workloads, by gate, and what has been learnt in this turn.

    Attributes:
        evaluated: How many workloads have been tried since the start, for tests and metrics.
    """

    def __init__(self) -> None:
        self.evaluated = 0
        self._parked: dict[Gate, dict[WorkloadKey, Workload]] = {gate: {} for gate in Gate}
        self._gate_of: dict[WorkloadKey, Gate] = {}
        self._parked_as: dict[WorkloadKey, Shape] = {}
        self._seen = (0, 0, 0)
        self._failed: dict[Shape, Explanation] = {}
        self._queue_moved = False

    def due(self, state: State) -> list[Workload]:
        """Return the workloads whose deadline has passed, or that have something to tell now."""
        out = []
        for workload in list(state.timed.values()):
            if workload.deadline is not None and workload.deadline <= state.now:
                out.append(workload)
            if workload.tell_at is not None and workload.tell_at <= state.now:
                workload.tell_at = None
                state.touch(workload.key)
            if 0 < workload.not_before <= state.now:
                state.touch(workload.key)
            if not _times(workload):
                del state.timed[workload.key]
        return out

    def next_due(self, state: State) -> float | None:
        """Return when to decide again though nothing is observed, Unix seconds.

        A deadline that has passed and still stands waits for an answer, and that will be observed.
        """
        if self._queue_moved and self._parked[Gate.QUEUE]:
            return state.now
        times = (time for workload in state.timed.values() for time in _times(workload))
        return min((time for time in times if time > state.now), default=None)

    def choose(self, state: State, changed: dict[WorkloadKey, Workload]) -> Iterable[Workload]:
        """Yield the workloads to try now, the next one first; what a blocked strict queue holds back is parked."""
        self._failed.clear()
        woken = {key: workload for key, workload in changed.items() if not self._is_as_parked(state, workload)}
        for gate in self._gates_woken(state):
            woken.update(self._parked[gate])
        for key in state.consultations.take_roused():
            if key in state.workloads:
                woken[key] = state.workloads[key]
        for workload in list(state.timed.values()):
            if 0 < workload.not_before <= state.now:
                workload.not_before = 0.0
                woken[workload.key] = workload
        for workload in sorted(woken.values(), key=lambda w: (not life.is_broken(w), w.order)):
            if not life.wants_nodes(workload):
                self.drop(workload)
            elif workload.not_before <= state.now:
                self.evaluated += 1
                yield workload
            elif workload.explanation is None and workload.phase is Phase.WAITING:
                workload.explanation = _backing_off(workload)

    def known_failure(self, state: State, workload: Workload) -> Explanation | None:
        """Return why this need not be tried: the head of its strict queue waits, or an equal one has just failed."""
        queue = queue_of(state, workload)
        if isinstance(queue, Explanation) or workload.problem is not None:
            return None  # what is wrong with it alone says why it waits
        if isinstance(queue, Queue) and queue.strict and workload.phase is Phase.WAITING:
            head = self._head_before(state, workload, queue)
            if head is not None:
                return Explanation(
                    Gate.QUEUE, "BehindHead", f"ClusterQueue {queue.name} is StrictFIFO and {head.name} is before it"
                )
        return self._failed.get(_shape(workload, queue)) if self._failed else None

    def park(self, state: State, workload: Workload, why: Explanation) -> None:
        """Keep a workload that failed until something happens that can help it."""
        before = self._unpark(workload)
        self._queue_moved = self._queue_moved or (before in BLOCKING and why.gate not in BLOCKING)
        queue = queue_of(state, workload)
        self._parked[why.gate][workload.key] = workload
        self._gate_of[workload.key] = why.gate
        self._parked_as[workload.key] = _stance(state, workload, queue)
        if why.gate in BLOCKING and why.reason != WAITING:  # each must be noted as waiting
            self._failed[_shape(workload, queue)] = why

    def drop(self, workload: Workload) -> None:
        """Take a workload out, because it has been admitted or is gone."""
        if self._unpark(workload) in BLOCKING:
            self._queue_moved = True

    def _unpark(self, workload: Workload) -> Gate | None:
        gate = self._gate_of.pop(workload.key, None)
        if gate is not None:
            del self._parked[gate][workload.key]
            del self._parked_as[workload.key]
        return gate

    def _is_as_parked(self, state: State, workload: Workload) -> bool:
        """Whether what was observed of a parked workload is nothing that its last try went by."""
        parked_as = self._parked_as.get(workload.key)
        return parked_as is not None and parked_as == _stance(state, workload, queue_of(state, workload))

    def _gates_woken(self, state: State) -> list[Gate]:
        now = (state.catalog.version, state.ledger.freed, state.cluster.freed)
        catalog, ledger, cluster = (a != b for a, b in zip(now, self._seen, strict=True))
        self._seen = now
        moved, self._queue_moved = self._queue_moved, False
        woken = []
        if catalog:
            woken += [Gate.GATHER, Gate.QUEUE, Gate.QUOTA, Gate.PLACEMENT]
        elif moved:
            woken.append(Gate.QUEUE)
        if ledger:
            woken += BLOCKING  # of several flavors, one may have lacked quota and another nodes
        if cluster:
            woken.append(Gate.PLACEMENT)
        return list(dict.fromkeys(woken))

    def _head_before(self, state: State, workload: Workload, queue: Queue) -> Workload | None:
        """Return a workload that waits in the same queue for quota or nodes and is before this one."""
        for gate in BLOCKING:
            for other in self._parked[gate].values():
                waits = other.phase is Phase.WAITING and other.order < workload.order
                if waits and queue_of(state, other) is queue:
                    return other
        return None


def _backing_off(workload: Workload) -> Explanation:
    again = timestamp(workload.not_before)
    text = f"its last attempt was given up; it is tried again at {again}"
    return Explanation(Gate.PERMIT, "BackingOff", text, {"attempts": str(workload.attempts), "at": again})


def _times(workload: Workload) -> list[float]:
    """Return when something is due about a workload: the end of a deadline, a backoff or a silence."""
    return [time for time in (workload.deadline, workload.tell_at, workload.not_before or None) if time is not None]


def _shape(workload: Workload, queue: Queue | Explanation | None) -> Shape:
    """Return what decides whether a workload can be placed: equal shapes fare alike within a turn."""
    name = queue.name if isinstance(queue, Queue) else ""
    return (name, workload.phase, *(_group_shape(group) for group in workload.groups.values()))


def _group_shape(group: Group) -> Shape:
    tally = group.tally()
    missing = group.min_count - tally.placed - tally.reserved - len(group.holds)
    waiting = tuple(member.pod.klass for member in group.members.values() if member.pod.placeable)
    return (missing, group.promised, waiting)


def _stance(state: State, workload: Workload, queue: Queue | Explanation | None) -> Shape:
    """Return all of a workload that a try goes by, or that its explanation tells."""
    apart = tuple(
        (group.min_count, tally.waiting, tally.gated, tally.leaving, tally.failed)
        for group in workload.groups.values()
        for tally in (group.tally(),)
    )
    strangers = len(state.strangers.get(workload.key[1:], ()))
    return (_shape(workload, queue), queue, workload.problem, workload.order, apart, strangers)
