"""Figures of a trace that was played: waits, slowdown, use, fragmentation, preemptions, fairness, energy.

Waits count from submission to the first start, and those of jobs that never started until nothing happened any more.
The bounded slowdown of a job is (wait + run time) / run time, of runs below ten seconds / ten seconds, and at least 1
(Feitelson and Rudolph, "Metrics and Benchmarking for Parallel Job Scheduling", JSSPP 1998).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from tutti_simulate.jobs import GPU, GPU_SHARE
from tutti_simulate.playing import Played, PlayedJob, Sample

SHORT_SECONDS = 10.0
_KWH = 3_600_000.0
_CORE = 1000
_CARDS = {GPU: 1, GPU_SHARE: 1000}


class Distribution(msgspec.Struct, frozen=True, rename="camel"):
    """Of so many figures the mean, the median, the 95th and 99th percentile, and the largest."""

    count: int
    mean: float
    median: float
    p95: float
    p99: float
    most: float


class PartFigures(msgspec.Struct, frozen=True, rename="camel"):
    """Figures of some jobs: those of one queue, or of one size.

    Attributes:
        jobs: How many there are, of which so many `started` and so many `ended`.
        wait: Seconds.
        preemptions: How often one was taken out.
        lost_part: The part of the time that they ran in runs which were ended early, of 1.
        used: What they used, in core- or unit-hours, by resource.
    """

    jobs: int
    started: int
    ended: int
    wait: Distribution
    slowdown: Distribution
    preemptions: int
    lost_part: float
    used: Mapping[str, float]


class Figures(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Figures of a run.

    Attributes:
        all: Of all jobs.
        queues: By queue of the trace; `sizes`, by how much of the dominant resource jobs ask for.
        utilisation: The part of what nodes offer that was in use while work came, of 1, by resource.
        fragmentation: The mean part of what was free that the trace's pods could not use, of 1, by resource.
        fairness: Jain's index of the mean slowdowns of queues: 1 where all fare alike, 1/n where one alone waits.
        energy_kwh: While work came; None where nobody said what nodes draw.
        until: When the last job was submitted, `over`, when the last one had ended; seconds from the first.
        never: Why jobs did not start, and how many each.
        decisions: How many of each kind the engine made; `unplayed`, those that the simulation has no answer to.
    """

    all: PartFigures
    queues: Mapping[str, PartFigures]
    sizes: Mapping[str, PartFigures]
    utilisation: Mapping[str, float]
    fragmentation: Mapping[str, float]
    fairness: float
    energy_kwh: float | None
    until: float
    over: float
    never: Mapping[str, int]
    decisions: Mapping[str, int]
    unplayed: Mapping[str, int]
    samples: Sequence[Sample]


@dataclass(frozen=True, slots=True)
class Power:
    """What nodes draw, in watts: each one as long as it is there, and each core and card of it that is in use."""

    idle: float
    core: float = 0.0
    gpu: float = 0.0


def figures_of(played: Played, power: Power | None = None) -> Figures:
    """Return the figures of a run."""
    queues: dict[str, list[PlayedJob]] = {}
    sizes: dict[str, list[PlayedJob]] = {}
    resource = dominant(played)
    for one in played.jobs:
        queues.setdefault(one.job.queue or "default", []).append(one)
        sizes.setdefault(_size(one.job.asks(resource), resource), []).append(one)
    of_queues = {name: _part(queues[name], played) for name in sorted(queues)}
    order = sorted(sizes, key=lambda name: min(one.job.asks(resource) for one in sizes[name]))
    return Figures(
        all=_part(played.jobs, played),
        queues=of_queues,
        sizes={name: _part(sizes[name], played) for name in order},
        utilisation={name: _rounded(_used_part(played, name)) for name in sorted(played.used)},
        fragmentation=_fragmentation(played.samples),
        fairness=_rounded(jain([one.slowdown.mean for one in of_queues.values()])),
        energy_kwh=None if power is None else _rounded(_energy(played, power)),
        until=_rounded(played.until),
        over=_rounded(played.over),
        never=dict(played.waits.most_common(10)),
        decisions=dict(sorted(played.decisions.items())),
        unplayed=dict(sorted(played.unplayed.items())),
        samples=played.samples,
    )


def dominant(played: Played) -> str:
    """Return the resource that jobs are sized by: cards where any job asks for them, else CPUs."""
    asked = {name for one in played.jobs for part in one.job.pods for name in part.requests}
    return next((name for name in (GPU, GPU_SHARE) if name in asked), "cpu")


def wait_of(one: PlayedJob, over: float) -> float:
    """Return how long a job waited, seconds; of one that never started, until all was over."""
    return max(0.0, (over if one.first is None else one.first) - one.job.submitted)


