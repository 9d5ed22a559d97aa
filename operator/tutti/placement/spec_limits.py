"""Which pods are refused for what is written in them alone: too many terms, or constraints that no filter knows.

What it costs to try a pod grows with how much it asks about nodes and other pods, so that has a bound. It is counted
in steps, not in seconds, so that what is refused follows from what is written alone. The API server bounds none of
these lists; a pod of 400 kB names thousands. kube-scheduler has no bound either, but only that pod's own scheduling
waits there. Placing a pod as if a constraint were not there that no filter knows would be worse than not placing it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from tutti.api.core import PodSpec
from tutti.api.labels import LabelSelector, NodeSelectorRequirement, NodeSelectorTerm
from tutti.cluster.classes import PodClass

MOST_TERMS: Final = 500
"""So many terms one pod may have."""
MOST_TERMS_TOGETHER: Final = 4000
"""So many the unlike pods of one workload may have together; equal pods count once."""
_VALUES_PER_TERM: Final = 64
"""So many values of one requirement cost as much as a term."""


def term_count(klass: PodClass) -> int:
    """Return how many terms the pods of a class have; worked out once."""
    return klass.keep("terms", None, lambda: count_terms(klass.spec))


def term_count_in_all(classes: Iterable[PodClass]) -> int:
    """Return how many terms some classes have together, each counted once."""
    return sum(term_count(klass) for klass in dict.fromkeys(classes))


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


def unsupported_fields(spec: PodSpec) -> list[str]:
    """Return the constraints of a pod that no filter here knows, by their field; empty where there are none."""
    return ["spec.resourceClaims"] if spec.resource_claims else []
