"""Which devices ways to fulfil requests select: a byte for each different device, told once for all who ask the same.

Whoever looks at certain attributes only sees few different devices (`Contents`): these have numbers, which are places
in the columns of answers. So what has been told of a device is looked up for whole pools at once.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tutti.cluster.devices.asks import WayAsk
from tutti.cluster.devices.comparisons import AttributeColumns
from tutti.cluster.devices.expression_values import SelectorError
from tutti.cluster.devices.expressions import DeviceContent, Expressions

NOT_ASKED, SELECTED, LEFT, OF_NO_CLASS, UNTOLD, CLASS_UNTOLD = range(6)
"""What is known of a device: nothing; the way selects it; it does not, though it is of its class; it is not of its
class; it cannot be told whether it is selected, or whether it is of its class."""

_TOLD: Final = (None, True, False, False)
_MOST_WAYS: Final = 1024

_Asked = tuple[str, tuple[str, ...], tuple[str, ...]]


class SelectedDevices:
    """What is known of the devices that somebody sees.

    Attributes:
        codes: By number of the device.
        texts: Why it cannot be told of some, with {claim} for the claim.
        count: Of how many it is known.
        filled: So many there were when it was last told of all at once.
    """

    __slots__ = ("codes", "count", "filled", "texts")

    def __init__(self) -> None:
        self.codes = bytearray()
        self.texts: dict[int, str] = {}
        self.count = self.filled = 0

    def known(self, number: int) -> bool | str | None:
        """Whether a device is selected; text where that cannot be told, None where it is not known yet."""
        code = self.codes[number] if number < len(self.codes) else NOT_ASKED
        return _TOLD[code] if code < UNTOLD else self.texts[number]

    def put(self, number: int, code: int, text: str) -> None:
        """Note what has been told of a device."""
        if number >= len(self.codes):
            self.codes.extend(bytes(number + 64))
        self.codes[number] = code
        self.count += 1
        if text:
            self.texts[number] = text

    def put_all(self, codes: NDArray[np.uint8]) -> None:
        """Note what has been told of all devices, as far as it is not known: uint8[n]."""
        known = self.of(np.arange(len(codes)))
        np.copyto(known, codes, where=known == NOT_ASKED)
        self.codes = bytearray(known.tobytes())
        self.count = int(np.count_nonzero(known))

    def of(self, numbers: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Return uint8[k]: what is known of some devices, int64[k]."""
        out = np.zeros(len(numbers), dtype=np.uint8)
        within = numbers < len(self.codes)
        out[within] = np.frombuffer(self.codes, dtype=np.uint8)[numbers[within]]
        return out


class Contents:
    """The different devices that those see who look at the same attributes, and what is known of them."""

    def __init__(self) -> None:
        self._numbers: dict[DeviceContent, int] = {}
        self._listed: list[DeviceContent] = []
        self._columns = AttributeColumns(self._listed)
        self._answers: OrderedDict[_Asked, SelectedDevices] = OrderedDict()

    def __len__(self) -> int:
        return len(self._numbers)

    def number(self, content: DeviceContent) -> int:
        """Return the number of a device."""
        known = self._numbers.get(content)
        if known is None:
            known = self._numbers[content] = len(self._listed)
            self._listed.append(content)
        return known

    def answers(self, way: WayAsk) -> SelectedDevices:
        """Return what is known of what a way selects."""
        asked = way.device_class, way.class_selectors, way.selectors
        known = self._answers.get(asked)
        if known is None:
            known = self._answers[asked] = SelectedDevices()
            if len(self._answers) > _MOST_WAYS:
                self._answers.popitem(last=False)
        return known

    def fill(self, way: WayAsk, answers: SelectedDevices, expressions: Expressions) -> None:
        """Have it known of all devices what a way selects, where its selectors only compare."""
        if answers.filled == len(self):
            return
        answers.filled = len(self)
        of_class, own = self._columns.holds(way.class_selectors), self._columns.holds(way.selectors)
        if of_class is None or own is None or any(map(expressions.problem, (*way.class_selectors, *way.selectors))):
            return
        codes = np.full(len(self), NOT_ASKED, dtype=np.uint8)
        codes[of_class[0] & ~of_class[1]] = OF_NO_CLASS
        codes[of_class[1] & own[0]] = LEFT
        codes[of_class[1] & own[1]] = SELECTED
        answers.put_all(codes)


def told(way: WayAsk, device: DeviceContent, expressions: Expressions) -> tuple[int, str]:
    """Return what can be told of a device, and why no more."""
    own = f"class {way.device_class}"
    for who, selectors, left, untold in (
        (own, way.class_selectors, OF_NO_CLASS, CLASS_UNTOLD),
        ("claim {claim}", way.selectors, LEFT, UNTOLD),
    ):
        for at, expression in enumerate(selectors):
            try:
                if not expressions.holds(expression, device):
                    return left, ""
            except SelectorError as error:
                text = str(error).replace("{", "(").replace("}", ")")
                return untold, f"{who}: selector #{at}: {text}"
    return SELECTED, ""


def bits(said: NDArray[np.bool_]) -> int:
    """Return which of some are true, by their places as bits."""
    return int.from_bytes(np.packbits(said, bitorder="little").tobytes(), "little")
