"""Whether a hollow node is powered: an annotation on its object, so that kubectl can pull the plug as well.

`kubectl annotate node n sim.tutti.dev/power=off` stops its kubelet dead; removing the annotation starts it again.
"""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

POWER = "sim.tutti.dev/power"
HOLLOW = "sim.tutti.dev/hollow"


def is_off(node: Json) -> bool:
    """Whether a node has been switched off."""
    return (node["metadata"].get("annotations") or {}).get(POWER) == "off"


def is_hollow(node: Json) -> bool:
    """Whether a node is one of ours, with no machine behind it."""
    return HOLLOW in (node["metadata"].get("labels") or {})


def switched(node: Json, *, on: bool) -> Json:
    """A node's metadata with the switch turned."""
    meta = dict(node["metadata"])
    annotations = {key: value for key, value in (meta.get("annotations") or {}).items() if key != POWER}
    if not on:
        annotations[POWER] = "off"
    if annotations:
        meta["annotations"] = annotations
    else:
        meta.pop("annotations", None)
    return meta
