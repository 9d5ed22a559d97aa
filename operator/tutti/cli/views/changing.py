"""The cluster told otherwise than it is: nodes, pods and objects changed, added or left out, to ask what then."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Sequence
from typing import Any

import msgspec

from tutti.api.core import Node, Pod, PodStatus
from tutti.api.model import GROUP
from tutti.cluster.pods import PodKey
from tutti.engine.records.observations import AnyObservation, NodeSeen, ObjectSeen, PodSeen

Seen = Sequence[AnyObservation]
_HOSTNAME = "kubernetes.io/hostname"

changed = msgspec.structs.replace


def without_pods(seen: Seen, gone: Collection[PodKey]) -> Seen:
    """Leave pods out, as if they had ended and were deleted."""
    return [one for one in seen if not (isinstance(one, PodSeen) and key_of(one.pod) in gone)]


def with_pods(seen: Seen, which: Collection[PodKey], change: Callable[[Pod], Pod]) -> Seen:
    """Change some pods."""
    return [PodSeen(change(one.pod)) if isinstance(one, PodSeen) and key_of(one.pod) in which else one for one in seen]


def with_nodes(seen: Seen, which: Collection[str], change: Callable[[Node], Node]) -> Seen:
    """Change some nodes."""
    return [
        NodeSeen(change(one.node)) if isinstance(one, NodeSeen) and one.node.metadata.name in which else one
        for one in seen
    ]


def with_object(seen: Seen, kind: str, namespace: str, name: str, change: Callable[[dict[str, Any]], None]) -> Seen:
    """Change an object of ours; `change` is given a copy of the document."""
    out: list[AnyObservation] = []
    for one in seen:
        if isinstance(one, ObjectSeen) and one.kind == kind and _meta(one) == (namespace, name):
            raw = copy.deepcopy(one.raw)
            change(raw)
            out.append(ObjectSeen(kind, raw))
        else:
            out.append(one)
    return out


def key_of(pod: Pod) -> PodKey:
    """Return the namespace and name of a pod."""
    return pod.metadata.namespace, pod.metadata.name


def node_of(seen: Seen, name: str) -> Node:
    """Return a node that was listed."""
    return next(one.node for one in seen if isinstance(one, NodeSeen) and one.node.metadata.name == name)


def pod_of(seen: Seen, key: PodKey) -> Pod:
    """Return a pod that was listed."""
    return next(one.pod for one in seen if isinstance(one, PodSeen) and key_of(one.pod) == key)


def like(node: Node, count: int) -> list[NodeSeen]:
    """Return so many more nodes like one, with names of their own and nothing on them."""
    made = []
    for number in range(count):
        name = f"{node.metadata.name}+{number + 1}"
        labels = {**node.metadata.labels, _HOSTNAME: name}
        made.append(NodeSeen(changed(node, metadata=changed(node.metadata, name=name, uid="", labels=labels))))
    return made


def copies(pod: Pod, count: int) -> list[PodSeen]:
    """Return so many more pods like one, with names of their own, that wait for a node."""
    meta = pod.metadata
    names = [(f"{meta.name}+{number + 1}", f"{meta.uid}+{number + 1}") for number in range(count)]
    return [PodSeen(changed(pod, metadata=changed(meta, name=name, uid=uid))) for name, uid in names]


def successors(pod: Pod, count: int) -> list[PodSeen]:
    """Return so many that whoever makes pods like one would make in its place: without a node, and not begun."""
    annotations = {name: said for name, said in pod.metadata.annotations.items() if GROUP not in name}
    meta = changed(pod.metadata, annotations=annotations, deletion_timestamp=None)
    return copies(changed(pod, metadata=meta, spec=changed(pod.spec, node_name=""), status=PodStatus()), count)


def _meta(one: ObjectSeen) -> tuple[str, str]:
    meta = one.raw.get("metadata") or {}
    return str(meta.get("namespace", "")), str(meta.get("name", ""))
