"""What Kubernetes adds to CEL: quantities, semantic versions, and a few functions on text and lists.

Source: Kubernetes 1.36, staging/src/k8s.io/apiserver/pkg/cel/library, and cel-go, ext.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from cel_expr_python import cel

from tutti.api.quantity import QuantityError, parse_quantity
from tutti.cluster.devices.expression_values import (
    ANY,
    BOOL,
    INT,
    LIST,
    OBJECT,
    QUANTITY,
    QUANTITY_TYPE,
    TEXT,
    VERSION,
    VERSION_TYPE,
    Function,
    ObjectMap,
    Overload,
    SelectorError,
    content_of,
)
from tutti.cluster.devices.versions import VersionError, loosened, version_rank, without_build

SUBSTRING: Final = "codePointsOf"
"""What `substring` is called before it is compiled: that of the runtime refuses an end at the length of the text."""
PLACE_OF, LAST_PLACE_OF = "placeOf", "lastPlaceOf"
"""What `indexOf` and `lastIndexOf` are called before they are compiled: those of the runtime know no lists."""
AS_MAP, MERGED = "asMapOfEntries", "mergedEntries"
"""What the maps of `transformMap` and `transformMapEntry` are made with: the runtime has no function for that."""
SAME: Final = "same"
"""What `==` of values of unknown types is called once it is compiled: values of our own types equal nothing else."""

_DOUBLE: Final = cel.Type.DOUBLE
_COMPARABLE: Final = (
    *(INT, cel.Type.UINT, _DOUBLE, BOOL),
    *(cel.Type.DURATION, cel.Type.TIMESTAMP, TEXT, cel.Type.BYTES),
)
_KINDS: Final = (*_COMPARABLE, OBJECT, LIST, cel.Type.NULL)


def quantity_map(milli: int) -> ObjectMap:
    """Return a quantity in milli-units as expressions handle it."""
    return {QUANTITY: str(milli)}


def version_map(text: str) -> ObjectMap:
    """Return a semantic version as expressions handle it."""
    return {VERSION: without_build(text)}


def _milli(value: ObjectMap) -> int:
    return int(content_of(value, QUANTITY))


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
        rank = version_rank(content_of(version, VERSION))
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


def _place_in_text(text: str, part: str, start: int = 0) -> int:
    """Return where a part begins, no sooner than at a place; -1: nowhere (cel-go, ext/strings.go)."""
    if part and start < 0:
        raise SelectorError(f"index out of range: {start}")
    return text.find(part, start) if part else start


def _last_place_in_text(text: str, part: str, start: int | None = None) -> int:
    """Return where a part begins last, no later than at a place; -1: nowhere (cel-go, ext/strings.go)."""
    if start is None:
        return text.rfind(part)
    if not part:
        return start
    if start < 0:
        raise SelectorError(f"index out of range: {start}")
    return text.rfind(part, 0, start + len(part)) if start < len(text) else -1


def equal(one: Any, other: Any) -> bool:
    """Whether two values are equal as CEL has it: true and false are no numbers, and numbers of all types compare."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(equal(*both) for both in zip(one, other, strict=True))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(equal(value, other[key]) for key, value in one.items())
    return bool(one == other)


def _same(one: Any, other: Any) -> bool:
    """Return whether two values are equal; a value of our own type is not asked about others (cel-go's Equal)."""
    if isinstance(one, dict) and other is not None:
        for key in (VERSION, QUANTITY):
            if key in one and not (isinstance(other, dict) and key in other):
                raise SelectorError("no such overload")
    return equal(one, other)


def _place(items: list[Any], item: Any) -> int:
    return next((at for at, one in enumerate(items) if equal(one, item)), -1)


def _last_place(items: list[Any], item: Any) -> int:
    return next((at for at in reversed(range(len(items))) if equal(items[at], item)), -1)


