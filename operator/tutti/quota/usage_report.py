"""What a ClusterQueue tells of its usage: in total, and how much of that is borrowed.

Rule: Kueue, pkg/cache/scheduler/cache.go (0.20): for every flavor and resource that the queue lists, the sum over the
workloads counted, and what of it is above the nominal quota; nothing is borrowed without a cohort.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tutti.quota.tree import FlavorResource, QuotaNode


class Used(NamedTuple):
    """An amount in use, and the part of it above the nominal quota."""

    total: int
    borrowed: int


def usage_report(node: QuotaNode, usages: Iterable[Mapping[FlavorResource, int]]) -> dict[FlavorResource, Used]:
    """Sum up what these workloads use of a queue, for all that the queue lists."""
    totals = dict.fromkeys(node.quotas, 0)
    for usage in usages:
        for what, amount in usage.items():
            if what in totals:
                totals[what] += amount
    lent = node.parent is not None
    return {what: Used(n, max(0, n - node.nominal(what)) if lent else 0) for what, n in totals.items()}
