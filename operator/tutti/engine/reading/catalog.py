"""The objects of our kinds as parsed, and what follows from them together: queues, flavors, priorities.

An object that cannot be parsed counts as absent, and is kept among the `broken` with what is wrong, so that it is
told to whoever wrote it while everything else goes on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from tutti.api.core import Namespace, PriorityClass
from tutti.api.kinds import (
    ClusterQueue,
    Cohort,
    LocalQueue,
    Object,
    ObjectError,
    PodGroup,
    ResourceFlavor,
    Topology,
    WorkloadPriorityClass,
    parse_object,
)
from tutti.engine.reading.compiling import Offered, flavor_of, queue_in, quotas_in, weight_of
from tutti.engine.reading.protecting import minimum_runtime
from tutti.quota.flavors import Assignment, Flavor, Problem, Queue, assignments
from tutti.quota.references import cohort_problem, flavor_problem, queue_problem, rings
from tutti.quota.tree import FlavorResource, Quota

K = TypeVar("K", bound=Object)
ObjectKey = tuple[str, str, str]
"""Kind, namespace ("" where cluster-scoped) and name."""


SHARED = frozenset(
    one.KIND for one in (ClusterQueue, Cohort, LocalQueue, ResourceFlavor, Topology, WorkloadPriorityClass)
)
"""Kinds that many workloads are admitted by; a Workload or PodGroup concerns its own members only."""


NOTED_BY_SERVER = ("resourceVersion", "managedFields")
"""Metadata that changes with every write, and says nothing."""


class LocalDoor(msgspec.Struct, frozen=True):
    """A LocalQueue: where it leads, whether nothing more is admitted, and whether what is admitted must leave."""

    cluster_queue: str
    hold: bool
    drain: bool


class Spoilt(msgspec.Struct, frozen=True):
    """An object that has become unreadable.

    Attributes:
        whose: The workload that it stood for, or was a pod group of, while it could be read; else the object itself.
        conditions: Those that it was seen with.
    """

    key: ObjectKey
    whose: ObjectKey
    error: ObjectError
    uid: str
    conditions: list[Mapping[str, Any]]


class Catalog:
    """What users wrote.

    Attributes:
        version: Grows whenever anything that many workloads are admitted by has changed.
        queues: ClusterQueues that exist and can be read, by name.
        flavors: ResourceFlavors likewise.
        topologies: The labels of each Topology, the widest first.
        reserving: Whether any queue keeps room for its head (backfill Reserved).
        by_past_use: Whether any of them serves first whose LocalQueue has used least lately.
        cohorts: Cohort -> (parent, quotas), without those in rings.
        cohort_weights: Cohort -> its weight in fair sharing, in milli-units.
        worth: What one unit of a flavor and resource counts in fair sharing, in milli-units; 1 where it is not there.
        parts: What was offered of each flavor and resource of which some quota is a part.
        broken: Objects that cannot be read, with what is wrong, and their uid.
    """

    def __init__(self) -> None:
        self.version = 0
        self.queues: dict[str, Queue] = {}
        self.topologies: dict[str, tuple[str, ...]] = {}
        self.reserving = False
        self.by_past_use = False
        self.flavors: dict[str, Flavor] = {}
        self.cohorts: dict[str, tuple[str, Mapping[FlavorResource, Quota]]] = {}
        self.cohort_weights: dict[str, int] = {}
        self.worth: dict[FlavorResource, int] = {}
        self.parts: dict[FlavorResource, int] = {}
        self.broken: dict[ObjectKey, tuple[ObjectError, str]] = {}
        self._news: dict[ObjectKey, Spoilt] = {}
        self._protecting: dict[str, int] = {}  # minimum runtimes of ClusterQueues that cannot be read
        self._objects: dict[ObjectKey, Object] = {}
        self._read: dict[ObjectKey, int] = {}
        self._referring: dict[tuple[str, str], dict[str, str]] = {}
        self._priority_classes: dict[str, PriorityClass] = {}
        self._namespaces: dict[str, Mapping[str, str]] = {}

    def put(self, kind: str, raw: Mapping[str, Any]) -> tuple[str, str]:
        """Add or change an object; returns its namespace and name."""
        given = raw.get("metadata")
        meta = given if isinstance(given, Mapping) else {}
        key = (kind, str(meta.get("namespace", "")), str(meta.get("name", "")))
        self._read.pop(key, None)
        before = self._objects.get(key)
        try:
            parsed = parse_object(kind, raw)
        except ObjectError as error:
            what_was = str(self.broken.get(key, ("", ""))[0])
            if what_was != str(error) and not _says(raw, str(error)):
                self._news[key] = Spoilt(key, _whose(key, before), error, str(meta.get("uid", "")), _conditions(raw))
            self.broken[key] = (error, str(meta.get("uid", "")))
            self._unrefer(self._objects.pop(key, None))
            if kind == ClusterQueue.KIND:
                self._keep_protecting(key[2], raw, before)
            self.version += kind in SHARED and (before is not None or what_was != str(error))
            return key[1:]
        self.broken.pop(key, None)
        if kind == ClusterQueue.KIND:
            self._protecting.pop(key[2], None)
        self._unrefer(before)
        self._objects[key], self._read[key] = parsed, _print_of(raw)
        self._refer(parsed)
        if kind in SHARED and (before is None or _said(before) != _said(parsed)):
            self.version += 1
        return key[1:]

    def has_read(self, kind: str, raw: Mapping[str, Any]) -> bool:
        """Whether an object is known, and nothing of it but its status has changed since it was read."""
        meta = raw.get("metadata")
        if not isinstance(meta, Mapping):
            return False
        read = self._read.get((kind, str(meta.get("namespace", "")), str(meta.get("name", ""))))
        return read is not None and read == _print_of(raw)

    def drop(self, kind: str, namespace: str, name: str) -> None:
        """Forget an object that does not exist any more."""
        key = (kind, namespace, name)
        self._read.pop(key, None)
        self.broken.pop(key, None)
        if kind == ClusterQueue.KIND:
            self._protecting.pop(name, None)
        found = self._objects.pop(key, None)
        self._unrefer(found)
        if found is not None and kind in SHARED:
            self.version += 1

    def minimum_runtime(self, queue: str) -> int:
        """Return how many seconds a workload of a ClusterQueue runs before it may be a victim; 0: it always may."""
        found = self.queues.get(queue)
        return self._protecting.get(queue, 0) if found is None else found.minimum_runtime

    def _keep_protecting(self, queue: str, raw: Mapping[str, Any], before: Object | None) -> None:
        """Note whom a ClusterQueue protects that cannot be read: by what it says, else by what it said last."""
        seconds = minimum_runtime(raw)
        if seconds is None and isinstance(before, ClusterQueue):
            seconds = before.spec.preemption.minimum_runtime_seconds
        if seconds is not None:
            self._protecting[queue] = seconds

    def uid_of(self, key: ObjectKey) -> str:
        """Return the uid of an object, whether it can be read or not; "" where there is none."""
        found = self._objects.get(key)
        return self.broken[key][1] if key in self.broken else found.metadata.uid if found is not None else ""

    def referring(self, namespace: str, workload: str) -> Mapping[str, str]:
        """Return the PodGroups that are pod groups of a Workload: name of the object -> name of the group in it."""
        return self._referring.get((namespace, workload), {})

    def stands_alone(self, key: ObjectKey) -> bool:
        """Whether there is an object of this key that is queued by itself: no PodGroup of a Workload."""
        found = self._objects.get(key)
        return found is not None and not (isinstance(found, PodGroup) and found.spec.workload_ref is not None)

    def _refer(self, found: Object) -> None:
        if isinstance(found, PodGroup) and found.spec.workload_ref is not None:
            ref, name = found.spec.workload_ref, found.metadata.name
            self._referring.setdefault((found.metadata.namespace, ref.name), {})[name] = ref.pod_group or name

    def _unrefer(self, found: Object | None) -> None:
        if isinstance(found, PodGroup) and found.spec.workload_ref is not None:
            key = (found.metadata.namespace, found.spec.workload_ref.name)
            self._referring[key].pop(found.metadata.name)
            if not self._referring[key]:
                del self._referring[key]

    def news(self) -> list[Spoilt]:
        """Return the objects that have become unreadable, or otherwise unreadable, since the last call."""
        news, self._news = self._news, {}
        return [spoilt for key, spoilt in news.items() if key in self.broken]

    def get(self, kind: type[K], namespace: str, name: str) -> K | None:
        """Return an object, or None where there is none that can be read."""
        found = self._objects.get((kind.KIND, namespace, name))
        return found if isinstance(found, kind) else None

    def find(self, key: ObjectKey) -> Object | None:
        """Return an object by its key, or None where there is none that can be read."""
        return self._objects.get(key)

    def all(self, kind: type[K]) -> list[K]:
        """Return all objects of a kind that can be read."""
        return [found for found in self._objects.values() if isinstance(found, kind)]

    def compile(self, offered: Offered) -> None:
        """Work out flavors, queues and cohorts from the objects as they are now.

        Args:
            offered: What the nodes of a flavor offer of a resource, of which quotas may be a part.
        """
        self.parts = {}
        topologies = self.topologies = {
            one.metadata.name: tuple(level.node_label for level in one.spec.levels) for one in self.all(Topology)
        }
        self.flavors = {one.metadata.name: flavor_of(one, topologies) for one in self.all(ResourceFlavor)}
        self.worth = {
            (one.metadata.name, resource): weight
            for one in self.all(ResourceFlavor)
            for resource, weight in one.spec.resource_weights.items()
        }
        cohorts = {one.metadata.name: one for one in self.all(Cohort)}
        caught = rings({name: one.spec.parent_name or "" for name, one in cohorts.items()})
        self.cohorts = {
            name: (one.spec.parent_name or "", quotas_in(one.spec.resource_groups, self.flavors, offered, self.parts))
            for name, one in cohorts.items()
            if name not in caught
        }
        self.cohort_weights = {name: weight_of(one) for name, one in cohorts.items()}
        self.queues = {}
        parents = {name: parent for name, (parent, _) in self.cohorts.items()}
        for one in self.all(ClusterQueue):
            queue = queue_in(one, quotas_in(one.spec.resource_groups, self.flavors, offered, self.parts))
            wrong = self._unreadable(ResourceFlavor)
            problem = queue_problem(queue, self.flavors, caught, unreadable=wrong)
            problem = problem or self._topology_problem(queue, topologies)
            problem = problem or cohort_problem(queue.cohort, parents, unreadable=self._unreadable(Cohort))
            if one.metadata.deletion_timestamp:
                problem = Problem("Terminating", "it is being deleted once nothing uses it")
            cohort = "" if queue.cohort in caught else queue.cohort
            self.queues[queue.name] = replace(queue, problem=problem, cohort=cohort)
        self.reserving = any(queue.reserves for queue in self.queues.values())
        self.by_past_use = any(queue.by_past_use for queue in self.queues.values())

    def _topology_problem(self, queue: Queue, topologies: Mapping[str, tuple[str, ...]]) -> Problem | None:
        """Return the first problem that a queue's flavors, all of which exist, have with their Topology."""
        for name in dict.fromkeys(flavor for group in queue.groups for flavor in group.flavors):
            found = self.get(ResourceFlavor, "", name)
            wrong = self._unreadable(Topology)
            topology = "" if found is None else found.spec.topology_name
            problem = flavor_problem(topology, topologies, unreadable=wrong)
            if problem is not None:
                return Problem(problem.reason, f"ResourceFlavor {name}: {problem.message}")
        return None

    def _unreadable(self, kind: type[Object]) -> dict[str, str]:
        """Return what is wrong with each object of a cluster-scoped kind that cannot be read."""
        return {name: str(error) for (one, _, name), (error, _) in self.broken.items() if one == kind.KIND}

    def unreadable(self, kind: type[Object], namespace: str, name: str) -> str:
        """Return what is wrong with an object that exists and cannot be read; "" where there is nothing."""
        found = self.broken.get((kind.KIND, namespace, name))
        return "" if found is None else str(found[0])

    def local_queue(self, namespace: str, name: str) -> LocalDoor | None:
        """Return where a LocalQueue leads, or None where it does not exist."""
        found = self.get(LocalQueue, namespace, name)
        if found is None:
            return None
        stop = found.spec.stop_policy
        return LocalDoor(found.spec.cluster_queue, stop != "None", stop == "HoldAndDrain")

    def default_queue(self, namespace: str, name: str, since: float) -> str:
        """Return the name of a namespace's LocalQueue for those that name none; "" where there was none of that name.

        Args:
            namespace: The namespace.
            name: What such a LocalQueue is called; "" for no such thing.
            since: When who names no queue was made, Unix seconds: a LocalQueue made later is not for them.
        """
        found = self.get(LocalQueue, namespace, name) if name else None
        if found is None:
            return ""
        created = found.metadata.creation_timestamp
        return name if not created or datetime.fromisoformat(created).timestamp() <= since else ""

    def local_queues(self, namespace: str) -> list[str]:
        """Return the names of a namespace's LocalQueues, sorted."""
        return sorted(one.metadata.name for one in self.all(LocalQueue) if one.metadata.namespace == namespace)

    def led_to(self, namespace: str) -> set[str]:
        """Return the names of the ClusterQueues that a namespace's LocalQueues lead to."""
        return {one.spec.cluster_queue for one in self.all(LocalQueue) if one.metadata.namespace == namespace}

    def flavors_on(self, queue: Queue, requests: Mapping[str, int], labels: Mapping[str, str]) -> Assignment:
        """Return the first flavors of a queue that a node with these labels belongs to."""
        here = {
            name: flavor
            for name, flavor in self.flavors.items()
            if all(labels.get(key) == value for key, value in flavor.node_labels)
        }
        tolerant = {name: replace(flavor, node_taints=()) for name, flavor in here.items()}
        return next(assignments(queue, tolerant, requests, ()), {})

    def workload_class(self, name: str) -> int | None:
        """Return the value of a WorkloadPriorityClass, or None where there is none of that name."""
        found = self.get(WorkloadPriorityClass, "", name)
        return None if found is None else found.value

    def pod_class(self, name: str) -> int | None:
        """Return the value of a PriorityClass, or None where there is none of that name."""
        found = self._priority_classes.get(name)
        return None if found is None else found.value

    def priority_class(self, name: str) -> PriorityClass | None:
        """Return a PriorityClass, or None where there is none of that name."""
        return self._priority_classes.get(name)

    def default_priority_class(self) -> PriorityClass | None:
        """Return the PriorityClass of pods that name none; of several the lowest, as the API server has it."""
        defaults = (one for one in self._priority_classes.values() if one.global_default)
        return min(defaults, key=lambda one: (one.value, one.metadata.name), default=None)

    def put_priority_class(self, found: PriorityClass) -> None:
        """Add or change a PriorityClass."""
        known = self._priority_classes.get(found.metadata.name)
        if known is None or _decides(known) != _decides(found):
            self.version += 1
        self._priority_classes[found.metadata.name] = found

    def drop_priority_class(self, name: str) -> None:
        """Forget a PriorityClass."""
        self._priority_classes.pop(name, None)
        self.version += 1

    def put_namespace(self, found: Namespace) -> None:
        """Add a namespace, or take over its labels."""
        if self._namespaces.get(found.metadata.name) != found.metadata.labels:
            self._namespaces[found.metadata.name] = found.metadata.labels
            self.version += 1

    def drop_namespace(self, name: str) -> None:
        """Forget a namespace."""
        self._namespaces.pop(name, None)

    def namespace_labels(self, name: str) -> Mapping[str, str]:
        """Return a namespace's labels; none where it has not been seen."""
        return self._namespaces.get(name, {})


