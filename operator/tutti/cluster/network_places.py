"""The places that nodes stand in, what it costs to talk from one to another, and what links lie between.

Nodes stand in places: pairs of a region and a zone. What lies between two places is a dense matrix, so that what a pod
would cost anywhere is one product (scheduler-plugins 903da7df, pkg/networkaware/networkoverhead): nothing on one node,
1 in one zone, else what the NetworkTopology says from zone to zone of a region, or from region to region; `MAX_COST`
where it says nothing, and to a node that is in neither. Costs have a direction: from the pod that depends on another
to that other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tutti.api.network import REGION, ZONE, Links

MAX_COST: Final = 100
"""What is taken where nothing is said."""
SAME_ZONE: Final = 1
MOST_PLACES: Final = 1024
"""Nodes in further places count as in none."""
NO_LINK: Final = -1
ABSENT: Final = -1
MOST_TRAFFIC: Final = 2**52
"""More than any link has; what pods take is told as no more than that, whatever they ask for."""

Counts = NDArray[np.int64]


class LabelCodes(NamedTuple):
    """One label of all nodes: int32[rows] into `values`, below 0 where a node lacks it."""

    codes: NDArray[np.int32]
    values: Sequence[str]


class LinkName(NamedTuple):
    """What lies between two zones or regions.

    Attributes:
        key: The label that names both.
        capacity: How much can be taken, in bits per second.
    """

    key: str
    origin: str
    destination: str
    capacity: int


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """Where nodes are, and what lies between.

    Attributes:
        codes: int64[rows], the place of each node.
        cost: int64[places, places], from the one to the other.
        is_said: bool[places, places], where the NetworkTopology says it.
        is_same: bool[places, places], one place to itself.
        is_nowhere: bool[places], neither a region nor a zone.
        link: int64[places, places], which of `links` lies between; NO_LINK: none that is limited.
        links: Those of which is said how much can be taken.
    """

    codes: Counts
    cost: Counts
    is_said: NDArray[np.bool_]
    is_same: NDArray[np.bool_]
    is_nowhere: NDArray[np.bool_]
    link: Counts
    links: Sequence[LinkName]

    def __len__(self) -> int:
        return len(self.cost)

    def satisfied(self, max_cost: int) -> NDArray[np.bool_]:
        """Return bool[places, places]: from where to where a dependency is satisfied."""
        return self.reaches & (self.is_same | (self.is_said & (self.cost <= max_cost)))

    def violated(self, max_cost: int) -> NDArray[np.bool_]:
        """Return bool[places, places]: from where to where it is violated; neither where nothing is known."""
        return ~self.reaches | (~self.is_same & self.is_said & (self.cost > max_cost))

    @property
    def reaches(self) -> NDArray[np.bool_]:
        """bool[places, places], where the destination is somewhere."""
        return np.broadcast_to(~self.is_nowhere, self.cost.shape)


def count_by_place(places: Places, rows: NDArray[np.int64], many: Counts) -> Counts:
    """Return int64[places]: how many pods are in each, of how many are on which rows."""
    out = np.zeros(len(places), dtype=np.int64)
    np.add.at(out, places.codes[rows], many)
    return out


class Traffic(NamedTuple):
    """What pods take of links that talk to others, link by link; one may be there several times.

    Attributes:
        links: int64[n], which of the links of the places.
        amounts: float64[n], in bits per second.
    """

    links: Counts
    amounts: NDArray[np.float64]


def traffic(places: Places, origin: Counts, destination: Counts, bandwidth: int) -> Traffic:
    """Return what pods take that talk to others, each to each.

    Args:
        places: Where they are.
        origin: int64[places], how many of the ones are where.
        destination: The same of the others.
        bandwidth: What every two of them take.
    """
    at, to = np.flatnonzero(origin), np.flatnonzero(destination)
    link = places.link[np.ix_(at, to)]
    amounts = float(bandwidth) * np.outer(origin[at], destination[to])
    limited = link != NO_LINK
    return Traffic(link[limited], amounts[limited])


def sum_by_link(places: Places, parts: Iterable[Traffic]) -> Counts:
    """Return int64[links]: what is taken of each by all of the parts together, at most `MOST_TRAFFIC`.

    Amounts are whole numbers, so that their sum is exact as far as it counts.
    """
    used = np.zeros(len(places.links), dtype=np.float64)
    for links, amounts in parts:
        np.add.at(used, links, amounts)
    return np.minimum(used, MOST_TRAFFIC).astype(np.int64)


def sort_into_places(regions: LabelCodes, zones: LabelCodes, count: int, between: Links, within: Links) -> Places:
    """Sort rows into places, and find what lies between these.

    Args:
        regions: The region label of all nodes.
        zones: Their zone label.
        count: How many rows there are.
        between: What the NetworkTopology says from region to region.
        within: The same from zone to zone.
    """
    region_of, zone_of = _said(regions, count), _said(zones, count)
    wide = len(zones.values) + 1
    known, codes = np.unique((region_of + 1) * wide + zone_of + 1, return_inverse=True)
    region, zone = known // wide - 1, known % wide - 1
    if len(known) > MOST_PLACES:
        region = np.append(region[: MOST_PLACES - 1], ABSENT)
        zone = np.append(zone[: MOST_PLACES - 1], ABSENT)
        codes = np.minimum(codes, MOST_PLACES - 1)
    far, near = _gathered(between, region, regions.values), _gathered(within, zone, zones.values)
    same_region = region[:, None] == region
    is_same = same_region & (zone[:, None] == zone)
    is_said = np.where(same_region, near.is_said, far.is_said)
    is_nowhere = (region < 0) & (zone < 0)  # of the destination
    cost = np.where(is_said, np.where(same_region, near.cost, far.cost), MAX_COST)
    cost = np.where(is_nowhere, MAX_COST, np.where(is_same, SAME_ZONE, cost))
    shifted = np.where(far.link == NO_LINK, NO_LINK, far.link + len(near.limited))
    link = np.where(is_same | is_nowhere, NO_LINK, np.where(same_region, near.link, shifted))
    links = [LinkName(key, *one) for key, found in ((ZONE, near), (REGION, far)) for one in found.limited]
    return Places(codes.astype(np.int64), cost, is_said, is_same, is_nowhere, link, links)


def _said(column: LabelCodes, count: int) -> Counts:
    """Return int64[count]: the codes of a label; an empty one is none."""
    codes = column.codes[:count].astype(np.int64)
    if "" in column.values:
        codes[codes == column.values.index("")] = ABSENT
    return codes


@dataclass(frozen=True, slots=True)
class _Gathered:
    """What lies between places by one label: arrays of [places, places], and the links that are limited."""

    cost: Counts
    is_said: NDArray[np.bool_]
    link: Counts
    limited: Sequence[tuple[str, str, int]]


def _gathered(links: Links, codes: Counts, values: Sequence[str]) -> _Gathered:
    """Look up what lies between places by the codes of one label, below 0: without it."""
    used, index = np.unique(codes, return_inverse=True)
    place_of = {values[code]: at for at, code in enumerate(used.tolist()) if code >= 0}
    cost = np.full((len(used), len(used)), MAX_COST, dtype=np.int64)
    is_said = np.zeros(cost.shape, dtype=np.bool_)
    link = np.full(cost.shape, NO_LINK, dtype=np.int64)
    limited: list[tuple[str, str, int]] = []
    for (origin, destination), found in links.items():
        at, to = place_of.get(origin), place_of.get(destination)
        if at is None or to is None:
            continue
        cost[at, to], is_said[at, to] = found.cost, True
        if found.capacity is not None:
            link[at, to] = len(limited)
            limited.append((origin, destination, found.capacity))
    pairs = np.ix_(index, index)
    return _Gathered(cost[pairs], is_said[pairs], link[pairs], limited)
