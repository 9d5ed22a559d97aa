"""Which pods of a workload want nodes now, and what they ask of quota."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tutti.cluster.classes import PodClass
from tutti.engine.explanation import Explanation, Gate
from tutti.engine.shortages import gathering
from tutti.engine.workloads import Group, Member, Phase, Workload
from tutti.placement.unsupported import unsupported
from tutti.quota.flavors import VIRTUAL, Queue, uncovered
from tutti.quota.podsets import PodSet


@dataclass(slots=True)
class Need:
    """Pods of one class, of one group, that want nodes.

    Attributes:
        members: Those that exist, in the order in which they get nodes.
        required: How many must be placed; more than there are members where some are only promised.
        extra: How many more may be.
    """

    group: Group
    klass: PodClass
    members: list[Member]
    required: int
    extra: int = 0


def needs_of(workload: Workload) -> list[Need] | Explanation:
    """Return which pods want nodes now, or what is still missing before any may have one.

    A gang that has been running together before takes every new member as it comes; otherwise all that is missing
    to its minimum must be had at once.
    """
    if workload.problem is not None:
        return workload.problem
    needs: list[Need] = []
    for group in workload.groups.values():
        tally = group.tally()
        waiting = sorted((m for m in group.members.values() if m.pod.placeable), key=_by_rank)
        missing = max(0, group.min_count - tally.placed - tally.reserved - len(group.holds))
        if workload.phase is Phase.SCHEDULED:
            missing = 0
        holds_for_promised = group.promised is not None and workload.phase is Phase.WAITING
        promised = missing - len(waiting) if holds_for_promised else 0
        if missing > len(waiting) + max(0, promised):
            return gathering(group)
        needs.extend(_split(group, waiting, missing, max(0, promised)))
    return needs


def never_admitted(queue: Queue | None, needs: list[Need]) -> Explanation | None:
    """Return why required pods can never be admitted as they and their queue are written; None where they can."""
    for need in needs:
        if need.required:
            why = unplaceable(need.klass)
            if why is None and queue is not None:
                why = _uncovered(queue, need.klass)
            if why is not None:
                return why
    return None


def unplaceable(klass: PodClass) -> Explanation | None:
    """Return why pods of this class can never be placed, whatever room there is; None where they can."""
    if klass.problem:
        return Explanation(Gate.PLACEMENT, "InvalidPod", klass.problem)
    if klass.volumes.problem:
        return Explanation(Gate.PLACEMENT, "VolumesNotReady", klass.volumes.problem)
    beyond = unsupported(klass.spec)
    if not beyond:
        return None
    text = f"Tutti cannot place by {', '.join(beyond)} yet; leave it out, or let another scheduler place the pod"
    return Explanation(Gate.PLACEMENT, "UnsupportedConstraint", text)


def pod_set(name: str, klass: PodClass, count: int) -> PodSet:
    """Return what so many pods of a class ask of quota; `pods` is counted by the queue itself, where it covers it."""
    affinity = klass.spec.affinity.node_affinity if klass.spec.affinity else None
    return PodSet(
        name,
        count,
        {resource: amount for resource, amount in klass.requests.items() if resource != VIRTUAL},
        node_selector=klass.spec.node_selector,
        affinity=affinity.required if affinity else None,
        tolerations=klass.spec.tolerations,
    )


def _uncovered(queue: Queue, klass: PodClass) -> Explanation | None:
    missing = uncovered(queue, klass.requests)
    if not missing:
        return None
    return Explanation(
        Gate.QUOTA,
        "ResourceNotCovered",
        f"ClusterQueue {queue.name} has no quota of {', '.join(missing)}; add it to coveredResources, "
        "or do not request it",
    )


def _split(group: Group, waiting: list[Member], missing: int, promised: int) -> Iterator[Need]:
    """Group the waiting members by class; the first `missing` of them are required, the others are extra."""
    by_class: dict[PodClass, Need] = {}
    for index, member in enumerate(waiting):
        klass = member.pod.klass
        need = by_class.get(klass)
        if need is None:
            need = by_class[klass] = Need(group, klass, [], 0)
        need.members.append(member)
        if index < missing:
            need.required += 1
        else:
            need.extra += 1
    if promised and group.promised is not None:
        need = by_class.setdefault(group.promised, Need(group, group.promised, [], 0))
        need.required += promised
    yield from by_class.values()


def _by_rank(member: Member) -> tuple[int, str]:
    """Order p-2 before p-10, so that neighbouring ranks come to neighbouring places."""
    return len(member.pod.name), member.pod.name
