"""The picture of docs/howto/interference.md: by how much pods are slowed down, with its rules and without."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any, Final

from handbook.pictures.lab import Lab, LabJob
from handbook.pictures.page import Made
from tutti.api.interference import BEHAVIOUR_LABEL
from tutti_simulate.pictures import shares
from tutti_simulate.plots import Line, Plot, drawn

SLOWDOWNS: Final = (("serving", "loading", 40), ("loading", "loading", 15))
SERVE: Final = 0.4
"""Which part of the pods serves."""
RULES: Final[dict[str, Any]] = {"slowdowns": [{"of": of, "beside": by, "percent": most} for of, by, most in SLOWDOWNS]}
RUNS: Final[dict[str, dict[str, Any]]] = {
    "without": {},
    "slowdowns": {"interference": {**RULES, "weight": 10}},
    "slowdowns, at most 30 %": {"interference": {**RULES, "maxSlowdownPercent": 30, "weight": 10}},
}


def made() -> Made:
    """Play the same pods by each, and draw the mean slowdown of every one while it ran."""
    lines = [Line(name, shares(_played(profile))) for name, profile in RUNS.items()]
    most = "pods that others make at most so much slower"
    return Made({"interference-slowdowns.svg": drawn(Plot(most, "% longer", "% of pods", lines, 100.0, seconds=False))})


def _played(profile: dict[str, Any]) -> list[float]:
    lab = Lab(profiles=[profile])
    for number in range(10):
        lab.node(f"n{number}", {"cpu": 32})
    random, at = Random(3), 0.0
    for number in range(160):
        at += random.expovariate(1 / 30)
        kind = "serving" if random.random() < SERVE else "loading"
        lab.submit(
            LabJob(f"j{number}", at, [(1, {BEHAVIOUR_LABEL: kind})], {"cpu": 4}, random.uniform(300, 1200), gang=False)
        )
    lab.run()
    jobs = [job for job in lab.jobs.values() if job.started is not None and job.ended is not None]
    return [_slowed(job, jobs) for job in jobs]


def _slowed(job: LabJob, jobs: list[LabJob]) -> float:
    """Return by how many percent others on its node slow a pod down, as the rules have it, while it ran."""
    assert job.started is not None  # it ran
    assert job.ended is not None
    mine = job.roles[0][1][BEHAVIOUR_LABEL]
    beside: Counter[str] = Counter()
    for one in jobs:
        if one is not job and one.nodes == job.nodes and one.started is not None and one.ended is not None:
            together = min(job.ended, one.ended) - max(job.started, one.started)
            beside[one.roles[0][1][BEHAVIOUR_LABEL]] += max(0.0, together)  # type: ignore[assignment]
    ran = job.ended - job.started
    return sum(percent * beside[by] / ran for of, by, percent in SLOWDOWNS if of == mine)
