"""Backfilling: letting smaller work by without delaying the head of a queue.

Rule: EASY (D. Lifka, The ANL/IBM SP scheduling system, 1995; as restated by A. Mu'alem and D. Feitelson, Utilization,
predictability, workloads, and user runtime estimates in scheduling the IBM SP2 with backfilling, 2001, figure 1). The
running jobs are taken in the order of their ends until the head would fit: that is its shadow time. What is left over
then are the extra nodes. Another job may start now if it ends by the shadow time, or if it takes no more than what is
free now and extra then.

There nodes are all alike and each job says how long it runs. Here a node has amounts of several resources, so that
both rules are held per node, and ends may be unknown: those come after all known ones, and node by node, because only
what ends side by side makes room for a large pod.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

R = TypeVar("R")

_PER_OCTAVE = 8

Times = NDArray[np.float64]
Steps = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Departures:
    """Running pods in the order in which they are expected to end.

    Attributes:
        step: int64[m], the step at which each pod has gone, from 1 on.
        times: float64[k], when the first k steps are over, Unix seconds, rising; of later steps nobody knows when.
        steps: How many there are; at step 0 everybody is still there.
    """

    step: Steps
    times: Times
    steps: int

    def at(self, step: int) -> float | None:
        """Return when a step from 1 on is over, Unix seconds; None where that is not known."""
        return float(self.times[step - 1]) if step <= len(self.times) else None


def departures(
    until: Times, row: NDArray[np.int64], size: Times, now: float, turns: Sequence[float] = ()
) -> Departures:
    """Put running pods in the order of their ends.

    Pods whose end is unknown go node by node, the node first on which the least of them is left: it is the nearest to
    being free.

    Args:
        until: float64[m], when each ends at the latest, Unix seconds; infinity where that is not known. One whose time
            is over is about to go.
        row: int64[m], the row of its node.
        size: float64[m], which part of the node it takes.
        now: Unix seconds.
        turns: Times at which something else is otherwise; they are steps, too, at which nobody need go.
    """
    step = np.zeros(len(until), dtype=np.int64)
    known = np.isfinite(until)
    ends = np.maximum(until[known], now)
    times, place = np.unique(np.concatenate([ends, turns]), return_inverse=True)
    step[known] = place[: len(ends)] + 1
    rows, at = np.unique(row[~known], return_inverse=True)
    left = np.bincount(at, weights=size[~known], minlength=len(rows))
    rank = np.empty(len(rows), dtype=np.int64)
    rank[np.argsort(left, kind="stable")] = np.arange(len(rows))
    step[~known] = len(times) + 1 + rank[at]
    return Departures(step, times, len(times) + len(rows))


def earliest(first: int, last: int, look: Callable[[int], R | None]) -> tuple[int, R] | None:
    """Return the first step at which something can be had, and what `look` returned for it; None: at none of them.

    What can be had at a step is taken to be there at every later one, so that a few looks do. Early steps are looked
    at first, because a look costs by how many have gone then.
    """
    found = look(last)
    if found is None:
        return None
    low, high, stride = first, last, 1
    while low < high:
        middle = min(low + stride - 1, (low + high) // 2)
        stride *= 2
        looked = look(middle)
        if looked is None:
            low = middle + 1
        else:
            high, found = middle, looked
    return high, found


def withheld(wanted: NDArray[np.int64], gone: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how much of what is free must be kept from whoever does not end by the shadow time.

    It is the head's share that is not made free by those who end by then; what remains for the others is what is free
    now and extra then, whichever is less.

    Args:
        wanted: int64[k, resources], what the head takes of each node at the shadow time.
        gone: int64[k, resources], what those take of it now who have gone by then.
    """
    kept: NDArray[np.int64] = np.maximum(wanted - gone, 0)
    return kept


def rounded_runtime(seconds: float) -> float:
    """Return for how long work is taken to run that may run so long: longer by a tenth at most.

    So many users say so many times that each would have to be looked at by itself; those of about the same length are
    looked at together, and none of them is taken to end before it does.

    Args:
        seconds: At least 0.
    """
    if seconds <= 1:
        return math.ceil(seconds)
    return max(seconds, math.pow(2.0, math.ceil(math.log2(seconds) * _PER_OCTAVE) / _PER_OCTAVE))


def reservation_pause(times: int, seconds: float) -> float:
    """Return for how long the room of a head is left to others that has waited in vain, in seconds.

    Args:
        times: How often it has waited in vain, from 1 on; it is twice as long each time, up to 16 times.
        seconds: How long it has waited.
    """
    return seconds * float(2 ** min(times - 1, 4))
