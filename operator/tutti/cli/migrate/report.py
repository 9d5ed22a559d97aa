"""What there is to know about rewritten documents, and the report of it, for people and for machines.

A note says what was lost or changes its meaning, and what to do about it.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class NoteLevel(enum.StrEnum):
    """How much a note matters; all but NOTE are losses, for which `--strict` fails."""

    LOST = "lost"
    """What the manifest asks for is not had any more."""
    CHANGED = "changed"
    """It is had in another way, or does not mean quite the same."""
    INVALID = "invalid"
    """What was written would be refused."""
    NOTE = "note"
    """Worth knowing; nothing is lost."""


class Note(NamedTuple):
    """One thing to know: the field as it stood in the manifest, what happens with it, and what to do."""

    level: NoteLevel
    path: str
    happens: str
    do: str


@dataclass(slots=True)
class Notes:
    """The notes about one document, in the order in which they were made.

    Attributes:
        found: The notes.
        moved: Where fields of the rewritten document stood before: new path to old path.
    """

    found: list[Note] = field(default_factory=list)
    moved: dict[str, str] = field(default_factory=dict)

    def add(self, level: NoteLevel, path: str, happens: str, do: str) -> None:
        """Add a note about a field of the rewritten document; it is told by the path where it stood before."""
        self.found.append(Note(level, self.origin(path), happens, do))

    def origin(self, path: str) -> str:
        """Where a field stood before, by the longest part of its path that is known to have moved."""
        for part in _parts(path):
            if part in self.moved:
                return self.moved[part] + path[len(part) :]
        return path


def _parts(path: str) -> Iterator[str]:
    """A path, then ever shorter beginnings of it."""
    yield path
    for end in range(len(path) - 1, 0, -1):
        if path[end] in ".[":
            yield path[:end]


LOSSES = (NoteLevel.LOST, NoteLevel.CHANGED, NoteLevel.INVALID)


def losses(entries: Sequence[ReportEntry]) -> int:
    """How many entries tell of something that is not as it was."""
    return sum(entry.note.level in LOSSES for entry in entries)


def report_text(entries: Sequence[ReportEntry], passed: Sequence[str]) -> list[str]:
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
    lines.append(", ".join(f"{counted[level]} {level}" for level in NoteLevel))
    return lines


def report_json(entries: Sequence[ReportEntry], passed: Sequence[str]) -> dict[str, Any]:
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


class ReportEntry(NamedTuple):
    """A note with where it belongs: file, line and number of the document (both from 1), and what it is about."""

    file: str
    line: int
    document: int
    kind: str
    name: str
    note: Note
