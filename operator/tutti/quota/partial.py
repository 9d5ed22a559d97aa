"""How many pods to admit of a workload that may run with fewer.

Rule: Kueue, flavorassigner/podset_reducer.go (0.20). With d_k = count - minimum of pod set k and D the sum of them,
step i of 0..D leaves count_k - floor(d_k * i / D) of each; a binary search finds the first step that fits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

Counts = tuple[int, ...]


def largest_counts(counts: Sequence[int], minimums: Sequence[int], fits: Callable[[Counts], bool]) -> Counts | None:
    """Return the largest counts that fit; None where none do, or nothing may be left out.

    Args:
        counts: Pods of each pod set.
        minimums: The fewest of each; equal to the count where none may be left out.
        fits: Whether counts fit; where some do, all smaller ones must.
    """
    spare = [count - least for count, least in zip(counts, minimums, strict=True)]
    steps = sum(spare)
    if not steps:
        return None

    def at(step: int) -> Counts:
        return tuple(count - less * step // steps for count, less in zip(counts, spare, strict=True))

    low, high = 0, steps + 1
    while low < high:
        middle = (low + high) // 2
        if fits(at(middle)):
            high = middle
        else:
            low = middle + 1
    return at(low) if low <= steps else None
