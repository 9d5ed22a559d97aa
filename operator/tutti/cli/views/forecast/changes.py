"""What may be asked to be otherwise, as an operator would see it: objects, nodes and pods that change at one moment."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import yaml

from tutti.api.core import Namespace, ObjectMeta, Pod
from tutti.api.frameworks import KindTable
from tutti.api.frameworks.fields import FieldReader
from tutti.api.kinds import KINDS, ObjectError, parse_object
from tutti.api.messages import counted
from tutti.api.model import API_VERSION
from tutti.api.quantity import QuantityError, parse_quantity
from tutti.cli.views.drain.checking import drained_fate
from tutti.cli.views.drain.trial import PodFate
from tutti.cli.views.explain.wanted import WantedError, pods_of_workloads, wanted_in_file
from tutti.cli.views.manifests import ManifestError, documents_of
from tutti.cli.views.what_if import (
    ObservedCluster,
    Seen,
    changed,
    claims_of,
    cordoned,
    key_of,
    nodes_like,
    reports_like,
    successors,
)
from tutti.cluster.pods import PodKey
from tutti.engine.records.observations import (
    AnyObservation,
    NamespaceSeen,
    NodeSeen,
    ObjectSeen,
    PodGone,
    PodSeen,
    PriorityClassSeen,
)
from tutti.engine.records.workloads import WorkloadKey

MOST_ADDED = 10_000
"""How many nodes may be added at once."""
_MOST = 1000
"""Entries of a list in an object that are looked at."""
_NAMED = 10
"""How many of what there is are named where something is not there."""
_WORK = ("Workload", "PodGroup")


class ChangeError(ValueError):
    """A change that cannot be made to this cluster; the message says why, and what would be right."""


@dataclass(frozen=True, slots=True)
class AskedChange:
    """A change.

    Attributes:
        what: In words.
        seen: What an operator sees of it, in this order.
        submits: The workloads that are submitted with it; its pods alone, where they are of none.
        leave: The pods that lose their node by it.
        notes: What it leaves out.
    """

    what: str
    seen: Sequence[AnyObservation]
    submits: frozenset[WorkloadKey] = frozenset()
    leave: frozenset[PodKey] = frozenset()
    notes: tuple[str, ...] = ()


def submission(text: str, name: str, namespace: str, table: KindTable, seen: Seen, at: float) -> list[AskedChange]:
    """Return what a manifest changes: objects of ours that others go by, and work that is submitted.

    Args:
        text: YAML or JSON.
        name: Of the work that is asked about; "": all of it.
        namespace: Of those that name none.
        table: The kinds that make pods.
        seen: What there is.
        at: When it is submitted, Unix seconds.

    Raises:
        ChangeError: It cannot be read, or would be refused.
    """
    settings, work = _split(text)
    changes = [_applied(document, seen) for document in settings]
    if not work:
        return changes
    try:
        wanted = wanted_in_file(yaml.safe_dump_all(work), name, namespace, table, at, several=not name)
        pods = pods_of_workloads(wanted.seen)
    except WantedError as error:
        raise ChangeError(str(error)) from None
    told = [*wanted.seen, *pods]
    keys = frozenset(
        (one.kind, str(one.raw["metadata"]["namespace"]), str(one.raw["metadata"]["name"]))
        if isinstance(one, ObjectSeen)
        else ("Pod", *key_of(one.pod))
        for one in told
        if isinstance(one, ObjectSeen | PodSeen)
    )
    spaces = {one.namespace.metadata.name for one in seen if isinstance(one, NamespaceSeen)}
    new = sorted({space for _, space, _ in keys} - spaces)
    notes = [*wanted.notes, *(f"there is no namespace {space}; one without labels is taken" for space in new)]
    taken = _taken(keys, seen)
    if taken:
        notes.append(f"{taken} is there already, and is taken to be replaced")
    spaces_seen = [NamespaceSeen(Namespace(ObjectMeta(name=space))) for space in new]
    what = " and ".join(f"{one['kind']} {(one.get('metadata') or {}).get('name', '')}" for one in work[:3])
    more = f" and {len(work) - 3} more" if len(work) > 3 else ""  # noqa: PLR2004 - as many as are named
    return [*changes, AskedChange(f"{what}{more} is submitted", [*spaces_seen, *told], keys, notes=tuple(notes))]


def _split(text: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the objects of ours that say how things are, and everything else."""
    try:
        documents = [one.raw for one in documents_of(text)]
    except ManifestError as error:
        raise ChangeError(str(error)) from None
    ours = [one for one in documents if one.get("apiVersion") == API_VERSION and one.get("kind") not in _WORK]
    mine = {id(one) for one in ours}
    return ours, [one for one in documents if id(one) not in mine]


def _taken(keys: Iterable[WorkloadKey], seen: Seen) -> str:
    there = {("Pod", *key_of(one.pod)) for one in seen if isinstance(one, PodSeen)}
    for one in seen:
        if isinstance(one, ObjectSeen):
            meta = one.raw.get("metadata") or {}
            there.add((one.kind, str(meta.get("namespace", "")), str(meta.get("name", ""))))
    return next((" ".join((kind, f"{space}/{name}")) for kind, space, name in sorted(set(keys) & there)), "")


