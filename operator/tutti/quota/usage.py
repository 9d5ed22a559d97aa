"""Usage in numbers: as a ClusterQueue reports it, where it is more than there is, and of a LocalQueue in the past.

Reported (Kueue, pkg/cache/scheduler/cache.go, 0.20): for every flavor and resource that the queue lists, the sum over
the workloads counted, and what of it is above the nominal quota; nothing is borrowed without a cohort.

More than there is is used because quota was lowered, or nodes that it is a part of have gone. Nobody is taken out for
that alone, and nobody is given more of it; this is only to tell whom it concerns.

In the past, for ClusterQueues that serve first who has used least (Kueue, pkg/util/admissionfairsharing and
pkg/cache/queue/afs, 0.20):

    a(t)     = 1 - 0.5^(t / half-life)           consumed = (1 - a) * before + a * in use now
    penalty  = a(sampling interval) * request    added at each admission, so that it counts at once
    usage    = sum over resources of weight_r * (consumed + penalty) / weight of the LocalQueue

A weight of 0 makes the usage infinite; a half-life of 0 forgets everything. Decay has no exact value, so amounts are
floats there, in whole units (cores, bytes, devices); they order queues and are never charged.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
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


class Overuse(NamedTuple):
    """What is used of one flavor and resource, and what there is, in scheduling units.

    Attributes:
        used: What is used of the node: of a Cohort, what its queues do not keep to themselves.
        given: What it and everything below it may use before borrowing.
        borrowable: Its borrowing limit; None where it has none, or nobody to borrow from.
    """

    used: int
    given: int
    borrowable: int | None


def overused(node: QuotaNode) -> dict[FlavorResource, Overuse]:
    """Return what a node uses more of than it is given, while nothing of that is left for it to borrow either.

    A queue of a cohort that is used up concerns this as far as it borrows; one that keeps to its own does not.
    """
    found = {}
    for what, used in node.usage.items():
        given = node.subtree.get(what, 0)
        if used > given and node.available(what) < 0:
            quota = node.quotas.get(what)
            limit = None if node.parent is None or quota is None else quota.borrowing_limit
            found[what] = Overuse(used, given, limit)
    return found


Consumed = dict[str, float]
"""Resource -> amount in whole units."""


@dataclass(slots=True)
class PastUse:
    """What one LocalQueue had consumed at a time, and what it has been using since then.

    Attributes:
        uid: Of the LocalQueue.
        since: That time, Unix seconds.
    """

    uid: str
    consumed: Consumed
    in_use: Consumed
    since: float


def decay(before: Mapping[str, float], in_use: Mapping[str, float], *, elapsed: float, half_life: float) -> Consumed:
    """Return what has been consumed by now.

    Args:
        before: What had been consumed at the last sample.
        in_use: What is in use now.
        elapsed: Seconds since the last sample.
        half_life: Seconds after which past use counts half; 0 forgets it.
    """
    if half_life <= 0:
        return {}
    fresh = _fresh(elapsed, half_life)
    names = dict.fromkeys((*before, *in_use))
    return {name: (1 - fresh) * before.get(name, 0.0) + fresh * in_use.get(name, 0.0) for name in names}


def penalty(request: Mapping[str, float], *, sampling: float, half_life: float) -> Consumed:
    """Return what an admission adds at once: what the next sample would add if it then ran."""
    if half_life <= 0:
        return {}
    fresh = _fresh(sampling, half_life)
    return {name: fresh * amount for name, amount in request.items()}


def local_usage(
    consumed: Mapping[str, float],
    penalties: Mapping[str, float],
    *,
    weight: float = 1.0,
    resource_weights: Mapping[str, float] | None = None,
) -> float:
    """Return what LocalQueues are ordered by, the least first; a resource without a weight counts once."""
    if weight <= 0:
        return math.inf
    names = dict.fromkeys((*consumed, *penalties))
    factors = resource_weights or {}
    total = (factors.get(name, 1.0) * (consumed.get(name, 0.0) + penalties.get(name, 0.0)) for name in names)
    return math.fsum(total) / weight


def _fresh(elapsed: float, half_life: float) -> float:
    return 1.0 - math.pow(0.5, elapsed / half_life)
