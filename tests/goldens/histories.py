"""Where golden journals come from: histories in which the engine of users decides, each with a seed.

The random ones are those that the invariants are held against: of the engine (queues, cohorts, preemption, gangs in
racks, promised and surplus members, restarts), with volumes, with shared claims, with roles of other projects; and
whole simulated processes (faults, lost nodes and members, mistakes of users). Beside them a rolling drain, the demo,
parts of the simulated week under several rules and of Kueue's test of topologies, and what the tests of the engine do.
"""

from __future__ import annotations

import asyncio
import io
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

import hypothesis
import msgspec
import pytest
from hypothesis import HealthCheck, Phase
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test
from rich.console import Console

from bench.simulation.mixes import PREEMPTION, TAS, WEEK_OF_GANGS, Mix
from bench.simulation.running import Rules, simulate
from tests.engine.stories.test_claim_histories import ClaimHistories
from tests.engine.stories.test_invariants import Histories
from tests.engine.stories.test_role_histories import STEPS, test_gangs_of_roles_hold_what_must_hold
from tests.engine.stories.test_volume_histories import VolumeHistories
from tests.engine.world import World
from tests.simulation import world as simulated
from tests.simulation.run import play, quiet
from tests.simulation.scenario import drawn
from tests.simulation.steps import NODES, Scenario, Step
from tutti.engine.journal import Decided, JournalError, JournalWriter, read, replay
from tutti.engine.records.decisions import NoteFault
from tutti_demo.performance import Options, Performance
from tutti_demo.shows import PlainShow
from tutti_demo.summary import Summary
from tutti_sim.children import Child, Children

MACHINES: dict[str, type[RuleBasedStateMachine]] = {
    "engine": Histories,
    "volumes": VolumeHistories,
    "claims": ClaimHistories,
}
STEPS_EACH = 100
WEEKS: dict[str, tuple[Mix, Rules]] = {
    "week": (WEEK_OF_GANGS.part(0.04), Rules(queue=PREEMPTION, grace=30.0)),
    "week-strict": (WEEK_OF_GANGS.part(0.02), Rules(strict=True)),
    "week-fair": (WEEK_OF_GANGS.part(0.02), Rules(fair=True, queue=PREEMPTION)),
    "week-known": (WEEK_OF_GANGS.part(0.02), Rules(known=True, grace=30.0)),
    "week-racks": (TAS.part(0.01), Rules(queue=PREEMPTION)),
}
DRAINED = (
    *("node", "put", "create", "start", "gang", "member", "ungate", "job", "window"),
    *("driver", "claim_template", "claim", "plugins"),
)
"""What of a scenario happens while its nodes are drained one after the other: all that gangs need to run in the end."""
DEMO_SPEED = 4.0
DEMO_LIMIT_SECONDS = 300.0
JOURNAL = "journal"
ROOT = Path(__file__).parents[2]
CASES = ROOT / "tests" / "engine"
LOADED = "ignore::pytest.PytestAssertRewriteWarning"
"""For hypothesis, which is loaded here before pytest could rewrite it."""


class Broken(Exception):  # noqa: N818 - reads as what it is
    """A history in which something went wrong: what it decides is no model for anybody."""


def machine(name: str, seed: int, count: int) -> list[bytes]:
    """Journals of so many histories of a state machine: one for each engine that decided in one of them."""
    with _kept() as journals:
        run_state_machine_as_test(hypothesis.seed(seed)(MACHINES[name]), settings=_settings(count))
    return journals()


def roles(seed: int, count: int) -> list[bytes]:
    """Journals of so many histories of gangs with several roles."""
    inner = test_gangs_of_roles_hold_what_must_hold.hypothesis.inner_test  # type: ignore[attr-defined]
    with _kept() as journals:
        hypothesis.seed(seed)(_settings(count)(hypothesis.given(steps=STEPS)(inner)))()
    return journals()


def simulation(seed: int) -> list[bytes]:
    """Journals of the processes of one simulated cluster."""
    return _played(drawn(seed))


def drain(seed: int) -> list[bytes]:
    """Journals of a cluster of which every node is drained, one after the other, while gangs come and run."""
    scenario = drawn(seed)
    steps = [step for step in scenario.steps if step.do in DRAINED]
    for number, name in enumerate(sorted(NODES)):
        steps.append(Step(20.0 + 25 * number, "drain", {"name": name}))
        steps.append(Step(35.0 + 25 * number, "uncordon", {"name": name}))
    return _played(msgspec.structs.replace(scenario, steps=steps, slowness=1.0))


