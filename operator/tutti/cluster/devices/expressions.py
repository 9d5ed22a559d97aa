"""Expressions over devices: compiled once for each shape, evaluated once for each text and distinct device.

The language is CEL, evaluated by its C++ runtime (docs/adr/0016-cel-by-its-own-runtime.md); what Kubernetes adds to it
is added (`expression_environment.py`), and that a domain of which a device says nothing is an empty map. That rule is
CEL's own optional access, written into the expression before it is compiled (`expression_texts.py`). Types are checked
first; then a device is handed over as plain maps.

What an expression may cost is bounded: 10 KiB of text, a depth of 32, 10,000 rounds of all its loops together, and what
it comes to at most about a device of that size (`expression_costs.py`). Beyond that it is an error of that expression.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from tutti.api.devices import AttributeValue
from tutti.cluster.devices.expression_costs import MOST_COST, SMALLEST, DeviceSizes, cost_of
from tutti.cluster.devices.expression_environment import CHECKED, EVALUATED
from tutti.cluster.devices.expression_errors import not_bool, too_complex, worded
from tutti.cluster.devices.expression_functions import quantity_map, version_map
from tutti.cluster.devices.expression_shapes import expression_shape
from tutti.cluster.devices.expression_texts import as_checked, as_evaluated, unknown_name
from tutti.cluster.devices.expression_values import ObjectMap, SelectorError
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
        values: What it compares with, by the name of the variable that stands for it.
    """

    program: Any
    forms: tuple[bytes, ...] = ()
    cost: int = 0
    values: Mapping[str, str] = MappingProxyType({})

    def cost_about(self, sizes: DeviceSizes) -> int:
        """Return what it costs at most about a device of a size."""
        return max([cost_of(form, sizes) for form in self.forms], default=0)


class Expressions:
    """Answers of expressions about devices, each worked out once; the least recently used are forgotten."""

    def __init__(self) -> None:
        self._compiled: OrderedDict[str, _Compiled] = OrderedDict()
        self._of_shape: OrderedDict[tuple[str, tuple[int, ...]], _Compiled] = OrderedDict()
        self._costs: dict[tuple[str, DeviceSizes], int] = {}
        self._sizes: dict[DeviceContent, DeviceSizes] = {}
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
        sizes = self._sizes.get(device)
        if sizes is None:
            if len(self._sizes) >= _MOST_ANSWERS:
                self._sizes.clear()
            sizes = self._sizes[device] = device.sizes().rounded()
        key = (expression, sizes)
        cost = self._costs.get(key)
        if cost is None:
            if len(self._costs) >= _MOST_COMPILED:
                self._costs.clear()
            cost = self._costs[key] = compiled.cost_about(key[1])
        return cost

    def unknown(self, expressions: Iterable[str]) -> Iterator[str]:
        """Yield those that have not been compiled."""
        return (one for one in expressions if one not in self._compiled)

    def small_cost(self, expression: str) -> int | None:
        """Return what it costs at most about any device; None where that is told for each size of devices."""
        cost = self._program(expression).cost
        return cost if cost <= _SMALL_COST else None

    def _evaluated(self, expression: str, device: DeviceContent) -> bool | str:
        compiled = self._program(expression)
        program = compiled.program
        if isinstance(program, str):
            return f"CEL compile error: {program}"
        if compiled.cost > MOST_COST and (cost := self.cost(expression, device)) > MOST_COST:
            return f"CEL runtime error: {too_complex(cost)}"
        seen = self._maps.get(device)
        if seen is None:
            seen = self._maps[device] = device.as_map()
        try:
            result = program.eval(data={"device": seen, **compiled.values})
            kind, value = result.type().name(), result.value()
        except RuntimeError as error:
            return f"CEL runtime error: {worded(str(error))}"
        except TypeError:  # so the runtime hands over an optional value
            kind, value = "optional_type", None
        if isinstance(value, bool):
            return value
        return f"CEL runtime error: {worded(str(value)) if kind == 'ERROR' else not_bool(kind, value)}"

    def _program(self, expression: str) -> _Compiled:
        known = self._compiled.get(expression)
        if known is None:
            known = self._compile(expression)
            self._compiled[expression] = known
            if len(self._compiled) > _MOST_COMPILED:
                self._compiled.popitem(last=False)
        else:
            self._compiled.move_to_end(expression)
        return known

    def _compile(self, expression: str) -> _Compiled:
        """Return what can be evaluated, or why nothing can: of one whose shape is known, as that was compiled."""
        if len(expression.encode()) > LONGEST_EXPRESSION:
            return _Compiled(f"it is longer than {LONGEST_EXPRESSION} bytes")
        shape = expression_shape(expression)
        if not shape.values:
            return _compiled(expression, expression)
        key = (shape.text, shape.lengths)
        known = self._of_shape.get(key)
        if known is None:
            known = _compiled(expression, shape.text)
            if isinstance(known.program, str):
                return _compiled(expression, expression)  # which says where in this one
            self._of_shape[key] = known
            if len(self._of_shape) > _MOST_COMPILED:
                self._of_shape.popitem(last=False)
        return known._replace(values=shape.values)


def _compiled(expression: str, shape: str) -> _Compiled:
    """Return what can be evaluated, or why nothing can.

    Args:
        expression: What is checked and weighed.
        shape: What is evaluated: the same, but for texts that it compares with.
    """
    unknown = unknown_name(expression)
    if unknown:
        return _Compiled(unknown)
    try:
        checked = CHECKED.compile(as_checked(expression))
        result = checked.return_type().name()
        if result not in ("BOOL", "DYN"):
            return _Compiled(f"must evaluate to bool or the unknown type, not {result.lower()}")
        forms = [checked.serialize()]
        cost, refusal = _weighed(forms[0])
        if refusal:
            return _Compiled(refusal)
        evaluated = EVALUATED.compile(as_evaluated(shape)).serialize()
    except (RuntimeError, ValueError) as error:
        return _Compiled(worded(str(error)).partition("\n")[0])
    if "bind" in expression:  # what stands there several times is worked out as often
        forms.append(evaluated)
        again, refusal = _weighed(evaluated)
        if refusal:
            return _Compiled(refusal)
        cost = max(cost, again)
    return _Compiled(EVALUATED.deserialize(with_own_equality(evaluated)), tuple(forms), cost)


def _weighed(form: bytes) -> tuple[int, str]:
    """Return what an expression costs at most, and what is wrong with it if that is too much about any device."""
    cost = cost_of(form)
    least = cost_of(form, SMALLEST) if cost > MOST_COST else cost
    return cost, too_complex(least) if least > MOST_COST else ""
