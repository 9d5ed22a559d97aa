"""How near to one another the pods of a workload are to be, by whoever says it.

A Workload says it of its pod groups, a PodGroup of itself, a pod of itself, and an owner of the pods that it makes. Who
is nearer to the pods counts, and what is to go to one domain together must be said alike.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tutti.api.conventions import PodTopologyRequest
from tutti.api.kinds import PodGroup as PodGroupObject
from tutti.api.kinds.pod_group import TopologyConstraint
from tutti.api.kinds.workload import TopologyRequest as TopologySaid
from tutti.engine.ingest import IngestState
from tutti.engine.records.explanation import Explanation, Gate
from tutti.engine.records.pod_set_topology import NAMED_TOGETHER, PodSetTopology
from tutti.engine.records.workloads import Workload
from tutti.placement.topology.request import Slice


def workload_topology(said: TopologySaid | None, group: str) -> PodSetTopology | None:
    """Read a Workload's pod group."""
    if said is None:
        return None
    slices = [] if said.slice_size is None else [Slice(said.slice_level, said.slice_size)]
    slices += [Slice(one.level, one.size) for one in said.inner_slices]
    level = (said.level,) if said.level else ()
    return PodSetTopology(
        level if said.mode == "Required" else (),
        level if said.mode == "Preferred" else (),
        tuple(slices),
        said.balanced,
        f"{NAMED_TOGETHER} {said.group_name}" if said.group_name else f"pod group {group}",
    )


def pod_group_topology(said: Iterable[TopologyConstraint], group: str) -> PodSetTopology | None:
    """Read a PodGroup's constraints."""
    said = list(said)
    required = tuple(one.key for one in said if one.mode == "Required")
    preferred = tuple(one.key for one in said if one.mode == "Preferred")
    return PodSetTopology(required, preferred, together=f"pod group {group}") if said else None


def member_topology(said: PodTopologyRequest | None) -> PodSetTopology | None:
    """Read what a pod says itself; pods of one gang that are not alike may each say something else."""
    if said is None:
        return None
    level = (said.level,) if said.level else ()
    return PodSetTopology(
        level if said.mode == "Required" else (),
        level if said.mode == "Preferred" else (),
        tuple(Slice(level, size) for level, size in said.slices),
        together=f"{NAMED_TOGETHER} {said.group}" if said.group else "",
    )


def take_over_constraints(state: IngestState, workload: Workload) -> None:
    """Take over what PodGroups that are pod groups of a Workload say of nearness, where the Workload does not."""
    _, namespace, name = workload.key
    for made, part in state.catalog.referring(namespace, name).items():
        found, group = state.catalog.get(PodGroupObject, namespace, made), workload.groups.get(part)
        if found is not None and group is not None and group.topology is None:
            group.topology = pod_group_topology(found.spec.scheduling_constraints.topology, part)


def inherit_topology(workload: Workload, said: Iterable[PodTopologyRequest]) -> Explanation | None:
    """Have the members be as near as their owners say, where nobody else does; returns why not, if these differ."""
    found = [near for near in map(member_topology, said) if near is not None]
    if len(found) > 1:
        told = ", ".join(sorted({f"{one.wish}{f', in slices of {one.slices}' if one.slices else ''}" for one in found}))
        text = f"its owners want its pods to be near in different ways: {told}; give all the same mode and level"
        return Explanation(Gate.GATHER, "InvalidGang", text)
    for group in workload.groups.values() if found else ():
        if group.topology is None and all(member.topology is None for member in group.members.values()):
            group.topology = replace(found[0], together=found[0].together or f"pod group {workload.key[2]}")
    return None


def different_topologies(workload: Workload) -> Explanation | None:
    """Return what is wrong where parts of a workload are to go to one domain together and do not agree on it."""
    said = [
        (group.topology, f"pod group {group.name}") for group in workload.groups.values() if group.topology is not None
    ]
    for group in workload.groups.values():
        if group.topology is None:
            said += [
                (m.topology, f"pod {m.pod.name}")
                for m in group.members.values()
                if m.topology is not None and not (m.pod.deleting or m.pod.terminated)
            ]
    wrong = _disagreement(said) if len(said) > 1 else ""
    return Explanation(Gate.GATHER, "InvalidGang", wrong) if wrong else None


def _disagreement(said: Iterable[tuple[PodSetTopology, str]]) -> str:
    """Return how those that are to go to one domain together contradict one another; "" where they do not.

    Rule: Kueue, pkg/controller/jobframework/tas_validation.go (0.20): pod sets of one group ask for the same level, all
    of them as required or all as preferred.

    Args:
        said: What was said, and who says so.
    """
    asked: dict[str, dict[str, str]] = {}
    for near, who in said:
        if near.together:
            asked.setdefault(near.together, {}).setdefault(near.wish, who)
    for together, wishes in asked.items():
        if len(wishes) > 1:
            told = ", ".join(f"{wish} ({who})" for wish, who in sorted(wishes.items()))
            return f"those of {together} want to be near in different ways: {told}; give all the same mode and level"
    return ""