def week(name: str) -> list[bytes]:
    """The journal of a part of the simulated week.

    Raises:
        Broken: something happened that must not.
    """
    mix, rules = WEEKS[name]
    journal = io.BytesIO()
    found = simulate(mix, rules, journal)
    if found.violations:
        raise Broken(f"{name}: {'; '.join(found.violations)}")
    return [journal.getvalue()]


def demo(seed: int) -> list[bytes]:
    """The journal of the operator of the demo, played in haste.

    Raises:
        Broken: not all came out as promised.
    """
    with tempfile.TemporaryDirectory(prefix="goldens-") as name:
        folder = Path(name)
        show = PlainShow(Console(file=io.StringIO()))
        options = Options(seed=seed, speed=DEMO_SPEED, limit_seconds=DEMO_LIMIT_SECONDS)
        performance = _Recorded(options, directory=folder, show=show)
        with quiet():
            summary = asyncio.run(performance.run(_at_once))
        if not summary.ok:
            raise Broken(f"demo: {'; '.join(summary.problems)}")
        return [(folder / JOURNAL).read_bytes()]


def cases(name: str) -> list[bytes]:
    """Journals of the engines in a file of tests; without those that only replay with the plugins of the test.

    Raises:
        Broken: a test failed.
    """
    path = case_files()[name]
    with _kept() as journals, redirect_stdout(io.StringIO()) as said:
        code = pytest.main(["-q", "-p", "no:cacheprovider", "-W", LOADED, "--rootdir", str(ROOT), str(path)])
    if code:
        raise Broken(f"{name}: {said.getvalue()}")
    return [journal for journal in journals() if _stands_alone(journal)]


def case_files() -> dict[str, Path]:
    """The files of tests that `cases` takes, by what they are called: those of the engine in which nothing is drawn."""
    paths = sorted(CASES.rglob("test_*.py"), key=lambda path: path.name)
    found = [path for path in paths if "hypothesis" not in path.read_text(encoding="utf-8")]
    named = {path.stem: path for path in found}
    assert len(named) == len(found), "two files of one name, whose journals would be called the same"
    return named


def _stands_alone(journal: bytes) -> bool:
    """Whether it is whole, and an engine without plugins and without what a test has done to it decides the same."""
    lines = journal.splitlines()
    try:
        decided = (one for _, line in read(lines) if isinstance(line, Decided) for one in line.decisions)
        return not any(isinstance(one, NoteFault) for one in decided) and not replay(lines).differences
    except JournalError:  # a test of weeks keeps only the end of it
        return False


class _Recorded(Performance):
    """A demo whose operator keeps a journal."""

    async def _start_operator(self, children: Children) -> Child:
        return await super()._start_operator(_Recording(children.directory, children))


class _Recording(Children):
    """Has each process that is started among others keep a journal."""

    def __init__(self, directory: Path, children: Children) -> None:
        super().__init__(directory)
        self._among = children

    async def start(self, name: str, *arguments: str) -> Child:
        return await self._among.start(name, *arguments, "--journal", str(self.directory / JOURNAL))


async def _at_once(_: Summary) -> None:
    """End as soon as the play is over."""


def _settings(count: int) -> hypothesis.settings:
    return hypothesis.settings(
        max_examples=count,
        stateful_step_count=STEPS_EACH,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


def _played(scenario: Scenario) -> list[bytes]:
    journals: list[io.BytesIO] = []

    def opened(configuration: Any) -> JournalWriter:
        journals.append(io.BytesIO())
        return JournalWriter(journals[-1], configuration)

    def prepare(world: simulated.World) -> None:
        world.journals = opened

    outcome = play(scenario, prepare=prepare)
    if outcome.violations:
        raise Broken(f"seed {scenario.seed}: {'; '.join(outcome.violations)}")
    return [journal.getvalue() for journal in journals]


@contextmanager
def _kept() -> Iterator[Callable[[], list[bytes]]]:
    """Keep the journals of all worlds that are made meanwhile."""
    journals: list[io.BytesIO] = []

    def opened() -> io.BytesIO:
        journals.append(io.BytesIO())
        return journals[-1]

    before = World.opened
    World.opened = staticmethod(opened)
    try:
        yield lambda: [journal.getvalue() for journal in journals]
    finally:
        World.opened = before
