"""Preemption of one pod as kube-scheduler's rule is written down: each node by itself, one pod after another.

Every question is asked of a cluster made anew of exactly the pods that would be there.
Rule: kube-scheduler 1.36, plugins/defaultpreemption (SelectVictimsOnNode, filterPodsWithPDBViolation) and
framework/preemption (pickOneNodeForPreemption).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import msgspec

from tutti.api.core import Namespace, Node, Pod, PriorityClass
from tutti.api.limits import PodDisruptionBudget
from tutti.cluster.cluster import Cluster
from tutti.cluster.label_index import PodSelecting
from tutti.cluster.storage import StorageObject
from tutti.placement.profile import FilterResult, filter_nodes


@dataclass
class World:
    """Everything that exists, and a pod that wants a node."""

    nodes: Sequence[Node]
    pods: Sequence[Pod]
    probe: Pod
    budgets: Sequence[PodDisruptionBudget] = ()
    namespaces: Sequence[Namespace] = ()
    classes: Sequence[PriorityClass] = ()
    selecting: Sequence[PodSelecting] = ()
    storage: Sequence[StorageObject] = ()

    def cluster(self, without: Sequence[Pod] = ()) -> Cluster:
        """All of it but some pods, and without the one that wants a node."""
        cluster = Cluster()
        for namespace in self.namespaces:
            cluster.put_namespace(namespace.metadata.name, namespace.metadata.labels)
        for selecting in self.selecting:
            cluster.put_selecting(selecting)
        for stored in self.storage:
            cluster.put_storage(stored)
        for node in self.nodes:
            cluster.put_node(node)
        for pod in self.pods:
            if pod not in without:
                cluster.put_pod(pod, keep=False)
        return cluster

    def assessed(self, without: Sequence[Pod] = ()) -> dict[str, tuple[bool, bool]]:
        """By node whether the pod fits there without some others, and whether nobody's leaving could help."""
        cluster = self.cluster(without)
        said = self._assessed(cluster)
        return {
            name: (bool(said.feasible[row]), bool(said.final[row])) for name, row in sorted(cluster.nodes.rows.items())
        }

    def fits(self, node: str, without: Sequence[Pod] = ()) -> bool:
        """Whether the pod fits on a node without some others, both beside those who are nominated there and without."""
        nominated = self._nominated(node)
        alone = self.assessed(without)[node][0]
        return alone and (not nominated or self._beside(nominated).fits(node, without))

    def kept(self) -> frozenset[str]:
        """The nodes where the pod does not fit beside those of no lower priority that are nominated there."""
        named = {pod.status.nominated_node_name for pod in self.pods} - {""}
        return frozenset(node for node in named if self._nominated(node) and not self.fits(node))

    def _nominated(self, node: str) -> list[Pod]:
        """Those of no lower priority that wait for room on a node."""
        there = [pod for pod in self.pods if pod.status.nominated_node_name == node and not pod.spec.node_name]
        return [pod for pod in there if priority(pod) >= priority(self.probe)]

    def _beside(self, nominated: Sequence[Pod]) -> World:
        """The same with pods on the node that they are nominated for."""
        specs = [msgspec.structs.replace(pod.spec, node_name=pod.status.nominated_node_name or "") for pod in nominated]
        there = [msgspec.structs.replace(pod, spec=spec) for pod, spec in zip(nominated, specs, strict=True)]
        return replace(self, pods=[*(pod for pod in self.pods if pod not in nominated), *there])

    def _assessed(self, cluster: Cluster) -> FilterResult:
        record = cluster.put_pod(self.probe, keep=True)
        assert record is not None
        return filter_nodes(record.pod_class, cluster.nodes)


@dataclass
class Cleared:
    """A node and who would have to leave it, those of them that count against a budget also by themselves."""

    node: str
    victims: list[Pod]
    violating: list[Pod] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        return sorted(f"{pod.metadata.namespace}/{pod.metadata.name}" for pod in self.victims)

    @property
    def cost(self) -> tuple[float, ...]:
        """The five tie-breaks; the smaller, the better."""
        return cost(self.victims, len(self.violating))


