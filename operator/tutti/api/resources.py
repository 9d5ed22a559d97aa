"""Amounts of resources in the integer units that scheduling counts in.

cpu in milli-cores, everything else in whole units (bytes, devices), rounded up:
kube-scheduler 1.36, framework/types.go `Resource.Add` (`MilliValue()` for cpu, `Value()` for the rest).
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from tutti.api import quantity
from tutti.api.messages import escape_controls
from tutti.api.model import LABEL_PATTERN

if TYPE_CHECKING:
    from collections.abc import Mapping

CPU = "cpu"
MEMORY = "memory"
EPHEMERAL_STORAGE = "ephemeral-storage"
PODS = "pods"

_NAME: Final = re.compile(LABEL_PATTERN, re.ASCII)
_LONGEST_NAME: Final = 317
"""Characters of a qualified name: 253 of its domain, 63 of itself, and what is between them."""
_MOST_SHOWN: Final = 64

Amounts = dict[str, int]
"""Resource name to amount in scheduling units."""


class AmountError(ValueError):
    """A resource whose quantity cannot be read, or cannot be asked for; the message names both."""

    def __init__(self, resource: str, problem: str) -> None:
        super().__init__(f"{resource}: {problem}")
        self.resource = resource


def parse_amounts(quantities: Mapping[str, str | int | float]) -> Amounts:
    """Quantities by resource name, in scheduling units.

    Raises:
        AmountError: a quantity does not follow the grammar.
    """
    result: Amounts = {}
    for resource, text in quantities.items():
        try:
            result[resource] = from_milli(resource, quantity.parse_quantity(text))
        except quantity.QuantityError as error:
            raise AmountError(resource, str(error)) from error
    return result


def parse_requests(quantities: Mapping[str, str | int | float]) -> Amounts:
    """Quantities of what is asked for or offered, in scheduling units: none of them is less than nothing.

    The API server refuses negative ones of pods and nodes, and names that are none (Kubernetes 1.36,
    pkg/apis/core/validation, `ValidateNonnegativeQuantity` and `validateResourceName`); templates, annotations, and
    objects of other projects, it does not look into.

    Raises:
        AmountError: a quantity does not follow the grammar, or is negative, or nothing can have the name.
    """
    for resource in quantities:
        if not _is_name(resource):
            right = "is no name of a resource: write one such as cpu or nvidia.com/gpu"
            raise AmountError(escape_controls(repr(resource[:_MOST_SHOWN])), right)
    result = parse_amounts(quantities)
    for resource, amount in result.items():
        if amount < 0:
            raise AmountError(resource, f"{quantities[resource]!r} is below zero: write 0 or more")
    return result


@lru_cache(maxsize=4096)  # the same few are read over and over
def _is_name(resource: str) -> bool:
    return len(resource) <= _LONGEST_NAME and _NAME.fullmatch(resource) is not None


def from_milli(resource: str, milli: int) -> int:
    """Scheduling units of `milli` milli-units: rounded away from zero, and capped at int64 as columns are."""
    if resource == CPU:
        return max(-quantity.MAX_UNITS, min(quantity.MAX_UNITS, milli))
    return -(-milli // 1000) if milli >= 0 else milli // 1000


def to_milli(resource: str, amount: int) -> int:
    """Milli-units of an amount in scheduling units."""
    return amount if resource == CPU else amount * 1000


def in_bytes(resource: str) -> bool:
    """Whether a resource is counted in bytes, and so is best read in Ki, Mi, Gi."""
    return resource in (MEMORY, EPHEMERAL_STORAGE) or resource.startswith("hugepages-")


@lru_cache(maxsize=4096)  # queues and those that wait in them speak of the same few amounts over and over
def format_amount(resource: str, amount: int) -> str:
    """An amount as a person writes it, exactly: `1500m` of cpu, `64Gi` of memory, `8` of a device.

    Bytes are written in whichever of the binary and decimal suffixes is shorter.
    """
    milli = to_milli(resource, amount)
    if resource == CPU:
        return quantity.format(milli)
    if not in_bytes(resource):
        return str(amount)
    return quantity.shortest(milli)
