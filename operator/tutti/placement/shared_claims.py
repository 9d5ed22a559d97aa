"""Asks whose pods share a claim that has no volume yet: all of them go where one volume can be used.

They are placed as any others first; then the first pod chooses. Where that leaves some of them without room, or, of a
driver that does not say how far its volumes reach, out of what is supposed to be one, what each such claim gets is
settled beforehand: one free volume after another, then one place after another where a volume can be made, the
tightest first. Left out is where there is too little room for an ask by itself, or for all together by amounts.

How far it goes: of each claim the `MOST_VOLUMES` smallest free volumes are looked at, and `MOST_TRIED` combinations of
what all such claims could get are tried, fewer on large clusters (`MOST_ROWS`). A gang is refused wrongly only where
there are more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, product

import numpy as np

from tutti.cluster.classes import PodClass
from tutti.cluster.nodes import NodeColumns
from tutti.cluster.transaction import Transaction
from tutti.cluster.volumes import UnboundClaim
from tutti.placement.framework import Counts, Mask, Rows
from tutti.placement.gang import Ask, has_room_together
from tutti.placement.plugins.volume_binding import VolumeTopology, makeable, volume_topology
from tutti.placement.plugins.volume_shelves import where_usable
from tutti.placement.profile import Profile
from tutti.placement.upper_bounds import upper_bound

MOST_COMBINATIONS = 64
"""How many combinations of what the claims of a gang could get are tried at most."""

MOST_ROWS_LOOKED_AT = 50_000
"""How many nodes may be looked at, counted once for each of these; four are tried in any case."""

MOST_VOLUMES = 256
"""How many free volumes are looked at for one claim."""

_MOST_COMBINED = 4096
_LEAST_TRIED = 4


@dataclass(frozen=True, slots=True)
class ClaimOption:
    """What one claim could get.

    Attributes:
        volume: A free volume, or "" for one that is made.
        rows: bool[rows], where it can be used.
    """

    volume: str
    rows: Mask


@dataclass(slots=True)
class OpenClaim:
    """A claim without a volume that several pods use.

    Attributes:
        name: Namespace and name, with a slash between.
        wanted: What is asked of its volume.
        users: Which asks use it.
        topology: How far a volume reaches that is made for it; None where it is used everywhere.
    """

    name: str
    wanted: UnboundClaim
    topology: VolumeTopology | None
    users: list[int] = field(default_factory=list)

    def is_apart(self, placed: Sequence[Rows]) -> bool:
        """Whether pods that use it are where one volume that is made cannot be used by all."""
        return self.topology is not None and len({int(one) for one in self._codes(placed)}) > 1

    def row(self, placed: Sequence[Rows]) -> int:
        """Return a row of a pod that uses it, -1 where none does."""
        return next((int(placed[index][0]) for index in self.users if len(placed[index])), -1)

    def _codes(self, placed: Sequence[Rows]) -> Counts:
        assert self.topology is not None  # asked by the caller
        codes: Counts = self.topology.codes[np.concatenate([placed[index] for index in self.users])]
        return codes


def open_claims(nodes: NodeColumns, asks: Sequence[Ask]) -> list[OpenClaim]:
    """Return the claims without a volume that required pods of some asks share with others."""
    found: dict[str, OpenClaim] = {}
    for index, ask in enumerate(asks):
        for one in ask.pod_class.volumes.wanted if ask.required else ():
            if one.shared and not (one.selected or nodes.volumes.pledges.shared(one.shared)):
                topology = volume_topology(ask.pod_class, one, nodes)
                found.setdefault(one.shared, OpenClaim(one.shared, one, topology)).users.append(index)
    return list(found.values())


def out_of_shared_reach(nodes: NodeColumns, classes: Iterable[PodClass]) -> bool:
    """Whether pods of some classes that have been placed together are out of the supposed reach of one volume."""
    for pod_class in classes:
        for one in pod_class.volumes.wanted:
            if one.shared and not one.selected and volume_topology(pod_class, one, nodes) is not None:
                kept = nodes.volumes.pledges.shared(one.shared)
                if kept is None or not (kept.volume or kept.settled):
                    return True
    return False


@dataclass(slots=True)
class SharedClaimSearch:
    """One search for what the open claims of a gang could get.

    Attributes:
        claims: There is at least one.
    """

    nodes: NodeColumns
    transaction: Transaction
    asks: Sequence[Ask]
    profile: Profile
    claims: Sequence[OpenClaim]

    @property
    def helps(self) -> bool:
        """Whether it can matter what is settled first: not for one pod by itself."""
        return sum(ask.required for ask in self.asks) > 1

    def ways(self) -> Iterator[tuple[ClaimOption, ...]]:
        """Yield what the claims could get, one way each, as far as there may be room for their pods there."""
        rooms = {
            index: upper_bound(self.nodes, self.asks[index], [ask.pod_class for ask in self.asks], self.profile)
            for index in dict.fromkeys(index for claim in self.claims for index in claim.users)
        }
        each = [self._ways_of(claim, rooms) for claim in self.claims]
        fitting = (one for one in islice(product(*each), _MOST_COMBINED) if self._may_fit(one, rooms))
        return islice(
            fitting, max(_LEAST_TRIED, min(MOST_COMBINATIONS, MOST_ROWS_LOOKED_AT // max(1, len(self.nodes))))
        )

    def settle(self, ways: Sequence[ClaimOption]) -> None:
        """Hold the pods to what the claims get."""
        for claim, way in zip(self.claims, ways, strict=True):
            self.transaction.settle(claim.name, way.volume, int(np.argmax(way.rows)))

    def _ways_of(self, claim: OpenClaim, rooms: dict[int, Counts]) -> list[ClaimOption]:
        """Return what one claim could get: free volumes, then places where one is made; the tightest first."""
        out: list[ClaimOption] = []
        for rows in (self._usable(claim), self._made(claim)):
            able = [one for one in rows if self._has_room(claim, one.rows, rooms)]
            out += sorted(able, key=lambda one: sum(int(rooms[index][one.rows].sum()) for index in claim.users))
        return out

    def _usable(self, claim: OpenClaim) -> Iterator[ClaimOption]:
        """Yield the free volumes that a claim could get; of those that are usable in the same place, the first."""
        seen: set[bytes] = set()
        for volume in islice(self.nodes.volumes.free_volumes(claim.wanted), MOST_VOLUMES):
            rows = where_usable(self.nodes, volume)
            if rows.any() and rows.tobytes() not in seen:
                seen.add(rows.tobytes())
                yield ClaimOption(volume.metadata.name, rows)

    def _made(self, claim: OpenClaim) -> Iterator[ClaimOption]:
        """Yield the places where a volume could be made for a claim."""
        able = makeable(claim.wanted, self.nodes, self.asks[claim.users[0]].pod_class) & self.nodes.present
        if claim.topology is None:
            codes, places = np.zeros(len(self.nodes), dtype=np.int64), [0] if able.any() else []
        else:
            codes, places = claim.topology.codes, np.unique(claim.topology.codes[able]).tolist()
        yield from (ClaimOption("", able & (codes == place)) for place in places)

    def _has_room(self, claim: OpenClaim, rows: Mask, rooms: dict[int, Counts]) -> bool:
        return all(int(rooms[index][rows].sum()) >= self.asks[index].required for index in claim.users)

    def _may_fit(self, ways: Sequence[ClaimOption], rooms: dict[int, Counts]) -> bool:
        """Whether no volume is for two claims, each ask has room by itself, and all of a claim have it by amounts."""
        volumes = [way.volume for way in ways if way.volume]
        if len(set(volumes)) < len(volumes):
            return False
        within = dict.fromkeys(rooms, self.nodes.present)
        for claim, way in zip(self.claims, ways, strict=True):
            users = (self.asks[index] for index in claim.users)
            if not has_room_together(self.nodes, way.rows, users, self.profile):
                return False
            for index in claim.users:
                within[index] = within[index] & way.rows
        return all(int(rooms[index][rows].sum()) >= self.asks[index].required for index, rows in within.items())


Placing = Callable[[], list[Rows] | None]
"""Takes room for all asks as things are; None, and nothing taken, where they do not fit."""


def place_with_shared_claims(search: SharedClaimSearch, place: Placing, *, apart: bool) -> list[Rows] | None:
    """Place asks that share open claims; what they share is settled for whoever joins them in this transaction.

    Args:
        search: The asks and their claims.
        place: Places them.
        apart: Whether they may be where one volume is not supposed to be used by all, if nothing else is found.

    Returns:
        Per ask the rows of its pods; None, and nothing taken, where they do not fit.
    """
    mark = search.transaction.mark()
    found = place()
    if found is not None and not any(_is_apart(search, claim, found) for claim in search.claims):
        _settle_with(search, found)
        return found
    search.transaction.rollback(mark)
    for ways in search.ways() if search.helps else ():
        search.settle(ways)
        held = place()
        if held is not None:
            return held
        search.transaction.rollback(mark)
    return place() if found is not None and apart else None


def _is_apart(search: SharedClaimSearch, claim: OpenClaim, placed: Sequence[Rows]) -> bool:
    kept = search.nodes.volumes.pledges.shared(claim.name)
    return not (kept is not None and kept.volume) and claim.is_apart(placed)


def _settle_with(search: SharedClaimSearch, placed: Sequence[Rows]) -> None:
    """Hold those that come to the pods just placed to where the volumes are made that these share."""
    for claim in search.claims:
        row = claim.row(placed)
        kept = search.nodes.volumes.pledges.shared(claim.name)
        if row >= 0 and claim.topology is not None and not (kept is not None and kept.volume):
            search.transaction.settle(claim.name, "", row)