def _in_order(name: str, work: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    """Return what puts values in order, or adds them, where that makes sense."""

    def ordered(items: list[Any]) -> Any:
        if not items and name in ("min", "max"):
            raise SelectorError(f"{name} called on empty list")
        try:
            return work(items)
        except TypeError as error:
            raise SelectorError("no such overload") from error

    return ordered


def _as_map(entries: list[list[Any]]) -> dict[Any, Any]:
    return dict(tuple(entry) for entry in entries)


def _merged(maps: list[dict[Any, Any]]) -> dict[Any, Any]:
    out: dict[Any, Any] = {}
    for one in maps:
        for key, value in one.items():
            if key in out:
                raise SelectorError(f"insert failed: key {key!r} already exists")
            out[key] = value
    return out


def _of_lists(name: str, work: Callable[[list[Any]], Any], returns: Any = None) -> Function:
    """Return a function of lists of values that can be compared."""
    ordered = _in_order(name, work)
    return Function(name, [Overload([cel.Type.List(one)], returns or one, ordered, ANY) for one in _COMPARABLE])


def _of_two(name: str, does: Callable[[ObjectMap, ObjectMap], Any], returns: Any) -> Function:
    return Function(name, [Overload([one, one], returns, does) for one in (QUANTITY_TYPE, VERSION_TYPE)])


def _changed(name: str, sign: int) -> Function:
    takes = ([QUANTITY_TYPE, QUANTITY_TYPE], [QUANTITY_TYPE, INT])
    return Function(name, [Overload(one, QUANTITY_TYPE, _added(sign)) for one in takes])


FUNCTIONS: Final = [
    Function("quantity", [Overload([TEXT], QUANTITY_TYPE, _read_quantity)], member=False),
    Function("isQuantity", [Overload([TEXT], BOOL, _is(_read_quantity))], member=False),
    Function(
        "semver",
        [Overload([TEXT], VERSION_TYPE, _read_version), Overload([TEXT, BOOL], VERSION_TYPE, _read_version)],
        member=False,
    ),
    Function(
        "isSemver",
        [Overload([TEXT], BOOL, _is(_read_version)), Overload([TEXT, BOOL], BOOL, _is(_read_version))],
        member=False,
    ),
    _of_two("compareTo", _compared, INT),
    _of_two("isGreaterThan", lambda one, other: _compared(one, other) > 0, BOOL),
    _of_two("isLessThan", lambda one, other: _compared(one, other) < 0, BOOL),
    *(
        Function(name, [Overload([VERSION_TYPE], INT, _number(place))])
        for place, name in enumerate(("major", "minor", "patch"))
    ),
    Function("sign", [Overload([QUANTITY_TYPE], INT, lambda one: (_milli(one) > 0) - (_milli(one) < 0))], member=False),
    Function("isInteger", [Overload([QUANTITY_TYPE], BOOL, lambda one: _milli(one) % 1000 == 0)]),
    Function("asInteger", [Overload([QUANTITY_TYPE], INT, _whole)]),
    Function("asApproximateFloat", [Overload([QUANTITY_TYPE], _DOUBLE, lambda one: _milli(one) / 1000)]),
    _changed("add", 1),
    _changed("sub", -1),
    _of_lists("sum", sum),
    _of_lists("min", min),
    _of_lists("max", max),
    _of_lists("isSorted", lambda items: items == sorted(items), BOOL),
    Function(SUBSTRING, [Overload([TEXT, INT], TEXT, _substring), Overload([TEXT, INT, INT], TEXT, _substring)]),
    Function(
        PLACE_OF,
        [
            Overload([TEXT, TEXT], INT, _place_in_text),
            Overload([TEXT, TEXT, INT], INT, _place_in_text),
            *(Overload([cel.Type.List(kind), kind], INT, _place) for kind in _KINDS),
        ],
    ),
    Function(
        LAST_PLACE_OF,
        [
            Overload([TEXT, TEXT], INT, _last_place_in_text),
            Overload([TEXT, TEXT, INT], INT, _last_place_in_text),
            *(Overload([cel.Type.List(kind), kind], INT, _last_place) for kind in _KINDS),
        ],
    ),
]
"""Functions that expressions may call."""

OWN_FUNCTIONS: Final = [
    Function(AS_MAP, [Overload([LIST], cel.Type.Map(ANY, ANY), _as_map)]),
    Function(MERGED, [Overload([LIST], cel.Type.Map(ANY, ANY), _merged)]),
    Function(SAME, [Overload([one, other], BOOL, _same) for one in _KINDS for other in _KINDS], member=False),
]
"""Functions that stand only in what expressions are made to before they are evaluated."""
