"""The file: one row for each change, as kine keeps them for k3s, and the way back from rows to a store.

A row is needed while it is an object's present state, or part of the history that watches may resume from. What an
object was before the history begins is deleted with the event that replaced it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from tutti_sim.store.store import Store
from tutti_sim.store.version import Version
from tutti_sim.store.watching import Change, Event

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