def _applied(document: Mapping[str, Any], seen: Seen) -> AskedChange:
    kind = str(document.get("kind"))
    said = document.get("metadata")
    meta = dict(said) if isinstance(said, dict) else {}
    name, space = str(meta.get("name", "")), str(meta.get("namespace", ""))
    if kind not in KINDS or not name:
        raise ChangeError(f"{kind or 'a document'} {name}: must be one of {', '.join(sorted(KINDS))}, with a name")
    found = _object(seen, kind, space, name)
    before = (found or {}).get("metadata") or {"uid": f"asked-{kind}-{name}", "generation": 1}
    raw = {**document, "metadata": {**before, **meta}}
    return _checked(f"{kind} {name} is {'changed' if found else 'made'} as the manifest says", kind, raw)


def _checked(what: str, kind: str, raw: dict[str, Any]) -> AskedChange:
    try:
        parse_object(kind, raw)
    except ObjectError as error:
        raise ChangeError(f"{what}: {' '.join(str(error).split())}") from None
    return AskedChange(what, [ObjectSeen(kind, raw)])


def _object(seen: Seen, kind: str, space: str, name: str) -> dict[str, Any] | None:
    for one in seen:
        if isinstance(one, ObjectSeen) and one.kind == kind:
            meta = one.raw.get("metadata") or {}
            if (str(meta.get("namespace", "")), str(meta.get("name", ""))) == (space, name):
                return one.raw
    return None


def quota_change(asked: str, seen: Seen) -> AskedChange:
    """Return that a ClusterQueue has another nominal quota: `QUEUE:[FLAVOR:]RESOURCE=AMOUNT`.

    Raises:
        ChangeError: There is no such queue, flavor or resource in it.
    """
    where, sign, amount = asked.rpartition("=")
    parts = where.split(":")
    if not sign or len(parts) not in (2, 3) or not all(parts):
        raise ChangeError(f"--quota is written QUEUE:[FLAVOR:]RESOURCE=AMOUNT, not {asked!r}")
    try:
        parse_quantity(amount)
    except QuantityError as error:
        raise ChangeError(f"--quota {asked}: {error}") from None
    queue, resource, flavor = parts[0], parts[-1], parts[1] if len(parts) > 2 else ""  # noqa: PLR2004 - with a flavor

    def change(raw: dict[str, Any]) -> None:
        quotas = [
            (one.text("name"), quota.text("name"), quota.raw)
            for group in FieldReader(raw).entries("spec.resourceGroups", _MOST)
            for one in group.entries("flavors", _MOST)
            for quota in one.entries("resources", _MOST)
        ]
        fields = [(name, quota) for name, what, quota in quotas if what == resource]
        named = [quota for name, quota in fields if flavor in ("", name)]
        if not named:
            there = ", ".join(dict.fromkeys(f"{name}:{what}" for name, what, _ in quotas)) or "none"
            wanted = f"{resource} in {flavor}" if flavor else resource
            raise ChangeError(f"ClusterQueue {queue} has no quota of {wanted}; it has {there}")
        if len(named) > 1:
            flavors = ", ".join(name for name, _ in fields)
            raise ChangeError(f"ClusterQueue {queue} has {resource} in several flavors; say which one: {flavors}")
        named[0]["nominalQuota"] = amount

    return _changed(seen, "ClusterQueue", queue, f"ClusterQueue {queue} has {amount} {resource} of its own", change)


def weight_change(asked: str, seen: Seen) -> AskedChange:
    """Return that a ClusterQueue, or a Cohort, has another weight: `QUEUE=WEIGHT`.

    Raises:
        ChangeError: There is none of that name, or the weight is none.
    """
    name, sign, weight = asked.rpartition("=")
    if not sign or not name or not weight:
        raise ChangeError(f"--weight is written QUEUE=WEIGHT, not {asked!r}")
    kind = "Cohort" if _object(seen, "ClusterQueue", "", name) is None and _object(seen, "Cohort", "", name) else ""

    def change(raw: dict[str, Any]) -> None:
        raw["spec"] = {**FieldReader(raw).mapping("spec"), "fairSharing": {"weight": weight}}

    kind = kind or "ClusterQueue"
    return _changed(seen, kind, name, f"{kind} {name} has weight {weight}", change)


def _changed(seen: Seen, kind: str, name: str, what: str, change: Callable[[dict[str, Any]], None]) -> AskedChange:
    found = _object(seen, kind, "", name)
    if found is None:
        there = sorted(
            str((one.raw.get("metadata") or {}).get("name"))
            for one in seen
            if isinstance(one, ObjectSeen) and one.kind == kind
        )
        raise ChangeError(f"there is no {kind} {name}; there are {', '.join(there[:10]) or 'none'}")
    raw = copy.deepcopy(found)
    change(raw)
    return _checked(what, kind, raw)


