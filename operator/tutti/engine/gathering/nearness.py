"""How near one another the members of a pod group must be, as users said it, and what that means on the nodes.

Levels are those of the flavor's Topology, where it has one, else the node labels that are named themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tutti.api.conventions import TopologyClaim
from tutti.api.kinds.pod_group import TopologyConstraint
from tutti.api.kinds.workload import TopologyRequest as TopologySaid
from tutti.placement.topology.nearness import Nearness
from tutti.placement.topology.request import Slice, Together, TopologyRequest

NAMED = "groupName"
"""Begins the name of what users have named themselves."""


@dataclass(frozen=True, slots=True)
class Near:
    """What was said.

    Attributes:
        required: Node labels of each of which members share one value.
        preferred: Those of which they rather do, the widest first.
        slices: So many members that share a value, the widest first.
        balanced: Whether the domains used should get about as many members each.
        together: The name of what goes to one domain together; "" where members of one class do.
    """

    required: tuple[str, ...] = ()
    preferred: tuple[str, ...] = ()
    slices: tuple[Slice, ...] = ()
    balanced: bool = False
    together: str = ""

    @property
    def keys(self) -> tuple[str, ...]:
        """All node labels that are named, the widest first."""
        return tuple(dict.fromkeys((*self.required, *self.preferred, *(one.level for one in self.slices))))

    @property
    def wish(self) -> str:
        """Where all of them want to be, in words; slices left aside."""
        firm = [f"{mode} {', '.join(keys)}" for mode, keys in self._firm() if keys]
        return " and ".join(firm) or "Unconstrained"

    def _firm(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        return ("Required", self.required), ("Preferred", self.preferred)

    @property
    def is_a_name(self) -> bool:
        """Whether it only says who belongs together: that takes one flavor, but no Topology."""
        return self.together.startswith(NAMED) and not self.keys

    def request(self, levels: Sequence[str] = ()) -> TopologyRequest:
        """Return the request in some levels, the widest first; labels that are no level stand before those that are."""
        order = {level: index for index, level in enumerate(levels)}
        required = sorted(self.required, key=lambda key: order.get(key, -1) if order else 0)
        unknown = [key for key in required if order and key not in order]
        widest, finest = (unknown or required)[-1:], self.preferred[-1:]
        if finest:
            return TopologyRequest(Together.PREFERRED, finest[0], self.slices, "".join(widest), self.balanced)
        together = Together.REQUIRED if widest else Together.ANYWHERE
        return TopologyRequest(together, "".join(widest), self.slices)

    def on(self, levels: Sequence[str], party: object, group: str, growth: int) -> Nearness | None:
        """Return what it means for an ask in the levels of a Topology, or by the labels themselves; None for nothing.

        Args:
            levels: Of the Topology; nothing where there is none.
            party: Asks of equal parties go to one domain together.
            group: The pod group they are of.
            growth: How many members more are expected.
        """
        chosen = tuple(levels) or self.keys
        return Nearness(chosen, self.request(chosen), party, group, growth=growth) if chosen else None


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


def of_claim(said: TopologyClaim | None) -> Near | None:
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
