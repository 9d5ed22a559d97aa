"""Makes an object of ours out of one that may ask for more than there is, and says what had to go.

Places in a document are named as people are told them: `spec.podSets[0].count`, `metadata.labels[example.com/team]`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import yaml
from pydantic import ValidationError

from tutti.api.kinds import KINDS, ObjectError, parse_object
from tutti.api.kinds.parsing import UNSUPPORTED, UnsupportedField, without_nulls
from tutti.api.problems import path_of
from tutti.cli.migrate.report import NoteLevel, Notes

_STEP = re.compile(r"\[([^\]]*)\]|([^.\[]+)")


def path_steps(path: str) -> list[str]:
    """The keys and indexes of a path, one after the other."""
    return [inner or plain for inner, plain in _STEP.findall(path)]


def remove(document: Any, path: str) -> bool:
    """Take the field at a path out of a JSON document; False where there is none."""
    *way, last = path_steps(path)
    document = _follow(document, way)
    if isinstance(document, dict) and last in document:
        del document[last]
        return True
    if isinstance(document, list) and last.isdecimal() and int(last) < len(document):
        del document[int(last)]
        return True
    return False


def found(document: Any, path: str) -> Any:
    """The field at a path of a JSON document; None where there is none."""
    return _follow(document, path_steps(path))


def line_of(node: yaml.Node, path: str) -> int:
    """The line, counted from 0, of the field at a path; of the nearest field around it, where there is none."""
    line = int(node.start_mark.line)
    for step in path_steps(path):
        if isinstance(node, yaml.MappingNode):
            entry = next(((key, value) for key, value in node.value if key.value == step), None)
            if entry is None:
                break
            line, node = int(entry[0].start_mark.line), entry[1]
        elif isinstance(node, yaml.SequenceNode) and step.isdecimal() and int(step) < len(node.value):
            node = node.value[int(step)]
            line = int(node.start_mark.line)
        else:
            break
    return line


def _follow(value: Any, way: list[str]) -> Any:
    for step in way:
        value = _inside(value, step)
    return value


def _inside(value: Any, step: str) -> Any:
    if isinstance(value, dict):
        return value.get(step)
    if isinstance(value, list) and step.isdecimal() and int(step) < len(value):
        return value[int(step)]
    return None


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
                notes.add(NoteLevel.LOST, problem.path, f"left out, because {why}", instead)
    try:
        parse_object(kind, document)
    except ObjectError as error:
        refused = {entry.message for entry in UNSUPPORTED if entry not in unsupported}
        for problem in error.problems:
            if not problem.message.startswith(tuple(refused)):
                notes.add(NoteLevel.INVALID, problem.path, f"would be refused: {problem.message}", "correct it by hand")


def _drop_unknown(kind: str, document: dict[str, Any], notes: Notes) -> None:
    """Take out the fields that a kind of ours does not have."""
    try:
        KINDS[kind].model_validate(without_nulls(document))
    except ValidationError as error:
        for detail in reversed(error.errors()):
            path = path_of(detail["loc"])
            if detail["type"] == "extra_forbidden" and remove(document, path):
                happens = f"left out, because {kind} has no such field here"
                notes.add(NoteLevel.LOST, path, happens, "check that it can be done without")


def _remove(document: dict[str, Any], path: str) -> None:
    """Take out a field, and what it leaves empty around it: half a setting would be refused."""
    remove(document, path)
    around = path.rpartition(".")[0]
    if around and around != "spec" and found(document, around) == {}:
        _remove(document, around)
