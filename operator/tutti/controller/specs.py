"""What our kinds say about one another: the names in their specs, and nothing else.

Taken from raw objects and tolerant of malformed ones, because a reference can be checked, and a deletion held,
whatever else is wrong with an object.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Raw: TypeAlias = Mapping[str, Any]


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


@dataclass(slots=True)
class Specs:
    """All specs of the kinds that refer to one another, by name."""

    topologies: set[str] = field(default_factory=set)
    flavors: dict[str, FlavorSpec] = field(default_factory=dict)
    cohorts: dict[str, CohortSpec] = field(default_factory=dict)
    cluster_queues: dict[str, ClusterQueueSpec] = field(default_factory=dict)
    local_queues: dict[tuple[str, str], LocalQueueSpec] = field(default_factory=dict)

    def add(self, kind: str, raw: Raw) -> None:
        """Take in, or replace, an object of any of our kinds; kinds that nothing here refers to are passed over."""
        name = text(raw, "metadata", "name")
        deleting = bool(text(raw, "metadata", "deletionTimestamp"))
        match kind:
            case "Topology":
                self.topologies.add(name)
            case "ResourceFlavor":
                self.flavors[name] = FlavorSpec(name, text(raw, "spec", "topologyName"), deleting)
            case "Cohort":
                parent = text(raw, "spec", "parentName")
                self.cohorts[name] = CohortSpec(name, parent, flavors_of(raw), deleting)
            case "ClusterQueue":
                cohort, stop = text(raw, "spec", "cohortName"), text(raw, "spec", "stopPolicy")
                self.cluster_queues[name] = ClusterQueueSpec(name, cohort, flavors_of(raw), stop, deleting)
            case "LocalQueue":
                namespace = text(raw, "metadata", "namespace")
                queue, stop = text(raw, "spec", "clusterQueue"), text(raw, "spec", "stopPolicy")
                self.local_queues[namespace, name] = LocalQueueSpec(namespace, name, queue, stop, deleting)
            case _:
                pass

    def remove(self, kind: str, namespace: str, name: str) -> None:
        """Forget an object; one that was never taken in is no error."""
        match kind:
            case "Topology":
                self.topologies.discard(name)
            case "ResourceFlavor":
                self.flavors.pop(name, None)
            case "Cohort":
                self.cohorts.pop(name, None)
            case "ClusterQueue":
                self.cluster_queues.pop(name, None)
            case "LocalQueue":
                self.local_queues.pop((namespace, name), None)
            case _:
                pass


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
