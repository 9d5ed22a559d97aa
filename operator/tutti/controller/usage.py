"""What the engine's state says to the rest of the shell: who uses a queue, and where more is used than there is.

The state is only read, and only between two calls of the engine.
"""

from __future__ import annotations

from collections.abc import Iterator

from tutti.controller.specs import ObjectKey
from tutti.engine.records.workloads import Workload
from tutti.engine.state import State


def charged(state: State) -> dict[ObjectKey, str]:
    """Return the ClusterQueue whose quota each workload holds, for those that hold any: reserved, bound or leaving."""
    return {workload.key: queue for workload in state.workloads.values() for queue in _queues(workload)}


def overused(state: State) -> dict[ObjectKey, str]:
    """Return the ClusterQueues and Cohorts that use more quota than there is, with what they are told of it."""
    return {key: told.message for key, told in state.overuses.reported.items()}


def _queues(workload: Workload) -> Iterator[str]:
    for group in workload.groups.values():
        for member in group.members.values():
            if member.charge is not None:
                yield member.charge.queue
        for hold in group.holds:
            if hold.charge is not None:
                yield hold.charge.queue
