"""The tree of queues, and one queue, drawn."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tutti.cli.views.asking import FITS
from tutti.cli.views.degraded import amounts, end, numbers
from tutti.cli.views.drawing import (
    BAD,
    BORROWED,
    DENSE,
    FULL,
    GOOD,
    HATCHED,
    LENT,
    QUIET,
    WAITS,
    WIDE,
    Page,
    ago,
    amount,
    bar,
    table,
)
from tutti.cli.views.queues.model import Branch, Entry, QueueDetails, Use

_CELLS = 24
_NUMBERS = ("USED", "OWN", "MOST", "WAITING", "RUNNING")


def draw_forest(roots: Sequence[Branch], resources: Collection[str], page: Page = WIDE) -> RenderableType:
    """Draw the tree with these resources."""
    if not roots:
        return Text("There are no ClusterQueues.")
    drawn = table("COHORT / QUEUE", *_columns(page), right=_NUMBERS, wraps=("",), page=page)
    for root in roots:
        _add(drawn, root, resources, "", "", page=page)
    return Group(drawn, Text(), _legend())


def draw_details(found: QueueDetails, resources: Collection[str], now: float, page: Page = WIDE) -> RenderableType:
    """Draw one queue."""
    head = table("QUEUE", *_columns(page), right=_NUMBERS, wraps=("",), page=page)
    _add(head, found.queue, resources, "", "", page=page)
    running = table("RUNNING", "PRIORITY", "USES", right=("PRIORITY",), wraps=("USES",), page=page)
    for one in found.running:
        running.add_row(
            _name(one), str(one.priority), Text(_holds(one, resources)).append_text(_kept(one, resources, now))
        )
    columns = ("", "WAITING", "PRIORITY", "SINCE", "AT", "WHY")
    waiting = table(*columns, right=("", "PRIORITY", "SINCE"), wraps=("WHY",), page=page)
    for one in found.waiting:
        since = ago(now - one.queued_at)
        why = Text(one.why or FITS, WAITS)
        waiting.add_row(str(one.position), _name(one), str(one.priority), since, one.gate, why)
    parts: list[RenderableType] = [head]
    for rows, part in ((found.running, running), (found.waiting, waiting)):
        if rows:
            parts += [Text(), part]
    if found.beyond:
        parts.append(Text(f"... and {found.beyond} more", QUIET))
    return Group(*parts, Text(), _legend())


def _columns(page: Page) -> tuple[str, ...]:
    most = () if page.narrow else ("MOST",)  # the bar shows it
    return ("RESOURCE", "USE", "USED", "OWN", *most, "WAITING", "RUNNING", "")


def _add(drawn: Table, branch: Branch, resources: Collection[str], first: str, further: str, *, page: Page) -> None:
    """Add a branch, and what is in it, after what its lines begin with."""
    shown = [use for use in branch.uses if use.resource in resources]
    style = "bold" if branch.kind == "Cohort" else ""
    left = _left(branch, first, further, max(1, len(shown)), style)
    counts = (_count(branch.waiting, WAITS), _count(branch.running, GOOD), _notes(branch))
    for at, use in enumerate(shown):
        drawn.add_row(next(left), *_figures(use, page), *(counts if at == 0 else ("", "", "")))
    if not shown:
        drawn.add_row(next(left), *[""] * (len(_columns(page)) - len(counts)), *counts)
    for child in branch.children:
        last = child is branch.children[-1]
        ends = ("└─ ", "   ") if last else ("├─ ", "│  ")
        _add(drawn, child, resources, further + ends[0], further + ends[1], page=page)


def _left(branch: Branch, first: str, further: str, rows: int, style: str) -> Iterator[Text]:
    yield Text.assemble((first, QUIET), (branch.name, style))
    below = "│" if branch.children else ""
    for _ in range(rows - 1):
        yield Text(further + below, QUIET)


def _figures(use: Use, page: Page) -> tuple[Text | str, ...]:
    own = min(use.used, use.own)
    whole = max(use.own, use.used) if use.most is None else max(use.most, use.used)
    parts = [(FULL, GOOD, own), (HATCHED, LENT, use.lent)]
    if use.used > use.own:
        parts = [(FULL, GOOD, own), (DENSE, BORROWED, use.used - use.own)]
    mark = use.own if use.own < whole else None
    drawn = bar(parts, whole=whole, cells=page.cells(_CELLS), mark=mark)
    shown = (use.used, use.own) if page.narrow else (use.used, use.own, use.most)
    numbers = (amount(use.resource, one) for one in shown)
    return (Text.assemble(use.resource, (f" {use.flavor}", QUIET)), drawn, *numbers)


def _count(number: int, style: str) -> Text:
    return Text(str(number), style if number else QUIET)


def _notes(branch: Branch) -> Text:
    return Text(", ".join(branch.notes), QUIET if branch.notes in ((), ("strict",)) else BAD)


def _name(one: Entry) -> str:
    return f"{one.namespace}/{one.name}"


def _holds(one: Entry, resources: Collection[str]) -> str:
    held = (part for part in one.holds if part.resource in resources)
    parts = [f"{amount(part.resource, part.used)} {part.resource} ({part.flavor})" for part in held]
    return ", ".join(parts)


def _kept(one: Entry, resources: Collection[str], now: float) -> Text:
    """Return what of it is not in use, but kept for members that it has lost."""
    lacks = one.degraded
    if lacks is None:
        return Text()
    kept = {(part.flavor, part.resource): part.amount for part in lacks.kept if part.resource in resources}
    said = f", of which {amounts(kept)} for successors" if kept else ", degraded"
    return Text(f"{said}: {numbers(lacks, now)}, {end(lacks, now)}", BAD)


def _legend() -> Text:
    return Text.assemble(
        (FULL, GOOD), (" used of its own  ", QUIET), (DENSE, BORROWED), (" borrowed  ", QUIET),
        (HATCHED, LENT), (" lent to others  ", QUIET), ("│", "bold"), (" where its own quota ends", QUIET),
    )  # fmt: skip
