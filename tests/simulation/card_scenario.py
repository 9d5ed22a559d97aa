"""What happens to a cluster whose machines have cards that pods share, as steps drawn from a seed."""

from __future__ import annotations

import random

from tests.simulation.cards import MEMORY, OF_MEMORY, OF_PERCENT, PER_NODE, SLOTS
from tests.simulation.faults import CODES, process_faults
from tests.simulation.steps import Scenario, Step
from tests.simulation.stories import gang

MACHINES = ("n0", "n1")


def drawn_with_cards(seed: int) -> Scenario:
    """Gangs that share cards, HAMi's own scheduler beside us, and what befalls processes, writes, plugins and machines."""
    draw = random.Random(f"{seed}/cards")
    machine = {"gpus": PER_NODE * SLOTS, "rack": "r0"}
    steps = [Step(0.0, "node", {"name": name, **machine}) for name in MACHINES]
    steps += [Step(0.0, "plugins"), Step(0.0, "start", {"replica": "a"})]
    if draw.random() < 0.5:
        steps.append(Step(draw.uniform(0, 20), "start", {"replica": "b"}))
    for number in range(draw.randint(4, 8)):
        asked = draw.choice(({OF_MEMORY: str(draw.choice((MEMORY, MEMORY // 2, 5000, 3000)))}, {OF_PERCENT: "50"}))
        size, at = draw.randint(1, 4), draw.uniform(1, 80)
        how, seconds = draw.choice(("PodGroup", "PodGroup", "Pod")), round(draw.uniform(1, 30), 1)
        steps += gang(
            f"g{number}",
            size,
            at=at,
            how=how,
            seconds=seconds,
            spread=draw.choice((0.0, 0.5)),
            each={"requests": asked},
        )
        if draw.random() < 0.2:
            steps.append(Step(at + draw.uniform(0, 30), "delete_pod", {"name": f"g{number}-{draw.randrange(size)}"}))
        if draw.random() < 0.15:
            steps.append(Step(at + draw.uniform(0, 30), "cancel", {"gang": f"g{number}"}))
    for number in range(draw.choice((0, 3, 8))):
        about = {"memory": draw.choice((3000, 9000)), "seconds": round(draw.uniform(2, 30), 1)}
        steps.append(
            Step(draw.uniform(1, 110), "rival_share", {"name": f"r{number}", "node": draw.choice(MACHINES), **about})
        )
    for _ in range(draw.choice((0, 0, 1, 2))):
        seconds = round(draw.uniform(1, 50), 1)
        steps.append(Step(draw.uniform(1, 90), "deaf_plugin", {"node": draw.choice(MACHINES), "seconds": seconds}))
    for _ in range(draw.choice((0, 0, 1))):
        at, name = draw.uniform(5, 100), draw.choice(MACHINES)
        steps += [
            Step(at, "lose_node", {"name": name}),
            Step(at + draw.uniform(0.1, 30), "node", {"name": name, **machine}),
        ]
    for _ in range(draw.choice((0, 2, 5))):
        what, method = draw.choice((("pods/binding", "POST"), ("nodes", "PATCH"), ("nodes", "GET"), ("pods", "PATCH")))
        trouble = {"what": what, "method": method, "how": draw.choice(("refuse", "spoil", "lose", "swallow", "hold"))}
        trouble |= {"code": draw.choice(CODES[1:]), "seconds": 1.5, "times": draw.choice((1, 2, 6))}
        steps.append(Step(draw.uniform(0, 120), "trouble", trouble))
    if draw.random() < 0.5:
        at, what = draw.uniform(0, 90), draw.choice(("pods", "nodes"))
        steps.append(Step(at, "lag", {"what": what, "seconds": round(draw.uniform(0.2, 15), 1)}))
        steps.append(Step(at + draw.uniform(1, 30), "lag", {"what": what, "seconds": 0.0}))
    return Scenario(seed, [*steps, *process_faults(draw)], heal_at=150.0)
