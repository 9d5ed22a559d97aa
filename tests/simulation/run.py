"""Plays a scenario from beginning to end, and says what went wrong."""

from __future__ import annotations

import asyncio
import gc
import logging
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import structlog

from tests.simulation import ending
from tests.simulation.loop import VirtualLoop
from tests.simulation.operator import CONFIGURATION, POLICIES
from tests.simulation.server import Json
from tests.simulation.steps import Scenario
from tests.simulation.world import World
from tutti.api.configuration import TuttiConfiguration
from tutti.controller.supervision import leaves
from tutti.kube.fencing import LeadershipLost

PATIENCE_SECONDS = 900.0
"""How long, once nothing goes wrong any more, everything has to come to its end."""
SETTLING_SECONDS = 120.0
LOOK_SECONDS = 5.0


@dataclass
class Outcome:
    """What became of a run: what was wrong, every write of the operators, and how much time has passed in it."""

    violations: list[str]
    trace: list[str]
    seconds: float
    turns: int
    state: Json


Prepare = Callable[[World], None]


def _as_it_is(_: World) -> None:
    """Change nothing."""


def play(
    scenario: Scenario, configuration: TuttiConfiguration = CONFIGURATION, prepare: Prepare = _as_it_is
) -> Outcome:
    """Run a scenario; the same one gives the same outcome, to the last write.

    Args:
        scenario: What happens.
        configuration: That of the operator.
        prepare: Is given the world before anything has happened in it.
    """
    loop = VirtualLoop(random.Random(f"{scenario.seed}/order"))
    with seeded(scenario.seed), quiet(), uncollected():
        world = loop.run_until_complete(_play(loop, scenario, configuration, prepare))
        loop.drain()
        gc.collect(0)  # what has failed and was forgotten says so when it is collected
    for error in loop.errors:
        cause = error.get("exception")
        # A process that we killed need not say that it had lost its lease before.
        if cause is None or not all(isinstance(leaf, LeadershipLost) for leaf in leaves(cause)):
            world.complain(f"{error.get('message')}: {cause!r}")
    loop.close()
    return Outcome(world.violations, world.trace, loop.time(), loop.turns, world.state)


async def _play(loop: VirtualLoop, scenario: Scenario, configuration: TuttiConfiguration, prepare: Prepare) -> World:
    if configuration is CONFIGURATION and scenario.has_policies:
        configuration = POLICIES
    world = World(loop, scenario.seed, configuration, natives=scenario.has_native_groups)
    prepare(world)
    world.network.slowness = scenario.slowness
    await world.server.start()
    steps = sorted(scenario.steps, key=lambda step: step.at)
    for step in steps:
        if step.at > loop.time() and await _failed_by(world, step.at):
            break
        await world.do(step.do, step.args)
    if not await _failed_by(world, max(scenario.heal_at, loop.time())):
        await world.heal()
        await _end_well(world)
    for one in world.operators.values():
        await one.shut()
    await world.waits.stop()
    await world.server.stop()
    return world


async def _end_well(world: World) -> None:
    """Have everything come to its end, be told so, and leave nothing behind when its users have cleaned up."""
    if not await _becomes(world, ending.unserved, "has not ended though it may take what it needs", PATIENCE_SECONDS):
        return
    await world.end_the_endless()
    if not await _becomes(world, ending.unfinished, "has not ended though nothing hinders it", PATIENCE_SECONDS):
        return
    if not await _becomes(world, ending.orphaned, "has devices that nobody uses", SETTLING_SECONDS):
        return
    if not await _becomes(world, ending.untold, "is over and not told so", SETTLING_SECONDS):
        return
    if not await _becomes(world, ending.silent, "is wrong and not told so", SETTLING_SECONDS):
        return
    world.state = ending.end_state(world)
    await world.tidy()
    await _becomes(world, ending.leftovers, "is left of what was deleted", SETTLING_SECONDS)


async def _becomes(world: World, what: Callable[[World], list[str]], complaint: str, seconds: float) -> bool:
    """Wait until nothing is left of something, and complain if that takes too long."""
    until = world.loop.time() + seconds
    while left := what(world):
        if world.loop.time() > until:
            world.complain(f"{complaint}: {', '.join(left)}")
            return False
        if await _failed_by(world, world.loop.time() + LOOK_SECONDS):
            return False
    return True


async def _failed_by(world: World, moment: float) -> bool:
    """Let time pass, and return whether something went wrong meanwhile."""
    try:
        async with asyncio.timeout_at(moment):
            await world.failed.wait()
    except TimeoutError:
        return False
    return True


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Have jitter drawn from the seed."""
    before = random.getstate()
    random.seed(seed)
    try:
        yield
    finally:
        random.setstate(before)


@contextmanager
def uncollected() -> Iterator[None]:
    """Collect no garbage meanwhile: that takes an eighth of a run, and all of it is young enough to be found at once."""
    gc.collect(1)  # the run before, which nobody holds any more, has survived its own collection
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextmanager
def quiet() -> Iterator[None]:
    """Write no log: a run says what it has to say in its outcome."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        yield
    finally:
        structlog.configure(**before)
