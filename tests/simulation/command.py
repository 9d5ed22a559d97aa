"""`make sim`: plays seeds one after another; of one that fails it prints the smallest scenario that still does.

python -m tests.simulation.command [SEEDS] [FIRST_SEED]
"""

from __future__ import annotations

import sys

from tests.simulation.run import Outcome, play
from tests.simulation.scenario import Scenario, drawn
from tests.simulation.shrink import shrunk


def failure(seed: int) -> str:
    """What is wrong with a seed: its violations, the journal of its smallest failing scenario, and how to replay it.

    Returns:
        A text for people; empty where nothing is wrong.
    """
    scenario = drawn(seed)
    if not play(scenario).violations:
        return ""
    least = shrunk(scenario, lambda one: bool(play(one).violations))
    return told(least, play(least))


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


def main(arguments: list[str]) -> int:
    """Play the seeds and return the exit code of the process."""
    seeds, first = (int(one) for one in (arguments + ["500", "0"][len(arguments) :])[:2])
    violations = 0
    for seed in range(first, first + seeds):
        text = failure(seed)
        if text:
            violations += 1
            sys.stdout.write(text + "\n\n")
    sys.stdout.write(f"{seeds} seeds, {violations} violations\n")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
