"""How objects are decoded from a list or a watch: in one pass with what is told of them, where their view allows it.

A watch is lines of JSON in chunks that end anywhere (kube-apiserver, meta/v1 WatchEvent). An object that is not as its
view would have it is read bit by bit instead: first what it is, so that it is known to exist, and then what is wrong
with it. What is nested deeper than anybody reads is null: the API server takes 10,000 levels where a schema lets users
write what they like, and decoders here use the stack for each. Half a surrogate pair is U+FFFD, as Go reads it (1.26,
encoding/json, unquote): one behind an APIService may repeat what a user wrote, and decoders here refuse all that it is
in.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, Generic, TypeAlias, TypeVar

import msgspec

from tutti.api.kinds.parsing import without_nulls
from tutti.kube.errors import ApiError, Status, WireError

DEEPEST: Final = 128
"""Levels of lists and objects, one of which may be an object around the object itself."""
# A string, closed or not, or a bracket: each byte is looked at once.
_BRACKETS = re.compile(rb'"(?:[^"\\]|\\.)*\\?(?:"|\Z)|([\[{])|([\]}])', re.DOTALL)


def cut_depth(text: bytes) -> bytes:
    """Return JSON with null in place of what is nested deeper than `DEEPEST`."""
    if text.count(b"[") + text.count(b"{") <= DEEPEST:
        return text
    depth, kept, begun = 0, list[bytes](), 0
    for found in _BRACKETS.finditer(text):
        if found[1]:
            depth += 1
            if depth == DEEPEST + 1:
                kept += (text[begun : found.start()], b"null")
        elif found[2]:
            depth -= 1
            if depth == DEEPEST:
                begun = found.end()
    if depth <= DEEPEST:  # else it is no JSON, and has no end
        kept.append(text[begun:])
    return b"".join(kept)


# A whole pair, a half, or anything else that is escaped; each byte is looked at once.
_ESCAPES: Final = re.compile(
    rb"(\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\.", re.DOTALL
)


def replace_half_surrogates(text: bytes) -> bytes:
    """Return JSON with the replacement character in place of each half of a pair."""
    return _ESCAPES.sub(lambda found: rb"\ufffd" if found[2] else found[0], text)


LONGEST_LINE_BYTES: Final = 64 << 20
"""Far above what etcd stores; a stream that goes on longer without a line end is not a watch."""


class BrokenStream(WireError):  # noqa: N818 - reads as the state it is
    """What came is not what a watch sends."""


class Meta(msgspec.Struct, frozen=True, rename="camel"):
    """The metadata that identifies one state of one object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class Head(msgspec.Struct, frozen=True):
    """The part of any object that is read before, and even if not, the rest can be."""

    metadata: Meta = Meta()


class Bookmark(msgspec.Struct, frozen=True, rename="camel"):
    """How far the server has told everything."""

    resource_version: str = ""
    annotations: dict[str, str] | None = None

    @property
    def ends_list(self) -> bool:
        """Whether all that existed when the stream began has been told (KEP-3157)."""
        return (self.annotations or {}).get("k8s.io/initial-events-end") == "true"


class _Mark(msgspec.Struct, frozen=True):
    """The object of a bookmark."""

    metadata: Bookmark = Bookmark()


class WatchEvent(msgspec.Struct, frozen=True):
    """One line: what happened, and the object, still undecoded."""

    type: str
    object: msgspec.Raw


_EVENT: Final = msgspec.json.Decoder(WatchEvent)
_HEAD: Final = msgspec.json.Decoder(Head)
_MARK: Final = msgspec.json.Decoder(_Mark)
_STATUS: Final = msgspec.json.Decoder(Status)


class LineSplitter:
    """Cuts a stream of chunks into lines, keeping the unfinished end for the next chunk."""

    def __init__(self) -> None:
        self._pending: list[bytes] = []
        self._pending_bytes = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that this chunk completes, without their ends and without empty ones.

        Raises:
            BrokenStream: A line grows beyond any object's size.
        """
        *complete, rest = chunk.split(b"\n")
        if complete and self._pending:
            complete[0] = b"".join((*self._pending, complete[0]))
            self._pending.clear()
            self._pending_bytes = 0
        if rest:
            self._pending.append(rest)
            self._pending_bytes += len(rest)
            if self._pending_bytes > LONGEST_LINE_BYTES:
                raise BrokenStream(f"a line of the watch is longer than {LONGEST_LINE_BYTES} bytes")
        return [line for line in complete if line.strip()]


def read_event(line: bytes) -> WatchEvent:
    """Decode one line.

    Raises:
        BrokenStream: It is no watch event.
    """
    try:
        return _EVENT.decode(line)
    except msgspec.MsgspecError as error:
        raise BrokenStream(f"a line of the watch is no event: {error}: {line[:120]!r}") from error


def read_meta(raw: msgspec.Raw) -> Meta | None:
    """Return an object's metadata, or None where it has no readable metadata with a name."""
    try:
        meta = _HEAD.decode(raw).metadata
    except msgspec.MsgspecError:
        return None
    return meta if meta.name else None


def read_bookmark(raw: msgspec.Raw) -> Bookmark:
    """Return what a bookmark says: an object without a name.

    Raises:
        BrokenStream: It is no object.
    """
    try:
        return _MARK.decode(raw).metadata
    except msgspec.MsgspecError as error:
        raise BrokenStream(f"a bookmark of the watch cannot be read: {error}") from error


def read_error(raw: msgspec.Raw) -> WireError:
    """Return the error that an ERROR event carries."""
    try:
        return ApiError.of(_STATUS.decode(raw))
    except msgspec.MsgspecError as error:
        return BrokenStream(f"an ERROR event of the watch carries no Status: {error}")


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
            raw = msgspec.Raw(cut_depth(bytes(raw)))
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
        return read_event(
            replace_half_surrogates(cut_depth(line))
        )  # what it is about is known then, and the rest goes on


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
            return trim(_without_history(strictly(cut_depth(bytes(raw)))))
        try:
            return strictly(raw)
        except (msgspec.ValidationError, RecursionError):
            return strictly(msgspec.json.encode(without_nulls(msgspec.json.decode(cut_depth(bytes(raw))))))

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
