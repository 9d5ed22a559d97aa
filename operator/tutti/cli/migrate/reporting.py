"""The report of a migration, for people and for machines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from tutti.cli.migrate.notes import Level
from tutti.cli.migrate.streams import Entry

LOSSES = (Level.LOST, Level.CHANGED, Level.INVALID)


def losses(entries: Sequence[Entry]) -> int:
    """How many entries tell of something that is not as it was."""
    return sum(entry.note.level in LOSSES for entry in entries)


def as_text(entries: Sequence[Entry], passed: Sequence[str]) -> list[str]:
    """The report in lines: where, what it is about, what happens, and what to do."""
    lines = []
    for one in entries:
        about = " ".join(part for part in (one.kind, one.name) if part)
        where = f"{one.file}:{one.line}: document {one.document}" + (f", {about}" if about else "")
        place = f"{one.note.path}: " if one.note.path else ""
        lines += [f"{where}: {one.note.level}: {place}{one.note.happens}", f"    do: {one.note.do}"]
    if passed:
        kinds = ", ".join(f"{kind or 'no kind'} ({count})" for kind, count in Counter(passed).items())
        lines.append(f"passed on as they are: {kinds}")
    counted = Counter(one.note.level for one in entries)
    lines.append(", ".join(f"{counted[level]} {level}" for level in Level))
    return lines


def as_json(entries: Sequence[Entry], passed: Sequence[str]) -> dict[str, Any]:
    """The report for machines."""
    return {
        "losses": losses(entries),
        "passed": dict(Counter(passed)),
        "entries": [
            {
                "file": one.file,
                "line": one.line,
                "document": one.document,
                "kind": one.kind,
                "name": one.name,
                "level": one.note.level.value,
                "path": one.note.path,
                "happens": one.note.happens,
                "do": one.note.do,
            }
            for one in entries
        ],
    }
