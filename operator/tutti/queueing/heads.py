"""Which workload of a ClusterQueue is next.

Rule: Kueue, pkg/cache/queue/cluster_queue.go (0.20): where the queue goes by recent usage, that of the LocalQueue which
has used least; then the one that waits for its victims; then higher priority, longer wait, and uid.
"""

from __future__ import annotations

from typing import NamedTuple


class HeadKey(NamedTuple):
    """Sorts what is next first."""

    local_usage: float
    behind_preemptor: bool
    less_important: int
    queued_at: float
    uid: str


def head_key(priority: int, queued_at: float, uid: str, *, in_front: bool = False, local_usage: float = 0) -> HeadKey:
    """Return a workload's place in its queue.

    Args:
        priority: Higher goes first.
        queued_at: Since when it waits, Unix seconds.
        uid: Tells equals apart.
        in_front: Whether it waits for its victims to leave.
        local_usage: What its LocalQueue has used lately; the same for all where the queue does not go by it.
    """
    return HeadKey(local_usage, not in_front, -priority, queued_at, uid)
