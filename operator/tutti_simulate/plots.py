"""Lines and bars as SVG: a few of them on two axes need no plotting library.

Each stands on a white ground of its own, so that it can be read on light pages and dark ones, and says in a title what
it shows, for those who do not see it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

COLOURS = ("#1f6feb", "#d1572b", "#2da44e", "#8250df")
WIDTH, HEIGHT = 640, 300
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 46, 44
_TICKS = 5
_UNITS = ((86_400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))


@dataclass(frozen=True, slots=True)
class Line:
    """Points with a name; x does not fall.

    Attributes:
        steps: Whether it stays as it is until the next point.
    """

    name: str
    points: Sequence[tuple[float, float]]
    steps: bool = False


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


@dataclass(frozen=True, slots=True)
class Bars:
    """A title, and for each name a group of bars: one of each kind, in the order of the kinds."""

    title: str
    up: str
    kinds: Sequence[str]
    groups: Mapping[str, Sequence[float]]


def drawn(plot: Plot) -> str:
    """Return the SVG of a plot."""
    xs = [x for line in plot.lines for x, _ in line.points] or [0.0]
    ys = [y for line in plot.lines for _, y in line.points] or [0.0]
    unit, noun = _unit(max(xs)) if plot.seconds else (1.0, "")
    right, top = _nice(max(xs) / unit), _nice(plot.most if plot.most is not None else max(ys))
    parts = [*_paper(plot.title, plot.up, [line.name for line in plot.lines]), *_rules(top)]
    for number in range(_TICKS + 1):
        x = right * number / _TICKS
        place = f"{_x(x, right):.1f}"
        parts.append(f'<line x1="{place}" y1="{TOP}" x2="{place}" y2="{HEIGHT - BOTTOM}" stroke="#ddd"/>')
        parts.append(_text(_x(x, right), HEIGHT - BOTTOM + 15, f"{x:,.4g}", "middle"))
    across = f"{plot.across}, {noun}" if noun else plot.across
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, across, "middle"))
    for line, colour in zip(plot.lines, COLOURS, strict=False):
        points = list(_stairs(line.points)) if line.steps else line.points
        path = " ".join(_thinned([(f"{_x(x / unit, right):.1f}", f"{_y(y, top):.1f}") for x, y in points]))
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def drawn_bars(bars: Bars) -> str:
    """Return the SVG of groups of bars, each with its number."""
    top = _nice(max((value for group in bars.groups.values() for value in group), default=0.0))
    parts = [*_paper(bars.title, bars.up, bars.kinds), *_rules(top)]
    wide = (WIDTH - RIGHT - LEFT) / max(1, len(bars.groups))
    bar = min(56.0, 0.8 * wide / max(1, len(bars.kinds)))
    for number, (name, group) in enumerate(bars.groups.items()):
        middle = LEFT + (number + 0.5) * wide
        parts.append(_text(middle, HEIGHT - BOTTOM + 15, name, "middle"))
        for place, (value, colour) in enumerate(zip(group, COLOURS, strict=False)):
            x, y = middle + (place - len(group) / 2) * bar, _y(value, top)
            size = f'width="{bar - 2:.1f}" height="{HEIGHT - BOTTOM - y:.1f}"'
            parts.append(f'<rect x="{x + 1:.1f}" y="{y:.1f}" {size} fill="{colour}"/>')
            parts.append(_text(x + bar / 2, y - 3, f"{value:,.3g}", "middle"))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _paper(title: str, up: str, names: Sequence[str]) -> Iterator[str]:
    """Yield the ground, what is shown, and the names of the lines where there are several."""
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img"'
    said = escape(f"{title}, {up}" + (f": {', '.join(names)}" if len(names) > 1 else ""))
    yield f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="11">'
    yield f"<title>{said}</title>"
    yield f'<rect width="{WIDTH}" height="{HEIGHT}" rx="6" fill="white"/>'
    head = f'<tspan font-weight="bold">{escape(title)}</tspan>, {escape(up)}'
    yield f'<text x="{LEFT}" y="18" font-size="13" fill="#222">{head}</text>'
    spans = [f'<tspan fill="{colour}">{escape(name)}</tspan>' for name, colour in zip(names, COLOURS, strict=False)]
    if len(spans) > 1:
        yield f'<text x="{LEFT}" y="36" fill="#555">{" · ".join(spans)}</text>'


def _rules(top: float) -> Iterator[str]:
    for number in range(_TICKS + 1):
        y = top * number / _TICKS
        yield f'<line x1="{LEFT}" y1="{_y(y, top):.1f}" x2="{WIDTH - RIGHT}" y2="{_y(y, top):.1f}" stroke="#ddd"/>'
        yield _text(LEFT - 6, _y(y, top) + 4, f"{y:,.4g}", "end")


def _stairs(points: Sequence[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    before = None
    for x, y in points:
        if before is not None and before != y:
            yield x, before
        yield x, y
        before = y


def _thinned(points: Sequence[tuple[str, str]]) -> list[str]:
    """Return points as SVG has them, without those in the middle of what is level or upright."""
    kept: list[tuple[str, str]] = []
    for x, y in points:
        if kept and kept[-1] == (x, y):
            continue
        if len(kept) > 1 and _is_between(kept[-2], kept[-1], (x, y)):
            kept.pop()
        kept.append((x, y))
    return [f"{x},{y}" for x, y in kept]


def _is_between(first: tuple[str, str], middle: tuple[str, str], last: tuple[str, str]) -> bool:
    """Whether a point lies on a level or upright way from one to another."""
    for along, across in ((0, 1), (1, 0)):
        ends = sorted((float(first[along]), float(last[along])))
        if first[across] == middle[across] == last[across] and ends[0] <= float(middle[along]) <= ends[1]:
            return True
    return False


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
    return next(digit * power for digit in (1, 1.5, 2, 2.5, 4, 5, 6, 8, 10) if digit * power >= value * 0.999999)
