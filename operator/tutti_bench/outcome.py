"""What came of a benchmark: figures by scheduler, thresholds missed, and workloads that failed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tutti_bench.dataitems import DataItem, with_label
from tutti_bench.measuring import OVERALL
from tutti_bench.thresholds import Verdict

SCHEDULER = "Scheduler"
"""The label that tells whose figures they are, where there is more than one scheduler."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """Throughput over all the time of one workload, by two schedulers."""

    name: str
    first: str
    second: str
    mine: float | None
    theirs: float | None

    @property
    def ratio(self) -> float | None:
        """The first's throughput as a multiple of the second's; None where one has none."""
        return self.mine / self.theirs if self.mine and self.theirs else None


@dataclass(slots=True)
class Outcome:
    """What came of it.

    Attributes:
        items: What was found, by the label of the scheduler.
        verdicts: How figures stand to their thresholds.
        failures: Why workloads could not be run to their end.
    """

    items: dict[str, list[DataItem]] = field(default_factory=dict)
    verdicts: list[Verdict] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        """Whether all was run and no threshold was missed."""
        return not self.failures and all(verdict.is_met for verdict in self.verdicts)

    def all_items(self) -> list[DataItem]:
        """Return all items, each with the label of its scheduler where there is more than one."""
        if len(self.items) == 1:
            return [one for items in self.items.values() for one in items]
        return [with_label(one, SCHEDULER, label) for label, items in self.items.items() for one in items]

    def ratios(self) -> list[Ratio]:
        """Return how the first scheduler stands to each other one, workload by workload."""
        first, *others = self.items
        return [
            Ratio(name, first, other, mine, _overall(self.items[other]).get(name))
            for other in others
            for name, mine in _overall(self.items[first]).items()
        ]


def _overall(items: Sequence[DataItem]) -> dict[str, float]:
    return {one.name: one.data["Average"] for one in items if one.metric == OVERALL and "Average" in one.data}
