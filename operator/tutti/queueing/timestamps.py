"""Since when a workload stands in its queue.

Rule: Kueue, pkg/workload/workload.go `GetQueueOrderTimestamp` (0.20).
"""

from __future__ import annotations

from enum import StrEnum


class Requeuing(StrEnum):
    """Where a workload comes back to whose pods did not become ready in time."""

    EVICTION = "Eviction"
    CREATION = "Creation"


def queued_at(
    created: float,
    requeuing: Requeuing = Requeuing.EVICTION,
    *,
    not_ready_at: float | None = None,
    check_failed_at: float | None = None,
) -> float:
    """Return the time that its place goes by, Unix seconds.

    Args:
        created: When it was created; minus infinity goes before all others.
        requeuing: Whether an eviction because its pods were not ready sends it to the back.
        not_ready_at: When it was evicted for that, if that was the last eviction.
        check_failed_at: When it was evicted because an admission check failed, if that was the last; always counts.
    """
    if not_ready_at is not None and requeuing is Requeuing.EVICTION:
        return not_ready_at
    return created if check_failed_at is None else check_failed_at
