"""Objects that have become unreadable: what is wrong, whom it concerns, and what they say about it themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tutti.api.conditions import legible_conditions
from tutti.api.kinds import Object, ObjectError, PodGroup

ObjectKey = tuple[str, str, str]
"""Kind, namespace ("" where cluster-scoped) and name."""


class Spoilt(msgspec.Struct, frozen=True):
    """An object that has become unreadable.

    Attributes:
        whose: The workload that it stood for, or was a pod group of, while it could be read; else the object itself.
        conditions: Those that it was seen with.
    """

    key: ObjectKey
    whose: ObjectKey
    error: ObjectError
    uid: str
    conditions: list[Mapping[str, Any]]


def spoilt(key: ObjectKey, raw: Mapping[str, Any], error: ObjectError, *, before: Object | None, uid: str) -> Spoilt:
    """Return what there is to tell of an object that cannot be read; `before` is what it was when it could be."""
    return Spoilt(key, _whose(key, before), error, uid, legible_conditions(raw.get("status")))


def says(raw: Mapping[str, Any], problem: str) -> bool:
    """Whether a condition of an unreadable object says already what is wrong with it."""
    return any(one.get("message") == problem for one in legible_conditions(raw.get("status")))


def _whose(key: ObjectKey, before: Object | None) -> ObjectKey:
    """Return the key of the workload that an object told of when it could be read last."""
    ref = before.spec.workload_ref if isinstance(before, PodGroup) else None
    return key if ref is None else ("Workload", key[1], ref.name)
