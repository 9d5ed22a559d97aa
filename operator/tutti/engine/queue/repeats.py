"""Who would fail again for want of the same quota, so that nobody is tried for nothing.

Quota that is given back wakes everybody in its tree, and the first may take all of it. The others lack what they lacked
before, only by other numbers: they go on sleeping, and are tried again when these may be told anew.
"""

from __future__ import annotations

from tutti.engine.backfill import owing
from tutti.engine.records.explanation import Gate
from tutti.engine.records.queue_entries import QueueEntry
from tutti.engine.state import State
from tutti.quota.outcome import NoFit, Verdict
from tutti.quota.policy import NOBODY


def fails_again(state: State, entry: QueueEntry) -> bool:
    """Whether a head that is next would only be told other numbers than its equivalence class was told before."""
    equivalence, queue, why = entry.equivalence, entry.queue, entry.equivalence.before
    if entry.workload.key in state.kept:
        return False  # what it lacks among all is kept for it
    if (
        why is None
        or queue is None
        or equivalence.fresh
        or equivalence.choice is None
        or len(equivalence.pod_sets) != 1
    ):
        return False
    if why.gate is not Gate.QUOTA or why.reason != NoFit.WAITING_FOR_QUOTA.reason or queue.reserves:
        return False
    if queue.name in state.shadows.of or owing.has_turn(state, queue.name, entry.workload.key):
        return False
    workload = entry.workload
    told = workload.reported[0] == why.reason and workload.key not in state.nominations.ours
    return told and queue.policy == NOBODY and equivalence.choice.verdict is not Verdict.FIT
