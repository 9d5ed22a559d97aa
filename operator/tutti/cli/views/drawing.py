"""What all views are drawn with: bars, amounts, ages, tables without lines, and one colour for each kind of thing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from rich.table import Table
from rich.text import Text

from tutti.api.resources import format_amount

QUIET = "bright_black"
GOOD = "green"
WAITS = "yellow"
BAD = "bold red"
BORROWED = "yellow"
LENT = "magenta"
HEADING = "bold"

FULL = "█"
DENSE = "▓"
HATCHED = "▒"
OPEN = "·"
MARK = "│"

_MINUTE, _HOUR, _DAY = 60, 3600, 86400

_NARROW = 110
_NAMES = 3
_GAP, _SMALL_GAP = 3, 1


@dataclass(frozen=True, slots=True)
class PageWidth:
    """What is drawn on: so many columns; on few of them, less is said and bars are shorter."""

    width: int = 10_000

    @property
    def narrow(self) -> bool:
        """Whether there is no room for everything side by side."""
        return self.width < _NARROW

    def cells(self, most: int) -> int:
        """Return how long a bar is, of at most so many columns."""
        return most // 2 if self.narrow else most


WIDE = PageWidth()
"""Where nothing is cut or wrapped: a file, a pipe."""


def table(
    *headings: str, right: Iterable[str] = (), wraps: Iterable[str] = (), header: bool = True, page: PageWidth = WIDE
) -> Table:
    """Return a table without lines.

    Args:
        headings: Of its columns.
        right: Those that hold numbers.
        wraps: Those that hold sentences or lists: where a terminal is narrow, these are made narrow first.
        header: Whether the headings are drawn.
        page: What it is drawn on.
    """
    numbers, texts = set(right), set(wraps)
    padding = (0, _SMALL_GAP if page.narrow else _GAP, 0, 0)
    made = Table(box=None, padding=padding, pad_edge=False, header_style=HEADING, show_header=header)
    for heading in headings:
        wrapped = heading in texts
        justify: Literal["left", "right"] = "right" if heading in numbers else "left"
        made.add_column(heading, justify=justify, no_wrap=not wrapped, overflow="fold" if wrapped else "ellipsis")
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
    return "no limit" if units is None else format_amount(resource, units)


def ago(seconds: float) -> str:
    """Return how long ago something was, in the largest unit of which it is a few: two minutes or days, three hours."""
    whole = max(0, int(seconds))
    if whole < 2 * _MINUTE:
        return f"{whole}s"
    if whole < 3 * _HOUR:
        return f"{whole // _MINUTE}m"
    if whole < 2 * _DAY:
        return f"{whole // _HOUR}h"
    return f"{whole // _DAY}d"


def first_few(names: Sequence[str]) -> str:
    """Return the first few of some names, and how many more there are."""
    rest = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
    return f"{', '.join(names[:_NAMES])}{rest}"
