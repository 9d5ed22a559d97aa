"""The members that running gangs can do without, and how they are tried as victims of their own beside their gang."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from tutti.cluster.pods import PodRecord
from tutti.engine.lifecycle.quota_usage import workload_of
from tutti.engine.preemption import PreemptionState
from tutti.engine.records.members import Member, MemberGroup
from tutti.engine.records.workloads import Phase, Workload
from tutti.placement.preemption.victim_cost import started_at
from tutti.quota.holder_use import PART
from tutti.quota.snapshot import AdmittedWorkload, Snapshot
from tutti.quota.tree import Usage, add_to


def surplus_of(workload: Workload, group: MemberGroup) -> list[PodRecord]:
    """Return the members that a running group can do without, the youngest first: those beyond its minimum."""
    tally = group.counts()
    beyond = tally.placed - tally.leaving - group.min_count
    if beyond <= 0 or workload.phase is not Phase.SCHEDULED:
        return []
    pods = (member.pod for member in group.members.values())
    staying = [pod for pod in pods if pod.node and not (pod.terminated or pod.deleting)]
    return sorted(staying, key=_age, reverse=True)[:beyond]


def _age(pod: PodRecord) -> tuple[float, float, int, str]:
    """Order pods from the one that has run longest; of those that came together, the last rank is the youngest."""
    return started_at(pod), pod.created, len(pod.name), pod.name


def surplus_members(workload: Workload) -> Iterator[Member]:
    """Yield the members that a running workload can do without, group by group, the youngest first."""
    for group in workload.groups.values():
        for pod in surplus_of(workload, group):
            yield group.members[pod.key]


def set_apart(state: PreemptionState, snapshot: Snapshot, everybody: Sequence[AdmittedWorkload]) -> dict[str, Member]:
    """Have surplus members stand beside their gangs as holders of what they use, within a trial of a snapshot.

    Gangs that have handed over some of what they use already stay as they are.

    Args:
        state: The engine's memory.
        snapshot: A trial of it is open.
        everybody: The holders that may be victims.

    Returns:
        Which member each of the new holders is, by its name.
    """
    out: dict[str, Member] = {}
    handing = {one.who for one in state.ledger.handed()}
    for holder in everybody:
        workload = workload_of(state, holder)
        if workload is None or workload.key[0] == "Pod" or holder.evicted or holder.name in handing:
            continue
        mine = [member for member in surplus_members(workload) if member.charge is not None]
        if not mine:
            continue
        rest: Usage = dict(holder.usage)
        snapshot.remove(holder)
        for member in mine:
            assert member.charge is not None  # that is how they were chosen
            add_to(rest, member.charge.usage, -1)
            name = f"{holder.name}{PART}{member.pod.name}"
            at = member.pod.started if member.pod.started is not None else holder.reserved_at
            snapshot.add(msgspec.structs.replace(holder, name=name, usage=member.charge.usage, reserved_at=at))
            out[name] = member
        snapshot.add(msgspec.structs.replace(holder, usage=rest))
    return out
