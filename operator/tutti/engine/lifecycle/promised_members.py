"""Whether a member that has come is what was promised, so that it may have the room that is held for one.

Whoever makes pods of a template puts labels of their own on them: a Job its name, a JobSet its name and the role, a
PyTorchJob the index of each. Labels count once any selector reads them, as every headless Service of a JobSet does.

The API server adds tolerations: of nodes that are silent for a while (DefaultTolerationSeconds), and, where it is told
to, of the taint that is called as a device that the pod asks for (ExtendedResourceToleration). Webhooks rewrite the
names of images, to have them come from a registry that is near or be of one digest.
"""

from __future__ import annotations

from typing import Final

import msgspec

from tutti.api.core import PodSpec, TopologySpreadConstraint
from tutti.api.data_locality import DATASET_LABEL
from tutti.api.interference import BEHAVIOUR_LABEL
from tutti.api.network import GROUP_LABEL
from tutti.cluster.class_book import keys_read
from tutti.cluster.classes import PodClass
from tutti.engine.lifecycle import LifecycleState
from tutti.placement.domains import means

_PLACED_BY: Final = frozenset({GROUP_LABEL, BEHAVIOUR_LABEL, DATASET_LABEL})
"""Labels that say by what a pod is placed."""


def is_promised(state: LifecycleState, promised: PodClass, pod_class: PodClass) -> bool:
    """Whether a member is what was promised, but for what others add to such pods and is no matter to their place."""
    if pod_class is promised:
        return True
    alike = (pod_class.namespace, pod_class.volumes, pod_class.devices, pod_class.cards) == (
        promised.namespace,
        promised.volumes,
        promised.devices,
        promised.cards,
    )
    if not alike or any(one not in pod_class.spec.tolerations for one in promised.spec.tolerations):
        return False
    if _bare(pod_class.spec) != _bare(promised.spec):
        return False
    return pod_class.labels == promised.labels or _are_no_matter(state, promised, pod_class)


def _bare(spec: PodSpec) -> PodSpec:
    """Return a spec without its tolerations, more of which keep a pod off no node, and without the names of images.

    Neither is there what the API server adds to the selectors of spread constraints (Kubernetes 1.34).
    """
    return msgspec.structs.replace(
        spec,
        tolerations=[],
        containers=[msgspec.structs.replace(one, image="") for one in spec.containers],
        init_containers=[msgspec.structs.replace(one, image="") for one in spec.init_containers],
        topology_spread_constraints=[_unmerged(one) for one in spec.topology_spread_constraints],
    )


def _unmerged(constraint: TopologySpreadConstraint) -> TopologySpreadConstraint:
    """Return a constraint without what the API server has added to its selector, which its `matchLabelKeys` say."""
    keys, selector = constraint.match_label_keys, constraint.label_selector
    if not keys or selector is None:
        return constraint
    own = [one for one in selector.match_expressions if one.operator != "In" or one.key not in keys]
    return msgspec.structs.replace(constraint, label_selector=msgspec.structs.replace(selector, match_expressions=own))


def _are_no_matter(state: LifecycleState, promised: PodClass, pod_class: PodClass) -> bool:
    """Whether a member may be where one was promised though its labels are not those that this one had.

    It may not where what it wants of others goes by these labels, or what others want of it; nor where it counts by
    them for throttles, or is placed by what one of them says.
    """
    if state.cluster.classes.strict_defaults:
        return False
    differing = {key for key, _ in pod_class.labels.items() ^ promised.labels.items()}
    read = (*_PLACED_BY, *keys_read(pod_class.spec), *state.cluster.follower.labels_read())
    return differing.isdisjoint(read) and not _keeps_others_off(state, promised, pod_class)


def _keeps_others_off(state: LifecycleState, promised: PodClass, pod_class: PodClass) -> bool:
    """Whether a pod on a node stays apart from such as this member, and did not from what was promised."""
    nodes = state.cluster.nodes
    about = nodes.label_index.terms_about(pod_class.namespace, pod_class.labels)
    apart = dict.fromkeys(term.query for _, terms in about for kind, term in terms if kind == "anti_affinity")
    return any(means(query, pod_class, nodes) and not means(query, promised, nodes) for query in apart)
