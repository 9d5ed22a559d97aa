"""The tree of cohorts and queues with what each uses, and the line of one queue."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tutti.api.kinds import LocalQueue
from tutti.api.messages import counted
from tutti.cli.views.degraded import degraded_end, degraded_members
from tutti.cli.views.drawing import amount
from tutti.cli.views.queues import QueueDetails, WorkloadInQueue, queue_details
from tutti.cli.views.quota_tree import Branch, FlavorUse, accelerators
from tutti.cli.views.what_if import FITS
from tutti.web.documents import Cells, PageCell, PageDocument, PageFilter, PageRow, PageSection, columns, moment, said
from tutti.web.pages.asking import NotShown, PageRequest, amounts, number_cell, queue_link, use_bar, workload_link

ALL = "all"
MOST_ROWS = 200
"""So many who run are listed by name."""
_RESOURCES = "resources"
_BAR_NOTE = (
    "A bar is as long as what a queue could have at most; the line in it is where its own quota ends. "
    "Plain: used of its own; stripes that rise: borrowed; stripes that fall: lent to others."
)


def queues_page(asked: PageRequest) -> PageDocument:
    """Return all cohorts and queues, or, for who may not see these, the queues of his namespaces."""
    viewer, chosen = asked.viewer, asked.query.get(_RESOURCES, "")
    own = list(_local_queue_rows(asked))
    if viewer.queues:
        roots = list(asked.answers.roots)
        waiting, running = sum(one.waiting for one in roots), sum(one.running for one in roots)
        sections = [_cluster_queues(roots, chosen)]
    else:
        waiting, running = sum(one[1] for one in own), sum(one[2] for one in own)
        sections = []
    if not viewer.queues or viewer.namespaces is not None:
        sections.append(_local_queues(one[0] for one in own))
    choices = (("", "devices"), (ALL, "all resources"))
    return PageDocument(
        "Queues",
        f"{counted(waiting, 'workload')} waiting, {running} running",
        tuple(sections),
        (PageFilter(_RESOURCES, "Resources", chosen if chosen == ALL else "", choices),) if viewer.queues else (),
        asked.problems(),
    )


def _cluster_queues(roots: list[Branch], chosen: str) -> PageSection:
    """Return all cohorts and ClusterQueues, with the resources that were asked for."""
    resources = _chosen(roots, chosen)
    numbers = ("Used", "Own", "Most", "Waiting", "Running")
    return PageSection(
        "queues",
        "table",
        "Cohorts and queues",
        tuple(row for root in roots for row in _branch_rows(root, resources, 0)),
        columns("Cohort or queue", "Resource", "Use", *numbers, "Notes", numbers=numbers),
        note=_BAR_NOTE,
        empty="There are no ClusterQueues.",
    )


def _local_queues(rows: Iterable[PageRow]) -> PageSection:
    """Return the queues of the namespaces that somebody may look into."""
    return PageSection(
        "local",
        "table",
        "Queues of your namespaces",
        tuple(rows),
        columns("Namespace", "Queue", "ClusterQueue", "Waiting", "Running", "Uses", numbers=("Waiting", "Running")),
        empty="No namespace that you may look into has a LocalQueue.",
    )


def _chosen(roots: list[Branch], chosen: str) -> set[str]:
    """Return which resources are shown: devices, where there are any and no others are asked for."""
    known = {use.resource for root in roots for use in root.uses}
    return known if chosen == ALL else set(accelerators(roots)) or known


def _branch_rows(branch: Branch, resources: set[str], depth: int) -> Iterator[PageRow]:
    """Yield a row for each resource of a branch, then those of what is in it."""
    shown = [use for use in branch.uses if use.resource in resources]
    is_queue = branch.kind == "ClusterQueue"
    name = said(branch.name, "" if is_queue else "strong", queue_link(branch.name) if is_queue else "")
    again = said(branch.name, "again")  # drawn where each row is a card of its own
    notes = tuple(
        cell
        for text in (*branch.notes, *([branch.windows] if branch.windows else []))
        for cell in said(text, "bad" if text.startswith(("inactive", "on hold")) else "quiet")
    )
    ends = (number_cell(branch.waiting, "waits"), number_cell(branch.running, "good"), notes)
    key = f"{branch.kind}/{branch.name}"
    if not shown:
        yield PageRow(key, (name, *([()] * 5), *ends), depth)
    for at, use in enumerate(shown):
        first = at == 0
        yield PageRow(
            f"{key}/{use.resource}/{use.flavor}",
            (name if first else again, *_figures(use), *(ends if first else ((), (), ()))),
            depth,
        )
    for child in branch.children:
        yield from _branch_rows(child, resources, depth + 1)


def _figures(use: FlavorUse) -> tuple[Cells, ...]:
    own, beyond = min(use.used, use.own), max(0, use.used - use.own)
    whole = max(use.own, use.used) if use.most is None else max(use.most, use.used)
    words = f"{amount(use.resource, use.used)} of its own {amount(use.resource, use.own)} used"
    if beyond:
        words = f"all of its own {amount(use.resource, use.own)} used, and {amount(use.resource, beyond)} borrowed"
    if use.lent:
        words += f"; {amount(use.resource, use.lent)} lent to others"
    parts = [("own", own), ("borrowed", beyond), ("lent", use.lent)]
    return (
        (PageCell(use.resource), PageCell(use.flavor, tone="quiet")),
        use_bar(parts, whole, words, use.own),
        *(said(amount(use.resource, one)) for one in (use.used, use.own, use.most)),
    )


def _local_queue_rows(asked: PageRequest) -> Iterator[tuple[PageRow, int, int]]:
    """Yield the LocalQueues that the viewer may see, with how many wait and run there."""
    state = asked.answers.lines
    for found in sorted(state.catalog.each(LocalQueue), key=lambda one: (one.metadata.namespace, one.metadata.name)):
        namespace, name = found.metadata.namespace, found.metadata.name
        if not asked.viewer.sees(namespace):
            continue
        held = state.counts.of(f"{namespace}/{name}")
        used: dict[str, int] = {}
        for (_, resource), units in held.reserved.items():
            used[resource] = used.get(resource, 0) + units
        leads = found.spec.cluster_queue
        cells = (
            said(namespace),
            said(name),
            said(leads, href=queue_link(leads)),
            number_cell(held.pending, "waits"),
            number_cell(held.admitted, "good"),
            said(amounts(used)),
        )
        yield PageRow(f"{namespace}/{name}", cells), held.pending, held.admitted


def queue_page(asked: PageRequest) -> PageDocument:
    """Return one queue: what it has, who runs, and who waits in which order.

    Raises:
        NotShown: There is none of that name that the viewer may see.
    """
    name, viewer, answers = asked.names["name"], asked.viewer, asked.answers
    state = answers.lines
    mine = {one.metadata.namespace for one in state.catalog.each(LocalQueue) if one.spec.cluster_queue == name}
    found = None
    if viewer.queues or any(map(viewer.sees, mine)):
        lately = {"why": answers.why, "starts": answers.starts(name)} if answers.is_late else {}
        found = queue_details(state, name, **lately)  # type: ignore[arg-type]
    if found is None:
        there = ", ".join(sorted(state.ledger.tree.queues)) if viewer.queues else ""
        raise NotShown(f"there is no ClusterQueue {name}{f'; there are: {there}' if there else ' that you may see'}")
    resources = _chosen([found.queue], asked.query.get(_RESOURCES, ""))
    sections = [_quota_section(found, resources)] if viewer.queues else []
    sections.append(_line_section(asked, found))
    if found.checking:
        sections.append(_holding_section(asked, "checking", "Hold quota, and have no nodes yet", found.checking))
    sections.append(_holding_section(asked, "running", "Running", found.running))
    total = len(found.waiting) + found.beyond
    return PageDocument(
        f"Queue {name}",
        f"{counted(total, 'workload')} waiting, {len(found.running)} running in {name}",
        tuple(sections),
        (
            PageFilter(
                _RESOURCES, "Resources", asked.query.get(_RESOURCES, ""), (("", "devices"), (ALL, "all resources"))
            ),
        ),
        asked.problems(),
    )


def _quota_section(found: QueueDetails, resources: set[str]) -> PageSection:
    rows = tuple(PageRow(row.key, row.cells[1:6]) for row in _branch_rows(found.queue, resources, 0))
    titles = columns("Resource", "Use", "Used", "Own", "Most", numbers=("Used", "Own", "Most"))
    notes = "; ".join((*found.queue.notes, *([found.queue.windows] if found.queue.windows else [])))
    return PageSection("quota", "table", "Quota", rows, titles, note=notes)


def _line_section(asked: PageRequest, found: QueueDetails) -> PageSection:
    rows = []
    for one in found.waiting:
        if not asked.viewer.sees(one.namespace):
            cells: tuple[Cells, ...] = (said(one.position), said("of a namespace that you may not see", "quiet"),
                                        *([()] * 6))  # fmt: skip
            rows.append(PageRow(f"place {one.position}", cells))
            continue
        needs = f"{counted(one.pods, 'pod')}: {amounts(one.needs)}" if one.pods else "not known yet"
        rows.append(
            PageRow(
                f"{one.kind}/{one.namespace}/{one.name}",
                (
                    said(one.position),
                    _name(one),
                    said(one.priority),
                    said(needs, "" if one.pods else "quiet"),
                    said(one.gate),
                    said(one.why or FITS, "waits"),
                    moment(one.starts_at) or said("nobody knows", "quiet"),
                    moment(one.queued_at),
                ),
            )
        )
    titles = columns("Place", "Workload", "Priority", "Needs", "At", "Why it waits", "Starts", "Waits since",
                     numbers=("Place", "Priority"))  # fmt: skip
    more = f"... and {found.beyond} more" if found.beyond else ""
    return PageSection("waiting", "table", "The line", tuple(rows), titles, note=more, empty="Nobody waits here.")


def _holding_section(asked: PageRequest, id_: str, title: str, those: Iterable[WorkloadInQueue]) -> PageSection:
    rows: list[PageRow] = []
    hidden = beyond = 0
    for one in those:
        if not asked.viewer.sees(one.namespace):
            hidden += 1
            continue
        lacks = one.degraded
        short = () if lacks is None else said(
            f"degraded: {degraded_members(lacks, asked.picture.at)}, {degraded_end(lacks, asked.picture.at)}", "bad"
        )  # fmt: skip
        uses: dict[str, int] = {}
        for part in one.holds:
            uses[part.resource] = uses.get(part.resource, 0) + part.used
        flavors = ", ".join(dict.fromkeys(part.flavor for part in one.holds))
        if len(rows) == MOST_ROWS:
            beyond += 1
            continue
        cells = (_name(one), said(one.priority), said(amounts(uses)), said(flavors), (*said(one.why, "waits"), *short))
        rows.append(PageRow(f"{one.kind}/{one.namespace}/{one.name}", cells))
    said_beside = [f"and {counted(hidden, 'workload')} of namespaces that you may not see"] if hidden else []
    said_beside += [f"... and {beyond} more"] if beyond else []
    note = "; ".join(said_beside)
    titles = columns("Workload", "Priority", "Uses", "Flavors", "Notes", numbers=("Priority",))
    return PageSection(id_, "table", title, tuple(rows), titles, note=note, empty="Nobody.")


def _name(one: WorkloadInQueue) -> Cells:
    return said(f"{one.namespace}/{one.name}", href=workload_link(one.kind, one.namespace, one.name))
