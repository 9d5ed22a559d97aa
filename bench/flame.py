"""Draws where a process spends its time, of the stacks that a sampling profiler has written.

    py-spy record --gil --format raw --output stacks.txt --pid PID
    python -m bench.flame stacks.txt docs/pictures/flame.svg --title 'single pods' [--below Runner.run]

Each line of the input is the names of a stack, the outermost first, with `;` between them, and how often it was seen. A
box is as wide as its share of all samples; below it stand those that it called, in the order of their names. What has
less than half a percent is left out.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from xml.sax.saxutils import escape

WIDTH, ROW, TOP = 1200, 17, 26
LEAST = 0.005
PER_LETTER = 6.2
_PLACE = re.compile(r" \((.*?)(?::\d+)?\)$")
_COLOURS = {"tutti/engine": "#f2b880", "tutti/kube": "#9ec5f0", "tutti/controller": "#a9dba5", "tutti": "#f2dd8a"}
_OTHER = "#dddddd"
_FONT = 'font-family="monospace"'


@dataclass(slots=True)
class Frame:
    """A function within those that called it: samples with it, and what it called."""

    name: str
    samples: int = 0
    called: dict[str, Frame] = field(default_factory=dict)


def gathered(lines: Iterable[str], below: str = "") -> Frame:
    """Put stacks together; of those that have a function so named, only what it called counts, and no other stack.

    Raises:
        ValueError: A line has no count.
    """
    whole = Frame("all")
    for line in lines:
        stack, _, count = line.rstrip("\n").rpartition(" ")
        names = stack.split(";")
        if below:
            found = [number for number, name in enumerate(names) if name.startswith(f"{below} ")]
            if not found:
                continue
            names = names[found[-1] + 1 :]
        frame = whole
        frame.samples += int(count)
        for name in (_PLACE.sub(r" (\1)", one) for one in names):
            frame = frame.called.setdefault(name, Frame(name))
            frame.samples += int(count)
    return whole


def depth(frame: Frame, least: float) -> int:
    """How many rows it takes with what it called."""
    return 1 + max((depth(one, least) for one in frame.called.values() if one.samples >= least), default=0)


def drawn(whole: Frame, title: str) -> str:
    """Return it as SVG."""
    least = LEAST * whole.samples
    height = TOP + ROW * depth(whole, least) + 6
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-size="10" {_FONT}>',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="4" y="17" font-size="13" font-family="sans-serif">{escape(title)}</text>',
        *_boxes(whole, 0.0, TOP, whole.samples, least),
    ]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _boxes(frame: Frame, x: float, y: float, total: int, least: float) -> Iterator[str]:
    width = WIDTH * frame.samples / total
    label = f"{frame.name.split(' (')[0]} {100 * frame.samples / total:.1f}%"
    shown = label[: int(width / PER_LETTER)] if width > 3 * PER_LETTER else ""
    colour = next((one for part, one in _COLOURS.items() if f"({part}/" in frame.name), _OTHER)
    place = f'x="{x:.1f}" y="{y:.0f}" width="{max(width - 0.5, 0.5):.1f}" height="{ROW - 1}"'
    yield f'<rect {place} fill="{colour}"><title>{escape(frame.name)}: {label.rpartition(" ")[2]}</title></rect>'
    if shown:
        yield f'<text x="{x + 2:.1f}" y="{y + 12:.0f}">{escape(shown)}</text>'
    for _, one in sorted(frame.called.items()):
        if one.samples >= least:
            yield from _boxes(one, x, y + ROW, total, least)
            x += WIDTH * one.samples / total


def main() -> None:
    """Draw a picture."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("stacks", type=Path)
    parser.add_argument("picture", type=Path)
    parser.add_argument("--title", default="")
    parser.add_argument("--below", default="", help="only what this function called")
    given = parser.parse_args()
    with given.stacks.open(encoding="utf-8") as lines:
        given.picture.write_text(drawn(gathered(lines, given.below), given.title), encoding="utf-8")


if __name__ == "__main__":
    main()
