"""A resource: how one kind is named, served, decoded and stored; and all that are served at the moment.

Its strategy is what a kind does beside being stored: defaults, what a writer may change, and validation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from tutti_sim.kinds.declared import declared_type
from tutti_sim.kinds.decode import Notes, decoder
from tutti_sim.kinds.decode import shape as builtin_shape
from tutti_sim.meta import Json, names
from tutti_sim.meta.errors import FieldError
from tutti_sim.meta.selectors import METADATA, Getter
from tutti_sim.patch.strategic import DocumentShape
from tutti_sim.patch.typed import Declared


class Strategy:
    """The behaviour of most kinds; others override what differs.

    Attributes:
        generation: whether metadata.generation counts the changes outside metadata and status.
        managed: whether metadata.managedFields is kept.
        create_on_update: whether a PUT to a name that does not exist creates it.
        needs_version: whether a PUT must say which resourceVersion it replaces.
        has_status: whether status is written through its own subresource only.
        keeps_status_on_create: whether a creator may set status.
        checks_metadata: whether metadata is looked at where something else is wrong.
        standard_finalizers: whether a finalizer without a domain has to be one of those that Kubernetes knows.
        answers_object: whether DELETE answers with the object.
        shows_status: whether a status that nobody has written is shown, too.
        orphans: whether a DELETE without a policy leaves the dependants (batch/v1 Jobs do so for old clients).
    """

    generation = False
    managed = True
    create_on_update = False
    needs_version = False
    has_status = False
    keeps_status_on_create = False
    checks_metadata = True
    standard_finalizers = True
    answers_object = False
    orphans = False
    shows_status = True

    def default(self, obj: Json) -> None:
        """Fill in what the client left out."""

    def prepare_create(self, obj: Json) -> None:
        """Drop what a creator may not set, and set what only the server does."""
        if self.has_status and not self.keeps_status_on_create:
            obj.pop("status", None)

    def prepare_update(self, new: Json, old: Json) -> None:
        """Put back what an update of the main resource may not change."""
        if self.has_status:
            if "status" in old:
                new["status"] = old["status"]
            else:
                new.pop("status", None)

    def prepare_status(self, new: Json, old: Json) -> None:
        """Put back what an update of the status may not change."""
        for key in set(new) | set(old):
            if key not in ("metadata", "status"):
                if key in old:
                    new[key] = old[key]
                else:
                    new.pop(key, None)
        if self.shows_status:
            new.setdefault("status", {})
        new["metadata"]["labels"] = old["metadata"].get("labels")
        if new["metadata"]["labels"] is None:
            del new["metadata"]["labels"]

    def prepare_part(self, part: str, new: Json, old: Json) -> None:
        """Put back what an update of another subresource may not change."""
        del part
        self.prepare_update(new, old)

    def check_name(self, name: str) -> list[str]:
        """What is wrong with a name."""
        return names.subdomain_faults(name)

    def pattern(self, obj: Json) -> bytes:
        """What the specifications have in common that set the same fields and are as valid; empty where unknown."""
        del obj
        return b""

    def validate(self, obj: Json) -> list[FieldError]:
        """What is wrong with an object."""
        del obj
        return []

    def validate_new(self, obj: Json, pattern: bytes) -> list[FieldError]:
        """What is wrong with a new object of that pattern."""
        del pattern
        return self.validate(obj)

    def validate_update(self, new: Json, old: Json) -> list[FieldError]:
        """What is wrong with a change."""
        del old
        return self.validate(new)

    def validate_status(self, new: Json, old: Json) -> list[FieldError]:
        """What is wrong with a change of status."""
        del new, old
        return []

    def validate_part(self, part: str, new: Json, old: Json) -> list[FieldError]:
        """What is wrong with a change through another subresource."""
        del part, old
        return self.validate(new)

    def grace(self, obj: Json, asked: int | None) -> int | None:
        """Seconds that an object is given to end; None for kinds that are deleted at once."""
        del obj, asked
        return None

    def warnings(self, obj: Json, pattern: bytes) -> list[str]:
        """What the writer of a new object of that pattern should know, though it is accepted."""
        del obj, pattern
        return []


ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
STATUS_VERBS = ("get", "patch", "update")


class Codec(Protocol):
    """How a kind's documents are read and checked."""

    @property
    def shape(self) -> DocumentShape:
        """The document's shape."""
        ...

    @property
    def declared(self) -> Declared:
        """What a configuration that is applied may hold."""
        ...

    def decode(self, body: Json, notes: Notes) -> Json:
        """A fresh object from a document, without what the kind does not know; DecodeError when it cannot be one."""
        ...

    def validate(self, obj: Json, old: Json | None) -> list[FieldError]:
        """What the kind's schema says is wrong with an object, or with a change."""
        ...


class BuiltinCodec:
    """A codec from the table of built-in types."""

    def __init__(self, type_name: str) -> None:
        self._decode = decoder(type_name)
        self.type_name = type_name

    @property
    def shape(self) -> DocumentShape:
        """The document's shape."""
        return builtin_shape(self.type_name)

    @property
    def declared(self) -> Declared:
        """What a configuration that is applied may hold."""
        return declared_type(self.type_name)

    def decode(self, body: Json, notes: Notes) -> Json:
        """A fresh object with the fields that the type knows."""
        obj: Json = self._decode(body, "", notes)
        return obj

    def validate(self, obj: Json, old: Json | None) -> list[FieldError]:
        """Nothing: the strategy of a built-in kind validates it."""
        del obj, old
        return []


