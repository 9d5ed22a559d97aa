"""How near to one another pods that are placed together must be, whoever said it, and what that asks of placement."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from tutti.placement.topology.request import LevelRequest, Slice, Together, TopologyPlacement

NAMED_TOGETHER = "groupName"
"""Begins the name of what users have named themselves."""


@dataclass(frozen=True, slots=True)
class PodSetTopology:
    """What was said of it.

    Attributes:
        required: Node labels of each of which members share one value.
        preferred: Those of which they rather do, the widest first.
        slices: So many members that share a value, the widest first.
        balanced: Whether the domains used should get about as many members each.
        together: The name of what goes to one domain together; "" where members of one class do.
        by_labels: Whether labels of nodes alone decide, whatever levels the Topologies of flavors have.
    """

    required: tuple[str, ...] = ()
    preferred: tuple[str, ...] = ()
    slices: tuple[Slice, ...] = ()
    balanced: bool = False
    together: str = ""
    by_labels: bool = False

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
    def needs_topology(self) -> bool:
        """Whether a flavor must have a Topology for it; one that only says who belongs together takes one flavor."""
        return not self.by_labels and (bool(self.keys) or not self.together.startswith(NAMED_TOGETHER))

    def request(self, levels: Sequence[str] = ()) -> LevelRequest:
        """Return the request in some levels, the widest first; labels that are no level stand before those that are."""
        order = {level: index for index, level in enumerate(levels)}
        required = sorted(self.required, key=lambda key: order.get(key, -1) if order else 0)
        unknown = [key for key in required if order and key not in order]
        widest, finest = (unknown or required)[-1:], self.preferred[-1:]
        if finest:
            return LevelRequest(Together.PREFERRED, finest[0], self.slices, "".join(widest), self.balanced)
        together = Together.REQUIRED if widest else Together.ANYWHERE
        return LevelRequest(together, "".join(widest), self.slices)

    def on(self, levels: Sequence[str], pod_set_group: Hashable, group: str, growth: int) -> TopologyPlacement | None:
        """Return what it means for an ask in the levels of a Topology, or by the labels themselves; None for nothing.

        Args:
            levels: Of the Topology; nothing where there is none.
            pod_set_group: Asks of equal pod set groups go to one domain together.
            group: The pod group they are of.
            growth: How many members more are expected.
        """
        chosen = self.keys if self.by_labels else tuple(levels) or self.keys
        return TopologyPlacement(chosen, self.request(chosen), pod_set_group, group, growth=growth) if chosen else None
