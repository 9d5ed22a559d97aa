"""What is due when, found without looking at everybody: deadlines of workloads, and the quota that is given back.

Of workloads with something due, a heap holds for each the earliest of its times that has not passed. Times that were
dropped or put off since are noticed when they come up. A deadline that has passed and still stands waits for an
answer: its workload is due in every turn until then.

Of those that hold quota, columns hold when they give it back at the latest, and what. A backfill reservation asks
again and again what is given back by some time, of tens of thousands that run. That is one expression here: each
holder has a slot with its end, and for each queue, flavor and resource that it uses an entry with how much. Only
holders that something changed about are looked at, and none while nobody asks.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator

import numpy as np

from tutti.cluster.columns import longer
from tutti.engine.records.workloads import Workload, WorkloadKey
from tutti.quota.ledger import Holdings
from tutti.quota.tree import FlavorResource, Usage


class Timers:
    """Workloads by what is due about them; iteration is in the order of their keys.

    No order here may depend on when `next` was called: it is asked by the shell, and not again in a replay.
    """

    def __init__(self) -> None:
        self._workloads: dict[WorkloadKey, Workload] = {}
        self._soonest: dict[WorkloadKey, float] = {}
        self._heap: list[tuple[float, int, WorkloadKey]] = []
        self._standing: dict[WorkloadKey, None] = {}
        self._serial = 0

    def __iter__(self) -> Iterator[Workload]:
        return (self._workloads[key] for key in sorted(self._workloads))

    def __len__(self) -> int:
        return len(self._workloads)

    def add(self, workload: Workload) -> None:
        """Take over the times of a workload, as often as one of them was set."""
        self._workloads[workload.key] = workload
        self._push(workload, min(due_times(workload), default=None))

    def drop(self, key: WorkloadKey) -> None:
        """Forget a workload that is gone."""
        self._workloads.pop(key, None)
        self._soonest.pop(key, None)
        self._standing.pop(key, None)

    def take_due(self, now: float) -> list[Workload]:
        """Return the workloads of which some time is not after `now`, in the order of their keys.

        Whoever asks takes away what is done with, all but deadlines that still stand, and calls `settle`.
        """
        due = dict.fromkeys(key for key in self._standing if key in self._workloads)
        while self._heap and self._heap[0][0] <= now:
            time, _, key = heapq.heappop(self._heap)
            if self._soonest.get(key) == time:
                del self._soonest[key]
                due[key] = None
        return [self._workloads[key] for key in sorted(due)]

    def settle(self, workload: Workload, now: float) -> None:
        """Note what is left of the times of a workload that was due."""
        times = due_times(workload)
        self._standing.pop(workload.key, None)
        if not times:
            self.drop(workload.key)
            return
        if any(time <= now for time in times):
            self._standing[workload.key] = None
        self._push(workload, min((time for time in times if time > now), default=None))

    def next(self, now: float) -> float | None:
        """Return the earliest time after `now`, Unix seconds; None where there is none.

        What is due is left alone, and nobody who asks changes what is returned later.
        """
        while self._heap:
            time, _, key = self._heap[0]
            if self._soonest.get(key) != time:
                heapq.heappop(self._heap)
                continue
            workload = self._workloads[key]
            times = due_times(workload)
            if not times:  # what it waited for has come, as most of what is waited for does
                heapq.heappop(self._heap)
                del self._soonest[key]
                continue
            ahead = min((one for one in times if one > now), default=None)
            if ahead == time:
                return time
            heapq.heappop(self._heap)
            del self._soonest[key]
            if any(one <= now for one in times):
                self._standing[key] = None
            self._push(workload, ahead)
        return None

    def _push(self, workload: Workload, time: float | None) -> None:
        key = workload.key
        if time is None or self._soonest.get(key, time + 1) <= time:
            return
        self._soonest[key] = time
        self._serial += 1
        heapq.heappush(self._heap, (time, self._serial, key))


def due_times(workload: Workload) -> list[float]:
    """Return when something is due about a workload: the end of a deadline, a backoff or a silence, an alarm."""
    times = (workload.deadline, workload.alarm, workload.tell_at, workload.not_before or None)
    return [time for time in times if time is not None]


_Column = tuple[str, FlavorResource]


class ExpectedReleases:
    """The ends of those of which they are known.

    Attributes:
        version: Grows whenever an end changes, or what is given back then.
    """

    def __init__(self) -> None:
        self.version = 0
        self._until = np.full(256, np.inf, dtype=np.float64)
        self._keys: list[WorkloadKey | None] = []
        self._slots: dict[WorkloadKey, int] = {}
        self._free_slots: list[int] = []
        self._slot = np.zeros(256, dtype=np.int64)
        self._column = np.zeros(256, dtype=np.int64)
        self._amount = np.zeros(256, dtype=np.int64)
        self._entries: dict[int, list[int]] = {}
        self._free_entries: list[int] = []
        self._count = 0
        self._columns: dict[_Column, int] = {}
        self._new: dict[WorkloadKey, None] = {}
        self._unasked = False

    def end_of(self, key: WorkloadKey) -> float | None:
        """Return when a workload ends at the latest, Unix seconds; None where nobody knows."""
        slot = self._slots.get(key)
        return None if slot is None else float(self._until[slot])

    def expect(self, key: WorkloadKey, until: float) -> None:
        """Note when a workload ends at the latest, Unix seconds."""
        self.version += 1
        slot = self._slots.get(key)
        if slot is None:
            slot = self._slots[key] = self._take_slot()
            self._keys[slot] = key
            self._new[key] = None
        self._until[slot] = until

    def forget(self, key: WorkloadKey) -> None:
        """Note that nobody knows when a workload ends, or that it is gone."""
        slot = self._slots.pop(key, None)
        if slot is None:
            return
        self.version += 1
        self._new.pop(key, None)
        self._drop_entries(slot)
        self._until[slot], self._keys[slot] = np.inf, None
        self._free_slots.append(slot)

    def first(self, most: int) -> list[tuple[float, WorkloadKey]]:
        """Return so many of those that end first, the first one first; of equal ends, in the order of their slots."""
        until = self._until[: len(self._keys)]
        if most < len(until):
            bound = np.partition(until, most - 1)[most - 1]
            near = np.flatnonzero(until <= bound)
        else:
            near = np.arange(len(until))
        chosen = near[np.argsort(until[near], kind="stable")][:most]
        found = ((float(until[slot]), self._keys[slot]) for slot in chosen.tolist())
        return [(at, key) for at, key in found if key is not None]

    def given(self, holdings: Holdings, queue: str, at: float, *, sooner: bool = False) -> dict[str, Usage]:
        """Return what is given back by some time, per queue, in the quota tree of a queue.

        Args:
            holdings: What everybody uses.
            queue: In whose tree.
            at: The time, Unix seconds.
            sooner: Leave out those that end at that time itself.
        """
        self._refresh(holdings)
        until = self._until[self._slot[: self._count]]
        there = np.flatnonzero(until < at if sooner else until <= at)
        total = np.zeros(len(self._columns), dtype=np.int64)
        np.add.at(total, self._column[there], self._amount[there])
        columns, root = list(self._columns), holdings.root_of(queue)
        out: dict[str, Usage] = {}
        for number in np.flatnonzero(total).tolist():
            where, what = columns[number]
            if holdings.root_of(where) == root:
                out.setdefault(where, {})[what] = int(total[number])
        return out

    def rest(self, holdings: Holdings) -> None:
        """Do not follow what is used before it is asked for again: nothing is kept for anybody."""
        self._unasked = bool(holdings.take_touched()) or self._unasked

    def _refresh(self, holdings: Holdings) -> None:
        """Take over what those use of whom that, or the end, has changed."""
        news, self._new = dict.fromkeys(self._slots) if self._unasked else self._new, {}
        self._unasked = False
        for who in holdings.take_touched():
            kind, namespace, name = who.split("/")
            if (kind, namespace, name) in self._slots:
                news[kind, namespace, name] = None
        self.version += bool(news)
        for key in news:
            slot = self._slots[key]
            self._drop_entries(slot)
            for queue, usage in holdings.used_by("/".join(key)):
                self._put_entries(slot, (((queue, what), amount) for what, amount in usage.items() if amount))

    def _take_slot(self) -> int:
        if self._free_slots:
            return self._free_slots.pop()
        self._keys.append(None)
        if len(self._keys) > len(self._until):
            self._until = longer(self._until, 2 * len(self._until))
            self._until[len(self._keys) - 1 :] = np.inf
        return len(self._keys) - 1

    def _put_entries(self, slot: int, used: Iterable[tuple[_Column, int]]) -> None:
        mine = self._entries.setdefault(slot, [])
        for column, amount in used:
            if self._free_entries:
                entry = self._free_entries.pop()
            else:
                entry, self._count = self._count, self._count + 1
                if self._count > len(self._slot):
                    room = 2 * len(self._slot)
                    self._slot, self._column = longer(self._slot, room), longer(self._column, room)
                    self._amount = longer(self._amount, room)
            mine.append(entry)
            self._slot[entry], self._amount[entry] = slot, amount
            self._column[entry] = self._columns.setdefault(column, len(self._columns))

    def _drop_entries(self, slot: int) -> None:
        entries = self._entries.pop(slot, [])
        self._amount[entries] = 0  # whoever has the slot next: nothing of it
        self._free_entries += entries
