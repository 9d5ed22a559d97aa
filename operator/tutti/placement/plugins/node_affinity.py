"""`nodeSelector` and node affinity (kube-scheduler 1.36, plugins/nodeaffinity)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tutti.api.core import NodeAffinity as Spec
from tutti.api.core import PodSpec
from tutti.api.selectors import NAME_FIELD, NodeSelectorTerm
from tutti.cluster.classes import PodClass
from tutti.cluster.nodes import NodeColumns
from tutti.placement import selection
from tutti.placement.framework import Mask, Rejection, Scores, Where

REASON = "node(s) didn't match Pod's node affinity/selector"
NAMED_ELSE = "node(s) didn't satisfy plugin(s) [NodeAffinity]"
ENFORCED = "node(s) didn't match scheduler-enforced node affinity"


def required_matches(spec: PodSpec, nodes: NodeColumns) -> Mask:
    """Return bool[rows]: True where the pod's selector and required affinity both match."""
    out = selection.node_selector(nodes, spec.node_selector)
    affinity = _affinity(spec)
    if affinity is not None and affinity.required is not None:
        out &= selection.any_term(nodes, affinity.required)
    return out


@dataclass(frozen=True, slots=True)
class NodeAffinity:
    """The filter; `added` is the affinity that the profile adds to every pod's own."""

    added: Spec | None = None

    def rejections(self, klass: PodClass, nodes: NodeColumns, where: Where) -> Sequence[Rejection]:  # noqa: ARG002 - a filter's signature
        """Rule out nodes that are not among those named, then those that do not match."""
        out: list[Rejection] = []
        named = _named(klass.spec)
        if named is not None:
            among = np.zeros(len(nodes), dtype=np.bool_)
            among[[nodes.rows[name] for name in named if name in nodes.rows]] = True
            out.append(Rejection(NAMED_ELSE, ~among, final=True))
        if self.added is not None and self.added.required is not None:
            out.append(Rejection(ENFORCED, ~selection.any_term(nodes, self.added.required), final=True))
        affinity = _affinity(klass.spec)
        if klass.spec.node_selector or (affinity is not None and affinity.required is not None):
            out.append(Rejection(REASON, ~required_matches(klass.spec, nodes), final=True))
        return _exclusive(out)


@dataclass(frozen=True, slots=True)
class PreferredNodeAffinity:
    """The score: the sum of the weights of the preferred terms that match.

    A number that no label could have, such as -1, is compared as it is; kube-scheduler gives such a pod up.
    """

    added: Spec | None = None
    name: str = "NodeAffinity"
    weight: int = 2
    scaled: bool = True
    reverse: bool = False

    def points(self, klass: PodClass, nodes: NodeColumns) -> Scores | None:
        """Return int64[rows], or None where the class prefers nothing."""
        terms = [
            one
            for affinity in (_affinity(klass.spec), self.added)
            if affinity is not None
            for one in affinity.preferred
        ]
        if not terms:
            return None
        out = np.zeros(len(nodes), dtype=np.int64)
        for one in terms:
            out += selection.term(nodes, one.preference) * one.weight
        return out


def _affinity(spec: PodSpec) -> Spec | None:
    return spec.affinity.node_affinity if spec.affinity is not None else None


def _named(spec: PodSpec) -> set[str] | None:
    """Return the only nodes that can match, where every required term names some; else None."""
    affinity = _affinity(spec)
    if affinity is None or affinity.required is None or not affinity.required.node_selector_terms:
        return None
    names: set[str] = set()
    for term in affinity.required.node_selector_terms:
        mine = _names_in(term)
        if mine is None:
            return None
        names |= mine
    return names


def _names_in(term: NodeSelectorTerm) -> set[str] | None:
    mine: set[str] | None = None
    for field in term.match_fields:
        if field.key == NAME_FIELD and field.operator == "In":
            mine = set(field.values) if mine is None else mine & set(field.values)
    return mine


def _exclusive(rejections: list[Rejection]) -> list[Rejection]:
    """Let each node count under the first reason only."""
    out: list[Rejection] = []
    before: Mask | None = None
    for one in rejections:
        rows = one.rows if before is None else one.rows & ~before
        before = one.rows if before is None else before | one.rows
        out.append(Rejection(one.reason, rows, one.final))
    return out
