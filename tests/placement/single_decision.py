"""One decision for one pod, written down as kube-scheduler's rule says it: every filter, then every score by itself.

The engine takes a choice over all nodes for many pods at once; this is what its choices are compared with.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np

from tutti.cluster.classes import PodClass
from tutti.cluster.nodes import NodeColumns
from tutti.placement.diagnosis import NO_NODES, fit_error_message, refusal_message
from tutti.placement.framework import NO_FLAVOR, FlavorConstraints, Mask, Rows, Scores, scaled
from tutti.placement.plugins.node_affinity import CONFLICT, names_none
from tutti.placement.profile import DEFAULT_PROFILE, Profile, filter_nodes

_FIRST = np.ones(1, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided for one pod.

    Attributes:
        rows: int64[k], the feasible nodes.
        scores: Plugin name to int64[k], scaled and weighted; only where there is a choice.
        total: int64[k].
        reasons: How many nodes were ruled out for what.
        final: bool[rows], nodes where preemption could not help.
        message: Why there is no feasible node, or "".
    """

    rows: Rows
    scores: dict[str, Scores]
    total: Scores
    reasons: Counter[str]
    final: Mask
    message: str = ""
    names: tuple[str, ...] = field(default=())

    @property
    def best(self) -> list[str]:
        """The names of the nodes with the highest total."""
        if not len(self.rows):
            return []
        return [self.names[i] for i in np.flatnonzero(self.total == self.total.max())]


def decide(
    pod_class: PodClass,
    nodes: NodeColumns,
    where: FlavorConstraints = NO_FLAVOR,
    profile: Profile = DEFAULT_PROFILE,
    *,
    kept: Collection[str] = (),
) -> Decision:
    """Decide where one pod of a class goes on the nodes as they are now, but for those that are kept for others."""
    said = filter_nodes(pod_class, nodes, where, profile)
    rows = np.array([row for row in np.flatnonzero(said.feasible) if nodes.names[row] not in kept], dtype=np.int64)
    several = len(rows) > 1
    scores = _scores(pod_class, nodes, rows, profile) if several else {}
    text = ""
    if not len(rows):
        text = fit_error_message(nodes.count, said.reasons) if nodes.count else NO_NODES
        waiting = pod_class.volumes.problem or pod_class.devices.problem
        waiting = CONFLICT if names_none(pod_class.spec) else waiting
        if nodes.count and waiting:
            text = refusal_message(nodes.count, waiting)
    return Decision(
        rows=rows,
        scores=scores,
        total=sum(scores.values(), start=np.zeros(len(rows), dtype=np.int64)),
        reasons=said.reasons,
        final=said.final,
        message=text,
        names=tuple(nodes.names[row] for row in rows),
    )


def _scores(pod_class: PodClass, nodes: NodeColumns, rows: Rows, profile: Profile) -> dict[str, Scores]:
    out: dict[str, Scores] = {}
    for fill in profile.fill_of(pod_class):
        levels = fill.scores(pod_class, nodes, rows, _FIRST)
        if levels is not None:
            out[fill.name] = levels[0] * fill.weight
    for preference in (*profile.preferences, *profile.changing):
        points = preference.points(pod_class, nodes)
        if points is not None:
            mine = points[rows]
            mine = scaled(mine, reverse=preference.reverse) if preference.scaled else mine
            out[preference.name] = mine * preference.weight
    for neighbour in profile.neighbours:
        state = neighbour.pre_score(pod_class, nodes)
        found = state.scores(rows) if state is not None else None
        if found is not None:
            out[neighbour.name] = found * neighbour.weight
    return out
