"""The pictures of docs/howto/data.md: where work runs, and when it ends, by how long it waits for near nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from random import Random
from typing import Final, Literal

from handbook.pictures.lab import Lab, LabJob
from handbook.pictures.page import Made
from tutti_simulate.plots import Bars, drawn_bars

RACK: Final = "example.com/rack"
RACKS, PER_RACK, HOLD = 4, 4, 2
WAITS: Final = (0, 15, 30, 60, 120, 300)
READERS: Final = 0.6
"""Which part of the jobs reads the data."""
FETCH: Final = {"node": 0.0, "rack": 60.0, "elsewhere": 240.0}
"""How many seconds a run takes longer that gets its data from there."""
KINDS: Final = {"node": "on nodes that hold it", "rack": "in their racks", "elsewhere": "elsewhere"}


def made() -> Made:
    """Play the same jobs with each bound."""
    found = {seconds: _played(seconds) for seconds in WAITS}
    near = {
        f"{seconds} s": [
            100 * sum(place == kind for _, places in jobs for place in places) / _pods(jobs) for kind in KINDS
        ]
        for seconds, jobs in found.items()
    }
    ends = {f"{seconds} s": [_mean(jobs, "started"), _mean(jobs, "ended")] for seconds, jobs in found.items()}
    return Made(
        {
            "data-places.svg": drawn_bars(
                Bars("where pods run, by waitSeconds", "% of pods", list(KINDS.values()), near)
            ),
            "data-ends.svg": drawn_bars(
                Bars("means by waitSeconds", "seconds", ["wait", "from submission to end"], ends)
            ),
        }
    )


def _mean(jobs: Sequence[tuple[LabJob, Sequence[str]]], when: Literal["started", "ended"]) -> float:
    """Return how long after they were submitted jobs started, or had ended, seconds."""
    times = [(getattr(job, when) or 0.0) - job.at for job, _ in jobs]
    return round(sum(times) / len(times), 2)


def _pods(jobs: Sequence[tuple[LabJob, Sequence[str]]]) -> int:
    return sum(len(places) for _, places in jobs)


def _played(seconds: int) -> list[tuple[LabJob, list[str]]]:
    """Return the jobs with where each pod got its data from."""
    said = {"levels": [RACK], "waitSeconds": seconds, "weight": 100}
    lab = Lab(profiles=[{"dataLocality": said}])
    for number in range(RACKS * PER_RACK):
        rack = number // PER_RACK
        holds = {"fluid.io/s-default-images": "true"} if rack < RACKS // 2 and number % PER_RACK < HOLD else {}
        lab.node(f"n{number:02d}", {"nvidia.com/gpu": 8}, {RACK: f"r{rack}", **holds})
    random, at = Random(7), 0.0
    for number in range(150):
        at += random.expovariate(1 / 24)
        size, runs = random.choice((1, 2, 4)), random.uniform(120, 600)
        wants = {"scheduling.tutti.dev/dataset": "images"} if random.random() < READERS else {}
        lab.submit(
            LabJob(
                f"j{number}", at, [(size, wants)], {"nvidia.com/gpu": random.choice((1, 2, 4))},
                partial(_lasts, runs, FETCH if wants else {}),
            )
        )  # fmt: skip
    lab.run()
    return [(job, [_place(one) for one in job.nodes]) for job in lab.jobs.values() if job.roles[0][1]]


def _lasts(runs: float, fetch: Mapping[str, float], nodes: Sequence[str]) -> float:
    """Return how long a job runs on some nodes: as long as the pod that has its data from farthest away."""
    return runs + max(fetch.get(_place(one), 0.0) for one in nodes)


def _place(node: str) -> str:
    """Return from where a pod on a node gets the data."""
    rack, place = divmod(int(node[1:]), PER_RACK)
    if rack >= RACKS // 2:
        return "elsewhere"
    return "node" if place < HOLD else "rack"
