"""Where a trace is played: nodes, queues and a configuration, from files or as they were listed of a live cluster."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import yaml

from tutti.api.configuration import KIND as CONFIGURATION
from tutti.api.configuration import TuttiConfiguration, load_configuration
from tutti.api.core import Namespace, Node, ObjectMeta, PriorityClass
from tutti.api.kinds import KINDS, ObjectError, parse_object
from tutti.api.model import API_VERSION
from tutti.api.resources import parse_amounts
from tutti.cli.views.manifests import ManifestError, objects_in
from tutti.cli.views.what_if import changed
from tutti.engine.records.observations import (
    AnyObservation,
    NamespaceSeen,
    NetworkObjectSeen,
    NodeSeen,
    ObjectSeen,
    PodSeen,
    PriorityClassSeen,
    ThrottleSeen,
)
from tutti.engine.records.plugins import Plugins
from tutti.kube.decoding import object_decoder
from tutti_sim.hollow.nodes import GPU_LABEL, manifest
from tutti_sim.hollow.shapes import Shapes
from tutti_sim.meta.yamlfile import read_yaml
from tutti_simulate.foreign import ForeignObjectError, foreign_of, is_foreign, seen_id
from tutti_simulate.jobs import GPU, GPU_SHARE

TRACE_NAMESPACE = "trace"
"""Where work of a trace is made whose queue the cluster does not have."""
COHORT = "trace"
FLAVOR = "trace"
_WORK = ("Workload", "PodGroup")
_LARGEST_BYTES = 64 * 2**20
_NODE = object_decoder(Node)
_PRIORITY_CLASS = object_decoder(PriorityClass)
_GPU_OF_OPENB = "gpu"
ObjectId = tuple[str, str, str]


class SettingError(ValueError):
    """A file that says nothing of a cluster that can be used; the message says where, and what would be right."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A cluster in which nothing of the trace has come yet.

    Attributes:
        nodes: By name.
        objects: What Tutti goes by, by kind, namespace and name.
        foreign: Throttles, AppGroups and NetworkTopologies, likewise.
        others: What else was listed: pods of other schedulers, namespaces.
        plugins: What the configuration enables of foreign code, made.
        made: Whether the queues were made here, because there were none.
    """

    nodes: Mapping[str, Node] = field(default_factory=dict)
    objects: Mapping[ObjectId, dict[str, Any]] = field(default_factory=dict)
    priority_classes: Mapping[str, PriorityClass] = field(default_factory=dict)
    foreign: Mapping[ObjectId, AnyObservation] = field(default_factory=dict)
    others: Sequence[AnyObservation] = ()
    configuration: TuttiConfiguration = field(default_factory=TuttiConfiguration)
    plugins: Plugins = field(default_factory=dict)
    made: bool = False

    def seen(self) -> Iterator[AnyObservation]:
        """Yield what an engine is told of it."""
        spaces = {one.namespace.metadata.name for one in self.others if isinstance(one, NamespaceSeen)}
        for name in sorted({space for _, space, _ in (*self.objects, *self.foreign) if space} - spaces):
            yield NamespaceSeen(Namespace(ObjectMeta(name=name)))
        for priority in self.priority_classes.values():
            yield PriorityClassSeen(priority)
        for node in self.nodes.values():
            yield NodeSeen(node)
        for (kind, _, _), raw in self.objects.items():
            yield ObjectSeen(kind, raw)
        yield from self.foreign.values()
        yield from self.others

    def capacity(self) -> dict[str, int]:
        """Return what all nodes offer together, in scheduling units."""
        found: dict[str, int] = {}
        for node in self.nodes.values():
            for resource, units in parse_amounts(node.status.allocatable).items():
                found[resource] = found.get(resource, 0) + units
        return found

    def largest(self, resource: str) -> int:
        """Return what the largest node offers of a resource, in scheduling units."""
        return max((parse_amounts(node.status.allocatable).get(resource, 0) for node in self.nodes.values()), default=0)


def setting_of(files: Iterable[Path], before: Setting | None = None) -> Setting:
    """Return the cluster that files describe, on top of one where that is given.

    Files are YAML of any number of documents, each a fleet as `tutti cluster --shapes` reads it, a manifest (Node,
    PriorityClass or a kind of Tutti's), or a TuttiConfiguration; or the list of nodes of Alibaba's openb trace (csv).
    Objects replace those of the same name; nodes of a file replace all nodes there were.

    Raises:
        SettingError: One of them cannot be used.
        ConfigurationError: A fleet or a configuration is not as it should be.
    """
    found = before or Setting()
    for path in files:
        try:
            if path.stat().st_size > _LARGEST_BYTES:
                raise SettingError(f"{path} is larger than {_LARGEST_BYTES} bytes")
            text = path.read_text("utf-8")
        except OSError as error:
            raise SettingError(f"{path} cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise SettingError(f"{path} is no text in UTF-8") from None
        if path.suffix == ".csv":
            found = replace(found, nodes=_openb_nodes(text, str(path)))
        else:
            found = _with_documents(found, text, str(path))
    return found


def _with_documents(setting: Setting, text: str, origin: str) -> Setting:
    try:
        read = [one for one in yaml.safe_load_all(text) if one is not None]
        documents = [
            found for number, one in enumerate(read, start=1) for found in _listed(one, f"{origin}, document {number}")
        ]
    except ManifestError as error:
        raise SettingError(str(error)) from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise SettingError(f"{origin}: this is not YAML: {' '.join(str(error).split())}") from None
    nodes: dict[str, Node] = {}
    objects, classes, foreign = dict(setting.objects), dict(setting.priority_classes), dict(setting.foreign)
    configuration = setting.configuration
    for number, (where, found) in enumerate(documents, start=1):
        document = _plain(found, where)
        if not isinstance(document, dict):
            raise SettingError(f"{where}: must be a mapping: a fleet (nodes: ...) or a manifest with a kind")
        kind, name = document.get("kind"), _name(document)
        if kind is None:
            shapes = read_yaml(yaml.safe_dump(document), Shapes, where)
            nodes |= {one["metadata"]["name"]: _node(one, where) for one in shapes.manifests()}
        elif kind == CONFIGURATION:
            configuration = load_configuration(yaml.safe_dump(document), where)
        elif kind == "Node":
            nodes[name] = _node(document, where)
        elif kind == "PriorityClass":
            classes[name] = _decoded(_PRIORITY_CLASS, document, where)
        elif document.get("apiVersion") == API_VERSION and kind not in _WORK:
            raw = _checked_object(document, str(kind), where, number)
            objects[str(kind), str(raw["metadata"].get("namespace", "")), name] = raw
        elif is_foreign(document):
            key, seen = _foreign(document, name, where)
            foreign[key] = seen
        elif kind in _WORK:
            raise SettingError(f"{where}: a {kind} is work, and work comes from the trace")
        else:
            raise SettingError(
                f"{where}: {kind} says nothing of a cluster; use a fleet, Node, kinds of {API_VERSION}, or Throttle, "
                "ClusterThrottle, AppGroup and NetworkTopology of their projects"
            )
    return replace(
        setting,
        nodes=nodes or setting.nodes,
        objects=objects,
        priority_classes=classes,
        foreign=foreign,
        configuration=configuration,
    )


def _plain(document: Any, where: str) -> Any:
    """Return a document as a server is sent it: times that YAML has made of text are text again."""
    try:
        return msgspec.json.decode(msgspec.json.encode(document))
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError) as error:
        raise SettingError(f"{where}: {error}") from None


def _foreign(document: Mapping[str, Any], name: str, where: str) -> tuple[ObjectId, AnyObservation]:
    try:
        return foreign_of(document, name)
    except ForeignObjectError as error:
        raise SettingError(f"{where}: {error}") from None


def _listed(one: Any, where: str) -> Iterator[tuple[str, Any]]:
    """Yield a document with where it stands, or those of a list such as `kubectl get -o yaml` writes."""
    if isinstance(one, dict) and str(one.get("kind", "")).endswith("List"):
        for found in objects_in(one, where):
            yield found.place, found.raw
    else:
        yield where, one


def _name(document: Mapping[str, Any]) -> str:
    meta = document.get("metadata")
    return str(meta.get("name", "")) if isinstance(meta, dict) else ""


def _node(document: Mapping[str, Any], where: str) -> Node:
    node: Node = _decoded(_NODE, document, where)
    try:
        parse_amounts(node.status.allocatable)
    except ValueError as error:
        raise SettingError(f"{where}: Node {node.metadata.name}: {error}") from None
    return changed(node, status=changed(node.status, conditions=[]))


def _decoded(decode: Any, document: Mapping[str, Any], where: str) -> Any:
    try:
        return decode(msgspec.json.encode(document))
    except (msgspec.MsgspecError, TypeError) as error:
        raise SettingError(f"{where}: {error}") from None


def _checked_object(document: dict[str, Any], kind: str, where: str, number: int) -> dict[str, Any]:
    """Return an object of ours as a server would keep it; one that it would refuse is an error here."""
    if kind not in KINDS:
        raise SettingError(f"{where}: there is no kind {kind} of {API_VERSION}; there are {', '.join(sorted(KINDS))}")
    own = {"uid": f"{kind}-{number}-{_name(document)}", "generation": 1, "creationTimestamp": "2020-01-01T00:00:00Z"}
    raw = {**document, "metadata": {**own, **(document.get("metadata") or {})}}
    raw.pop("status", None)
    try:
        parse_object(kind, raw)
    except ObjectError as error:
        raise SettingError(f"{where}: {kind} {_name(document)}: {' '.join(str(error).split())}") from None
    return raw


def _openb_nodes(text: str, origin: str) -> dict[str, Node]:
    """Return the nodes of openb_node_list_*.csv: sn, cpu_milli, memory_mib, gpu, model."""
    found: dict[str, Node] = {}
    for row in csv.DictReader(text.splitlines()):
        try:
            cards = int(row.get(_GPU_OF_OPENB) or 0)
            capacity = {"cpu": f"{int(row['cpu_milli'])}m", "memory": f"{int(row['memory_mib'])}Mi", "pods": "1000"}
            name = row["sn"]
        except (KeyError, ValueError, TypeError) as error:
            raise SettingError(
                f"{origin}: no list of openb's nodes (columns sn, cpu_milli, memory_mib, gpu, model): {error}"
            ) from None
        labels = {GPU_LABEL: str(row.get("model") or "")} if cards else {}
        found[name] = _node(manifest(name, {**capacity, **({GPU: str(cards)} if cards else {})}, labels), origin)
    return found


def snapshot_of(seen: Iterable[AnyObservation], configuration: TuttiConfiguration) -> Setting:
    """Return a live cluster without the work in it: its nodes and queues, and what other schedulers have placed."""
    ours = set(configuration.scheduler_names)
    nodes: dict[str, Node] = {}
    objects: dict[ObjectId, dict[str, Any]] = {}
    classes: dict[str, PriorityClass] = {}
    others: list[AnyObservation] = []
    foreign: dict[ObjectId, AnyObservation] = {}
    for one in seen:
        match one:
            case NodeSeen(node=node):
                nodes[node.metadata.name] = node
            case ObjectSeen(kind=kind, raw=raw):
                meta = raw.get("metadata") or {}
                if kind not in _WORK:
                    objects[kind, str(meta.get("namespace", "")), str(meta.get("name", ""))] = raw
            case PriorityClassSeen(priority_class=found):
                classes[found.metadata.name] = found
            case PodSeen(pod=pod):
                if pod.spec.node_name and not pod.terminated and pod.spec.scheduler_name not in ours:
                    others.append(one)
            case ThrottleSeen() | NetworkObjectSeen():
                foreign[seen_id(one)] = one
            case NamespaceSeen():
                others.append(one)
            case _:
                pass  # volumes, budgets and the like: no job of a trace has to do with them
    return Setting(nodes, objects, classes, foreign, others, configuration)


def with_queues(setting: Setting, queues: Sequence[str], resources: Iterable[str]) -> Setting:
    """Return a cluster with a queue for each of a trace: where it has no ClusterQueue at all, they are made.

    They are of one cohort, have equal parts of what the nodes offer, and take back what they have lent.
    """
    if any(kind == "ClusterQueue" for kind, _, _ in setting.objects):
        return setting
    objects = dict(setting.objects)
    capacity = setting.capacity()
    _put(objects, "ResourceFlavor", FLAVOR, {})
    covered = sorted(one for one in resources if capacity.get(one))
    names = [queue_name(one) for one in queues]
    for number, name in enumerate(names):
        flavor = {"name": FLAVOR, "resources": [_quota(one, capacity[one], number, len(names)) for one in covered]}
        spec = {
            "cohortName": COHORT,
            "namespaceSelector": {},
            "preemption": {"reclaimWithinCohort": "Any"},
            "resourceGroups": [{"coveredResources": covered, "flavors": [flavor]}],
        }
        _put(objects, "ClusterQueue", name, spec)
        _put(objects, "LocalQueue", name, {"clusterQueue": name}, TRACE_NAMESPACE)
    return replace(setting, objects=objects, made=True)


def _quota(resource: str, units: int, number: int, queues: int) -> dict[str, Any]:
    part = units // queues + (number < units % queues)
    return {"name": resource, "nominalQuota": f"{part}m" if resource == "cpu" else part}


def _put(objects: dict[ObjectId, dict[str, Any]], kind: str, name: str, spec: dict[str, Any], space: str = "") -> None:
    meta = {"name": name, "uid": f"{kind}-{name}", "generation": 1, "creationTimestamp": "2020-01-01T00:00:00Z"}
    objects[kind, space, name] = {"metadata": {**meta, **({"namespace": space} if space else {})}, "spec": spec}


def queue_name(queue: str) -> str:
    """Return what a queue of a trace is called in a cluster: a name that the API server takes."""
    name = "".join(one if one.isascii() and one.isalnum() else "-" for one in queue.lower()).strip("-")[:50]
    return name.rstrip("-") or "default"


def find_queues(
    setting: Setting, queues: Sequence[str], said: Mapping[str, str]
) -> tuple[Setting, dict[str, tuple[str, str]]]:
    """Return namespace and name of the LocalQueue for each queue of a trace, and the cluster with those it lacked.

    Args:
        setting: The cluster.
        queues: Those of the trace.
        said: By the caller: the queue of the trace, or `*`, and the LocalQueue or ClusterQueue in its place.

    Raises:
        SettingError: The cluster has no queue of one of these names.
    """
    objects = dict(setting.objects)
    local = {name: (space, name) for kind, space, name in objects if kind == "LocalQueue"}
    for (kind, space, name), raw in setting.objects.items():
        if kind == "LocalQueue":
            local.setdefault(str((raw.get("spec") or {}).get("clusterQueue", "")), (space, name))
    cluster = {name for kind, _, name in objects if kind == "ClusterQueue"}
    found: dict[str, tuple[str, str]] = {}
    for queue in queues:
        wanted = said.get(queue) or said.get("*") or queue_name(queue)
        if wanted not in local and wanted in cluster:
            _put(objects, "LocalQueue", wanted, {"clusterQueue": wanted}, TRACE_NAMESPACE)
            local[wanted] = (TRACE_NAMESPACE, wanted)
        if wanted not in local:
            there = ", ".join(sorted(local)[:10]) or "none"
            raise SettingError(
                f"the trace has a queue {queue or '(without a name)'}, and the cluster no queue {wanted}; say which "
                f"one it is by --queue '{queue or '*'}=NAME'; there are {there}"
            )
        found[queue] = local[wanted]
    return replace(setting, objects=objects), found


def in_shares(setting: Setting) -> Setting:
    """Return a cluster whose nodes and queues count cards in thousandths, so that parts of them can be asked for."""
    nodes = {}
    for name, node in setting.nodes.items():
        offered = dict(node.status.allocatable)
        cards = parse_amounts(offered).get(GPU, 0)
        if cards:
            del offered[GPU]
            offered[GPU_SHARE] = str(1000 * cards)
        nodes[name] = changed(node, status=changed(node.status, allocatable=offered))
    objects = {key: _quota_in_shares(raw) if key[0] == "ClusterQueue" else raw for key, raw in setting.objects.items()}
    return replace(setting, nodes=nodes, objects=objects)


def _quota_in_shares(raw: dict[str, Any]) -> dict[str, Any]:
    groups = []
    for group in raw["spec"].get("resourceGroups") or ():
        flavors = [
            {**flavor, "resources": [_in_thousandths(one) for one in flavor["resources"]]}
            for flavor in group["flavors"]
        ]
        covered = [GPU_SHARE if one == GPU else one for one in group["coveredResources"]]
        groups.append({**group, "coveredResources": covered, "flavors": flavors})
    return {**raw, "spec": {**raw["spec"], "resourceGroups": groups}}


def _in_thousandths(quota: dict[str, Any]) -> dict[str, Any]:
    if quota["name"] != GPU:
        return quota
    amounts = {name: str(1000 * int(value)) for name, value in quota.items() if name != "name"}
    return {**amounts, "name": GPU_SHARE}
