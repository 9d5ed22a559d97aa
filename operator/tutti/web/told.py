"""What the operator has told of its decisions: its events, which an API server keeps for an hour (`--event-ttl`).

They are read as core/v1, whose field selectors know who reports (kubernetes 1.36, pkg/apis/core/v1/conversion.go,
AddFieldLabelConversionsForEvent: `reportingComponent`); events.k8s.io has no such label.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Final

import msgspec

from tutti.api.messages import shortened
from tutti.kube.resources import APIResource
from tutti.kube.store import Change, Deletion, ObjectKey

TOLD_EVENTS: Final = APIResource("", "v1", "events")
REPORTED_BY_US: Final = "reportingComponent=tutti"
"""As `controller/dispatch.py` writes them."""
LASTS_SECONDS: Final = 3600.0
_MOST: Final = 20_000
_LONGEST_NAME: Final = 253
"""Of any kind, reason and name (kubernetes 1.36, apimachinery/pkg/util/validation: DNS1123SubdomainMaxLength)."""


class _Who(msgspec.Struct, frozen=True, rename="camel"):
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class _Series(msgspec.Struct, frozen=True, rename="camel"):
    count: int = 0
    last_observed_time: datetime | None = None


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: datetime | None = None


class EventView(msgspec.Struct, frozen=True, rename="camel"):
    """As much of a core/v1 Event as is shown."""

    metadata: _Meta = _Meta()
    involved_object: _Who = _Who()
    reason: str = ""
    message: str = ""
    type: str = ""
    event_time: datetime | None = None
    first_timestamp: datetime | None = None
    last_timestamp: datetime | None = None
    series: _Series | None = None
    count: int | None = None


class ToldEvent(msgspec.Struct, frozen=True):
    """One thing that was told.

    Attributes:
        at: When it was told last, Unix seconds.
        kind, namespace, name: Of what.
        warning: Whether it is one.
        times: How often it was told.
    """

    key: str
    at: float
    kind: str
    namespace: str
    name: str
    reason: str
    message: str
    warning: bool
    times: int


def told_event(found: EventView) -> ToldEvent:
    """Return what an event tells."""
    series = found.series
    moments = (
        None if series is None else series.last_observed_time,
        found.last_timestamp,
        found.event_time,
        found.first_timestamp,
        found.metadata.creation_timestamp,
    )
    at = next((one.timestamp() for one in moments if one is not None), 0.0)
    about = found.involved_object
    times = max(1, found.count or 0, 0 if series is None else series.count)
    key = f"{found.metadata.namespace}/{found.metadata.name}"
    kind, namespace, name, reason = (
        text[:_LONGEST_NAME] for text in (about.kind, about.namespace, about.name, found.reason)
    )
    return ToldEvent(key, at, kind, namespace, name, reason, shortened(found.message), found.type == "Warning", times)


class ToldEvents:
    """The events of the last hour; at most so many. The oldest of the namespace that has most is forgotten first.

    Whoever may write events in a namespace can write any number there, in anybody's name: it costs him his own.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._known: dict[str, dict[ObjectKey, ToldEvent]] = {}
        self._count = 0

    def take(self, changes: Sequence[Change[EventView]]) -> None:
        """Take in what has changed."""
        for change in changes:
            known = self._known.setdefault(change.key.namespace, {})
            self._count -= known.pop(change.key, None) is not None
            if not isinstance(change, Deletion):
                known[change.key] = told_event(change.obj)
                self._count += 1
            elif not known:
                del self._known[change.key.namespace]
            if self._count > _MOST:
                most = max(self._known.values(), key=len)
                del most[next(iter(most))]
                self._count -= 1

    def latest(self) -> list[ToldEvent]:
        """Return those of the last hour, the latest first."""
        since = self._clock() - LASTS_SECONDS
        those = (one for known in self._known.values() for one in known.values() if one.at >= since)
        return sorted(those, key=lambda one: (-one.at, one.key))


def about(events: Iterable[ToldEvent], namespace: str, names: frozenset[str]) -> list[ToldEvent]:
    """Return those that are about any of these objects of a namespace."""
    return [one for one in events if one.namespace == namespace and one.name in names]
