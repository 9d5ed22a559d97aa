"""How fast gangs of a kind are with how many members, by how long others of the kind took with so many.

The work of a kind is taken to be the same in each run, so that runs with more members end sooner by what these are
worth. By Amdahl's law a run with `m` members takes `a + b / m`: the line of least squares through the median run of
each number of members, over `1 / m`, has the part of the work that all members share, `b / (a + b)`. A law in place of
the points themselves also says something of more members than any run had, so that gangs go on to try them; and
runs that differ for other reasons make no steps in it.

What is learned stays within bounds: no work is taken to be shared by less than `LEAST` (such gangs take a second and
third member still, so that later runs can show that they gain) or by more than `MOST`.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

LEAST = 0.1
MOST = 0.99
"""The parts of the work that all members share which are learned."""
BELIEVED = 3
"""So many runs with one number of members say something of that."""
NUMBERS = 2
"""So many numbers of members there must be such runs with."""


class LearnedSpeed(NamedTuple):
    """What was learned of a kind.

    Attributes:
        parallel: The part of the work that all members share, `LEAST` to `MOST`.
        error: The median of how far runs were from what the law says, as a part of that.
        runs: How many runs that is from.
        fewest: The least number of members that these had.
        most: The largest.
    """

    parallel: float
    error: float
    runs: int
    fewest: int
    most: int


def learned_speed(seconds: Mapping[int, Sequence[int]]) -> LearnedSpeed | None:
    """Return what runs with different numbers of members say of the next one; None where they are too few.

    Args:
        seconds: How long the runs took, all above 0, by the number of members that they had, 1 or more.
    """
    known = {members: runs for members, runs in sorted(seconds.items()) if len(runs) >= BELIEVED}
    if len(known) < NUMBERS:
        return None
    medians = [(1 / members, float(statistics.median(runs))) for members, runs in known.items()]
    parallel = _parallel(medians)
    shape = {members: (1 - parallel) + parallel / members for members in known}
    whole = statistics.median(run / shape[members] for members, runs in known.items() for run in runs)
    off = (abs(run / (whole * shape[members]) - 1) for members, runs in known.items() for run in runs)
    return LearnedSpeed(parallel, float(statistics.median(off)), sum(map(len, known.values())), min(known), max(known))


def _parallel(medians: Sequence[tuple[float, float]]) -> float:
    """Return the part that all members share, by the line through `1 / members` and seconds."""
    slope, alone = statistics.linear_regression(*zip(*medians, strict=True))
    if slope <= 0:
        return LEAST
    return min(MOST, max(LEAST, slope / (slope + alone) if alone > 0 else MOST))
