"""What is said about a rewritten document: what was lost, what changes its meaning, and what to do about it."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple


class Level(enum.StrEnum):
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

    level: Level
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

    def add(self, level: Level, path: str, happens: str, do: str) -> None:
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
