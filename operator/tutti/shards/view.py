"""What of a cluster the engine of one shard is told.

    of its namespaces    pods, Workloads, PodGroups, LocalQueues, owners, gangs of other projects, asks for nodes
    of its nodes         the nodes, and the room that pods of others take there
    of its trees         ClusterQueues and Cohorts: of those of others it knows nothing, so nothing is lent or borrowed
    of all               namespaces, flavors, topologies, priorities, volumes, devices, budgets, what selects pods

A pod of its own namespaces that runs on a node of another shard is its own all the same: the node is lent to the engine
without any room, so that the pod is where it is and nothing is added to it. A pod of another shard on a node of its own
takes room there, as one of another scheduler does. Devices that several nodes share are the default shard's: nothing
else would keep two shards from promising one to two.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from tutti.api.core import Node, NodeStatus, Pod
from tutti.api.shards import DEFAULT_SHARD, SHARD_ANNOTATION
from tutti.engine.records import observations as seen
from tutti.engine.records.device_observations import SliceSeen
from tutti.engine.records.provisioning import ProvisioningSeen
from tutti.shards.ownership import CLUSTER_QUEUE, COHORT, NAMESPACE, NODE, Holding, Ownership, annotations_in

_TREES: Final = (CLUSTER_QUEUE, COHORT)
_replaced: Final = msgspec.structs.replace


class ShardView:
    """Passes on what is observed as far as it is one shard's.

    Attributes:
        held: What the engine may use, for as long as it lives.

    Args:
        shard: The one whose engine it is.
        ownership: Is told what is seen here, and says whose it is.
        schedulers: The `schedulerName`s whose pods are ours.
        observe: Told what the engine is to be told.
    """

    def __init__(
        self,
        shard: str,
        ownership: Ownership,
        schedulers: Collection[str],
        observe: Callable[[seen.AnyObservation], None],
    ) -> None:
        self.shard = shard
        self.held = ownership.used_by(shard)
        self._ownership = ownership
        self._schedulers = frozenset(schedulers)
        self._observe = observe
        self._nodes: dict[str, Node] = {}  # those of others, without their room
        self._lent: set[str] = set()
        self._guests: dict[tuple[str, str], tuple[str, str]] = {}  # pods of others that were told: uid and node
        self._passed_over: Counter[str] = Counter()  # what was seen in namespaces of others and not told
        self._told: Counter[str] = Counter()  # what was told of namespaces that are held
        self._kept: dict[str, list[seen.AnyObservation]] = {}  # what was seen in namespaces that are to come
        self._queues: dict[Holding, dict[str, Any]] = {}  # ClusterQueues and Cohorts as they were seen last
        self._on_hold: set[Holding] = set()

    def observe(self, observation: seen.AnyObservation) -> None:
        """Take in what was observed, and pass on what of it is this shard's."""
        for one in self._route(observation):
            self._observe(one)

    def _route(self, observation: seen.AnyObservation) -> Iterator[seen.AnyObservation]:  # noqa: PLR0911 - one way each
        match observation:
            case seen.PodSeen(pod=pod):
                return self._pod_seen(pod)
            case seen.PodGone(namespace=namespace, name=name):
                self._guests.pop((namespace, name), None)
                return self._in_namespace(namespace, observation, always=True)
            case seen.NodeSeen(node=node):
                return self._node_seen(node)
            case seen.NodeGone(name=name):
                return self._node_gone(observation, name)
            case seen.NamespaceSeen(namespace=namespace):
                return self._namespace_seen(observation, namespace.metadata.name, namespace.metadata.annotations)
            case seen.NamespaceGone(name=name):
                self._ownership.drop(NAMESPACE, "", name)
                self._forget(Holding(NAMESPACE, name))
                return iter((observation,))
            case seen.ObjectSeen(kind=kind, raw=raw):
                return self._object_seen(observation, kind, raw)
            case seen.ObjectGone(kind=kind, namespace=namespace, name=name):
                self._ownership.drop(kind, namespace, name)
                self._queues.pop(Holding(kind, name), None)
                if kind in _TREES:
                    self._forget(Holding(kind, name))
                return self._in_namespace(namespace, observation, always=True)
            case seen.ObjectUnread(kind="Node", name=name):
                told = Holding(NODE, name) in self.held or name in self._lent
                return iter((observation,) if told else ())
            case SliceSeen(found=found):
                return iter((observation,) if found.spec.node_name or self.shard == DEFAULT_SHARD else ())
            case _:
                return self._in_namespace(_namespace_of(observation), observation)

    # Namespaces.

    def _in_namespace(
        self, namespace: str, observation: seen.AnyObservation, *, always: bool = False
    ) -> Iterator[seen.AnyObservation]:
        """Pass on what is in a namespace of this shard, or in none; keep it where the namespace is to come.

        Args:
            namespace: Empty for what is in none.
            observation: The one.
            always: Whether it is told although the namespace is another's: that something is gone harms nobody.
        """
        if not namespace or Holding(NAMESPACE, namespace) in self.held:
            self._told[namespace] += not always
            yield observation
            return
        if always:
            if namespace in self._kept:
                self._kept[namespace].append(observation)
            yield observation
        else:
            self._keep(namespace, observation)

    def _keep(self, namespace: str, observation: seen.AnyObservation) -> None:
        """Keep what is in a namespace that is to come, or was not seen yet: streams tell in any order."""
        if namespace in self._kept or not self._ownership.knows(Holding(NAMESPACE, namespace)):
            self._kept.setdefault(namespace, []).append(observation)
        else:
            self._passed_over[namespace] += 1

    def _namespace_seen(
        self, observation: seen.AnyObservation, name: str, annotations: Mapping[str, str]
    ) -> Iterator[seen.AnyObservation]:
        holding = Holding(NAMESPACE, name)
        new = not self._ownership.knows(holding)
        self._ownership.put_namespace(name, annotations)
        self._hold_if_new(holding, annotations, new=new)
        yield observation
        if holding in self.held:
            for one in self._kept.pop(name, ()):
                yield from self._route(one)
        elif self._ownership.due(holding) != self.shard:
            self._passed_over[name] += len(self._kept.pop(name, ()))

    def is_fresh(self, namespace: str) -> bool:
        """Whether nothing in a namespace that is to come was passed over: it can be taken by an engine that runs."""
        return namespace in self._kept

    def is_untouched(self, namespace: str) -> bool:
        """Whether the engine was told nothing of what is in a namespace: it can be given up by one that runs."""
        return not self._told[namespace]

    def _expect(self, namespace: str) -> None:
        """Keep from now on what is seen in a namespace that is due to this shard, where nothing was passed over."""
        holding = Holding(NAMESPACE, namespace)
        untold = holding not in self.held and not self._passed_over[namespace]
        if untold and self._ownership.due(holding) == self.shard:
            self._kept.setdefault(namespace, [])

    # What is taken and given up while the engine runs.

    def _hold_if_new(self, holding: Holding, annotations: Mapping[str, str], *, new: bool) -> None:
        """Have the default shard use at once what was made just now: nobody else can have had it."""
        made_now = new and self.shard == DEFAULT_SHARD and SHARD_ANNOTATION not in annotations
        if made_now and self._ownership.belongs(holding, self.shard):
            self.held.add(holding)

    def arrived(self) -> list[Holding]:
        """Return what is this shard's by now, and is not used yet."""
        return sorted(self._ownership.held_by(self.shard) - self.held)

    def lost(self) -> set[Holding]:
        """Return what is used and another shard has: an engine that knows it must not go on."""
        return {one for one in self.held if self._ownership.has(one) not in ("", self.shard)}

    def take_node(self, name: str, node: Node, pods: Iterable[Pod]) -> None:
        """Use a node from now on; `pods` are those on it, read after it had become this shard's."""
        self.held.add(Holding(NODE, name))
        self._nodes.pop(name, None)
        self._lent.discard(name)
        self._observe(seen.NodeSeen(node))
        for pod in pods:
            self.observe(seen.PodSeen(pod))

    def take_namespace(self, name: str) -> None:
        """Use a namespace from now on of which nothing was passed over; none of its pods has a node yet."""
        self.held.add(Holding(NAMESPACE, name))
        for one in self._kept.pop(name, ()):
            self.observe(one)

    def give_up(self, holding: Holding) -> None:
        """Use something no more of which the engine knows nothing yet."""
        self.held.discard(holding)

    def _forget(self, holding: Holding) -> None:
        self.held.discard(holding)
        if holding.kind == NAMESPACE:
            for counted in (self._told, self._passed_over):
                counted.pop(holding.name, None)
            self._kept.pop(holding.name, None)

    # Trees.

    def _object_seen(
        self, observation: seen.AnyObservation, kind: str, raw: dict[str, Any]
    ) -> Iterator[seen.AnyObservation]:
        meta, spec = raw.get("metadata") or {}, raw.get("spec")
        spec = spec if isinstance(spec, dict) else {}
        name, namespace = str(meta.get("name", "")), str(meta.get("namespace", ""))
        if kind == "LocalQueue":
            leads_to = spec.get("clusterQueue")
            created = str(meta.get("creationTimestamp", ""))
            self._ownership.put_local_queue(namespace, name, created, leads_to if isinstance(leads_to, str) else "")
            self._expect(namespace)
            # Of a namespace of another shard it is told once that is this one's, and by itself makes nobody wait.
            if Holding(NAMESPACE, namespace) in self.held:
                yield observation
            else:
                self._keep(namespace, observation)
            return
        if kind not in _TREES:
            yield from self._in_namespace(namespace, observation)
            return
        holding, annotations = Holding(kind, name), annotations_in(raw)
        new = not self._ownership.knows(holding)
        above = spec.get("cohortName" if kind == CLUSTER_QUEUE else "parentName")
        above = above if isinstance(above, str) else ""
        put = self._ownership.put_cluster_queue if kind == CLUSTER_QUEUE else self._ownership.put_cohort
        put(name, above, annotations)
        self._hold_if_new(holding, annotations, new=new)
        if holding in self.held:
            self._queues[holding] = raw
            yield seen.ObjectSeen(kind, self._as_told(holding, raw))

    def _as_told(self, holding: Holding, raw: dict[str, Any]) -> dict[str, Any]:
        """Return a ClusterQueue as it is, or closed where it is to go to another shard: else it would never be free."""
        leaves = holding.kind == CLUSTER_QUEUE and self._ownership.due(holding) != self.shard
        (self._on_hold.add if leaves else self._on_hold.discard)(holding)
        spec = raw.get("spec")
        return {**raw, "spec": {**spec, "stopPolicy": "Hold"}} if leaves and isinstance(spec, dict) else raw

    def restate(self) -> None:
        """Tell the engine anew of the ClusterQueues that are to leave since, or are not any more."""
        for holding, raw in self._queues.items():
            leaves = holding.kind == CLUSTER_QUEUE and self._ownership.due(holding) != self.shard
            if leaves != (holding in self._on_hold):
                self._observe(seen.ObjectSeen(holding.kind, self._as_told(holding, raw)))

    # Nodes and pods.

    def _node_seen(self, node: Node) -> Iterator[seen.AnyObservation]:
        meta = node.metadata
        holding = Holding(NODE, meta.name)
        new = not self._ownership.knows(holding)
        self._ownership.put_node(meta.name, meta.labels, meta.annotations)
        self._hold_if_new(holding, meta.annotations, new=new)
        if holding in self.held:
            yield seen.NodeSeen(node)
            return
        self._nodes[meta.name] = roomless(node)
        if meta.name in self._lent:
            yield seen.NodeSeen(self._nodes[meta.name])

    def _node_gone(self, observation: seen.AnyObservation, name: str) -> Iterator[seen.AnyObservation]:
        told = Holding(NODE, name) in self.held or name in self._lent
        self._ownership.drop(NODE, "", name)
        self._forget(Holding(NODE, name))
        self._nodes.pop(name, None)
        self._lent.discard(name)
        if told:
            yield observation

    def _pod_seen(self, pod: Pod) -> Iterator[seen.AnyObservation]:
        meta, where = pod.metadata, pod.spec.node_name
        ours = pod.spec.scheduler_name in self._schedulers
        if Holding(NAMESPACE, meta.namespace) in self.held:
            self._told[meta.namespace] += ours
            if ours and where and Holding(NODE, where) not in self.held and where not in self._lent:
                self._lent.add(where)
                if where in self._nodes:
                    yield seen.NodeSeen(self._nodes[where])
            yield seen.PodSeen(pod)
            return
        self._keep(meta.namespace, seen.PodSeen(pod))
        key = (meta.namespace, meta.name)
        if where and (Holding(NODE, where) in self.held or self._is_to_come(where)):
            self._guests[key] = meta.uid, where
            yield seen.PodSeen(as_guest(pod) if ours else pod)
        elif key in self._guests and self._guests[key][0] != meta.uid:
            uid, _ = self._guests.pop(key)
            yield seen.PodGone(*key, uid)

    def _is_to_come(self, node: str) -> bool:
        """Whether a node was not seen yet that may be this shard's without anybody's word: pods may be seen before."""
        return self.shard == DEFAULT_SHARD and not self._ownership.knows(Holding(NODE, node))


def roomless(node: Node) -> Node:
    """Return a node as it is, but with room for nobody."""
    return _replaced(node, status=NodeStatus(conditions=node.status.conditions))


def as_guest(pod: Pod) -> Pod:
    """Return a pod of another shard as one that another scheduler has placed."""
    return _replaced(pod, spec=_replaced(pod.spec, scheduler_name=f"{pod.spec.scheduler_name}/another-shard"))


def _namespace_of(observation: seen.AnyObservation) -> str:
    """Return the namespace whose shard an observation concerns; "" where it concerns all."""
    match observation:
        case seen.GangObjectSeen(raw=raw):
            return str((raw.get("metadata") or {}).get("namespace", ""))
        case seen.OwnerSeen(found=found):
            return found.namespace
        case ProvisioningSeen(found=request):
            return request.namespace
        case _:
            return ""
