"""Objects of a World that stand in for an API server's: a change has a new version, and the World is told of it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from tutti.engine.records.observations import AnyObservation

if TYPE_CHECKING:
    from tests.engine.world import World


class KeptObjects:
    """Some kinds of objects, and what is seen when one of them is there, and when it has gone."""

    def __init__(
        self,
        world: World,
        seen: Callable[[Any], AnyObservation],
        gone: Callable[[str, str, str], AnyObservation],
    ) -> None:
        self._world = world
        self._seen = seen
        self._gone = gone
        self._versions = itertools.count(1)
        self.objects: dict[tuple[str, str], Any] = {}

    def put(self, *objects: Any) -> None:
        """Make or change objects."""
        for one in objects:
            meta = msgspec.structs.replace(one.metadata, resource_version=str(next(self._versions)))
            changed = msgspec.structs.replace(one, metadata=meta)
            self.objects[type(one).__name__, one.metadata.name] = changed
            self._world.tell(self._seen(changed))

    def drop(self, kind: str, name: str) -> None:
        """Remove an object."""
        one = self.objects.pop((kind, name))
        self._world.tell(self._gone(kind, one.metadata.namespace, name))

    def all(self) -> Iterator[AnyObservation]:
        """What a list shows."""
        yield from (self._seen(one) for one in self.objects.values())
