"""Why a class of pods does not fit, in kube-scheduler's own format, which autoscalers read.

Format: kube-scheduler 1.36, framework/types.go (FitError): `0/N nodes are available: ` and the reasons with their
counts, sorted as strings.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from tutti.api.resources import describe
from tutti.cluster.nodes import NodeColumns
from tutti.placement.filters import DEFAULT_FILTERS, judge
from tutti.placement.gang import Ask, capacity

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


def explain(nodes: NodeColumns, ask: Ask) -> Misfit:
    """Say why the required pods of an ask do not fit on the nodes as they are now."""
    if ask.klass.problem:
        return Misfit(ask.klass.problem, 0, ask.required, never=ask.klass.problem)
    if nodes.count == 0:
        return Misfit(NO_NODES, 0, ask.required)
    verdict = judge(ask.klass, nodes, ask.where)
    room = np.minimum(capacity(nodes, ask.klass, verdict.mask), ask.required)
    fits = int(room.sum())
    reasons: Counter[str] = Counter()
    for index, one in enumerate(DEFAULT_FILTERS):
        reasons[one.reason] += int(np.count_nonzero(nodes.present & (verdict.first == index)))
    _count_insufficient(nodes, ask, verdict.mask & (room == 0), reasons)
    if fits:
        reasons[f"node(s) with room for only {fits} of {ask.required} pods of the gang"] += int(np.count_nonzero(room))
    return Misfit(
        message=_message(nodes.count, reasons),
        fits=fits,
        wanted=ask.required,
        never=_never(nodes, ask),
        details={reason: str(count) for reason, count in sorted(reasons.items()) if count},
    )


def _count_insufficient(nodes: NodeColumns, ask: Ask, full: np.typing.NDArray[np.bool_], reasons: Counter[str]) -> None:
    free = nodes.allocatable[full] - nodes.requested[full]
    for name, amount in ask.klass.requests.items():
        if amount > 0:
            short = int(np.count_nonzero(free[:, nodes.axis.column(name)] < amount))
            reasons["Too many pods" if name == "pods" else f"Insufficient {name}"] += short


def _message(count: int, reasons: Counter[str]) -> str:
    parts = sorted(f"{n} {reason}" for reason, n in reasons.items() if n)
    return f"0/{count} nodes are available: {', '.join(parts)}."


def _never(nodes: NodeColumns, ask: Ask) -> str:
    """Name each resource of which even the largest node offers less than one pod asks for."""
    parts = []
    for name, amount in ask.klass.requests.items():
        largest = int(nodes.allocatable[:, nodes.axis.column(name)].max(initial=0))
        if amount > largest:
            parts.append(
                f"a pod asks for {describe(name, amount)} {name}; the largest node offers {describe(name, largest)}"
            )
    return "; ".join(parts)
