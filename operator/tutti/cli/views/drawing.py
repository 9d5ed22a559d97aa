"""What all views are drawn with: bars, amounts, ages, tables without lines, and one colour for each kind of thing."""

from __future__ import annotations

from collections.abc import Iterable

from rich.table import Table
from rich.text import Text

from tutti.api.resources import describe

QUIET = "bright_black"
GOOD = "green"
WAITS = "yellow"
BAD = "bold red"
BORROWED = "yellow"
LENT = "magenta"
HEADING = "bold"

FULL = "█"
HATCHED = "▒"
OPEN = "·"
MARK = "│"

_MINUTE, _HOUR, _DAY = 60, 3600, 86400


def table(*headings: str, right: Iterable[str] = ()) -> Table:
    """Return a table without lines whose columns have these headings; those that are `right` hold numbers."""
    numbers = set(right)
    made = Table(box=None, padding=(0, 3, 0, 0), pad_edge=False, header_style=HEADING)
    for heading in headings:
        made.add_column(heading, justify="right" if heading in numbers else "left", overflow="fold")
    return made


def bar(parts: Iterable[tuple[str, str, int]], *, whole: int, cells: int, mark: int | None = None) -> Text:
    """Return a bar of so many columns.

    Args:
        parts: Glyph, style and amount of each part, from the left; what is there at all has at least one column.
        whole: The amount that the bar is as long as.
        cells: Columns of the bar itself.
        mark: The amount at which a line is drawn between two columns; None: nowhere.
    """
    glyphs: list[tuple[str, str]] = []
    for glyph, style, amount in parts:
        many = min(cells - len(glyphs), max(1, round(amount * cells / whole)) if whole and amount > 0 else 0)
        glyphs += [(glyph, style)] * many
    glyphs += [(OPEN, QUIET)] * (cells - len(glyphs))
    if mark is None:
        return Text.assemble(*glyphs)
    at = min(cells, round(mark * cells / whole)) if whole else cells
    return Text.assemble(*glyphs[:at], (MARK, "bold"), *glyphs[at:])


def amount(resource: str, units: int | None) -> str:
    """Return an amount as people write it; `no limit` where there is none."""
    return "no limit" if units is None else describe(resource, units)


def ago(seconds: float) -> str:
    """Return how long ago something was, in its largest unit, or its two largest where the first is small."""
    whole = max(0, int(seconds))
    if whole < 2 * _MINUTE:
        return f"{whole}s"
    if whole < 3 * _HOUR:
        return f"{whole // _MINUTE}m"
    if whole < 2 * _DAY:
        return f"{whole // _HOUR}h"
    return f"{whole // _DAY}d"


def count(number: int, word: str) -> str:
    """Return a number with a word in singular or plural."""
    return f"{number} {word}{'' if number == 1 else 's'}"
