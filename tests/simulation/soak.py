"""Weeks of a cluster's life, with everything coming and going under names of its own, and what an operator remembers of it.

What has gone must leave nothing behind: a process that has seen all of it holds as much as one that is started anew on
what is left. What a process holds is everything that can be reached from its room, counted by type; so it is found, too,
what lies in a container that is never looked at again.
"""

from __future__ import annotations

import gc
import random
import sys
from collections import Counter
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType

from tests.simulation.loop import VirtualLoop
from tests.simulation.network import Network
from tests.simulation.operator import Operator
from tests.simulation.run import quiet, seeded
from tests.simulation.scenario import queue
from tests.simulation.steps import Step
from tests.simulation.stories import cluster, gang
from tests.simulation.world import World
from tutti.api.configuration import LeaderElection, TuttiConfiguration

DAY = 86_400.0
CONFIGURATION = TuttiConfiguration(
    permit_timeout_seconds=30,
    bind_window_seconds=20,
    victims_timeout_seconds=30,
    leader_election=LeaderElection(lease_duration_seconds=900, renew_deadline_seconds=600, retry_period_seconds=300),
)
"""A lease that is renewed seldom: a day has 86,400 seconds, and nobody competes."""
OUTSIDE = (World, Network, VirtualLoop, ModuleType, type, FunctionType, BuiltinFunctionType, MethodType)
"""What a process shares with others, or holds in common with all of the same code."""
SLACK = {True: 25, False: 250}
"""How many more of a type may be there than in a process that has seen nothing yet: what it has said lately, and its
metrics; of ours, and of Python's."""
HOWS = ("PodGroup", "Workload", "pfnet", "Pod")


def churn(days: float, every: float, seed: int = 0) -> list[Step]:
    """Gangs of all conventions that come, run, and are deleted; nodes and queues that come and go; watches that break."""
    draw, steps, number, at = random.Random(seed), [], 0, 60.0
    while at < days * DAY:
        name, size, how = f"s{number}", draw.randint(1, 3), HOWS[number % len(HOWS)]
        door = draw.choice(("", "q1", "q2", "q3"))
        steps += gang(
            name, size, at=at, how=how, queue=door, priority=draw.choice((0, 10)), seconds=draw.uniform(5, every)
        )
        steps.append(Step(at + draw.uniform(0.5, 3) * every, "cancel", {"gang": name}))
        if number % 5 == 0:
            steps += _passing_node(f"n-{number}", at, draw.uniform(1, 4) * every)
        if number % 7 == 0:
            steps += _passing_queue(f"p{number}", at, draw.uniform(2, 4) * every)
        if number % 9 == 0:
            steps.append(Step(at + draw.uniform(0, every), draw.choice(("forget", "drop")), {}))
        number, at = number + 1, at + every
    steps = [Step(one.at, "drop", {"what": ""}) if one.do == "drop" else one for one in steps]
    return [*cluster(), *sorted(steps, key=lambda step: step.at)]


def _passing_node(name: str, at: float, seconds: float) -> list[Step]:
    node = {"name": name, "gpus": 4, "rack": "r2"}
    return [Step(at, "node", node), Step(at + seconds, "lose_node", {"name": name})]


def _passing_queue(name: str, at: float, seconds: float) -> list[Step]:
    """A ClusterQueue with a LocalQueue and a gang of its own, and then without."""
    made = [Step(at, step.do, step.args) for step in queue(f"c{name}", name, 2)]
    own = gang(f"of-{name}", 1, at=at + 1, queue=name, seconds=5.0)
    kinds = (("LocalQueue", name), ("ClusterQueue", f"c{name}"))
    gone = [Step(at + seconds, "remove", {"kind": kind, "name": one}) for kind, one in kinds]
    return [*made, *own, Step(at + seconds - 1, "cancel", {"gang": f"of-{name}"}), *gone]


def held_by(operator: Operator) -> Counter[str]:
    """How many objects of each type can be reached from its room, without what processes share and what checks remember."""
    assert operator.engine is not None, f"{operator.name} does not live"
    root = operator.room
    seen, left, found = {id(root), id(operator.engine.whole)}, [root], Counter[str]()
    while left:
        one = left.pop()
        found[f"{type(one).__module__}.{type(one).__qualname__}"] += 1
        for other in gc.get_referents(one):
            if id(other) not in seen and not isinstance(other, OUTSIDE):
                seen.add(id(other))
                left.append(other)
    return found


def soaked(days: float, every: float, seed: int = 0) -> tuple[Counter[str], Counter[str], list[str]]:
    """Live through so many days, and start anew.

    Args:
        days: How long, in simulated days.
        every: How many seconds lie between gangs.
        seed: Draws what happens.

    Returns:
        What the process held in the end, what its successor holds, and what went wrong.
    """
    loop = VirtualLoop(random.Random(f"{seed}/order"))
    with seeded(seed), quiet():
        found: tuple[Counter[str], Counter[str], list[str]] = loop.run_until_complete(_soak(loop, days, every, seed))
    loop.close()
    return found


async def _soak(
    loop: VirtualLoop, days: float, every: float, seed: int
) -> tuple[Counter[str], Counter[str], list[str]]:
    world = World(loop, seed * 10 + 1, CONFIGURATION)
    await world.server.start()
    for step in churn(days, every, seed):
        await _until(world, step.at)
        await world.do(step.do, step.args)
    for step in [*gang("last", 2, queue="q1", seconds=1e9), *gang("wait", 3, queue="q1", gpus=2)]:
        await world.do(step.do, step.args)
    await _until(world, loop.time() + 5 * every + 3600.0)
    (before,) = world.operators.values()
    old, name = held_by(before), before.name
    before.crash()
    await _until(world, loop.time() + 2 * 3600.0)
    assert before.name != name, "nobody came after it"
    new = held_by(before)
    if not before.leads:
        world.complain("the successor does not lead")
    await before.shut()
    await world.server.stop()
    return old, new, world.violations


async def _until(world: World, moment: float) -> None:
    """Let time pass; what goes wrong is noted and does not end it."""
    loop = world.loop
    if moment > loop.time():
        done = loop.create_future()
        loop.call_at(moment, done.set_result, None)
        await done


def main() -> int:
    """`make soak`: two weeks, or so many days as the first argument says."""
    days = float(sys.argv[1]) if len(sys.argv) > 1 else 14.0
    old, new, violations = soaked(days, 600.0)
    for kind in sorted(set(old) | set(new), key=lambda kind: new[kind] - old[kind]):
        if old[kind] != new[kind]:
            sys.stdout.write(f"{kind}: {old[kind]} after {days:g} days, {new[kind]} started anew\n")
    sys.stdout.write("".join(f"{violation}\n" for violation in violations))
    more = {
        kind: count - new[kind] for kind, count in old.items() if count > new[kind] + SLACK[kind.startswith("tutti.")]
    }
    sys.stdout.write(
        f"{old.total()} objects after {days:g} days, {new.total()} started anew, too many of {len(more)} types\n"
    )
    return 1 if violations or more else 0


if __name__ == "__main__":
    sys.exit(main())
