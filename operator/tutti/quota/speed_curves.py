"""How fast a gang runs with how many members, and what one more of them brings.

A curve is given as points, members with the speed that they reach together, or by Amdahl's law: with the part `p` of
the work that all members share, `n` of them are `1 / ((1 - p) + p / n)` times as fast as one (Amdahl, "Validity of the
single processor approach to achieving large scale computing capabilities", AFIPS 1967). Between points speed rises in a
straight line; before the first it is that of as many ideal members, beyond the last it stays. So all curves are in one
unit, the speed of one member by itself, whatever unit they were written in.

What one more member gains is read off the least concave curve above the points: where two more together gain what one
of them does not (a grid that doubles), each of them counts half of it. So gains never rise with members, and to give
the next member to whoever gains most from it is best for the sum of all speeds (Fox, "Discrete optimization via
marginal analysis", Management Science 13, 1966; Pollux, OSDI 2021, and policies of Gavel, OSDI 2020, rank by the same).
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace

WORTH = 0.01
"""A member that gains less than this, of what the first one brings, counts as one that gains nothing."""
_MOST_MEMBERS = 1_000_000
STEP = 1.1
"""Gains are compared by powers of it: what is nearer to one another than that counts as equal."""
NOTHING = -(2**31)
"""The step of who gains nothing, or of whom nothing is known."""

Points = tuple[tuple[int, float], ...]
"""Members and the speed that they reach, by members."""


@dataclass(frozen=True, slots=True)
class SpeedCurve:
    """How fast a gang is with how many members, one ideal member being 1.

    Attributes:
        points: In order of members, each at least as fast as the one before; none where `parallel` says it.
        upper: Those of them on the least concave curve above all.
        parallel: The part of the work that all members share, 0 to 1.
        useful: With how many members the next one gains nothing any more.
    """

    points: Points = ()
    upper: Points = ()
    parallel: float = 0.0
    useful: int = 1

    def speed(self, members: int) -> float:
        """Return how fast it is with so many members."""
        return _between(self.points, members) if self.points else self._amdahl(members)

    def gain(self, members: int) -> float:
        """Return what one member more than so many brings."""
        if not self.points:
            return self._amdahl(members + 1) - self._amdahl(members)
        return _between(self.upper, members + 1) - _between(self.upper, members)

    def _amdahl(self, members: int) -> float:
        return 1 / ((1 - self.parallel) + self.parallel / members) if members > 0 else 0.0


def curve_of(points: Sequence[tuple[int, float]]) -> SpeedCurve:
    """Return the curve through points, which are given in order of members and do not fall."""
    members, speed = points[0]
    unit = members / speed
    whole = tuple((at, reached * unit) for at, reached in points)
    upper: list[tuple[int, float]] = [(0, 0.0)]
    for one in whole:
        while len(upper) > 1 and _slope(upper[-2], one) >= _slope(upper[-2], upper[-1]):
            upper.pop()
        upper.append(one)
    return _limited(SpeedCurve(whole, tuple(upper[1:])))


def amdahl(parallel: float) -> SpeedCurve:
    """Return the curve of work of which all members share a part, 0 to 1."""
    return _limited(SpeedCurve(parallel=parallel))


def _limited(curve: SpeedCurve) -> SpeedCurve:
    """Return a curve with the number of members found from which on no more of them gain anything."""
    low, high = 1, _MOST_MEMBERS  # gains never rise, so that this can be halved
    while low < high:
        middle = (low + high) // 2
        if curve.gain(middle) >= WORTH:
            low = middle + 1
        else:
            high = middle
    return replace(curve, useful=low)


def step_of(gain: float, share: float) -> int:
    """Return the step of what a member gains for what it takes; higher goes first, and those of one are equal.

    Args:
        gain: What it brings, in ideal members.
        share: Which part of the queue's quota it takes, in the resource of which that is largest; 0 where that is none.
    """
    if gain < WORTH:
        return NOTHING
    return math.floor(math.log(gain / max(share, 1e-12), STEP))


def _slope(one: tuple[int, float], other: tuple[int, float]) -> float:
    return (other[1] - one[1]) / (other[0] - one[0])


def _between(points: Points, members: int) -> float:
    """Return the speed at a number of members on the lines from the origin through some points."""
    at = bisect_right(points, members, key=lambda one: one[0])
    if at == len(points):
        return points[-1][1]
    before = points[at - 1] if at else (0, 0.0)
    return before[1] + (members - before[0]) * _slope(before, points[at])
