"""What is known to exist of one kind: turns what a server lists and tells into what a consumer has to hear.

What holds: an object that is not in a list any more is reported Gone at its end; a name reused by another object is
Gone, then Seen; an object's states are delivered in order and, in a list, only where the version is new.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import time
from typing import Final, Generic, TypeAlias, TypeVar

import msgspec
import structlog

from tutti.kube.changes import Change, Gone, Key, Seen
from tutti.kube.metrics import WireMetrics
from tutti.kube.resources import Resource
from tutti.kube.watching import Meta, WatchEvent, read_bookmark, read_error, read_event, read_meta

log = structlog.get_logger(__name__)
T = TypeVar("T")

Decode: TypeAlias = Callable[[msgspec.Raw], T]
"""Turns an object's JSON into what the consumer wants; raises ValueError (as msgspec does) for a bad object."""

_TYPES: Final = ("LISTED", "ADDED", "MODIFIED", "DELETED", "BOOKMARK")


class Mirror(Generic[T]):
    """The objects of one kind, by their uid and version, kept in step by lists and events.

    Attributes:
        version: The resourceVersion up to which everything was heard; None before the end of a list, and once the
            history since cannot be told any more.
    """

    def __init__(
        self,
        resource: Resource,
        metrics: WireMetrics,
        *,
        decode: Decode[T],
        deliver: Callable[[Sequence[Change[T]]], None],
    ) -> None:
        self.version: str | None = None
        self._label = resource.label
        self._decode = decode
        self._deliver = deliver
        self._known: dict[Key, tuple[str, str]] = {}  # uid and resourceVersion
        self._listed: set[Key] | None = None  # what the list under way has shown
        self._events = {kind: metrics.watched.labels(self._label, kind) for kind in _TYPES}
        self._decode_errors = metrics.decode_errors.labels(self._label)
        self._objects = metrics.objects.labels(self._label)
        self._last_event = metrics.last_event.labels(self._label)

    def __len__(self) -> int:
        return len(self._known)

    @property
    def keys(self) -> frozenset[Key]:
        """The objects known to exist, including those that could not be decoded."""
        return frozenset(self._known)

    def begin_list(self) -> None:
        """Everything that exists is about to be told."""
        self.version = None
        self._listed = set()

    def end_list(self, version: str) -> None:
        """Everything that existed at a version has been told since `begin_list`: what was not is gone."""
        listed, self._listed = self._listed or set(), None
        self.version = version
        self._hand_over([Gone(key, self._known.pop(key)[0]) for key in list(self._known) if key not in listed])

    def take_items(self, items: Sequence[msgspec.Raw]) -> None:
        """Deliver what is new among objects of the list under way."""
        changes: list[Change[T]] = []
        for raw in items:
            self._take_listed(raw, changes)
        self._events["LISTED"].inc(len(items))
        self._hand_over(changes)

    def take_lines(self, lines: Sequence[bytes]) -> None:
        """Apply some events and deliver them together, also those before an event that ends the watch.

        Raises:
            WireError: The server tells of an error, or something that is no event.
        """
        changes: list[Change[T]] = []
        try:
            for line in lines:
                self._take_event(read_event(line), changes)
        finally:
            self._hand_over(changes)
        if lines:
            self._last_event.set(time())

    def _take_event(self, event: WatchEvent, changes: list[Change[T]]) -> None:
        """Apply one event to what is known."""
        if event.type == "ERROR":
            raise read_error(event.object)
        if event.type == "BOOKMARK":
            self._take_bookmark(event.object, changes)
        elif self._listed is not None and event.type == "ADDED":
            self._take_listed(event.object, changes)
            self._events["LISTED"].inc()
        else:
            self._take_change(event, changes)

    def _take_bookmark(self, raw: msgspec.Raw, changes: list[Change[T]]) -> None:
        """Note how far everything was told; one bookmark ends the list of a stream."""
        mark = read_bookmark(raw)
        self._events["BOOKMARK"].inc()
        if self._listed is None:
            self.version = mark.resource_version or self.version
        elif mark.ends_list:
            self._hand_over(changes)
            changes.clear()
            self.end_list(mark.resource_version)

    def _take_change(self, event: WatchEvent, changes: list[Change[T]]) -> None:
        """Apply one change; while a list is under way, nothing can be gone on with from its version."""
        meta = self._identify(event.object)
        if meta is None:
            return
        key = Key(meta.namespace, meta.name)
        if event.type == "DELETED":
            uid = self._known.pop(key, (meta.uid, ""))[0]
            changes.append(Gone(key, uid))
        else:
            self._note(key, meta, event.object, changes)
        if self._listed is None:
            self.version = meta.resource_version or self.version
        elif event.type != "DELETED":
            self._listed.add(key)
        if event.type in self._events:
            self._events[event.type].inc()

    def _take_listed(self, raw: msgspec.Raw, changes: list[Change[T]]) -> None:
        """Note an object of the list under way."""
        meta = self._identify(raw)
        if meta is None:
            return
        key = Key(meta.namespace, meta.name)
        if self._listed is not None:
            self._listed.add(key)
        if self._known.get(key) != (meta.uid, meta.resource_version):
            self._note(key, meta, raw, changes)

    def _note(self, key: Key, meta: Meta, raw: msgspec.Raw, changes: list[Change[T]]) -> None:
        """Remember an object's new state and add what is to be delivered of it."""
        before = self._known.get(key)
        if before is not None and before[0] != meta.uid:
            changes.append(Gone(key, before[0]))
        self._known[key] = (meta.uid, meta.resource_version)
        try:
            changes.append(Seen(key, meta.uid, self._decode(raw)))
        except ValueError as error:
            self._decode_errors.inc()
            log.error(  # noqa: TRY400 - the reason is in the object, not in our stack
                "object_not_decoded",
                resource=self._label,
                namespace=key.namespace,
                name=key.name,
                version=meta.resource_version,
                error=str(error),
            )

    def _identify(self, raw: msgspec.Raw) -> Meta | None:
        """Return the object's metadata; an object without is counted and left out."""
        meta = read_meta(raw)
        if meta is None:
            self._decode_errors.inc()
            log.error("object_without_metadata", resource=self._label, starts=bytes(raw)[:120])
        return meta

    def _hand_over(self, changes: Sequence[Change[T]]) -> None:
        """Deliver a batch, if there is anything in it."""
        if changes:
            self._deliver(changes)
        self._objects.set(len(self._known))