def cost(victims: Sequence[Pod], violations: int) -> tuple[float, ...]:
    """The five tie-breaks of pickOneNodeForPreemption: whose leaving hurts least has the smallest."""
    highest = max((priority(pod) for pod in victims), default=-(2**31))
    first = min((started(pod) for pod in victims if priority(pod) == highest), default=0.0)
    return (violations, highest, sum(priority(pod) + 2**31 for pod in victims), len(victims), -first)


def preempt(world: World) -> Cleared | None:
    """The node that kube-scheduler would clear for the pod, and who would have to leave it."""
    if world.probe.spec.preemption_policy == "Never":
        return None
    found = [
        _cleared(world, node) for node, (feasible, final) in world.assessed().items() if not feasible and not final
    ]
    return min((one for one in found if one is not None), key=lambda one: one.cost, default=None)


def preempt_beside_leaving(world: World) -> list[Cleared]:
    """What Tutti would clear: what is leaving a node and is of lower priority is gone already. All that cost least."""
    if world.probe.spec.preemption_policy == "Never":
        return []
    found = [_cleared_beside_leaving(world, node) for node, (_, final) in world.assessed().items() if not final]
    some = [one for one in found if one is not None]
    return [one for one in some if one.cost == min(other.cost for other in some)]


def _cleared_beside_leaving(world: World, node: str) -> Cleared | None:
    leaving = [
        pod
        for pod in world.pods
        if pod.spec.node_name == node and pod.metadata.deletion_timestamp and priority(pod) < priority(world.probe)
    ]
    rest = replace(world, pods=[pod for pod in world.pods if pod not in leaving])
    if rest.fits(node):
        return Cleared(node, [])
    cleared = _cleared(rest, node)
    return None if cleared is None else replace(cleared, violating=violating(world.budgets, cleared.victims))


def _cleared(world: World, node: str) -> Cleared | None:
    lower = [
        pod
        for pod in world.pods
        if pod.spec.node_name == node and not pod.terminated and priority(pod) < priority(world.probe)
    ]
    lower.sort(key=lambda pod: (-priority(pod), started(pod)))
    if not lower or not world.fits(node, lower):
        return None
    over = violating(world.budgets, lower)
    gone = list(lower)
    for pod in [*over, *(pod for pod in lower if pod not in over)]:
        without = [other for other in gone if other is not pod]
        if world.fits(node, without):
            gone = without
    return Cleared(node, gone, [pod for pod in over if pod in gone])


def violating(budgets: Sequence[PodDisruptionBudget], pods: Sequence[Pod]) -> list[Pod]:
    """The pods that a budget has no room for when they leave in this order."""
    left = [budget.status.disruptions_allowed for budget in budgets]
    out = []
    for pod in pods:
        covering = [i for i, budget in enumerate(budgets) if _covers(budget, pod)]
        for i in covering:
            left[i] -= 1
        if any(left[i] < 0 for i in covering):
            out.append(pod)
    return out


def _covers(budget: PodDisruptionBudget, pod: Pod) -> bool:
    selector, labels = budget.spec.selector, pod.metadata.labels
    if selector is None or not (selector.match_labels or selector.match_expressions) or not labels:
        return False
    here = budget.metadata.namespace == pod.metadata.namespace
    return here and pod.metadata.name not in budget.status.disrupted_pods and selector.matches(labels)


def priority(pod: Pod) -> int:
    return pod.spec.priority or 0


def started(pod: Pod) -> float:
    said = pod.status.start_time
    return float("inf") if said is None else said.timestamp()


def ours(pod: Pod) -> Pod:
    """The pod as one that the engine is to place, of which nothing has been said yet."""
    spec = msgspec.structs.replace(pod.spec, scheduler_name="tutti", node_name="")
    meta = msgspec.structs.replace(pod.metadata, uid=pod.metadata.uid or "probe")
    return msgspec.structs.replace(pod, spec=spec, metadata=meta, status=type(pod.status)())
