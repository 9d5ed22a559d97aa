"""Expressions over devices: compiled once for each text, evaluated once for each distinct device.

The language is CEL, evaluated by its C++ runtime (docs/adr/0016-cel-by-its-own-runtime.md); what Kubernetes adds to it
(1.36, staging/src/k8s.io/dynamic-resource-allocation/cel and apiserver/pkg/cel/library) is added here: quantities,
semantic versions, a few functions on text and lists, and that a domain of which a device says nothing is an empty map.
That last rule is CEL's own optional access, written into the expression before it is compiled.

A device is handed over as plain maps. A quantity or a version is a map with one entry, which no expression can take
apart by accident, so that `==` of two of them compares what they are.

What an expression may cost is bounded: 10 KiB of text, a depth of 32, 10,000 rounds of all its loops together, and what
it comes to at most (`expression_costs.py`). What goes beyond is an error of that expression.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import re2
from cel_expr_python import cel
from cel_expr_python.ext import ext_bindings, ext_optional, ext_strings

from tutti.api.devices import AttributeValue
from tutti.api.quantity import QuantityError, parse_quantity
from tutti.cluster.devices.expression_costs import MOST_COST, cost_of
from tutti.cluster.devices.versions import VersionError, loosened, version_rank, without_build

LONGEST_EXPRESSION: Final = 10 * 1024
_MOST_COMPILED: Final = 2048
_MOST_ANSWERS: Final = 1 << 16
_QUANTITY: Final = "#quantity"
_VERSION: Final = "#version"

_Map = dict[str, Any]
_TEXT, _BOOL, _INT, _ANY = cel.Type.STRING, cel.Type.BOOL, cel.Type.INT, cel.Type.DYN
_OBJECT = cel.Type.Map(_TEXT, _ANY)
_LIST = cel.Type.List(_ANY)


class SelectorError(Exception):
    """An expression that cannot be compiled or evaluated, or that is not about true and false."""


class DeviceContent(NamedTuple):
    """What an expression can see of a device.

    Attributes:
        attributes: Domain and name to type and value, sorted.
        capacity: Domain and name to milli-units, sorted.
    """

    driver: str
    attributes: tuple[tuple[tuple[str, str], AttributeValue], ...]
    capacity: tuple[tuple[tuple[str, str], int], ...]
    multiple: bool

    def as_map(self) -> _Map:
        """Return it as an expression sees it."""
        attributes: dict[str, _Map] = {}
        for (domain, name), (kind, value) in self.attributes:
            attributes.setdefault(domain, {})[name] = _version(str(value)) if kind == "version" else value
        capacity: dict[str, _Map] = {}
        for (domain, name), milli in self.capacity:
            capacity.setdefault(domain, {})[name] = _quantity(milli)
        return {
            "driver": self.driver,
            "attributes": attributes,
            "capacity": capacity,
            "allowMultipleAllocations": self.multiple,
        }


def _quantity(milli: int) -> _Map:
    return {_QUANTITY: str(milli)}


def _version(text: str) -> _Map:
    return {_VERSION: without_build(text)}


def _overloads(name: str, *kinds: tuple[Sequence[Any], Any, Callable[..., Any]], member: bool = True) -> Any:
    overloads = [
        cel.Overload(f"k8s_{name}_{i}", return_type=returns, parameters=list(takes), is_member=member, impl=does)
        for i, (takes, returns, does) in enumerate(kinds)
    ]
    return cel.FunctionDecl(name, overloads)


def _milli(value: _Map) -> int:
    if _QUANTITY not in value:
        raise SelectorError("no such overload")
    return int(value[_QUANTITY])


def _compared(one: _Map, other: _Map) -> int:
    """Compare two quantities, or two versions: -1, 0 or 1."""
    left: Any
    right: Any
    if _VERSION in one and _VERSION in other:
        left, right = version_rank(one[_VERSION]), version_rank(other[_VERSION])
    else:
        left, right = _milli(one), _milli(other)
    return int(left > right) - int(left < right)


def _read_quantity(text: str) -> _Map:
    return _quantity(parse_quantity(text))


def _read_version(text: str, loosely: bool = False) -> _Map:
    text = loosened(text) if loosely else text
    version_rank(text)
    return _version(text)


def _is(read: Callable[..., object]) -> Callable[..., bool]:
    def legible(*given: Any) -> bool:
        try:
            read(*given)
        except (QuantityError, VersionError):
            return False
        return True

    return legible


def _number(place: int) -> Callable[[_Map], int]:
    def part(version: _Map) -> int:
        if _VERSION not in version:
            raise SelectorError("no such overload")
        rank = version_rank(version[_VERSION])
        return (rank[0], rank[1], rank[2])[place]

    return part


def _whole(value: _Map) -> int:
    milli = _milli(value)
    if milli % 1000:
        raise SelectorError("cannot convert value to integer")
    return milli // 1000


def _added(sign: int) -> Callable[[_Map, Any], _Map]:
    def add(one: _Map, other: Any) -> _Map:
        return _quantity(_milli(one) + sign * (other * 1000 if isinstance(other, int) else _milli(other)))

    return add


def _sum(items: list[Any]) -> Any:
    try:
        return sum(items)
    except TypeError as error:
        raise SelectorError("no such overload") from error


def _find(text: str, pattern: str) -> str:
    found = re2.search(pattern, text)
    return found.group() if found is not None else ""


def _find_all(text: str, pattern: str, most: int = -1) -> list[str]:
    found = [one.group() for one in re2.finditer(pattern, text)]
    return found if most < 0 else found[:most]


def _contains(one: list[Any], other: list[Any]) -> bool:
    return all(item in one for item in other)


_FUNCTIONS: Final = [
    _overloads("quantity", ([_TEXT], _OBJECT, _read_quantity), member=False),
    _overloads("isQuantity", ([_TEXT], _BOOL, _is(_read_quantity)), member=False),
    _overloads("semver", ([_TEXT], _OBJECT, _read_version), ([_TEXT, _BOOL], _OBJECT, _read_version), member=False),
    _overloads(
        "isSemver", ([_TEXT], _BOOL, _is(_read_version)), ([_TEXT, _BOOL], _BOOL, _is(_read_version)), member=False
    ),
    _overloads("compareTo", ([_OBJECT, _OBJECT], _INT, _compared)),
    _overloads("isGreaterThan", ([_OBJECT, _OBJECT], _BOOL, lambda one, other: _compared(one, other) > 0)),
    _overloads("isLessThan", ([_OBJECT, _OBJECT], _BOOL, lambda one, other: _compared(one, other) < 0)),
    _overloads("major", ([_OBJECT], _INT, _number(0))),
    _overloads("minor", ([_OBJECT], _INT, _number(1))),
    _overloads("patch", ([_OBJECT], _INT, _number(2))),
    _overloads("sign", ([_OBJECT], _INT, lambda one: (_milli(one) > 0) - (_milli(one) < 0))),
    _overloads("isInteger", ([_OBJECT], _BOOL, lambda one: _milli(one) % 1000 == 0)),
    _overloads("asInteger", ([_OBJECT], _INT, _whole)),
    _overloads("asApproximateFloat", ([_OBJECT], cel.Type.DOUBLE, lambda one: _milli(one) / 1000)),
    _overloads("add", ([_OBJECT, _OBJECT], _OBJECT, _added(1)), ([_OBJECT, _INT], _OBJECT, _added(1))),
    _overloads("sub", ([_OBJECT, _OBJECT], _OBJECT, _added(-1)), ([_OBJECT, _INT], _OBJECT, _added(-1))),
    _overloads("sum", ([_LIST], _ANY, _sum)),
    _overloads("find", ([_TEXT, _TEXT], _TEXT, _find)),
    _overloads("findAll", ([_TEXT, _TEXT], _LIST, _find_all), ([_TEXT, _TEXT, _INT], _LIST, _find_all)),
    _overloads("min", ([_LIST], _ANY, min)),
    _overloads("max", ([_LIST], _ANY, max)),
    _overloads("isSorted", ([_LIST], _BOOL, lambda items: items == sorted(items))),
    _overloads("sets.contains", ([_LIST, _LIST], _BOOL, _contains), member=False),
    _overloads(
        "sets.intersects", ([_LIST, _LIST], _BOOL, lambda one, other: any(x in one for x in other)), member=False
    ),
    _overloads(
        "sets.equivalent",
        ([_LIST, _LIST], _BOOL, lambda one, other: _contains(one, other) and _contains(other, one)),
        member=False,
    ),
]

_ENVIRONMENT: Final = cel.NewEnv(
    variables={"device": _OBJECT},
    extensions=[ext_optional.ExtOptional(), ext_bindings.ExtBindings(), ext_strings.ExtStrings()],
    functions=_FUNCTIONS,
)

# Strings (raw or not, of one or three quotes), comments, names, and single characters.
_TOKEN: Final = re.compile(
    r"""(?P<string>[rRbB]{0,2}(?:\"\"\"(?:\\.|[^\\])*?\"\"\"|'''(?:\\.|[^\\])*?'''|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'))
    |(?P<comment>//[^\n]*)|(?P<name>[A-Za-z_]\w*)|(?P<space>\s+)|(?P<mark>.)""",
    re.VERBOSE | re.DOTALL,
)
_BY_DOMAIN: Final = frozenset(("attributes", "capacity"))
_OPEN, _CLOSE = frozenset("([{"), frozenset(")]}")


def with_empty_domains(expression: str) -> str:
    """Return an expression in which a domain that a device says nothing of is an empty map.

    `x.attributes[d]` becomes `x.attributes[?d].orValue(dyn({}))`, and `x.attributes.d` accordingly; the same of
    `capacity`.
    What asks whether there is a domain, `d in x.attributes` or `has(x.attributes.d)`, stays as it is.
    """
    tokens = [(one.lastgroup or "", one[0]) for one in _TOKEN.finditer(expression) if one.lastgroup != "comment"]
    solid = [at for at, (kind, _) in enumerate(tokens) if kind != "space"]
    before: dict[int, str] = {}
    after: dict[int, str] = {}
    for place in range(1, len(solid) - 1):
        (_, dot), (kind, name) = tokens[solid[place - 1]], tokens[solid[place]]
        if dot != "." or kind != "name" or name not in _BY_DOMAIN:
            continue
        if tokens[solid[place + 1]][1] == "[":
            end = _closing(tokens, solid, place + 1)
            if end is not None and tokens[solid[place + 2]][1] != "?":
                after[solid[place + 1]] = "?"
                after[end] = ".orValue(dyn({}))"
        elif tokens[solid[place + 1]][1] == "." and place + 2 < len(solid):
            follows = tokens[solid[place + 3]][1] if place + 3 < len(solid) else ""
            asked = place >= 3 and _asks_whether(tokens, solid, place)  # noqa: PLR2004 - `has(x.`
            if tokens[solid[place + 2]][0] == "name" and follows != "(" and not (asked and follows == ")"):
                before[solid[place + 2]] = "?"
                after[solid[place + 2]] = ".orValue(dyn({}))"
    return "".join(f"{before.get(at, '')}{text}{after.get(at, '')}" for at, (_, text) in enumerate(tokens))


# With these alone an expression looks at nothing of a device but what it names.
_PLAIN_CALLS: Final = frozenset(
    [
        "has",
        "quantity",
        "semver",
        "compareTo",
        "isGreaterThan",
        "isLessThan",
        "major",
        "minor",
        "patch",
        "asInteger",
        "isInteger",
        "sign",
        "orValue",
        "hasValue",
        "value",
        "startsWith",
        "endsWith",
        "contains",
        "matches",
        "lowerAscii",
        "upperAscii",
    ]
)


def names_read(expression: str) -> frozenset[str] | None:
    """Return the names of attributes and capacities that an expression may look at; None where that cannot be told.

    It can be told where each of the maps of a device is only asked for entries by names that are written out.
    """
    tokens = [(one.lastgroup or "", one[0]) for one in _TOKEN.finditer(expression)]
    tokens = [(kind, text) for kind, text in tokens if kind not in ("space", "comment")]
    names: set[str] = set()
    for at, (kind, text) in enumerate(tokens):
        follows = tokens[at + 1][1] if at + 1 < len(tokens) else ""
        if text in "+{" or (kind == "name" and follows == "(" and text not in _PLAIN_CALLS):
            return None
        if kind == "string":
            names.add(text.strip("\"'"))
            if "\\" in text or text[0] not in "\"'":
                return None
        elif kind == "name":
            names.add(text)
            if text in _BY_DOMAIN and not _is_taken_apart(tokens, at):
                return None
    return frozenset(names)


def _is_taken_apart(tokens: Sequence[tuple[str, str]], at: int) -> bool:
    """Whether of what stands behind `attributes` only entries are asked for, by name, or whether there are any."""
    after = [text for _, text in tokens[at + 1 : at + 6]] + [""] * 5
    if after[0] == "[" and tokens[at + 2][0] == "string" and after[2] == "]":
        end = at + 4
    elif after[0] == "." and after[1] != "?":
        end = at + 3
    else:
        return False
    follows = tokens[end][1] if end < len(tokens) else ""
    begin = at - 2  # device.
    return follows in (".", "[") or (begin >= 1 and tokens[begin - 1][1] == "in" and tokens[begin - 2][0] == "string")


def _closing(tokens: Sequence[tuple[str, str]], solid: Sequence[int], place: int) -> int | None:
    depth = 0
    for at in solid[place:]:
        kind, text = tokens[at]
        depth += kind == "mark" and text in _OPEN
        depth -= kind == "mark" and text in _CLOSE
        if depth == 0:
            return at
    return None


def _asks_whether(tokens: Sequence[tuple[str, str]], solid: Sequence[int], place: int) -> bool:
    """Whether what stands at a place is the last but one name of what `has` asks for."""
    at = place
    while at >= 2 and tokens[solid[at]][0] == "name" and tokens[solid[at - 1]][1] == ".":  # noqa: PLR2004 - name and dot
        at -= 2
    return at >= 2 and tokens[solid[at - 1]][1] == "(" and tokens[solid[at - 2]][1] == "has"  # noqa: PLR2004 - has(


class Expressions:
    """Answers of expressions about devices, each worked out once; the least recently used are forgotten."""

    def __init__(self) -> None:
        self._compiled: OrderedDict[str, tuple[Any, int]] = OrderedDict()
        self._answers: dict[tuple[str, DeviceContent], bool | str] = {}
        self._maps: dict[DeviceContent, _Map] = {}

    def holds(self, expression: str, device: DeviceContent) -> bool:
        """Whether an expression holds for a device.

        Raises:
            SelectorError: It cannot be told; the message is as kube-scheduler words it.
        """
        key = (expression, device)
        answer = self._answers.get(key)
        if answer is None:
            if len(self._answers) >= _MOST_ANSWERS:
                self._answers.clear()
                self._maps.clear()
            answer = self._answers[key] = self._evaluated(expression, device)
        if isinstance(answer, str):
            raise SelectorError(answer)
        return answer

    def problem(self, expression: str) -> str:
        """Return why an expression cannot be compiled, or ""."""
        program, _ = self._program(expression)
        return program if isinstance(program, str) else ""

    def cost(self, expression: str) -> int:
        """Return what it costs at most to evaluate an expression, in steps of about 100 ns."""
        return self._program(expression)[1]

    def _evaluated(self, expression: str, device: DeviceContent) -> bool | str:
        program, _ = self._program(expression)
        if isinstance(program, str):
            return f"CEL compile error: {program}"
        seen = self._maps.get(device)
        if seen is None:
            seen = self._maps[device] = device.as_map()
        try:
            result = program.eval(data={"device": seen})
            kind, value = result.type().name(), result.value()
        except RuntimeError as error:
            return f"CEL runtime error: {_worded(str(error))}"
        if kind == "ERROR":
            return f"CEL runtime error: {_worded(str(value))}"
        if not isinstance(value, bool):
            kind = _KINDS.get(kind, kind.lower())
            return (
                f"CEL runtime error: CEL result of type {kind} could not be converted to bool: "
                f"unsupported native conversion from {kind} to 'bool'"
            )
        return value

    def _program(self, expression: str) -> tuple[Any, int]:
        known = self._compiled.get(expression)
        if known is None:
            known = _compile(expression)
            self._compiled[expression] = known
            if len(self._compiled) > _MOST_COMPILED:
                self._compiled.popitem(last=False)
        else:
            self._compiled.move_to_end(expression)
        return known


_KINDS: Final[Mapping[str, str]] = {"INT": "int", "STRING": "string", "DOUBLE": "double", "NULL": "null_type"}
_NO_KEY: Final = re.compile(r'NOT_FOUND: Key not found in map : "?(?P<key>.*?)"?\.?', re.DOTALL)
_NO_OVERLOAD: Final = re.compile(r"UNKNOWN: No matching overloads? found.*|.*\bno such overload\b.*", re.DOTALL)
_STATUS: Final = re.compile(r"^[A-Z_]+: ")


def _compile(expression: str) -> tuple[Any, int]:
    """Return what can be evaluated, or why nothing can, and what that costs at most."""
    if len(expression.encode()) > LONGEST_EXPRESSION:
        return f"it is longer than {LONGEST_EXPRESSION} bytes", 0
    try:
        compiled = _ENVIRONMENT.compile(with_empty_domains(expression))
    except (RuntimeError, ValueError) as error:
        return _worded(str(error)).partition("\n")[0], 0
    cost = cost_of(compiled.serialize())
    if cost > MOST_COST:
        return f"too complex, exceeds cost limit: it may take {cost} steps, and {MOST_COST} is the most", 0
    return compiled, cost


def _worded(text: str) -> str:
    """Return the runtime's complaint in the words of CEL's other implementations, which users know."""
    missing = _NO_KEY.fullmatch(text)
    if missing is not None:
        return f"no such key: {missing['key']}"
    if _NO_OVERLOAD.fullmatch(text):
        return "no such overload"
    return _STATUS.sub("", text)
