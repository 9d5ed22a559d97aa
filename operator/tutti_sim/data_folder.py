"""What makes the embedded cluster outlive its process: every change in a SQLite file, and the way back from it.

There is one row for each change, as kine keeps them for k3s. Changes go to the file together (group commit), and
answers wait until theirs are there: a disk takes about as long for a hundred changes as for one, so while one batch is
being made durable in a thread, the next one gathers. What the file holds is thereby always the store at some moment,
and nobody outside ever saw a later one. A row is needed while it is an object's present state, or part of the history
that watches may resume from.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from tutti_sim.rest.backend import Backend
from tutti_sim.store.collection import Change, Event, Version
from tutti_sim.store.store import Store

FORMAT = 1
NAME = "cluster.db"
SCHEMA = """
CREATE TABLE IF NOT EXISTS change (
    revision INTEGER PRIMARY KEY, collection TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL, object BLOB
);
CREATE TABLE IF NOT EXISTS collection (name TEXT PRIMARY KEY, oldest INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS fact (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
"""

Row = tuple[int, str, str, str, bytes | None]


class NoDataFile(Exception):  # noqa: N818 - says what it is
    """The folder's file cannot be used: another process holds it, or it is not one of ours."""


@dataclass(slots=True)
class Batch:
    """Changes that become durable together.

    Attributes:
        revision: the store's revision when they have.
        rows: new rows; an object is None where it was deleted.
        stale: revisions whose rows are needed no longer.
        oldest: the beginning of the history by collection, where it has moved.
        dropped: collections that are no more, with the revision they were dropped at.
    """

    revision: int = 0
    rows: list[Row] = field(default_factory=list)
    stale: list[int] = field(default_factory=list)
    oldest: dict[str, int] = field(default_factory=dict)
    dropped: list[tuple[str, int]] = field(default_factory=list)


class DataFile:
    """The open file of one cluster. No other process can open it meanwhile."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = folder / NAME
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=1)
        try:
            path.chmod(0o600)
            self._db.execute("PRAGMA locking_mode=EXCLUSIVE")
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=FULL")
            self._db.execute("BEGIN IMMEDIATE")
            for statement in SCHEMA.split(";"):
                self._db.execute(statement)
            self._db.execute("INSERT OR IGNORE INTO fact VALUES ('format', ?)", (FORMAT,))
            self._db.execute("COMMIT")
        except sqlite3.OperationalError as error:
            self._db.close()
            raise NoDataFile(f"{path}: {error}; it can be used by one cluster at a time") from None
        except sqlite3.DatabaseError as error:
            self._db.close()
            raise NoDataFile(f"{path}: {error}; choose another folder, or remove the file") from None
        if self.fact("format") != FORMAT:
            self._db.close()
            raise NoDataFile(f"{path} has format {self.fact('format')}, and this version reads format {FORMAT}")

    def fact(self, name: str) -> int | str | None:
        """A fact of the cluster, for example its token; None where it is not known."""
        found = self._db.execute("SELECT value FROM fact WHERE name = ?", (name,)).fetchone()
        return found[0] if found else None

    def note(self, name: str, value: int | str) -> None:
        """Keep a fact."""
        self._db.execute("INSERT OR REPLACE INTO fact VALUES (?, ?)", (name, value))

    def stage(self, batch: Batch) -> None:
        """Write a batch, which `commit` then makes durable."""
        run, many = self._db.execute, self._db.executemany
        run("BEGIN IMMEDIATE")
        many("INSERT INTO change VALUES (?, ?, ?, ?, ?)", batch.rows)
        many("DELETE FROM change WHERE revision = ?", [(one,) for one in batch.stale])
        many("INSERT OR REPLACE INTO collection VALUES (?, ?)", list(batch.oldest.items()))
        for name, revision in batch.dropped:
            run("DELETE FROM change WHERE collection = ? AND revision <= ?", (name, revision))
            run("INSERT OR REPLACE INTO collection VALUES (?, ?)", (name, revision))
        run("INSERT OR REPLACE INTO fact VALUES ('revision', ?)", (batch.revision,))

    def commit(self) -> None:
        """Make what is staged durable: when this returns, it survives the end of the process and of the machine."""
        self._db.execute("COMMIT")

    def load(self, store: Store) -> Iterator[tuple[str, Event, bool]]:
        """Bring back objects and history.

        Yields:
            The collection, the event, and whether it belongs to the history that watches may resume from.
        """
        revision = self.fact("revision")
        if not isinstance(revision, int):
            return
        for name, oldest in self._db.execute("SELECT name, oldest FROM collection").fetchall():
            store.collection(name).oldest = oldest
        rows = self._db.execute("SELECT revision, collection, namespace, name, object FROM change ORDER BY revision")
        for row in rows:
            yield row[1], *_repeat(store, row)
        store.revision = revision

    def close(self) -> None:
        """Close the file; what is staged and not committed is lost."""
        self._db.close()


def _repeat(store: Store, row: Row) -> tuple[Event, bool]:
    """Repeat one change; before the history begins, an object is only put where it is."""
    rv, name, namespace, key, encoded = row
    collection = store.collection(name)
    old = collection.get(namespace, key)
    if encoded is None:
        if old is None:
            raise NoDataFile(f"change {rv} deletes {name} {namespace}/{key}, which is not there: the file is damaged")
        event = Event(rv, Change.DELETED, old, old.at(rv))
    else:
        version = Version((namespace, key), msgspec.json.decode(encoded), rv)
        event = Event(rv, Change.MODIFIED if old else Change.ADDED, old, version)
        if rv <= collection.oldest:
            collection.load(version)
            return event, False
    collection.apply(event)
    return event, True


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


DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"


class DataFolder:
    """The folder of one cluster, opened at once; `resume` and `close` are called once each."""

    def __init__(self, folder: Path) -> None:
        self._file = DataFile(folder)
        self._log: Log | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def token(self) -> str | None:
        """The administrator's token, so that a kubeconfig stays good."""
        found = self._file.fact("token")
        return found if isinstance(found, str) else None

    @token.setter
    def token(self, token: str) -> None:
        """Keep it."""
        self._file.note("token", token)

    def resume(self, backend: Backend) -> asyncio.Task[None]:
        """Bring everything back, tell the followers of writes, and keep what happens from now on.

        The task that is returned writes; it ends only when the disk refuses.
        """
        store = backend.store
        log = self._log = Log(self._file, store)
        for collection, event, history in self._file.load(store):
            if history:
                log.remember(collection, event)
            for follower in store.followers:
                follower(collection, event)
        log.begin()
        # With a seed, names and uids would come again.
        backend.draw.seed(f"{backend.draw.random()} {store.revision}")
        _retell(backend)
        backend.settle.append(log.settle)
        self._task = asyncio.create_task(log.run(), name="durable-log")
        return self._task

    async def close(self) -> None:
        """Write what is left, and close the file."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        if self._log is not None:
            self._log.close()
        self._file.close()


def _retell(backend: Backend) -> None:
    """Tell the followers of writes of all that is there, definitions first, as they say what else is served."""
    told = {DEFINITIONS}
    definitions = backend.resource("apiextensions.k8s.io", "v1", "customresourcedefinitions")
    for version in list(backend.collection(definitions).scan()):
        backend.tell(definitions, None, version)
    for resource in list(backend.registry):
        if resource.storage in told:
            continue
        told.add(resource.storage)
        for version in list(backend.collection(resource).scan()):
            if backend.collection(resource).get(*version.key) is version:
                backend.tell(resource, None, version)
