"""`make sim`: plays seeds, on all cores; of one that fails it prints the smallest scenario that still does.

python -m tests.simulation.command [SEEDS] [FIRST_SEED]
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed

from tests.simulation.run import Outcome, play
from tests.simulation.scenario import drawn
from tests.simulation.shrink import shrunk
from tests.simulation.steps import Scenario

AT_ONCE = 10
"""Seeds that a process plays before it says how it went."""


def failure(seed: int) -> str:
    """What is wrong with a seed: its violations, the journal of its smallest failing scenario, and how to replay it.

    Returns:
        A text for people; empty where nothing is wrong.
    """
    scenario = drawn(seed)
    wrong = sorts(play(scenario))
    if not wrong:
        return ""
    least = shrunk(scenario, lambda one: bool(wrong & sorts(play(one))))
    return told(least, play(least))


def sorts(outcome: Outcome) -> set[str]:
    """What is wrong and with what kind of things, without when and with which of many: what a smaller scenario must show.

    A gang of which members are left out waits as well, and would be shown in place of a Job that should not.
    """
    found = set()
    for violation in outcome.violations:
        _, what, *names = violation.split(": ", 2)
        told = names[0].split(", ") if names else [""]
        found |= {re.sub(r"\d+", "", f"{what}: {name.partition(' ')[0]}") for name in told}
    return found


def told(scenario: Scenario, outcome: Outcome) -> str:
    """A scenario and what became of it, as text."""
    return "\n".join(
        [
            f"seed {scenario.seed}: {'; '.join(outcome.violations)}",
            "what happened:",
            scenario.lines(),
            "what the operators wrote:",
            *outcome.trace,
            f"replay it whole with: make sim SEEDS=1 FIRST_SEED={scenario.seed}",
        ]
    )


def failures(seeds: Sequence[int]) -> tuple[int, list[str]]:
    """How many seeds these are, and what is wrong with those of them that fail."""
    return len(seeds), [text for seed in seeds if (text := failure(seed))]


def played(seeds: range, processes: int, at_once: int = AT_ONCE) -> Iterator[tuple[int, list[str]]]:
    """Play seeds in so many processes, each so many at once; yields as `failures` does, whichever part is through first."""
    parts = [seeds[start : start + at_once] for start in range(0, len(seeds), at_once)]
    if processes == 1 or len(parts) == 1:
        yield from map(failures, parts)
        return
    with ProcessPoolExecutor(processes) as pool:
        for part in as_completed([pool.submit(failures, part) for part in parts]):
            yield part.result()


def main(arguments: list[str]) -> int:
    """Play the seeds and return the exit code of the process."""
    seeds, first = (int(one) for one in (arguments + ["500", "0"][len(arguments) :])[:2])
    done = violations = 0
    for count, texts in played(range(first, first + seeds), os.cpu_count() or 1):
        done += count
        violations += len(texts)
        sys.stdout.write("".join(f"{text}\n\n" for text in texts))
        sys.stdout.flush()
        sys.stderr.write(f"\r{done} of {seeds}" + ("" if done < seeds else "\n"))
        sys.stderr.flush()
    sys.stdout.write(f"{seeds} seeds, {violations} violations\n")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
