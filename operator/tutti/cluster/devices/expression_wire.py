"""Compiled expressions in their wire format, as far as costs are told from it and `==` is given its meaning here.

The format is that of google/api/expr/v1alpha1/checked.proto and syntax.proto, within an Any.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tutti.cluster.devices.expression_functions import SAME

Message = dict[int, list[Any]]

_VARINT, _DELIMITED = 0, 2
_MORE: Final = 0x80  # of a number that goes on in the next byte
_LENGTHS: Final = {1: 8, 5: 4}

_EQUALS: Final = b"_==_"
_OWN_EQUALS: Final = SAME.encode()
assert len(_EQUALS) == len(_OWN_EQUALS)

# Fields of CheckedExpr, of the entries of its maps, of Expr, and of Expr.Call.
_VALUE, _REFERENCES, _TYPES, _EXPRESSION = 2, 2, 3, 4
_KEY, _ENTRY = 1, 2
_ID, _CALL = 2, 6
_TARGET, _FUNCTION, _ARGUMENTS = 1, 2, 3
_DYN, _MAP = 1, 7
_PARTS: Final = {5: (1,), _CALL: (1, 3), 7: (1,), 8: (2,), 9: (2, 4, 5, 6, 7)}
"""Of what an Expr can be: the fields in which there are others."""
_STRUCT: Final = 8
_STRUCT_PARTS: Final = (3, 4)


def fields(raw: bytes) -> Message:
    """Return the fields of a message by number: numbers as int, all else as bytes."""
    out: Message = {}
    for field, value, begin, end in _spans(raw, 0, len(raw)):
        out.setdefault(field, []).append(raw[begin:end] if value is None else value)
    return out


def part_of(node: Message, field: int) -> bytes:
    """Return the first value of a field that is no number; empty where there is none."""
    found: bytes = node.get(field, [b""])[0]
    return found


def text_of(node: Message, field: int) -> str:
    """Return the first value of a field as text."""
    return part_of(node, field).decode()


def _spans(raw: bytes, at: int, end: int) -> Iterator[tuple[int, int | None, int, int]]:
    """Yield the number of each field, and its value if that is a number, otherwise from where to where it goes."""
    while at < end:
        tag, at = (raw[at], at + 1) if raw[at] < _MORE else _varint(raw, at)
        field, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            value, at = _varint(raw, at)
            yield field, value, at, at
            continue
        if kind == _DELIMITED:
            length, at = (raw[at], at + 1) if raw[at] < _MORE else _varint(raw, at)
        else:
            length = _LENGTHS[kind]
        yield field, None, at, at + length
        at += length


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = raw[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & _MORE:
            return value, at


def with_own_equality(compiled: bytes) -> bytes:
    """Return an expression whose `==` is ours (`SAME`) where the type of the left side is not known, or may be our own.

    CEL's maps, which our own types are evaluated as, equal nothing else; our own types are not asked (cel-go, Equal).
    """
    if _EQUALS not in compiled:
        return compiled
    whole = fields(compiled)
    raw = bytearray(part_of(whole, _VALUE))
    entries = map(fields, fields(bytes(raw)).get(_TYPES, ()))
    types = {entry.get(_KEY, [0])[0]: part_of(entry, _ENTRY) for entry in entries}
    changed: set[int] = set()
    for identity, at in list(_equations(bytes(raw), types)):
        raw[at : at + len(_OWN_EQUALS)] = _OWN_EQUALS
        changed.add(identity)
    if not changed:
        return compiled
    kept = bytearray()
    for field, value, begin, end in _spans(bytes(raw), 0, len(raw)):
        part = bytes(raw[begin:end])
        if value is None and not (field == _REFERENCES and fields(part).get(_KEY, [0])[0] in changed):
            kept += _delimited(field, part)
    return _delimited(1, part_of(whole, 1)) + _delimited(_VALUE, bytes(kept))


def _equations(raw: bytes, types: Mapping[int, bytes]) -> Iterator[tuple[int, int]]:
    """Yield the number of each `==` that is to be ours, and where its name stands."""
    waiting = [(begin, end) for field, _, begin, end in _spans(raw, 0, len(raw)) if field == _EXPRESSION]
    while waiting:
        node = list(_spans(raw, *waiting.pop()))
        identity = next((value for field, value, _, _ in node if field == _ID and value is not None), 0)
        for field, _, begin, end in node:
            if field not in _PARTS:
                continue
            parts = list(_spans(raw, begin, end))
            if field == _CALL:
                yield from ((identity, at) for at in _equation(raw, parts, types))
            inner = [(at, stop) for number, value, at, stop in parts if value is None and number in _PARTS[field]]
            if field == _STRUCT:
                inner = [
                    (at, stop)
                    for span in inner
                    for number, value, at, stop in _spans(raw, *span)
                    if value is None and number in _STRUCT_PARTS
                ]
            waiting += inner


def _equation(raw: bytes, parts: list[tuple[int, int | None, int, int]], types: Mapping[int, bytes]) -> Iterator[int]:
    """Yield where the name of an `==` stands, if its left side is of unknown type, or a map and its right side is."""
    name = next((at, end) for field, _, at, end in parts if field == _FUNCTION)
    if raw[slice(*name)] != _EQUALS:
        return
    numbers = (fields(raw[at:end]).get(_ID, [0])[0] for field, _, at, end in parts if field == _ARGUMENTS)
    sides = [fields(types.get(number, b"")) for number in numbers]
    if _DYN in sides[0] or (_MAP in sides[0] and _DYN in sides[1]):
        yield name[0]


def _delimited(field: int, value: bytes) -> bytes:
    return bytes([field << 3 | _DELIMITED]) + _number(len(value)) + value


def _number(value: int) -> bytes:
    out = bytearray()
    while value >= _MORE:
        out.append(value & 0x7F | _MORE)
        value >>= 7
    return bytes([*out, value])
