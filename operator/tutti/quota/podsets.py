"""What a workload asks for: pods of one shape, and where they may be together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from tutti.api.labels import NodeSelector
from tutti.api.taints import Toleration


class Together(StrEnum):
    """Whether pods go to one domain of a level."""

    REQUIRED = "required"
    PREFERRED = "preferred"
    ANYWHERE = "unconstrained"


@dataclass(frozen=True, slots=True)
class Slice:
    """So many pods that must go to one domain of a level."""

    level: str
    size: int


@dataclass(frozen=True, slots=True)
class TopologyRequest:
    """Where pods want to be.

    Attributes:
        level: The level that `together` speaks of; "" where they may be anywhere.
        slices: The widest first; the size of each must be divisible by that of the next.
    """

    together: Together = Together.ANYWHERE
    level: str = ""
    slices: tuple[Slice, ...] = ()

    @property
    def levels(self) -> tuple[str, ...]:
        """All levels that are named."""
        return tuple(filter(None, (self.level, *(one.level for one in self.slices))))


@dataclass(frozen=True, slots=True)
class PodSet:
    """Pods of one shape that want quota.

    Attributes:
        count: How many.
        per_pod: What one of them asks for.
        least: How few would do; None where all are needed.
        affinity: The required node affinity.
        topology: Where they want to be; None where they do not say.
        group: Pod sets of one group get the same flavors and go to one domain; "" for none.
    """

    name: str
    count: int
    per_pod: Mapping[str, int]
    least: int | None = None
    node_selector: Mapping[str, str] = field(default_factory=dict)
    affinity: NodeSelector | None = None
    tolerations: Sequence[Toleration] = ()
    topology: TopologyRequest | None = None
    group: str = ""
