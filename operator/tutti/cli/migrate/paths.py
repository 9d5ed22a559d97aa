"""Places in a document, as they are named to people: `spec.podSets[0].count`, `metadata.labels[example.com/team]`."""

from __future__ import annotations

import re
from typing import Any

import yaml

_STEP = re.compile(r"\[([^\]]*)\]|([^.\[]+)")


def steps(path: str) -> list[str]:
    """The keys and indexes of a path, one after the other."""
    return [inner or plain for inner, plain in _STEP.findall(path)]


def remove(document: Any, path: str) -> bool:
    """Take the field at a path out of a JSON document; False where there is none."""
    *way, last = steps(path)
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
    return _follow(document, steps(path))


def line_of(node: yaml.Node, path: str) -> int:
    """The line, counted from 0, of the field at a path; of the nearest field around it, where there is none."""
    line = int(node.start_mark.line)
    for step in steps(path):
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
