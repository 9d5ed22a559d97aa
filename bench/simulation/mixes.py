"""What arrives in a simulated week: Kueue's published performance tests, as they are or stretched to a week.

Numbers: kubernetes-sigs/kueue, test/performance/scheduler/configs (baseline, tas, large-scale), 0.20-dev: how many
workloads of a class each ClusterQueue gets, how often one is made, how long it runs, its priority and CPU; and the
thresholds that its checker holds, on average time to admission, usage and wall clock.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

WEEK = 7 * 24 * 3600.0
PREEMPTION = {"preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"}}
"""What the spec of each ClusterQueue says in all of them."""
RACK, BLOCK, HOST = "rack", "block", "kubernetes.io/hostname"


@dataclass(frozen=True, slots=True)
class Kind:
    """A class of workloads.

    Attributes:
        count: How many each ClusterQueue gets.
        every: One is made every so many seconds.
        lasts: How long one runs, seconds.
        pods: How many pods it has.
        cpu: What each of them asks for, milli-CPU.
        most: The average time to admission that Kueue's checker allows, seconds.
    """

    name: str
    count: int
    every: float
    lasts: float
    priority: int
    pods: int
    cpu: int
    most: float

    @property
    def size(self) -> int:
        """Milli-CPU in all."""
        return self.pods * self.cpu


@dataclass(frozen=True, slots=True)
class Mix:
    """A cluster, its queues, and what arrives.

    Attributes:
        cohorts: How many cohorts of so many `queues`.
        nominal: CPUs of each ClusterQueue; `borrow`: how many more it may have.
        nodes: How many nodes of so many `node_cpus`, in so many `racks`.
        least_usage: The part of the nominal quota that Kueue's checker wants used, of 1.
        wall: The wall clock that it allows, seconds.
        qps: Writes to the API server per second, and `burst` at once; 0: as many as there are.
        near: Whether workloads ask, by turns, for one rack, preferably one, or preferably evenly over racks.
    """

    name: str
    kinds: tuple[Kind, ...]
    cohorts: int
    queues: int
    nodes: int
    node_cpus: int
    least_usage: float
    wall: float
    nominal: int = 20
    borrow: int = 100
    racks: int = 1
    qps: float = 0.0
    burst: int = 100
    near: bool = False

    def stretched(self, by: float) -> Mix:
        """The same in slow motion: everything that takes time takes so many times longer, thresholds included."""
        kinds = tuple(
            replace(kind, every=kind.every * by, lasts=kind.lasts * by, most=kind.most * by) for kind in self.kinds
        )
        return replace(self, kinds=kinds, wall=self.wall * by)

    def part(self, of: float) -> Mix:
        """Only the first part of it: so much of the workloads of each class, at least one."""
        return replace(self, kinds=tuple(replace(kind, count=max(1, round(kind.count * of))) for kind in self.kinds))

    def capped(self, qps: float) -> Mix:
        """The same with so many writes per second; 0: as many as there are."""
        return replace(self, qps=qps)

    @property
    def queue_names(self) -> list[str]:
        """All ClusterQueues, by cohort."""
        return [f"{cohort}-{queue}" for cohort in self.cohort_names for queue in range(self.queues)]

    @property
    def cohort_names(self) -> list[str]:
        """All cohorts."""
        return [f"cohort{cohort}" for cohort in range(self.cohorts)]

    @property
    def total(self) -> int:
        """How many workloads there are."""
        return sum(kind.count for kind in self.kinds) * self.cohorts * self.queues

    def arrivals(self) -> Iterator[tuple[float, Kind, str, int]]:
        """Yield when each workload is made, seconds from the start, its class, its ClusterQueue and its number."""
        for kind in self.kinds:
            for number in range(kind.count):
                for queue in self.queue_names:
                    yield (number + 1) * kind.every, kind, queue, number


def _kinds(
    small: tuple[int, int], medium: tuple[int, int], large: tuple[int, int], most: tuple[float, ...]
) -> list[Kind]:
    """Kueue's three classes of the baseline, made of so many pods of so many milli-CPU each."""
    return [
        Kind("small", 350, 0.1, 0.2, 50, *small, most[0]),
        Kind("medium", 100, 0.5, 0.5, 100, *medium, most[1]),
        Kind("large", 50, 1.2, 1.0, 200, *large, most[2]),
    ]


BASELINE = Mix(
    "baseline",
    tuple(_kinds((1, 1000), (1, 5000), (1, 20_000), (260, 90, 23))),
    cohorts=5,
    queues=6,
    nodes=30,
    node_cpus=80,
    least_usage=0.5,
    wall=425,
    qps=50,
)

TAS = Mix(
    "tas",
    tuple(_kinds((2, 500), (4, 1250), (8, 2500), (286, 128, 46))),
    cohorts=5,
    queues=6,
    nodes=640,
    node_cpus=96,
    racks=10,
    least_usage=0.57,
    wall=482,
    qps=50,
    near=True,
)

LARGE_SCALE = Mix(
    "large-scale",
    (
        Kind("small", 35, 0.06, 0.15, 50, 1, 1000, 841),
        Kind("medium", 11, 0.3, 0.35, 100, 1, 5000, 308),
        Kind("large", 4, 0.7, 0.7, 200, 1, 20_000, 128),
    ),
    cohorts=10,
    queues=100,
    nodes=500,
    node_cpus=80,
    least_usage=0.316,
    wall=1416,
    qps=50,
)

WEEK_OF_GANGS = replace(
    BASELINE,
    name="week",
    kinds=tuple(_kinds((1, 1000), (5, 1000), (20, 1000), (260, 90, 23))),
    nodes=25,
    node_cpus=24,
    qps=0,
).stretched(WEEK / 60)
"""The baseline in slow motion, so that its minute of arrivals takes a week: jobs of half an hour, of an hour and a
half, and of three hours. Workloads are gangs of pods of one CPU, and there are just as many CPUs as quota."""

MIXES = {mix.name: mix for mix in (WEEK_OF_GANGS, BASELINE, TAS, LARGE_SCALE)}
