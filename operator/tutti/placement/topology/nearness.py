"""How near one another the pods of an ask must be: what goes with an ask into placement."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from tutti.placement.topology.request import TopologyRequest


class Home(NamedTuple):
    """A domain: of a level of some levels, the one that the node of a row is in."""

    levels: tuple[str, ...]
    level: int
    row: int


@dataclass(frozen=True, slots=True)
class Nearness:
    """Where the pods of an ask want to be.

    Attributes:
        levels: The node labels that make the topology, the widest first.
        asked: The request, in these levels.
        party: Asks of one party go to one domain together; "" for none.
        group: The pod group they are of; one party may have several.
        there: Rows of the nodes where others of the party are already, once for each of them.
        own: Those of them that are of the same pod group; slices are counted in these.
        growth: How many more are hoped for later; of several domains that will do, one with room for them is better.
        home: All must be in this domain; it may be of other levels than these.
    """

    levels: tuple[str, ...]
    asked: TopologyRequest
    party: object = ""
    group: str = ""
    there: tuple[int, ...] = ()
    own: tuple[int, ...] = ()
    growth: int = 0
    home: Home | None = None

    def joining(self, party: Iterable[int], own: Iterable[int]) -> Nearness:
        """Return the same with more pods there: those of the party, and of these those of the same pod group."""
        return replace(self, there=(*self.there, *party), own=(*self.own, *own))
