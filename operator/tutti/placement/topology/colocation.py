"""Asks that must be near one another: a leader and its workers, or members of one gang that are not alike.

A leader (a single pod) and its workers go by the rules of the topology (`fitting`). Other co-located sets are tried in
one domain after another, those that fit the largest ask most tightly first, level by level as far up as they may; in
each domain the hardest ask goes first, then the others, then once more in the opposite order.

Each set takes the domain that suits it best, which may be the one that another had to have; and of a gang of which
some must be near one another the others take room wherever they like. Where that fails, there are two ways:

    orders    the sets in every order, if they are few
    domains   each set that must stay in one domain is held to one after another; with that settled, the topology is
              gone from the question, and arrangements are looked for as for any other gang (`arrangement`)

Sets that would only like to be near one another are not held to anything by the second way. It goes as far as the
search for an arrangement does: all ways together try about as many placements as one of those.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, permutations, product

import msgspec
import numpy as np

from tutti.cluster.nodes import NodeColumns
from tutti.cluster.transaction import Transaction
from tutti.placement.arrangement import ArrangementSearch, most_steps
from tutti.placement.framework import Counts, Mask, Rows
from tutti.placement.gang import Ask, feasible_capacity, hardest_first, has_room_together, place_ask
from tutti.placement.profile import Profile
from tutti.placement.topology.assignment import MOST_TRIED, TopologyChoice, with_whole_slices, without_surplus
from tutti.placement.topology.fill import domain_capacity, leaf_capacity
from tutti.placement.topology.fitting import TopologyAssignment, assign_domains
from tutti.placement.topology.request import (
    LevelRequest,
    RequiredDomain,
    SizedRequest,
    Together,
    TopologyPlacement,
    sized_request,
)
from tutti.placement.topology.tree import DomainTree, domain_tree
from tutti.placement.upper_bounds import upper_bound

_MOST_PLACED = 512
"""How many asks are placed in all domains together in which a set is tried, in each order; one is always tried."""


@dataclass(frozen=True, slots=True)
class ColocatedSet:
    """Asks of one pod set group, all with the same idea of where it goes.

    Attributes:
        asks: What is required; nothing extra.
        listed: The place of each among the asks of its gang.
    """

    nodes: NodeColumns
    transaction: Transaction
    asks: Sequence[Ask]
    listed: Sequence[int]
    profile: Profile

    def place(self) -> list[Rows] | None:
        """Take room for all; returns per ask the rows of its pods; None, and nothing taken, where they do not fit.

        Of two that ask for one pod each, the one listed second is the leader (Kueue 0.20, tas_flavor_snapshot.go,
        findLeaderAndWorkers).
        """
        main = max(range(len(self.asks)), key=lambda index: (self.asks[index].required, -self.listed[index]))
        topology = self.asks[main].topology
        assert topology is not None  # they are of one pod set group
        lead = [index for index in range(len(self.asks)) if index != main]
        if len(lead) == 1 and self.asks[lead[0]].required == 1 and not topology.there:
            found = self._led(main, lead[0], topology)
            if found is not None:
                return found
        for held in self._ways(main, topology):
            placed = self._in(held)
            if placed is not None:
                return placed
        return None

    def _choice(self, main: int, topology: TopologyPlacement) -> TopologyChoice:
        look = partial(feasible_capacity, self.nodes, self.transaction, self.asks[main], self.profile)
        return TopologyChoice.of(self.nodes, topology, look)

    def _led(self, main: int, lead: int, topology: TopologyPlacement) -> list[Rows] | None:
        """Place a leader and its workers by the rules."""
        workers, leader = self.asks[main], self.asks[lead]
        choice = self._choice(main, topology)
        asked = choice.wish(workers.required)
        head = feasible_capacity(self.nodes, self.transaction, leader, self.profile)
        if isinstance(asked, str) or not (choice.seen.is_exact and head.is_exact):
            return None
        asked = replace(asked, leaders=1)
        leads = (head.room > 0) & choice.within
        beside = self._beside(workers, leader, leads)
        cost = np.where(leads, choice.seen.room - beside, np.iinfo(np.int64).max)
        assigned = self._fit(choice, asked, leads, cost)
        if assigned is None:
            return None
        inside = choice.tree.leaf_of == assigned.leader
        mine = int(assigned.pods[assigned.leaves == assigned.leader].sum())
        spare = int((choice.seen.room * choice.within * inside).sum()) - mine
        return self._seat(main, lead, choice, assigned, inside & leads & (cost <= max(spare, int(cost[inside].min()))))

    def _fit(self, choice: TopologyChoice, asked: SizedRequest, leads: Mask, cost: Counts) -> TopologyAssignment | None:
        tree = choice.tree
        pods = tree.sum(choice.seen.room * choice.within)
        least = np.full(len(pods), np.iinfo(np.int64).max)
        rows = np.flatnonzero(leads)
        np.minimum.at(least, tree.leaf_of[rows], cost[rows])
        able = tree.sum(leads.astype(np.int64)) > 0
        leaves = leaf_capacity(pods, able, np.where(able, pods - np.where(able, least, 0), pods))
        found = assign_domains(tree, domain_capacity(tree, leaves, asked), with_whole_slices(asked))
        return without_surplus(tree, found, asked) if isinstance(found, TopologyAssignment) else None

    def _beside(self, workers: Ask, leader: Ask, leads: Mask) -> Counts:
        """Return int64[rows]: how many workers each node has room for with the leader on it."""
        mark = self.transaction.mark()
        rows = np.flatnonzero(leads)
        self.transaction.put(rows, np.ones_like(rows), leader.pod_class)
        room = feasible_capacity(self.nodes, self.transaction, workers, self.profile).room
        self.transaction.rollback(mark)
        return room

    def _seat(
        self, main: int, lead: int, choice: TopologyChoice, assigned: TopologyAssignment, seats: Mask
    ) -> list[Rows] | None:
        """Place the leader on one of its seats, then the workers where they were told to go."""
        mark = self.transaction.mark()
        head = place_ask(
            self.nodes, self.transaction, replace(self.asks[lead], topology=None), self.profile, within=seats
        )
        if head is None:
            return None
        workers = self.asks[main]
        choice.seen = feasible_capacity(self.nodes, self.transaction, workers, self.profile)
        counts = choice.put(choice.within, assigned)
        if int(counts.sum()) < workers.required:
            self.transaction.rollback(mark)
            return None
        placed = [head, head]
        rows = choice.tree.in_order(counts.nonzero()[0])
        placed[main] = rows.repeat(counts[rows])
        return placed

    def _ways(self, main: int, topology: TopologyPlacement) -> Iterator[RequiredDomain | None]:
        """Yield domains to try; None for no particular one."""
        asked = sized_request(topology.asked, topology.levels, self.asks[main].required)
        if isinstance(asked, str):
            return
        if topology.there or asked.loose:
            yield None
            return
        choice = TopologyChoice.of(
            self.nodes, topology, lambda: feasible_capacity(self.nodes, self.transaction, self.asks[main], self.profile)
        )
        rooms = choice.rooms(choice.within, asked)
        left = max(1, min(MOST_TRIED, _MOST_PLACED // len(self.asks)))
        for level in range(asked.level, max(asked.limit, 0) - 1, -1):
            units = rooms[level].slices
            able = np.flatnonzero(units >= asked.slices)
            samples = choice.tree.samples_of(level)
            roomy = self._roomy(choice.tree, level, able[np.argsort(units[able], kind="stable")].tolist())
            for domain in islice(roomy, left):
                yield RequiredDomain(topology.levels, level, int(samples[domain]))
                left -= 1
        if asked.limit < 0:
            yield None

    def _roomy(self, tree: DomainTree, level: int, domains: Iterable[int]) -> Iterator[int]:
        """Yield the domains of a level in which there is as much of each resource as all ask for together."""
        known = np.flatnonzero(tree.leaf_of >= 0)
        of = tree.above(tree.leaf_of[known], tree.lowest, level)
        for domain in domains:
            inside = np.zeros(len(tree.leaf_of), dtype=np.bool_)
            inside[known[of == domain]] = True
            if has_room_together(self.nodes, inside, self.asks, self.profile):
                yield domain

    def _in(self, home: RequiredDomain | None) -> list[Rows] | None:
        """Place all in one domain, or anywhere."""
        order = hardest_first(self.nodes, self.asks)
        for one in (order, order[::-1]):
            placed = self._in_order(one, home)
            if placed is not None:
                return placed
        return None

    def _in_order(self, order: Sequence[int], home: RequiredDomain | None) -> list[Rows] | None:
        mark = self.transaction.mark()
        placed: list[Rows] = [np.zeros(0, dtype=np.int64)] * len(self.asks)
        others: list[int] = []
        for index in order:
            ask = self.asks[index]
            topology = ask.topology
            assert topology is not None  # they are of one pod set group
            topology = (
                topology.joining(others, ())
                if home is None
                else replace(topology, asked=_inside(topology.asked), home=home)
            )
            rows = place_ask(self.nodes, self.transaction, replace(ask, topology=topology), self.profile)
            if rows is None:
                self.transaction.rollback(mark)
                return None
            placed[index] = rows
            others += rows.tolist()
        return placed


def _inside(asked: LevelRequest) -> LevelRequest:
    """Return the request of an ask whose domain has been chosen: as near as asked for, as far as that goes there."""
    loose = asked.together is Together.ANYWHERE
    return asked if loose else replace(asked, together=Together.PREFERRED, within="")


def place_colocated_sets(
    nodes: NodeColumns, transaction: Transaction, asks: Sequence[Ask], profile: Profile
) -> list[Rows] | int:
    """Place what is required of several asks, those of one pod set group together, the hardest first.

    Returns:
        Per ask the rows of its pods; or the first ask of the pod set group that did not fit, with nothing taken.
    """
    return place_in_order(nodes, transaction, asks, colocated_sets(asks, hardest_first(nodes, asks)), profile)


def place_in_order(
    nodes: NodeColumns,
    transaction: Transaction,
    asks: Sequence[Ask],
    order: Sequence[Sequence[int]],
    profile: Profile,
) -> list[Rows] | int:
    """Place what is required of several asks, one pod set group of them after another.

    Returns:
        As `place_colocated_sets`.
    """
    mark = transaction.mark()
    placed: list[Rows] = [np.zeros(0, dtype=np.int64)] * len(asks)
    for members in order:
        found = _place(nodes, transaction, [asks[index] for index in members], members, profile)
        if found is None:
            transaction.rollback(mark)
            return members[0]
        for index, rows in zip(members, found, strict=True):
            placed[index] = rows
    return placed


def colocated_sets(asks: Sequence[Ask], order: Sequence[int]) -> list[list[int]]:
    """Return the asks that want pods, those of one pod set group side by side, in the order of the first of each."""
    out: dict[object, list[int]] = {}
    for index in order:
        topology = asks[index].topology
        if asks[index].required:
            out.setdefault(
                topology.pod_set_group if topology is not None and topology.pod_set_group != "" else index, []
            ).append(index)
    return list(out.values())


def _place(
    nodes: NodeColumns, transaction: Transaction, asks: Sequence[Ask], listed: Sequence[int], profile: Profile
) -> list[Rows] | None:
    if len(asks) > 1:
        return ColocatedSet(nodes, transaction, asks, listed, profile).place()
    rows = place_ask(nodes, transaction, asks[0], profile)
    return None if rows is None else [rows]


def expecting(ask: Ask) -> Ask:
    """Return what is required of an ask, which would rather be where what is extra has room too."""
    topology = None if ask.topology is None else replace(ask.topology, growth=ask.topology.growth + ask.extra)
    return replace(ask, extra=0, topology=topology)


def joining(asks: Sequence[Ask], index: int, placed: Sequence[Rows]) -> Ask:
    """Return what is extra of an ask, which joins those of its pod set group that have just been placed."""
    ask = replace(asks[index], required=0)
    if ask.topology is None:
        return ask
    there: list[int] = []
    own: list[int] = []
    for at, other in enumerate(asks):
        if other.topology is None or (
            at != index
            and (ask.topology.pod_set_group == "" or other.topology.pod_set_group != ask.topology.pod_set_group)
        ):
            continue
        rows = placed[at].tolist()
        there += rows
        own += rows if other.topology.group == ask.topology.group else []
    return replace(ask, topology=ask.topology.joining(there, own))


DomainLabels = tuple[tuple[str, str], ...]
"""The labels that the nodes of a domain have in common; none for all nodes."""

_ALL_ORDERS_OF = 4
_STEPS_OF_A_WAY = 8


@dataclass(frozen=True, slots=True)
class DomainSearch:
    """One search for one gang; everything it takes is given back unless it finds something.

    Attributes:
        asks: What is required; nothing extra.
    """

    nodes: NodeColumns
    transaction: Transaction
    asks: Sequence[Ask]
    profile: Profile

    def run(self) -> list[Rows] | None:
        """Return per ask the rows of its pods; None where no arrangement is found."""
        order = hardest_first(self.nodes, self.asks)
        groups = colocated_sets(self.asks, order)
        if len(self.asks) == 1 or any(ask.pod_class.refusal for ask in self.asks):
            return None
        return self._by_order(groups) or self._by_domain(groups, order)

    def _by_order(self, groups: list[list[int]]) -> list[Rows] | None:
        if len(groups) > _ALL_ORDERS_OF:
            return None
        for one in islice(permutations(groups), 1, None):
            placed = place_in_order(self.nodes, self.transaction, self.asks, one, self.profile)
            if not isinstance(placed, int):
                return placed
        return None

    def _by_domain(self, groups: list[list[int]], order: Sequence[int]) -> list[Rows] | None:
        if not all(map(_is_plain, self.asks)):
            return None
        self.transaction.show()
        steps = most_steps(self.nodes)
        most = max(1, steps // max(_STEPS_OF_A_WAY, len(order)))
        ways = list(islice(product(*(list(islice(self._domains(group), most)) for group in groups)), most))
        for chosen in ways:
            held = list(self.asks)
            for group, labels in zip(groups, chosen, strict=True):
                for index in group:
                    held[index] = _held(self.asks[index], labels)
            found = self._arranged(held, [index for index in order if held[index].required], steps // len(ways))
            if found is not None:
                return found
        return None

    def _arranged(self, asks: Sequence[Ask], order: Sequence[int], steps: int) -> list[Rows] | None:
        mark = self.transaction.mark()
        placed: list[Rows] = [np.zeros(0, dtype=np.int64)] * len(asks)
        failed = None
        for index in order:
            rows = place_ask(self.nodes, self.transaction, asks[index], self.profile)
            if rows is None:
                failed = index
                break
            placed[index] = rows
        if failed is not None:
            self.transaction.rollback(mark)
            found = ArrangementSearch(self.nodes, self.transaction, asks, self.profile, steps=steps).run(order, failed)
            if found is None:
                return None
            placed = found
        if not all(self._is_known(ask, rows) for ask, rows in zip(self.asks, placed, strict=True)):
            self.transaction.rollback(mark)
            return None
        return placed

    def _is_known(self, ask: Ask, rows: Rows) -> bool:
        """Whether the nodes of an ask have all labels of its topology."""
        return ask.topology is None or bool((domain_tree(self.nodes, ask.topology.levels).leaf_of[rows] >= 0).all())

    def _domains(self, group: Sequence[int]) -> Iterator[DomainLabels]:
        """Yield the domains that asks may be held to, the tightest first; one without labels where there is none."""
        topology = next((self.asks[index].topology for index in group if self.asks[index].topology is not None), None)
        asked = None if topology is None else sized_request(topology.asked, topology.levels, 1)
        if topology is None or asked is None or isinstance(asked, str) or asked.limit < 0:
            yield ()
            return
        tree = domain_tree(self.nodes, topology.levels)
        samples = tree.samples_of(asked.limit)
        enough, total = np.ones(len(samples), dtype=np.bool_), np.zeros(len(samples), dtype=np.int64)
        for index in group:
            room = self._room(index, tree, asked.limit, len(samples))
            enough &= room >= self.asks[index].required
            total += room
        for domain in np.argsort(total, kind="stable").tolist():
            if enough[domain]:
                yield self._labels(int(samples[domain]), topology.levels[: asked.limit + 1])

    def _room(self, index: int, tree: DomainTree, level: int, count: int) -> Rows:
        """Return int64[domains of a level]: how many pods of an ask each has room for, whoever else is there."""
        room = upper_bound(self.nodes, self.asks[index], [ask.pod_class for ask in self.asks], self.profile)
        known = np.flatnonzero(tree.leaf_of >= 0)
        domains = tree.above(tree.leaf_of[known], tree.lowest, level)
        return np.bincount(domains, room[known], count).astype(np.int64)

    def _labels(self, row: int, levels: Sequence[str]) -> DomainLabels:
        columns = [self.nodes.label(level) for level in levels]
        return tuple((level, one.values[one.codes[row]]) for level, one in zip(levels, columns, strict=True))


def _is_plain(ask: Ask) -> bool:
    """Whether nearness means no more than one domain, for pods that are the first."""
    topology = ask.topology
    return topology is None or not (
        topology.there or topology.own or topology.home is not None or topology.asked.slices
    )


def _held(ask: Ask, labels: DomainLabels) -> Ask:
    """Return an ask that is held to the nodes with some labels, and minds nearness no more."""
    where = msgspec.structs.replace(ask.where, node_labels=(*ask.where.node_labels, *labels)) if labels else ask.where
    return replace(ask, topology=None, where=where)
