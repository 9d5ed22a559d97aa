"""Functions of the Kubernetes and extended-strings CEL libraries that cel-python does not bring.

Written for the receiver style of CEL: the first argument is the value the function is called on.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from celpy import celtypes

from tutti_sim.meta.amounts import amount

Text = celtypes.StringType


def _find(text: Any, pattern: Any) -> Any:
    match = re.search(str(pattern), str(text))
    return Text(match[0] if match else "")


def _find_all(text: Any, pattern: Any, limit: Any = -1) -> Any:
    found = [Text(match[0]) for match in re.finditer(str(pattern), str(text))]
    return celtypes.ListType(found if int(limit) < 0 else found[: int(limit)])


def _split(text: Any, mark: Any, limit: Any = -1) -> Any:
    count = int(limit)
    parts = str(text).split(str(mark)) if count < 0 else str(text).split(str(mark), max(count - 1, 0))
    return celtypes.ListType([Text(part) for part in parts])


def _join(items: Any, mark: Any = "") -> Any:
    return Text(str(mark).join(str(item) for item in items))


def _substring(text: Any, start: Any, end: Any = None) -> Any:
    return Text(str(text)[int(start) : None if end is None else int(end)])


def _sorted(items: Any) -> Any:
    values = list(items)
    return celtypes.BoolType(all(left <= right for left, right in itertools.pairwise(values)))


def _sum(items: Any) -> Any:
    total: Any = celtypes.IntType(0)
    for item in items:
        total = total + item
    return total


def _is_url(text: Any) -> Any:
    parts = urlsplit(str(text))
    return celtypes.BoolType(bool(parts.scheme and (parts.netloc or parts.path.startswith("/"))))


def _is_quantity(text: Any) -> Any:
    try:
        amount(str(text))
    except ValueError:
        return celtypes.BoolType(False)
    return celtypes.BoolType(True)


def _compare(left: Any, right: Any) -> Any:
    one, other = amount(str(left)), amount(str(right))
    return celtypes.IntType((one > other) - (one < other))


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "find": _find,
    "findAll": _find_all,
    "split": _split,
    "join": _join,
    "substring": _substring,
    "lowerAscii": lambda text: Text(str(text).lower()),
    "upperAscii": lambda text: Text(str(text).upper()),
    "trim": lambda text: Text(str(text).strip()),
    "replace": lambda text, old, new: Text(str(text).replace(str(old), str(new))),
    "indexOf": lambda items, wanted: celtypes.IntType(
        str(items).find(str(wanted))
        if isinstance(items, Text)
        else next((index for index, item in enumerate(items) if item == wanted), -1)
    ),
    "charAt": lambda text, index: Text(str(text)[int(index)]),
    "isSorted": _sorted,
    "sum": _sum,
    "min": min,
    "max": max,
    "url": Text,
    "isURL": _is_url,
    "quantity": Text,
    "isQuantity": _is_quantity,
    "compareTo": _compare,
    "isGreaterThan": lambda left, right: celtypes.BoolType(_compare(left, right) > 0),
    "isLessThan": lambda left, right: celtypes.BoolType(_compare(left, right) < 0),
}