def _decides(found: PriorityClass) -> object:
    """Return the part of a PriorityClass that anything goes by."""
    return found.value, found.global_default, found.preemption_policy


def _print_of(raw: Mapping[str, Any]) -> int:
    """Return a fingerprint of an object without its status and what the server notes with every write."""
    meta = {key: value for key, value in raw["metadata"].items() if key not in NOTED_BY_SERVER}
    rest = [value for key, value in raw.items() if key not in ("metadata", "status")]
    return hash(msgspec.json.encode((meta, rest)))


def _conditions(raw: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return those conditions of an unreadable object that can be read themselves."""
    status = raw.get("status")
    conditions = status.get("conditions") if isinstance(status, Mapping) else None
    told = conditions if isinstance(conditions, list) else []
    return [one for one in told if isinstance(one, Mapping) and "type" in one and "status" in one]


def _says(raw: Mapping[str, Any], problem: str) -> bool:
    """Whether a condition of an unreadable object says already what is wrong with it."""
    return any(one.get("message") == problem for one in _conditions(raw))


def _whose(key: ObjectKey, before: Object | None) -> ObjectKey:
    """Return the key of the workload that an object told of when it could be read last."""
    ref = before.spec.workload_ref if isinstance(before, PodGroup) else None
    return key if ref is None else ("Workload", key[1], ref.name)


def _said(found: Object) -> object:
    """Return the part of an object that admission reads: everything but its status and bookkeeping."""
    if isinstance(found, WorkloadPriorityClass):
        return found.value
    return getattr(found, "spec", None), bool(found.metadata.deletion_timestamp)
