"""What would unblock a workload, by the gate that it waits at; everything that is told has been tried."""

from __future__ import annotations

from collections.abc import Iterable

from tutti.cli.views.explain import having_nodes, leaving, mending
from tutti.cli.views.explain.model import Remedy
from tutti.cli.views.explain.trials import Case, Idea, helping, tried
from tutti.engine.records.explanation import LACKS_NODE, Explanation, Gate
from tutti.engine.records.workloads import Workload

_GOOD = 2
_MOST = 6


def remedies(case: Case) -> tuple[Remedy, ...]:
    """Return what would have the workload placed, or, where nothing is known to, how far the first steps would lead."""
    match case.why.gate:
        case Gate.GATHER:
            return _first_steps(case, mending.members(case))
        case Gate.QUEUE:
            return _first_steps(case, mending.queues(case))
        case Gate.QUOTA if case.why.reason == "ResourceNotCovered":
            return _first_steps(case, mending.covered(case))
        case Gate.QUOTA:
            found = [
                *leaving.by_leaving(case, *leaving.of_quota(case)),
                *helping(case, mending.reclaiming(case), good=1, most=1),
                *helping(case, mending.more_quota(case), good=_GOOD, most=_MOST),
            ]
            return tuple(found) or _first_steps(case, mending.more_quota(case))
        case Gate.PLACEMENT:
            return tuple(_about_nodes(case))
        case Gate.VICTIMS | Gate.PERMIT:
            return ()


def hopeless(workload: Workload, why: Explanation) -> str:
    """Return what is said where there is no remedy; "" where none is needed, since time or others will tell."""
    tried = "no cordon or taint taken off, no flavor's label, nobody's end, and no more nodes, larger ones included"
    match why.gate:
        case Gate.VICTIMS | Gate.PERMIT:
            return ""
        case Gate.GATHER if not any(group.members for group in workload.groups.values()):
            return (
                "Its pods have to be created: none of them is there that names it and has Tutti's schedulerName. Where "
                "what makes them is there, its events say what keeps it from that, such as a full ResourceQuota: "
                f"kubectl get events -n {workload.key[1]} --field-selector reason=FailedCreate"
            )
        case Gate.PLACEMENT if why.reason in LACKS_NODE:
            first = "" if why.reason == "Impossible" else ", or who goes before it has to have left"
            return f"Nothing that was tried would help: {tried}. What the line with ✗ says has to be changed{first}."
        case _:
            return "Nothing could be tried that is known to help. What the line with ✗ says has to be changed."


def _about_nodes(case: Case) -> Iterable[Remedy]:
    yield from helping(case, having_nodes.uncordoned(case), good=_GOOD, most=_MOST)
    yield from helping(case, having_nodes.untainted(case), good=_GOOD, most=_MOST)
    yield from helping(case, having_nodes.labelled(case), good=1, most=_MOST)
    yield from leaving.by_leaving(case, *leaving.of_nodes(case))
    yield from helping(case, having_nodes.more(case), good=1, most=_MOST)
    yield from _first_steps(case, mending.smaller(case))


def _first_steps(case: Case, ideas: Iterable[Idea]) -> tuple[Remedy, ...]:
    """Try a few things that have to be done anyway, and tell of each what would come then."""
    return tuple(tried(case, idea) for idea in list(ideas)[:_MOST])
