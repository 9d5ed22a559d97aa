"""The journal's files: a run begins its own, by size it goes on in another, and nothing about it stops the operator.

A run is what one engine has seen and decided: a process has one, and another one for each engine after one that failed.

    FILE                         what is being written
    FILE.20261122T183000Z.001    parts of this run that are full, and of earlier runs: when the run began, which part

A run is replayed from all its parts, in order. Of one that writes more than it may keep, the oldest parts go; of
earlier runs a few stay, and the last one that did not end by itself stays in any case: that is the one somebody asks
for.

Lines are handed to the system one by one, so that a crash of the process loses none. Where that fails (a full disk),
recording ends there until the next run: a journal with a hole could not be replayed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import structlog
from prometheus_client import Counter

from tutti.api.configuration import TuttiConfiguration
from tutti.engine.journal import ENDED, Header, JournalWriter
from tutti.engine.records.decisions import AnyDecision
from tutti.engine.records.observations import AnyObservation

MOST_BYTES = 128 * 2**20
"""How large a part becomes."""
MOST_PARTS = 8
"""How many parts of one run are kept, with the one that is being written."""
MOST_RUNS = 3
"""How many earlier runs are kept."""

_PART = re.compile(r"\.(\d{8}T\d{6}Z(?:-\d+)?)\.(\d{3,})$")

log = structlog.get_logger(__name__)


class Recording:
    """The journal of one run after the other; what fails is logged and counted, and ends that run.

    Args:
        path: Where to write; what is there already is put aside as the last part of an earlier run.
        configuration: That of the engine.
        failures: Counts how often recording has ended because something could not be written.
        policies: The checksums of the engine's learned policies, by schedulerName.
        most_bytes: How large a part becomes.
        most_parts: How many parts are kept, with the one that is being written.
    """

    def __init__(
        self,
        path: Path,
        configuration: TuttiConfiguration,
        failures: Counter,
        policies: Mapping[str, str] | None = None,
        *,
        most_bytes: int = MOST_BYTES,
        most_parts: int = MOST_PARTS,
    ) -> None:
        self._path = path
        self._configuration = configuration
        self._failures = failures
        self._policies = policies
        self._most_bytes, self._most_parts = most_bytes, most_parts
        self._run, self._part, self._bytes = "", 0, 0
        self._file: int | None = None
        self._writer: JournalWriter | None = None
        self._begin()

    def begin_anew(self) -> None:
        """End this run as a crash does, and begin another one."""
        self._shut()
        self._begin()

    def saw(self, observation: AnyObservation) -> None:
        """Record an observation, before the engine is told."""
        if self._writer is not None:
            self._try(lambda writer: writer.saw(observation), self._writer)

    def decided(
        self, at: float, decisions: list[AnyDecision], *, most: int | None = None, ended: int | None = None
    ) -> None:
        """Record a call of `decide` and what came of it."""
        if self._writer is not None:
            self._try(lambda writer: writer.decided(at, decisions, most=most, ended=ended), self._writer)

    def write(self, data: bytes, /) -> object:
        """Hand lines to the system; all of them, or it is an error.

        Raises:
            OSError: they could not be written.
        """
        assert self._file is not None  # there is a writer
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._file, rest) :]  # a disk that is nearly full takes a part
        self._bytes += len(data)
        return len(data)

    def close(self) -> None:
        """Say that the run has ended by itself."""
        if self._writer is not None:
            self._try(JournalWriter.ended, self._writer)
        self._shut()

    def abandon(self) -> None:
        """End as a crash does: the journal is kept until the next one."""
        self._shut()

    def _begin(self) -> None:
        """Begin a run, with its first part."""
        try:
            self._run, self._part = _put_aside(self._path), 0
            _forget_runs(self._path, MOST_RUNS)
            self._open()
        except OSError as error:
            self._fail(error)

    def _try(self, write: Callable[[JournalWriter], None], writer: JournalWriter) -> None:
        try:
            write(writer)
            if self._bytes >= self._most_bytes:
                self._shut()
                self._path.rename(_part_of(self._path, self._run, self._part))
                parts = _runs(self._path).get(self._run, [])
                for old in parts[: max(0, len(parts) - self._most_parts + 1)]:
                    old.unlink()
                self._open()
        except OSError as error:
            self._fail(error)

    def _open(self) -> None:
        self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        self._part, self._bytes = self._part + 1, 0
        self._writer = JournalWriter(self, self._configuration, run=self._run, part=self._part, policies=self._policies)

    def _shut(self) -> None:
        self._writer = None
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _fail(self, error: OSError) -> None:
        self._failures.inc()
        log.warning("journal_ended", path=str(self._path), error=str(error), goes_on="with the next run")
        self._shut()


@contextmanager
def journal_at(
    path: Path | None, configuration: TuttiConfiguration, failures: Counter, policies: Mapping[str, str] | None = None
) -> Iterator[Recording | None]:
    """Give a journal that writes to `path`, or None where no path is given.

    Raises:
        OSError: there is no such folder; whatever else happens to the journal ends it, and nothing more.
    """
    if path is None:
        yield None
        return
    path.parent.resolve(strict=True)
    recording = Recording(path, configuration, failures, policies)
    try:
        yield recording
    except BaseException:
        recording.abandon()
        raise
    recording.close()


def _put_aside(path: Path) -> str:
    """Keep what an earlier run has written last; return when this one begins, as names of files have it."""
    if path.exists():
        header = _header_of(path)
        run, part = (header.run, header.part) if header is not None and header.run else ("", 1)
        path.rename(_part_of(path, run or _stamp(path.stat().st_mtime), part))
    taken, begins = _runs(path), _stamp(datetime.now(UTC).timestamp())
    number, first = 1, begins
    while begins in taken:  # two starts within a second
        number += 1
        begins = f"{first}-{number}"
    return begins


def _forget_runs(path: Path, keep: int) -> None:
    """Delete the files of earlier runs, but for the newest and the last that did not end by itself."""
    runs = _runs(path)
    crashed = [run for run, parts in runs.items() if not _has_ended(parts[-1])]
    for run in list(runs)[:-keep]:
        if run not in crashed[-1:]:
            for part in runs[run]:
                part.unlink()


def _runs(path: Path) -> dict[str, list[Path]]:
    """Return the parts of each run but the one that is being written; both in order."""
    found: dict[str, list[Path]] = {}
    for one in sorted(path.parent.iterdir(), key=_place):
        named = _PART.fullmatch(one.name.removeprefix(path.name)) if one.name.startswith(path.name) else None
        if named is not None:
            found.setdefault(named[1], []).append(one)
    return found


def _place(file: Path) -> tuple[str, int, int]:
    named = _PART.search(file.name)
    if named is None:
        return file.name, 0, 0
    run, _, again = named[1].partition("-")
    return run, int(again or 1), int(named[2])


def _part_of(path: Path, run: str, part: int) -> Path:
    return path.with_name(f"{path.name}.{run}.{part:03d}")


def _header_of(path: Path) -> Header | None:
    """Return the first line of a file; None where that is no header of a journal."""
    with path.open("rb") as lines:
        try:
            return msgspec.json.decode(lines.readline(MOST_BYTES), type=Header)
        except msgspec.MsgspecError:
            return None


def _has_ended(path: Path) -> bool:
    """Whether the last line of a file says that the run has ended by itself."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - len(ENDED)))
        return file.read() == ENDED


def _stamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y%m%dT%H%M%SZ")
