"""What goes wrong around a simulated cluster, drawn from a seed: writes, watches, processes and machines."""

from __future__ import annotations

import random
from typing import Any

from tests.simulation.steps import NODES, Step

WRITES = (
    ("pods/binding", "POST"),
    ("pods/binding", "POST"),
    ("pods/binding", "POST"),
    ("pods", "DELETE"),
    ("pods/status", "PATCH"),
    ("podgroups", ""),
    ("podgroups/status", "PATCH"),
    ("workloads/status", "PATCH"),
    ("clusterqueues/status", "PATCH"),
    ("leases", "PUT"),
    ("events", "POST"),
    ("", "GET"),
)
KINDS = ("pods", "pods", "pods", "nodes", "podgroups", "workloads", "clusterqueues", "")
CODES = (409, 500, 503, 504, 429)


def wire_faults(draw: random.Random) -> list[Step]:
    """Writes that fail in every way, and changes that come late, twice, or not before the next list."""
    steps: list[Step] = []
    for _ in range(draw.choice((0, 2, 6, 12))):
        what, method = draw.choice(WRITES)
        trouble = {
            "what": what,
            "method": method,
            "how": draw.choice(("refuse", "spoil", "lose", "swallow", "hold")),
            "code": draw.choice(CODES[1:] if method == "GET" else CODES),
            "seconds": round(draw.uniform(0.5, 2.5), 1),
            "times": draw.choice((1, 1, 2, 6)),
        }
        steps.append(Step(draw.uniform(0, 140), "trouble", trouble))
    for _ in range(draw.choice((0, 1, 3, 6))):
        at, what = draw.uniform(0, 130), draw.choice(KINDS)
        match draw.choice(("lag", "lag", "drop", "double", "forget", "down")):
            case "lag":
                lag = {"what": what, "seconds": round(draw.uniform(0.2, 15), 1)}
                steps += [Step(at, "lag", lag), Step(at + draw.uniform(1, 30), "lag", {"what": what, "seconds": 0.0})]
            case "drop":
                steps.append(Step(at, "drop", {"what": what}))
            case "double":
                steps.append(Step(at, "double", {"what": what}))
            case "forget":
                steps.append(Step(at, "forget", {}))
            case "down":
                seconds = round(draw.uniform(0.5, 12), 1)
                steps.append(Step(at, "down", {"seconds": seconds}))
                unseen = Step(at + draw.uniform(0, seconds), "cancel", {"gang": f"g{draw.randint(0, 6)}"})
                steps += [unseen] if draw.random() < 0.5 else []
    return steps


def lasting_faults(draw: random.Random, gangs: list[dict[str, Any]]) -> list[Step]:
    """Pods that cannot be bound, and pods that cannot be deleted, until the faults are over."""
    steps: list[Step] = []
    if draw.random() < 0.4:
        gang = max(draw.sample(gangs, 2), key=lambda about: about["least"])  # what cannot be whole without it
        name = f"{gang['gang']}-{draw.randrange(gang['size'])}"
        code = draw.choice((403, 500, 503))
        stuck = {"what": "pods/binding", "method": "POST", "how": "refuse", "code": code, "times": 10_000, "name": name}
        steps.append(Step(draw.uniform(0, 60), "trouble", stuck))
    if draw.random() < 0.3:
        times = draw.choice((4, 12, 40))
        stays = {"what": "pods", "method": "DELETE", "how": "refuse", "code": draw.choice((403, 500)), "times": times}
        steps.append(Step(draw.uniform(0, 100), "trouble", stays))
    return steps


def process_faults(draw: random.Random) -> list[Step]:
    """Processes that die or stand still, whoever leads more often than not."""
    crashes = range(draw.choice((0, 0, 1, 2, 4)))
    who = ("leader", "leader", "a", "b")
    steps = [Step(draw.uniform(1, 140), "crash", {"replica": draw.choice(who)}) for _ in crashes]
    for _ in range(draw.choice((0, 0, 0, 1, 2))):
        pause = {"replica": draw.choice(who), "seconds": round(draw.uniform(1, 40), 1)}
        steps.append(Step(draw.uniform(1, 110), "pause", pause))
    return steps


def accidents(draw: random.Random) -> list[Step]:
    """Nodes that vanish and come back, and another scheduler that uses the same nodes."""
    steps: list[Step] = []
    for _ in range(draw.choice((0, 0, 1, 2))):
        at, name = draw.uniform(5, 120), draw.choice(sorted(NODES))
        gpus, rack = NODES[name]
        back = {"name": name, "gpus": gpus, "rack": rack}
        steps += [Step(at, "lose_node", {"name": name}), Step(at + draw.uniform(0.1, 40), "node", back)]
    for number in range(draw.choice((0, 0, 2, 5))):
        foreign = {
            "name": f"f{number}",
            "node": draw.choice(sorted(NODES)),
            "gpus": draw.randint(1, 3),
            "seconds": round(draw.uniform(5, 40), 1),
        }
        steps.append(Step(draw.uniform(0, 120), "foreign", foreign))
    return steps


def broken_machines(draw: random.Random) -> list[Step]:
    """Machines that die and are switched on again, or not before the faults are over; that flap; that are drained."""
    steps: list[Step] = []
    for _ in range(draw.choice((0, 1, 1, 2))):
        at, name, after = draw.uniform(10, 120), draw.choice(sorted(NODES)), draw.uniform(1, 20)
        match draw.choice(("die", "die", "die for good", "flap", "drain")):
            case "die":
                steps.append(Step(at, "die", {"name": name, "seconds": round(after, 1)}))
                steps.append(Step(at + draw.uniform(0.5, 60), "revive", {"name": name}))
            case "die for good":
                steps.append(Step(at, "die", {"name": name, "seconds": round(after, 1)}))
            case "flap":
                flaps = [{"name": name, "seconds": round(draw.uniform(0.2, 6), 1)} for _ in range(draw.randint(1, 4))]
                steps += [Step(at + 3 * number, "flap", flap) for number, flap in enumerate(flaps)]
            case "drain":
                steps.append(Step(at, "drain", {"name": name}))
                steps.append(Step(at + draw.uniform(1, 60), "uncordon", {"name": name}))
    return steps
