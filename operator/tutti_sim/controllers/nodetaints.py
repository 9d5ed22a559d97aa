"""What taints a node's conditions call for, and how long a pod stays under them.

Source: pkg/controller/nodelifecycle and pkg/controller/tainteviction, 1.36.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from tutti.api.taints import NO_EXECUTE, NO_SCHEDULE, Taint, Toleration

Json = dict[str, Any]

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
# Condition -> status -> taint; a condition that is absent calls for nothing.
BY_CONDITION = {
    "Ready": {"False": NOT_READY, "Unknown": UNREACHABLE},
    "MemoryPressure": {"True": "node.kubernetes.io/memory-pressure"},
    "DiskPressure": {"True": "node.kubernetes.io/disk-pressure"},
    "PIDPressure": {"True": "node.kubernetes.io/pid-pressure"},
    "NetworkUnavailable": {"True": "node.kubernetes.io/network-unavailable"},
}
EVICTING = frozenset((NOT_READY, UNREACHABLE))
OURS = frozenset(key for found in BY_CONDITION.values() for key in found.values()) | {UNSCHEDULABLE}


def called_for(node: Json) -> list[tuple[str, str]]:
    """The (key, effect) of the taints that a node's conditions and its cordon call for."""
    found: list[tuple[str, str]] = []
    for condition in node.get("status", {}).get("conditions") or ():
        key = BY_CONDITION.get(condition.get("type"), {}).get(condition.get("status"))
        if key is None:
            continue
        found.append((key, NO_SCHEDULE))
        if key in EVICTING:
            found.append((key, NO_EXECUTE))
    if node.get("spec", {}).get("unschedulable"):
        found.append((UNSCHEDULABLE, NO_SCHEDULE))
    return found


def settled(node: Json, now: str) -> list[Json]:
    """A node's taints as they should be: those of others as they are, ours as they are called for."""
    wanted = called_for(node)
    kept = []
    for taint in node.get("spec", {}).get("taints") or ():
        place = (taint["key"], taint["effect"])
        if taint["key"] not in OURS:
            kept.append(taint)
        elif place in wanted:
            kept.append(taint)
            wanted.remove(place)
    return [*kept, *({"key": key, "effect": effect, "timeAdded": now} for key, effect in wanted)]


def stays(taints: Iterable[Json], tolerations: Iterable[Json]) -> float | None:
    """Seconds that a pod may stay under a node's NoExecute taints; None for ever, 0 not at all.

    A pod stays as long as the shortest time that its tolerations of those taints give.
    """
    held = msgspec.convert([one for one in taints if one.get("effect") == NO_EXECUTE], list[Taint])
    given = msgspec.convert(list(tolerations), list[Toleration])
    seconds: list[int] = []
    for taint in held:
        used = [one for one in given if one.tolerates(taint)]
        if not used:
            return 0.0
        seconds.extend(one.toleration_seconds for one in used if one.toleration_seconds is not None)
    return float(max(min(seconds), 0)) if seconds else None
