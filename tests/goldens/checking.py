"""Replays golden journals through the engine of the working tree, and tells the first decision that differs.

The comparison is that of `tutti replay` (`engine/journal.py`): every call of `decide`, byte for byte.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import zip_longest
from pathlib import Path

import msgspec

from tests.goldens.recording import SUFFIX
from tutti.engine.journal import Decided, Difference, JournalError, read, replay
from tutti.engine.records.decisions import AnyDecision


class Checked(msgspec.Struct, frozen=True):
    """What came of replaying one journal.

    Attributes:
        turns: How many there are.
        different: How many of them came out differently.
        first: The first of these, for people; or why it could not be replayed. "" where all are equal.
    """

    path: Path
    turns: int = 0
    decisions: int = 0
    different: int = 0
    first: str = ""


def checked(path: Path) -> Checked:
    """Replay one journal. An engine that raises, and a journal that cannot be read, are differences."""
    lines = path.read_bytes().splitlines()
    try:
        found = replay(lines)
    except JournalError as error:
        return Checked(path, different=1, first=f"{path.name}: {error}")
    except Exception:  # noqa: BLE001 - whatever an engine raises is told, and the other journals are compared
        return Checked(path, different=1, first=f"{path.name}: the engine raised\n{traceback.format_exc()}")
    first = _told(path, lines, found.differences[0]) if found.differences else ""
    return Checked(path, found.calls, found.decisions, len(found.differences), first)


def check(folder: Path, processes: int, progress: Callable[[int, int], None]) -> list[Checked]:
    """Replay all journals of a folder; returns what came of each, by name.

    Args:
        folder: Where they are.
        processes: In how many they are replayed.
        progress: Told how many are done, and of how many, after each.

    Raises:
        FileNotFoundError: there are none.
    """
    paths = sorted(folder.glob(f"*{SUFFIX}"))
    if not paths:
        raise FileNotFoundError(f"there are no journals (*{SUFFIX}) in {folder}")
    found: list[Checked] = []
    for one in _each(paths, processes):
        found.append(one)
        progress(len(found), len(paths))
    return sorted(found, key=lambda one: one.path)


def _each(paths: Sequence[Path], processes: int) -> Iterator[Checked]:
    if processes == 1:
        yield from map(checked, paths)
        return
    largest_first = sorted(paths, key=lambda path: -path.stat().st_size)
    with ProcessPoolExecutor(processes) as pool:
        yield from pool.map(checked, largest_first)


def _told(path: Path, lines: Sequence[bytes], difference: Difference) -> str:
    """The first difference: where, and the first decision that was another one."""
    turn = sum(isinstance(line, Decided) for _, line in read(lines[: difference.line]))
    pairs = zip_longest(map(_line, difference.recorded), map(_line, difference.replayed), fillvalue="nothing")
    place, (was, now) = next((n, pair) for n, pair in enumerate(pairs, start=1) if pair[0] != pair[1])
    where = f"{path.name}: turn {turn} (line {difference.line}), at {difference.at:.3f}, decision {place}"
    return f"{where}\n  - {was}\n  + {now}"


def _line(decision: AnyDecision) -> str:
    return msgspec.json.encode(decision).decode()
