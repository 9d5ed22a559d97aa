"""What all readers share: lines that are bounded, numbers that are numbers, and entries that are left out by name.

A trace is a file of somebody else. A line that cannot be read costs itself: it is skipped, told with its number, and
everything else is played.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import BinaryIO

from tutti_simulate.jobs import BadEntryError, Trace, TraceJob, checked

LONGEST_LINE = 64 * 1024
MOST_TOLD = 20
MOST_JOBS = 20_000_000
_MOST_SHOWN = 40
_NUMBER = re.compile(
    r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,4})?|[+-]?(nan|inf|infinity)", re.ASCII | re.IGNORECASE
)


class TraceError(ValueError):
    """A trace of which nothing can be used; the message says why, and what would be right."""


def bounded_lines(file: BinaryIO) -> Iterator[tuple[int, str | None]]:
    """Yield each line of a file with its number, from 1; None in place of one that is too long or no UTF-8.

    The mark that some tools write before the first line is no part of it.
    """
    for number in range(1, 2**62):
        line = file.readline(LONGEST_LINE + 1)
        if not line:
            return
        if len(line) > LONGEST_LINE and not line.endswith(b"\n"):
            while line and not line.endswith(b"\n"):
                line = file.readline(LONGEST_LINE)
            yield number, None
            continue
        try:
            yield number, line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
        except UnicodeDecodeError:
            yield number, None


def number_of(text: str, field: str, *, least: float = 0.0, most: float = 1e15) -> float:
    """Return a number of a trace.

    Raises:
        BadEntryError: It is none, or not within its bounds; it names the field.
    """
    if not _NUMBER.fullmatch(
        text.strip()
    ):  # Python reads 1_000 and other scripts' digits as numbers, no trace means it
        raise BadEntryError(f"{field} must be a number, not {text[:_MOST_SHOWN]!r}")
    value = float(text)
    if not math.isfinite(value) or not least <= value <= most:
        raise BadEntryError(f"{field} is {value:g}, which must be within {least:g} and {most:g}")
    return value


def optional_number(text: str, field: str) -> float | None:
    """Return a number; None where there is none."""
    return None if text.strip().lower() in ("", "none", "null", "nan") else number_of(text, field)


class TraceBuilder:
    """Gathers the jobs of a trace, entry by entry.

    Args:
        what: How an entry is called where one is told: `line`, or `entry`.
    """

    def __init__(self, what: str = "line") -> None:
        self.trace = Trace()
        self._what = what

    def add(self, number: int, read: Callable[[], TraceJob]) -> None:
        """Take what is read from an entry; leave it out where that cannot be done, and note why."""
        try:
            job = checked(read())
        except BadEntryError as error:
            self.skip(number, str(error))
            return
        if len(self.trace.jobs) < MOST_JOBS:
            self.trace.jobs.append(job)
        else:
            self.skip(number, f"only the first {MOST_JOBS} jobs are taken; give a part of the trace")

    def skip(self, number: int, why: str) -> None:
        """Leave an entry out."""
        self.trace.left_out += 1
        if len(self.trace.skipped) < MOST_TOLD:
            self.trace.skipped.append(f"{self._what} {number}: {why}")

    def note(self, filled: str) -> None:
        """Count a job of which something had to be filled in."""
        self.trace.filled[filled] += 1


UNREADABLE = f"it is no UTF-8 text of at most {LONGEST_LINE} bytes"


def rows(file: BinaryIO, builder: TraceBuilder, columns: Sequence[str] = ()) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Yield the rows of a table of comma-separated values, by the names of its columns, with their line numbers.

    Args:
        file: The table.
        builder: Where rows are told of that cannot be read.
        columns: Their names; none: those of the first line.

    Raises:
        TraceError: There is no first line to name them.
    """
    names = list(columns)
    for number, line in bounded_lines(file):
        if line is None:
            builder.skip(number, UNREADABLE)
            continue
        if not line.strip():
            continue
        cells = next(_cells([line]), None)
        if cells is None:
            builder.skip(number, "its quotation marks do not close")
        elif not names:
            names = [cell.strip() for cell in cells]
        elif len(cells) != len(names):
            builder.skip(number, f"it has {len(cells)} columns, not {len(names)}")
        elif cells != names:
            yield number, dict(zip(names, cells, strict=True))
    if not names:
        raise TraceError("it is empty; its first line must name the columns")


def _cells(lines: Iterable[str]) -> Iterator[list[str]]:
    try:
        yield from csv.reader(lines, strict=True)
    except csv.Error:
        return


def column(row: Mapping[str, str], name: str) -> str:
    """Return a cell.

    Raises:
        BadEntryError: The table has no such column.
    """
    if name not in row:
        raise BadEntryError(f"there is no column {name}; there are {', '.join(row)[:200]}")
    return row[name].strip()
