"""Expressions over devices: compiled once for each text, evaluated once for each distinct device.

The language is CEL, evaluated by its C++ runtime (docs/adr/0016-cel-by-its-own-runtime.md); what Kubernetes adds to it
is added (`expression_environment.py`), and that a domain of which a device says nothing is an empty map. That rule is
CEL's own optional access, written into the expression before it is compiled (`expression_texts.py`). Types are checked
first; then a device is handed over as plain maps.

What an expression may cost is bounded: 10 KiB of text, a depth of 32, 10,000 rounds of all its loops together, and what
it comes to at most (`expression_costs.py`). What goes beyond is an error of that expression.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from tutti.api.devices import AttributeValue
from tutti.cluster.devices.expression_costs import MOST_COST, cost_of
from tutti.cluster.devices.expression_environment import CHECKED, EVALUATED
from tutti.cluster.devices.expression_functions import quantity_map, version_map
from tutti.cluster.devices.expression_texts import as_checked, as_evaluated, unknown_name
from tutti.cluster.devices.expression_values import TYPE_NAMES, ObjectMap, SelectorError
from tutti.cluster.devices.expression_wire import with_own_equality

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


_CONVERSIONS: Final[Mapping[str, str]] = {
    "int": "unsupported type conversion from 'int' to bool",
    "uint": "unsupported type conversion from 'uint' to bool",
    **{name: f"type conversion error from '{name.rpartition('.')[2]}' to 'bool'" for name in TYPE_NAMES.values()},
}
"""What kube-scheduler says of results of these kinds (cel-go, common/types; apiserver, pkg/cel)."""


def _not_bool(kind: str, value: object) -> str:
    """Return what kube-scheduler says of a result that is neither true nor false."""
    name = kind.lower()
    if isinstance(value, dict):
        name = next((said for key, said in TYPE_NAMES.items() if key in value), name)
    why = _CONVERSIONS.get(name, f"unsupported native conversion from {name} to 'bool'")
    return f"CEL result of type {name} could not be converted to bool: {why}"


_NO_KEY: Final = re.compile(r'NOT_FOUND: Key not found in map : "?(?P<key>.*?)"?\.?', re.DOTALL)
_NO_OVERLOAD: Final = re.compile(r"UNKNOWN: No matching overloads? found.*|.*\bno such overload\b.*", re.DOTALL)
_BY_ZERO: Final = ("divide by zero", "modulus by zero")
_STATUS: Final = re.compile(r"^[A-Z_]+: ")


def _compile(expression: str) -> tuple[Any, int]:
    """Return what can be evaluated, or why nothing can, and what that costs at most."""
    if len(expression.encode()) > LONGEST_EXPRESSION:
        return f"it is longer than {LONGEST_EXPRESSION} bytes", 0
    unknown = unknown_name(expression)
    if unknown:
        return unknown, 0
    try:
        checked = CHECKED.compile(as_checked(expression))
        result = checked.return_type().name()
        if result not in ("BOOL", "DYN"):
            return f"must evaluate to bool or the unknown type, not {result.lower()}", 0
        cost = cost_of(checked.serialize())
        if cost > MOST_COST:
            return _too_complex(cost), 0
        evaluated = EVALUATED.compile(as_evaluated(expression)).serialize()
    except (RuntimeError, ValueError) as error:
        return _worded(str(error)).partition("\n")[0], 0
    if "bind" in expression:  # what stands there several times is worked out as often
        cost = max(cost, cost_of(evaluated))
        if cost > MOST_COST:
            return _too_complex(cost), 0
    return EVALUATED.deserialize(with_own_equality(evaluated)), cost


def _too_complex(cost: int) -> str:
    return f"too complex, exceeds cost limit: it may take {cost} steps, and {MOST_COST} is the most"


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
