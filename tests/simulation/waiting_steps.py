"""Steps of what has to be waited for (`tests.simulation.waits`), drawn from a seed apart from all other steps."""

from __future__ import annotations

import copy
import random
from datetime import UTC, datetime
from typing import Any

from tests.simulation.loop import EPOCH
from tests.simulation.waits import CHECK

CHECKED, FOLLOWED, STARTED, OPENED = 0.3, 0.3, 0.3, 0.2
"""How often there is a queue with a check, a gang that follows another, Jobs that wait suspended, a window."""
CHECKS = {"admissionChecksStrategy": {"admissionChecks": [{"name": CHECK}]}}
FOREVER = "2200-01-01T00:00:00Z"

Drawn = list[tuple[float, str, dict[str, Any]]]
"""When, what, and its arguments."""


def waiting_steps(seed: int) -> Drawn:
    """What has to be waited for in the run of a seed; as often as not nothing."""
    draw = random.Random(f"{seed}/waits")
    checked, held = draw.random() < CHECKED, draw.random() < STARTED
    queues = ["q4"] * checked + ["q5"] * (checked and held and draw.random() < 0.5)
    steps: Drawn = []
    if checked:
        steps += checks(queues, seconds=round(draw.uniform(0.5, 12), 1), retries=draw.choice((0, 0, 1, 2)))
        for number in range(draw.randint(1, 3)):
            size = draw.randint(1, 3)
            at, gpus, how = draw.uniform(1, 80), draw.randint(1, 4 // size), draw.choice(("Workload", "PodGroup"))
            steps += waiting_gang(f"asked{number}", size, at=at, how=how, queue="q4", gpus=gpus)
    if draw.random() < FOLLOWED:
        at, behind = draw.uniform(1, 60), draw.uniform(-10, 20)
        steps += follower(at, max(0.5, at + behind), seconds=round(draw.uniform(5, 30), 1))
    if held:
        jobs = [(draw.uniform(1, 60), draw.randint(1, 4), round(draw.uniform(5, 40), 1)) for _ in range(3)]
        drains = draw.uniform(10, 100) if draw.random() < 0.6 else None
        steps += held_jobs(jobs[: draw.randint(1, 3)], drains=drains, checked="q5" in queues)
    if draw.random() < OPENED:
        steps += window(round(draw.uniform(20, 120)), at=draw.uniform(1, 60))
    return steps


def checks(queues: list[str], *, seconds: float, retries: int) -> Drawn:
    """A check, and a queue of its own that asks it."""
    said = {"seconds": seconds, "retries": retries, "queues": queues}
    return [(0.0, "check", said), *queue_of("cq4", "q4", 4, **CHECKS)]


def follower(at: float, then: float, *, seconds: float) -> Drawn:
    """A gang, and another that starts when it has succeeded, of whatever comes first."""
    spec = {"after": [{"workload": "first"}]}
    steps = waiting_gang("first", 2, at=at, how="Workload", queue="", seconds=seconds)
    return steps + waiting_gang(
        "next", 1, at=then, how="Workload", queue="", follows={"gang": "first", "size": 2}, spec=spec
    )


def held_jobs(jobs: list[tuple[float, int, float]], *, drains: float | None, checked: bool = False) -> Drawn:
    """Suspended Jobs of a queue whose flavor has a label, and which is drained for a while."""
    quotas: dict[str, Any] = {"manage": "Suspend", **(CHECKS if checked else {})}
    steps: Drawn = [(0.0, "put", {"kind": "ResourceFlavor", "name": "racked", "spec": {"nodeLabels": {"rack": "r0"}}})]
    steps += queue_of("cq5", "q5", 4, flavor="racked", **quotas)
    for number, (at, pods, seconds) in enumerate(jobs):
        steps.append((at, "job", {"name": f"job{number}", "pods": pods, "gpus": 1, "seconds": seconds}))
    if drains is not None:
        steps += queue_of("cq5", "q5", 4, at=drains, flavor="racked", stopPolicy="HoldAndDrain", **quotas)[:1]
        steps += queue_of("cq5", "q5", 4, at=drains + 15, flavor="racked", **quotas)[:1]
    return steps


def window(opens: float, *, at: float) -> Drawn:
    """A queue that has quota from some moment on."""
    begin = datetime.fromtimestamp(EPOCH + opens, UTC).isoformat()
    flavors = [{"name": "default", "resources": [{"name": "nvidia.com/gpu", "nominalQuota": "4"}]}]
    later = {"temporaryQuotas": [{"name": "later", "begin": begin, "end": FOREVER, "flavors": flavors}]}
    steps: Drawn = [(0.0, "window", {"at": opens}), *queue_of("cq6", "q6", 0, **later)]
    return steps + waiting_gang("early", 2, at=at, how="PodGroup", queue="q6")


def waiting_gang(
    name: str, size: int, *, at: float, how: str, queue: str, gpus: int = 1, seconds: float = 8.0, **more: Any
) -> Drawn:
    """A gang and its members, all at once."""
    about = {"gang": name, "how": how, "queue": queue, "size": size, "least": size, "priority": 0, **more}
    members = [
        {"gang": name, "name": f"{name}-{rank}", "gpus": gpus, "gated": False, "seconds": seconds}
        for rank in range(size)
    ]
    return [(at, "gang", about), *((at, "member", one) for one in members)]


def queue_of(name: str, local: str, gpus: int, *, at: float = 0.0, flavor: str = "default", **spec: Any) -> Drawn:
    """Steps that make a ClusterQueue with so many GPUs, and a LocalQueue to it."""
    resources = [
        {"name": "nvidia.com/gpu", "nominalQuota": str(gpus)},
        {"name": "cpu", "nominalQuota": "1000"},
        {"name": "memory", "nominalQuota": "1000Gi"},
    ]
    covered = [one["name"] for one in resources]
    group = {"coveredResources": covered, "flavors": [{"name": flavor, "resources": resources}]}
    whole = {"namespaceSelector": {}, "resourceGroups": [group], **copy.deepcopy(spec)}
    return [
        (at, "put", {"kind": "ClusterQueue", "name": name, "spec": whole}),
        (at, "put", {"kind": "LocalQueue", "name": local, "spec": {"clusterQueue": name}}),
    ]
