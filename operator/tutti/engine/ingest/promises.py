"""Members that do not exist yet: they are counted on where somebody pays for what is kept for them.

Through a queue its quota does. Without one they could be made just now if the ResourceQuotas of their namespace let
them; what these would refuse is kept for nobody, or whoever may write a template would hold a cluster in which he may
have no pod.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tutti.engine.records.members import Group
from tutti.engine.records.workloads import Phase, Workload, WorkloadKey
from tutti.engine.state import State


def settle(state: State, workload: Workload) -> None:
    """Count on promised members, or only on those that exist, from how a workload is read.

    A gang that starts before some of its members exist, since these make the others, starts with those that there are.
    """
    promising = [group for group in workload.groups.values() if group.promised is not None]
    if not promising or workload.queue or _may_be_made(state, workload.key[1], promising):
        forget(state, workload.key)
        return
    state.unpaid.setdefault(workload.key[1], {})[workload.key] = None
    for group in promising:
        if workload.style is not None:
            there = group.tally().placed if workload.phase is Phase.SCHEDULED else len(group.members)
            group.min_count = min(group.min_count, there)
        group.promised = None


def look_again(state: State, namespace: str) -> None:
    """Have those looked at again that nobody paid for: the ResourceQuotas of their namespace say something else."""
    for key in state.unpaid.pop(namespace, {}):
        if key in state.workloads:
            state.touch(key)


def forget(state: State, key: WorkloadKey) -> None:
    """Forget that nobody pays for what a workload promises."""
    unpaid = state.unpaid.get(key[1])
    if unpaid is not None and unpaid.pop(key, key) is None and not unpaid:
        del state.unpaid[key[1]]


def _may_be_made(state: State, namespace: str, promising: Sequence[Group]) -> bool:
    """Whether the ResourceQuotas of a namespace have room for all members that groups still need."""
    allowances = state.allowances.get(namespace)
    if not allowances:
        return True
    wanted: Counter[str] = Counter()
    for group in promising:
        assert group.promised is not None
        missing = max(0, group.min_count - len(group.members))
        wanted.update({name: amount * missing for name, amount in group.promised.requests.items()})
    return all(
        wanted[name] <= room for allowance in allowances.values() for name, room in allowance.items() if wanted[name]
    )
