"""Two runs of one trace beside each other: what differs, and how sure that is.

The same jobs come in both, so they are compared one by one (paired). Neighbours in a queue wait for the same reason, so
they are drawn together: blocks of successive jobs, about as many blocks as there are jobs in one (moving blocks:
Kuensch, "The Jackknife and the Bootstrap for General Stationary Observations", Annals of Statistics 17, 1989; here they
do not overlap). The interval is that of percentiles. It tells what another order of the same work would make of the
difference; it does not tell about other work.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from tutti_simulate.measures import Figures, column_of, slowdown_of, stay_of, wait_of
from tutti_simulate.playing import Played

RESAMPLES = 2000
COVERAGE = 95.0
MOST_QUEUES = 20
"""How many queues are compared one by one."""
_CHUNK = 64


class Difference(msgspec.Struct, frozen=True, rename="camel"):
    """How much more of something the second run has than the first.

    Attributes:
        what: What is compared, with its unit.
        first: In the first run; `second`, in the second.
        low: The difference lies above this in 97.5 of 100 draws, and below `high` in as many; None where jobs do not
            have the figure one by one.
        sure: Whether all of the interval is on one side of 0.
    """

    what: str
    first: float
    second: float
    difference: float
    low: float | None = None
    high: float | None = None
    sure: bool = False


def differences(
    first: Played, second: Played, of: tuple[Figures, Figures], *, seed: int = 0, ends: bool = False
) -> list[Difference]:
    """Return what differs between two runs of the same jobs.

    Args:
        first: One of them.
        second: The other.
        of: The figures of both.
        seed: Of the draws; equal seeds draw alike.
        ends: Whether jobs may run longer in one of them, so that it is told when they end.
    """
    random = np.random.default_rng(seed)
    found = []
    figures = [("wait, mean, s", wait_of), ("bounded slowdown, mean", slowdown_of)]
    for what, figure in [*figures, *([("from submission to end, mean, s", stay_of)] if ends else [])]:
        before, after = column_of(first, figure), column_of(second, figure)
        low, high = interval(after - before, random)
        mean = float((after - before).mean()) if len(before) else 0.0
        sure = low > 0 or high < 0
        found.append(_difference(what, (before.mean(), after.mean()), mean, (low, high), sure=sure))
    preempted = [np.array([one.evictions for one in run.jobs], dtype=np.float64) for run in (first, second)]
    low, high = interval(preempted[1] - preempted[0], random)
    totals, count = [float(one.sum()) for one in preempted], len(preempted[0])
    sure = low > 0 or high < 0
    between = (low * count, high * count)
    found.append(_difference("preemptions", (totals[0], totals[1]), totals[1] - totals[0], between, sure=sure))
    return [*found, *_of_queues(first, second, random), *_of_whole_runs(*of)]


def _of_queues(first: Played, second: Played, random: np.random.Generator) -> Iterator[Difference]:
    """Yield the slowdown of each queue where there are several, of those that have most jobs."""
    places: dict[str, list[int]] = {}
    for place, one in enumerate(first.jobs):
        places.setdefault(one.job.queue or "default", []).append(place)
    most = sorted(places, key=lambda name: (-len(places[name]), name))[:MOST_QUEUES]
    before, after = column_of(first, slowdown_of), column_of(second, slowdown_of)
    for name in sorted(most) if len(places) > 1 else ():
        mine = before[places[name]], after[places[name]]
        by = mine[1] - mine[0]
        low, high = interval(by, random)
        sure = low > 0 or high < 0
        yield _difference(
            f"slowdown of queue {name}", (mine[0].mean(), mine[1].mean()), by.mean(), (low, high), sure=sure
        )


def _difference(
    what: str, means: tuple[float, float], by: float, ends: tuple[float, float], *, sure: bool
) -> Difference:
    first, second, mean, low, high = (round(float(value), 6) for value in (*means, by, *ends))
    return Difference(what, first, second, mean, low, high, sure)


def _of_whole_runs(first: Figures, second: Figures) -> list[Difference]:
    """Return what only whole runs have: no interval, as there are only two of them."""
    pairs = [("wait, 95th percentile, s", first.all.wait.p95, second.all.wait.p95)]
    pairs += [("fairness of queues", first.fairness, second.fairness), ("all over after, s", first.over, second.over)]
    for name, before, after in (
        ("in use", first.utilisation, second.utilisation),
        ("fragmented", first.fragmentation, second.fragmentation),
    ):
        shared = [one for one in before if one in after]
        pairs += [(f"{one} {name}, of 1", before[one], after[one]) for one in shared]
    if first.energy_kwh is not None and second.energy_kwh is not None:
        pairs.append(("energy, kWh", first.energy_kwh, second.energy_kwh))
    return [Difference(what, before, after, round(after - before, 6)) for what, before, after in pairs]


def interval(pairs: NDArray[np.float64] | Sequence[float], random: np.random.Generator) -> tuple[float, float]:
    """Return between which values the mean of paired differences lies, float64[jobs] in the order in which they came.

    Of no jobs, and where all differences are the same, there is nothing to draw.
    """
    values = np.asarray(pairs, dtype=np.float64)
    if not len(values) or (values == values[0]).all():
        mean = float(values[0]) if len(values) else 0.0
        return mean, mean
    size = max(1, math.isqrt(len(values)))
    starts = np.arange(0, len(values), size)
    sums = np.add.reduceat(values, starts)
    counts = np.diff(np.append(starts, len(values)))
    means = np.empty(RESAMPLES)
    for begin in range(0, RESAMPLES, _CHUNK):
        end = min(RESAMPLES, begin + _CHUNK)
        drawn = random.integers(0, len(starts), size=(end - begin, len(starts)))
        means[begin:end] = sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1)
    tail = (100.0 - COVERAGE) / 2
    low, high = np.percentile(means, (tail, 100.0 - tail))
    return float(low), float(high)