@dataclass(frozen=True, slots=True)
class Subresource:
    """A path below an object, and what it answers with."""

    kind: str
    verbs: tuple[str, ...]
    group: str = ""
    version: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a Table: its definition and how a cell is read."""

    name: str
    cell: Callable[[Json], Any]
    type: str = "string"
    format: str = ""
    priority: int = 0
    description: str = ""


@dataclass(slots=True)
class Resource:
    """One resource of one API version.

    Attributes:
        storage: name of the collection; versions of one kind share it.
        selectable: fields that field selectors may use.
        plain: whether those are only name and namespace.
        custom: whether a CustomResourceDefinition defines it.
        stored_as: the apiVersion that its objects are stored under.
        inward, outward: conversion to and from the stored version, where they differ.
        deprecated: a warning for every answer, or empty.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    codec: Codec
    strategy: Strategy
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: Mapping[str, Subresource] = field(default_factory=dict)
    columns: tuple[Column, ...] = ()
    selectable: Mapping[str, Getter] = field(default_factory=lambda: METADATA)
    plain: bool = True
    custom: bool = False
    storage: str = ""
    list_kind: str = ""
    stored_as: str = ""
    inward: Callable[[Json], Json] | None = None
    outward: Callable[[Json], Json] | None = None
    deprecated: str = ""
    scale: ScalePaths | None = None

    def __post_init__(self) -> None:
        self.singular = self.singular or self.kind.lower()
        self.list_kind = self.list_kind or f"{self.kind}List"
        self.storage = self.storage or self.qualified
        self.stored_as = self.stored_as or self.api_version

    @property
    def api_version(self) -> str:
        """The apiVersion of its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """The plural with its group."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def go_name(self) -> str:
        """What the server itself calls the type of its objects."""
        if self.custom:
            return "unstructured.Unstructured"
        package = "core" if self.group == "events.k8s.io" else self.group.partition(".")[0] or "core"
        return f"{package}.{self.kind}"

    def read(self, body: Json, notes: Notes) -> Json:
        """An object of this kind from a document, kind and apiVersion first; DecodeError when it cannot be one."""
        obj = self.codec.decode(body, notes)
        obj.pop("kind", None)
        obj.pop("apiVersion", None)
        meta = obj.get("metadata")
        if not isinstance(meta, dict):
            obj["metadata"] = {}
        return {"kind": self.kind, "apiVersion": self.stored_as, **obj}


@dataclass(frozen=True, slots=True)
class ScalePaths:
    """Where the scale subresource reads and writes."""

    spec: str
    status: str
    selector: str = ""


class Registry:
    """Resources in the order they are announced. `changes` counts what discovery has to follow."""

    def __init__(self, resources: Iterable[Resource]) -> None:
        self._by_path: dict[tuple[str, str, str], Resource] = {}
        self._preferred: dict[str, tuple[str, ...]] = {}
        self.changes = 0
        for resource in resources:
            self.add(resource)

    def __iter__(self) -> Iterator[Resource]:
        return iter(self._by_path.values())

    def add(self, resource: Resource) -> None:
        """Serve a resource, in place of the one that had its path."""
        self._by_path[resource.group, resource.version, resource.plural] = resource
        self.changes += 1

    def remove(self, resource: Resource) -> None:
        """Serve a resource no longer."""
        self._by_path.pop((resource.group, resource.version, resource.plural), None)
        self.changes += 1

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        """The resource at that path."""
        return self._by_path.get((group, version, plural))

    def of_kind(self, api_version: str, kind: str) -> Resource | None:
        """The resource whose objects have that apiVersion and kind; of another version of the group, failing that."""
        group, _, version = api_version.rpartition("/")
        same_group = [res for res in self._by_path.values() if res.group == group and res.kind == kind]
        for resource in same_group:
            if resource.version == version:
                return resource
        return same_group[0] if same_group else None

    def groups(self) -> dict[str, list[str]]:
        """Group -> its versions, preferred first (v2 before v1 before v1beta1 before v1alpha1)."""
        found: dict[str, list[str]] = {}
        for group, version, _ in self._by_path:
            versions = found.setdefault(group, [])
            if version not in versions:
                versions.append(version)
        for versions in found.values():
            versions.sort(key=version_order)
        return found

    def within(self, group: str, version: str) -> list[Resource]:
        """The resources of one group version, by name."""
        found = [res for (grp, ver, _), res in self._by_path.items() if (grp, ver) == (group, version)]
        return sorted(found, key=lambda resource: resource.plural)


def version_order(version: str) -> tuple[int, int, int, str]:
    """A sort key that puts the most stable and newest version first (apimachinery/pkg/version)."""
    body = version.removeprefix("v")
    for rank, mark in enumerate(("", "beta", "alpha")):
        major, found, minor = body.partition(mark) if mark else (body, "", "0")
        if major.isdigit() and (not mark or found) and minor.isdigit():
            return (rank, -int(major), -int(minor), "")
    return (3, 0, 0, version)
