"""In which of several clusters a workload would start first: each is asked for itself, and nothing is written to any.

An engine for each cluster is told what was listed there, and beside it the workload, as if it were submitted now; it
decides as the operator there would. So those who wait there already go before it as they would, and so do fair shares.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec
from rich.console import Group, RenderableType
from rich.text import Text

from tutti.api.conditions import timestamp
from tutti.api.frameworks import KindTable
from tutti.api.frameworks.table import ignored_keys
from tutti.api.messages import counted
from tutti.cli.views.drawing import BAD, GOOD, QUIET, WAITS, PageWidth, ago, first_few, table
from tutti.cli.views.explain.lookup import find_workload
from tutti.cli.views.explain.wanted import Wanted, wanted_elsewhere, wanted_in_file
from tutti.cli.views.what_if import ObservedCluster, waits_for
from tutti.engine.cycle.state import State
from tutti.engine.queue.behind_heads import HOPELESS
from tutti.engine.records.explanation import AFTER_OTHERS, BEHIND_HEAD, Explanation, Gate
from tutti.engine.records.observations import NamespaceSeen
from tutti.engine.records.workloads import ADMITTED, Phase, Workload
from tutti.engine.status.start_estimates import estimated_starts

_MOST_HEADS = 64
"""For how many of those who wait in its queue it is worked out when they start."""
_PASSING = ("OnHold", "OwnerNotSeen", "Deactivated", BEHIND_HEAD, *AFTER_OTHERS)
"""Reasons at the gates before quota that may end without anybody correcting anything."""


class StartOutcome(enum.StrEnum):
    """How a workload would fare in a cluster, the best first."""

    RUNS = "Runs"
    NOW = "Now"
    PREEMPTS = "Preempts"
    LATER = "Later"
    WAITS = "Waits"
    NEVER = "Never"
    UNKNOWN = "Unknown"


_RANKS = {outcome: rank for rank, outcome in enumerate(StartOutcome)}
_COLOURS = {
    StartOutcome.RUNS: GOOD,
    StartOutcome.NOW: GOOD,
    StartOutcome.NEVER: BAD,
    StartOutcome.UNKNOWN: BAD,
}


class ClusterStart(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How a workload would fare in one cluster.

    Attributes:
        context: The context of the kubeconfig by which the cluster was asked.
        starts_at: Where it is known when it would start, Unix seconds; None where it is not.
        gate: What it would wait at, with `reason` and `message`; "" where it would not.
        position: Its place in the ClusterQueue, of `line` who wait there; None for none.
        nodes: How many of its pods would go to each node, where it would start at once.
    """

    context: str
    outcome: StartOutcome
    starts_at: float | None = None
    gate: str = ""
    reason: str = ""
    message: str = ""
    cluster_queue: str = ""
    position: int | None = None
    line: int = 0
    nodes: Mapping[str, int] = {}


