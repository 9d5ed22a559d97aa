"""The wire form of a watch: lines of JSON in chunks that end anywhere (kube-apiserver, meta/v1 WatchEvent)."""

from __future__ import annotations

from typing import Final

import msgspec

from tutti.kube.errors import ApiError, Status, WireError

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
