"""Jobs of a trace as elastic gangs: with how few of their pods they run, and how fast with how many.

The run time of a trace is that with all pods of a job. How fast it is with fewer follows Amdahl's law; a range of the
part that all pods share stands for jobs that scale unequally, and each job has one drawn from it evenly, by its name.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tutti.quota.speed_curves import SpeedCurve, amdahl
from tutti_simulate.draws import Range, drawn
from tutti_simulate.jobs import TraceJob

_STEPS = 10_000


@dataclass(frozen=True, slots=True)
class Elastic:
    """How far jobs can do with fewer pods.

    Attributes:
        part: The part of its pods that each needs at least, 0 to 1.
        parallel: The lowest and the highest part of its work that all pods share, 0 to 1.
        silent: Whether jobs keep that to themselves, so that queues can only learn it from those that have ended.
    """

    part: float
    parallel: Range
    silent: bool = False

    def least(self, job: TraceJob) -> int:
        """Return how many pods a job needs at least; all of them where it has pods of several kinds."""
        return job.size if len(job.pods) > 1 else max(1, math.ceil(self.part * job.size))

    def shared(self, job: TraceJob) -> float:
        """Return the part of its work that all pods of a job share."""
        return round(drawn("parallel", job, self.parallel) * _STEPS) / _STEPS

    def curve(self, job: TraceJob) -> SpeedCurve:
        """Return how fast a job is with how many pods."""
        return amdahl(self.shared(job))

    def told(self, job: TraceJob) -> str:
        """Return what a job says of that, as our annotation has it."""
        return f"parallel={self.shared(job):.4f}"

    def pace(self, job: TraceJob, pods: int) -> float:
        """Return how fast a job goes on with so many pods; 1 with all."""
        curve = self.curve(job)
        return curve.speed(pods) / curve.speed(job.size)
