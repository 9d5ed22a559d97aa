"""Whether a member that has come is what was promised, so that it may have the room that is held for one.

Whoever makes pods of a template puts labels of their own on them (a Job its name, a JobSet its name and the role, a
PyTorchJob the index of each), and the API server tolerations. Labels count once any selector reads them: every headless
Service of a JobSet does.
"""

from __future__ import annotations

from typing import Final

import msgspec

from tutti.api.data_locality import DATASET_LABEL
from tutti.api.interference import BEHAVIOUR_LABEL
from tutti.api.network import GROUP_LABEL
from tutti.api.selectors import Toleration
from tutti.cluster.classes import PodClass
from tutti.engine.lifecycle import LifecycleState
from tutti.placement.domains import means

ADDED_TOLERATIONS: Final = tuple(
    Toleration(f"node.kubernetes.io/{state}", "Exists", effect="NoExecute", toleration_seconds=300)
    for state in ("not-ready", "unreachable")
)
"""What the API server adds to a pod that does not say otherwise (admission plugin DefaultTolerationSeconds)."""

_PLACED_BY: Final = frozenset({GROUP_LABEL, BEHAVIOUR_LABEL, DATASET_LABEL})
"""Labels that say by what a pod is placed."""


def is_promised(state: LifecycleState, promised: PodClass, pod_class: PodClass) -> bool:
    """Whether a member is what was promised, but for tolerations and labels that others add to every such pod."""
    if pod_class is promised:
        return True
    alike = (pod_class.namespace, pod_class.volumes, pod_class.devices, pod_class.cards) == (
        promised.namespace,
        promised.volumes,
        promised.devices,
        promised.cards,
    )
    if not alike:
        return False
    plain = [one for one in pod_class.spec.tolerations if one not in ADDED_TOLERATIONS]
    if msgspec.structs.replace(pod_class.spec, tolerations=plain) != promised.spec:
        return False
    return pod_class.labels == promised.labels or _are_no_matter(state, promised, pod_class)


def _are_no_matter(state: LifecycleState, promised: PodClass, pod_class: PodClass) -> bool:
    """Whether a member may be where one was promised though its labels are not those that this one had.

    It may not where it has to be near others, or apart from them, or others from it; nor where it counts for throttles,
    or is placed by what a label says.
    """
    if state.cluster.classes.strict_defaults or pod_class.needs_other_pods or pod_class.inter_pod.anti_affinity:
        return False
    differing = {key for key, _ in pod_class.labels.items() ^ promised.labels.items()}
    if not differing.isdisjoint((*_PLACED_BY, *state.cluster.follower.labels_read())):
        return False
    return not _keeps_others_off(state, promised, pod_class)


def _keeps_others_off(state: LifecycleState, promised: PodClass, pod_class: PodClass) -> bool:
    """Whether a pod on a node stays apart from such as this member, and did not from what was promised."""
    nodes = state.cluster.nodes
    about = nodes.label_index.terms_about(pod_class.namespace, pod_class.labels)
    apart = dict.fromkeys(term.query for _, terms in about for kind, term in terms if kind == "anti_affinity")
    return any(means(query, pod_class, nodes) and not means(query, promised, nodes) for query in apart)
