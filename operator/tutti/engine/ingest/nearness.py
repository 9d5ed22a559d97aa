"""How near one another the members of a pod group must be, read from what users said."""

from __future__ import annotations

from collections.abc import Iterable

from tutti.api.conventions import PodTopologyRequest
from tutti.api.kinds.pod_group import TopologyConstraint
from tutti.api.kinds.workload import TopologyRequest as TopologySaid
from tutti.engine.records.near import NAMED, Near
from tutti.placement.topology.request import Slice


def disagreement(said: Iterable[tuple[Near, str]]) -> str:
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


def of_workload(said: TopologySaid | None, group: str) -> Near | None:
    """Read a Workload's pod group."""
    if said is None:
        return None
    slices = [] if said.slice_size is None else [Slice(said.slice_level, said.slice_size)]
    slices += [Slice(one.level, one.size) for one in said.inner_slices]
    level = (said.level,) if said.level else ()
    return Near(
        level if said.mode == "Required" else (),
        level if said.mode == "Preferred" else (),
        tuple(slices),
        said.balanced,
        f"{NAMED} {said.group_name}" if said.group_name else f"pod group {group}",
    )


def of_pod_group(said: Iterable[TopologyConstraint], group: str) -> Near | None:
    """Read a PodGroup's constraints."""
    said = list(said)
    required = tuple(one.key for one in said if one.mode == "Required")
    preferred = tuple(one.key for one in said if one.mode == "Preferred")
    return Near(required, preferred, together=f"pod group {group}") if said else None


def of_claim(said: PodTopologyRequest | None) -> Near | None:
    """Read what a pod says itself; pods of one gang that are not alike may each say something else."""
    if said is None:
        return None
    level = (said.level,) if said.level else ()
    return Near(
        level if said.mode == "Required" else (),
        level if said.mode == "Preferred" else (),
        tuple(Slice(level, size) for level, size in said.slices),
        together=f"{NAMED} {said.group}" if said.group else "",
    )
