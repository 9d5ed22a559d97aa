"""Draws the dashboard as one SVG: each panel from what its own expressions came to."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from handbook.dashboard import ROWS, WIDTH, Line, Panel
from handbook.prometheus import Series

COLUMN, HEIGHT, GAP, MARGIN = 50, 210, 10, 16
HEAD, FOOT, LEGEND = 40, 46, 14
COLOURS = ("#3274d9", "#e0752d", "#37872d", "#a352cc", "#c4162a", "#8f6b00", "#1f9aa8", "#7a7a7a")
MOST_SERIES = 8


Answers = Mapping[str, Sequence[Series]]
"""What each expression of the dashboard came to."""


@dataclass(frozen=True)
class Curve:
    """What one series was at each time; None where it was not."""

    name: str
    values: tuple[float | None, ...]

    @property
    def last(self) -> float | None:
        """Its value at the end."""
        return self.values[-1]


def curves(panel: Panel, answers: Answers) -> list[Curve]:
    """The series of a panel by their legends; of two with one name the later is shown where it is."""
    found: dict[str, tuple[float | None, ...]] = {}
    for line in panel.lines:
        for series in answers[line.expression]:
            name = _named(line, series.labels)
            before = found.get(name, series.values)
            found[name] = tuple(old if new is None else new for old, new in zip(before, series.values, strict=True))
    return [Curve(name, values) for name, values in found.items() if any(value is not None for value in values)]


def _named(line: Line, labels: dict[str, str]) -> str:
    text = re.sub(r"{{(\w+)}}", lambda found: labels.get(found[1], ""), line.legend)
    return " ".join(text.split()) or "not tried yet" if line.legend else ""


def draw(answers: Answers, *, caption: str) -> str:
    """Return the picture."""
    parts: list[str] = []
    top = HEAD
    for row in ROWS:
        parts.append(_text(MARGIN, top + 18, row.question, size=15, weight=600))
        top, left = top + 28, 0
        for panel in row.panels:
            if left + panel.width > WIDTH:
                top, left = top + HEIGHT + GAP, 0
            inside = _panel(panel, curves(panel, answers))
            x = MARGIN + left * COLUMN
            parts.append(f'<g transform="translate({x},{top})">{inside}</g>')
            left += panel.width
        top += HEIGHT + GAP
    width = 2 * MARGIN + WIDTH * COLUMN
    parts += [_text(MARGIN, top + 16 + 15 * number, line, size=11) for number, line in enumerate(caption.split("\n"))]
    head = _text(MARGIN, 26, "Tutti", size=18, weight=600)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{top + FOOT}" '
        f'viewBox="0 0 {width} {top + FOOT}" font-family="Inter,Helvetica,Arial,sans-serif" fill="#24292e">'
        f'<rect width="100%" height="100%" fill="#f4f5f5"/>{head}{"".join(parts)}</svg>\n'
    )


def _panel(panel: Panel, found: list[Curve]) -> str:
    width = panel.width * COLUMN - GAP
    box = f'<rect width="{width}" height="{HEIGHT}" rx="3" fill="#fff" stroke="#d5d7da"/>'
    title = _text(10, 18, panel.title, size=12, weight=600)
    return box + title + (_number(panel, found, width) if panel.number else _chart(panel, found, width))


def _number(panel: Panel, found: list[Curve], width: int) -> str:
    value = found[0].last if found else None
    right = value == panel.wanted
    text = "no data" if value is None else _said(value, panel.unit)
    return _text(
        width / 2, HEIGHT / 2 + 18, text, size=44, weight=600, colour="#37872d" if right else "#c4162a", mid=True
    )


def _chart(panel: Panel, found: list[Curve], width: int) -> str:
    if not found:
        return _text(width / 2, HEIGHT / 2, "nothing of it in this scene", size=11, mid=True, colour="#7a7a7a")
    found = [one for one in found if any(one.values)] or found[:1]  # what was 0 all the time only fills the legend
    found = sorted(found, key=lambda one: -sum(value or 0 for value in one.values))[:MOST_SERIES]
    rows = math.ceil(len(found) / 2)
    left, right, top, bottom = 52, width - 10, 32, HEIGHT - 10 - LEGEND * rows - 8
    layers = _layers(found, stacked=panel.stacked)
    most = max((value for _, upper in layers for value in upper if value is not None), default=1) or 1
    scale = _round_up(most)

    def point(index: int, value: float) -> str:
        x = left + (right - left) * index / max(1, len(found[0].values) - 1)
        return f"{x:.1f},{bottom - (bottom - top) * value / scale:.1f}"

    parts = []
    for share in (0, 0.5, 1):
        y = bottom - (bottom - top) * share
        parts.append(f'<line x1="{left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}" stroke="#e6e8ea"/>')
        parts.append(_text(left - 6, y + 4, _said(scale * share, panel.unit), size=10, colour="#6b7075", end=True))
    for number, (lower, upper) in enumerate(layers):
        colour = COLOURS[number % len(COLOURS)]
        for start, stop in _runs(upper):
            above = [point(index, upper[index] or 0) for index in range(start, stop)]
            if panel.stacked:
                below = [point(index, lower[index] or 0) for index in reversed(range(start, stop))]
                parts.append(f'<polygon points="{" ".join(above + below)}" fill="{colour}" fill-opacity="0.35"/>')
            parts.append(f'<polyline points="{" ".join(above)}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
    for number, curve in enumerate(found):
        x, y = 12 + (number % 2) * (width / 2 - 6), HEIGHT - 8 - LEGEND * (rows - 1 - number // 2)
        colour = COLOURS[number % len(COLOURS)]
        last = "" if curve.last is None else _said(curve.last, panel.unit)
        parts.append(f'<rect x="{x}" y="{y - 8}" width="10" height="3" fill="{colour}"/>')
        parts.append(_text(x + 15, y, ": ".join(part for part in (curve.name, last) if part), size=10))
    return "".join(parts)


Layer = tuple[list[float | None], list[float | None]]
"""The lower and upper edge of a series at each time."""


def _layers(found: list[Curve], *, stacked: bool) -> list[Layer]:
    floor = [0.0] * len(found[0].values)
    layers: list[Layer] = []
    for curve in found:
        if not stacked:
            layers.append(([0.0] * len(floor), list(curve.values)))
            continue
        lower = list(floor)
        floor = [below + (value or 0) for below, value in zip(floor, curve.values, strict=True)]
        layers.append((list(lower), list(floor)))
    return layers


def _runs(values: list[float | None]) -> list[tuple[int, int]]:
    """Return where values are there without a gap: begin and end of each such piece."""
    there = [value is not None for value in values]
    edges = [i for i in range(len(there) + 1) if (i < len(there) and there[i]) != (i > 0 and there[i - 1])]
    return list(zip(edges[::2], edges[1::2], strict=True))


def _round_up(value: float) -> float:
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10) if step * power >= value * 0.999)


def _said(value: float, unit: str) -> str:
    if unit == "percentunit":
        return f"{value:.0%}"
    if unit == "s":
        return f"{value:.3g} s" if value >= 1 or value == 0 else f"{value * 1000:.3g} ms"
    return f"{value:.3g}" + ("/s" if unit == "ops" else "")


def _text(
    x: float,
    y: float,
    text: str,
    *,
    size: int,
    weight: int = 400,
    colour: str = "#24292e",
    mid: bool = False,
    end: bool = False,
) -> str:
    anchor = "middle" if mid else "end" if end else "start"
    style = f'font-size="{size}" font-weight="{weight}" fill="{colour}" text-anchor="{anchor}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(text)}</text>'
