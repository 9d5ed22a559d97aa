"""Makes an object of ours out of one that may ask for more than there is, and says what had to go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from tutti.api.kinds import KINDS, ObjectError, parse_object
from tutti.api.kinds.parsing import UNSUPPORTED, UnsupportedField, without_nulls
from tutti.api.problems import path_of
from tutti.cli.migrate.notes import Level, Notes
from tutti.cli.migrate.paths import found, remove


def conform(document: dict[str, Any], notes: Notes, *, unsupported: Sequence[UnsupportedField] = UNSUPPORTED) -> None:
    """Take out of an object of ours what this version does not know or not do yet; what is wrong besides is told."""
    kind = document["kind"]
    _drop_unknown(kind, document, notes)
    spec = document.get("spec")
    for entry in unsupported:
        if entry.kind == kind and isinstance(spec, Mapping):
            for problem in reversed(entry.problems(spec)):
                _remove(document, problem.path)
                why, _, instead = entry.message.partition(": ")
                notes.add(Level.LOST, problem.path, f"left out, because {why}", instead)
    try:
        parse_object(kind, document)
    except ObjectError as error:
        refused = {entry.message for entry in UNSUPPORTED if entry not in unsupported}
        for problem in error.problems:
            if not problem.message.startswith(tuple(refused)):
                notes.add(Level.INVALID, problem.path, f"would be refused: {problem.message}", "correct it by hand")


def _drop_unknown(kind: str, document: dict[str, Any], notes: Notes) -> None:
    """Take out the fields that a kind of ours does not have."""
    try:
        KINDS[kind].model_validate(without_nulls(document))
    except ValidationError as error:
        for detail in reversed(error.errors()):
            path = path_of(detail["loc"])
            if detail["type"] == "extra_forbidden" and remove(document, path):
                happens = f"left out, because {kind} has no such field here"
                notes.add(Level.LOST, path, happens, "check that it can be done without")


def _remove(document: dict[str, Any], path: str) -> None:
    """Take out a field, and what it leaves empty around it: half a setting would be refused."""
    remove(document, path)
    around = path.rpartition(".")[0]
    if around and around != "spec" and found(document, around) == {}:
        _remove(document, around)
