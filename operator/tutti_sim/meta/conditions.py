"""Conditions in a status, as lists that are replaced and never changed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tutti_sim.meta import clock

Json = dict[str, Any]


def find(obj: Json, kind: str) -> Json | None:
    """The condition of that type in an object's status."""
    conditions: list[Json] = obj.get("status", {}).get("conditions") or []
    return next((one for one in conditions if one.get("type") == kind), None)


def holds(obj: Json, kind: str) -> bool:
    """Whether a condition is True."""
    found = find(obj, kind)
    return found is not None and found.get("status") == "True"


def put(conditions: Iterable[Json], kind: str, status: str, **fields: Any) -> list[Json]:
    """Conditions with one of them set, in its place; its transition time changes only when its status does."""
    kept = list(conditions)
    for index, one in enumerate(kept):
        if one.get("type") == kind:
            moved = {} if one.get("status") == status else {"lastTransitionTime": clock.now()}
            kept[index] = {**one, "status": status, **fields, **moved}
            return kept
    return [*kept, {"type": kind, "status": status, "lastTransitionTime": clock.now(), **fields}]
