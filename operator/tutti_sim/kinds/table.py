"""The table of built-in types: each field's JSON name, type, and whether it must be there.

`types.json` beside this module holds it in a short notation: `[T]` is a list, `{T}` a map from strings, `T!` required.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import msgspec

from tutti_sim.kinds import markers
from tutti_sim.patch.shape import LEAF, UNTYPED, Form, Shape


@dataclass(frozen=True, slots=True)
class FieldType:
    """One field of a type."""

    name: str
    kind: str
    required: bool


def _load() -> Mapping[str, Mapping[str, FieldType]]:
    raw = msgspec.json.decode(Path(__file__).with_name("types.json").read_bytes(), type=dict[str, dict[str, str]])
    return {
        owner: {name: FieldType(name, kind.rstrip("!"), kind.endswith("!")) for name, kind in fields.items()}
        for owner, fields in raw.items()
    }


TABLE: Mapping[str, Mapping[str, FieldType]] = _load()


@cache
def shape(name: str) -> Shape:
    """The shape of a type, for merging and field management."""
    fields = TABLE[name]

    def child(field: str) -> Shape | None:
        found = fields.get(field)
        return field_shape(name, field, found.kind) if found else None

    return Shape(Form.ATOMIC if name in markers.ATOMIC else Form.STRUCT, child=child)


@cache
def field_shape(owner: str, field: str, kind: str) -> Shape:
    """The shape of one field of a type."""
    place = f"{owner}.{field}"
    if kind[0] == "[":
        return _list_shape(owner, field, kind[1:-1])
    if kind[0] == "{":
        form = Form.ATOMIC if place in markers.ATOMIC_FIELDS else Form.MAP
        return Shape(form, item=lambda: field_shape(owner, "", kind[1:-1]))
    if kind == "any":
        return UNTYPED
    if kind not in TABLE:
        return LEAF
    found = shape(kind)
    return Shape(found.form, child=found.child, merge_key="=") if place in markers.REPLACED else found


def _list_shape(owner: str, field: str, kind: str) -> Shape:
    place = f"{owner}.{field}"
    if place in markers.SETS:
        return Shape(Form.SET, merge_key="." if place in markers.MERGED_SETS else "")
    keys = markers.item_keys(owner, field)
    if keys is None:
        return Shape(Form.ATOMIC, item=lambda: field_shape(owner, "", kind))
    merge_key, map_keys = keys
    return Shape(
        Form.KEYED if map_keys else Form.ATOMIC,
        item=lambda: field_shape(owner, "", kind),
        keys=map_keys,
        merge_key=merge_key,
        defaults={"protocol": "TCP"} if "protocol" in map_keys else None,
    )
