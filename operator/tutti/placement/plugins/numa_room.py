"""How many more pods of a class each node takes by its NUMA zones, beside those that are pending there.

Pods are pending that are reserved here or bound, and that the report of their node does not know. The kubelet decides
in which order it admits them and in which zone it puts each, so that nobody knows yet how much each zone has left.
Pods of one class are equal: their order does not matter, and they fill one zone after another. Where others are
pending, too, as many are given out as are admitted in every order. Let a zone hold of each class as many as fit there
by themselves, but no more than are pending; then each class must fit, one zone after another, beside all others.

That is enough: were a pod refused, each zone would hold more of its class than fit there beside all others, and so all
zones together more than there are. scheduler-plugins takes all that is pending out of every zone instead
(noderesourcetopology/cache/overreserve.go), which leaves no room for a leader beside its workers. That is done here if
the pods that are pending have more than `MOST_PARTS` containers, class by class: those beyond count as over-reserved.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tutti.api.resources import Amounts
from tutti.cluster.classes import PodClass
from tutti.cluster.columns import MOST_AMOUNT
from tutti.cluster.nodes import NodeColumns
from tutti.cluster.numa import NO_POLICY, RESTRICTING, UNKNOWN
from tutti.cluster.numa_needs import ZoneNeeds, zone_needs
from tutti.cluster.requests import sum_of_amounts
from tutti.placement.framework import Counts, Mask, Rows
from tutti.placement.plugins import numa_orders
from tutti.placement.plugins.numa_fit import FITS, MOST_PODS, PLENTY, ZoneSearch

MOST_PARTS: Final = 1024
"""Of so many containers it is looked at one by one in which zones they may be; equal pods count once."""


@dataclass(slots=True)
class ZoneRoom:
    """How many pods of a class fit on each node by its zones.

    Attributes:
        room: int64[rows], how many more; `PLENTY` where zones limit nothing.
        short: int64[rows], what finds no zone, where none fits.
        never: bool[rows], where none would fit even if the node were empty, as far as that is known.
    """

    room: Counts
    short: Counts
    never: Mask


def zone_room(pod_class: PodClass, nodes: NodeColumns) -> ZoneRoom:
    """Count for a class that has no `problem`, on the columns of `nodes.numa` as they were brought up to date last."""
    numa, needs = nodes.numa, zone_needs(pod_class)
    found = ZoneRoom(
        np.full(len(nodes), PLENTY, dtype=np.int64),
        np.full(len(nodes), FITS, dtype=np.int64),
        np.zeros(len(nodes), dtype=np.bool_),
    )
    aligned = (numa.policy != NO_POLICY) & ~numa.unusable
    for whole in (False, True):
        for restricted in (False, True):
            rows = np.flatnonzero(aligned & (numa.pod_scope == whole) & ((numa.policy == RESTRICTING) == restricted))
            if not len(rows):
                continue
            group = _Group(nodes, rows, whole=whole, restricted=restricted)
            room, short = group.room(pod_class)
            found.room[rows], found.short[rows] = room, np.where(room < 1, short, FITS)
            closed = rows[room < 1]
            if len(closed):
                found.never[closed] = _Group(nodes, closed, whole=whole, restricted=restricted).never(needs)
    return found


def loaded(nodes: NodeColumns, rows: Rows, *, besides: ZoneNeeds | None = None) -> Counts:
    """Return int64[n, zones, resources]: what each zone of some nodes may have to give to pods that are pending.

    Those are left out that ask for the same as `besides`.
    """
    load = np.zeros_like(nodes.numa.available[rows])
    for whole in (False, True):
        at = np.flatnonzero(nodes.numa.pod_scope[rows] == whole)
        group = _Group(nodes, rows[at], whole=whole, restricted=False)
        pending = group.pending()
        load[at] = group.load([one for one in pending if besides is None or not one.needs.asks_like(besides)])
    return load


@dataclass(frozen=True, slots=True)
class _Pending:
    """Pods of a class on some nodes of a group: which of them, int64[k], and how many on each, int64[k]."""

    needs: ZoneNeeds
    at: Rows
    counts: Counts


def _narrowed(pending: Sequence[_Pending], at: Rows) -> list[_Pending]:
    """Return what is pending on some nodes of a group, int64[m] ascending, by their places among these."""
    place = np.full(int(at.max(initial=-1)) + 1, -1, dtype=np.int64)
    place[at] = np.arange(len(at))
    found = []
    for one in pending:
        mine = one.at < len(place)
        mine[mine] = place[one.at[mine]] >= 0
        found.append(_Pending(one.needs, place[one.at[mine]], one.counts[mine]))
    return found


@dataclass(frozen=True, slots=True)
class _Group:
    """Nodes whose kubelets align alike."""

    nodes: NodeColumns
    rows: Rows
    whole: bool
    restricted: bool

    def room(self, pod_class: PodClass) -> tuple[Counts, Counts]:
        """Return int64[n] each: how many more pods of a class fit, and what finds no zone for one more."""
        needs, numa = zone_needs(pod_class), self.nodes.numa
        own, others = numa.pending(pod_class)[self.rows], self.pending(besides=pod_class)
        free = numa.available[self.rows]
        crowded = np.zeros(len(self.rows), dtype=np.bool_)
        for one in others:
            crowded[one.at] = True
        if others:
            free = np.maximum(free - self.load(others), 0)
            others, beyond = self._followed(others)
            for one in beyond:
                crowded[one.at] = False  # what is left beside all that they may take is what there is
        total, short = self._search(needs, self.rows, free).count(whole=self.whole)
        room = np.where(total >= PLENTY, PLENTY, np.maximum(total - own, 0))
        if not self.restricted and needs.charged:
            alone = np.where(
                crowded, self._search(needs, self.rows, numa.available[self.rows]).count(whole=self.whole)[0], 0
            )
            room = np.where(crowded & (alone < PLENTY), np.maximum(alone - own, 0), room)
            at = np.flatnonzero(crowded & (room > 0))
            if len(at):
                most = np.minimum(room[at], MOST_PODS)
                room[at] = self._some(at).beside(needs, own[at], _narrowed(others, at), most)
        return room, short

    def never(self, needs: ZoneNeeds) -> Mask:
        """Return bool[n]: where no pod would fit if all zones were empty, as far as it is known what they have."""
        numa = self.nodes.numa
        available, whole = numa.available[self.rows], numa.allocatable[self.rows]
        empty = np.where(whole == UNKNOWN, available, whole)
        return self._search(needs, self.rows, empty).count(whole=self.whole, most=1)[0] < 1

    def pending(self, *, besides: PodClass | None = None) -> list[_Pending]:
        """Return what is pending on these nodes, of other classes than one."""
        place = {row: at for at, row in enumerate(self.rows.tolist())}
        found = []
        for pod_class, counts in self.nodes.numa.pending_of.items():
            here = [(place[row], count) for row, count in counts.items() if row in place and count > 0]
            if here and pod_class is not besides:
                at, many = np.array(here, dtype=np.int64).T
                found.append(_Pending(zone_needs(pod_class), at, many))
        return found

    def load(self, pending: Sequence[_Pending]) -> Counts:
        """Return int64[n, zones, resources]: the most that pods may take of each zone."""
        load = np.zeros_like(self.nodes.numa.available[self.rows])
        followed, beyond = self._followed(pending)
        for one in followed:
            for _, mine in self._parts(one):
                load[one.at] += mine
        for one in beyond:
            load[one.at] += self._all_at_once(one)
        return load

    def _followed(self, pending: Sequence[_Pending]) -> tuple[list[_Pending], list[_Pending]]:
        """Return those whose containers are looked at one by one, those of few first, and those beyond `MOST_PARTS`."""
        few_first = sorted(pending, key=lambda one: self._part_count(one.needs))
        upto = np.cumsum([self._part_count(one.needs) for one in few_first])
        count = int(np.searchsorted(upto, MOST_PARTS, side="right"))
        return few_first[:count], few_first[count:]

    def _part_count(self, needs: ZoneNeeds) -> int:
        """Return how many containers of a pod are aligned by themselves."""
        return 1 if self.whole else len(needs.init) + len(needs.containers)

    def _all_at_once(self, one: _Pending) -> Counts:
        """Return int64[k, zones, resources]: all that these pods hold, in whichever zone, as far as that has it."""
        numa, rows = self.nodes.numa, self.rows[one.at]
        load = np.zeros((len(rows), *numa.available.shape[1:]), dtype=np.int64)
        for name, amount in sum_of_amounts(self._asked(one.needs)).items():
            column = numa.column_of.get(name)
            if column is not None and one.needs.counts(name):
                most = np.minimum(amount, MOST_AMOUNT // np.maximum(one.counts, 1)) * one.counts
                load[:, :, column] = np.minimum(most[:, None], np.maximum(numa.available[rows][:, :, column], 0))
        return load

    def _some(self, at: Rows) -> _Group:
        return _Group(self.nodes, self.rows[at], self.whole, self.restricted)

    def _search(self, needs: ZoneNeeds, rows: Rows, free: Counts) -> ZoneSearch:
        return ZoneSearch(self.nodes, needs, rows, free.copy(), self.restricted)

    def _asked(self, needs: ZoneNeeds) -> Sequence[Amounts]:
        """Return what of a pod is in one zone each."""
        return (needs.whole,) if self.whole else needs.containers

    def _parts(self, one: _Pending) -> list[tuple[Amounts, Counts]]:
        """Return what of these pods is in one zone each, and int64[k, zones, resources]: the most it takes there."""
        numa, rows, out = self.nodes.numa, self.rows[one.at], []
        search = self._search(one.needs, rows, numa.available[rows])
        for whole in self._asked(one.needs):
            asked = search.considered(whole)
            terms = search.terms(asked)
            times = np.minimum(search.times(terms), one.counts[:, None])
            mine = np.zeros((len(rows), *numa.available.shape[1:]), dtype=np.int64)
            for column, amount, where in terms[2]:
                mine[:, :, column] = np.where(where[:, None], times * amount, 0)
            out.append((asked, mine))
        return out

    def beside(self, needs: ZoneNeeds, own: Counts, others: Sequence[_Pending], most: Counts) -> Counts:
        """Return int64[n]: how many more pods, at most so many, are admitted beside others in every order.

        Args:
            needs: Theirs.
            own: int64[n], how many of them are pending.
            others: Who else is.
            most: int64[n].
        """
        everywhere = np.arange(len(self.rows))
        low, high = np.zeros(len(self.rows), dtype=np.int64), most.copy()
        trial = high
        while (low < high).any():
            safe = self._is_safe([*others, _Pending(needs, everywhere, own + trial)])
            low, high = np.where(safe, trial, low), np.where(safe, high, trial - 1)
            trial = (low + high + 1) // 2
        few = np.flatnonzero(low < most)[: numa_orders.MOST_NODES]
        for at, more in zip(few.tolist(), self._tried(needs, own, others, few, low, most), strict=True):
            low[at] = more
        return low

    def _tried(
        self, needs: ZoneNeeds, own: Counts, others: Sequence[_Pending], few: Rows, least: Counts, most: Counts
    ) -> Iterator[int]:
        """Yield for some nodes how many more pods are admitted, as far as few enough are pending to try all orders."""
        known: dict[Hashable, int] = {}
        steps_left = numa_orders.MOST_ALIGNED_TOGETHER
        here: dict[int, list[tuple[ZoneNeeds, int]]] = {at: [] for at in few.tolist()}
        for one in others:
            for at, count in zip(one.at.tolist(), one.counts.tolist(), strict=True):
                if at in here:
                    here[at].append((one.needs, count))
        for at, kinds in here.items():
            pending = int(own[at]) + sum(count for _, count in kinds)
            top = min(int(most[at]), numa_orders.MOST_PODS - pending)
            if top <= least[at]:
                yield int(least[at])
                continue
            key = (self._looks(at), int(own[at]), top, tuple((id(kind), count) for kind, count in kinds))
            if key not in known:
                found = self._most_in_every_order(
                    at, [(needs, int(own[at])), *kinds], int(least[at]), top, min(numa_orders.MOST_ALIGNED, steps_left)
                )
                known[key], steps_left = found[0], steps_left - found[1]
            yield known[key]

    def _looks(self, at: int) -> Hashable:
        """Return what tells nodes apart as far as zones go."""
        row, numa = self.rows[at], self.nodes.numa
        parts = (numa.available[row], numa.listed[row], numa.numbers[row], self.nodes.allocatable[row])
        return tuple(part.tobytes() for part in parts)

    def _most_in_every_order(
        self, at: int, kinds: Sequence[tuple[ZoneNeeds, int]], least: int, most: int, most_steps: int
    ) -> tuple[int, int]:
        """Find how many more of the first kind are admitted beside all, from so many that are up to so many.

        Returns:
            How many, and the steps that it took, of so many at most.
        """
        if sum(self._part_count(needs) for needs, _ in kinds) > most_steps:
            return least, 0  # not even one pod of each could be followed
        free = tuple(map(tuple, self.nodes.numa.available[self.rows[at]].tolist()))
        steps, (own, *others) = [self._steps(at, needs) for needs, _ in kinds], [count for _, count in kinds]
        more, taken = least, sum(len(one) for one in steps)
        while more < most:
            counts, left = [own + more + 1, *others], most_steps - taken
            safe, took = numa_orders.are_admitted_in_every_order(free, steps, counts, left)
            taken += took
            if not safe:
                break
            more += 1
        return more, taken

    def _steps(self, at: int, needs: ZoneNeeds) -> numa_orders.Steps:
        search = self._search(needs, self.rows[[at]], self.nodes.numa.available[self.rows[[at]]])
        asked = [(one, True) for one in self._asked(needs)]
        if not self.whole:
            asked = [*((one, False) for one, _ in needs.init), *asked]
        found = []
        for one, stays in asked:
            able, limited, counted = search.terms(search.considered(one))
            wanted = tuple((column, amount) for column, amount, where in counted if where[0])
            found.append(numa_orders.Step(stays, bool(limited[0]), tuple(np.flatnonzero(able[0]).tolist()), wanted))
        return tuple(found)

    def _is_safe(self, pending: Sequence[_Pending]) -> Mask:
        """Return bool[n]: where all that would be pending is admitted, in whatever order."""
        parts = [(one, asked, mine) for one in pending for asked, mine in self._parts(one)]
        load = np.zeros_like(self.nodes.numa.available[self.rows])
        for one, _, mine in parts:
            load[one.at] += mine
        safe = np.ones(len(self.rows), dtype=np.bool_)
        for one, asked, mine in parts:
            rows = self.rows[one.at]
            search = self._search(one.needs, rows, self.nodes.numa.available[rows] - (load[one.at] - mine))
            terms = search.terms(asked)
            fits = np.where(terms[1], search.times(terms).sum(axis=1), PLENTY)
            safe[one.at] &= fits >= one.counts
        for one in pending if not self.whole else ():
            rows = self.rows[one.at]
            search = self._search(one.needs, rows, self.nodes.numa.available[rows] - load[one.at])
            for init, _ in one.needs.init:  # it needs room beside all that runs, and gives it back
                terms = search.terms(search.considered(init))
                safe[one.at] &= ~terms[1] | (search.times(terms) > 0).any(axis=1) | (one.counts == 0)
        return safe
