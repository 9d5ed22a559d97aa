"""Which nodes a pod, or the flavor it was admitted into, selects by label, as expressions over label columns.

Each requirement is answered by the codes of its label's values, for all nodes at once. Semantics: kube-scheduler
1.36, plugins/nodeaffinity and component-helpers/scheduling/corev1/nodeaffinity. Flavors are Kueue's: kube-scheduler
knows none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tutti.api.core import NodeAffinity as Spec
from tutti.api.core import PodSpec
from tutti.api.selectors import (
    NAME_FIELD,
    LabelSelector,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    parse_integer,
)
from tutti.cluster.classes import Feature, PodClass
from tutti.cluster.nodes import ABSENT, LabelColumn, NodeColumns
from tutti.placement.framework import FlavorConstraints, Mask, Rejection, Scores


def has_labels(nodes: NodeColumns, wanted: Iterable[tuple[str, str]]) -> Mask:
    """Return bool[rows]: True where a node carries every one of these labels."""
    out = nodes.present.copy()
    for key, value in wanted:
        column = nodes.label(key)
        code = column.code_of.get(value)
        if code is None:
            return np.zeros_like(out)
        out &= column.codes[: len(out)] == code
    return out


def matches_node_selector(nodes: NodeColumns, selector: Mapping[str, str]) -> Mask:
    """Return bool[rows]: True where `spec.nodeSelector` matches."""
    return has_labels(nodes, selector.items())


def has_label_among(nodes: NodeColumns, key: str, values: Iterable[str]) -> Mask:
    """Return bool[rows]: True where a label has one of some values."""
    column = nodes.label(key)
    known = np.zeros(len(column.values) + 1, dtype=np.bool_)
    known[[column.code_of[value] for value in values if value in column.code_of]] = True
    return known[column.codes[: len(nodes)]]


def matches_label_selector(nodes: NodeColumns, selector: LabelSelector) -> Mask:
    """Return bool[rows]: True where a label selector matches the labels of a node; an empty one matches all."""
    out = has_labels(nodes, selector.match_labels.items())
    for one in selector.match_expressions:
        out &= _label_requirement(nodes, NodeSelectorRequirement(one.key, one.operator, one.values))
    return out


def matches_any_term(nodes: NodeColumns, selector: NodeSelector) -> Mask:
    """Return bool[rows]: True where at least one term matches; no term matches nothing."""
    out = np.zeros(len(nodes), dtype=np.bool_)
    for one in selector.node_selector_terms:
        out |= matches_term(nodes, one)
    return out


def matches_term(nodes: NodeColumns, one: NodeSelectorTerm) -> Mask:
    """Return bool[rows]: True where every expression and field of the term matches; an empty term matches nothing."""
    out = nodes.present.copy()
    if not one.match_expressions and not one.match_fields:
        return np.zeros_like(out)
    for requirement in one.match_expressions:
        out &= _label_requirement(nodes, requirement)
    for requirement in one.match_fields:
        out &= _name_requirement(nodes, requirement)
    return out


def _label_requirement(nodes: NodeColumns, requirement: NodeSelectorRequirement) -> Mask:
    column = nodes.label(requirement.key)
    codes = column.codes[: len(nodes)]
    there: Mask = codes != ABSENT
    match requirement.operator:
        case "Exists":
            return there
        case "DoesNotExist":
            return ~there
        case "In":
            return has_label_among(nodes, requirement.key, requirement.values)
        case "NotIn":
            return ~has_label_among(nodes, requirement.key, requirement.values)
        case "Gt" | "Lt":
            return _compared(column, requirement)[codes]
        case _:
            return np.zeros(len(nodes), dtype=np.bool_)


def _compared(column: LabelColumn, requirement: NodeSelectorRequirement) -> Mask:
    """Return bool[values + 1]: which values are above or below the one that is named; the last stands for no label."""
    out = np.zeros(len(column.values) + 1, dtype=np.bool_)
    bound = parse_integer(requirement.values[0]) if len(requirement.values) == 1 else None
    if bound is None:
        return out
    integers = column.integers
    if requirement.operator == "Gt":
        out[:-1] = [one is not None and one > bound for one in integers]
    else:
        out[:-1] = [one is not None and one < bound for one in integers]
    return out


def _name_requirement(nodes: NodeColumns, requirement: NodeSelectorRequirement) -> Mask:
    named = np.zeros(len(nodes), dtype=np.bool_)
    if requirement.key != NAME_FIELD or requirement.operator not in ("In", "NotIn"):
        return named
    for name in requirement.values:
        row = nodes.rows.get(name)
        if row is not None:
            named[row] = True
    return ~named if requirement.operator == "NotIn" else named


NO_NODE_AFFINITY = "node(s) didn't match Pod's node affinity/selector"
NAMED_ELSE = "node(s) didn't satisfy plugin(s) [NodeAffinity]"
CONFLICT = "pod affinity terms conflict"
"""What is said of a pod whose every term names two nodes at once, of which kube-scheduler asks no node."""
ENFORCED = "node(s) didn't match scheduler-enforced node affinity"


def names_none(spec: PodSpec) -> bool:
    """Whether the required affinity names nodes, and in no term one that suits all its fields: it can match none."""
    return _named(spec) == set()


def required_matches(spec: PodSpec, nodes: NodeColumns) -> Mask:
    """Return bool[rows]: True where the pod's selector and required affinity both match."""
    out = matches_node_selector(nodes, spec.node_selector)
    affinity = _affinity(spec)
    if affinity is not None and affinity.required is not None:
        out &= matches_any_term(nodes, affinity.required)
    return out


