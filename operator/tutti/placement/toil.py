"""How much a pod asks about nodes and other pods: what it costs to try it grows with that, so it has a bound.

Counted in steps, not in seconds, so that what is refused follows from what is written alone. The API server bounds
none of these lists; a pod of 400 kB names thousands. kube-scheduler has no bound either, but only that pod's own
scheduling waits there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from tutti.api.core import PodSpec
from tutti.api.selectors import LabelSelector, NodeSelectorRequirement, NodeSelectorTerm
from tutti.cluster.classes import PodClass

MOST_TERMS: Final = 500
"""So many terms one pod may have."""
MOST_TERMS_TOGETHER: Final = 4000
"""So many the unlike pods of one workload may have together; equal pods count once."""
_VALUES_PER_TERM: Final = 64
"""So many values of one requirement cost as much as a term."""


def toil_of(klass: PodClass) -> int:
    """Return how many terms the pods of a class have; worked out once."""
    return klass.keep("terms", None, lambda: count_terms(klass.spec))


def toil_of_all(classes: Iterable[PodClass]) -> int:
    """Return how many terms some classes have together, each counted once."""
    return sum(toil_of(klass) for klass in dict.fromkeys(classes))


def count_terms(spec: PodSpec) -> int:
    """Return how many terms a pod has.

    Each of these counts: a label of the node selector, a requirement of a node affinity term, a pod affinity term and
    each further requirement of its selectors, a spread constraint, a toleration.
    """
    return sum(_terms(spec)) + len(spec.node_selector) + len(spec.tolerations)


def _terms(spec: PodSpec) -> Iterator[int]:
    for constraint in spec.topology_spread_constraints:
        yield max(1, _asked(constraint.label_selector) + len(constraint.match_label_keys))
    affinity = spec.affinity
    if affinity is None:
        return
    if affinity.node_affinity is not None:
        required = affinity.node_affinity.required
        for term in required.node_selector_terms if required is not None else ():
            yield _asked_of_nodes(term)
        for preferred in affinity.node_affinity.preferred:
            yield _asked_of_nodes(preferred.preference)
    for side in (affinity.pod_affinity, affinity.pod_anti_affinity):
        if side is not None:
            for one in (*side.required, *(weighted.pod_affinity_term for weighted in side.preferred)):
                yield max(1, _asked(one.label_selector) + _asked(one.namespace_selector))


def _asked_of_nodes(term: NodeSelectorTerm) -> int:
    return max(1, sum(map(_values, (*term.match_expressions, *term.match_fields))))


def _asked(selector: LabelSelector | None) -> int:
    if selector is None:
        return 0
    values = sum(1 + len(one.values) // _VALUES_PER_TERM for one in selector.match_expressions)
    return len(selector.match_labels) + values


def _values(requirement: NodeSelectorRequirement) -> int:
    return 1 + len(requirement.values) // _VALUES_PER_TERM
