"""Steps of policies (`tests.simulation.policies`), drawn from a seed apart from all other steps."""

from __future__ import annotations

import random
from typing import Any

from tests.simulation.policies import APPLICATION, THROTTLED
from tests.simulation.waiting_steps import Drawn, queue_of, waiting_gang
from tutti.api.conventions.order_annotations import USER
from tutti.api.network import GROUP_LABEL, WORKLOAD_LABEL

POLICIES = 0.3
"""How often there is any of them."""
USERS = {"anna": 2, "bert": 3}
"""GPUs that each may have of cq8."""


def policy_steps(seed: int) -> Drawn:
    """Policies in the run of a seed, and what they are about; more often than not nothing."""
    draw = random.Random(f"{seed}/policies")
    if draw.random() >= POLICIES:
        return []
    steps = policies(60.0)
    if draw.random() < 0.6:
        steps += throttle(draw.randint(1, 4), changes=[(draw.uniform(10, 120), draw.randint(1, 4)) for _ in range(3)])
        for number in range(draw.randint(2, 4)):
            size = draw.randint(1, 3)
            steps += throttled_gang(f"thr{number}", size, at=draw.uniform(1, 80), seconds=round(draw.uniform(5, 40), 1))
    if draw.random() < 0.6:
        steps += users(USERS)
        for number in range(draw.randint(2, 6)):
            user, gpus = draw.choice(sorted(USERS)), draw.randint(1, 2)
            steps += of_user(f"own{number}", user, gpus, at=draw.uniform(1, 80), seconds=round(draw.uniform(5, 40), 1))
    if draw.random() < 0.5:
        factor = draw.choice(("Shortest", "Longest", "Smallest", "Largest", "ResponseRatio", "Share", "Demand"))
        steps += order(factor, draw.choice((10, 30, 60)))
        for number in range(draw.randint(3, 8)):
            at, seconds = draw.uniform(1, 90), round(draw.uniform(5, 60), 1)
            steps += waiting_gang(
                f"line{number}", 1, at=at, how="Pod", queue="q7", gpus=draw.randint(1, 4), seconds=seconds
            )
    if draw.random() < 0.5:
        steps += links(100, draw.choice((100, 200, 400)))
        for number in range(draw.randint(2, 5)):
            part, size = draw.choice(("web", "db")), draw.randint(1, 2)
            steps += of_application(
                f"{part}{number}", part, size, at=draw.uniform(1, 80), seconds=round(draw.uniform(10, 60), 1)
            )
    return steps


def policies(slack: float) -> Drawn:
    """Policies are configured, and may take so long until they hold."""
    return [(0.0, "policies", {"slack": slack})]


def throttle(pods: int, *, changes: list[tuple[float, int]]) -> Drawn:
    """A throttle that allows so many pods, and others from some times on; in the end it stands in nobody's way."""
    last = [(149.0, 4)]
    return [(0.0, "throttle", {"pods": pods}), *((at, "throttle", {"pods": many}) for at, many in (*changes, *last))]


def throttled_gang(name: str, size: int, *, at: float, seconds: float, how: str = "PodGroup") -> Drawn:
    """A gang that the throttle is about."""
    return _with(waiting_gang(name, size, at=at, how=how, queue="", seconds=seconds), labels=THROTTLED)


def users(most: dict[str, int]) -> Drawn:
    """A queue in which each user has a limit."""
    limits = [{"users": [user], "resources": {"nvidia.com/gpu": gpus}} for user, gpus in most.items()]
    return [(0.0, "users", {"most": most}), *queue_of("cq8", "q8", 4, userLimits=limits)]


def of_user(name: str, user: str, gpus: int, *, at: float, seconds: float) -> Drawn:
    """A pod of a user in that queue."""
    steps = waiting_gang(name, 1, at=at, how="Pod", queue="q8", gpus=gpus, seconds=seconds)
    return _with(steps, annotations={USER: user})


def order(factor: str, max_wait: int) -> Drawn:
    """A strict queue that goes by a factor, and by that no longer with whom has waited so many seconds."""
    said = {"factors": [{"factor": factor, "weight": 1}], "maxWaitSeconds": max_wait}
    queue = queue_of("cq7", "q7", 4, ordering=said, queueingStrategy="StrictFIFO")
    return [(0.0, "order", {"max_wait": float(max_wait)}), *queue]


def links(needs: int, capacity: int) -> Drawn:
    """An application whose web needs so much to its db, and links that have so much, in Mbit/s."""
    return [(0.0, "links", {"needs": needs, "capacity": capacity})]


def of_application(name: str, part: str, size: int, *, at: float, seconds: float, rack: str = "") -> Drawn:
    """Pods of a part of it, together; in a rack, if it says one."""
    steps = waiting_gang(name, size, at=at, how="PodGroup", queue="", seconds=seconds)
    where = {"spec": {"nodeSelector": {"rack": rack}}} if rack else {}
    return _with(steps, labels={GROUP_LABEL: APPLICATION, WORKLOAD_LABEL: part}, **where)


def _with(steps: Drawn, **more: Any) -> Drawn:
    """Give every member labels or annotations."""
    return [(at, do, {**args, **more} if do == "member" else args) for at, do, args in steps]
