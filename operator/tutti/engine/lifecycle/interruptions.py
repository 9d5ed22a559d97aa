"""Time in which nothing could be written is no part of any window: what is open goes on with what was left of it.

While the API server is away, or this process stands still, nobody is bound, approved or made, and no kubelet says that
a pod is ready or has left. A gang that was bound in part would be taken out for that, a reservation given back, a gang
that has lost members restarted, and others taken out in the place of victims, all at the moment at which it can go on.

Windows that statuses tell the beginning of, as those of admission checks, are others' as well and stay as they are.
"""

from __future__ import annotations

from typing import Final

from tutti.engine.lifecycle import LifecycleState
from tutti.engine.records.observations import Interrupted
from tutti.engine.records.workloads import Phase

_WITH_WINDOW: Final = (Phase.RESERVED, Phase.BINDING, Phase.SCHEDULED)


def interrupted(state: LifecycleState, told: Interrupted) -> None:
    """Put off what is due, by as much time as nothing could be written in."""
    since, before = told.until - told.seconds, state.interruption
    if since < before[1] + state.configuration.victims_overdue_seconds:
        since = before[0]  # whoever was to leave before it had not had his time since the last one
    state.interruption = since, told.until
    for workload in state.timers:
        if workload.phase not in _WITH_WINDOW:
            continue
        if workload.degraded_since is not None:
            workload.lost_seconds += told.seconds
        if workload.unready_since is not None:
            workload.unready_since = min(told.until, workload.unready_since + told.seconds)
        if workload.deadline is not None:
            workload.deadline += told.seconds
        state.timers.add(workload)
        state.touch(workload.key)
