"""What our kinds say about one another: the names in their specs, and nothing else.

Taken from raw objects and tolerant of malformed ones, because a reference can be checked, and a deletion held,
whatever else is wrong with an object.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

Raw: TypeAlias = Mapping[str, Any]
ObjectKey: TypeAlias = tuple[str, str, str]
"""Kind, namespace (empty where there is none) and name."""
K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class FlavorSpec:
    """A ResourceFlavor's reference: the Topology it is spread over, or empty."""

    name: str
    topology: str = ""
    deleting: bool = False


@dataclass(frozen=True, slots=True)
class CohortSpec:
    """A Cohort's references: its parent, or empty, and the flavors it shares."""

    name: str
    parent: str = ""
    flavors: tuple[str, ...] = ()
    deleting: bool = False


@dataclass(frozen=True, slots=True)
class ClusterQueueSpec:
    """A ClusterQueue's references: its cohort, or empty, and its flavors in the order they are tried."""

    name: str
    cohort: str = ""
    flavors: tuple[str, ...] = ()
    stop_policy: str = ""
    deleting: bool = False


@dataclass(frozen=True, slots=True)
class LocalQueueSpec:
    """A LocalQueue's reference: the ClusterQueue it leads to."""

    namespace: str
    name: str
    cluster_queue: str = ""
    stop_policy: str = ""
    deleting: bool = False


@dataclass(frozen=True, slots=True)
class TopologySpec:
    """A Topology refers to nothing; only whether it is going matters."""

    name: str
    deleting: bool = False


@dataclass(slots=True)
class Specs:
    """All specs of the kinds that refer to one another, by name.

    Attributes:
        admitted: Which ClusterQueue's quota each workload holds; filled in while a ClusterQueue is being deleted.
        broken: What is wrong with each object that cannot be read.
    """

    topologies: dict[str, TopologySpec] = field(default_factory=dict)
    flavors: dict[str, FlavorSpec] = field(default_factory=dict)
    cohorts: dict[str, CohortSpec] = field(default_factory=dict)
    cluster_queues: dict[str, ClusterQueueSpec] = field(default_factory=dict)
    local_queues: dict[tuple[str, str], LocalQueueSpec] = field(default_factory=dict)
    admitted: Mapping[ObjectKey, str] = field(default_factory=dict)
    broken: dict[ObjectKey, str] = field(default_factory=dict)

    def with_object(self, kind: str, raw: Raw) -> Specs:
        """Return a copy in which the object is as given and can be read, as if it had been accepted."""
        copy = Specs(
            dict(self.topologies),
            dict(self.flavors),
            dict(self.cohorts),
            dict(self.cluster_queues),
            dict(self.local_queues),
            self.admitted,
        )
        copy.add(kind, raw)
        return copy

    def add(self, kind: str, raw: Raw) -> bool:
        """Take in, or replace, an object of any of our kinds, and say whether that changed anything here.

        Kinds that nothing here refers to, and everything but references in the others, change nothing.
        """
        name, namespace = text(raw, "metadata", "name"), text(raw, "metadata", "namespace")
        deleting = bool(text(raw, "metadata", "deletionTimestamp"))
        match kind:
            case "Topology":
                return _put(self.topologies, name, TopologySpec(name, deleting))
            case "ResourceFlavor":
                return _put(self.flavors, name, FlavorSpec(name, text(raw, "spec", "topologyName"), deleting))
            case "Cohort":
                parent = text(raw, "spec", "parentName")
                return _put(self.cohorts, name, CohortSpec(name, parent, flavors_of(raw), deleting))
            case "ClusterQueue":
                cohort, stop = text(raw, "spec", "cohortName"), text(raw, "spec", "stopPolicy")
                return _put(self.cluster_queues, name, ClusterQueueSpec(name, cohort, flavors_of(raw), stop, deleting))
            case "LocalQueue":
                queue, stop = text(raw, "spec", "clusterQueue"), text(raw, "spec", "stopPolicy")
                spec = LocalQueueSpec(namespace, name, queue, stop, deleting)
                return _put(self.local_queues, (namespace, name), spec)
            case _:
                return False

    def remove(self, kind: str, namespace: str, name: str) -> bool:
        """Forget an object, and say whether that changed anything here."""
        match kind:
            case "Topology":
                return self.topologies.pop(name, None) is not None
            case "ResourceFlavor":
                return self.flavors.pop(name, None) is not None
            case "Cohort":
                return self.cohorts.pop(name, None) is not None
            case "ClusterQueue":
                return self.cluster_queues.pop(name, None) is not None
            case "LocalQueue":
                return self.local_queues.pop((namespace, name), None) is not None
            case _:
                return False

    def is_leaving(self, kind: str, name: str) -> bool:
        """Whether a ClusterQueue, ResourceFlavor or Topology is known to be on its way out."""
        tables: Mapping[str, Mapping[str, ClusterQueueSpec | FlavorSpec | TopologySpec]] = {
            "ClusterQueue": self.cluster_queues,
            "ResourceFlavor": self.flavors,
            "Topology": self.topologies,
        }
        spec = tables[kind].get(name)
        return spec is not None and spec.deleting

    @property
    def queue_is_leaving(self) -> bool:
        """Whether any ClusterQueue is being deleted, which is when it matters who holds quota."""
        return any(queue.deleting for queue in self.cluster_queues.values())


def _put(table: dict[K, V], key: K, value: V) -> bool:
    """Store a value and say whether it differs from what was there."""
    changed = table.get(key) != value
    table[key] = value
    return changed


def text(raw: Raw, *path: str) -> str:
    """Return the string at `path`, or empty where there is none."""
    value: Any = raw
    for step in path:
        if not isinstance(value, Mapping):
            return ""
        value = value.get(step)
    return value if isinstance(value, str) else ""


def flavors_of(raw: Raw) -> tuple[str, ...]:
    """Return the names of all flavors in `spec.resourceGroups`, in their order, each once."""
    names: dict[str, None] = {}
    for group in _records(raw.get("spec"), "resourceGroups"):
        for flavor in _records(group, "flavors"):
            name = text(flavor, "name")
            if name:
                names[name] = None
    return tuple(names)


def _records(raw: Any, key: str) -> list[Raw]:
    values = raw.get(key) if isinstance(raw, Mapping) else None
    return [value for value in values if isinstance(value, Mapping)] if isinstance(values, list) else []
