"""Records golden journals into a folder: in several processes, a file for each engine that decided anything.

A file holds what the journal of the operator holds (`engine/journal.py`): observations and decisions by the tags and
fields that they have on the wire, and no name of anything inside the engine. The one exception is where in the code
an object made the engine raise, which is part of a `NoteFault`; a history with one is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import msgspec

from tests.goldens import histories
from tests.goldens.histories import MACHINES, WEEKS, Broken
from tutti.engine.journal import Decided, read
from tutti.engine.records.decisions import NoteFault

SUFFIX = ".jsonl"
AT_ONCE = 5
"""Histories that are recorded in one go: so many have a seed of hypothesis in common."""
RANDOM = {"engine": 80, "volumes": 25, "claims": 25, "roles": 20, "simulation": 50}
"""How many random histories of which kind there are: 200 together."""
DRAINS = 4


class Job(msgspec.Struct, frozen=True):
    """Something to be recorded: so many histories of a kind, drawn from a seed.

    Attributes:
        kind: What they are (`histories.py`); of a part of the week, and of a file of tests, its name.
    """

    kind: str
    seed: int = 0
    count: int = 1

    @property
    def name(self) -> str:
        """How its files begin."""
        return f"{self.kind}-{self.seed:03}"


def jobs() -> list[Job]:
    """Everything that a whole set holds; what takes longest comes first."""
    drawn = [
        Job(kind, seed, min(AT_ONCE, count - seed))
        for kind, count in RANDOM.items()
        if kind != "simulation"
        for seed in range(0, count, AT_ONCE)
    ]
    simulated = [Job("simulation", seed) for seed in range(RANDOM["simulation"])]
    drains = [Job("drain", seed) for seed in range(DRAINS)]
    tested = [Job(name) for name in histories.case_files()]
    return [Job("demo"), *(Job(name) for name in WEEKS), *tested, *drawn, *simulated, *drains]


def journals(job: Job) -> list[bytes]:
    """What a job records; without the journals of engines that never decided, as those of a standby.

    Raises:
        Broken: something went wrong in it, or made the engine raise.
    """
    return [one for one in _recorded(job) if _decides(one, job)]


def write(job: Job, folder: Path) -> int:
    """Record a job; returns how many files it has made."""
    made = journals(job)
    for number, journal in enumerate(made):
        (folder / f"{job.name}.{number:03}{SUFFIX}").write_bytes(journal)
    return len(made)


def record(todo: Sequence[Job], folder: Path, processes: int, progress: Callable[[int], None]) -> int:
    """Record all, and return how many files there are.

    Args:
        todo: What.
        folder: Where to; it is made, and must be empty.
        processes: In how many.
        progress: Told how many jobs are done, after each.

    Raises:
        FileExistsError: there is something in the folder.
        Broken: something went wrong in a history; what was recorded before is left there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise FileExistsError(f"{folder} is not empty: journals of two recordings would be mixed")
    files = 0
    for done, count in enumerate(_written(todo, folder, processes), start=1):
        files += count
        progress(done)
    return files


def _written(todo: Sequence[Job], folder: Path, processes: int) -> Iterator[int]:
    if processes == 1:
        yield from (write(job, folder) for job in todo)
        return
    with ProcessPoolExecutor(processes) as pool:
        futures = [pool.submit(write, job, folder) for job in todo]
        try:
            yield from (future.result() for future in as_completed(futures))
        finally:
            pool.shutdown(cancel_futures=True)


def _recorded(job: Job) -> list[bytes]:
    match job.kind:
        case kind if kind in MACHINES:
            return histories.machine(kind, job.seed, job.count)
        case "roles":
            return histories.roles(job.seed, job.count)
        case "simulation":
            return histories.simulation(job.seed)
        case "drain":
            return histories.drain(job.seed)
        case "demo":
            return histories.demo(job.seed)
        case kind if kind in WEEKS:
            return histories.week(kind)
        case _:
            return histories.cases(job.kind)


def _decides(journal: bytes, job: Job) -> bool:
    """Whether anything was decided, even nothing."""
    turns = [line for _, line in read(journal.splitlines()) if isinstance(line, Decided)]
    faults = [one for line in turns for one in line.decisions if isinstance(one, NoteFault)]
    if faults:
        raise Broken(f"{job.name}: {faults[0].kind} {faults[0].name} made the engine raise: {faults[0].error}")
    return bool(turns)
