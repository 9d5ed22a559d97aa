"""Pods and groups as users of each project write them, seen by an engine."""

from __future__ import annotations

from typing import Any

import msgspec
import yaml

from tests.engine.world import World
from tutti.api.core import Pod

KOORD = "gang.scheduling.koordinator.sh"


def put(world: World, name: str, text: str, namespace: str = "default") -> None:
    """Have a pod seen that says of itself what a manifest says, and asks for one device."""
    raw: dict[str, Any] = yaml.safe_load(text) or {}
    meta = {"namespace": namespace, "uid": f"{namespace}-{name}", **raw.get("metadata", {}), "name": name}
    meta["creationTimestamp"] = "1970-01-12T13:46:40Z"
    limits = {"resources": {"requests": {"nvidia.com/gpu": "1"}}}
    spec = {"schedulerName": "tutti", "containers": [{"name": "c", **limits}], **raw.get("spec", {})}
    world.put(msgspec.convert({"metadata": meta, "spec": spec}, Pod))


def annotated(**annotations: str) -> str:
    return yaml.safe_dump({"metadata": {"annotations": annotations}})


# The native API tells of a gang by a condition of its own.

NATIVE = ("scheduling.k8s.io/v1alpha2", "PodGroup", "default", "g")


def native(world: World, version: str = NATIVE[0], **spec: Any) -> None:
    world.gang_object(version, "g", {"schedulingPolicy": {"gang": {"minCount": 2}}, **spec})


def members(world: World, count: int = 2) -> None:
    for rank in range(count):
        put(world, f"p-{rank}", "spec: {schedulingGroup: {podGroupName: g}}")
