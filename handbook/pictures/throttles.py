"""The picture of docs/throttles.md: what a throttle allows by the clock, and what is in use of it."""

from __future__ import annotations

from datetime import UTC, datetime
from random import Random
from typing import Final

from handbook.pictures.lab import SPACE, START, Lab, LabJob
from handbook.pictures.page import Made
from tutti.engine.records.observations import ThrottleSeen
from tutti_simulate.plots import Line, Plot, drawn

HOUR: Final = 3600.0
DAY, NIGHT = 16, 48
BEGIN, END = 6 * HOUR, 12 * HOUR
LABELS: Final = {"tier": "experiment"}


def made() -> Made:
    """Play eighteen hours of gangs of experiments, and draw them."""
    lab = Lab(throttles={"name": "kube-throttler"})
    for number in range(8):
        lab.node(f"n{number}", {"nvidia.com/gpu": 8})
    lab.tell(ThrottleSeen("Throttle", _throttle()))
    random, at = Random(4), 0.0
    while at < 15 * HOUR:
        at += random.expovariate(1 / 700)
        size = random.choice((2, 3, 4, 6, 8))
        lab.submit(LabJob(f"j{len(lab.jobs)}", at, [(size, LABELS)], {"nvidia.com/gpu": 1}, random.uniform(900, 4500)))
    lab.run()
    jobs = list(lab.jobs.values())
    last = max(job.ended or 0.0 for job in jobs)
    moments = sorted({0.0, *(when for job in jobs for when in (job.at, job.started, job.ended) if when is not None)})
    allowed = [(0.0, DAY), (BEGIN, NIGHT), (END, DAY), (last, DAY)]
    use = [(when, float(sum(job.size for job in jobs if _runs(job, when)))) for when in moments]
    asked = [(when, float(sum(job.size for job in jobs if _there(job, when)))) for when in moments]
    lines = [
        Line("allowed", allowed, steps=True),
        Line("in use", use, steps=True),
        Line("asked for", asked, steps=True),
    ]
    return Made({"throttles-use.svg": drawn(Plot("a throttle with an override at night", "time", "GPUs", lines))})


def _runs(job: LabJob, when: float) -> bool:
    return job.started is not None and job.started <= when and (job.ended is None or when < job.ended)


def _there(job: LabJob, when: float) -> bool:
    return job.at <= when and (job.ended is None or when < job.ended)


def _throttle() -> dict[str, object]:
    times = {
        key: datetime.fromtimestamp(START + when, UTC).isoformat() for key, when in (("begin", BEGIN), ("end", END))
    }
    spec = {
        "throttlerName": "kube-throttler",
        "selector": {"selectorTerms": [{"podSelector": {"matchLabels": LABELS}}]},
        "threshold": {"resourceRequests": {"nvidia.com/gpu": DAY}},
        "temporaryThresholdOverrides": [{**times, "threshold": {"resourceRequests": {"nvidia.com/gpu": NIGHT}}}],
    }
    return {"metadata": {"name": "experiments", "namespace": SPACE, "uid": "t"}, "spec": spec}
