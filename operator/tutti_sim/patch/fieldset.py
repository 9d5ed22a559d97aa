"""Sets of fields, and their written form FieldsV1.

A field is a path of steps: `f:name` a field or map key, `k:{...}` the item of a keyed list, `v:...` a member of a set.
A set of fields is a set of such paths, so that set algebra is Python's own (structured-merge-diff, fieldpath).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from tutti_sim.patch.shape import Form, Shape, form_of

Json = dict[str, Any]
Path = tuple[str, ...]
FieldSet = set[Path]


class Missing:
    """The value of a field that is not there."""


MISSING = Missing()

_encode = msgspec.json.Encoder(order="sorted").encode


def step_of_item(item: Any, shape: Shape) -> str:
    """The step to an item of a keyed list."""
    defaults = shape.defaults or {}
    keys = {key: item.get(key, defaults.get(key)) for key in shape.keys} if isinstance(item, dict) else {}
    return "k:" + _encode({key: value for key, value in keys.items() if value is not None}).decode()


def step_of_member(value: Any) -> str:
    """The step to a member of a set."""
    return "v:" + _encode(value).decode()


def collect(value: Any, shape: Shape, path: Path, into: FieldSet, *, containers: bool) -> None:
    """Add every field below `path` that the value sets; maps and items themselves too, if `containers`."""
    form = form_of(shape, value)
    if form in (Form.STRUCT, Form.MAP) and value:
        if containers and form is Form.MAP and path:
            into.add(path)
        for key, inner in value.items():
            collect(inner, shape.field(key), (*path, "f:" + key), into, containers=containers)
    elif form is Form.KEYED and value:
        if containers:
            into.add(path)
        element = shape.element()
        for item in value:
            place = (*path, step_of_item(item, shape))
            into.add(place)
            collect(item, element, place, into, containers=containers)
    elif form is Form.SET and value:
        if containers:
            into.add(path)
        into.update((*path, step_of_member(item)) for item in value)
    else:
        into.add(path)


def tree(value: Any, shape: Shape) -> Json:
    """What `written` makes of all that `collect` finds below a value, containers included, in one pass."""
    form = form_of(shape, value)
    if not value or form is Form.LEAF or form is Form.ATOMIC:
        return {}
    if form is Form.STRUCT or form is Form.MAP:
        node: Json = {".": {}} if form is Form.MAP else {}
        for key, inner in value.items():
            scalar = inner.__class__ is not dict and inner.__class__ is not list
            node["f:" + key] = {} if scalar else tree(inner, shape.field(key))
        return node
    node = {".": {}}
    if form is Form.SET:
        for item in value:
            node[step_of_member(item)] = {}
        return node
    element = shape.element()
    for item in value:
        below = tree(item, element)
        node[step_of_item(item, shape)] = {".": {}, **below} if below else below
    return node


def changed(old: Any, new: Any, shape: Shape, path: Path, into: FieldSet) -> None:
    """Add every field below `path` that was added or modified between two values."""
    if old is new:
        return
    form = form_of(shape, new)
    if old is MISSING or form_of(shape, old) is not form:
        collect(new, shape, path, into, containers=True)
    elif form in (Form.STRUCT, Form.MAP):
        for key, inner in new.items():
            changed(old.get(key, MISSING), inner, shape.field(key), (*path, "f:" + key), into)
    elif form is Form.KEYED:
        before = {step_of_item(item, shape): item for item in old}
        element = shape.element()
        for item in new:
            step = step_of_item(item, shape)
            if step not in before:
                into.add((*path, step))
            changed(before.get(step, MISSING), item, element, (*path, step), into)
    elif form is Form.SET:
        into.update((*path, step_of_member(item)) for item in new if item not in old)
    elif old != new:
        into.add(path)


def resolve(value: Any, shape: Shape, path: Path) -> tuple[Any, Shape]:
    """The value at a path with its shape; MISSING when it is not there."""
    for step in path:
        if step.startswith("f:"):
            name = step[2:]
            if not isinstance(value, dict) or name not in value:
                return MISSING, shape
            value, shape = value[name], shape.field(name)
            continue
        if not isinstance(value, list):
            return MISSING, shape
        wanted = step
        for item in value:
            if wanted == (step_of_item(item, shape) if step.startswith("k:") else step_of_member(item)):
                value, shape = item, shape.element()
                break
        else:
            return MISSING, shape
    return value, shape


def existing(fields: FieldSet, value: Any, shape: Shape) -> FieldSet:
    """The fields that are still there."""
    return {path for path in fields if resolve(value, shape, path)[0] is not MISSING}


def written(fields: Iterable[Path]) -> Json:
    """A set of fields as FieldsV1."""
    root: Json = {}
    inner: set[int] = set()
    for path in sorted(fields, key=len):
        node = root
        for step in path[:-1]:
            child = node.get(step)
            if child is None:
                child = node[step] = {}
                inner.add(id(child))
            elif not child and id(child) not in inner:
                child["."] = {}
            node = child
        if path and path[-1] not in node:
            node[path[-1]] = {}
    return root


def read(fields: Json) -> FieldSet:
    """A set of fields from FieldsV1."""
    found: FieldSet = set()
    _read(fields, (), found)
    return found


def _read(node: Json, path: Path, into: FieldSet) -> None:
    if not node:
        if path:
            into.add(path)
        return
    for step, child in node.items():
        if step == ".":
            into.add(path)
        else:
            _read(child, (*path, step), into)


def shown(path: Path) -> str:
    """A field as messages name it: `.spec.containers[name="c"].image`."""
    parts = []
    for step in path:
        if step.startswith("f:"):
            parts.append("." + step[2:])
        elif step.startswith("k:"):
            keys = msgspec.json.decode(step[2:])
            parts.append("[" + ",".join(f"{key}={_encode(value).decode()}" for key, value in keys.items()) + "]")
        else:
            parts.append(f"[={step[2:]}]")
    return "".join(parts)
