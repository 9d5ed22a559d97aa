"""Kinds that are read where they are served: what says how large gangs are in other projects, and what owns pods.

How each is read, and what is observed for an object that is there or gone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tutti.api.configuration import Conventions
from tutti.api.conventions.gang_objects import GANG_KINDS, GangKind
from tutti.api.owners import BUILT_IN, OWNER_KINDS, OwnerKind, OwnerView, owner_object
from tutti.engine.records.observations import (
    AnyObservation,
    GangObjectGone,
    GangObjectSeen,
    OwnerGone,
    OwnerKindFollowed,
    OwnerSeen,
)
from tutti.kube.changes import Gone
from tutti.kube.resources import Resource


@dataclass(frozen=True, slots=True)
class OtherKind:
    """A kind that is followed from when the server has it.

    Attributes:
        versions: In which it is read, the newest first.
        view: As what its objects are read.
        seen: What to observe of one that is there, given where its kind is served.
        gone: The same of one that is gone.
        following: What to observe when its objects begin to be followed, or no longer can be; None: nothing.
        may_be_built_in: Whether the server may have it without a CustomResourceDefinition.
        awaited: Whether decisions wait for its first list also where that fails, for a while.
        told: Whether its status is written here.
    """

    group: str
    plural: str
    versions: tuple[str, ...]
    view: Any
    seen: Callable[[Resource, Any], AnyObservation]
    gone: Callable[[Resource, Gone], AnyObservation]
    following: Callable[[bool], AnyObservation] | None = None
    may_be_built_in: bool = True
    awaited: bool = True
    told: bool = True

    @property
    def name(self) -> str:
        """Its name in the API, that of its CustomResourceDefinition."""
        return f"{self.plural}.{self.group}"


def other_kinds(conventions: Conventions) -> Sequence[OtherKind]:
    """Return every kind that is read under these settings."""
    gangs = [_gang(one) for one in GANG_KINDS if getattr(conventions, one.convention)]
    return [*gangs, *map(_owner, OWNER_KINDS)]


def _gang(kind: GangKind) -> OtherKind:
    return OtherKind(
        kind.group,
        kind.plural,
        kind.versions,
        dict[str, Any],
        seen=lambda resource, raw: GangObjectSeen(resource.api_version, kind.kind, raw),
        gone=lambda resource, gone: GangObjectGone(resource.api_version, kind.kind, gone.key.namespace, gone.key.name),
    )


def _owner(kind: OwnerKind) -> OtherKind:
    return OtherKind(
        kind.group,
        kind.plural,
        kind.versions,
        OwnerView,
        seen=lambda _, found: OwnerSeen(owner_object(kind.group, kind.kind, found.metadata)),
        gone=lambda _, gone: OwnerGone(gone.uid),
        following=lambda followed: OwnerKindFollowed(kind.group, kind.kind, followed),
        may_be_built_in=kind.group in BUILT_IN,
        awaited=False,
        told=False,
    )
