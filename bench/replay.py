"""What a pod costs the engine, of a journal of a drain that is replayed, beside another tree's in turn.

    tutti run --journal drain.jsonl ...                                  # while thousands of pods are bound
    python -m bench.replay drain.jsonl --beside ../before --rounds 9

A drain through a server differs from run to run; its journal is the same work each time. Timed is, in processor time
of the thread, what follows the last turn before the first that binds several pods. Each round is a process for each
tree, every other round the other tree first. Prints microseconds per bound pod, of taking in what was seen and of
deciding, the least and the median of the rounds, and the median of the rounds' own ratios. Both trees have decided
what the journal says; where one has not, that is told.

It goes through the lines by itself, beside `replay` of `tutti.engine.journal`: each is timed, which a core without a
clock does not do, and of an older tree nothing is asked but the engine and the kinds of lines.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import msgspec

from tutti.api.configuration import TuttiConfiguration
from tutti.cli.run import GC_THRESHOLDS
from tutti.engine.cycle.engine import Engine
from tutti.engine.journal import Decided, Header, JournalError, Line, Saw, Share, read
from tutti.engine.records.decisions import Bind

TREE = Path(__file__).parents[1]
SEVERAL = 5
RUNS = 3
"""Of one process; the least counts."""


def bound(line: Line) -> int:
    """How many pods a turn binds."""
    return sum(isinstance(one, Bind) for one in line.decisions) if isinstance(line, Decided) else 0


def played(lines: list[Line], header: Header, begin: int) -> tuple[float, float, bool]:
    """Replay once: seconds of taking in and of deciding from a line on, and whether all was decided as it says."""
    engine = Engine(TuttiConfiguration.model_validate_json(header.configuration))
    taking_in = deciding = 0.0
    same = True
    for number, line in enumerate(lines):
        if number == begin:
            gc.collect()
            gc.freeze()
            taking_in = deciding = 0.0
        began = time.thread_time()
        if isinstance(line, Saw):
            engine.observe(line.observation)
            taking_in += time.thread_time() - began
        elif isinstance(line, Decided):
            share = Share(lambda asked, line=line: asked == line.ended)  # type: ignore[misc]
            decisions = engine.decide(line.at, most=line.most, enough=share)
            deciding += time.thread_time() - began
            same = same and msgspec.json.encode(decisions) == msgspec.json.encode(line.decisions)
    gc.unfreeze()
    return taking_in, deciding, same


def figures(journal: Path) -> dict[str, float]:
    """Replay some times in this process and return the least, in microseconds per pod.

    Raises:
        JournalError: It cannot be read, or several pods are bound nowhere in it.
    """
    with journal.open("rb") as text:
        lines = [line for _, line in read(text)]
    header, rush = lines[0], next((at for at, line in enumerate(lines) if bound(line) >= SEVERAL), None)
    if not isinstance(header, Header) or rush is None:
        raise JournalError(f"{journal} does not begin with a header, or has no turn that binds {SEVERAL} pods")
    begin = max((at for at, line in enumerate(lines[:rush]) if isinstance(line, Decided)), default=0)
    pods = sum(map(bound, lines[begin:]))
    runs = [played(lines, header, begin) for _ in range(RUNS)]
    taking_in, deciding, _ = min(runs, key=lambda run: run[0] + run[1])
    return {
        "taking_in_us": 1e6 * taking_in / pods,
        "deciding_us": 1e6 * deciding / pods,
        "same": float(all(same for _, _, same in runs)),
    }


def measured(journal: Path, tree: Path) -> dict[str, float]:
    """Return the figures of a tree, from a process of its own."""
    environment = {**os.environ, "PYTHONPATH": f"{tree / 'operator'}{os.pathsep}{TREE}"}
    program = [sys.executable, "-m", "bench.replay", str(journal), "--rounds", "0"]
    found: dict[str, float] = json.loads(subprocess.check_output(program, env=environment))
    return found


def main() -> None:
    """Measure some rounds, or print the figures of this process."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("journal", type=Path)
    parser.add_argument("--beside", type=Path, default=TREE, metavar="FOLDER", help="another tree")
    parser.add_argument("--rounds", type=int, default=5, help="0: this tree alone, in this process")
    given = parser.parse_args()
    if not given.rounds:
        gc.set_threshold(*GC_THRESHOLDS)
        print(json.dumps(figures(given.journal)))  # noqa: T201
        return
    trees = {"before": given.beside.resolve(), "after": TREE}
    found: dict[str, list[dict[str, float]]] = {name: [] for name in trees}
    for number in range(given.rounds):
        for name in list(trees)[:: 1 if number % 2 else -1]:
            found[name].append(measured(given.journal, trees[name]))
    for name, rounds in found.items():
        sums = [one["taking_in_us"] + one["deciding_us"] for one in rounds]
        parts = [statistics.median(one[part] for one in rounds) for part in ("taking_in_us", "deciding_us")]
        said = "" if all(one["same"] for one in rounds) else "; it has decided something else than the journal says"
        print(  # noqa: T201
            f"{name}: {min(sums):.1f} us per pod, median {statistics.median(sums):.1f} "
            f"({parts[0]:.1f} taking in, {parts[1]:.1f} deciding){said}"
        )
    pairs = list(zip(found["before"], found["after"], strict=True))
    for part, of in (("all", ("taking_in_us", "deciding_us")), ("deciding", ("deciding_us",))):
        ratios = sorted(sum(after[one] for one in of) / sum(before[one] for one in of) for before, after in pairs)
        print(f"after / before, {part}: {statistics.median(ratios):.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f})")  # noqa: T201


if __name__ == "__main__":
    main()
