"""metadata.managedFields: which manager set which field, through which operation and subresource.

Sets of fields have a written form, FieldsV1.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import msgspec

from tutti_sim.meta import Json, clock
from tutti_sim.patch.strategic import DocumentShape, Form, form_of

Path = tuple[str, ...]
FieldSet = set[Path]


class Missing:
    """The value of a field that is not there."""


MISSING = Missing()

_encode_key = msgspec.json.Encoder(order="sorted").encode


def step_of_item(item: Any, shape: DocumentShape) -> str:
    """The step to an item of a keyed list."""
    defaults = shape.defaults or {}
    keys = {key: item.get(key, defaults.get(key)) for key in shape.keys} if isinstance(item, dict) else {}
    return "k:" + _encode_key({key: value for key, value in keys.items() if value is not None}).decode()


def step_of_member(value: Any) -> str:
    """The step to a member of a set."""
    return "v:" + _encode_key(value).decode()


def collect(value: Any, shape: DocumentShape, path: Path, into: FieldSet, *, containers: bool) -> None:
    """Add every field below `path` that the value sets; maps and items themselves too, if `containers`."""
    form = form_of(shape, value)
    if form in (Form.STRUCT, Form.MAP) and value:
        if containers and path:
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


def tree(value: Any, shape: DocumentShape, *, blank: bool = False) -> Json:
    """What `written` makes of all that `collect` finds below a value, containers included, in one pass.

    `blank` says that the value was there before, with nothing in it: then it has not been added as a whole.
    """
    form = form_of(shape, value)
    if not value or form is Form.LEAF or form is Form.ATOMIC:
        return {}
    node: Json = {} if blank else {".": {}}
    if form is Form.STRUCT or form is Form.MAP:
        always = shape.always if blank else _NOTHING
        for key, inner in value.items():
            scalar = inner.__class__ is not dict and inner.__class__ is not list
            if key in always and not inner:
                continue
            node["f:" + key] = {} if scalar else tree(inner, shape.field(key), blank=key in always)
        return node
    if form is Form.SET:
        for item in value:
            node[step_of_member(item)] = {}
        return node
    element = shape.element()
    for item in value:
        node[step_of_item(item, shape)] = tree(item, element)
    return node


_NOTHING: frozenset[str] = frozenset()


def changed(old: Any, new: Any, shape: DocumentShape, path: Path, into: FieldSet) -> None:
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


def resolve(value: Any, shape: DocumentShape, path: Path) -> tuple[Any, DocumentShape]:
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


def existing(fields: FieldSet, value: Any, shape: DocumentShape) -> FieldSet:
    """The fields that are still there."""
    return {path for path in fields if resolve(value, shape, path)[0] is not MISSING}


def write_fields(fields: Iterable[Path]) -> Json:
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


def read_fields(fields: Json) -> FieldSet:
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
            parts.append("[" + ",".join(f"{key}={_encode_key(value).decode()}" for key, value in keys.items()) + "]")
        else:
            parts.append(f"[={step[2:]}]")
    return "".join(parts)


_encode = msgspec.json.Encoder().encode

UNMANAGED_NAMES = frozenset(
    [
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "generation",
        "managedFields",
        "name",
        "namespace",
        "resourceVersion",
        "selfLink",
        "uid",
    ]
)
UNMANAGED_META = frozenset("f:" + name for name in UNMANAGED_NAMES)


@dataclass(frozen=True, slots=True)
class Entry:
    """What one manager set in one way."""

    manager: str
    operation: str
    api_version: str
    subresource: str
    time: str
    fields: frozenset[Path]

    def same_as(self, other: Entry) -> bool:
        """Whether both are about the same manager, operation and place."""
        return (self.manager, self.operation, self.api_version, self.subresource) == (
            other.manager,
            other.operation,
            other.api_version,
            other.subresource,
        )

    def written(self) -> Json:
        """The entry as it is stored."""
        entry: Json = {
            "manager": self.manager,
            "operation": self.operation,
            "apiVersion": self.api_version,
            "time": self.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": write_fields(self.fields),
        }
        if self.subresource:
            entry["subresource"] = self.subresource
        return entry


def entries(meta: Json) -> list[Entry]:
    """The entries of an object."""
    return [
        Entry(
            one.get("manager", ""),
            one.get("operation", "Update"),
            one.get("apiVersion", ""),
            one.get("subresource", ""),
            one.get("time", ""),
            frozenset(read_fields(one.get("fieldsV1") or {})),
        )
        for one in meta.get("managedFields") or ()
        if one
    ]


def write(meta: Json, kept: list[Entry]) -> None:
    """Store entries, Apply before Update, older before newer; empty ones are dropped."""
    full = [entry for entry in kept if entry.fields]
    full.sort(key=lambda entry: (entry.operation != "Apply", entry.time, entry.manager))
    if full:
        meta["managedFields"] = [entry.written() for entry in full]
    else:
        meta.pop("managedFields", None)


def managed(fields: FieldSet, subresource: str) -> FieldSet:
    """The fields that are kept account of: neither identity nor the half that the write cannot change."""
    ignored = {"f:apiVersion", "f:kind", "f:spec" if subresource == "status" else "f:status"}
    return {
        path
        for path in fields
        if path
        and path[0] not in ignored
        and not (path[0] == "f:metadata" and (len(path) == 1 or path[1] in UNMANAGED_META))
    }


def on_create(
    obj: Json, shape: DocumentShape, *, manager: str, api_version: str, keeps_status: bool, pattern: bytes = b""
) -> None:
    """Account for a new object; `pattern`, if given, is JSON that sets the same fields as its specification."""
    fields: Json = {}
    for key, value in obj.items():
        if key in ("kind", "apiVersion") or (key == "status" and not keeps_status):
            continue
        if not value and key in shape.always:
            continue
        if key == "spec" and pattern:
            fields["f:spec"] = _of_pattern(pattern, shape.field(key))
            continue
        if key != "metadata":
            fields["f:" + key] = _shared(_encode(tree(value, shape.field(key), blank=key in shape.always)))
            continue
        managed_part = {name: inner for name, inner in value.items() if name not in UNMANAGED_NAMES}
        if managed_part.keys() <= _OF_TEXTS:
            named = tuple([(name, tuple(inner)) for name, inner in managed_part.items()])
            if named:
                fields["f:metadata"] = _of_texts(named, shape.field(key))
        elif managed_part:
            fields["f:metadata"] = _shared(_encode(tree(managed_part, shape.field(key), blank=True)))
    if fields:
        obj["metadata"]["managedFields"] = [
            {
                "manager": manager,
                "operation": "Update",
                "apiVersion": api_version,
                "time": clock.now(),
                "fieldsType": "FieldsV1",
                "fieldsV1": fields,
            }
        ]


_OF_TEXTS = frozenset(("labels", "annotations"))
"""Parts of metadata of which only the keys decide what fields are set."""


@lru_cache(maxsize=512)
def _of_texts(named: tuple[tuple[str, tuple[str, ...]], ...], shape: DocumentShape) -> Json:
    """The fields of all metadata with those keys in those parts."""
    return _shared(_encode(tree({name: dict.fromkeys(keys, "") for name, keys in named}, shape, blank=True)))


@lru_cache(maxsize=512)
def _of_pattern(pattern: bytes, shape: DocumentShape) -> Json:
    """The fields of all objects of one pattern."""
    return _shared(_encode(tree(msgspec.json.decode(pattern), shape, blank=True)))


@lru_cache(maxsize=4096)
def _shared(encoded: bytes) -> Json:
    """One tree for all objects that set the same fields, as the pods of a Job do: nobody changes stored objects."""
    shared: Json = msgspec.json.decode(encoded)
    return shared


def on_update(
    new: Json,
    old: Json,
    shape: DocumentShape,
    *,
    manager: str,
    api_version: str,
    subresource: str,
    owned: bool = True,
) -> None:
    """Account for an update: what it added or changed is the manager's now, if `owned`, and nobody else's."""
    meta = new["metadata"]
    asked = meta.get("managedFields")
    if asked is not None and not any(asked):
        meta.pop("managedFields")
        return
    diff: FieldSet = set()
    changed(old, new, shape, (), diff)
    diff = managed(diff, subresource)
    before = entries(old["metadata"] if asked is None else meta)
    if not diff:
        _settle(meta, before, new, shape)
        return
    if not owned:
        _settle(meta, [replace(entry, fields=entry.fields - diff) for entry in before], new, shape)
        return
    mine = Entry(manager, "Update", api_version, subresource, clock.now(), frozenset(diff))
    kept: list[Entry] = []
    for entry in before:
        if entry.same_as(mine):
            mine = replace(mine, fields=mine.fields | entry.fields)
        else:
            kept.append(replace(entry, fields=entry.fields - diff))
    _settle(meta, [*kept, mine], new, shape)


def _settle(meta: Json, kept: list[Entry], new: Json, shape: DocumentShape) -> None:
    """Store entries without the fields that are gone."""
    write(meta, [replace(one, fields=frozenset(existing(set(one.fields), new, shape))) for one in kept])
