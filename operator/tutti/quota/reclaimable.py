"""What a workload still holds once some of its pods are done for good.

Rule: Kueue, pkg/workload/workload.go `totalRequestsFromAdmission` (0.20): where fewer pods are left than were admitted,
its usage is that of so many pods; where more are, it was admitted with fewer, and its usage stays.
"""

from __future__ import annotations


def still_held(total: int, *, admitted: int, left: int) -> int:
    """Return how much of an amount is still held.

    Args:
        total: What was given to all pods that were admitted.
        admitted: How many those were.
        left: How many pods there still are.
    """
    return total // admitted * left if left < admitted else total
