"""How many terms the constraints of a pod have: what it costs to try it grows with that, so it is bounded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tutti.api.core import PodSpec
from tutti.api.selectors import LabelSelector, NodeSelectorRequirement, NodeSelectorTerm

_VALUES_PER_TERM: Final = 64
"""So many values of one requirement cost as much as a term."""


def count_terms(spec: PodSpec) -> int:
    """Return how many terms a pod has.

    Each of these counts: a label of the node selector, a requirement of a node affinity term, a pod affinity term and
    each further requirement of its selectors, a spread constraint, a toleration.
    """
    return sum(_terms(spec)) + len(spec.node_selector) + len(spec.tolerations)


def _terms(spec: PodSpec) -> Iterator[int]:
    for constraint in spec.topology_spread_constraints:
        yield max(1, _selector_terms(constraint.label_selector) + len(constraint.match_label_keys))
    affinity = spec.affinity
    if affinity is None:
        return
    if affinity.node_affinity is not None:
        required = affinity.node_affinity.required
        for term in required.node_selector_terms if required is not None else ():
            yield _node_terms(term)
        for preferred in affinity.node_affinity.preferred:
            yield _node_terms(preferred.preference)
    for side in (affinity.pod_affinity, affinity.pod_anti_affinity):
        if side is not None:
            for one in (*side.required, *(weighted.pod_affinity_term for weighted in side.preferred)):
                yield max(1, _selector_terms(one.label_selector) + _selector_terms(one.namespace_selector))


def _node_terms(term: NodeSelectorTerm) -> int:
    return max(1, sum(map(_values, (*term.match_expressions, *term.match_fields))))


def _selector_terms(selector: LabelSelector | None) -> int:
    if selector is None:
        return 0
    values = sum(1 + len(one.values) // _VALUES_PER_TERM for one in selector.match_expressions)
    return len(selector.match_labels) + values


def _values(requirement: NodeSelectorRequirement) -> int:
    return 1 + len(requirement.values) // _VALUES_PER_TERM
