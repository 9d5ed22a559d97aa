"""Pages that are served to tests: in a thread of their own, of a cluster or of what is made up."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any, TypeVar

from tests.cli.views import scene
from tutti.api.configuration import TuttiConfiguration
from tutti.cli.views.configuration import KnownConfiguration
from tutti.cli.views.listing import Listed
from tutti.engine.records.observations import AnyObservation
from tutti.web.told import ToldEvent

T = TypeVar("T")
KNOWN = KnownConfiguration(TuttiConfiguration(), {})


class Loop:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="pages for tests")
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T], seconds: float = 60) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(seconds)

    @contextmanager
    def holding(self, held: AbstractAsyncContextManager[T]) -> Iterator[T]:
        entered = self.run(held.__aenter__())
        try:
            yield entered
        finally:
            self.run(held.__aexit__(None, None, None))

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Events:
    def __init__(self, told: Sequence[ToldEvent]) -> None:
        self.told = list(told)

    def latest(self) -> list[ToldEvent]:
        return self.told


class MadeUpMirror:
    """What pages are made of, without any cluster: objects that no API server would have taken, above all."""

    def __init__(self, made: list[scene.Json] | None = None, events: Sequence[ToldEvent] = ()) -> None:
        self.at = scene.AT
        self.ready, self.changed = asyncio.Event(), asyncio.Event()
        self.ready.set()
        self.changed.set()
        self.configuration = KNOWN
        self.events = Events(events)
        self.seen: list[AnyObservation] = list(scene.told(made, at=self.at).listed.seen)
        self.refused: dict[str, str] = {}
        self._before: list[int] = []

    async def run(self) -> None:
        await asyncio.Event().wait()

    def changes(self) -> list[AnyObservation] | None:
        """Nothing, or anything may have."""
        before, self._before = self._before, [id(one) for one in self.seen]
        return [] if before == self._before else None

    def queue_namespaces(self) -> frozenset[str]:
        return frozenset({"vision", "speech"})

    def listed(self) -> Listed:
        return Listed(self.seen, "default", self.refused)

    def interruptions(self) -> list[str]:
        return []
