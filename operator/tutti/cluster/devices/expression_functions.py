"""What Kubernetes adds to CEL: quantities, semantic versions, and a few functions on text and lists.

Source: Kubernetes 1.36, staging/src/k8s.io/apiserver/pkg/cel/library, and cel-go, ext. A quantity or a version is a map
with one entry, which no expression can take apart by accident, so that `==` of two of them compares what they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import re2
from cel_expr_python import cel

from tutti.api.quantity import QuantityError, parse_quantity
from tutti.cluster.devices.versions import VersionError, loosened, version_rank, without_build

SUBSTRING: Final = "codePointsOf"
"""What `substring` is called before it is compiled: that of the runtime refuses an end at the length of the text."""
QUANTITY: Final = "#quantity"
VERSION: Final = "#version"

ObjectMap = dict[str, Any]
_TEXT, _BOOL, _INT, _ANY = cel.Type.STRING, cel.Type.BOOL, cel.Type.INT, cel.Type.DYN
OBJECT = cel.Type.Map(_TEXT, _ANY)
_LIST = cel.Type.List(_ANY)


class SelectorError(Exception):
    """An expression that cannot be compiled or evaluated, or that is not about true and false."""


def quantity_map(milli: int) -> ObjectMap:
    """Return a quantity in milli-units as expressions handle it."""
    return {QUANTITY: str(milli)}


def version_map(text: str) -> ObjectMap:
    """Return a semantic version as expressions handle it."""
    return {VERSION: without_build(text)}


def _overloads(name: str, *kinds: tuple[Sequence[Any], Any, Callable[..., Any]], member: bool = True) -> Any:
    overloads = [
        cel.Overload(f"k8s_{name}_{i}", return_type=returns, parameters=list(takes), is_member=member, impl=does)
        for i, (takes, returns, does) in enumerate(kinds)
    ]
    return cel.FunctionDecl(name, overloads)


def _milli(value: ObjectMap) -> int:
    if QUANTITY not in value:
        raise SelectorError("no such overload")
    return int(value[QUANTITY])


def _compared(one: ObjectMap, other: ObjectMap) -> int:
    """Compare two quantities, or two versions: -1, 0 or 1."""
    left: Any
    right: Any
    if VERSION in one and VERSION in other:
        left, right = version_rank(one[VERSION]), version_rank(other[VERSION])
    else:
        left, right = _milli(one), _milli(other)
    return int(left > right) - int(left < right)


def _read_quantity(text: str) -> ObjectMap:
    return quantity_map(parse_quantity(text))


def _read_version(text: str, loosely: bool = False) -> ObjectMap:
    text = loosened(text) if loosely else text
    version_rank(text)
    return version_map(text)


def _is(read: Callable[..., object]) -> Callable[..., bool]:
    def legible(*given: Any) -> bool:
        try:
            read(*given)
        except (QuantityError, VersionError):
            return False
        return True

    return legible


def _number(place: int) -> Callable[[ObjectMap], int]:
    def part(version: ObjectMap) -> int:
        if VERSION not in version:
            raise SelectorError("no such overload")
        rank = version_rank(version[VERSION])
        return (rank[0], rank[1], rank[2])[place]

    return part


def _whole(value: ObjectMap) -> int:
    milli = _milli(value)
    if milli % 1000:
        raise SelectorError("cannot convert value to integer")
    return milli // 1000


def _added(sign: int) -> Callable[[ObjectMap, Any], ObjectMap]:
    def add(one: ObjectMap, other: Any) -> ObjectMap:
        return quantity_map(_milli(one) + sign * (other * 1000 if isinstance(other, int) else _milli(other)))

    return add


def _substring(text: str, start: int, end: int | None = None) -> str:
    """Return part of a text by its code points (cel-go, ext/strings.go)."""
    last = len(text) if end is None else end
    for one in (start, last):
        if not 0 <= one <= len(text):
            raise SelectorError(f"index out of range: {one}")
    if start > last:
        raise SelectorError(f"invalid substring range. start: {start}, end: {last}")
    return text[start:last]


def _find(text: str, pattern: str) -> str:
    found = re2.search(pattern, text)
    return found.group() if found is not None else ""


def _find_all(text: str, pattern: str, most: int = -1) -> list[str]:
    found = [one.group() for one in re2.finditer(pattern, text)]
    return found if most < 0 else found[:most]


def _among(item: Any, items: list[Any]) -> bool:
    """Whether a list has a value; true and false are no numbers."""
    return any(one == item and isinstance(one, bool) == isinstance(item, bool) for one in items)


def _slice(items: list[Any], start: int, end: int) -> list[Any]:
    if not 0 <= start <= end <= len(items):
        raise SelectorError(f"cannot slice({start}, {end}), list is length {len(items)}")
    return items[start:end]


def _distinct(items: list[Any]) -> list[Any]:
    out: list[Any] = []
    for one in items:
        if not _among(one, out):
            out.append(one)
    return out


def _in_order(work: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    """Return what puts values in order, or adds them, where that makes sense."""

    def ordered(items: list[Any]) -> Any:
        try:
            return work(items)
        except TypeError as error:
            raise SelectorError("no such overload") from error

    return ordered


def _contains(one: list[Any], other: list[Any]) -> bool:
    return all(_among(item, one) for item in other)


FUNCTIONS: Final = [
    _overloads("quantity", ([_TEXT], OBJECT, _read_quantity), member=False),
    _overloads("isQuantity", ([_TEXT], _BOOL, _is(_read_quantity)), member=False),
    _overloads("semver", ([_TEXT], OBJECT, _read_version), ([_TEXT, _BOOL], OBJECT, _read_version), member=False),
    _overloads(
        "isSemver", ([_TEXT], _BOOL, _is(_read_version)), ([_TEXT, _BOOL], _BOOL, _is(_read_version)), member=False
    ),
    _overloads("compareTo", ([OBJECT, OBJECT], _INT, _compared)),
    _overloads("isGreaterThan", ([OBJECT, OBJECT], _BOOL, lambda one, other: _compared(one, other) > 0)),
    _overloads("isLessThan", ([OBJECT, OBJECT], _BOOL, lambda one, other: _compared(one, other) < 0)),
    _overloads("major", ([OBJECT], _INT, _number(0))),
    _overloads("minor", ([OBJECT], _INT, _number(1))),
    _overloads("patch", ([OBJECT], _INT, _number(2))),
    _overloads("sign", ([OBJECT], _INT, lambda one: (_milli(one) > 0) - (_milli(one) < 0)), member=False),
    _overloads("isInteger", ([OBJECT], _BOOL, lambda one: _milli(one) % 1000 == 0)),
    _overloads("asInteger", ([OBJECT], _INT, _whole)),
    _overloads("asApproximateFloat", ([OBJECT], cel.Type.DOUBLE, lambda one: _milli(one) / 1000)),
    _overloads("add", ([OBJECT, OBJECT], OBJECT, _added(1)), ([OBJECT, _INT], OBJECT, _added(1))),
    _overloads("sub", ([OBJECT, OBJECT], OBJECT, _added(-1)), ([OBJECT, _INT], OBJECT, _added(-1))),
    _overloads("sum", ([_LIST], _ANY, _in_order(sum))),
    _overloads(SUBSTRING, ([_TEXT, _INT], _TEXT, _substring), ([_TEXT, _INT, _INT], _TEXT, _substring)),
    _overloads("find", ([_TEXT, _TEXT], _TEXT, _find)),
    _overloads("findAll", ([_TEXT, _TEXT], _LIST, _find_all), ([_TEXT, _TEXT, _INT], _LIST, _find_all)),
    _overloads("min", ([_LIST], _ANY, _in_order(min))),
    _overloads("max", ([_LIST], _ANY, _in_order(max))),
    _overloads("isSorted", ([_LIST], _BOOL, _in_order(lambda items: items == sorted(items)))),
    _overloads("slice", ([_LIST, _INT, _INT], _LIST, _slice)),
    _overloads("distinct", ([_LIST], _LIST, _distinct)),
    _overloads("sort", ([_LIST], _LIST, _in_order(sorted))),
    _overloads("sets.contains", ([_LIST, _LIST], _BOOL, _contains), member=False),
    _overloads(
        "sets.intersects", ([_LIST, _LIST], _BOOL, lambda one, other: any(_among(x, one) for x in other)), member=False
    ),
    _overloads(
        "sets.equivalent",
        ([_LIST, _LIST], _BOOL, lambda one, other: _contains(one, other) and _contains(other, one)),
        member=False,
    ),
]
