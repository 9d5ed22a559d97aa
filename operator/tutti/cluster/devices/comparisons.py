"""Selectors that only compare attributes of a device with what is written out: answered for all devices in columns.

Most selectors are so, as `device.attributes["gpu.example.com"].model == "h100"`, several of them with `&&`. What is not
plain about a device is left to CEL: an attribute that it lacks, or one of another type.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tutti.api.devices import AttributeValue
from tutti.cluster.devices.expressions import DeviceContent

Mask = NDArray[np.bool_]

_COMPARISON: Final = re.compile(
    r"""\s*device\.(?:driver|attributes\[(?:"(?P<a>[a-z0-9.-]+)"|'(?P<b>[a-z0-9.-]+)')\]\.(?P<name>[A-Za-z_]\w*))"""
    r"""\s*(?P<how>==|!=|<=|>=|<|>)\s*"""
    r"""(?:(?P<number>0|-?[1-9][0-9]{0,17})|"(?P<c>[A-Za-z0-9 ._:/-]*)"|'(?P<d>[A-Za-z0-9 ._:/-]*)')\s*""",
    re.ASCII,
)
_COMPARED: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
_OF_TEXT: Final = ("==", "!=")
_LARGEST: Final = 1 << 63


class _Comparison(NamedTuple):
    """What is compared with what.

    Attributes:
        attribute: Domain and name; None: the driver.
        how: The operator.
        value: What it is compared with.
    """

    attribute: tuple[str, str] | None
    how: str
    value: int | str


class _Column(NamedTuple):
    """What some devices say of one attribute: numbers, and for texts their places among `texts`.

    Attributes:
        numbers: int64[n].
        has_number: bool[n], which say one.
        places: int64[n]; -1 where no text is said.
        texts: The different ones.
    """

    numbers: NDArray[np.int64]
    has_number: Mask
    places: NDArray[np.int64]
    texts: Mapping[str, int]


_NOTHING: Final = _Column(
    np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.bool_), np.zeros(0, dtype=np.int64), MappingProxyType({})
)


class AttributeColumns:
    """What devices say of their attributes, by column as it is asked for.

    Args:
        devices: Those, of which more may come.
    """

    def __init__(self, devices: Sequence[DeviceContent]) -> None:
        self._devices = devices
        self._columns: dict[tuple[str, str] | None, _Column] = {}

    def holds(self, expressions: Sequence[str]) -> tuple[Mask, Mask] | None:
        """Return bool[n]: of which devices it is told whether some expressions hold, and of which they do.

        None where it is told of none: they do not only compare.
        """
        compared = [_comparisons(one) for one in expressions]
        told, held = np.ones(len(self._devices), dtype=np.bool_), np.ones(len(self._devices), dtype=np.bool_)
        for several in compared:
            if several is None:
                return None
            for one in several:
                column = self._column(one.attribute)
                if isinstance(one.value, int):
                    told &= column.has_number
                    held &= _COMPARED[one.how](column.numbers, one.value)
                else:
                    told &= column.places >= 0
                    held &= _COMPARED[one.how](column.places, column.texts.get(one.value, len(column.texts)))
        return told, held & told

    def _column(self, attribute: tuple[str, str] | None) -> _Column:
        known = self._columns.get(attribute, _NOTHING)
        more = self._devices[len(known.numbers) :]
        if more:
            known = self._columns[attribute] = _longer(known, [_said(one, attribute) for one in more])
        return known


def _said(device: DeviceContent, attribute: tuple[str, str] | None) -> AttributeValue | None:
    """Return what a device says of an attribute; None where it says nothing."""
    if attribute is None:
        return "string", device.driver
    found = None
    for name, value in device.attributes:
        if name == attribute:
            found = value  # the last one counts, as where CEL looks it up
    return found


def _longer(column: _Column, said: Sequence[AttributeValue | None]) -> _Column:
    """Return a column with what further devices say."""
    texts = dict(column.texts)
    numbers, places = np.zeros(len(said), dtype=np.int64), np.full(len(said), -1, dtype=np.int64)
    has_number = np.zeros(len(said), dtype=np.bool_)
    for at, one in enumerate(said):
        if one is None:
            continue
        kind, value = one
        if kind == "int" and -_LARGEST <= int(value) < _LARGEST:
            numbers[at], has_number[at] = int(value), True
        elif kind == "string":
            places[at] = texts.setdefault(str(value), len(texts))
    parts = zip(column[:3], (numbers, has_number, places), strict=True)
    longer = [np.concatenate(one) for one in parts]
    return _Column(longer[0], longer[1], longer[2], texts)


def _comparisons(expression: str) -> list[_Comparison] | None:
    """Return what an expression compares; None where it does not only compare."""
    found = list[_Comparison]()
    for part in expression.split("&&"):
        said = _COMPARISON.fullmatch(part)
        if said is None:
            return None
        number = said["number"]
        value = int(number) if number is not None else said["c"] or said["d"] or ""
        name = said["name"]
        if isinstance(value, str) and said["how"] not in _OF_TEXT:
            return None
        found.append(_Comparison(None if name is None else (said["a"] or said["b"], name), said["how"], value))
    return found
