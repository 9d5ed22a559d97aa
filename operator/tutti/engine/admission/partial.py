"""With how many of its pods a workload starts that may run with fewer than it has.

Its required pods must fit, or it waits. Of the others as many are taken as fit together with these, by quota and by
nodes, in flavors chosen for all of them: Kueue's search (`tutti.quota.assigner`), which leaves out of every pod group a
like part of what it can do without. Who is left out has not failed: it is a surplus member and gets its place as
soon as there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tutti.engine.records.pod_sets import PodSetRequest, class_never_admitted
from tutti.quota.assigner import largest_counts
from tutti.quota.flavors import Queue

Fits = Callable[[Sequence[PodSetRequest]], bool]


def widest(needs: Sequence[PodSetRequest], queue: Queue | None, fits: Fits) -> list[PodSetRequest] | None:
    """Return needs of which as many pods as possible are required; None where no more than now can be.

    Args:
        needs: Whose required pods are known to fit.
        queue: Whose quota they use; None where they need none.
        fits: Whether the required pods of needs fit; where some do, fewer of them do, too.
    """
    least = [need.required for need in needs]
    most = [need.required + (0 if class_never_admitted(queue, need.klass) else need.extra) for need in needs]
    if most == least:
        return None
    if fits(sized(needs, most)):
        return sized(needs, most)
    counts = largest_counts(most, least, lambda tried: list(tried) == least or fits(sized(needs, tried)))
    return None if counts is None or list(counts) == least else sized(needs, counts)


def sized(needs: Sequence[PodSetRequest], counts: Sequence[int]) -> list[PodSetRequest]:
    """Return needs with so many pods required of each, and the rest of them extra."""
    return [_sized(need, count - need.required) for need, count in zip(needs, counts, strict=True)]


def _sized(need: PodSetRequest, more: int) -> PodSetRequest:
    growth = max(0, need.growth - more)
    return replace(need, required=need.required + more, extra=need.extra - more, growth=growth)
