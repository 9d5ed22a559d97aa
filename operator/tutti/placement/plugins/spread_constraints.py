"""Topology spread constraints as columns (kube-scheduler 1.36, plugins/podtopologyspread/common.go)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import msgspec
import numpy as np
from numpy.typing import NDArray

from tutti.api.core import TopologySpreadConstraint
from tutti.api.owners import REPLICATION_CONTROLLER
from tutti.api.selectors import LabelSelector, LabelSelectorRequirement
from tutti.cluster.classes import Feature, PodClass
from tutti.cluster.label_index import Codes
from tutti.cluster.nodes import NodeColumns
from tutti.cluster.signatures import PodQuery
from tutti.placement.domains import Domains, means
from tutti.placement.framework import Counts, Mask
from tutti.placement.plugins.node_affinity import required_matches
from tutti.placement.plugins.node_state import tolerates_taints

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
HARD = "DoNotSchedule"
SOFT = "ScheduleAnyway"


@dataclass(frozen=True, slots=True)
class SpreadDefaults:
    """How pods are spread that do not say it themselves but belong to a Service, or another owner with a selector.

    Attributes:
        constraints: Without selectors; theirs is the pod's `default_selector`.
        system: Whether these are the system's own: they score also nodes that lack a key.
    """

    constraints: tuple[TopologySpreadConstraint, ...]
    system: bool

    @property
    def are_strict(self) -> bool:
        """Whether any of them keeps pods off nodes."""
        return any(one.when_unsatisfiable == HARD for one in self.constraints)

    def concerns(self, when: str) -> int:
        """Return what a plugin looks at that spreads hard or softly: bits of `Feature`."""
        used = any(one.when_unsatisfiable == when for one in self.constraints)
        return Feature.SPREAD | (Feature.OWNER | Feature.SERVICES if used else 0)


SYSTEM_DEFAULTS = SpreadDefaults(
    (
        TopologySpreadConstraint(topology_key=HOSTNAME, max_skew=3, when_unsatisfiable=SOFT),
        TopologySpreadConstraint(topology_key=ZONE, max_skew=5, when_unsatisfiable=SOFT),
    ),
    system=True,
)
"""args.defaultingType System."""


@dataclass(frozen=True, slots=True)
class TopologySpread:
    """One constraint of one class.

    Attributes:
        query: Which pods are counted; an empty selector counts none of them, though the pod itself matches it.
        matches_itself: Whether the selector matches pods of the class.
        counts_itself: Whether pods of the class are counted once they are on a node.
    """

    constraint: TopologySpreadConstraint
    query: PodQuery
    domains: Domains
    matches_itself: bool
    counts_itself: bool

    @property
    def key(self) -> str:
        """The topology key."""
        return self.constraint.topology_key

    @property
    def most_beside(self) -> int:
        """How many more than the emptiest a domain may have for one more pod of the class to go there."""
        return self.constraint.max_skew - int(self.matches_itself)

    def at(self, rows: NDArray[np.int64]) -> TopologySpread:
        """Return the constraint on these rows only."""
        return replace(self, domains=self.domains.at(rows))

    def is_as(self, other: TopologySpread) -> bool:
        """Whether another, of the same class and the same labels of nodes, is the same constraint."""
        return (
            self.constraint is other.constraint
            and self.matches_itself == other.matches_itself
            and self.counts_itself == other.counts_itself
        )

    def counts(self, pod_class: PodClass, nodes: NodeColumns) -> bool:
        """Whether pods of some class are counted."""
        selector = self.query.selector
        return selector is not None and not _is_empty(selector) and means(self.query, pod_class, nodes)

    def counted(self, nodes: NodeColumns) -> Codes:
        """Return bool[codes]: the pods that are counted; those that are being deleted are not."""
        selector = self.query.selector
        if selector is None or _is_empty(selector):
            return np.zeros(nodes.label_index.codes, dtype=np.bool_)
        return nodes.label_index.matching(self.query, nodes.namespaces) & ~nodes.label_index.leaving

    def by_domain(self, pod_class: PodClass, nodes: NodeColumns, keyed: Mask) -> tuple[Mask, Counts]:
        """Return bool[rows], those of `keyed` that the inclusion policies let count, and int64[domains], pods there."""
        looked_at = keyed
        if self.constraint.node_affinity_policy == "Honor" and _chooses_nodes(pod_class):
            looked_at = looked_at & required_matches(pod_class.spec, nodes)
        if self.constraint.node_taints_policy == "Honor" and len(nodes.taint_sets) > 1:
            looked_at = looked_at & tolerates_taints(nodes, pod_class.spec.tolerations)
        rows, counts, _ = nodes.label_index.where(self.counted(nodes))
        inside = looked_at[rows]
        return looked_at, self.domains.sum(rows[inside], counts[inside])


def spread_constraints(
    pod_class: PodClass, nodes: NodeColumns, when: str, defaults: SpreadDefaults
) -> tuple[list[TopologySpread], bool]:
    """Return the constraints of a class that are hard or soft, and whether they are the system's defaults."""
    if pod_class.spec.topology_spread_constraints:
        stamp = (nodes.version, len(nodes))
        return pod_class.keep(("spread", when), stamp, lambda: _own_constraints(pod_class, nodes, when)), False
    chosen = [one for one in defaults.constraints if one.when_unsatisfiable == when]
    selector = default_selector(pod_class, nodes) if chosen else None
    if selector is None:
        return [], defaults.system
    return [_spread_constraint(one, selector, pod_class, nodes) for one in chosen], defaults.system


