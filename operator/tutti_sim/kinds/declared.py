"""What the built-in types declare, for configurations that are applied."""

from __future__ import annotations

from functools import cache

from tutti_sim.kinds import markers
from tutti_sim.kinds.decode import TABLE, ZEROS
from tutti_sim.patch.typed import ANY, Declared

_SCALAR = Declared("scalar")
_SCALARS = {
    "str": Declared("string"),
    "bytes": Declared("string"),
    "int": Declared("number"),
    "float": Declared("number"),
    "bool": Declared("boolean"),
    "time": _SCALAR,
    "micro": _SCALAR,
    "quantity": _SCALAR,
}


@cache
def declared_type(name: str) -> Declared:
    """What a type declares."""
    fields = TABLE[name]

    def child(field: str) -> Declared | None:
        found = fields.get(field)
        return _field(name, field, found.kind) if found else None

    return Declared("map", child=child)


@cache
def _field(owner: str, field: str, kind: str) -> Declared:
    place = f"{owner}.{field}"
    if kind[0] == "[":
        return _list(owner, field, kind[1:-1])
    if kind[0] == "{":
        value = _SCALAR if field in markers.QUANTITY_MAPS else _field(owner, "", kind[1:-1])
        return Declared("map", child=lambda _: value)
    if place in markers.INT_OR_STRING or place in markers.QUANTITIES:
        return _SCALAR
    return declared_type(kind) if kind in TABLE else _SCALARS.get(kind, ANY)


def _list(owner: str, field: str, kind: str) -> Declared:
    item = _field(owner, "", kind)
    if f"{owner}.{field}" in markers.SETS:
        return Declared("list", item=lambda: item, unique=True)
    keys = markers.item_keys(owner, field)
    names = keys[1] if keys else ()
    fields = TABLE.get(kind, {})
    defaults = {name: ZEROS[fields[name].kind] for name in names if name in fields and fields[name].required}
    if "protocol" in names:
        defaults["protocol"] = "TCP"
    return Declared("list", item=lambda: item, keys=names, defaults=defaults)
