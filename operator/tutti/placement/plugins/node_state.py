"""What a node says of itself: that it is cordoned, its taints, the features it declares, the images it holds.

Rules: kube-scheduler 1.36, plugins/nodeunschedulable, plugins/tainttoleration, plugins/imagelocality and
nodedeclaredfeatures; what a spec needs: component-helpers/nodedeclaredfeatures/features, 1.36. The other features
registered there matter to updates of running pods only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from tutti.api.core import PodSpec
from tutti.api.node_health import CONDITION_TAINT
from tutti.api.selectors import HARD_EFFECTS, PREFER_NO_SCHEDULE, Taint, Tolerance, Toleration, untolerated
from tutti.cluster.classes import Feature, PodClass
from tutti.cluster.nodes import NodeColumns, normalised
from tutti.placement.framework import MAX_SCORE, FlavorConstraints, Mask, Rejection, Scores

CORDONED = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
CORDONED_REASON = "node(s) were unschedulable"


@dataclass(frozen=True, slots=True)
class NodeUnschedulable:
    """The filter."""

    concerns: int = field(default=Feature.CORDONS, init=False)

    def rejections(self, pod_class: PodClass, nodes: NodeColumns, where: FlavorConstraints) -> Sequence[Rejection]:
        """Rule out cordoned nodes, unless the pod does not mind."""
        if untolerated([CORDONED], (*pod_class.spec.tolerations, *where.tolerations), HARD_EFFECTS) is None:
            return ()
        return (Rejection(CORDONED_REASON, nodes.unschedulable.copy(), final=True),)


UNTOLERATED = "node(s) had untolerated taint(s)"
WITH_CONDITION = "node(s) had the condition"
"""What is said of nodes that a condition keeps pods off (`nodeHealth`), with its type behind it."""


def tolerates_taints(nodes: NodeColumns, tolerations: Sequence[Toleration]) -> Mask:
    """Return bool[rows]: True where every NoSchedule and NoExecute taint is tolerated."""
    tolerance = Tolerance(tolerations)
    answers = np.fromiter(
        (tolerance.first_beyond(taints) is None for taints in nodes.taint_sets),
        dtype=np.bool_,
        count=len(nodes.taint_sets),
    )
    return answers[nodes.taint_code]


def is_closed(nodes: NodeColumns, row: int, tolerations: Sequence[Toleration]) -> bool:
    """Whether the node of a row takes no new pods with these tolerations: it is cordoned, or has such a taint."""
    taints = nodes.taint_sets[nodes.taint_code[row]]
    cordoned = bool(nodes.unschedulable[row])
    if not (taints or cordoned):
        return False
    return untolerated([CORDONED, *taints] if cordoned else taints, tolerations, HARD_EFFECTS) is not None


@dataclass(frozen=True, slots=True)
class TaintToleration:
    """The filter."""

    concerns: int = field(default=Feature.TAINTS, init=False)

    def rejections(self, pod_class: PodClass, nodes: NodeColumns, where: FlavorConstraints) -> Sequence[Rejection]:
        """Rule out nodes with a NoSchedule or NoExecute taint that is not tolerated."""
        if len(nodes.taint_sets) == 1:
            return ()
        tolerations = (*pod_class.spec.tolerations, *where.tolerations)
        allowed = tolerates_taints(nodes, tolerations)
        if allowed.all():
            return ()
        unwell = _by_condition(nodes, tolerations)
        tainted = ~allowed
        for one in unwell:
            tainted &= ~one.rows
        return (Rejection(UNTOLERATED, tainted, final=True), *unwell) if tainted.any() else unwell


def _by_condition(nodes: NodeColumns, tolerations: Sequence[Toleration]) -> Sequence[Rejection]:
    """Return the nodes that conditions alone keep pods off, each with the first condition that does."""
    found: list[str | None] = []
    tolerance = Tolerance(tolerations)
    for taints in nodes.taint_sets:
        first = tolerance.first_beyond(taints)
        found.append(first.value if first is not None and first.key == CONDITION_TAINT else None)
    kinds = sorted({one for one in found if one is not None})
    return tuple(
        Rejection(f"{WITH_CONDITION} {kind}", np.array([one == kind for one in found])[nodes.taint_code], final=True)
        for kind in kinds
    )


@dataclass(frozen=True, slots=True)
class PreferUntainted:
    """The score: the fewer PreferNoSchedule taints a pod does not tolerate, the better."""

    name: str = "TaintToleration"
    weight: int = 3
    scaled: bool = True
    reverse: bool = True
    concerns: int = field(default=Feature.TAINTS, init=False)

    def points(self, pod_class: PodClass, nodes: NodeColumns) -> Scores:
        """Return int64[rows]: how many such taints each node has."""
        tolerance = Tolerance(pod_class.spec.tolerations)
        counts = [
            sum(taint.effect == PREFER_NO_SCHEDULE and not tolerance.covers(taint) for taint in taints)
            for taints in nodes.taint_sets
        ]
        if not any(counts):
            return np.zeros(len(nodes), dtype=np.int64)
        return np.array(counts, dtype=np.int64)[nodes.taint_code]


LACKS_FEATURES = "node(s) didn't match Pod's required features"

RESTART_ALL = "RestartAllContainersOnContainerExits"
USER_NAMESPACES = "UserNamespacesHostNetworkSupport"


def needed_features(spec: PodSpec) -> frozenset[str]:
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

    concerns: int = field(default=Feature.NODE_FEATURES, init=False)

    def rejections(self, pod_class: PodClass, nodes: NodeColumns, where: FlavorConstraints) -> Sequence[Rejection]:  # noqa: ARG002 - a filter's signature
        """Rule out nodes that lack a feature."""
        features = needed_features(pod_class.spec)
        if not features:
            return ()
        lacking = np.fromiter((not features <= declared for declared in nodes.feature_sets), dtype=np.bool_)
        return (Rejection(LACKS_FEATURES, lacking[nodes.feature_code], final=True),)


_MIB = 1024 * 1024
LEAST_IMAGE_BYTES = 23 * _MIB
MOST_IMAGE_BYTES = 1000 * _MIB


@dataclass(frozen=True, slots=True)
class ImageLocality:
    """The score: the bytes that need not be pulled, less for an image that few nodes hold."""

    name: str = "ImageLocality"
    weight: int = 1
    scaled: bool = False
    reverse: bool = False
    concerns: int = field(default=Feature.IMAGES, init=False)

    def points(self, pod_class: PodClass, nodes: NodeColumns) -> Scores:
        """Return int64[rows] in 0..MAX_SCORE."""
        containers = (*pod_class.spec.init_containers, *pod_class.spec.containers)
        total = np.zeros(len(nodes), dtype=np.int64)
        found = False
        for container in containers:
            name = normalised(container.image)
            holders = nodes.images.holders(name)
            if holders:
                part = len(holders) / nodes.count
                total += (nodes.images.sizes(name, len(nodes)) * part).astype(np.int64)
                found = True
        if not found:
            return total
        most = MOST_IMAGE_BYTES * len(containers)
        return (np.clip(total, LEAST_IMAGE_BYTES, most) - LEAST_IMAGE_BYTES) * MAX_SCORE // (most - LEAST_IMAGE_BYTES)
