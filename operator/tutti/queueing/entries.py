"""In which order the heads of all queues are processed within one cycle, without fair sharing.

Rule: Kueue, scheduler.go `makeClassicalIterator` (0.20): nearer quota before borrowing from afar, then higher priority,
then longer wait.
"""

from __future__ import annotations

from typing import NamedTuple


class EntryKey(NamedTuple):
    """Sorts what is processed next first."""

    level: int
    less_important: int
    queued_at: float


def entry_key(priority: int, queued_at: float, level: int) -> EntryKey:
    """Return the place of a head among those of all queues.

    Args:
        priority: Higher goes first.
        queued_at: Since when it waits, Unix seconds.
        level: From how far away its quota would come.
    """
    return EntryKey(level, -priority, queued_at)
