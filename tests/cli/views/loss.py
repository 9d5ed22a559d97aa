"""Gangs that run and have lost members, as an operator has left them: what their PodGroups say, and who is still there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.cli.views.scene import AT, GPU, Json, node, ours, pod
from tutti.api.conditions import timestamp

MINUTES = 60.0


def gang(
    *on: str,
    lost: Sequence[str] = (),
    since: float = AT - 2 * MINUTES,
    successors: int = 0,
    gpus: int = 8,
    queue: str = "",
    **spec: Any,
) -> list[Json]:
    """A gang d/g that ran with a member on each of these nodes, of which some are lost; the rest as in a PodGroup.

    Args:
        on: A node for each member that is left.
        lost: A node for each that is not.
        since: When the loss was seen, Unix seconds.
        successors: How many others have been made and wait.
        gpus: How many each member takes.
        queue: The LocalQueue, which leads to a ClusterQueue with a flavor a100.
        spec: More of its spec.
    """
    size = len(on) + len(lost)
    policy = {"schedulingPolicy": {"gang": {"minCount": size}}}
    made = ours("PodGroup", "g", policy | ({"queueName": queue} if queue else {}) | spec, "d")
    conditions = [condition("Scheduled", AT - 3600.0)]
    if lost:
        conditions.append(condition("Degraded", since))
    asks = {"cpu": "2", "memory": "8Gi", GPU: str(gpus)}
    flavors = dict.fromkeys(asks, "a100") if queue else {}
    kept = [
        {"podGroup": "g", "node": name, "count": list(lost).count(name), "requests": asks, "flavors": flavors}
        for name in dict.fromkeys(lost)
    ]
    made["status"] = {"phase": "Scheduled", "conditions": conditions, "kept": kept, "started": size}
    admitted = (queue, "a100") if queue else None
    left = [pod("d", f"g-{n}", gpus, gang="g", on=where, owner="Job", admitted=admitted) for n, where in enumerate(on)]
    new = [pod("d", f"g-new-{n}", gpus, gang="g", owner="Job") for n in range(successors)]
    return [made, *left, *new]


def condition(kind: str, since: float) -> Json:
    return {"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": timestamp(since)}


def nodes(*names: str) -> list[Json]:
    return [node(name, "NVIDIA-A100", f"r-{name[0]}") for name in names]
