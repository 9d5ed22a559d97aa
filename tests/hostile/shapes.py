"""What may stand where in an object: worked out from our own views and models, and from the table of built-in types.

A field that is added to a view, a model or the table is therefore tried by itself.
"""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache, cached_property
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
from pydantic import BaseModel, BeforeValidator

from tutti.api.model import Record as PydanticRecord
from tutti_sim.kinds.decode import TABLE

Path = tuple[str | int, ...]

ENTRY = "example.com/key"
"""The key by which an entry of a map is tried."""
DEEPEST = 14
"""Steps to a field: a term of an affinity in the template of a Workload needs 13."""


@dataclass(frozen=True)
class Shape:
    """What may stand at one place.

    Attributes:
        kind: text, quantity, number, truth, time, any, list, map or record.
        of: Of an entry of a list or a map.
        words: Texts that mean something there.
        fields: Of a record, each with whether it must be there; worked out when asked for: types may contain themselves.
    """

    kind: str
    of: Shape | None = None
    words: tuple[str, ...] = ()
    fields: Callable[[], Mapping[str, tuple[Shape, bool]]] = dict

    @cached_property
    def members(self) -> Mapping[str, Shape]:
        return {name: shape for name, (shape, _) in self.fields().items()}

    @cached_property
    def required(self) -> frozenset[str]:
        return frozenset(name for name, (_, required) in self.fields().items() if required)


TEXT, NUMBER, QUANTITY = Shape("text"), Shape("number"), Shape("quantity")
TRUTH, TIME, ANY = Shape("truth"), Shape("time"), Shape("any")
_PLAIN: dict[Any, Shape] = {
    str: TEXT,
    int: NUMBER,
    float: NUMBER,
    bool: TRUTH,
    datetime: TIME,
    Any: ANY,
    msgspec.Raw: ANY,
    dict: Shape("map", of=ANY),
    list: Shape("list", of=ANY),
}
_IN_TABLE = {"str": TEXT, "int": NUMBER, "float": NUMBER, "bool": TRUTH, "time": TIME, "any": ANY, "bytes": TEXT}


@cache
def shape_of(kind: Any) -> Shape:
    """The shape of a type: a view, a model, or what is in one."""
    if get_origin(kind) is not None:
        return _of_generic(get_origin(kind), get_args(kind))
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return Shape("record", fields=lambda: _of_view(kind))
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return Shape("record", fields=lambda: _of_model(kind))
    return _PLAIN[kind]


def _of_generic(origin: Any, args: tuple[Any, ...]) -> Shape:
    if origin is Annotated:
        if any(isinstance(one, BeforeValidator) for one in args[1:]):
            return QUANTITY
        mirror = next((one.mirror for one in args[1:] if isinstance(one, PydanticRecord)), None)
        return shape_of(mirror or args[0])
    if origin is Literal:
        return Shape("text", words=tuple(str(one) for one in args))
    if origin in (Union, types.UnionType):
        kinds = [one for one in args if one is not type(None)]
        return QUANTITY if {str, int} <= set(kinds) else shape_of(kinds[0])
    if origin in (dict, Mapping):
        return Shape("map", of=shape_of(args[1]))
    return Shape("list", of=shape_of(args[0]))


def _of_view(view: type[msgspec.Struct]) -> dict[str, tuple[Shape, bool]]:
    hints = get_type_hints(view, include_extras=True)
    return {one.encode_name: (shape_of(hints[one.name]), one.required) for one in msgspec.structs.fields(view)}


def _of_model(model: type[BaseModel]) -> dict[str, tuple[Shape, bool]]:
    found: dict[str, tuple[Shape, bool]] = {}
    for name, field in model.model_fields.items():
        mirror = next((one.mirror for one in field.metadata if isinstance(one, PydanticRecord)), None)
        is_quantity = any(isinstance(one, BeforeValidator) for one in field.metadata)
        shape = QUANTITY if is_quantity else shape_of(mirror or field.annotation)
        found[field.alias or name] = shape, field.is_required()
    return found


@cache
def shape_in_table(written: str) -> Shape:
    """The shape of a type as the table of built-in types writes it."""
    if inner := re.fullmatch(r"\[(.+)\]", written):
        return Shape("list", of=shape_in_table(inner[1]))
    if inner := re.fullmatch(r"\{(.+)\}", written):
        return Shape("map", of=shape_in_table(inner[1]))
    if written in _IN_TABLE:
        return _IN_TABLE[written]
    row = TABLE[written]
    return Shape("record", fields=lambda: {name: (shape_in_table(one.kind), one.required) for name, one in row.items()})


def together(ours: Shape, theirs: Shape) -> Shape:
    """A shape with the fields of both; where both know one, `ours` says what it is."""
    if ours.kind == theirs.kind == "record":
        return Shape("record", fields=lambda: _merged(ours, theirs))
    if ours.kind == theirs.kind and ours.of and theirs.of:
        return Shape(ours.kind, of=together(ours.of, theirs.of))
    return theirs if ours.kind in ("any", "map") and theirs.kind == "record" else ours


def _merged(ours: Shape, theirs: Shape) -> dict[str, tuple[Shape, bool]]:
    found = {name: (shape, name in theirs.required) for name, shape in theirs.members.items()}
    for name, shape in ours.members.items():
        known = theirs.members.get(name)
        required = name in ours.required or name in theirs.required
        found[name] = (together(shape, known) if known else shape), required
    return found


def places(shape: Shape, at: Path = ()) -> Iterator[tuple[Path, Shape]]:
    """Every place in an object of a shape, itself first; lists and maps with one entry."""
    yield at, shape
    if len(at) >= DEEPEST:
        return
    if shape.kind == "record":
        for name, inner in shape.members.items():
            yield from places(inner, (*at, name))
    elif shape.of is not None:
        yield from places(shape.of, (*at, 0 if shape.kind == "list" else ENTRY))
