"""How much taking pods out hurts: kube-scheduler's five tie-breaks, as one value to compare.

Rule: kube-scheduler 1.36, framework/preemption (pickOneNodeForPreemption).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tutti.cluster.pods import PodRecord

PRIORITY_OFFSET = 1 << 31
"""Makes every priority count above nothing, so that fewer victims are less harm than more of them."""


class Harm(NamedTuple):
    """What taking some pods out would do; the smaller, the better.

    Attributes:
        violations: Pods that no disruption budget has room for.
        highest: The highest priority among them.
        total: The sum of their priorities, each raised by PRIORITY_OFFSET.
        number: How many there are.
        youth: Minus when the first of those with the highest priority was started, Unix seconds.
    """

    violations: int
    highest: int
    total: int
    number: int
    youth: float

    @classmethod
    def of(cls, records: Sequence[PodRecord], violations: int) -> Harm:
        """Return what taking these pods out would do."""
        highest = max((record.priority for record in records), default=-PRIORITY_OFFSET)
        first = min((started(record) for record in records if record.priority == highest), default=0.0)
        total = sum(record.priority + PRIORITY_OFFSET for record in records)
        return cls(violations, highest, total, len(records), -first)


def started(record: PodRecord) -> float:
    """Return when a pod was started, Unix seconds; infinity where it has not been."""
    return record.started if record.started is not None else float("inf")


def importance(record: PodRecord) -> tuple[int, float]:
    """Order pods from the most important: by priority, then by who has run longest."""
    return -record.priority, started(record)
