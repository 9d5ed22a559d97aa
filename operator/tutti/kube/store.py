"""What is known to exist of one kind: turns what a server lists and tells into upserts and deletions for a consumer.

What holds: an object that is not in a list any more is reported as deleted at its end; a name reused by another object
is a Deletion, then an Upsert; an object that cannot be read is Unreadable; an object's states are delivered in order
and, in a list, only where the version is new.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from time import time
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

import msgspec
import structlog

from tutti.kube.decoding import Bookmark, Item, Meta, Reader
from tutti.kube.metrics import WireMetrics
from tutti.kube.resources import APIResource

T = TypeVar("T")


class ObjectKey(NamedTuple):
    """An object's name; `namespace` is empty for cluster-scoped kinds."""

    namespace: str
    name: str


class Upsert(msgspec.Struct, Generic[T], frozen=True):
    """The object exists, and this is its newest state."""

    key: ObjectKey
    uid: str
    obj: T


class Deletion(msgspec.Struct, frozen=True):
    """The object with this uid is no more; it may never have been Seen, where it could not be decoded."""

    key: ObjectKey
    uid: str


class Unreadable(msgspec.Struct, frozen=True):
    """The object has changed, and cannot be read as it is now: what was Seen of it before does not hold any more."""

    key: ObjectKey
    uid: str
    problem: str


Change: TypeAlias = Upsert[T] | Deletion

log = structlog.get_logger(__name__)

_TYPES: Final = ("LISTED", "ADDED", "MODIFIED", "DELETED", "BOOKMARK")


class ObjectStore(Generic[T]):
    """The objects of one kind, by their uid and version, kept in step by lists and events.

    Attributes:
        version: The resourceVersion up to which everything was heard; None before the end of a list, and once the
            history since cannot be told any more.
    """

    def __init__(
        self,
        resource: APIResource,
        metrics: WireMetrics,
        *,
        view: type[T],
        deliver: Callable[[Sequence[Change[T]]], None],
        unread: Callable[[Unreadable], None] = lambda _: None,
        trim: Callable[[T], T] = lambda found: found,
    ) -> None:
        self.version: str | None = None
        self._label = resource.label
        self._reader = Reader(view, trim)
        self._deliver = deliver
        self._unread = unread
        self._known: dict[ObjectKey, tuple[str, str]] = {}  # uid and resourceVersion
        self._listed: set[ObjectKey] | None = None  # what the list under way has shown
        self._events = {kind: metrics.watched.labels(self._label, kind) for kind in _TYPES}
        self._decode_errors = metrics.decode_errors.labels(self._label)
        self._objects = metrics.objects.labels(self._label)
        self._last_event = metrics.last_event.labels(self._label)

    def __len__(self) -> int:
        return len(self._known)

    @property
    def keys(self) -> frozenset[ObjectKey]:
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
        self._hand_over([Deletion(key, self._known.pop(key)[0]) for key in list(self._known) if key not in listed])

    def take_items(self, items: Sequence[msgspec.Raw]) -> None:
        """Deliver what is new among objects of the list under way."""
        changes: list[Change[T]] = []
        for raw in items:
            self._take_listed(self._reader.item(raw), changes)
        self._events["LISTED"].inc(len(items))
        self._hand_over(changes)

    def take_lines(self, lines: Sequence[bytes]) -> None:
        """Apply some events and deliver them together, also those before an event that ends the watch.

        Raises:
            WireError: The server tells of an error, or something that is no event.
        """
        changes: list[Change[T]] = []
        told: Counter[str] = Counter()
        try:
            for line in lines:
                told[self._take_line(line, changes)] += 1
        finally:
            self._hand_over(changes)
            for kind, times in told.items():
                self._events[kind].inc(times)
        if lines:
            self._last_event.set(time())

    def _take_line(self, line: bytes, changes: list[Change[T]]) -> str:
        """Apply one event to what is known; returns as what it counts."""
        kind, about = self._reader.event(line)
        if isinstance(about, Bookmark):
            self._take_bookmark(about, changes)
        elif self._listed is not None and kind == "ADDED":
            self._take_listed(about, changes)
            return "LISTED"
        else:
            self._take_change(kind, about, changes)
        return kind

    def _take_bookmark(self, mark: Bookmark, changes: list[Change[T]]) -> None:
        """Note how far everything was told; one bookmark ends the list of a stream."""
        if self._listed is None:
            self.version = mark.resource_version or self.version
        elif mark.ends_list:
            self._hand_over(changes)
            changes.clear()
            self.end_list(mark.resource_version)

    def _take_change(self, kind: str, item: Item[T], changes: list[Change[T]]) -> None:
        """Apply one change; while a list is under way, nothing can be gone on with from its version."""
        meta = self._identify(item)
        if meta is None:
            return
        key = ObjectKey(meta.namespace, meta.name)
        if kind == "DELETED":
            uid = self._known.pop(key, (meta.uid, ""))[0]
            changes.append(Deletion(key, uid))
        else:
            self._note(key, meta, item, changes)
        if self._listed is None:
            self.version = meta.resource_version or self.version
        elif kind != "DELETED":
            self._listed.add(key)

    def _take_listed(self, item: Item[T], changes: list[Change[T]]) -> None:
        """Note an object of the list under way."""
        meta = self._identify(item)
        if meta is None:
            return
        key = ObjectKey(meta.namespace, meta.name)
        if self._listed is not None:
            self._listed.add(key)
        if self._known.get(key) != (meta.uid, meta.resource_version):
            self._note(key, meta, item, changes)

    def _note(self, key: ObjectKey, meta: Meta, item: Item[T], changes: list[Change[T]]) -> None:
        """Remember an object's new state and add what is to be delivered of it."""
        before = self._known.get(key)
        if before is not None and before[0] != meta.uid:
            changes.append(Deletion(key, before[0]))
        self._known[key] = (meta.uid, meta.resource_version)
        try:
            changes.append(Upsert(key, meta.uid, self._reader.read(item)))
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
            self._hand_over(changes)
            changes.clear()
            self._unread(Unreadable(key, meta.uid, str(error)))

    def _identify(self, item: Item[T]) -> Meta | None:
        """Return an object's metadata; an object without is counted and left out."""
        meta, found = item
        if meta is None:
            self._decode_errors.inc()
            log.error("object_without_metadata", resource=self._label, starts=str(found)[:120])
        return meta

    def _hand_over(self, changes: Sequence[Change[T]]) -> None:
        """Deliver a batch, if there is anything in it."""
        if changes:
            self._deliver(changes)
        self._objects.set(len(self._known))