def priority_change(asked: str, cluster: ObservedCluster) -> AskedChange:
    """Return that work which is there has another priority: `NAMESPACE/NAME=PRIORITYCLASS`.

    Raises:
        ChangeError: There is no such work or class.
    """
    whose, sign, name = asked.rpartition("=")
    space, slash, work = whose.partition("/")
    if not sign or not slash or not name or not work:
        raise ChangeError(f"--priority is written NAMESPACE/NAME=PRIORITYCLASS, not {asked!r}")
    seen = cluster.listed.seen
    classes = {
        one.priority_class.metadata.name: one.priority_class.value for one in seen if isinstance(one, PriorityClassSeen)
    }
    if name not in classes:
        raise ChangeError(f"there is no PriorityClass {name}; there are {', '.join(sorted(classes)[:10]) or 'none'}")
    workloads = cluster.stock().state.workloads
    found = [workloads[key] for key in workloads if key[1:] == (space, work)]
    if not found:
        raise ChangeError(f"there is no Workload, PodGroup or single pod {whose} in any queue")
    told: list[AnyObservation] = []
    members: set[PodKey] = set()
    for workload in found:
        members |= {member.pod.key for member in workload.members()}
        raw = _object(seen, *workload.key)
        if raw is not None:
            said = _PRIORITY_FIELDS[workload.key[0]](name)
            told.append(ObjectSeen(workload.key[0], {**raw, "spec": {**FieldReader(raw).mapping("spec"), **said}}))
    for one in seen:
        if isinstance(one, PodSeen) and key_of(one.pod) in members:
            spec = changed(one.pod.spec, priority=classes[name], priority_class_name=name)
            told.append(PodSeen(changed(one.pod, spec=spec)))
    return AskedChange(f"{whose} has the priority class {name} ({classes[name]})", told)


_PRIORITY_FIELDS: dict[str, Callable[[str], dict[str, Any]]] = {
    "Workload": lambda name: {
        "priorityClassRef": {"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": name}, "priority": None,
    },
    "PodGroup": lambda name: {"priorityClassName": name},
}  # fmt: skip


def drain_change(node: str, seen: Seen) -> AskedChange:
    """Return that a node is drained: it takes no more pods, and what is on it is made again elsewhere, if anything is.

    Raises:
        ChangeError: There is no such node.
    """
    found = next((one.node for one in seen if isinstance(one, NodeSeen) and one.node.metadata.name == node), None)
    if found is None:
        raise ChangeError(f"there is no node {node}; {_nodes_there(seen)}")
    here = [one.pod for one in seen if isinstance(one, PodSeen) and one.pod.spec.node_name == node]
    fates = [(pod, drained_fate(pod)) for pod in here]
    told: list[AnyObservation] = [NodeSeen(cordoned(found))]
    leaving = [pod for pod, fate in fates if fate in (PodFate.MOVES, PodFate.LOST)]
    told += [PodGone(*key_of(pod), pod.metadata.uid) for pod in leaving]
    for pod in (pod for pod, fate in fates if fate is PodFate.MOVES):
        told += _again(seen, pod)
    lost = [pod for pod, fate in fates if fate is PodFate.LOST]
    notes = (f"nothing makes {counted(len(lost), 'pod')} of {node} again",) if lost else ()
    return AskedChange(f"node {node} is drained", told, leave=frozenset(map(key_of, leaving)), notes=notes)


def _nodes_there(seen: Seen) -> str:
    """Say which nodes there are, the first of them."""
    names = sorted(one.node.metadata.name for one in seen if isinstance(one, NodeSeen))
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"there are {', '.join(names[:_NAMED])}{more}" if names else "there are none"


def _again(seen: Seen, pod: Pod) -> Iterator[AnyObservation]:
    (new,) = successors(pod, 1)
    yield from claims_of(seen, pod, new.pod)
    yield new


def added_nodes(asked: str, seen: Seen) -> AskedChange:
    """Return that there are more nodes like one: `NODE=COUNT`.

    Raises:
        ChangeError: There is no such node, or the count is none.
    """
    name, sign, count = asked.rpartition("=")
    if not sign or not count.isdecimal() or not 1 <= int(count) <= MOST_ADDED:
        raise ChangeError(f"--add-nodes is written NODE=COUNT, with a count within 1 and {MOST_ADDED}, not {asked!r}")
    found = next((one.node for one in seen if isinstance(one, NodeSeen) and one.node.metadata.name == name), None)
    if found is None:
        raise ChangeError(f"there is no node {name} that new ones could be like; {_nodes_there(seen)}")
    fresh = msgspec.structs.replace(found, spec=msgspec.structs.replace(found.spec, unschedulable=False))
    told = [*nodes_like(fresh, int(count)), *reports_like(seen, fresh, int(count))]
    return AskedChange(f"there {'is' if count == '1' else 'are'} {counted(int(count), 'more node')} like {name}", told)
