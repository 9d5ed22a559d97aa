"""Why a class of pods does not fit, in kube-scheduler's own format, which autoscalers read.

Format: kube-scheduler 1.36, framework/types.go (FitError): `0/N nodes are available: ` and the reasons with their
counts, sorted as strings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tutti.api.resources import format_amount
from tutti.cluster.nodes import NodeColumns
from tutti.cluster.transaction import Transaction
from tutti.placement.gang import Ask, place, prospect
from tutti.placement.judging import assess
from tutti.placement.plugins import flavor_labels
from tutti.placement.profile import Profile
from tutti.placement.topology.near import Nearby
from tutti.placement.topology.obstacles import apart, obstacle

NO_NODES = "no nodes available to schedule pods"


@dataclass(frozen=True, slots=True)
class Misfit:
    """Why an ask could not be placed.

    Attributes:
        message: In kube-scheduler's format.
        fits: How many of the pods would fit now.
        wanted: How many must.
        never: What no node could ever give even if it were empty, in words, or "".
        details: Numbers for machines: reason -> nodes.
    """

    message: str
    fits: int
    wanted: int
    never: str = ""
    details: dict[str, str] = field(default_factory=dict)


def explain(nodes: NodeColumns, ask: Ask, profile: Profile) -> Misfit:
    """Say why the required pods of an ask do not fit on the nodes as they are now."""
    if ask.klass.problem:
        return Misfit(ask.klass.problem, 0, ask.required, never=ask.klass.problem)
    if nodes.count == 0:
        return Misfit(NO_NODES, 0, ask.required)
    if ask.klass.volumes.problem:
        return Misfit(refused(nodes.count, ask.klass.volumes.problem), 0, ask.required)
    why = None if ask.near is None else _apart(nodes, ask, profile)
    if why is not None:
        return why
    with Transaction(nodes) as trial:
        placed = place(nodes, trial, Ask(ask.klass, 0, ask.required, ask.where), profile)
        taken = placed.tolist() if placed is not None else []
    reasons, fits = assess(ask.klass, nodes, ask.where, profile).reasons, len(taken)
    if ask.near is not None and fits >= ask.required:
        return not_together(nodes, [ask])
    if fits:
        reasons[f"node(s) with room for only {fits} of {ask.required} pods of the gang"] = len(set(taken))
    return Misfit(
        message=_sentences(message(nodes.count, reasons), _of_flavor(nodes, ask, reasons)),
        fits=fits,
        wanted=ask.required,
        never=_never(nodes, ask),
        details={reason: str(count) for reason, count in sorted(reasons.items()) if count},
    )


def not_together(nodes: NodeColumns, asks: Sequence[Ask]) -> Misfit:
    """Say that pods that fit by themselves do not fit near one another; `asks` are those of one party."""
    required = sum(ask.required for ask in asks)
    near = asks[0].near
    assert near is not None  # they are to be near one another
    text = f"0/{nodes.count} nodes are available. {apart(required, near.asked, len(asks))}."
    return Misfit(text, max(ask.required for ask in asks), required)


def _apart(nodes: NodeColumns, ask: Ask, profile: Profile) -> Misfit | None:
    """Say why the required pods cannot be as near one another as they must be; None where that is not the reason."""
    assert ask.near is not None  # asked by the caller
    with Transaction(nodes) as trial:
        choice = Nearby.of(nodes, ask.near, lambda: prospect(nodes, trial, ask, profile))
        found = obstacle(nodes, choice, ask.required)
    if found is None:
        return None
    said = assess(ask.klass, nodes, ask.where, profile)
    if said.feasible.any():
        said.reasons["node(s) not near enough to others with room"] = int(said.feasible.sum())
    text = found.message
    if not found.never:
        flavor = _of_flavor(nodes, ask, said.reasons)
        text = _sentences(message(nodes.count, said.reasons), flavor, f"{text}.")
    never = found.message if found.never else _never(nodes, ask)
    return Misfit(text, found.fits, ask.required, never, found.details)


def _of_flavor(nodes: NodeColumns, ask: Ask, reasons: Mapping[str, int]) -> str:
    """Say what a flavor asks of nodes, where some were ruled out by that."""
    said = flavor_labels.lacking(nodes, ask.where) if reasons.get(flavor_labels.REASON) else ""
    return f"{said}." if said else ""


def _sentences(*parts: str) -> str:
    return " ".join(filter(None, parts))


def message(count: int, reasons: Mapping[str, int]) -> str:
    """Return the message of a pod that fits on none of so many nodes."""
    parts = sorted(f"{n} {reason}" for reason, n in reasons.items() if n)
    return f"0/{count} nodes are available: {', '.join(parts)}."


def refused(count: int, why: str) -> str:
    """Return the message of a pod that none of so many nodes was asked for."""
    return f"0/{count} nodes are available: {why}."


def _never(nodes: NodeColumns, ask: Ask) -> str:
    """Name what no node could mend: too large a pod, and claims that only one of several pods may use."""
    parts = [
        f"claim {claim} is ReadWriteOncePod, and {ask.required} pods of the gang use it"
        for claim in (ask.klass.volumes.once if ask.required > 1 else ())
    ]
    for name, largest in too_large(nodes, ask.klass.requests).items():
        asks, offers = format_amount(name, ask.klass.requests[name]), format_amount(name, largest)
        parts.append(f"a pod asks for {asks} {name}; the largest node offers {offers}")
    return "; ".join(parts)


def too_large(nodes: NodeColumns, requests: Mapping[str, int]) -> dict[str, int]:
    """Return of which resources a pod asks for more than any node offers, and the most that one does."""
    axis, offered = nodes.axis, nodes.allocatable
    largest = {name: int(offered[:, axis.column(name)].max(initial=0)) if name in axis else 0 for name in requests}
    return {name: most for name, most in largest.items() if requests[name] > most}
