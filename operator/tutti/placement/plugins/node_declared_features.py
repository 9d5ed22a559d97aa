"""A node must declare the features that a pod's spec takes for granted (kube-scheduler 1.36, nodedeclaredfeatures).

What a spec needs: component-helpers/nodedeclaredfeatures/features, 1.36. The other features registered there matter
to updates of running pods only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tutti.api.core import PodSpec
from tutti.cluster.classes import PodClass
from tutti.cluster.nodes import NodeColumns
from tutti.placement.framework import Rejection, Where

REASON = "node(s) didn't match Pod's required features"

RESTART_ALL = "RestartAllContainersOnContainerExits"
USER_NAMESPACES = "UserNamespacesHostNetworkSupport"


def needed(spec: PodSpec) -> frozenset[str]:
    """Return the features without which a node could not run such a pod."""
    return frozenset(_needed(spec))


def _needed(spec: PodSpec) -> Iterator[str]:
    rules = (rule for c in (*spec.containers, *spec.init_containers) for rule in c.restart_policy_rules)
    if any(rule.action == "RestartAllContainers" for rule in rules):
        yield RESTART_ALL
    if spec.host_network and spec.host_users is False:
        yield USER_NAMESPACES


@dataclass(frozen=True, slots=True)
class NodeDeclaredFeatures:
    """The filter."""

    def rejections(self, klass: PodClass, nodes: NodeColumns, where: Where) -> Sequence[Rejection]:  # noqa: ARG002 - a filter's signature
        """Rule out nodes that lack a feature."""
        features = needed(klass.spec)
        if not features:
            return ()
        lacking = np.fromiter((not features <= declared for declared in nodes.feature_sets), dtype=np.bool_)
        return (Rejection(REASON, lacking[nodes.feature_code], final=True),)
