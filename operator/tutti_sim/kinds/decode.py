"""Decoding of built-in kinds as Go would do it.

Unknown fields are dropped with a note, wrong types refused, zero values left out. Of what is wrong Go tells the first
text that a type of its own cannot read, a quantity or a time; the first value of a wrong type only where there is none.
Decoders are compiled from the table of types, once for each type, into plain functions over JSON values.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from tutti_sim.kinds import markers
from tutti_sim.kinds.mismatch import DecodeError, MismatchError, SavedError, go_item, go_type, struct_name
from tutti_sim.meta import Json, amounts, clock, gotime
from tutti_sim.patch.strategic import LEAF, UNTYPED, DocumentShape, Form


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
def shape(name: str) -> DocumentShape:
    """The shape of a type, for merging and field management."""
    fields = TABLE[name]

    def child(field: str) -> DocumentShape | None:
        found = fields.get(field)
        return field_shape(name, field, found.kind) if found else None

    unset = {field.name for field in fields.values() if field.required}
    form = Form.ATOMIC if name in markers.ATOMIC else Form.STRUCT
    return DocumentShape(form, child=child, always=markers.by_value(name) | unset)


@cache
def field_shape(owner: str, field: str, kind: str) -> DocumentShape:
    """The shape of one field of a type."""
    place = f"{owner}.{field}"
    if kind[0] == "[":
        return _list_shape(owner, field, kind[1:-1])
    if kind[0] == "{":
        form = Form.ATOMIC if place in markers.ATOMIC_FIELDS else Form.MAP
        return DocumentShape(form, item=lambda: field_shape(owner, "", kind[1:-1]))
    if kind == "any":
        return UNTYPED
    if kind not in TABLE:
        return LEAF
    found = shape(kind)
    if place in markers.GRANULAR:
        return DocumentShape(Form.STRUCT, child=found.child, always=found.always)
    return (
        DocumentShape(found.form, child=found.child, always=found.always, merge_key="=")
        if place in markers.REPLACED
        else found
    )


def _list_shape(owner: str, field: str, kind: str) -> DocumentShape:
    place = f"{owner}.{field}"
    if place in markers.SETS:
        return DocumentShape(Form.SET, merge_key="." if place in markers.MERGED_SETS else "")
    keys = markers.item_keys(owner, field)
    if keys is None:
        return DocumentShape(Form.ATOMIC, item=lambda: field_shape(owner, "", kind))
    merge_key, map_keys = keys
    return DocumentShape(
        Form.KEYED if map_keys else Form.ATOMIC,
        item=lambda: field_shape(owner, "", kind),
        keys=map_keys,
        merge_key=merge_key,
        defaults={"protocol": "TCP"} if "protocol" in map_keys else None,
    )


class Notes:
    """What a decoder noticed beside the object.

    Attributes:
        unknown: fields that it dropped, as warnings word them.
        pattern: JSON that sets the same fields as the specification that was read; empty where none is known.
    """

    __slots__ = ("pattern", "unknown")

    def __init__(self) -> None:
        self.unknown: list[str] = []
        self.pattern = b""


Decoder = Callable[[Any, str, Notes], Any]


def _scalar(kind: str, expected: str) -> Decoder:
    accepted: tuple[type, ...] = {"str": (str,), "int": (int,), "bool": (bool,), "float": (int, float)}[kind]
    bound = 1 << (63 if expected == "int64" else 31)

    def decode(value: Any, path: str, notes: Notes) -> Any:  # noqa: ARG001 - a Decoder's signature
        if type(value) not in accepted or (kind == "int" and not -bound <= value < bound):
            raise MismatchError(value, expected)
        return value

    return decode


def _any(value: Any, path: str, notes: Notes) -> Any:  # noqa: ARG001 - a Decoder's signature
    return value


def _int_or_string(value: Any, path: str, notes: Notes) -> Any:  # noqa: ARG001 - a Decoder's signature
    if type(value) not in (int, str) or (type(value) is int and not -(1 << 31) <= value < 1 << 31):
        raise MismatchError(value, "int32")
    return value


def _quantity(value: Any, path: str, notes: Notes) -> Any:  # noqa: ARG001 - a Decoder's signature
    if type(value) not in (str, int, float):
        raise DecodeError(amounts.FORM)
    try:
        return amounts.canonical_amount(value.strip() if isinstance(value, str) else repr(value))
    except ValueError as error:
        raise DecodeError(str(error)) from None


def _size(value: Any, path: str, notes: Notes) -> Any:
    """A quantity in a list of resources, which is rounded up to thousandths."""
    return amounts.rounded_up(_quantity(value, path, notes))


def _time(value: Any, path: str, notes: Notes) -> Any:  # noqa: ARG001 - a Decoder's signature
    if type(value) is not str:
        raise MismatchError(value, "string")
    try:
        return clock.canonical(value)
    except ValueError:
        raise DecodeError(gotime.fault(value, gotime.SECONDS)) from None


def _micro(value: Any, path: str, notes: Notes) -> Any:  # noqa: ARG001 - a Decoder's signature
    if type(value) is not str:
        raise MismatchError(value, "string")
    try:
        return clock.canonical_micro(value)
    except ValueError:
        raise DecodeError(gotime.fault(value, gotime.MICROS)) from None


def _bytes(value: Any, path: str, notes: Notes) -> Any:  # noqa: ARG001 - a Decoder's signature
    if type(value) is not str:
        raise MismatchError(value, "[]uint8")
    try:
        base64.b64decode(value, validate=True)
    except binascii.Error:
        raise SavedError(f"illegal base64 data at input byte {_bad_byte(value)}") from None
    return value


def _bad_byte(text: str) -> int:
    """Where Go's decoder stops: at the first byte that is none of base64, or where the padding is wrong."""
    raw = text.encode()
    at = next((index for index, byte in enumerate(raw) if byte not in BASE64), len(raw))
    if at == len(raw):
        return at - at % 4 if at % 4 else at
    if raw[at : at + 1] == b"=" and at % 4 in (2, 3):
        padding = b"==" if at % 4 == 2 else b"="  # noqa: PLR2004 - two of four are missing
        return at + len(padding) if raw[at:].startswith(padding) else min(at + 1, len(raw))
    return at


