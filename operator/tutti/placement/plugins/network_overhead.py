"""Pods go where the network to those they depend on costs least, and where it has the bandwidth for them.

The filter and the score are NetworkOverhead's (scheduler-plugins 903da7df): a pod that depends on others is kept off a
node from where more of these dependencies are violated than satisfied, and what they cost together is scored from the
least to the most of the nodes that are left. Both see the pods that are placed, and only those that this one depends
on. What the original leaves out comes on top: links whose bandwidth is taken, dependencies that all have to be
satisfied (`strict`), and AppGroups that are missing, for which pods wait. Several pods of an application that are
placed together go to least cost as a whole instead (`placement/least_network_cost.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tutti.api import quantity
from tutti.api.messages import escape_controls, shortened
from tutti.api.network import GROUP_LABEL, REGION, WORKLOAD_LABEL, ZONE, AppGroup
from tutti.cluster.classes import Feature, PodClass
from tutti.cluster.network import Peers, peers_of
from tutti.cluster.network_places import MOST_TRAFFIC, NO_LINK, LabelCodes, LinkName, Places, Traffic, count_by_place
from tutti.cluster.nodes import NodeColumns
from tutti.placement.framework import (
    MAX_SCORE,
    Counts,
    FixedRejections,
    FlavorConstraints,
    Mask,
    Rejection,
    Rows,
    Scores,
)

TOO_COSTLY: Final = "network to most of those it depends on costs more than maxNetworkCost"
NOT_WITHIN: Final = "network to those it depends on, or that depend on it, is not known to cost at most maxNetworkCost"
NO_BANDWIDTH: Final = "too little bandwidth left"
MOST_LINKS_TOLD: Final = 4
"""Of so many links it is said how much bandwidth is left of them."""


@dataclass(frozen=True, slots=True)
class NetworkRules:
    """What of the network counts.

    Attributes:
        strict: Whether every dependency has to be satisfied, in both directions.
        bandwidth: Whether links have room for so much only.
    """

    strict: bool = False
    bandwidth: bool = False


def application_of(pod_class: PodClass, nodes: NodeColumns) -> AppGroup | None:
    """Return the AppGroup of a class that it is a part of; None where it is missing, or cannot be read."""
    group = nodes.network.group_of(pod_class.namespace, pod_class.labels.get(GROUP_LABEL, ""))
    return None if group is None or group.problem else group


def places_of(nodes: NodeColumns) -> Places:
    """Return where nodes are, and what lies between."""
    region, zone = (LabelCodes(one.codes, one.values) for one in (nodes.label(REGION), nodes.label(ZONE)))
    return nodes.network.places(nodes.version, region, zone, len(nodes))


Placed = tuple[Peers, Rows, Counts]
"""Whom a class talks to, on which distinct rows they are, and how many on each."""


def placed_peers(pod_class: PodClass, group: AppGroup, nodes: NodeColumns, *, reverse: bool) -> list[Placed]:
    """Return those that a class depends on, as far as they are placed and, if asked, those that depend on it."""
    network, mine = nodes.network, pod_class.labels.get(WORKLOAD_LABEL, "")
    found, where = [], dict[str, tuple[Rows, Counts]]()
    for one in peers_of(group, mine, reverse=reverse):
        if one.workload not in where:
            where[one.workload] = network.pods_of(pod_class.namespace, group, one.workload, nodes.rows)
        at, many = where[one.workload]
        if len(at):
            found.append((one, at, many))
    return found


@dataclass(slots=True)
class Tally:
    """What one more pod of a class would cost by the row that it would be on.

    Attributes:
        cost, satisfied, violated: int64[rows]; what is not known is neither satisfied nor violated.
        pairs: How many pods it talks to, each counted once for each dependency.
    """

    places: Places
    cost: Counts
    satisfied: Counts
    violated: Counts
    pairs: int = 0

    @classmethod
    def of(cls, peers: Sequence[Placed], places: Places) -> Tally:
        """Count over those that are placed."""
        cost, satisfied, violated = (np.zeros(len(places.codes), dtype=np.int64) for _ in range(3))
        out = cls(places, cost, satisfied, violated)
        out.count(peers)
        return out

    def count(self, peers: Sequence[Placed]) -> None:
        """Count so many more pods of workloads on some rows, at once, however many dependencies there are."""
        for is_needed in (True, False):
            mine = [one for one in peers if one[0].is_needed is is_needed]
            if mine:
                self._count(mine, is_needed=is_needed)

    def _count(self, peers: Sequence[Placed], *, is_needed: bool) -> None:
        """Count those that are talked to in one direction.

        What is satisfied goes by how many pods in a place have a limit of at least what lies between: with the limits
        in order, that is a sum over those from the first that is high enough.
        """
        places, codes = self.places, self.places.codes
        limits, which = np.unique([peer.by.max_cost for peer, _, _ in peers], return_inverse=True)
        at, many = (np.concatenate([one[part] for one in peers]) for part in (1, 2))
        there = np.zeros((len(places), len(limits) + 1), dtype=np.int64)
        np.add.at(there, (codes[at], np.repeat(which, [len(rows) for _, rows, _ in peers])), many)
        near = np.flatnonzero(there.any(axis=1))
        at_least = np.cumsum(there[near, ::-1], axis=1)[:, ::-1]
        pods = at_least[:, 0]

        def to_each(matrix: NDArray[Any]) -> NDArray[Any]:
            found: NDArray[Any] = matrix[:, near] if is_needed else matrix[near].T
            return found

        cost, is_same, is_said = to_each(places.cost), to_each(places.is_same), to_each(places.is_said)
        reaches = to_each(places.reaches)
        enough = at_least[np.arange(len(near)), np.searchsorted(limits, cost)]
        good = np.where(reaches, np.where(is_same, pods, np.where(is_said, enough, 0)), 0)
        bad = np.where(reaches, np.where(~is_same & is_said, pods - enough, 0), pods)
        self.cost += (cost @ pods)[codes]
        self.satisfied += good.sum(axis=1)[codes]
        self.violated += bad.sum(axis=1)[codes]
        mine, nowhere = codes[at], places.is_nowhere[codes[at]]  # on one node nothing lies between
        np.subtract.at(self.cost, at, many * places.cost[mine, mine])
        np.add.at(self.satisfied, at, many * nowhere)
        np.subtract.at(self.violated, at, many * nowhere)
        self.pairs += int(many.sum())


_NONE: Final[Counts] = np.zeros(0, dtype=np.int64)


@dataclass(slots=True)
class LinkRoom:
    """How many more pods of a class the links have bandwidth for.

    A pod takes of those links only that lead to whom it talks to. So what it takes is kept as a list: one item for each
    place that it may be in and each link that it would take anything of there.

    Attributes:
        left: int64[links], what is left of each.
        at, link, amount: int64[n], how much of which link one of them takes in which place.
    """

    places: Places
    left: Counts
    at: Counts = field(default_factory=lambda: _NONE)
    link: Counts = field(default_factory=lambda: _NONE)
    amount: Counts = field(default_factory=lambda: _NONE)

    @classmethod
    def of(cls, peers: Sequence[Placed], places: Places, used: Counts) -> LinkRoom:
        """Count over those that are placed; `used` is int64[links], what is taken by others."""
        out = cls(places, np.array([one.capacity for one in places.links], dtype=np.int64) - used)
        out.ask(peers)
        return out

    def ask(self, peers: Sequence[Placed]) -> None:
        """Have each take what it takes to talk to so many more pods of workloads on some rows."""
        items = [(self.at, self.link, self.amount)]
        for is_needed in (True, False):
            there = np.zeros(len(self.places), dtype=np.float64)
            for peer, at, many in peers:
                if peer.is_needed is is_needed and peer.by.bandwidth:
                    there += float(peer.by.bandwidth) * count_by_place(self.places, at, many)
            amounts = np.minimum(there, MOST_TRAFFIC).astype(np.int64)
            near = np.flatnonzero(amounts)
            link = self.places.link[:, near] if is_needed else self.places.link[near].T
            place, which = np.nonzero(link != NO_LINK)
            items.append((place, link[place, which], amounts[near][which]))
        place, links, taken = (np.concatenate(part) for part in zip(*items, strict=True))
        width = max(1, len(self.left))
        keys, same = np.unique(place * width + links, return_inverse=True)
        total = np.zeros(len(keys), dtype=np.float64)
        np.add.at(total, same, taken)
        self.at, self.link = keys // width, keys % width
        self.amount = np.minimum(total, MOST_TRAFFIC).astype(np.int64)

    def taken(self, pods: Counts) -> Traffic:
        """Return what pods of the class take of links, of which int64[places] are where."""
        return Traffic(self.link, pods[self.at].astype(np.float64) * self.amount)

    def room(self) -> Counts:
        """Return int64[rows]: how many more pods fit on each."""
        room = np.full(len(self.places), MOST_TRAFFIC, dtype=np.int64)
        np.minimum.at(room, self.at, np.maximum(self.left[self.link], 0) // self.amount)
        by_row: Counts = room[self.places.codes]
        return by_row

    def add(self, row: int) -> None:
        """Count one more pod on a row."""
        here = self.at == self.places.codes[row]
        self.left = self.left.copy()
        self.left[self.link[here]] -= self.amount[here]

    def rejections(self) -> list[Rejection]:
        """Rule out nodes whose links have too little left, each link by itself as long as these are few."""
        short = self.amount > self.left[self.link]
        at, link, amount = self.at[short], self.link[short], self.amount[short]
        told: list[Rejection] = []
        rest = self._rows_in(at)
        for one in np.unique(link)[:MOST_LINKS_TOLD].tolist():
            mine = link == one
            hit = self._rows_in(at[mine]) & rest
            if hit.any():
                said = told_link(self.places.links[one], int(self.left[one]), int(amount[mine].max()))
                told.append(Rejection(said, hit))
                rest &= ~hit
        return [*told, Rejection(NO_BANDWIDTH, rest)] if rest.any() else told

    def _rows_in(self, places: Counts) -> Mask:
        """Return bool[rows]: who is in one of some places."""
        within = np.zeros(len(self.places), dtype=np.bool_)
        within[places] = True
        by_row: Mask = within[self.places.codes]
        return by_row


def told_link(link: LinkName, left: int, need: int) -> str:
    """Return what a link is short of."""
    where = f"from {escape_controls(shortened(link.origin))} to {escape_controls(shortened(link.destination))}"
    free, capacity, asked = (quantity.shortest(1000 * max(one, 0)) for one in (left, link.capacity, need))
    return f"{NO_BANDWIDTH} {where}: {free} of {capacity} where {asked} is needed"


@dataclass(slots=True)
class NetworkFilterState:
    """The filter's state in one choice.

    Attributes:
        tally: What is satisfied and violated where.
        links: What bandwidth there is; None where none is looked at.
        own: Dependencies on pods of the class itself, so that each that is placed counts for the next.
        strict: Whether every dependency has to be satisfied.
    """

    tally: Tally
    links: LinkRoom | None
    own: Sequence[Peers]
    strict: bool
    changes_on_add: bool = True
    one_per_node: bool = False

    def room(self, most: int) -> Counts:
        """Return int64[rows]: how many more pods fit on each node, as far as pods of the class cannot mend it."""
        room = np.full(len(self.tally.cost), most, dtype=np.int64)
        if not self.own:
            room[self._bad()] = 0
        return room if self.links is None else np.minimum(room, self.links.room())

    def _bad(self) -> Mask:
        tally = self.tally
        return tally.satisfied < tally.pairs if self.strict else tally.violated > tally.satisfied

    def rejections(self) -> Sequence[Rejection]:
        """Rule out nodes by dependencies, then by bandwidth; never for good, for others come and go."""
        bad = self._bad()
        said = [Rejection(NOT_WITHIN if self.strict else TOO_COSTLY, bad)] if bad.any() else []
        return said if self.links is None else [*said, *self.links.rejections()]

    def add(self, row: int) -> None:
        """Count one more pod of the class on a row."""
        at, many = np.array([row]), np.ones(1, dtype=np.int64)
        if self.links is not None:
            self.links.add(row)
        own = [(one, at, many) for one in self.own]
        self.tally.count(own)
        if self.links is not None:
            self.links.ask(own)


@dataclass(frozen=True, slots=True)
class NetworkFilter:
    """The filter."""

    rules: NetworkRules = NetworkRules()
    concerns: int = field(default=Feature.NETWORK, init=False)

    def pre_filter(
        self,
        pod_class: PodClass,
        nodes: NodeColumns,
        where: FlavorConstraints,  # noqa: ARG002 - a filter's signature
    ) -> NetworkFilterState | FixedRejections | None:
        """Count over the pods of the application; None where the class talks to nobody, and nobody to it."""
        group = application_of(pod_class, nodes)
        if group is None:
            return FixedRejections([Rejection(why_not_an_application(pod_class, nodes), nodes.present)])
        peers = placed_peers(pod_class, group, nodes, reverse=True)
        mine = pod_class.labels.get(WORKLOAD_LABEL, "")
        judged = peers if self.rules.strict else [one for one in peers if one[0].is_needed]
        own = [one for one in peers_of(group, mine, reverse=self.rules.strict) if one.workload == mine]
        if not peers and not own:
            return None
        places = places_of(nodes)
        links = None
        if self.rules.bandwidth and places.links:
            links = LinkRoom.of(peers, places, nodes.network.usage(places, nodes.rows))
            links = links if len(links.at) or own else None
        return NetworkFilterState(
            Tally.of(judged, places), links, own, self.rules.strict, changes_on_add=bool(own) or links is not None
        )


def why_not_an_application(pod_class: PodClass, nodes: NodeColumns) -> str:
    """Return why the AppGroup that pods name is none that they can be a part of."""
    name = pod_class.labels.get(GROUP_LABEL, "")
    found = nodes.network.group_of(pod_class.namespace, name)
    if found is not None:
        return f"AppGroup {found.namespace}/{found.name}: {found.problem}"
    looked = " or ".join(dict.fromkeys((pod_class.namespace, *nodes.network.namespaces)))
    return f"AppGroup {escape_controls(shortened(name))} does not exist in namespace {shortened(looked)}"


@dataclass(slots=True)
class NetworkScoreState:
    """What pods of a class cost by the row."""

    tally: Tally
    own: Sequence[Peers]

    def scores(self, rows: Rows) -> Scores:
        """Return int64[len(rows)]: MAX_SCORE for the cheapest, 0 for the dearest; 0 for all where nothing costs."""
        raw = self.tally.cost[rows]
        least, most = int(raw.min(initial=MAX_TOTAL)), int(raw.max(initial=0))
        if most == 0:
            return np.zeros(len(rows), dtype=np.int64)
        spread = max(most - least, 1)
        part = (float(MAX_SCORE) * (raw - least) / float(spread)).astype(np.int64)
        scores: Scores = MAX_SCORE - part
        return scores

    def add(self, row: int) -> None:
        """Count one more pod of the class on a row."""
        self.tally.count([(one, np.array([row]), np.ones(1, dtype=np.int64)) for one in self.own])


MAX_TOTAL: Final = 2**62
"""More than all pods of a cluster cost together."""


@dataclass(frozen=True, slots=True)
class NetworkOverhead:
    """The score."""

    name: str = "NetworkOverhead"
    weight: int = 1
    concerns: int = field(default=Feature.NETWORK, init=False)

    def pre_score(self, pod_class: PodClass, nodes: NodeColumns) -> NetworkScoreState | None:
        """Count over those that a class depends on; None where none of them is placed, or will be."""
        group = application_of(pod_class, nodes)
        if group is None:
            return None
        peers = placed_peers(pod_class, group, nodes, reverse=False)
        mine = pod_class.labels.get(WORKLOAD_LABEL, "")
        own = [one for one in peers_of(group, mine, reverse=False) if one.workload == mine]
        return NetworkScoreState(Tally.of(peers, places_of(nodes)), own) if peers or own else None