def stay_of(one: PlayedJob, over: float) -> float:
    """Return how long after its submission a job had ended, seconds; of one that did not, until all was over."""
    return max(over if one.ended is None else one.ended, one.job.submitted) - one.job.submitted


def slowdown_of(one: PlayedJob, over: float) -> float:
    """Return the bounded slowdown of a job: what it took in all, runs that were ended early included."""
    assert one.job.seconds is not None  # the reader has filled it in
    return max(1.0, stay_of(one, over) / max(one.job.seconds, SHORT_SECONDS))


def watts_of(sample: Sample, nodes: int, power: Power) -> float:
    """Return what so many nodes draw at a moment, watts."""
    return power.idle * nodes + _busy(sample.used, power)


def _busy(used: Mapping[str, float], power: Power) -> float:
    cards = sum(used.get(name, 0.0) / units for name, units in _CARDS.items())
    return power.core * used.get("cpu", 0.0) / _CORE + power.gpu * cards


def jain(values: Sequence[float]) -> float:
    """Return Jain's index of fairness (Jain, Chiu and Hawe, DEC-TR-301, 1984): (sum x)^2 / (n sum x^2)."""
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 1.0


def column_of(played: Played, of: Callable[[PlayedJob, float], float]) -> NDArray[np.float64]:
    """Return a figure of each job, float64[jobs], in the order of the trace."""
    over = max(played.over, played.until)
    return np.fromiter((of(one, over) for one in played.jobs), dtype=np.float64, count=len(played.jobs))


def _part(jobs: Sequence[PlayedJob], played: Played) -> PartFigures:
    over = max(played.over, played.until)
    ran = sum(one.ended - one.last for one in jobs if one.ended is not None and one.last is not None)
    lost = sum(one.lost for one in jobs)
    used: dict[str, float] = {}
    for one in jobs:
        seconds = one.lost + (one.ended - one.last if one.ended is not None and one.last is not None else 0.0)
        for name in {name for part in one.job.pods for name in part.requests}:
            used[name] = used.get(name, 0.0) + one.job.asks(name) * seconds / 3600
    return PartFigures(
        jobs=len(jobs),
        started=sum(one.first is not None for one in jobs),
        ended=sum(one.ended is not None for one in jobs),
        wait=_distribution([wait_of(one, over) for one in jobs]),
        slowdown=_distribution([slowdown_of(one, over) for one in jobs]),
        preemptions=sum(one.evictions for one in jobs),
        lost_part=_rounded(lost / (ran + lost) if ran + lost else 0.0),
        used={name: _rounded(units / _unit(name)) for name, units in sorted(used.items())},
    )


def _unit(resource: str) -> int:
    """Return by what amounts of a resource are divided for people: cores, GiB, cards."""
    return {"cpu": _CORE, "memory": 2**30, **_CARDS}.get(resource, 1)


def _distribution(values: Sequence[float]) -> Distribution:
    if not values:
        return Distribution(0, 0.0, 0.0, 0.0, 0.0, 0.0)
    array = np.asarray(values)
    median, p95, p99 = np.percentile(array, (50, 95, 99), method="inverted_cdf")
    figures = (float(array.mean()), float(median), float(p95), float(p99), float(array.max()))
    return Distribution(len(values), *map(_rounded, figures))


def _used_part(played: Played, resource: str) -> float:
    whole = played.capacity.get(resource, 0) * played.until
    return played.used[resource] / whole if whole else 0.0


def _fragmentation(samples: Sequence[Sample]) -> dict[str, float]:
    names = sorted({name for one in samples for name in one.fragmented})
    return {
        name: _rounded(float(np.mean([one.fragmented[name] for one in samples if name in one.fragmented])))
        for name in names
    }


def _energy(played: Played, power: Power) -> float:
    return (power.idle * played.nodes * played.until + _busy(played.used, power)) / _KWH


def _size(units: int, resource: str) -> str:
    """Return the class that a job is in by its size: 1, 2-7, 8-31, ... of the dominant resource."""
    count = -(-units // _unit(resource))
    noun = "CPU" if resource == "cpu" else "GPU"
    if count <= 1:
        return f"{'no' if not units else 'up to 1'} {noun}"
    edges = (2, 8, 32, 128, 512)
    low = max(edge for edge in edges if edge <= count)
    above = [edge for edge in edges if edge > count]
    return f"{low}-{above[0] - 1} {noun}s" if above else f"{low} {noun}s or more"


def _rounded(value: float) -> float:
    """Six digits after the point: enough for people, and the same on every machine."""
    return round(float(value), 6)
