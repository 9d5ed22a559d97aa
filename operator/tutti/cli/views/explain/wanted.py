"""What is asked about, as any cluster would be told of it: a manifest that nobody has submitted, or what another has.

Of what makes pods by a controller that is not here (a Job, a RayJob), nobody but that controller makes them. So it is
asked about as a Workload that promises them: with a pod group for each role, of the size and the minimum that its kind
gives it, and the template of that role.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from tutti.api.conditions import timestamp
from tutti.api.conventions import ConventionError, named_groups
from tutti.api.core import Pod, PodStatus
from tutti.api.frameworks import FrameworkKind, KindTable, OwnerChain, ProjectedOwner, inherited_terms, projected
from tutti.api.frameworks.fields import FieldReader
from tutti.api.frameworks.marks import OWNER_QUEUE_LABELS
from tutti.api.frameworks.roles import PlacedRole, placed_roles
from tutti.api.frameworks.terms import InheritedTerms
from tutti.api.model import API_VERSION, GROUP
from tutti.api.templates import prune_workload
from tutti.cli.views.explain.lookup import find_workload
from tutti.cli.views.manifests import ManifestError, documents_of
from tutti.cli.views.what_if import ObservedCluster, changed, key_of
from tutti.cluster.created_specs import as_created, selecting_by
from tutti.engine.cycle.state import State
from tutti.engine.records.observations import AnyObservation, ObjectSeen, OwnerSeen, PodSeen
from tutti.engine.records.pod_admission import ADMISSION_ANNOTATION
from tutti.engine.records.workloads import WorkloadKey
from tutti.kube.decoding import object_decoder

_DECODE_POD = object_decoder(Pod)
_MOST_POD_GROUPS = 18  # as the definition of Workload has it
_MOST_PODS = 20_000


class WantedError(ValueError):
    """There is nothing that could be asked about; the message says why."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked about.

    Attributes:
        seen: What a cluster is told of it.
        notes: What the answer leaves out.
    """

    namespace: str
    name: str
    seen: Sequence[AnyObservation]
    notes: tuple[str, ...] = ()


def wanted_in_file(
    text: str, name: str, namespace: str, table: KindTable, at: float, *, several: bool = False
) -> Wanted:
    """Return what a manifest asks for.

    Args:
        text: YAML or JSON; several documents make one cluster richer, and one of them is asked about.
        name: Which one; "": the only one.
        namespace: Of those that name none.
        table: The kinds that make pods.
        at: When it would be submitted, Unix seconds.
        several: Whether all of them may be meant.

    Raises:
        WantedError: It cannot be read, or nobody can tell what is meant.
    """
    seen: list[AnyObservation] = []
    asked: dict[tuple[str, str], str] = {}
    notes: list[str] = []
    for number, document in enumerate(_documents(text)):
        made = _Made(document, namespace, f"asked-{number}", at)
        kind = table.get(made.group, made.kind)
        if made.api_version == API_VERSION and made.kind in ("Workload", "PodGroup"):
            seen.append(ObjectSeen(made.kind, prune_workload(made.raw)))
            asked[made.key] = made.kind
        elif (made.api_version, made.kind) == ("v1", "Pod"):
            seen.append(PodSeen(_as_submitted(_pod(made.raw))))
            asked.setdefault(made.key, made.kind)
        elif kind is not None:
            workload, told = _as_workload(made, kind, table)
            seen.append(ObjectSeen("Workload", prune_workload(workload)))
            notes += told
            asked[made.key] = made.kind
        else:
            notes.append(f"{made.kind or 'a document without kind'} {made.key[1]} makes no pods that Tutti knows of")
    groups = {key: kind for key, kind in asked.items() if kind != "Pod"} or asked
    chosen = [key for key in (asked if name else groups) if name in ("", key[1])]
    if not chosen or (len(chosen) > 1 and not several):
        known = ", ".join(f"{kind} {key[1]}" for key, kind in groups.items()) or "nothing that makes pods"
        raise WantedError(f"say by NAME what is asked about: the manifest has {known}")
    return Wanted(*chosen[0], seen, tuple(notes))


def pods_of_workloads(seen: Sequence[AnyObservation]) -> list[PodSeen]:
    """Return the pods that somebody would make of Workloads which have templates and no pods of their own.

    Raises:
        WantedError: A template cannot be read.
    """
    given = {one.pod.metadata.labels.get(named_groups.WORKLOAD) for one in seen if isinstance(one, PodSeen)}
    made: list[PodSeen] = []
    for raw in (one.raw for one in seen if isinstance(one, ObjectSeen) and one.kind == "Workload"):
        meta = raw["metadata"]
        groups = FieldReader(raw).entries("spec.podGroups", _MOST_POD_GROUPS)
        for group in groups if meta["name"] not in given else ():
            template = group.below("template")
            if template is None:
                continue
            group_name = group.text("name")
            own = {named_groups.WORKLOAD: meta["name"], named_groups.POD_GROUP: group_name}
            for rank in range(min(group.number("count") or 1, _MOST_PODS)):
                name = f"{meta['name']}-{group_name}-{rank}"
                about = {
                    "name": name, "namespace": meta["namespace"], "uid": f"{meta['uid']}-{name}", "generation": 1,
                    "creationTimestamp": meta["creationTimestamp"],
                    "labels": {**template.mapping("metadata.labels"), **own},
                    "annotations": template.mapping("metadata.annotations"),
                }  # fmt: skip
                made.append(PodSeen(_pod({"metadata": about, "spec": template.value("spec") or {}})))
    return made


def wanted_elsewhere(asked: ObservedCluster, state: State, namespace: str, name: str) -> Wanted | None:
    """Return what a cluster has of a workload, as another would be told of it; None where it has no such thing."""
    key = find_workload(state, asked.listed, namespace, name)
    if isinstance(key, str):
        return None
    pods = {member.pod.key for member in state.workloads[key].members() if not member.over}
    owners = set(_owners_of(state, key))
    seen: list[AnyObservation] = []
    for one in asked.listed.seen:
        if isinstance(one, ObjectSeen) and _concerns(one, key, state):
            seen.append(ObjectSeen(one.kind, {name: value for name, value in one.raw.items() if name != "status"}))
        elif isinstance(one, OwnerSeen) and one.found.uid in owners:
            seen.append(one)
        elif isinstance(one, PodSeen) and key_of(one.pod) in pods:
            seen.append(PodSeen(_as_submitted(one.pod)))
    claims = any(volume.is_claimed for one in seen if isinstance(one, PodSeen) for volume in one.pod.spec.volumes)
    notes = ("its PersistentVolumeClaims must exist there as well",) if claims else ()
    return Wanted(namespace, name, seen, notes)


def _owners_of(state: State, key: WorkloadKey) -> Iterator[str]:
    """Yield the uids of what makes the pods of a workload, and of what makes that."""
    for member in state.workloads[key].members():
        at = member.marks.owner
        for _ in range(16):
            found = None if at is None else state.owner_graph.known(at.uid)
            if found is None:
                break
            yield found.uid
            at = found.owner


def _concerns(one: ObjectSeen, key: WorkloadKey, state: State) -> bool:
    meta = one.raw.get("metadata") or {}
    whose, name = str(meta.get("namespace", "")), str(meta.get("name", ""))
    is_part = one.kind == "PodGroup" and whose == key[1] and name in state.catalog.referring(*key[1:])
    return (one.kind, whose, name) == key or is_part


def _as_submitted(pod: Pod) -> Pod:
    """Return a pod as it was before any scheduler looked at it."""
    said = {name: text for name, text in pod.metadata.annotations.items() if name != ADMISSION_ANNOTATION}
    meta = changed(pod.metadata, annotations=said, deletion_timestamp=None)
    return changed(pod, metadata=meta, spec=changed(pod.spec, node_name=""), status=PodStatus())


class _Made:
    """A document as the API server would keep it."""

    def __init__(self, document: Mapping[str, Any], namespace: str, uid: str, at: float) -> None:
        self.api_version, self.kind = str(document.get("apiVersion", "")), str(document.get("kind", ""))
        self.group = self.api_version.rpartition("/")[0]
        said = document.get("metadata")
        meta = dict(said) if isinstance(said, dict) else {}
        name = meta.get("name") or (f"{meta['generateName']}asked" if meta.get("generateName") else "")
        if not isinstance(name, str) or not name:
            raise WantedError(f"{self.kind or 'a document'} has no metadata.name")
        space = meta.get("namespace") or namespace
        self.key = (str(space), name)
        own = {"name": name, "namespace": str(space), "uid": uid, "generation": 1, "creationTimestamp": timestamp(at)}
        self.raw = {name: value for name, value in document.items() if name != "status"} | {"metadata": meta | own}


def _documents(text: str) -> Iterator[dict[str, Any]]:
    try:
        for one in documents_of(text):
            yield one.raw
    except ManifestError as error:
        raise WantedError(str(error)) from None


def _pod(raw: Mapping[str, Any]) -> Pod:
    try:
        pod = _DECODE_POD(msgspec.json.encode(raw))
    except (msgspec.MsgspecError, TypeError, ValueError) as error:
        raise WantedError(f"Pod {raw['metadata']['name']} cannot be read: {error}") from None
    return changed(pod, spec=selecting_by(as_created(pod.spec), pod.metadata.labels))


def _as_workload(made: _Made, kind: FrameworkKind, table: KindTable) -> tuple[dict[str, Any], list[str]]:
    """Return the Workload that promises the pods of what makes them, and what the answer leaves out."""
    title = f"{made.kind} {made.key[1]}"
    owner = projected(made.raw, kind, table.ignored)
    roles, problems = placed_roles(made.raw, kind)
    try:
        terms = inherited_terms(OwnerChain((owner,)), table.ignored)
    except ConventionError as error:
        raise WantedError(f"{title}: {error}") from None
    wrong = [*owner.problems, *map(str, problems), *terms.problems]
    if wrong:
        raise WantedError(f"{title}: {'; '.join(dict.fromkeys(wrong))}")
    groups, labels, notes = _groups(made.raw, owner, roles, terms)
    if not groups:
        raise WantedError(f"{title} has no pod template that Tutti knows of: ask about what it makes")
    queue = terms.queue or next((labels[key] for key in OWNER_QUEUE_LABELS if labels.get(key)), "")
    spec: dict[str, Any] = {"podGroups": groups, **({"queueName": queue} if queue else {})}
    if terms.priority_class:
        spec["priorityClassRef"] = {"name": terms.priority_class}
    if terms.maximum_seconds is not None:
        spec["maximumExecutionTimeSeconds"] = terms.maximum_seconds
    if terms.after:
        spec["after"] = [{"workload": name, "when": when} for name, when in terms.after]
    raw = {"apiVersion": f"{GROUP}/v1alpha1", "kind": "Workload", "metadata": made.raw["metadata"], "spec": spec}
    return raw, [f"{title}: {note}" for note in notes]


def _groups(
    raw: Any, owner: ProjectedOwner, roles: Iterable[PlacedRole], terms: InheritedTerms
) -> tuple[list[dict[str, Any]], Mapping[str, str], list[str]]:
    """Return a pod group for each role with pods, the labels of the first template, and what is left out."""
    groups: list[dict[str, Any]] = []
    labels: Mapping[str, str] = {}
    notes = [] if owner.together else ["its pods start one by one; asked is when the first can"]
    roles = list(roles)
    for role, steps in roles:
        count = role.replicas * role.size
        template = _follow(raw, steps)
        if not count or not steps or role.apart:
            continue
        least = role.least * role.size if owner.together else int(not groups)
        if owner.minimum is not None and len(roles) == 1:
            least = owner.minimum
        group = {"name": role.name or "main", "count": count, "minCount": max(1, min(least, count))}
        meta = template.get("metadata")
        labels = labels or ((meta.get("labels") or {}) if isinstance(meta, dict) else {})
        topology = _topology(terms)
        groups.append(group | {"template": template} | ({"topology": topology} if topology else {}))
        notes += ["that its replicas each want a domain of their own is left out"] if role.domain else []
    return groups, labels, notes


def _topology(terms: InheritedTerms) -> dict[str, Any]:
    if terms.topology is None:
        return {}
    said: dict[str, Any] = {"mode": terms.topology.mode}
    if terms.topology.level:
        said["level"] = terms.topology.level
    if terms.topology.slices:
        (level, size), *_ = terms.topology.slices
        said |= {"sliceLevel": level, "sliceSize": size}
    return said


def _follow(raw: Any, steps: Sequence[str | int]) -> dict[str, Any]:
    for step in steps:
        raw = raw[step]
    return raw if isinstance(raw, dict) else {}