BASE64 = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")

# What Go writes for a required field that was not given.
ZEROS: dict[str, Any] = {"str": "", "int": 0, "bool": False}
LEAVES: dict[str, Decoder] = {"any": _any, "time": _time, "micro": _micro, "bytes": _bytes, "quantity": _quantity}


def _list(item: Decoder, owner: str, field: str, kind: str) -> Decoder:
    zero: Any = "" if kind == "[str]" else {} if kind[1:-1] in TABLE else None
    expected = go_type(owner, field, kind)

    def decode(value: Any, path: str, notes: Notes) -> Any:
        if type(value) is not list:
            raise MismatchError(value, expected)
        found: list[Any] = []
        wrong: SavedError | None = None
        for index, entry in enumerate(value):
            given = zero if entry is None else entry
            if given is not None:
                try:
                    found.append(item(given, f"{path}[{index}]", notes))
                except SavedError as error:
                    wrong = wrong or error
        if wrong is not None:
            raise wrong
        return found

    return decode


def _map(item: Decoder, owner: str, field: str, kind: str, zero: Any) -> Decoder:
    """A decoder of maps; `zero` is what null stands for in them, None where such entries are dropped."""
    expected = go_type(owner, field, kind)

    def decode(value: Any, path: str, notes: Notes) -> Any:
        if type(value) is not dict:
            raise MismatchError(value, expected)
        found: Json = {}
        wrong: SavedError | None = None
        for key, entry in value.items():
            try:
                found[key] = zero if entry is None else item(entry, f"{path}.{key}", notes)
            except SavedError as error:
                wrong = wrong or error
        if wrong is not None:
            raise wrong
        return found if zero is not None else {key: entry for key, entry in found.items() if entry is not None}

    return decode


