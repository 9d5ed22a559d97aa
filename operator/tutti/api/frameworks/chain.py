"""The owners of a pod, nearest first: how far they are followed, and why no further.

Followed is the controller, by uid: another object of the same name is another generation. Where something cannot be
read, what was read before it counts, as in KAI's podgrouper. How many are followed is Kueue's `managedOwnersChainLimit`
(0.20).
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Final

import msgspec

from tutti.api.core import OwnerReference
from tutti.api.frameworks.records import PodMarks, ProjectedOwner

MOST_OWNER_LEVELS: Final = 10
"""How many owners are followed."""


class MissingOwner(enum.Enum):
    """Why an owner is not known."""

    AWAITED = enum.auto()
    """Objects of its kind are seen, and this one has not been yet."""
    UNREADABLE = enum.auto()
    """Objects of its kind are not seen: the kind is unknown, or may not be read."""
    GONE = enum.auto()
    """It does not exist any more."""


class OwnerChain(msgspec.Struct, frozen=True, omit_defaults=True):
    """The owners of a pod as far as they are known.

    Attributes:
        owners: Nearest first.
        awaited: What is yet to be seen, and may decide everything; "": nothing.
        note: Why there may be more above, or "".
    """

    owners: tuple[ProjectedOwner, ...] = ()
    awaited: str = ""
    note: str = ""


LookUp = Callable[[OwnerReference, str], ProjectedOwner | MissingOwner]
"""Finds the object that a reference from a namespace is to."""


def owner_chain(pod: PodMarks, look_up: LookUp) -> OwnerChain:
    """Follow the owners of a pod.

    Args:
        pod: The pod.
        look_up: Finds an owner, a pod that owns pods too (`projected_pod`).
    """
    found: list[ProjectedOwner] = []
    at, several, title = pod.owner, pod.owners, f"Pod {pod.name}"
    while at is not None:
        if len(found) == MOST_OWNER_LEVELS:
            return OwnerChain(tuple(found), note=f"{title} has owners above: {MOST_OWNER_LEVELS} are followed")
        owner = look_up(at, pod.namespace)
        name = f"{at.kind} {at.name}"
        if owner is MissingOwner.AWAITED:
            return OwnerChain(tuple(found), awaited=f"{name}, which owns {title}, has not been seen yet")
        if owner is MissingOwner.UNREADABLE:
            return OwnerChain(tuple(found), note=f"{name}, which owns {title}, is not read")
        if isinstance(owner, MissingOwner) or owner.uid != at.uid:
            return OwnerChain(tuple(found), note=f"{name}, which owns {title}, is gone")
        found.append(owner)
        at, several, title = owner.owner, owner.owners, owner.title
    note = f"{title} has {several} owners, none of which controls it" if several else ""
    return OwnerChain(tuple(found), note=note)
