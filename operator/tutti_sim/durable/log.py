"""Group commit: changes of the store go to the file together, and answers wait until theirs are there.

A disk takes about as long for a hundred changes as for one. So while one batch is being made durable in a thread, the
next one gathers; whoever may have seen a change waits for its batch before telling anybody. What the file holds is
thereby always the store at some moment, and nobody outside ever saw a later one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from concurrent.futures import ThreadPoolExecutor

from tutti_sim.durable.file import Batch, DataFile
from tutti_sim.store.store import Store
from tutti_sim.store.watching import Change, Event


class Log:
    """Follows a store into a file.

    Args:
        store: the store, before it is loaded from the file.
    """

    def __init__(self, file: DataFile, store: Store) -> None:
        self._file = file
        self._store = store
        self._recent: dict[str, deque[tuple[int, tuple[int, ...]]]] = {}
        self._gathering = Batch()
        self._durable = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._wake = asyncio.Event()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="durable")
        self._ended = ""
        self._broken = False

    def remember(self, collection: str, event: Event) -> None:
        """Keep track of an event of the history; what it makes the file forget goes with the next batch."""
        stale = (event.old.rv,) if event.old is not None else ()
        if event.change is Change.DELETED:
            stale = (*stale, event.rv)
        recent = self._recent.setdefault(collection, deque())
        recent.append((event.rv, stale))
        if len(recent) > self._store.history:
            revision, needless = recent.popleft()
            self._gathering.stale.extend(needless)
            self._gathering.oldest[collection] = revision

    def begin(self) -> None:
        """Follow the store, which holds what the file does."""
        self._durable = self._store.revision
        self._store.followers.append(self.record)

    def record(self, collection: str, event: Event | None) -> None:
        """Follow the store."""
        if event is None:
            self._recent.pop(collection, None)
            self._gathering.oldest.pop(collection, None)
            self._gathering.dropped.append((collection, self._store.revision))
        else:
            encoded = None if event.change is Change.DELETED else event.new.json
            self._gathering.rows.append((event.rv, collection, *event.new.key, encoded))
            self.remember(collection, event)
        self._wake.set()

    async def settle(self) -> None:
        """Until everything that has happened by now is durable."""
        revision = self._store.revision
        if revision <= self._durable:
            return
        if self._ended:
            raise ConnectionError(self._ended)
        future = asyncio.get_running_loop().create_future()
        self._waiting.append((revision, future))
        await future

    async def run(self) -> None:
        """Write until cancelled; a disk that refuses ends this, and with it all that wait."""
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                revision = self._stage()
                await asyncio.get_running_loop().run_in_executor(self._thread, self._file.commit)
                self._reach(revision)
        except asyncio.CancelledError:
            self._end("the cluster has stopped")
            raise
        except Exception as error:
            self._broken = True
            self._end(f"the change could not be made durable: {error}")
            raise

    def _end(self, why: str) -> None:
        self._ended = why
        for _, future in self._waiting:
            if not future.done():
                future.set_exception(ConnectionError(why))

    def _stage(self) -> int:
        batch, self._gathering = self._gathering, Batch()
        batch.revision = self._store.revision
        self._file.stage(batch)
        return batch.revision

    def _reach(self, revision: int) -> None:
        self._durable = revision
        while self._waiting and self._waiting[0][0] <= revision:
            _, future = self._waiting.popleft()
            if not future.done():
                future.set_result(None)

    def close(self) -> None:
        """Write what is left, unless the disk has refused before. `run` must have ended."""
        self._thread.shutdown(wait=True)
        if not self._broken and (self._gathering.rows or self._gathering.dropped):
            self._stage()
            self._file.commit()
