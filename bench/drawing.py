"""Draws curves on two logarithmic axes as SVG; a plot of a few points needs no library."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from xml.sax.saxutils import escape

COLOURS = ("#1f6feb", "#d1572b", "#2da44e", "#8250df")
WIDTH, HEIGHT = 430, 300
LEFT, RIGHT, TOP, BOTTOM = 58, 20, 44, 46


@dataclass(frozen=True)
class Curve:
    """Points with a name, both coordinates above 0; one of COLOURS, by its place among the curves if not said."""

    name: str
    points: Sequence[tuple[float, float]]
    colour: str = ""


@dataclass(frozen=True)
class Panel:
    """A pair of axes with curves."""

    title: str
    across: str
    up: str
    curves: list[Curve] = field(default_factory=list)


@dataclass(frozen=True)
class Axis:
    """A logarithmic axis from a figure to a figure, between two places on the paper."""

    low: float
    high: float
    begin: float
    end: float

    def at(self, figure: float) -> float:
        """Return where a figure stands."""
        part = math.log(figure / self.low) / math.log(self.high / self.low)
        return self.begin + part * (self.end - self.begin)

    def ticks(self) -> Iterator[float]:
        """Give 1, 2 and 5 of each power of ten within."""
        for power in range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1):
            for digit in (1, 2, 5):
                figure = digit * 10.0**power
                if self.low * 0.999 <= figure <= self.high * 1.001:
                    yield figure


def drawn(panels: Sequence[Panel], across: int | None = None) -> str:
    """Return the SVG of panels side by side, so many in a row; all in one if nothing is given."""
    columns = across or max(1, len(panels))
    width, height = WIDTH * columns, HEIGHT * math.ceil(len(panels) / columns)
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="11">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    for index, panel in enumerate(panels):
        row, column = divmod(index, columns)
        parts.append(f'<g transform="translate({column * WIDTH} {row * HEIGHT})">')
        parts += _panel(panel)
        parts.append("</g>")
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(panel: Panel) -> Iterator[str]:
    xs = [x for curve in panel.curves for x, _ in curve.points]
    ys = [y for curve in panel.curves for _, y in curve.points]
    across = Axis(min(xs), max(xs), LEFT, WIDTH - RIGHT)
    up = Axis(_below(min(ys)), _above(max(ys)), HEIGHT - BOTTOM, TOP)
    title, unit = escape(panel.title), escape(panel.up)
    yield f'<text x="{LEFT}" y="18" font-size="13"><tspan font-weight="bold">{title}</tspan>, {unit}</text>'
    yield from _names(panel.curves)
    for x in across.ticks():
        yield _line(across.at(x), TOP, across.at(x), HEIGHT - BOTTOM)
        yield _text(across.at(x), HEIGHT - BOTTOM + 15, _short(x), "middle")
    for y in up.ticks():
        yield _line(LEFT, up.at(y), WIDTH - RIGHT, up.at(y))
        yield _text(LEFT - 6, up.at(y) + 4, _short(y), "end")
    yield _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, panel.across, "middle")
    for curve, colour in zip(panel.curves, COLOURS, strict=False):
        yield from _curve(curve, curve.colour or colour, across, up)


def _names(curves: Sequence[Curve]) -> Iterator[str]:
    """The names in one line, each in the colour of its curve."""
    spans = [
        f'<tspan fill="{curve.colour or colour}">{escape(curve.name)}</tspan>'
        for curve, colour in zip(curves, COLOURS, strict=False)
    ]
    yield f'<text x="{LEFT}" y="35">{" · ".join(spans)}</text>'


def _curve(curve: Curve, colour: str, across: Axis, up: Axis) -> Iterator[str]:
    places = [(across.at(x), up.at(y)) for x, y in curve.points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'
    for (x, y), (_, figure) in zip(places, curve.points, strict=True):
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"><title>{figure:g}</title></circle>'


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#ddd"/>'


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="#555">{escape(text)}</text>'


def _short(figure: float) -> str:
    return f"{figure:,.0f}" if figure >= 1 else f"{figure:g}"


def _below(figure: float) -> float:
    """The next 1, 2 or 5 of a power of ten that is not above."""
    power = 10.0 ** math.floor(math.log10(figure))
    return max(digit * power for digit in (1, 2, 5) if digit * power <= figure)


def _above(figure: float) -> float:
    """The next 1, 2 or 5 of a power of ten that is not below."""
    power = 10.0 ** math.floor(math.log10(figure))
    return min(digit * power for digit in (1, 2, 5, 10) if digit * power >= figure)
