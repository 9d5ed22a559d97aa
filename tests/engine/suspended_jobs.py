"""A world whose queue keeps what is submitted suspended, and what was decided in it."""

from __future__ import annotations

from tests.engine.held_owners import HeldWorld

LABELS = {"pool": "a"}


TAINT = {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}


def a_world(gpus=8, *, quota=100, manage="Suspend", **queue):
    world = HeldWorld()
    world.flavor(nodeLabels=LABELS, tolerations=[TAINT])
    world.queue("team", quota, manage=manage, **queue)
    for number in range(gpus // 4):
        world.node(f"n{number}", gpus=4, labels=LABELS)
    if gpus % 4:
        world.node("rest", gpus=gpus % 4, labels=LABELS)
    return world


def only(world):
    (found,) = world.engine.state.workloads.values()
    return found


def asked(world, kind):
    return [one for one in world.log if isinstance(one, kind)]
