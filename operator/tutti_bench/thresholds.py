"""Whether what was found is good enough: a workload's threshold, put beside its figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from tutti_bench.dataitems import DataItem
from tutti_bench.document import Selector, Workload


@dataclass(frozen=True, slots=True)
class Verdict:
    """A figure and its threshold; None for the figure where there were no samples."""

    name: str
    bucket: str
    unit: str
    figure: float | None
    threshold: float
    expect_lower: bool

    @property
    def is_met(self) -> bool:
        """Whether it is on the right side; a figure that is not there is on none."""
        if self.figure is None:
            return False
        return self.figure < self.threshold if self.expect_lower else self.figure > self.threshold

    def __str__(self) -> str:
        aim = "below" if self.expect_lower else "above"
        found = "no samples: it was over too soon" if self.figure is None else f"{self.figure:.1f} {self.unit}"
        return f"{self.name}: {self.bucket} should be {aim} {self.threshold:g} {self.unit}, found {found}"


def threshold_of(workload: Workload, topic: str) -> float:
    """Return a workload's threshold for a topic; 0 where it has none."""
    if isinstance(workload.threshold, dict):
        return workload.threshold.get(topic, 0.0)
    return workload.threshold


def judged(items: Sequence[DataItem], selector: Selector, threshold: float) -> tuple[list[DataItem], list[Verdict]]:
    """Return the items with the threshold in those it is for (`<bucket>Threshold`), and how each stands to it."""
    out: list[DataItem] = []
    verdicts: list[Verdict] = []
    for one in items:
        if not threshold or one.metric != selector.name or not selector.labels.items() <= one.labels.items():
            out.append(one)
            continue
        bucket = selector.data_bucket
        verdicts.append(Verdict(one.name, bucket, one.unit, one.data.get(bucket), threshold, selector.expect_lower))
        out.append(msgspec.structs.replace(one, data={**one.data, f"{bucket}Threshold": threshold}))
    return out, verdicts
