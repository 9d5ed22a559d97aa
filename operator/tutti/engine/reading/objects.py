"""The objects of our kinds as users wrote them and as they were parsed.

An object that cannot be parsed counts as absent, and is kept among the `broken` with what is wrong, so that it is
told to whoever wrote it while everything else goes on. A mistake anywhere in a ClusterQueue must not cost the work of
those who run in it, so whom it protects from being taken out is read also while the rest of it cannot be.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

import msgspec

from tutti.api.conditions import is_true, legible_conditions
from tutti.api.kinds import (
    AdmissionCheck,
    ClusterQueue,
    Cohort,
    LocalQueue,
    Object,
    ObjectError,
    PodGroup,
    ResourceFlavor,
    Topology,
    Workload,
    WorkloadPriorityClass,
    parse_object,
)
from tutti.api.kinds.queues import MOST_SECONDS
from tutti.api.problems import FieldProblem
from tutti.engine.records.workloads import ObjectKey


class InvalidObject(msgspec.Struct, frozen=True):
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


def invalid_object(
    key: ObjectKey, raw: Mapping[str, Any], error: ObjectError, *, before: Object | None, uid: str
) -> InvalidObject:
    """Return what there is to tell of an object that cannot be read; `before` is what it was when it could be."""
    return InvalidObject(key, _whose(key, before), error, uid, legible_conditions(raw.get("status")))


def already_reported(raw: Mapping[str, Any], problem: str) -> bool:
    """Whether a condition of an unreadable object says already what is wrong with it."""
    return any(one.get("message") == problem for one in legible_conditions(raw.get("status")))


def _whose(key: ObjectKey, before: Object | None) -> ObjectKey:
    """Return the key of the workload that an object told of when it could be read last."""
    ref = before.spec.workload_ref if isinstance(before, PodGroup) else None
    return key if ref is None else ("Workload", key[1], ref.name)


def minimum_runtime(raw: Mapping[str, Any]) -> int | None:
    """Return the minimumRuntimeSeconds of a ClusterQueue that cannot be read as a whole.

    Returns:
        Seconds, 0 where it says none; None where not even this can be read.
    """
    spec = raw.get("spec")
    preemption = spec.get("preemption", {}) if isinstance(spec, Mapping) else None
    if not isinstance(preemption, Mapping):
        return None
    said = preemption.get("minimumRuntimeSeconds")
    if said is None:
        return 0
    return said if isinstance(said, int) and 1 <= said <= MOST_SECONDS else None


K = TypeVar("K", bound=Object)

SHARED = frozenset(
    one.KIND
    for one in (AdmissionCheck, ClusterQueue, Cohort, LocalQueue, ResourceFlavor, Topology, WorkloadPriorityClass)
)
"""Kinds that many workloads are admitted by; a Workload or PodGroup concerns its own members only."""

LOCAL = frozenset((LocalQueue.KIND,))
"""Those of them that concern workloads of their namespace only."""


NOTED_BY_SERVER = ("resourceVersion", "managedFields")
"""Metadata that changes with every write, and says nothing."""


class WrittenObjects:
    """What users wrote, object by object.

    Attributes:
        version: Grows whenever anything has changed that workloads of any namespace are admitted by.
        local_version: Grows whenever anything has that those of one namespace are.
        broken: Objects that cannot be read, with what is wrong, and their uid.
        looked_at: At which one was looking when that raised.
        protecting: Minimum runtimes, in seconds, of ClusterQueues that cannot be read.
    """

    def __init__(self) -> None:
        self.version = self.local_version = 0
        self.broken: dict[ObjectKey, tuple[ObjectError, str]] = {}
        self.protecting: dict[str, int] = {}
        self.looked_at: ObjectKey | None = None
        self._news: dict[ObjectKey, InvalidObject] = {}
        self._objects: dict[ObjectKey, Object] = {}
        self._read: dict[ObjectKey, int] = {}
        self._referring: dict[tuple[str, str], dict[str, str]] = {}

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
            self._spoil(key, raw, error, uid=str(meta.get("uid", "")))
            return key[1:]
        self.broken.pop(key, None)
        if kind == ClusterQueue.KIND:
            self.protecting.pop(key[2], None)
        self._unrefer(before)
        self._objects[key], self._read[key] = parsed, _print_of(kind, raw)
        self._refer(parsed)
        if kind in SHARED and (before is None or _said(before) != _said(parsed)):
            self._count_change(kind)
        return key[1:]

    def mark_invalid(self, kind: str, raw: Mapping[str, Any], problem: str) -> tuple[str, str]:
        """Count an object as one that cannot be read, for a reason found elsewhere; returns its namespace and name."""
        given = raw.get("metadata")
        meta = given if isinstance(given, Mapping) else {}
        key = (kind, str(meta.get("namespace", "")), str(meta.get("name", "")))
        self._read.pop(key, None)
        error = ObjectError(*key, [FieldProblem("", problem)])
        self._spoil(key, raw, error, uid=str(meta.get("uid", "")))
        return key[1:]

    def _spoil(self, key: ObjectKey, raw: Mapping[str, Any], error: ObjectError, *, uid: str) -> None:
        """Count an object that cannot be read as absent, and keep what is wrong with it."""
        kind, before = key[0], self._objects.pop(key, None)
        what_was = str(self.broken.get(key, ("", ""))[0])
        if what_was != str(error) and not already_reported(raw, str(error)):
            self._news[key] = invalid_object(key, raw, error, before=before, uid=uid)
        self.broken[key] = (error, uid)
        self._unrefer(before)
        if kind == ClusterQueue.KIND:
            self._keep_protecting(key[2], raw, before)
        if kind in SHARED and (before is not None or what_was != str(error)):
            self._count_change(kind)

    def has_read(self, kind: str, raw: Mapping[str, Any]) -> bool:
        """Whether an object is known, and nothing has changed since it was read but what is written of it here."""
        meta = raw.get("metadata")
        if not isinstance(meta, Mapping):
            return False
        read = self._read.get((kind, str(meta.get("namespace", "")), str(meta.get("name", ""))))
        return read is not None and read == _print_of(kind, raw)

    def drop(self, kind: str, namespace: str, name: str) -> None:
        """Forget an object that does not exist any more."""
        key = (kind, namespace, name)
        self._read.pop(key, None)
        self.broken.pop(key, None)
        if kind == ClusterQueue.KIND:
            self.protecting.pop(name, None)
        found = self._objects.pop(key, None)
        self._unrefer(found)
        if found is not None and kind in SHARED:
            self._count_change(kind)

    def _count_change(self, kind: str) -> None:
        """Note that an object is another one to those who are admitted by it."""
        if kind in LOCAL:
            self.local_version += 1
        else:
            self.version += 1

    def _keep_protecting(self, queue: str, raw: Mapping[str, Any], before: Object | None) -> None:
        """Note whom a ClusterQueue protects that cannot be read: by what it says, else by what it said last."""
        seconds = minimum_runtime(raw)
        if seconds is None and isinstance(before, ClusterQueue):
            seconds = before.spec.preemption.minimum_runtime_seconds
        if seconds is not None:
            self.protecting[queue] = seconds

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

    def news(self) -> list[InvalidObject]:
        """Return the objects that have become unreadable, or otherwise unreadable, since the last call."""
        news, self._news = self._news, {}
        return [one for key, one in news.items() if key in self.broken]

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

    def each(self, kind: type[K]) -> Iterator[K]:
        """Yield all objects of a kind that can be read, and note at which of them one is looking."""
        for found in self.all(kind):
            self.looked_at = (kind.KIND, found.metadata.namespace, found.metadata.name)
            yield found
        self.looked_at = None

    def unreadable(self, kind: type[Object], namespace: str, name: str) -> str:
        """Return what is wrong with an object that exists and cannot be read; "" where there is nothing."""
        found = self.broken.get((kind.KIND, namespace, name))
        return "" if found is None else str(found[0])

    def all_unreadable(self, kind: type[Object]) -> dict[str, str]:
        """Return what is wrong with each object of a cluster-scoped kind that cannot be read."""
        return {name: str(error) for (one, _, name), (error, _) in self.broken.items() if one == kind.KIND}


OF_OTHERS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        AdmissionCheck.KIND: ("conditions",),
        PodGroup.KIND: ("admissionChecks", "checksRound"),
        Workload.KIND: ("admissionChecks", "checksRound"),
    }
)
"""What of the status of a kind others write, or tells what of that counts."""


def _print_of(kind: str, raw: Mapping[str, Any]) -> int:
    """Return a fingerprint of an object without what is written here and what the server notes with every write."""
    meta = {key: value for key, value in raw["metadata"].items() if key not in NOTED_BY_SERVER}
    rest = [value for key, value in raw.items() if key not in ("metadata", "status")]
    status, theirs = raw.get("status"), OF_OTHERS.get(kind)
    if theirs is not None and isinstance(status, Mapping):
        rest += [status[name] for name in theirs if name in status]
    return hash(msgspec.json.encode((meta, rest)))


def _said(found: Object) -> object:
    """Return the part of an object that admission reads: everything but its status and bookkeeping."""
    if isinstance(found, WorkloadPriorityClass):
        return found.value
    if isinstance(found, AdmissionCheck):
        return found.spec, is_true(found.status.conditions, "Active")
    return getattr(found, "spec", None), bool(found.metadata.deletion_timestamp)
