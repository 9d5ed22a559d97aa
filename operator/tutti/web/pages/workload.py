"""One workload: why it waits, gate by gate, what would help, where its members are, and what has happened to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

import msgspec

from tutti.api.messages import counted, ruled_out_for
from tutti.cli.views.command_line import plain
from tutti.cli.views.degraded import degraded_end, degraded_members
from tutti.cli.views.drawing import WIDE, amount
from tutti.cli.views.explain.command import explanation_of
from tutti.cli.views.explain.drawing import draw_explained
from tutti.cli.views.explain.lookup import explained_by_status, find_workload
from tutti.cli.views.explain.model import ExplainedWorkload, GateOutcome, NodeRoom, QuotaUse, Remedy, RuledOutNodes
from tutti.cli.views.node_map import levels_of, place_of
from tutti.engine.cycle.state import State
from tutti.engine.records.observations import ObjectSeen
from tutti.engine.records.workloads import Workload, WorkloadKey
from tutti.web.documents import (
    Cells,
    PageDocument,
    PageRow,
    PageSection,
    Tone,
    columns,
    facts,
    moment,
    said,
)
from tutti.web.pages.asking import NotShown, PageRequest, amounts, queue_link, use_bar
from tutti.web.told import ToldEvent, about

MOST_MEMBERS = 200
"""So many nodes with members are listed."""
MOST_ENTRIES = 200
"""So much of what has happened is told."""
_KINDS = ("Workload", "PodGroup", "Pod")
_TONES: Mapping[str, Tone] = {
    GateOutcome.PASSED: "good",
    GateOutcome.WAITS: "waits",
    GateOutcome.WOULD_PASS: "quiet",
    GateOutcome.WOULD_WAIT: "waits",
    GateOutcome.UNKNOWN: "quiet",
    GateOutcome.SHORT: "bad",
}
_WORDS: Mapping[str, str] = {
    GateOutcome.PASSED: "passed",
    GateOutcome.WAITS: "waits here",
    GateOutcome.WOULD_PASS: "would pass",
    GateOutcome.WOULD_WAIT: "would wait",
    GateOutcome.UNKNOWN: "not known yet",
    GateOutcome.SHORT: "short",
}


def workload_page(asked: PageRequest) -> PageDocument:
    """Return everything about a workload that is known without trying anything out.

    Raises:
        NotShown: There is none of that name that the viewer may see.
    """
    namespace, name = _named(asked)
    if asked.picture.lacks:
        return _as_told(asked, namespace, name)
    answers = asked.answers
    key = _found(asked, answers.untried, namespace, name)
    found = explanation_of(answers.asked, answers.untried, key, trying=False)
    found = found if asked.viewer.sees_all else _without_others(found)
    workload = answers.untried.workloads[key]
    waits = any(one.verdict in (GateOutcome.WAITS, GateOutcome.WOULD_WAIT) for one in found.steps)
    sections = [
        *_heading(asked, found),
        PageSection("gates", "gates", "On its way", tuple(_gate_rows(found))),
        *([_try_section(asked, found)] if waits and asked.viewer.sees_all else []),
        *([_quota_section(found.quota, asked)] if found.quota else []),
        *([_room_section(found.rooms)] if found.rooms and asked.viewer.nodes else []),
        _members_section(asked, found),
        _timeline_section(asked, workload, found),
        PageSection("text", "text", "As text, to pass on", text=plain(draw_explained(found, asked.picture.at, WIDE))),
    ]
    title = f"{found.kind} {found.namespace}/{found.name}"
    return PageDocument(title, found.summary, tuple(sections), (), asked.problems())


def remedies_document(asked: PageRequest) -> PageDocument:
    """Return what would have a workload placed: everything that is said has been tried on an engine.

    Raises:
        NotShown: There is none of that name, or the viewer may not see everybody whom an answer may name.
        Abandoned: Nobody waits for it any more.
    """
    if not asked.viewer.sees_all or asked.picture.lacks:
        raise NotShown(asked.picture.lacks or "only who may see everything can have it tried out")
    namespace, name = _named(asked)
    # Its own engines, and nothing that was found out earlier: this takes its time, and pages are drawn meanwhile.
    known = None if asked.answers.is_late else asked.answers.asked.known
    anew = replace(asked.answers.asked, known=known, effort=asked.effort)
    state = anew.stock().state
    found = explanation_of(anew, state, _found(asked, state, namespace, name))
    then = [said(one.then, "waits") if one.then else _moves(one) for one in found.remedies]
    follows = any(then)
    rows = tuple(
        PageRow(str(at), (_verdict(one), said(f"if {one.what}"), *([then[at]] if follows else [])))
        for at, one in enumerate(found.remedies)
    )
    titles = columns("Then it would", "What would be done", *(["And then"] if follows else []))
    empty = found.hopeless or "Nothing has to be done: it waits for time, or for others, and they have been asked."
    section = PageSection("remedies", "table", "What was tried", rows, titles, empty=empty)
    helps = sum(not one.then for one in found.remedies)
    return PageDocument("", f"{counted(len(rows), 'change')} tried, of which {helps} would do", (section,))


def _verdict(one: Remedy) -> Cells:
    return said("still wait", "waits") if one.then else said("be placed", "good")


def _moves(one: Remedy) -> Cells:
    told = [f"{two.namespace}/{two.name} from {', '.join(two.source)} to {', '.join(two.to)}" for two in one.moves]
    return said("; ".join(told)) if told else ()


def _named(asked: PageRequest) -> tuple[str, str]:
    """Return namespace and name of what is asked for.

    Raises:
        NotShown: The viewer may not see that namespace.
    """
    namespace, name = asked.names["namespace"], asked.names["name"]
    if not asked.viewer.sees(namespace):
        raise NotShown(f"there is no Workload, pod group or pod {namespace}/{name} that you may see")
    return namespace, name


def _found(asked: PageRequest, state: State, namespace: str, name: str) -> WorkloadKey:
    kind = asked.query.get("kind", "")
    if kind in _KINDS and (kind, namespace, name) in state.workloads:
        return kind, namespace, name
    key = find_workload(state, asked.picture.listed, namespace, name)
    if isinstance(key, str):
        if not asked.viewer.sees_all:  # near names may be others'
            key = f"there is no Workload, pod group or pod {namespace}/{name} that Tutti places"
        raise NotShown(key)
    return key


def _as_told(asked: PageRequest, namespace: str, name: str) -> PageDocument:
    """Return what the operator has written of a workload, where nothing can be worked out."""
    found = explained_by_status(asked.picture.listed, namespace, name)
    if found is None:
        raise NotShown(f"there is no Workload, PodGroup or pod {namespace}/{name} that you may see")
    found = msgspec.structs.replace(found, limits=asked.picture.lacks)
    sections = (
        *_heading(asked, found),
        PageSection("gates", "gates", "On its way", tuple(_gate_rows(found))),
        PageSection("text", "text", "As text, to pass on", text=plain(draw_explained(found, asked.picture.at, WIDE))),
    )
    problem = f"This is what the operator has said: {asked.picture.lacks}"
    return PageDocument(f"{found.kind} {namespace}/{name}", found.summary, sections, (), (problem,))


def _without_others(found: ExplainedWorkload) -> ExplainedWorkload:
    """Leave out what names others, for somebody who may not see them."""
    quota = tuple(msgspec.structs.replace(one, borrowers={}) for one in found.quota)
    return msgspec.structs.replace(found, quota=quota, remedies=(), rooms=(), autoscaler=())


def _heading(asked: PageRequest, found: ExplainedWorkload) -> Iterator[PageSection]:
    lacks, told = found.degraded, found.told
    line = f"{found.position} of {found.line}" if found.position is not None and found.line else found.position
    start = "" if told is None else told.estimated_start
    queue = said(found.cluster_queue, href=queue_link(found.cluster_queue)) if found.cluster_queue else ()
    pairs: list[tuple[str, Cells]] = [
        ("State", said(found.phase, "bad" if lacks is not None else "strong")),
        ("Queue", (*queue, *(said(f"through {found.queue}", "quiet") if found.queue and queue else ()))),
        ("Cohort", said(found.cohort)),
        ("Place in line", said(line) if line is not None else ()),
        ("Priority", said(found.priority) if found.priority is not None else ()),
        ("Members", said(f"{found.bound} of {found.members} have a node, {found.required} required")),
        ("Since", moment(found.since)),
        ("Starts", moment(_seconds(start))),
    ]
    if lacks is not None:
        now = asked.picture.at
        pairs.append(("Degraded", said(f"{degraded_members(lacks, now)}; {degraded_end(lacks, now)}", "bad")))
        pairs += [("Waits for", said(lacks.waits_for, "waits"))]
    pairs += [("Note", said(one, "waits")) for one in (*found.notes, *found.autoscaler) if one]
    if found.leaves_now:
        pairs.append(("Leaves", said(found.leaves_now, "bad")))
    yield facts("about", "What it is", pairs)


def _gate_rows(found: ExplainedWorkload) -> Iterator[PageRow]:
    for one in found.steps:
        tone = _TONES[one.verdict]
        cells = said(one.gate, "strong"), said(_WORDS[one.verdict], tone), said(one.message)
        yield PageRow(one.gate, cells, mark=one.verdict.value)


def _try_section(asked: PageRequest, found: ExplainedWorkload) -> PageSection:
    query = urlencode({"namespace": found.namespace, "name": found.name, "kind": found.kind})
    del asked
    note = "Each change is tried on a copy of the cluster in memory; nothing is written."
    return PageSection("try", "try", "What would unblock it", note=note, href=f"/try?{query}")


def _quota_section(quota: Sequence[QuotaUse], asked: PageRequest) -> PageSection:
    rows = []
    for one in quota:
        short = f"{amount(one.resource, one.missing)} missing" if one.missing else "enough"
        beyond = max(0, one.used - one.own)
        words = f"{amount(one.resource, one.used)} of its own {amount(one.resource, one.own)} used"
        parts = [("own", min(one.used, one.own)), ("borrowed", beyond), ("lent", one.lent)]
        whole = max(one.own, one.used, min(one.most, 4 * max(one.own, one.used, 1)))
        borrowers = ", ".join(f"{who} {amount(one.resource, units)}" for who, units in one.borrowers.items())
        cells = (
            said(one.flavor),
            said(one.resource),
            said(amount(one.resource, one.needs)),
            said(amount(one.resource, one.free)),
            said(short, "waits" if one.missing else "good"),
            use_bar(parts, whole, words, one.own),
            said(borrowers if asked.viewer.queues else ""),
        )
        rows.append(PageRow(f"{one.flavor}/{one.resource}", cells))
    titles = columns("Flavor", "Resource", "Needs", "Free", "So", "Queue uses", "Lent to", numbers=("Needs", "Free"))
    return PageSection("quota", "table", "Quota", tuple(rows), titles)


def _room_section(rooms: Sequence[NodeRoom]) -> PageSection:
    rows = []
    for one in rooms:
        near = ""
        if one.domains:
            near = f"of one {one.level}: " + ", ".join(
                f"{name} has room for {pods}" for name, pods in one.domains.items()
            )
        ruled = "; ".join(
            f"{counted(two.nodes, 'node')}: {ruled_out_for(two.nodes, two.reason)} ({_examples(two)})"
            for two in one.ruled
        )
        cells = (
            said(one.group),
            said(f"{counted(one.pods, 'pod')} of {amounts(one.asks)}"),
            said(one.flavor),
            said(one.fits, "good" if one.fits >= one.pods else "waits"),
            said(f"{one.open} of {one.nodes}"),
            said("; ".join(part for part in (near, ruled) if part)),
        )
        rows.append(PageRow(f"{one.group}/{one.flavor}", cells))
    titles = columns("Group", "Asks for", "Flavor", "Fit now", "Nodes with room", "The others", numbers=("Fit now",))
    return PageSection("rooms", "table", "Nodes", tuple(rows), titles)


def _examples(of: RuledOutNodes) -> str:
    return ", ".join((*of.examples, *(["..."] if of.nodes > len(of.examples) else [])))


def _members_section(asked: PageRequest, found: ExplainedWorkload) -> PageSection:
    state = asked.answers.untried
    levels = levels_of(state)
    rows = []
    for lost, placed in ((False, found.placed), (True, found.lost)):
        there = sorted((place_of(state, node, levels), node) for node in placed)
        for domains, node in there[:MOST_MEMBERS]:
            pods, place = placed[node], said(" / ".join(domains)) if asked.viewer.nodes else ()
            what = said(counted(pods, "member"), "bad" if lost else "")
            rows.append(PageRow(f"{lost}/{node}", (place, said(node), (*what, *(said("lost", "bad") if lost else ())))))
    nodes = len(found.placed)
    note = f"on {counted(nodes, 'node')}" if nodes else ""
    if nodes > MOST_MEMBERS:
        note += f"; the first {MOST_MEMBERS} are shown"
    titles = columns("Rack" if levels else "Place", "Node", "Members")
    return PageSection("members", "table", "Members by node", tuple(rows), titles, note, "No member has a node yet.")


def _timeline_section(asked: PageRequest, workload: Workload, found: ExplainedWorkload) -> PageSection:
    """Return what has happened to it: when it was created, what its conditions say, and what was told of it."""
    pods = {member.pod.name for member in workload.members()}
    names = frozenset({found.name, *pods})
    entries: dict[tuple[float, str], tuple[str, str, Tone]] = {}
    if workload.created:
        entries[workload.created, ""] = "Created", "", ""
    for at, what, why, tone in _conditions(asked, found):
        entries[at, what] = what, why, tone
    for event in _merged(about(asked.picture.events, found.namespace, names)):
        times = f" ({event.times} times)" if event.times > 1 else ""
        who = "" if event.name == found.name else f"{event.kind} {event.name}: "
        entries[event.at, event.key] = event.reason, f"{who}{event.message}{times}", "waits" if event.warning else ""
    rows = [
        PageRow(f"{at:.3f}/{key}", (moment(at), said(what, tone), said(why)))
        for (at, key), (what, why, tone) in sorted(entries.items(), reverse=True)[:MOST_ENTRIES]
    ]
    titles = columns("When", "What", "Why")
    note = "Conditions, and what the operator has told in the last hour."
    if len(entries) > MOST_ENTRIES:
        note += f" The latest {MOST_ENTRIES} of {len(entries)}."
    return PageSection("timeline", "table", "What has happened", tuple(rows), titles, note, "Nothing is known.")


def _merged(events: Iterable[ToldEvent]) -> Iterator[ToldEvent]:
    """Yield events, one for those that say the same of several members."""
    known: dict[tuple[str, str], ToldEvent] = {}
    for one in events:
        same = one.reason, one.message
        before = known.get(same)
        known[same] = one if before is None else msgspec.structs.replace(before, times=before.times + one.times)
    yield from known.values()


def _conditions(asked: PageRequest, found: ExplainedWorkload) -> Iterator[tuple[float, str, str, Tone]]:
    """Yield when each condition of its object came to be as it is."""
    seen = (one for one in asked.picture.listed.seen if isinstance(one, ObjectSeen))
    raw = next((one.raw for one in seen if _is(one, found)), None)
    status: Any = {} if raw is None else raw.get("status") or {}
    for one in status.get("conditions") or [] if isinstance(status, dict) else []:
        if not isinstance(one, dict):
            continue
        at = _seconds(str(one.get("lastTransitionTime", "")))
        if at is not None:
            so = one.get("status") == "True"
            kind, reason, text = (str(one.get(part, "")) for part in ("type", "reason", "message"))
            told = f"{reason}: {text}" if text and reason else reason or text
            yield at, kind if so else f"not {kind}", told, ""


def _is(one: ObjectSeen, found: ExplainedWorkload) -> bool:
    if one.kind != found.kind:
        return False
    meta = one.raw.get("metadata") or {}
    return (meta.get("namespace"), meta.get("name")) == (found.namespace, found.name)


def _seconds(text: str) -> float | None:
    """Return the moment that an RFC 3339 text says, in Unix seconds; None where it says none."""
    try:
        return datetime.fromisoformat(text).timestamp() if text else None
    except ValueError:
        return None
