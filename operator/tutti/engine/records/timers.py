"""Workloads with something due at a time: who is due now, and when is it next, without looking at all of them.

A heap holds, for each workload, the earliest of its times that has not passed. Times that were dropped or put off
since are noticed when they come up. A deadline that has passed and still stands waits for an answer: its workload
is due in every turn until then.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from tutti.engine.records.workloads import Workload, WorkloadKey


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
        self._push(workload, min(times_of(workload), default=None))

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
        times = times_of(workload)
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
            times = times_of(workload)
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


def times_of(workload: Workload) -> list[float]:
    """Return when something is due about a workload: the end of a deadline, a backoff or a silence, an alarm."""
    times = (workload.deadline, workload.alarm, workload.tell_at, workload.not_before or None)
    return [time for time in times if time is not None]
