"""How fast jobs run in which flavor: the run times of a trace are those of a flavor of speed 1.

A range stands for jobs that gain unequally from faster machines: the speed of each job is drawn from it evenly, by its
name, so that the same job has the same speed in every run.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tutti_simulate.draws import drawn
from tutti_simulate.jobs import TraceJob

MOST_SPEED = 1_000.0
LEAST_SPEED = 0.001


@dataclass(frozen=True, slots=True)
class Speeds:
    """The speeds of flavors; those that are not named have speed 1.

    Attributes:
        of: By flavor, the lowest and the highest speed.
    """

    of: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Whether any flavor has a speed of its own."""
        return bool(self.of)

    def speed(self, job: TraceJob, flavor: str) -> float:
        """Return how fast a job runs in a flavor."""
        return drawn(flavor, job, self.of.get(flavor, (1.0, 1.0)))

    def seconds(self, job: TraceJob, flavors: Iterable[str]) -> float:
        """Return how long a job runs that has these flavors: the slowest decides."""
        assert job.seconds is not None  # the reader has filled it in
        return job.seconds / min((self.speed(job, one) for one in flavors if one in self.of), default=1.0)

    def told(self, job: TraceJob) -> str:
        """Return what a job says of how long it takes in which flavor, as our annotation has it."""
        found = {name: math.ceil(max(1.0, self.seconds(job, [name]))) for name in sorted(self.of)}
        return ",".join(f"{name}={seconds}" for name, seconds in found.items())

    def slowest(self, job: TraceJob) -> float:
        """Return by how much longer a job may take than the trace says, at most; at least 1."""
        return max((1.0 / self.speed(job, one) for one in self.of), default=1.0)


def speeds_of(said: Mapping[str, str]) -> Speeds:
    """Return the speeds that are written as `0.4`, or `0.2:0.9`, by flavor.

    Raises:
        ValueError: One of them cannot be read; the message names it.
    """
    found = {}
    for name, text in said.items():
        low, _, high = text.partition(":")
        try:
            ends = float(low), float(high or low)
        except ValueError:
            raise ValueError(f"{name}={text}: a speed is a number, or two with a colon between them") from None
        if not LEAST_SPEED <= ends[0] <= ends[1] <= MOST_SPEED:
            raise ValueError(
                f"{name}={text}: speeds are within {LEAST_SPEED:g} and {MOST_SPEED:g}, the lower one first"
            )
        found[name] = ends
    return Speeds(found)
