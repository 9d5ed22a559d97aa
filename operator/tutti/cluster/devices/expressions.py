"""Expressions over devices: compiled once for each text, evaluated once for each distinct device.

The language is CEL, evaluated by its C++ runtime (docs/adr/0016-cel-by-its-own-runtime.md); what Kubernetes adds to it
is added (`expression_environment.py`), and that a domain of which a device says nothing is an empty map. That rule is
CEL's own optional access, written into the expression before it is compiled (`expression_texts.py`). Types are checked
first; then a device is handed over as plain maps.

What an expression may cost is bounded: 10 KiB of text, a depth of 32, 10,000 rounds of all its loops together, and what
it comes to at most about a device of that size (`expression_costs.py`). Beyond that it is an error of that expression.
"""

from __future__ import annotations

import re
from collections import Counter, OrderedDict
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from tutti.api.devices import AttributeValue
from tutti.cluster.devices.expression_costs import MOST_COST, MOST_ROUNDS, SMALLEST, DeviceSizes, cost_of
from tutti.cluster.devices.expression_environment import CHECKED, EVALUATED
from tutti.cluster.devices.expression_functions import quantity_map, version_map
from tutti.cluster.devices.expression_texts import as_checked, as_evaluated, unknown_name
from tutti.cluster.devices.expression_values import TYPE_NAMES, ObjectMap, SelectorError
from tutti.cluster.devices.expression_wire import with_own_equality

LONGEST_EXPRESSION: Final = 10 * 1024
_MOST_COMPILED: Final = 2048
_MOST_ANSWERS: Final = 1 << 16
_SMALL_COST: Final = MOST_COST // 100
"""So little need not be told for each size of devices."""
_SHORTEST: Final = 8
"""So long is any text at least as what is no text is written out; also numbers, which are never worked through."""


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

    def sizes(self) -> DeviceSizes:
        """Return how large what it says is."""
        said = [name for name, _ in (*self.attributes, *self.capacity)]
        by_domain = [Counter(domain for (domain, _), _ in part) for part in (self.attributes, self.capacity)]
        texts = [
            self.driver,
            *(text for name in said for text in name),
            *(str(value) for _, (_, value) in self.attributes),
        ]
        return DeviceSizes(
            max(len(tally) for tally in by_domain),
            max([count for tally in by_domain for count in tally.values()], default=0),
            max([_SHORTEST, *(len(text.encode()) for text in texts)]),
        )

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


class _Compiled(NamedTuple):
    """What an expression was compiled to.

    Attributes:
        program: Evaluates it; text: why nothing can.
        forms: What tells its cost: as it is checked, and as it is evaluated where that differs.
        cost: What it costs at most about any device.
    """

    program: Any
    forms: tuple[bytes, ...] = ()
    cost: int = 0

    def cost_about(self, sizes: DeviceSizes) -> int:
        """Return what it costs at most about a device of a size."""
        return max([cost_of(form, sizes) for form in self.forms], default=0)


class Expressions:
    """Answers of expressions about devices, each worked out once; the least recently used are forgotten."""

    def __init__(self) -> None:
        self._compiled: OrderedDict[str, _Compiled] = OrderedDict()
        self._costs: dict[tuple[str, DeviceSizes], int] = {}
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
        program = self._program(expression).program
        return program if isinstance(program, str) else ""

    def cost(self, expression: str, device: DeviceContent) -> int:
        """Return what it costs at most to evaluate an expression about a device, in steps of 100 ns or less."""
        compiled = self._program(expression)
        if compiled.cost <= _SMALL_COST:
            return compiled.cost
        key = (expression, device.sizes().rounded())
        cost = self._costs.get(key)
        if cost is None:
            if len(self._costs) >= _MOST_COMPILED:
                self._costs.clear()
            cost = self._costs[key] = compiled.cost_about(key[1])
        return cost

    def _evaluated(self, expression: str, device: DeviceContent) -> bool | str:
        program = self._program(expression).program
        if isinstance(program, str):
            return f"CEL compile error: {program}"
        cost = self.cost(expression, device)
        if cost > MOST_COST:
            return f"CEL runtime error: {_too_complex(cost)}"
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

    def _program(self, expression: str) -> _Compiled:
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
_TOO_MANY_ROUNDS: Final = "Iteration budget exceeded"
_BY_ZERO: Final = ("divide by zero", "modulus by zero")
_STATUS: Final = re.compile(r"^[A-Z_]+: ")


def _compile(expression: str) -> _Compiled:
    """Return what can be evaluated, or why nothing can."""
    if len(expression.encode()) > LONGEST_EXPRESSION:
        return _Compiled(f"it is longer than {LONGEST_EXPRESSION} bytes")
    unknown = unknown_name(expression)
    if unknown:
        return _Compiled(unknown)
    try:
        checked = CHECKED.compile(as_checked(expression))
        result = checked.return_type().name()
        if result not in ("BOOL", "DYN"):
            return _Compiled(f"must evaluate to bool or the unknown type, not {result.lower()}")
        forms = [checked.serialize()]
        cost, too_complex = _weighed(forms[0])
        if too_complex:
            return _Compiled(too_complex)
        evaluated = EVALUATED.compile(as_evaluated(expression)).serialize()
    except (RuntimeError, ValueError) as error:
        return _Compiled(_worded(str(error)).partition("\n")[0])
    if "bind" in expression:  # what stands there several times is worked out as often
        forms.append(evaluated)
        again, too_complex = _weighed(evaluated)
        if too_complex:
            return _Compiled(too_complex)
        cost = max(cost, again)
    return _Compiled(EVALUATED.deserialize(with_own_equality(evaluated)), tuple(forms), cost)


def _weighed(form: bytes) -> tuple[int, str]:
    """Return what an expression costs at most, and what is wrong with it if that is too much about any device."""
    cost = cost_of(form)
    least = cost_of(form, SMALLEST) if cost > MOST_COST else cost
    return cost, _too_complex(least) if least > MOST_COST else ""


def _too_complex(cost: int) -> str:
    return f"too complex, exceeds cost limit: it may take {cost} steps, and {MOST_COST} is the most"


def _worded(text: str) -> str:
    """Return the runtime's complaint in the words of CEL's other implementations, which users know."""
    missing = _NO_KEY.fullmatch(text)
    if missing is not None:
        return f"no such key: {missing['key']}"
    if text.endswith(_BY_ZERO):
        return _BY_ZERO[text.endswith(_BY_ZERO[1])].replace("divide", "division")
    if _TOO_MANY_ROUNDS in text:
        return f"too complex, exceeds cost limit: its loops go round more than {MOST_ROUNDS} times together"
    if _NO_OVERLOAD.fullmatch(text):
        return "no such overload"
    return _STATUS.sub("", text)
