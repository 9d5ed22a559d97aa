"""The journal's file: opened anew for each run, because a journal begins with its one header."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tutti.api.configuration import TuttiConfiguration
from tutti.engine.journal import JournalWriter


@contextmanager
def journal_at(path: Path | None, configuration: TuttiConfiguration) -> Iterator[JournalWriter | None]:
    """Give a journal that writes to `path`, or None where no path is given.

    A journal of an earlier run is kept beside it as `<name>.previous`. Lines are handed to the system one by one, so
    that a crash of the process loses none.

    Raises:
        OSError: the file cannot be written.
    """
    if path is None:
        yield None
        return
    if path.exists():
        path.rename(path.with_name(path.name + ".previous"))
    with path.open("wb", buffering=0) as file:
        yield JournalWriter(file, configuration)
