"""How much progress the jobs of a trace say that they still make, which traces do not tell (the order `Progress`)."""

from __future__ import annotations

from dataclasses import dataclass

from tutti_simulate.draws import Range, drawn
from tutti_simulate.jobs import TraceJob

_STEPS = 100


@dataclass(frozen=True, slots=True)
class SaidProgress:
    """What is said of it.

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
