"""What an informer tells its consumer: an object as it is now, that it cannot be read, or that it is no more."""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeAlias, TypeVar

import msgspec

T = TypeVar("T")


class Key(NamedTuple):
    """An object's name; `namespace` is empty for cluster-scoped kinds."""

    namespace: str
    name: str


class Seen(msgspec.Struct, Generic[T], frozen=True):
    """The object exists, and this is its newest state."""

    key: Key
    uid: str
    obj: T


class Gone(msgspec.Struct, frozen=True):
    """The object with this uid is no more; it may never have been Seen, where it could not be decoded."""

    key: Key
    uid: str


class Unread(msgspec.Struct, frozen=True):
    """The object has changed, and cannot be read as it is now: what was Seen of it before does not hold any more."""

    key: Key
    uid: str
    problem: str


Change: TypeAlias = Seen[T] | Gone
