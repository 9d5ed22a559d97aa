"""Which pods get the name of their scheduler from the webhook: by the label of their namespace, and their queue.

The label `scheduling.tutti.dev/scheduler-name` of a namespace opts in, and says which of our schedulers it is to be.
Changed are only pods that nobody else has a claim to: they name no scheduler but the default one, are on no node, and
are neither a DaemonSet's nor a node's own. What keeps a cluster going is in namespaces that are never changed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from tutti.api.core import Pod
from tutti.api.model import GROUP

SCHEDULER_LABEL: Final = f"{GROUP}/scheduler-name"
"""Label of a namespace: the scheduler of its pods that are in a queue and name none."""
SYSTEM_NAMESPACES: Final = frozenset({"kube-system", "kube-public", "kube-node-lease"})
DEFAULT_SCHEDULER: Final = "default-scheduler"
_MIRROR: Final = "kubernetes.io/config.mirror"
_NOT_SCHEDULED: Final = frozenset({"DaemonSet", "Node"})


def opted_in(namespace: str, labels: Mapping[str, str], schedulers: Collection[str]) -> str:
    """Return the scheduler that a namespace has chosen for its pods; "" where it has chosen none of ours.

    Args:
        namespace: Its name.
        labels: Its labels.
        schedulers: The names under which pods are placed here.
    """
    chosen = labels.get(SCHEDULER_LABEL, "")
    return chosen if chosen in schedulers and namespace not in SYSTEM_NAMESPACES else ""


def may_be_named(pod: Pod) -> bool:
    """Whether the scheduler of a new pod may be filled in."""
    if pod.spec.scheduler_name not in ("", DEFAULT_SCHEDULER) or pod.spec.node_name:
        return False
    if _MIRROR in pod.metadata.annotations:
        return False
    return all(owner.kind not in _NOT_SCHEDULED for owner in pod.metadata.owner_references)
