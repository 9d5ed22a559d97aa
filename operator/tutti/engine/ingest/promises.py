"""Which members that do not exist yet are counted on: those for which somebody pays what is kept for them.

Through a queue its quota does. Without one they could be made just now if the ResourceQuotas of their namespace let
them, with all others there for whom something is held; what these would refuse is kept for nobody, or whoever may write
a template would hold a cluster in which he may have no pod.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tutti.engine.ingest import IngestState
from tutti.engine.records.members import MemberGroup
from tutti.engine.records.workloads import Phase, Workload, WorkloadKey


def settle_promises(state: IngestState, workload: Workload) -> None:
    """Count on promised members, or only on those that exist, from how a workload is read.

    A gang that starts before some of its members exist, since these make the others, starts with those that there are.
    """
    promising = [group for group in workload.groups.values() if group.promised is not None]
    if not promising or workload.queue or _may_be_made(state, workload.key[1], promising):
        forget_promises(state, workload.key)
        return
    state.unpaid.setdefault(workload.key[1], {})[workload.key] = None
    for group in promising:
        if workload.style is not None:
            there = group.counts().placed if workload.phase is Phase.SCHEDULED else len(group.members)
            group.min_count = min(group.min_count, there)
        group.promised = None


def allowances_changed(state: IngestState, namespace: str) -> None:
    """Have those looked at again that nobody paid for: the ResourceQuotas of their namespace say something else."""
    for key in state.unpaid.pop(namespace, {}):
        if key in state.workloads:
            state.touch(key)


def forget_promises(state: IngestState, key: WorkloadKey) -> None:
    """Forget that nobody pays for what a workload promises."""
    unpaid = state.unpaid.get(key[1])
    if unpaid is not None and unpaid.pop(key, key) is None and not unpaid:
        del state.unpaid[key[1]]


def look_at_unpaid(state: IngestState) -> None:
    """Have those looked at again that nobody paid for, where less is held for others of their namespace than was."""
    for namespace in state.cluster.held.take_unheld() if state.unpaid else ():
        allowances_changed(state, namespace)


def taken_by_others(state: IngestState, workload: Workload) -> bool:
    """Whether a workload that is tried may not hold what it promises, so that it has to be read again.

    Since it was read another of its namespace may have got what the ResourceQuotas leave.
    """
    if workload.queue or not state.allowances.get(workload.key[1]):
        return False
    promising = [group for group in workload.groups.values() if group.promised is not None]
    if not promising or _may_be_made(state, workload.key[1], promising):
        return False
    state.touch(workload.key)
    return True


def _may_be_made(state: IngestState, namespace: str, promising: Sequence[MemberGroup]) -> bool:
    """Whether the ResourceQuotas of a namespace have room for all members that groups still need.

    What is held there for members of others that are yet to be made counts as made.
    """
    allowances = state.allowances.get(namespace)
    if not allowances:
        return True
    wanted: Counter[str] = Counter()
    for group in promising:
        assert group.promised is not None
        missing = max(0, group.min_count - len(group.members))
        wanted.update({name: amount * missing for name, amount in group.promised.requests.items()})
    asked = [name for name, amount in wanted.items() if amount]
    wanted.update(state.cluster.held.of_namespace(namespace))
    for hold in (hold for group in promising for hold in group.holds):
        wanted.subtract(hold.pod_class.requests)
    rooms = [(name, room) for allowance in allowances.values() for name, room in allowance.items()]
    return all(wanted[name] <= room for name, room in rooms if name in asked)
