"""Which worker of several loads which file of tests first, where none has been loaded since it was written.

Each worker needs every file. Rewriting the assertions of all takes twice as long as everything else until the first
test, and workers that load them in the same order each do all of it, as nobody is ahead of the others.
"""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def import_share(arguments: Iterable[str]) -> None:
    """Import this worker's share of the files that pytest was asked for; what cannot be imported, collection tells of."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    if not worker:
        return
    number, count = int(worker.removeprefix("gw")), int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
    for name in share(modules(arguments), number, count):
        with contextlib.suppress(Exception, pytest.skip.Exception):
            importlib.import_module(name)


def share(names: Sequence[str], number: int, count: int) -> Sequence[str]:
    """Return every `count`-th of some names, from the one with this number on."""
    return names[number::count]


def modules(arguments: Iterable[str]) -> list[str]:
    """Return the names of the modules of tests in files and folders, which may be followed by `::` and a test."""
    paths = [Path(one.partition("::")[0]).absolute() for one in arguments]
    files = {file for path in paths for file in (path.rglob("test_*.py") if path.is_dir() else [path])}
    return [".".join(file.relative_to(ROOT).with_suffix("").parts) for file in sorted(files) if ROOT in file.parents]
