"""A resource: how one kind is named, served, decoded and stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from tutti_sim.kinds.decode import Notes, decoder
from tutti_sim.kinds.strategy import Strategy
from tutti_sim.kinds.table import shape as builtin_shape
from tutti_sim.meta.errors import FieldError
from tutti_sim.meta.fields import METADATA, Getter
from tutti_sim.patch.shape import Shape

Json = dict[str, Any]

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
STATUS_VERBS = ("get", "patch", "update")


class Codec(Protocol):
    """How a kind's documents are read and checked."""

    @property
    def shape(self) -> Shape:
        """The document's shape."""
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
    def shape(self) -> Shape:
        """The document's shape."""
        return builtin_shape(self.type_name)

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
