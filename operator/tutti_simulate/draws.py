"""What traces do not tell of a job and is drawn: evenly from a range, by its name, so that each run draws the same.

A range stands for jobs that are unequal: of those in which all are alike both its ends are one.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from tutti_simulate.jobs import TraceJob

Range = tuple[float, float]
"""The lowest and the highest of what may be drawn."""

_STEPS = 100


def drawn(what: str, job: TraceJob, ends: Range) -> float:
    """Return what is drawn for a job; `what` keeps apart several things that are drawn for it."""
    low, high = ends
    return low if low == high else Random(f"{what}/{job.name}").uniform(low, high)  # noqa: S311 - no secret


def parts_of(said: str) -> Range:
    """Return what is written as a part of 1, or as two with a colon between them.

    Raises:
        ValueError: It cannot be read.
    """
    low, _, high = said.partition(":")
    try:
        ends = float(low), float(high or low)
    except ValueError:
        raise ValueError(f"{said!r}: it is one part of 1, or two with a colon between them") from None
    if not 0 <= ends[0] <= ends[1] <= 1:
        raise ValueError(f"{said!r}: parts are within 0 and 1, the lower one first")
    return ends


@dataclass(frozen=True, slots=True)
class SaidProgress:
    """How much progress jobs say that they still make (the order `Progress`).

    Attributes:
        ends: The least and the most that a job makes, 0 to 1.
    """

    ends: Range

    def of(self, job: TraceJob) -> float:
        """Return how much progress a job makes, in steps of a hundredth, as the engine reads it."""
        return round(drawn("progress", job, self.ends) * _STEPS) / _STEPS

    def told(self, job: TraceJob) -> str:
        """Return what a job says, as our annotation has it."""
        return f"{self.of(job):.2f}"
