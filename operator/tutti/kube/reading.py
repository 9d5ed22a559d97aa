"""How objects are read from a list or a watch: in one pass with what is told of them, where their view allows it.

An object that is not as its view would have it is read bit by bit instead: first what it is, so that it is known to
exist, and then what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Generic, TypeAlias, TypeVar

import msgspec

from tutti.api.kinds.parsing import without_nulls
from tutti.kube.depth import cut
from tutti.kube.halves import without_halves
from tutti.kube.watching import (
    Bookmark,
    BrokenStream,
    Meta,
    WatchEvent,
    read_bookmark,
    read_error,
    read_event,
    read_meta,
)

T = TypeVar("T")

_CHANGES: Final = frozenset(("ADDED", "MODIFIED", "DELETED"))
_IDENTITY: Final = {
    ("name", "name"),
    ("namespace", "namespace"),
    ("uid", "uid"),
    ("resource_version", "resourceVersion"),
}

Item: TypeAlias = tuple[Meta | None, T | msgspec.Raw]
"""An object's metadata, None where it has none with a name; and itself, or its JSON where that is still to be read."""


class _Told(msgspec.Struct, Generic[T], frozen=True):
    """A watch event whose object is read with it."""

    type: str
    object: T


def _whole(found: T) -> T:
    return found


class Reader(Generic[T]):
    """Reads objects of one kind into a view; of one that is no Struct, `trim` leaves what is to be kept."""

    def __init__(self, view: type[T], trim: Callable[[T], T] = _whole) -> None:
        self._in_one_pass = _shows_identity(view)
        self._object = object_decoder(view, trim)
        self._strictly: Callable[[msgspec.Raw], Any] = msgspec.json.Decoder(view).decode
        self._told: Callable[[bytes], _Told[Any]] = msgspec.json.Decoder(_Told[view]).decode  # type: ignore[valid-type]

    def event(self, line: bytes) -> tuple[str, Item[T] | Bookmark]:
        """Read a line of a watch: what happened, and to what.

        Raises:
            WireError: It is no watch event, or one that tells of an error.
        """
        if self._in_one_pass:
            try:
                told = self._told(line)
            except (msgspec.MsgspecError, RecursionError):
                pass  # it is read bit by bit below, which tells what is wrong with it
            else:
                if told.type in _CHANGES and told.object.metadata.name:
                    return told.type, (told.object.metadata, told.object)
        event = _read_event(line)
        if event.type in _CHANGES:
            return event.type, (read_meta(event.object), event.object)
        if event.type == "BOOKMARK":
            return event.type, read_bookmark(event.object)
        if event.type == "ERROR":
            raise read_error(event.object)
        raise BrokenStream(f"a watch tells of {event.type!r}, which is no type of an event")

    def item(self, raw: msgspec.Raw) -> Item[T]:
        """Read an object of a list."""
        if self._in_one_pass:
            try:
                found = self._strictly(raw)
            except (msgspec.MsgspecError, RecursionError):
                pass  # as above
            else:
                if found.metadata.name:
                    return found.metadata, found
        try:
            return read_meta(raw), raw
        except RecursionError:
            raw = msgspec.Raw(cut(bytes(raw)))
            return read_meta(raw), raw

    def read(self, item: Item[T]) -> T:
        """Return the object of an item.

        Raises:
            ValueError: It is not as its view would have it.
        """
        found = item[1]
        if isinstance(found, msgspec.Raw):
            read: T = self._object(found)
            return read
        return found


def _read_event(line: bytes) -> WatchEvent:
    try:
        return read_event(line)
    except (RecursionError, BrokenStream):
        return read_event(without_halves(cut(line)))  # what it is about is known then, and the rest goes on


def object_decoder(view: type[T], trim: Callable[[T], T] = _whole) -> Callable[[bytes | msgspec.Raw], T]:
    """Return what reads one object, with null for what is left out.

    Go writes a slice, map or pointer that is nil as null unless its field says `omitempty`, so that a node with an
    unnamed image has `names: null`. What the view does not know may be nested as deep as it likes.

    The function that is returned raises `msgspec.ValidationError` where the object is not as the view would have it.
    """
    strictly: Callable[[bytes | msgspec.Raw], T] = msgspec.json.Decoder(view).decode
    is_free = not _fields(view)

    def decode(raw: bytes | msgspec.Raw) -> T:
        if is_free:
            return trim(_without_history(strictly(cut(bytes(raw)))))
        try:
            return strictly(raw)
        except (msgspec.ValidationError, RecursionError):
            return msgspec.convert(without_nulls(msgspec.json.decode(cut(bytes(raw)))), view)

    return decode


def _without_history(found: T) -> T:
    """Take out of an object who has written which of its fields: nobody reads it, and it can be most of it."""
    meta = found.get("metadata") if isinstance(found, dict) else None
    if isinstance(meta, dict):
        meta.pop("managedFields", None)
    return found


def _shows_identity(view: object) -> bool:
    """Whether a view has the metadata that tells which state of which object it is."""
    meta = next((one.type for one in _fields(view) if one.name == "metadata"), None)
    return {(one.name, one.encode_name) for one in _fields(meta)} >= _IDENTITY


def _fields(view: object) -> tuple[msgspec.structs.FieldInfo, ...]:
    """Return the fields of a view; what is no Struct shows none."""
    if isinstance(view, type) and issubclass(view, msgspec.Struct):
        return msgspec.structs.fields(view)
    return ()
