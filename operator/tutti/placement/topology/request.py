"""Where pods want to be in a topology, what that means in the levels of a given one, and what goes into placement.

Rules: Kueue, tas_flavor_snapshot.go (0.20). A level is a node label, a domain all nodes with one value of it (and of
the levels above).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

from tutti.api.messages import counted


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
class LevelRequest:
    """Where pods want to be.

    Attributes:
        level: The level that `together` speaks of; "" where they may be anywhere.
        slices: The widest first; the size of each must be divisible by that of the next.
        within: With PREFERRED: the wider level one domain of which they must not leave; "" for none.
        balanced: With PREFERRED: whether to have about as many pods in each domain used.
    """

    together: Together = Together.ANYWHERE
    level: str = ""
    slices: tuple[Slice, ...] = ()
    within: str = ""
    balanced: bool = False

    @property
    def levels(self) -> tuple[str, ...]:
        """All levels that are named."""
        return tuple(filter(None, (self.within, self.level, *(one.level for one in self.slices))))


@dataclass(frozen=True, slots=True)
class SizedRequest:
    """A request in the levels of one topology, for so many pods.

    Attributes:
        count: Pods.
        leaders: 1 where a leader goes with them, else 0.
        size: Pods of a slice.
        level: Index of the level in one of whose domains all must or should be.
        slice_level: Index of the level in one of whose domains a slice must be.
        limit: Index of the widest level in one of whose domains all must be; -1 where they may be in several of any.
        loose: Whether they may be anywhere.
        balanced: Whether to have about as many pods in each domain used.
        inner: Sizes of smaller slices, by index of the level in one of whose domains they must be.
    """

    count: int
    leaders: int = 0
    size: int = 1
    level: int = 0
    slice_level: int = 0
    limit: int = -1
    loose: bool = False
    balanced: bool = False
    inner: Mapping[int, int] = field(default_factory=dict)

    @property
    def slices(self) -> int:
        """How many slices there are; pods that make no whole one do not count."""
        return self.count // self.size


def sized_request(asked: LevelRequest, levels: Sequence[str], count: int, leaders: int = 0) -> SizedRequest | str:
    """Return what a request means for so many pods in a topology, or why it cannot be met there."""
    first = asked.slices[0] if asked.slices else None
    loose = asked.together is Together.ANYWHERE
    named = asked.level or levels[0 if first and loose else -1]
    slice_level = first.level if first else levels[-1]
    within = asked.level if asked.together is Together.REQUIRED else asked.within
    for level in filter(None, (named, slice_level, within)):
        if level not in levels:
            return f"the topology has no level {level}"
    if first and first.size <= 0:
        return f"slices of {first.size} pods cannot be; give a size of 1 or more"
    if levels.index(named) > levels.index(slice_level):
        return f"slices cannot be kept in {slice_level}, which is wider than {named}"
    if within and levels.index(within) > levels.index(named):
        return f"pods cannot be kept in {within} and be nearer in {named}, which is wider"
    inner = _inner(asked, levels, first.size if first else 1, levels.index(slice_level))
    if isinstance(inner, str):
        return inner
    return SizedRequest(
        count,
        leaders,
        first.size if first else 1,
        levels.index(named),
        levels.index(slice_level),
        limit=levels.index(within) if within else -1,
        loose=loose,
        balanced=asked.balanced and asked.together is Together.PREFERRED,
        inner=inner,
    )


def _inner(asked: LevelRequest, levels: Sequence[str], size: int, at: int) -> dict[int, int] | str:
    """Return the sizes of smaller slices per level, or why they cannot be."""
    sizes: dict[int, int] = {}
    for one in asked.slices[1:]:
        if one.level not in levels:
            return f"the topology has no level {one.level}"
        below = levels.index(one.level)
        if below <= at:
            return f"slices in {one.level} must be within those in {levels[at]}"
        if one.size <= 0 or size % one.size:
            return f"slices of {counted(size, 'pod')} cannot be divided into slices of {one.size}"
        sizes |= dict.fromkeys(range(at + 1, below + 1), one.size)
        size, at = one.size, below
    return sizes


class RequiredDomain(NamedTuple):
    """A domain: of a level of some levels, the one that the node of a row is in."""

    levels: tuple[str, ...]
    level: int
    row: int


@dataclass(frozen=True, slots=True)
class TopologyPlacement:
    """Where the pods of an ask want to be.

    Attributes:
        levels: The node labels that make the topology, the widest first.
        asked: The request, in these levels.
        pod_set_group: Asks of one pod set group go to one domain together; "" for none.
        group: The pod group they are of; one pod set group may have several.
        there: Rows of the nodes where others of the pod set group are already, once for each of them.
        own: Those of them that are of the same pod group; slices are counted in these.
        growth: How many more are hoped for later; of several domains that will do, one with room for them is better.
        home: All must be in this domain; it may be of other levels than these.
    """

    levels: tuple[str, ...]
    asked: LevelRequest
    pod_set_group: Hashable = ""
    group: str = ""
    there: tuple[int, ...] = ()
    own: tuple[int, ...] = ()
    growth: int = 0
    home: RequiredDomain | None = None

    def joining(self, pod_set_group: Iterable[int], own: Iterable[int]) -> TopologyPlacement:
        """Return the same with more pods there: those of the pod set group, and `own` of the same pod group."""
        return replace(self, there=(*self.there, *pod_set_group), own=(*self.own, *own))
