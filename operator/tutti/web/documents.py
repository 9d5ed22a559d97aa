"""A page as data: sections of rows of cells. The browser draws any of them, and puts every text in as text.

So what a user has named something can nowhere become markup, each amount and sentence is written where those of the
terminal views are, and the difference of two states of a page is one of rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

Tone = Literal["", "good", "waits", "bad", "quiet", "strong", "again"]
"""What a text means, beside what it says; never said by colour alone. `again`: what the row above says already."""


class BarPart(msgspec.Struct, frozen=True):
    """A part of a bar: what it is, and how much of the whole, in percent."""

    kind: Literal["own", "borrowed", "lent", "used", "over"]
    share: float


class PageCell(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that is shown.

    Attributes:
        text: What is written; of a bar, what it shows in words.
        href: Where it leads, a path of these pages; "" for nowhere.
        at: A moment, Unix seconds: shown as how long ago, or how soon, that is; the text stands before it.
        bar: Parts of a bar, from the left; None for none, and `mark` where its own ends, in percent.
        dots: Members that have a node, have succeeded, have failed, wait and are not there; None for none.
    """

    text: str = ""
    href: str = ""
    tone: Tone = ""
    at: float | None = None
    bar: tuple[BarPart, ...] | None = None
    mark: float | None = None
    dots: tuple[int, int, int, int, int] | None = None


Cells = tuple[PageCell, ...]
"""What stands in one place, one thing after the other."""


class NodeSquares(msgspec.Struct, frozen=True, omit_defaults=True):
    """The nodes of a box, in parallel lists.

    Attributes:
        states: A letter each: e empty, p in part used, f full, c closed to pods.
        notes: What is the matter with some, by index.
    """

    names: tuple[str, ...]
    used: tuple[int, ...]
    of: tuple[int, ...]
    states: str
    notes: Mapping[int, str] = {}


class PageRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """A row: the same key is the same thing in every state of a page.

    Attributes:
        depth: How far it is within others, for trees and boxes.
        mark: Of a gate: Passed, Waits, WouldPass, WouldWait, Unknown or Short.
        squares: Of a box, the nodes right in it.
    """

    key: str
    cells: tuple[Cells, ...]
    depth: int = 0
    mark: str = ""
    squares: NodeSquares | None = None


class PageColumn(msgspec.Struct, frozen=True, omit_defaults=True):
    """A column of a table; numbers stand to the right."""

    title: str
    number: bool = False


class PageSection(msgspec.Struct, frozen=True, omit_defaults=True):
    """A part of a page.

    Attributes:
        kind: How it is drawn: a table; facts, name and value; the gates on a way; boxes within boxes; text as it is,
            to copy; or something to try (`href` says where that is asked).
        note: A sentence below the heading.
        empty: What is said where there are no rows.
    """

    id: str
    kind: Literal["table", "facts", "gates", "boxes", "text", "try"]
    title: str
    rows: tuple[PageRow, ...] = ()
    columns: tuple[PageColumn, ...] = ()
    note: str = ""
    empty: str = ""
    text: str = ""
    href: str = ""


class PageFilter(msgspec.Struct, frozen=True, omit_defaults=True):
    """What of a page is looked at: a field of its address, and what it may be; without choices, any text."""

    name: str
    title: str
    value: str
    choices: tuple[tuple[str, str], ...] = ()


class PageDocument(msgspec.Struct, frozen=True, omit_defaults=True):
    """A page.

    Attributes:
        title: Of the window, and the heading.
        summary: The page in a sentence, which is read aloud when it changes.
        problems: What cannot be shown, or may be wrong, and why.
    """

    title: str
    summary: str = ""
    sections: tuple[PageSection, ...] = ()
    filters: tuple[PageFilter, ...] = ()
    problems: tuple[str, ...] = ()
    generation: int = 0


def said(text: object, tone: Tone = "", href: str = "") -> Cells:
    """Return a text as cells."""
    return (PageCell(str(text), href, tone),)


def moment(at: float | None, before: str = "") -> Cells:
    """Return a moment as cells; nothing where there is none."""
    return () if at is None else (PageCell(before, at=round(at, 3)),)


def facts(id_: str, title: str, pairs: Sequence[tuple[str, Cells]], note: str = "") -> PageSection:
    """Return names with their values, without those that have none."""
    rows = tuple(PageRow(name, (said(name), cells)) for name, cells in pairs if any(one != PageCell() for one in cells))
    return PageSection(id_, "facts", title, rows, note=note)


def columns(*titles: str, numbers: Sequence[str] = ()) -> tuple[PageColumn, ...]:
    """Return the columns of a table."""
    return tuple(PageColumn(title, title in numbers) for title in titles)


def change_of(before: PageDocument, after: PageDocument) -> dict[str, Any]:
    """Return what of a page is different now; empty where nothing is but its generation.

    `head` are the fields that are not sections; `order` the ids of all sections, where that is another; `sections`
    those that are new or drawn otherwise, in whole; and `rows`, by section, what is set, gone, and the order where
    it is another.
    """
    change: dict[str, Any] = {}
    head = {
        name: getattr(after, name)
        for name in ("title", "summary", "filters", "problems")
        if getattr(after, name) != getattr(before, name)
    }
    if head:
        change["head"] = head
    known = {one.id: one for one in before.sections}
    ids = [one.id for one in after.sections]
    if ids != list(known):
        change["order"] = ids
    whole, rows = [], {}
    for one in after.sections:
        old = known.get(one.id)
        if old is None or _without_rows(old) != _without_rows(one) or bool(old.rows) != bool(one.rows):
            whole.append(one)
        elif old.rows != one.rows:
            rows[one.id] = _rows_of(old.rows, one.rows)
    if whole:
        change["sections"] = whole
    if rows:
        change["rows"] = rows
    return change


def _without_rows(one: PageSection) -> PageSection:
    return msgspec.structs.replace(one, rows=())


def _rows_of(before: Sequence[PageRow], after: Sequence[PageRow]) -> dict[str, Any]:
    known = {row.key: row for row in before}
    keys = [row.key for row in after]
    there = set(keys)
    found: dict[str, Any] = {"set": [row for row in after if known.get(row.key) != row]}
    gone = [key for key in known if key not in there]
    if gone:
        found["gone"] = gone
    if [key for key in known if key in there] != keys:
        found["order"] = keys
    return found
