"""All gangs, and what has been decided of late, with why."""

from __future__ import annotations

from collections.abc import Iterable

from tutti.api.messages import counted
from tutti.cli.views.degraded import degraded_end, degraded_members
from tutti.cli.views.gangs import GangView, member_marks
from tutti.web.documents import (
    Cells,
    PageCell,
    PageDocument,
    PageFilter,
    PageRow,
    PageSection,
    Tone,
    columns,
    moment,
    said,
)
from tutti.web.pages.asking import PageRequest, queue_link, workload_link
from tutti.web.told import ToldEvent

MOST_SHOWN = 200
"""So many are on one page; the filters find the others."""
MOST_CHOICES = 250
"""So many are offered to choose from; an address may name any."""
_STATES = (("", "all"), ("waiting", "waiting"), ("running", "running"), ("degraded", "degraded"))
_GANGS = ("Workload", "PodGroup", "Pod")
_TONES: dict[str, Tone] = {
    "Waiting": "waits",
    "Checking": "waits",
    "Reserved": "strong",
    "Binding": "strong",
    "Scheduled": "good",
    "Leaving": "bad",
    "Finished": "quiet",
}


def gangs_page(asked: PageRequest) -> PageDocument:
    """Return the gangs that the viewer may see, of which the address says which."""
    query, viewer = asked.query, asked.viewer
    namespace, words, state = query.get("namespace", ""), query.get("name", ""), query.get("state", "")
    mine = [one for one in asked.answers.gangs if viewer.sees(one.namespace)]
    chosen = [
        one
        for one in mine
        if (not namespace or one.namespace == namespace) and words.lower() in one.name.lower() and _is_in(one, state)
    ]
    first = _number(query.get("from", ""))
    shown = chosen[first : first + MOST_SHOWN]
    titles = columns(
        "Namespace", "Gang", "Queue", "Members", "Needs", "Has nodes", "State", "Since", "At", "Why",
        numbers=("Needs", "Has nodes"),
    )  # fmt: skip
    rows = tuple(_gang_row(asked, one) for one in shown)
    note = _MEMBERS_NOTE
    if len(chosen) > len(shown):
        note += f" {first + 1} to {first + len(shown)} of {len(chosen)}; the fields above find others."
    section = PageSection("gangs", "table", "Gangs", rows, titles, note, "There are no gangs to show.")
    waiting = sum(bool(one.why) for one in mine)
    spaces = {one.namespace for one in mine}
    filters = [
        PageFilter("state", "State", state, _STATES),
        PageFilter("namespace", "Namespace", namespace, choices(spaces, namespace)),
        PageFilter("name", "Name", words),
    ]
    if len(chosen) > MOST_SHOWN:
        starts = range(0, len(chosen), MOST_SHOWN)
        pages = tuple((str(one) if one else "", f"{one + 1}-{min(one + MOST_SHOWN, len(chosen))}") for one in starts)
        filters.append(PageFilter("from", "Rows", str(first) if first else "", pages))
    summary = f"{counted(len(mine), 'gang')}, {waiting} of them waiting"
    return PageDocument("Gangs", summary, (section,), tuple(filters), asked.problems())


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < _DIGITS else 0


_DIGITS = 9
_MEMBERS_NOTE = "Members: ● on its node, ✓ succeeded, ✗ failed, ○ without a node, · not made yet."


def _is_in(one: GangView, state: str) -> bool:
    match state:
        case "waiting":
            return bool(one.why)
        case "running":
            return bool(one.bound) and one.degraded is None
        case "degraded":
            return one.degraded is not None
        case _:
            return True


def _gang_row(asked: PageRequest, one: GangView) -> PageRow:
    lacks, now = one.degraded, asked.picture.at
    why = one.why
    if lacks is not None:
        why = f"{degraded_members(lacks, now)}; {lacks.waits_for}; {degraded_end(lacks, now)}"
    queue = one.cluster_queue or one.queue
    words = f"{one.bound} of {one.members} members on {counted(one.nodes, 'node')}"
    words += f", {one.succeeded} succeeded" if one.succeeded else ""
    words += f", {one.failed} failed" if one.failed else ""
    cells: tuple[Cells, ...] = (
        said(one.namespace),
        said(one.name, href=workload_link(one.kind, one.namespace, one.name)),
        said(queue, href=queue_link(one.cluster_queue) if one.cluster_queue else "") if queue else said("-", "quiet"),
        (PageCell(words, dots=member_marks(one)),),
        said(one.required),
        said(one.bound),
        said("Degraded", "bad") if lacks is not None else said(one.phase, _TONES.get(one.phase, "")),
        moment(one.since),
        said(one.gate),
        said(why, "waits" if one.gate or lacks is not None else "quiet"),
    )
    return PageRow(f"{one.kind}/{one.namespace}/{one.name}", cells)


def decisions_page(asked: PageRequest) -> PageDocument:
    """Return what the operator has told of its decisions in the last hour, the latest first."""
    query, viewer = asked.query, asked.viewer
    reason, namespace = query.get("reason", ""), query.get("namespace", "")
    mine = [one for one in asked.picture.events if (viewer.sees(one.namespace) if one.namespace else viewer.queues)]
    chosen = [
        one for one in mine if (not reason or one.reason == reason) and (not namespace or one.namespace == namespace)
    ]
    rows = tuple(_decision_row(one) for one in chosen[:MOST_SHOWN])
    titles = columns("When", "What", "Of", "Why", "Times", numbers=("Times",))
    note = f"The latest {MOST_SHOWN} of {len(chosen)}." if len(chosen) > MOST_SHOWN else ""
    empty = "The operator has told nothing in the last hour, or its events may not be listed."
    section = PageSection("decisions", "table", "Decisions of the last hour", rows, titles, note, empty)
    filters = (
        PageFilter("reason", "What", reason, choices((one.reason for one in mine), reason)),
        PageFilter(
            "namespace", "Namespace", namespace, choices((one.namespace for one in mine if one.namespace), namespace)
        ),
    )
    total = f"{counted(len(mine), 'thing')} told in the last hour"
    return PageDocument("Decisions", total, (section,), filters, asked.problems())


def choices(of: Iterable[str], chosen: str) -> tuple[tuple[str, str], ...]:
    """Return what can be chosen of a filter, what is chosen included; where that is much, the first of it."""
    first = sorted(set(of))
    shown = sorted({*first[:MOST_CHOICES], *([chosen] if chosen else [])})
    more = f" (and {len(first) - MOST_CHOICES} that are not listed)" if len(first) > MOST_CHOICES else ""
    return ("", f"all{more}"), *((one, one) for one in shown)


def _decision_row(one: ToldEvent) -> PageRow:
    href = ""
    if one.kind in _GANGS and one.namespace:
        href = workload_link(one.kind, one.namespace, one.name)
    elif one.kind == "ClusterQueue":
        href = queue_link(one.name)
    name = f"{one.namespace}/{one.name}".lstrip("/")
    return PageRow(
        one.key,
        (
            moment(one.at),
            said(one.reason, "waits" if one.warning else "strong"),
            (PageCell(one.kind, tone="quiet"), PageCell(name, href)),
            said(one.message),
            said(one.times),
        ),
    )
