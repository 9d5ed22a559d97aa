"""Checked expressions of CEL as trees, from the protobuf bytes (cel/expr/checked.proto) that its runtime gives out.

Only what is needed to say what an expression may cost is read: nodes, types, chosen overloads, and places.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

SCALARS: Final = frozenset(("bool", "int", "uint", "double", "timestamp", "duration"))
_PRIMITIVE: Final = ("", "bool", "int", "uint", "double", "string", "bytes")
_KNOWN: Final = ("", "any", "timestamp", "duration")
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


@dataclass(frozen=True, slots=True)
class Type:
    """A type: its name, as CEL writes it, and what it is made of."""

    name: str
    parts: tuple[Type, ...] = ()

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.parts))})" if self.parts else self.name


DYN: Final = Type("dyn")


@dataclass(slots=True)
class Node:
    """One node of an expression.

    Attributes:
        kind: const, ident, select, call, list, map or loop.
        name: of an identifier, field or function; of a loop, its variable.
        size: of a constant, the number of its characters; 1 of what has none.
        value: of a constant that is a whole number.
        parts: operand of a select; arguments of a call, after its target if `member`; items, keys and values; of a
            loop: range, initial value, condition, step and result.
        tested: whether a select only asks whether there is such a field.
        other: the second variable of a loop.
        sum: the variable in which a loop gathers.
    """

    number: int
    kind: str
    name: str = ""
    size: int = 1
    value: int | None = None
    parts: list[Node] = field(default_factory=list)
    member: bool = False
    tested: bool = False
    other: str = ""
    sum: str = ""
    is_false: bool = False


@dataclass(frozen=True, slots=True)
class Checked:
    """An expression with the types, overloads and places (characters from the start) of its nodes."""

    root: Node
    types: dict[int, Type]
    overloads: dict[int, list[str]]
    places: dict[int, int]

    def type_of(self, node: Node) -> Type:
        """The type of a node."""
        return self.types.get(node.number, DYN)


def read(serialized: bytes) -> Checked:
    """Read what the runtime gives out: a CheckedExpr within an Any."""
    value = next(part for number, part in _fields(serialized) if number == 2 and isinstance(part, bytes))  # noqa: PLR2004
    types: dict[int, Type] = {}
    overloads: dict[int, list[str]] = {}
    places: dict[int, int] = {}
    root = Node(0, "const")
    for number, part in _fields(value):
        if not isinstance(part, bytes):
            continue
        match number:
            case 2:
                key, content = _entry(part)
                overloads[key] = [_text(one) for at, one in _fields(content) if at == 3]  # noqa: PLR2004 - overload_id
            case 3:
                key, content = _entry(part)
                types[key] = _type(content)
            case 4:
                root = _node(part)
            case 5:
                places.update(_places(part))
            case _:
                pass
    return Checked(root, types, overloads, places)


def _places(source: bytes) -> Iterator[tuple[int, int]]:
    for number, part in _fields(source):
        if number == 4 and isinstance(part, bytes):  # noqa: PLR2004 - positions
            entry = dict(_fields(part))
            yield _int(entry.get(1, 0)), _int(entry.get(2, 0))


def _entry(entry: bytes) -> tuple[int, bytes]:
    parts = dict(_fields(entry))
    content = parts.get(2, b"")
    return _int(parts.get(1, 0)), content if isinstance(content, bytes) else b""


def _type(content: bytes) -> Type:
    found = DYN
    for number, part in _fields(content):
        match number:
            case 2:
                found = Type("null_type")
            case 3 | 4:
                found = Type(_PRIMITIVE[_int(part)])
            case 5:
                found = Type(_KNOWN[_int(part)])
            case 6:
                found = Type("list", (_inner(part, 1),))
            case 7:
                found = Type("map", (_inner(part, 1), _inner(part, 2)))
            case 9:
                found = Type(_text(part))
            case 11:
                found = Type("type")
            case 14:
                named = list(_fields(_raw(part)))
                name = next((_text(one) for at, one in named if at == 1), "")
                found = Type(name, tuple(_type(_raw(one)) for at, one in named if at == 2))  # noqa: PLR2004
            case _:
                pass
    return found


def _inner(part: int | bytes, wanted: int) -> Type:
    return next((_type(_raw(one)) for number, one in _fields(_raw(part)) if number == wanted), DYN)


def _node(content: bytes) -> Node:
    own = 0
    made = Node(0, "const")
    for number, part in _fields(content):
        match number:
            case 2:
                own = _int(part)
            case 3:
                made = _constant(_raw(part))
            case 4:
                made = Node(0, "ident", _named(part, 1))
            case 5:
                parts = dict(_fields(_raw(part)))
                made = Node(0, "select", _text(parts.get(2, b"")), parts=[_node(_raw(parts.get(1, b"")))])
                made.tested = bool(parts.get(3, 0))
            case 6:
                made = _call(_raw(part))
            case 7:
                made = Node(0, "list", parts=[_node(_raw(one)) for at, one in _fields(_raw(part)) if at == 1])
            case 8:
                made = _map(_raw(part))
            case 9:
                made = _loop(_raw(part))
            case _:
                pass
    made.number = own
    return made


def _constant(content: bytes) -> Node:
    for number, part in _fields(content):
        match number:
            case 2:
                return Node(0, "const", is_false=not part)
            case 3:
                return Node(0, "const", value=_signed(_int(part)))
            case 6:
                return Node(0, "const", size=len(_text(part)))
            case 7:
                return Node(0, "const", size=len(_raw(part)))
            case _:
                pass
    return Node(0, "const")


def _call(content: bytes) -> Node:
    made = Node(0, "call")
    for number, part in _fields(content):
        match number:
            case 1:
                made.member = True
                made.parts.insert(0, _node(_raw(part)))
            case 2:
                made.name = _text(part)
            case 3:
                made.parts.append(_node(_raw(part)))
            case _:
                pass
    return made


def _map(content: bytes) -> Node:
    made = Node(0, "map")
    for number, part in _fields(content):
        if number == 2:  # noqa: PLR2004 - entries
            entry = dict(_fields(_raw(part)))
            made.parts += [_node(_raw(entry[at])) for at in (3, 4) if at in entry]
    return made


def _loop(content: bytes) -> Node:
    parts = dict(_fields(content))
    made = Node(0, "loop", _text(parts.get(1, b"")), other=_text(parts.get(8, b"")), sum=_text(parts.get(3, b"")))
    made.parts = [_node(_raw(parts.get(at, b""))) for at in (2, 4, 5, 6, 7)]
    return made


def _named(part: int | bytes, wanted: int) -> str:
    return next((_text(one) for number, one in _fields(_raw(part)) if number == wanted), "")


def _raw(part: int | bytes) -> bytes:
    return part if isinstance(part, bytes) else b""


def _text(part: int | bytes) -> str:
    return _raw(part).decode(errors="replace")


def _int(part: int | bytes) -> int:
    return part if isinstance(part, int) else 0


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message: their numbers, and numbers or bytes."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        match tag & 7:
            case 0:
                value, at = _varint(data, at)
                yield tag >> 3, value
            case 1:
                yield tag >> 3, data[at : at + 8]
                at += 8
            case 2:
                length, at = _varint(data, at)
                yield tag >> 3, data[at : at + length]
                at += length
            case 5:
                yield tag >> 3, data[at : at + 4]
                at += 4
            case _:
                raise ValueError(f"protobuf has no wire type {tag & 7}")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 - the last one
            return value, at
        shift += 7
