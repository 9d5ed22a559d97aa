"""Which workload of a ClusterQueue is next.

Rule: Kueue, pkg/cache/queue/cluster_queue.go (0.20): where the queue goes by recent usage, that of the LocalQueue which
has used least; then higher priority, longer wait, and uid. What victims leave is held for whom they left, so that it
needs no place in front of others, as it has there.
"""

from __future__ import annotations

from typing import NamedTuple


class HeadKey(NamedTuple):
    """Sorts what is next first."""

    local_usage: float
    less_important: int
    queued_at: float
    uid: str


def head_key(priority: int, queued_at: float, uid: str, *, local_usage: float = 0) -> HeadKey:
    """Return a workload's place in its queue.

    Args:
        priority: Higher goes first.
        queued_at: Since when it waits, Unix seconds.
        uid: Tells equals apart.
        local_usage: What its LocalQueue has used lately; the same for all where the queue does not go by it.
    """
    return HeadKey(local_usage, -priority, queued_at, uid)
