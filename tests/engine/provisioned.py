"""A world where nodes are asked for by ProvisioningRequests."""

from __future__ import annotations

from typing import Any

from tests.engine.world import World
from tutti.api.kinds.provisioning import PROVISIONING_CONTROLLER

CLASS = "check-capacity.autoscaling.x-k8s.io"


POOL = "example.com/pool"


def provisioned(
    *,
    flavors: tuple[str, ...] = ("spot",),
    on: tuple[str, ...] = (),
    gpus: int = 8,
    size: int = 2,
    served: bool = True,
    strategy: dict[str, Any] | None = None,
    terms: dict[str, Any] | None = None,
    kind: str = "Workload",
) -> World:
    """A gang of pods with a GPU each in a queue whose flavors have no nodes."""
    world = World()
    if served:
        world.autoscaler.serve()
    for flavor in flavors:
        world.flavor(flavor, nodeLabels={POOL: flavor})
    said = {"provisioningClassName": CLASS, **(terms or {})}
    world.object("AdmissionCheck", "nodes", {"controllerName": PROVISIONING_CONTROLLER, "provisioning": said})
    checks = {"admissionChecks": [{"name": "nodes", **({"onFlavors": list(on)} if on else {})}], **(strategy or {})}
    world.queue("cq", gpus, flavors=flavors, admissionChecksStrategy=checks)
    if kind == "Workload":
        world.workload("w", {"count": size}, queueName="queue")
    else:
        world.pod_group("w", size, queueName="queue")
    for rank in range(size):
        world.pod(f"w-{rank}", **{"workload" if kind == "Workload" else "group": "w"})
    world.run()
    return world


def pool(world: World, name: str, flavor: str = "spot", gpus: int = 8) -> None:
    world.node(name, gpus=gpus, labels={POOL: flavor})


def progress(world: World, kind: str = "Workload") -> list[tuple[list[str], str, int]]:
    """The flavors, state and failures of what has been asked for."""
    said = world.status(kind, "w").get("provisioning", [])
    return [(one["flavors"], one["state"], one["failures"]) for one in said]
