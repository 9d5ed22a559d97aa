"""A world whose queue asks admission checks."""

from __future__ import annotations

from typing import Any

from tests.engine.world import World

ONE = {"admissionChecks": [{"name": "budget"}]}


def checked(
    *,
    gpus: int = 8,
    strategy: dict[str, Any] | None = None,
    selector: dict[str, str] | None = None,
    **queue: Any,
) -> World:
    world = World()
    world.flavor()
    world.admission_check("budget")
    world.queue("cq", gpus, admissionChecksStrategy=strategy or ONE, **queue)
    world.workload("w", {"count": 2}, queueName="queue")
    for rank in range(2):
        world.pod(f"w-{rank}", workload="w", selector=selector)
    return world


def states(world: World, kind: str = "Workload", name: str = "w") -> dict[str, str]:
    return {one["name"]: one["state"] for one in world.status(kind, name).get("admissionChecks", [])}
