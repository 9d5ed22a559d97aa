"""What a workload that waits for preemption keeps from others for the rest of a cycle.

Rule: Kueue, scheduler.go `resourcesToReserve` (0.20): a workload that needs preemption but has no victims yet would
otherwise see what little is free given to queues that come after it. It holds back as much of its request as is
free below the nominal quota, or, where it would borrow, below the nominal quota and the borrowing limit.
"""

from __future__ import annotations

from collections.abc import Mapping

from tutti.quota.tree import FlavorResource, QuotaNode, Usage


def hold_back(node: QuotaNode, request: Mapping[FlavorResource, int], *, borrows: bool) -> Usage:
    """Return what to count as used in the queue until the end of the cycle."""
    kept: Usage = {}
    for what, amount in request.items():
        quota = node.quotas.get(what)
        limit = node.nominal(what)
        if borrows:
            if quota is None or quota.borrowing_limit is None:
                kept[what] = amount
                continue
            limit += quota.borrowing_limit
        kept[what] = max(0, min(amount, limit - node.usage.get(what, 0)))
    return kept
