"""Pods of an application that are placed together go where all of them together cost least over the network.

One after the other they would herd around whoever came first, and what depends on them would find the room taken. So
it is worked out first how many pods of each ask go to which site (`network_plan.py`): to which node where there are
few of these, else to which place, a zone of a region. Then each ask is placed there by the other rules of its profile.
Where no plan can be carried out, pods are placed one ask after another, by the rules that single pods go by.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Final

import numpy as np

from tutti.api.network import WORKLOAD_LABEL, AppGroup
from tutti.cluster.classes import Feature
from tutti.cluster.network import Peers, peers_of
from tutti.cluster.network_places import Places, sum_by_link, traffic
from tutti.cluster.nodes import NodeColumns
from tutti.cluster.transaction import Transaction
from tutti.placement.alike import are_alike, minds_nodes_alone, place_alike
from tutti.placement.feasible_capacity import FeasibleCapacity
from tutti.placement.framework import Counts, Mask, Rows
from tutti.placement.gang import Ask, feasible_capacity, place_ask, required_amounts
from tutti.placement.network_plan import MOST_PLANS, Plan, PlanningProblem, plans
from tutti.placement.plugins.network_overhead import (
    LinkRoom,
    NetworkRules,
    Tally,
    application_of,
    placed_peers,
    places_of,
)
from tutti.placement.profile import Profile
from tutti.placement.sites import Sites
from tutti.placement.ties import best_first

MOST_TRIED: Final = 8
"""How many plans are tried; more are looked at where rules forbid some."""
MOST_LOOKED_AT: Final = 512
MOST_PARTS: Final = 16
"""Of more unlike parts than these no plan is made; they are placed one after another."""
MOST_TOGETHER: Final = 64
"""More pods of one ask than these in one zone are not looked for nodes for that they share with others."""
_MOST_NODES: Final = 64
"""On more nodes than these no gang has few plans."""


def is_planned(asks: Sequence[Ask], profile: Profile) -> bool:
    """Whether pods are placed by what the network costs all of them: several at once, of applications."""
    if profile.network is None or not any(ask.pod_class.features & Feature.NETWORK for ask in asks):
        return False
    return sum(ask.required for ask in asks) > 1 and all(ask.topology is None for ask in asks)


@dataclass(frozen=True, slots=True)
class _Part:
    """An ask whose pods talk to somebody.

    Attributes:
        index: Which of the asks.
        seen: What it can have, as far as the network does not matter.
        cost: What one of its pods costs with those that are placed.
        judged: The same by the rules of the filter.
        links: What bandwidth one of them takes to those that are placed; None where no link is limited.
    """

    index: int
    ask: Ask
    group: AppGroup
    workload: str
    seen: FeasibleCapacity
    cost: Tally
    judged: Tally
    links: LinkRoom | None


@dataclass(frozen=True, slots=True)
class _Talk:
    """That pods of one part depend on those of another, which may be itself."""

    origin: int
    to: int
    by: Peers


def place_at_least_network_cost(
    nodes: NodeColumns, transaction: Transaction, asks: Sequence[Ask], order: Sequence[int], profile: Profile
) -> list[Rows] | None:
    """Place what several asks require; returns the rows of each, or None, and nothing taken, where no plan does it.

    Args:
        nodes: The columns.
        transaction: Takes the room.
        asks: What is required; nothing extra.
        order: In which order they are placed.
        profile: How pods are placed.
    """
    beside, rules = profile.beside_network, profile.network
    assert beside is not None
    assert rules is not None
    if sum(_is_part(ask) for ask in asks) > MOST_PARTS:
        return None
    places = places_of(nodes)
    parts = _parts(nodes, transaction, asks, beside, rules, places)
    talks = _talks(parts)
    if not (talks or any(part.judged.pairs or part.cost.pairs for part in parts)):
        return None
    search = _Search(nodes, asks, order, parts, talks, beside, rules, places)
    mark = transaction.mark()
    for plan, sites in islice(search.allowed(), MOST_TRIED):
        placed = search.carry_out(transaction, plan, sites)
        if placed is not None:
            return placed
        transaction.rollback(mark)
    return None


def _is_part(ask: Ask) -> bool:
    return bool(ask.required and ask.pod_class.features & Feature.NETWORK)


def _parts(
    nodes: NodeColumns,
    transaction: Transaction,
    asks: Sequence[Ask],
    beside: Profile,
    rules: NetworkRules,
    places: Places,
) -> list[_Part]:
    """Return the asks whose pods are of an application; none of them where one of these is missing."""
    parts = []
    used = nodes.network.usage(places, nodes.rows) if rules.bandwidth and places.links else None
    for index, ask in enumerate(asks):
        if not _is_part(ask):
            continue
        group = application_of(ask.pod_class, nodes)
        if group is None or ask.pod_class.refusal:
            return []
        peers = placed_peers(ask.pod_class, group, nodes, reverse=True)
        judged = peers if rules.strict else [one for one in peers if one[0].is_needed]
        links = None if used is None else LinkRoom.of(peers, places, used)
        seen = feasible_capacity(nodes, transaction, ask, beside, most=ask.required)
        workload = ask.pod_class.labels.get(WORKLOAD_LABEL, "")
        cost = Tally.of(peers, places)
        limits = cost if len(judged) == len(peers) else Tally.of(judged, places)
        parts.append(_Part(index, ask, group, workload, seen, cost, limits, links))
    return parts


def _talks(parts: Sequence[_Part]) -> list[_Talk]:
    """Return which of the parts depend on which."""
    return [
        _Talk(origin, to, one)
        for origin, mine in enumerate(parts)
        for one in peers_of(mine.group, mine.workload, reverse=False)
        for to, other in enumerate(parts)
        if other.group == mine.group and other.workload == one.workload
    ]


@dataclass(frozen=True, slots=True)
class _Search:
    """One gang for which the best plan is looked for that can be carried out."""

    nodes: NodeColumns
    asks: Sequence[Ask]
    order: Sequence[int]
    parts: Sequence[_Part]
    talks: Sequence[_Talk]
    profile: Profile
    rules: NetworkRules
    places: Places

    def allowed(self) -> Iterator[tuple[Plan, Sites]]:
        """Yield plans that the rules of the network allow, the best first."""
        rows = np.flatnonzero(np.logical_or.reduce([part.seen.room > 0 for part in self.parts]))
        if not len(rows):
            return
        wanted = np.array([part.ask.required for part in self.parts], dtype=np.int64)
        if len(rows) <= _MOST_NODES:
            # Of plans that cost the same the first sites go first.
            best = rows[best_first(self.parts[0].seen.choice.keys(rows))]
            sites = Sites.of_nodes(best, self.places)
            problem = self._problem(sites, wanted)
            if problem.plans <= MOST_PLANS:
                yield from self._by_rules(problem, sites)
                return
        sites = Sites.of_places(rows, self.places)
        yield from self._by_rules(self._problem(sites, wanted), sites)

    def _problem(self, sites: Sites, wanted: Counts) -> PlanningProblem:
        parts = self.parts
        talks = np.zeros((len(parts), len(parts)), dtype=np.int64)
        for one in self.talks:
            talks[one.origin, one.to] += 1
        names = list(required_amounts((part.ask for part in parts), self.profile))
        columns = [self.nodes.resource_index.column(name) for name in names]
        amounts = [[part.ask.pod_class.requests.get(name, 0) for name in names] for part in parts]
        free = np.zeros((len(sites), len(names)), dtype=np.int64)
        for at, column in enumerate(columns):
            free[:, at] = sites.sums(np.maximum(self.nodes.allocatable[:, column] - self.nodes.requested[:, column], 0))
        return PlanningProblem(
            sites.between(self.places.cost, 0),
            talks,
            np.stack([sites.most(part.cost.cost) if part.cost.pairs else sites.nothing() for part in parts]),
            np.stack([sites.sums(part.seen.room) for part in parts]),
            free,
            np.array(amounts, dtype=np.int64).reshape(len(parts), len(names)),
            wanted,
        )

    def _by_rules(self, problem: PlanningProblem, sites: Sites) -> Iterator[tuple[Plan, Sites]]:
        for plan in islice(plans(problem), MOST_LOOKED_AT // (1 + len(self.talks) // 8)):
            if self._is_within_costs(plan, sites) and self._has_bandwidth(plan, sites):
                yield plan, sites

    def _is_within_costs(self, plan: Plan, sites: Sites) -> bool:
        """Whether no pod is where the filter would not let it be with all the others around."""
        judged = [part.judged for part in self.parts]
        if not self.rules.strict and not any(one.pairs for one in judged) and not self._is_violated(plan, sites):
            return True
        good = np.stack([sites.least(one.satisfied) if one.pairs else sites.nothing() for one in judged])
        bad = np.stack([sites.most(one.violated) if one.pairs else sites.nothing() for one in judged])
        pairs = np.array([one.pairs for one in judged], dtype=np.int64)
        lies: dict[int, tuple[Counts, Counts]] = {}  # by the most that may lie between: where it is satisfied, violated
        for limit in {one.by.by.max_cost for one in self.talks}:
            within, beyond = self.places.satisfied(limit), self.places.violated(limit)
            lies[limit] = sites.between(within, 1), sites.between(beyond, 0)
        for one in self.talks:
            satisfied, violated = lies[one.by.by.max_cost]
            itself = int(one.origin == one.to)
            good[one.origin] += satisfied @ plan[one.to] - itself * np.diagonal(satisfied)
            bad[one.origin] += violated @ plan[one.to] - itself * np.diagonal(violated)
            pairs[one.origin] += plan[one.to].sum() - itself
            if self.rules.strict:
                good[one.to] += satisfied.T @ plan[one.origin] - itself * np.diagonal(satisfied)
                pairs[one.to] += plan[one.origin].sum() - itself
        wrong = good < pairs[:, None] if self.rules.strict else bad > good
        return not bool((wrong & (plan > 0)).any())

    def _is_violated(self, plan: Plan, sites: Sites) -> bool:
        """Whether any two sites of a plan are further apart than any dependency allows."""
        used = np.unique(sites.place[np.flatnonzero(plan.any(axis=0))])
        least = min((one.by.by.max_cost for one in self.talks), default=0)
        return bool(self.places.violated(least)[np.ix_(used, used)].any())

    def _has_bandwidth(self, plan: Plan, sites: Sites) -> bool:
        """Whether links have room for what the pods take of them, to one another and to those that are placed."""
        links = [part.links for part in self.parts if part.links is not None]
        if not links:
            return True
        there = np.zeros((len(plan), len(self.places)), dtype=np.int64)
        for part, mine in zip(there, plan, strict=True):
            np.add.at(part, sites.place, mine)
        among = (traffic(self.places, there[one.origin], there[one.to], one.by.by.bandwidth) for one in self.talks)
        to_placed = (link.taken(mine) for mine, link in zip(there, links, strict=True))
        taken = sum_by_link(self.places, chain(among, to_placed))
        return bool((taken[taken > 0] <= links[0].left[taken > 0]).all())

    def carry_out(self, transaction: Transaction, plan: Plan, sites: Sites) -> list[Rows] | None:
        """Place every ask, those of the plan where it says; None where one finds no room there."""
        placed: list[Rows] = [np.zeros(0, dtype=np.int64)] * len(self.asks)
        number_of = {part.index: number for number, part in enumerate(self.parts)}
        homes: dict[int, Mask] = {}
        for run in self._runs(transaction, plan, number_of):
            asks = [self.asks[index] for index in run]
            number = number_of.get(run[0])
            if number is None:
                rows = place_ask(self.nodes, transaction, asks[0], self.profile)
                found = None if rows is None else [rows]
            elif len(run) > 1:
                within = self._within(sites, int(plan[number].argmax()))
                found = place_alike(self.nodes, transaction, asks, self.profile, within=within)
            else:
                rows = self._placed(transaction, number, plan, sites, homes)
                found = None if rows is None else [rows]
            if found is None:
                return None
            for index, rows in zip(run, found, strict=True):
                placed[index] = rows
                if index in number_of:
                    homes[number_of[index]] = here = np.zeros(len(self.nodes), dtype=np.bool_)
                    here[rows] = True
        return placed

    def _runs(self, transaction: Transaction, plan: Plan, number_of: Mapping[int, int]) -> Iterator[list[int]]:
        """Yield the asks in their order, together those that go all to one site and have nodes chosen as one would."""
        run: list[int] = []
        for index in self.order:
            if not self.asks[index].required:
                continue
            if run and self._goes_on(transaction, run, index, plan, number_of):
                run.append(index)
                continue
            if run:
                yield run
            run = [index]
        if run:
            yield run

    def _goes_on(
        self, transaction: Transaction, run: Sequence[int], index: int, plan: Plan, number_of: Mapping[int, int]
    ) -> bool:
        """Whether an ask goes to the one site of others, and nothing tells its pods from more of theirs."""
        before = run[0]
        if before not in number_of or index not in number_of:
            return False
        asks = self.asks[before], self.asks[index]
        if not are_alike(*asks, self.nodes, self.profile):
            return False
        site = int(plan[number_of[before]].argmax())
        if any(plan[number_of[one], site] < self.asks[one].required for one in (before, index)):
            return False
        if min(ask.required for ask in asks) <= MOST_TOGETHER:
            return False  # nodes are looked for that they share with others
        new = asks if len(run) == 1 else asks[1:]  # of the others that is known
        return all(minds_nodes_alone(ask.pod_class, self.nodes, transaction, self.profile) for ask in new)

    def _placed(
        self, transaction: Transaction, number: int, plan: Plan, sites: Sites, homes: Mapping[int, Mask]
    ) -> Rows | None:
        """Place a part where a plan says; returns its rows in order, None where it finds no room somewhere."""
        found = []
        for site in np.flatnonzero(plan[number]).tolist():
            within = self._within(sites, site)
            few = not sites.are_nodes and plan[number, site] <= MOST_TOGETHER
            near = self._near(number, site, plan, within, homes) if few else ()
            rows = self._taken(transaction, number, int(plan[number, site]), within, near)
            if rows is None:
                return None
            found.append(rows)
        return np.sort(np.concatenate(found))

    def _within(self, sites: Sites, site: int) -> Mask:
        """Return bool[rows]: which rows are of a site."""
        within = np.zeros(len(self.nodes), dtype=np.bool_)
        within[sites.rows_of(site)] = True
        return within

    def _near(self, number: int, site: int, plan: Plan, within: Mask, homes: Mapping[int, Mask]) -> Sequence[Mask]:
        """Return where in a place pods of a part are nearest to those they talk to, the nearest rows first."""
        cost = self.parts[number].cost.cost
        cheap = cost < int(cost[within].max())
        others = [
            homes[other]
            for one in self.talks
            for here, other in ((one.origin, one.to), (one.to, one.origin))
            if here == number and other in homes
        ]
        if others:
            return cheap, np.logical_or.reduce(others)
        return cheap, self._one_for_all(number, plan[:, site], within)

    def _one_for_all(self, number: int, pods: Counts, within: Mask) -> Mask:
        """Return bool[rows]: the best node of a place that takes all pods which come there, if any does."""
        whole = np.zeros(len(self.nodes), dtype=np.bool_)
        if np.count_nonzero(pods) < 2 and pods.sum() < 2:  # noqa: PLR2004 - who is alone is near nobody
            return whole
        fits = within.copy()
        for part, many in zip(self.parts, pods.tolist(), strict=True):
            fits &= part.seen.room >= many
        needs = [replace(part.ask, required=many) for part, many in zip(self.parts, pods.tolist(), strict=True)]
        for name, amount in required_amounts(needs, self.profile).items():
            column = self.nodes.resource_index.column(name)
            fits &= self.nodes.allocatable[:, column] - self.nodes.requested[:, column] >= amount
        rows = np.flatnonzero(fits)
        if len(rows):
            whole[rows[int(self.parts[number].seen.choice.keys(rows).argmax())]] = True
        return whole

    def _taken(
        self, transaction: Transaction, number: int, many: int, within: Mask, near: Sequence[Mask]
    ) -> Rows | None:
        """Take room for so many pods of a part within some rows, first in those that are nearest."""
        ask, found = self.parts[number].ask, list[Rows]()
        for one in near:
            if many and (here := within & one).any():
                rows = place_ask(
                    self.nodes, transaction, replace(ask, required=0, extra=many), self.profile, within=here
                )
                assert rows is not None  # nothing is required
                found.append(rows)
                many -= len(rows)
        if many:
            rows = place_ask(self.nodes, transaction, replace(ask, required=many, extra=0), self.profile, within=within)
            if rows is None:
                return None
            found.append(rows)
        return np.concatenate(found)
