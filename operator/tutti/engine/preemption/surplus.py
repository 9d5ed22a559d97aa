"""The members that running gangs can do without."""

from __future__ import annotations

from collections.abc import Iterator

from tutti.cluster.pods import PodRecord
from tutti.engine.records.members import Member, MemberGroup
from tutti.engine.records.workloads import Phase, Workload
from tutti.placement.preemption.victim_cost import started_at


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
