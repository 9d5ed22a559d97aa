"""Whether pods may be counted in a flavor at all, whatever quota there is.

Rules: Kueue, flavorassigner.go `checkFlavorForPodSets` and tas_flavorassigner.go (0.20): every hard taint of the flavor
must be tolerated; the pods' node selector and required node affinity, as far as they speak of labels that the flavor
has, must match them; pods that ask for a topology need a flavor that has the levels they name, and others one without
a topology, except that in a queue of nothing but such flavors all pods are placed by topology.
"""

from __future__ import annotations

from collections.abc import Mapping

from tutti.api.selectors import HARD_EFFECTS, NodeSelectorTerm, untolerated
from tutti.quota.flavors import Flavor, Queue, ResourceGroup
from tutti.quota.podsets import PodSet


def by_topology_only(queue: Queue, flavors: Mapping[str, Flavor]) -> bool:
    """Whether a queue has only flavors with a topology, so that all its pods are placed by it."""
    named = [flavors[name] for group in queue.groups for name in group.flavors if name in flavors]
    return bool(named) and all(flavor.levels for flavor in named)


def mismatch(flavor: Flavor, pods: PodSet, group: ResourceGroup, *, implied: bool) -> str:
    """Return why pods may not be counted in a flavor; "" where they may.

    Args:
        flavor: The flavor.
        pods: The pods.
        group: Whose flavor it is.
        implied: Whether pods that do not ask for a topology are placed by one all the same.
    """
    if pods.topology is not None or not implied:
        wrong = _topology_mismatch(flavor, pods, group)
        if wrong:
            return wrong
    taint = untolerated(flavor.node_taints, (*pods.tolerations, *flavor.tolerations), HARD_EFFECTS)
    if taint is not None:
        return f"flavor {flavor.name} has the taint {taint.key}={taint.value}:{taint.effect}, which is not tolerated"
    if not _selects(pods, dict(flavor.node_labels)):
        return f"the labels of flavor {flavor.name} do not match the node selector or affinity"
    return ""


def _topology_mismatch(flavor: Flavor, pods: PodSet, group: ResourceGroup) -> str:
    if pods.topology is None:
        return f"flavor {flavor.name} is only for pods placed by topology" if flavor.levels else ""
    if not flavor.levels:
        concerned = any(name in group.covered for name in pods.per_pod)
        return f"flavor {flavor.name} has no topology" if concerned else ""
    missing = [level for level in pods.topology.levels if level not in flavor.levels]
    return f"the topology of flavor {flavor.name} has no level {', '.join(missing)}" if missing else ""


def _selects(pods: PodSet, labels: Mapping[str, str]) -> bool:
    if any(labels.get(key, value) != value for key, value in pods.node_selector.items()):
        return False
    if pods.affinity is None:
        return True
    terms = [
        NodeSelectorTerm(match_expressions=[one for one in term.match_expressions if one.key in labels])
        for term in pods.affinity.node_selector_terms
    ]
    return not terms or any(not term.match_expressions or term.matches(labels, "") for term in terms)
