"""metadata.managedFields: which manager set which field, through which operation and subresource."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import msgspec

from tutti_sim.meta import clock
from tutti_sim.patch import fieldset
from tutti_sim.patch.fieldset import FieldSet, Path
from tutti_sim.patch.shape import Shape

Json = dict[str, Any]

_encode = msgspec.json.Encoder().encode

UNMANAGED_META = frozenset(
    "f:" + name
    for name in [
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
            "fieldsV1": fieldset.written(self.fields),
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
            frozenset(fieldset.read(one.get("fieldsV1") or {})),
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


def on_create(obj: Json, shape: Shape, *, manager: str, api_version: str, keeps_status: bool) -> None:
    """Account for a new object."""
    fields: Json = {}
    for key, value in obj.items():
        if key in ("kind", "apiVersion") or (key == "status" and not keeps_status):
            continue
        below = fieldset.tree(value, shape.field(key))
        if key == "metadata":
            below = {step: inner for step, inner in below.items() if step not in UNMANAGED_META}
            if not below:
                continue
        fields["f:" + key] = _shared(_encode(below))
    if fields:
        entry = Entry(manager, "Update", api_version, "", clock.now(), frozenset())
        obj["metadata"]["managedFields"] = [{**entry.written(), "fieldsV1": fields}]


@lru_cache(maxsize=4096)
def _shared(encoded: bytes) -> Json:
    """One tree for all objects that set the same fields, as the pods of a Job do: nobody changes stored objects."""
    tree: Json = msgspec.json.decode(encoded)
    return tree


def on_update(new: Json, old: Json, shape: Shape, *, manager: str, api_version: str, subresource: str) -> None:
    """Account for an update: what it added or changed is the manager's now, and nobody else's."""
    meta = new["metadata"]
    asked = meta.get("managedFields")
    if asked is not None and not any(asked):
        meta.pop("managedFields")
        return
    diff: FieldSet = set()
    fieldset.changed(old, new, shape, (), diff)
    diff = managed(diff, subresource)
    before = entries(old["metadata"] if asked is None else meta)
    if not diff:
        _settle(meta, before, new, shape)
        return
    mine = Entry(manager, "Update", api_version, subresource, clock.now(), frozenset(diff))
    kept: list[Entry] = []
    for entry in before:
        if entry.same_as(mine):
            mine = replace(mine, fields=mine.fields | entry.fields)
        else:
            kept.append(replace(entry, fields=entry.fields - diff))
    _settle(meta, [*kept, mine], new, shape)


def _settle(meta: Json, kept: list[Entry], new: Json, shape: Shape) -> None:
    """Store entries without the fields that are gone."""
    write(meta, [replace(one, fields=frozenset(fieldset.existing(set(one.fields), new, shape))) for one in kept])