def _drops(owner: str, field: FieldType) -> tuple[Any, ...]:
    """The zero values of a field that are left out when the object is written."""
    if field.kind == "str":
        kept = field.name in markers.KEEP_EMPTY or f"{owner}.{field.name}" in markers.KEEP_EMPTY_AT
        return () if field.required or kept else ("",)
    if field.kind[0] == "[":
        return () if field.required else ([],)
    if field.kind[0] == "{":
        return ({},)
    if field.kind == "bool":
        return (False,) if field.name in markers.DROP_FALSE and not field.required else ()
    if field.kind == "int":
        drop = field.name in markers.DROP_ZERO and owner not in markers.KEEP_ZERO_IN and not field.required
        return (0,) if drop else ()
    return ()


class _Struct:
    """A decoder of one type, whose fields are compiled on first use, because types refer to themselves."""

    __slots__ = ("_fields", "_zeros", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self._fields: dict[str, tuple[Decoder, tuple[Any, ...]]] | None = None
        self._zeros: dict[str, Any] = {}

    def _compile(self) -> dict[str, tuple[Decoder, tuple[Any, ...]]]:
        fields = {
            field.name: (_compiled(field.kind, self.name, field.name), _drops(self.name, field))
            for field in TABLE[self.name].values()
        }
        self._fields = fields
        self._zeros = {
            field.name: ZEROS[field.kind]
            for field in TABLE[self.name].values()
            if field.required and field.kind in ZEROS
        }
        return fields

    def __call__(self, value: Any, path: str, notes: Notes) -> Any:
        if type(value) is not dict:
            raise MismatchError(value, f"v1.{struct_name(self.name)}")
        fields = self._fields or self._compile()
        prefix = f"{path}." if path else ""
        out: Json = {}
        wrong: SavedError | None = None
        for key, item in value.items():
            field = fields.get(key)
            if field is None:
                notes.unknown.append(f'unknown field "{prefix}{key}"')
            elif item is not None:
                try:
                    result = field[0](item, prefix + key, notes)
                except SavedError as error:
                    if wrong is None:
                        error.under(self.name, key)
                        wrong = error
                    continue
                if not field[1] or result not in field[1] or type(result) is not type(field[1][0]):
                    out[key] = result
        if wrong is not None:
            raise wrong
        for key, zero in self._zeros.items():
            out.setdefault(key, zero)
        return out


_STRUCTS: dict[str, _Struct] = {}


def _compiled(kind: str, owner: str, field: str) -> Decoder:
    if kind[0] == "[":
        return _list(_item(kind, owner, field), owner, field, kind)
    if kind == "{str}" and field in markers.QUANTITY_MAPS:
        listed = go_type(owner, field, kind) == "v1.ResourceList"
        return _map(_size if listed else _quantity, owner, field, kind, "0")
    if kind[0] == "{":
        zero = "" if kind in ("{str}", "{bytes}") else None
        return _map(_item(kind, owner, field), owner, field, kind, zero)
    if f"{owner}.{field}" in markers.INT_OR_STRING:
        return _int_or_string
    if kind in ("str", "int", "bool", "float") and f"{owner}.{field}" not in markers.QUANTITIES:
        return _scalar(kind, go_type(owner, field, kind))
    return _leaf(kind, owner, field)


def _item(kind: str, owner: str, field: str) -> Decoder:
    """The decoder of what a list or a map holds."""
    inner, place = kind[1:-1], f"{owner}.{field}"
    if inner in ("str", "int", "bool", "float") and place not in markers.QUANTITIES:
        return _scalar(inner, go_item(owner, field, kind))
    return _compiled(inner, owner, field) if inner[0] in "[{" else _leaf(inner, owner, field)


def _leaf(kind: str, owner: str, field: str) -> Decoder:
    place = f"{owner}.{field}"
    special = "quantity" if place in markers.QUANTITIES else "micro" if place in markers.MICRO_TIMES else kind
    return LEAVES.get(special) or decoder(kind)


def decoder(name: str) -> Decoder:
    """The decoder of a type in the table."""
    found = _STRUCTS.get(name)
    if found is None:
        found = _STRUCTS[name] = _Struct(name)
    return found
