"""The cluster told otherwise than it is: nodes, pods and objects changed, added or left out, to ask what then."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Sequence
from typing import Any

import msgspec

from tutti.api.core import Node, Pod
from tutti.api.storage import BIND_COMPLETED, SELECTED_NODE, VolumePhase
from tutti.cluster.pods import PodKey
from tutti.engine.observations import AnyObservation, ClaimSeen, NodeSeen, ObjectSeen, PodSeen

Seen = Sequence[AnyObservation]
_HOSTNAME = "kubernetes.io/hostname"
_OF_BINDING = (BIND_COMPLETED, SELECTED_NODE)

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


def claims_of(seen: Seen, pod: Pod, copy_of_it: Pod) -> list[ClaimSeen]:
    """Return the claims that a copy of a pod is given for its ephemeral volumes: like the pod's own, but unbound.

    Source: kube-controller-manager 1.36, pkg/controller/volume/ephemeral.
    """
    old, new = pod.metadata, copy_of_it.metadata
    named = {(old.namespace, f"{old.name}-{one.name}"): one.name for one in pod.spec.volumes if one.ephemeral}
    if not named:
        return []
    made = []
    for claim in (one.found for one in seen if isinstance(one, ClaimSeen) and one.found.key in named):
        owners = [changed(one, name=new.name, uid=new.uid) for one in claim.metadata.owner_references]
        said = {name: text for name, text in claim.metadata.annotations.items() if name not in _OF_BINDING}
        name = f"{new.name}-{named[claim.key]}"
        meta = changed(claim.metadata, name=name, uid=f"{new.uid}-{name}", annotations=said, owner_references=owners)
        spec = changed(claim.spec, volume_name="")
        made.append(ClaimSeen(changed(claim, metadata=meta, spec=spec, status=VolumePhase("Pending"))))
    return made


def _meta(one: ObjectSeen) -> tuple[str, str]:
    meta = one.raw.get("metadata") or {}
    return str(meta.get("namespace", "")), str(meta.get("name", ""))
