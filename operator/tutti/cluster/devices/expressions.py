"""Expressions over devices: compiled once for each text, evaluated once for each distinct device.

The language is CEL, evaluated by its C++ runtime (docs/adr/0016-cel-by-its-own-runtime.md); what Kubernetes adds to it
(1.36, staging/src/k8s.io/dynamic-resource-allocation/cel) is added: its functions (`expression_functions.py`), and that
a domain of which a device says nothing is an empty map. That rule is CEL's own optional access, written into the
expression before it is compiled. A device is handed over as plain maps.

What an expression may cost is bounded: 10 KiB of text, a depth of 32, 10,000 rounds of all its loops together, and what
it comes to at most (`expression_costs.py`). What goes beyond is an error of that expression.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from cel_expr_python import cel
from cel_expr_python.ext import ext_bindings, ext_optional, ext_strings

from tutti.api.devices import AttributeValue
from tutti.cluster.devices.expression_costs import MOST_COST, cost_of
from tutti.cluster.devices.expression_functions import (
    FUNCTIONS,
    OBJECT,
    QUANTITY,
    SUBSTRING,
    VERSION,
    ObjectMap,
    SelectorError,
    quantity_map,
    version_map,
)

LONGEST_EXPRESSION: Final = 10 * 1024
_MOST_COMPILED: Final = 2048
_MOST_ANSWERS: Final = 1 << 16


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

    def as_map(self) -> ObjectMap:
        """Return it as an expression sees it."""
        attributes: dict[str, ObjectMap] = {}
        for (domain, name), (kind, value) in self.attributes:
            attributes.setdefault(domain, {})[name] = version_map(str(value)) if kind == "version" else value
        capacity: dict[str, ObjectMap] = {}
        for (domain, name), milli in self.capacity:
            capacity.setdefault(domain, {})[name] = quantity_map(milli)
        return {
            "driver": self.driver,
            "attributes": attributes,
            "capacity": capacity,
            "allowMultipleAllocations": self.multiple,
        }


_ENVIRONMENT: Final = cel.NewEnv(
    variables={"device": OBJECT},
    extensions=[ext_optional.ExtOptional(), ext_bindings.ExtBindings(), ext_strings.ExtStrings()],
    functions=FUNCTIONS,
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


def _with_own_functions(expression: str) -> str:
    """Return an expression that calls our functions in place of those of the runtime that are not right."""
    tokens = [(one.lastgroup or "", one[0]) for one in _TOKEN.finditer(expression)]
    return "".join(SUBSTRING if kind == "name" and text == "substring" else text for kind, text in tokens)


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
        self._maps: dict[DeviceContent, ObjectMap] = {}

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
        except TypeError:  # so the runtime hands over an optional value
            kind, value = "optional_type", None
        if isinstance(value, bool):
            return value
        return f"CEL runtime error: {_worded(str(value)) if kind == 'ERROR' else _not_bool(kind, value)}"

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


_NOT_BOOL: Final[Mapping[str, str]] = {
    "int": "unsupported type conversion from 'int' to bool",
    "uint": "unsupported type conversion from 'uint' to bool",
    "kubernetes.Quantity": "type conversion error from 'Quantity' to 'bool'",
    "kubernetes.Semver": "type conversion error from 'Semver' to 'bool'",
}
"""What kube-scheduler says of results of these kinds (cel-go, common/types; apiserver, pkg/cel)."""


def _not_bool(kind: str, value: object) -> str:
    """Return what kube-scheduler says of a result that is neither true nor false."""
    name = kind.lower()
    if isinstance(value, dict) and (QUANTITY in value or VERSION in value):
        name = "kubernetes.Quantity" if QUANTITY in value else "kubernetes.Semver"
    why = _NOT_BOOL.get(name, f"unsupported native conversion from {name} to 'bool'")
    return f"CEL result of type {name} could not be converted to bool: {why}"


_NO_KEY: Final = re.compile(r'NOT_FOUND: Key not found in map : "?(?P<key>.*?)"?\.?', re.DOTALL)
_NO_OVERLOAD: Final = re.compile(r"UNKNOWN: No matching overloads? found.*|.*\bno such overload\b.*", re.DOTALL)
_BY_ZERO: Final = ("divide by zero", "modulus by zero")
_STATUS: Final = re.compile(r"^[A-Z_]+: ")


def _compile(expression: str) -> tuple[Any, int]:
    """Return what can be evaluated, or why nothing can, and what that costs at most."""
    if len(expression.encode()) > LONGEST_EXPRESSION:
        return f"it is longer than {LONGEST_EXPRESSION} bytes", 0
    try:
        compiled = _ENVIRONMENT.compile(_with_own_functions(with_empty_domains(expression)))
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
    if text.endswith(_BY_ZERO):
        return _BY_ZERO[text.endswith(_BY_ZERO[1])].replace("divide", "division")
    if _NO_OVERLOAD.fullmatch(text):
        return "no such overload"
    return _STATUS.sub("", text)
