"""Curves as SVG: what was in use, who waited and how long. A few lines on two axes need no plotting library."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from tutti_simulate.measures import Figures, wait_of
from tutti_simulate.playing import Played

COLOURS = ("#1f6feb", "#d1572b", "#2da44e", "#8250df")
WIDTH, HEIGHT = 640, 300
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 46, 44
_TICKS = 5
_POINTS = 400
_UNITS = ((86_400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))


@dataclass(frozen=True, slots=True)
class Line:
    """Points with a name; x does not fall."""

    name: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Plot:
    """A title, two axes, and lines.

    Attributes:
        across: What x is; `seconds` of it are shown in the unit that suits.
        most: Where y ends; None: at the largest.
    """

    title: str
    across: str
    up: str
    lines: Sequence[Line]
    most: float | None = None
    seconds: bool = True


def pictures(runs: Mapping[str, tuple[Played, Figures]], resource: str) -> dict[str, str]:
    """Return SVG by file name for one run or several, by their names.

    Args:
        runs: What was played, and its figures.
        resource: Whose use and fragmentation are shown.
    """
    use, waiting, lost, waits = [], [], [], []
    for name, (played, figures) in runs.items():
        whole = played.capacity.get(resource, 0) or 1
        use.append(Line(name, [(one.at, 100 * one.used.get(resource, 0) / whole) for one in figures.samples]))
        waiting.append(Line(name, [(one.at, float(one.waiting)) for one in figures.samples]))
        lost.append(Line(name, [(one.at, 100 * one.fragmented.get(resource, 0.0)) for one in figures.samples]))
        waits.append(Line(name, _shares(played)))
    return {
        "in-use.svg": drawn(Plot(f"{resource} in use", "time", "% of what nodes offer", use, 100.0)),
        "waiting.svg": drawn(Plot("jobs that wait", "time", "jobs", waiting)),
        "fragmentation.svg": drawn(
            Plot(f"free {resource} that pods cannot use", "time", "% of what is free", lost, 100.0)
        ),
        "waits.svg": drawn(Plot("jobs that waited at most so long", "wait", "% of jobs", waits, 100.0)),
    }


def _shares(played: Played) -> list[tuple[float, float]]:
    """Return the part of jobs that waited at most so long, in percent, at up to 400 points."""
    over = max(played.over, played.until)
    waits = sorted(wait_of(one, over) for one in played.jobs)
    count = len(waits)
    places = sorted({min(count - 1, round(number * (count - 1) / _POINTS)) for number in range(_POINTS + 1)})
    return [(waits[place], 100.0 * (place + 1) / count) for place in places] if count else []


def drawn(plot: Plot) -> str:
    """Return the SVG of a plot."""
    xs = [x for line in plot.lines for x, _ in line.points] or [0.0]
    ys = [y for line in plot.lines for _, y in line.points] or [0.0]
    unit, noun = _unit(max(xs)) if plot.seconds else (1.0, "")
    right, top = _nice(max(xs) / unit), _nice(plot.most if plot.most is not None else max(ys))
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    title, up = escape(plot.title), escape(plot.up)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="11">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="18" font-size="13"><tspan font-weight="bold">{title}</tspan>, {up}</text>',
    ]
    spans = [
        f'<tspan fill="{colour}">{escape(line.name)}</tspan>' for line, colour in zip(plot.lines, COLOURS, strict=False)
    ]
    if len(spans) > 1:
        parts.append(f'<text x="{LEFT}" y="36">{" · ".join(spans)}</text>')
    parts += _grid(right, top, f"{plot.across}, {noun}" if noun else plot.across)
    for line, colour in zip(plot.lines, COLOURS, strict=False):
        path = " ".join(f"{_x(x / unit, right):.1f},{_y(y, top):.1f}" for x, y in line.points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _grid(right: float, top: float, across: str) -> Iterator[str]:
    for number in range(_TICKS + 1):
        x, y = right * number / _TICKS, top * number / _TICKS
        yield f'<line x1="{_x(x, right):.1f}" y1="{TOP}" x2="{_x(x, right):.1f}" y2="{HEIGHT - BOTTOM}" stroke="#ddd"/>'
        yield _text(_x(x, right), HEIGHT - BOTTOM + 15, f"{x:,.4g}", "middle")
        yield f'<line x1="{LEFT}" y1="{_y(y, top):.1f}" x2="{WIDTH - RIGHT}" y2="{_y(y, top):.1f}" stroke="#ddd"/>'
        yield _text(LEFT - 6, _y(y, top) + 4, f"{y:,.4g}", "end")
    yield _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, across, "middle")


def _x(x: float, right: float) -> float:
    return LEFT + (WIDTH - RIGHT - LEFT) * x / right


def _y(y: float, top: float) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * min(y, top) / top


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="#555">{escape(text)}</text>'


def _unit(seconds: float) -> tuple[float, str]:
    return next((one for one in _UNITS if seconds >= 2 * one[0]), _UNITS[-1])


def _nice(value: float) -> float:
    """Return the next round number that is not below."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(digit * power for digit in (1, 2, 2.5, 4, 5, 6, 8, 10) if digit * power >= value * 0.999999)