@dataclass(frozen=True, slots=True)
class NodeAffinity:
    """The filter; `added` is the affinity that the profile adds to every pod's own."""

    added: Spec | None = None
    concerns: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "concerns", Feature.NODE_SELECTION if self.added is None else Feature.ANY)

    def rejections(self, pod_class: PodClass, nodes: NodeColumns, where: FlavorConstraints) -> Sequence[Rejection]:  # noqa: ARG002 - a filter's signature
        """Rule out nodes that are not among those named, then those that do not match."""
        out: list[Rejection] = []
        named = _named(pod_class.spec)
        if named is not None:
            among = np.zeros(len(nodes), dtype=np.bool_)
            among[[nodes.rows[name] for name in named if name in nodes.rows]] = True
            out.append(Rejection(NAMED_ELSE, ~among, final=True))
        if self.added is not None and self.added.required is not None:
            out.append(Rejection(ENFORCED, ~matches_any_term(nodes, self.added.required), final=True))
        affinity = _affinity(pod_class.spec)
        if pod_class.spec.node_selector or (affinity is not None and affinity.required is not None):
            out.append(Rejection(NO_NODE_AFFINITY, ~required_matches(pod_class.spec, nodes), final=True))
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
    concerns: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "concerns", Feature.PREFERRED_NODE_AFFINITY if self.added is None else Feature.ANY)

    def points(self, pod_class: PodClass, nodes: NodeColumns) -> Scores | None:
        """Return int64[rows], or None where the class prefers nothing."""
        terms = [
            one
            for affinity in (_affinity(pod_class.spec), self.added)
            if affinity is not None
            for one in affinity.preferred
        ]
        if not terms:
            return None
        out = np.zeros(len(nodes), dtype=np.int64)
        for one in terms:
            out += matches_term(nodes, one.preference) * one.weight
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
    for one in term.match_fields:
        if one.key == NAME_FIELD and one.operator == "In":
            mine = set(one.values) if mine is None else mine & set(one.values)
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


MOST_VALUES = 3
"""How many values of a label are named that nodes have instead."""

NOT_OF_FLAVOR = "node(s) didn't belong to the assigned flavor"


@dataclass(frozen=True, slots=True)
class FlavorLabels:
    """The filter."""

    concerns: int = field(default=Feature.FLAVOR_LABELS, init=False)

    def rejections(self, pod_class: PodClass, nodes: NodeColumns, where: FlavorConstraints) -> Sequence[Rejection]:  # noqa: ARG002 - a filter's signature
        """Rule out nodes without the flavor's labels."""
        if not where.node_labels:
            return ()
        return (Rejection(NOT_OF_FLAVOR, ~has_labels(nodes, where.node_labels), final=True),)


def flavor_lacks(nodes: NodeColumns, where: FlavorConstraints) -> str:
    """Say which labels the flavor asks for that nodes lack, and what these have instead; "" where all have them."""
    parts = []
    for key, value in where.node_labels:
        lack = nodes.present & ~has_labels(nodes, ((key, value),))
        if lack.any():
            parts.append(f"{key}={value} ({_instead(nodes, key, lack)})")
    return f"The assigned flavor asks for nodes with {' and '.join(parts)}" if parts else ""


def _instead(nodes: NodeColumns, key: str, lack: Mask) -> str:
    """Say what some nodes have of a label: the values that most of them have first."""
    column = nodes.label(key)
    codes = column.codes[: len(nodes)][lack]
    counts = np.bincount(codes[codes != ABSENT], minlength=len(column.values))
    values = [column.values[code] for code in np.flatnonzero(counts).tolist()]
    values.sort(key=lambda value: (-int(counts[column.code_of[value]]), value))
    more = [f"{len(values) - MOST_VALUES} more values"] if len(values) > MOST_VALUES else []
    none = ["no such label"] if (codes == ABSENT).any() else []
    *first, last = [*values[:MOST_VALUES], *more, *none]
    return f"the others have {', '.join(first)} or {last}" if first else f"the others have {last}"