class ComparedClusters(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Where a workload would start first.

    Attributes:
        first: The context of that cluster; "" where it would start in none, as far as anybody knows.
        clusters: All that were asked, the one where it would start first before the others.
        notes: What the answer leaves out.
    """

    namespace: str
    name: str
    first: str
    summary: str
    clusters: tuple[ClusterStart, ...]
    notes: tuple[str, ...] = ()


class UnfindableError(ValueError):
    """No cluster that could be asked has the workload."""


Answers = Sequence[tuple[str, ObservedCluster | str]]
"""What each context has led to: a cluster, or why not."""


def compare_clusters(answers: Answers, namespace: str | None, name: str, manifest: str | None) -> ComparedClusters:
    """Return in which cluster a workload would start first.

    Args:
        answers: The clusters.
        namespace: That of the workload; None: that of the first context that answers.
        name: Its name; "" where the manifest has only one.
        manifest: What would be submitted; None: what the first cluster has that has anything of this name.

    Raises:
        WantedError: The manifest does not say what is asked about.
        UnfindableError: No cluster has the workload, or none answers.
    """
    asked = [(context, one) for context, one in answers if isinstance(one, ObservedCluster)]
    if not asked:
        raise UnfindableError("; ".join(f"{context}: {one}" for context, one in answers))
    first = asked[0][1]
    space = namespace or first.listed.namespace
    if manifest is not None:
        settings = first.configuration
        kinds = KindTable(settings.frameworks, ignored_keys(settings.conventions))
        wanted: Wanted | None = wanted_in_file(manifest, name, space, kinds, max(one.at for _, one in asked))
    else:
        found = (wanted_elsewhere(one, one.stock().state, space, name) for _, one in asked)
        wanted = next((one for one in found if one is not None), None)
    if wanted is None:
        where = ", ".join(context for context, _ in asked)
        raise UnfindableError(f"there is no Workload, pod group or pod {space}/{name} that Tutti places in {where}")
    starts = [
        ClusterStart(context=context, outcome=StartOutcome.UNKNOWN, message=one)
        if isinstance(one, str)
        else start_in(context, one, wanted, submitted=manifest is None)
        for context, one in answers
    ]
    ranked = sorted(starts, key=_rank)
    best = ranked[0]
    starts_somewhere = _RANKS[best.outcome] <= _RANKS[StartOutcome.LATER]
    return ComparedClusters(
        namespace=wanted.namespace,
        name=wanted.name,
        first=best.context if starts_somewhere else "",
        summary=_summary(ranked, max(one.at for _, one in asked)),
        clusters=tuple(ranked),
        notes=wanted.notes,
    )


def start_in(context: str, asked: ObservedCluster, wanted: Wanted, *, submitted: bool) -> ClusterStart:
    """Return how a workload would fare in one cluster.

    Args:
        context: What the cluster is called.
        asked: The cluster.
        wanted: The workload.
        submitted: Whether what the cluster has of that name itself counts, where it has anything.
    """
    there = [one.namespace.metadata.name for one in asked.listed.seen if isinstance(one, NamespaceSeen)]
    if there and wanted.namespace not in there:
        text = f"there is no namespace {wanted.namespace}"
        return ClusterStart(
            context=context, outcome=StartOutcome.NEVER, gate=Gate.QUEUE, reason="NamespaceNotFound", message=text
        )
    asked = asked.around("Namespace", wanted.namespace)
    seen = asked.listed.seen
    engine = asked.stock()
    if not (submitted and not isinstance(_key(engine.state, asked, wanted), str)):
        seen = [*seen, *wanted.seen]
        engine = asked.stock(seen)
    key = _key(engine.state, asked, wanted)
    if isinstance(key, str):
        return ClusterStart(context=context, outcome=StartOutcome.UNKNOWN, message=key)
    ran = engine.state.workloads[key].phase in ADMITTED
    engine.decide(asked.at)
    state = engine.state
    workload = state.workloads[key]
    why = waits_for(workload)
    queue = state.catalog.queues.get(workload.cluster_queue or state.leads_to(key[1], workload.queue))
    at = None if queue is None else estimated_starts(state, queue, _MOST_HEADS).get(key)
    outcome = _outcome(workload, why, at, ran=ran)
    starts = outcome in (StartOutcome.RUNS, StartOutcome.NOW)
    return ClusterStart(
        context=context,
        outcome=outcome,
        starts_at=at if outcome is StartOutcome.LATER else None,
        gate="" if why is None or starts else why.gate.value,
        reason="" if why is None or starts else why.reason,
        message="" if why is None or starts else why.plain,
        cluster_queue="" if queue is None else queue.name,
        position=None if starts else state.queue_positions.of(workload),
        line=state.counts.of(queue.name).pending if queue is not None else 0,
        nodes=_nodes(workload) if starts else {},
    )


def _key(state: State, asked: ObservedCluster, wanted: Wanted) -> tuple[str, str, str] | str:
    return find_workload(state, asked.listed, wanted.namespace, wanted.name)


def _outcome(workload: Workload, why: Explanation | None, at: float | None, *, ran: bool) -> StartOutcome:
    if ran:
        return StartOutcome.RUNS
    if workload.phase is Phase.FINISHED or workload.phase in ADMITTED:
        return StartOutcome.RUNS if workload.phase is Phase.FINISHED else StartOutcome.NOW
    if why is None or why.gate is Gate.PERMIT:
        return StartOutcome.WAITS
    if why.gate is Gate.VICTIMS:
        return StartOutcome.PREEMPTS
    if at is not None:
        return StartOutcome.LATER
    is_wrong = why.gate in (Gate.GATHER, Gate.QUEUE) and why.reason not in _PASSING
    return StartOutcome.NEVER if is_wrong or why.reason in HOPELESS else StartOutcome.WAITS


def _nodes(workload: Workload) -> dict[str, int]:
    """Return how many pods of a workload have, or would get, each node."""
    places = [member.pod.place for member in workload.members() if member.pod.place and not member.over]
    places += [hold.node for group in workload.groups.values() for hold in group.holds]
    return dict(sorted(Counter(places).items()))


def _rank(one: ClusterStart) -> tuple[float, ...]:
    return _RANKS[one.outcome], one.starts_at or 0.0, one.position or 0


def _summary(ranked: Sequence[ClusterStart], now: float) -> str:
    best = ranked[0]
    equal = [one.context for one in ranked if _rank(one) == _rank(best)]
    where = f"in {' and in '.join(equal)}" if len(equal) > 1 else f"in {best.context}"
    match best.outcome:
        case StartOutcome.RUNS:
            return f"it runs {where}"
        case StartOutcome.NOW:
            return f"it would start at once {where}"
        case StartOutcome.PREEMPTS:
            return f"it would start first {where}, when others have left for it"
        case StartOutcome.LATER:
            assert best.starts_at is not None  # or it would not be known to be later
            return f"it would start first in {best.context}, in {ago(best.starts_at - now)}"
        case StartOutcome.WAITS:
            return "it would wait everywhere, and nobody knows until when"
        case StartOutcome.NEVER:
            return "it would start nowhere as things are"
        case StartOutcome.UNKNOWN:
            return "nobody can tell"


def draw_compared(found: ComparedClusters, now: float, page: PageWidth) -> RenderableType:
    """Draw it: the sentence first, then a line for each cluster."""
    rows = table("CONTEXT", "STARTS", "QUEUE", "WHY", wraps=("WHY",), page=page)
    for one in found.clusters:
        rows.add_row(
            Text(one.context), Text(_starts(one, now), _COLOURS.get(one.outcome, WAITS)), one.cluster_queue, _why(one)
        )
    notes = [Text(f"not in this answer: {note}", QUIET) for note in found.notes]
    head = Text.assemble((f"{found.namespace}/{found.name}", "bold"), f": {found.summary}")
    return Group(head, Text(), rows, *([Text(), *notes] if notes else []))


def _starts(one: ClusterStart, now: float) -> str:
    if one.starts_at is not None:
        return f"in {ago(one.starts_at - now)}, at {timestamp(one.starts_at)}"
    said = {
        StartOutcome.RUNS: "runs",
        StartOutcome.NOW: "now",
        StartOutcome.PREEMPTS: "when others left",
        StartOutcome.NEVER: "never",
    }
    return said.get(one.outcome, "unknown")


def _why(one: ClusterStart) -> str:
    if one.nodes:
        return f"{counted(sum(one.nodes.values()), 'pod')} on {first_few(list(one.nodes))}"
    place = f" ({one.position} of {one.line} in line)" if one.position is not None else ""
    return f"{f'{one.reason}: ' if one.reason else ''}{one.message}{place}"
