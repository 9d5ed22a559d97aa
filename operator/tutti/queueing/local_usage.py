"""How much a LocalQueue has used lately, for ClusterQueues that serve first who has used least.

Rules: Kueue, pkg/util/admissionfairsharing and pkg/cache/queue/afs (0.20):

    a(t)     = 1 - 0.5^(t / half-life)           consumed = (1 - a) * before + a * in use now
    penalty  = a(sampling interval) * request    added at each admission, so that it counts at once
    usage    = sum over resources of weight_r * (consumed + penalty) / weight of the LocalQueue

A weight of 0 makes the usage infinite; a half-life of 0 forgets everything. Decay has no exact value, so amounts are
floats here, in whole units (cores, bytes, devices); they order queues and are never charged.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

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
