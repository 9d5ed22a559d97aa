"""How long to wait before the next try.

min(base * 2^(n-1), max), as Kueue's requeuing strategy has it, spread by up to a quarter so that workloads that
failed together do not come back together. The spread comes from a seeded source: equal input, equal output.
"""

from __future__ import annotations

from random import Random

SPREAD = 0.25


def delay(attempt: int, random: Random, *, base: float, most: float) -> float:
    """Return the seconds to wait after the `attempt`-th failure (from 1).

    Args:
        attempt: How often it has failed so far.
        random: The seeded source of the spread.
        base: The first delay, seconds.
        most: The longest delay before the spread, seconds.
    """
    exponent = min(max(attempt, 1) - 1, 62)
    return min(base * 2.0**exponent, most) * (1 + SPREAD * random.random())