def _own_constraints(pod_class: PodClass, nodes: NodeColumns, when: str) -> list[TopologySpread]:
    chosen = [one for one in pod_class.spec.topology_spread_constraints if one.when_unsatisfiable == when]
    return [_spread_constraint(one, _selector(one, pod_class), pod_class, nodes) for one in chosen]


def default_selector(pod_class: PodClass, nodes: NodeColumns) -> LabelSelector | None:
    """Return which pods are like those of the class: all that the Services that select it, and its owner, ask for.

    Returns:
        None where there are neither (kube-scheduler 1.36, plugins/helper/spread.go, DefaultSelector). Kept on the
        class until something selects otherwise.
    """
    stamp = nodes.namespaces.selecting_version
    return pod_class.keep("default selector", stamp, lambda: _default_selector(pod_class, nodes))


def _default_selector(pod_class: PodClass, nodes: NodeColumns) -> LabelSelector | None:
    merged: dict[str, str] = {}
    for labels in nodes.namespaces.services_of(pod_class.namespace, pod_class.labels):
        merged |= labels
    more: list[LabelSelectorRequirement] = []
    owner = nodes.namespaces.selector_of(pod_class.namespace, pod_class.owner) if pod_class.owner is not None else None
    if owner is not None and pod_class.owner is not None and pod_class.owner[0] == REPLICATION_CONTROLLER:
        merged |= owner.match_labels
    elif owner is not None:
        more = [LabelSelectorRequirement(key, "In", [value]) for key, value in owner.match_labels.items()]
        more += owner.match_expressions
    return LabelSelector(match_labels=merged, match_expressions=more) if merged or more else None


def with_all_keys(spreads: Iterable[TopologySpread], rows: int) -> Mask:
    """Return bool[rows]: nodes that have every topology key."""
    out = np.ones(rows, dtype=np.bool_)
    for one in spreads:
        out &= one.domains.known
    return out


def _spread_constraint(
    constraint: TopologySpreadConstraint, selector: LabelSelector | None, pod_class: PodClass, nodes: NodeColumns
) -> TopologySpread:
    matches = selector is not None and selector.matches(pod_class.labels)
    return TopologySpread(
        constraint,
        PodQuery.of([pod_class.namespace], selector),
        Domains.of(nodes, constraint.topology_key),
        matches_itself=matches,
        counts_itself=matches and selector is not None and not _is_empty(selector),
    )


def _selector(constraint: TopologySpreadConstraint, pod_class: PodClass) -> LabelSelector | None:
    """Return the selector with what matchLabelKeys adds: the values of the pod's own labels."""
    selector = constraint.label_selector
    added = [
        LabelSelectorRequirement(key, "In", [pod_class.labels[key]])
        for key in constraint.match_label_keys
        if key in pod_class.labels
    ]
    if selector is None or not added:
        return selector
    return msgspec.structs.replace(selector, match_expressions=[*selector.match_expressions, *added])


def _is_empty(selector: LabelSelector) -> bool:
    return not selector.match_labels and not selector.match_expressions


def _chooses_nodes(pod_class: PodClass) -> bool:
    affinity = pod_class.spec.affinity
    return bool(pod_class.spec.node_selector) or (affinity is not None and affinity.node_affinity is not None)
