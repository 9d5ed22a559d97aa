"""Who would fail again for want of the same quota, so that nobody is tried for nothing.

Quota that is given back wakes everybody in its tree, and the first may take all of it. The others lack what they lacked
before, only by other numbers: they go on sleeping, and are tried again when these may be told anew.
"""

from __future__ import annotations

from tutti.engine.backfill import owing
from tutti.engine.records.explanation import Gate
from tutti.engine.records.lines import Standing
from tutti.engine.state import State
from tutti.quota.assignment import AssignmentMode, NoFit
from tutti.quota.policy import NOBODY


def fails_again(state: State, standing: Standing) -> bool:
    """Whether a head that is next would only be told other numbers than its bunch was told before."""
    bunch, queue, why = standing.bunch, standing.queue, standing.bunch.before
    if standing.workload.key in state.kept:
        return False  # what it lacks among all is kept for it
    if why is None or queue is None or bunch.fresh or bunch.choice is None or len(bunch.pod_sets) != 1:
        return False
    if why.gate is not Gate.QUOTA or why.reason != NoFit.WAITING_FOR_QUOTA.reason or queue.reserves:
        return False
    if queue.name in state.shadows.of or owing.has_turn(state, queue.name, standing.workload.key):
        return False
    workload = standing.workload
    told = workload.told[0] == why.reason and workload.key not in state.nominations.ours
    return told and queue.policy == NOBODY and bunch.choice.mode is not AssignmentMode.FIT
