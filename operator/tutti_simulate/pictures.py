"""The pictures of runs: what was in use and drawn, who waited and how long, who was taken out, and how queues fared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tutti_simulate.measures import Figures, Power, slowdown_of, wait_of, watts_of
from tutti_simulate.playing import Played
from tutti_simulate.plots import Bars, Line, Plot, drawn, drawn_bars

_POINTS = 400
MOST_QUEUES = 12
"""How many queues have bars: those that have most jobs."""


def pictures(runs: Mapping[str, tuple[Played, Figures]], resource: str, power: Power | None = None) -> dict[str, str]:
    """Return SVG by file name for one run or several, by their names.

    Args:
        runs: What was played, and its figures.
        resource: Whose use and fragmentation are shown.
        power: What machines draw; None: that is not shown.
    """
    use, waiting, lost, waits, slow, out, draws = ([] for _ in range(7))
    for name, (played, figures) in runs.items():
        whole = played.capacity.get(resource, 0) or 1
        samples, over = figures.samples, max(played.over, played.until)
        use.append(Line(name, [(one.at, 100 * one.used.get(resource, 0) / whole) for one in samples]))
        waiting.append(Line(name, [(one.at, float(one.waiting)) for one in samples]))
        lost.append(Line(name, [(one.at, 100 * one.fragmented.get(resource, 0.0)) for one in samples]))
        out.append(Line(name, [(one.at, float(one.preemptions)) for one in samples]))
        waits.append(Line(name, shares([wait_of(one, over) for one in played.jobs])))
        slow.append(Line(name, shares([slowdown_of(one, over) for one in played.jobs])))
        if power is not None:
            draws.append(Line(name, [(one.at, watts_of(one, played.nodes, power) / 1000) for one in samples]))
    found = {
        "in-use.svg": Plot(f"{resource} in use", "time", "% of what nodes offer", use, 100.0),
        "waiting.svg": Plot("jobs that wait", "time", "jobs", waiting),
        "fragmentation.svg": Plot(f"free {resource} that pods cannot use", "time", "% of what is free", lost, 100.0),
        "waits.svg": Plot("jobs that waited at most so long", "wait", "% of jobs", waits, 100.0),
        "slowdowns.svg": Plot("jobs with at most such a slowdown", "slowdown", "% of jobs", slow, 100.0, seconds=False),
        "preemptions.svg": Plot("jobs taken out so far", "time", "jobs", out),
    }
    if power is not None:
        found["power.svg"] = Plot("what nodes draw", "time", "kW", draws)
    return {**{name: drawn(plot) for name, plot in found.items()}, "queues.svg": drawn_bars(_queues(runs))}


def _queues(runs: Mapping[str, tuple[Played, Figures]]) -> Bars:
    """Return the mean bounded slowdown of each queue, in each run."""
    first = next(iter(runs.values()))[1].queues
    names = sorted(sorted(first, key=lambda name: (-first[name].jobs, name))[:MOST_QUEUES])
    groups = {name: [figures.queues[name].slowdown.mean for _, figures in runs.values()] for name in names}
    return Bars("how queues fared", "mean bounded slowdown", list(runs), groups)


def shares(values: Sequence[float]) -> list[tuple[float, float]]:
    """Return which part of all is at most so large, in percent, at up to 400 points."""
    ordered = sorted(values)
    count = len(ordered)
    places = sorted({min(count - 1, round(number * (count - 1) / _POINTS)) for number in range(_POINTS + 1)})
    return [(ordered[place], 100.0 * (place + 1) / count) for place in places] if count else []
