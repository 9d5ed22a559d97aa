"""Worlds whose nodes have devices, and gangs that claim them."""

from __future__ import annotations

from tests.engine.devices import asks_for, device_class, resource_slice
from tests.engine.world import World


def with_devices(*, nodes: int = 3, count: int = 8, gpus: int = 0, **world) -> World:
    """Nodes with some devices each, and GPUs beside them."""
    out = World(**world)
    out.devices.put(device_class())
    for i in range(nodes):
        out.node(f"n{i}", gpus=gpus)
        out.devices.put(resource_slice(f"n{i}", count))
    return out


def gang(world: World, size: int = 3, *, count: int = 8, name: str = "g", shared: str = "", **asked) -> None:
    """A gang whose members have a claim each, or share one."""
    world.pod_group(name, size)
    for rank in range(size):
        used = shared or f"{name}-{rank}"
        if ("ResourceClaim", used) not in world.devices.objects:
            world.devices.make_claim(used, asks_for(count, **asked))
        world.pod(f"{name}-{rank}", group=name, gpus=0, device_claims=(used,))


def replays(world: World) -> bool:
    return not world.replay().differences
