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
from functools import partial
from itertools import pairwise
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
from tutti.placement.plugins.numa_parts import Lines, Parts, all_fit

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
        pending = group.pending() if len(at) else []
        load[at] = group.load([one for one in pending if besides is None or not one.needs.asks_like(besides)])
    return load


@dataclass(frozen=True, slots=True)
class _Pending:
    """Pods of a class on some nodes of a group: which of them, int64[k], and how many on each, int64[k]."""

    pod_class: PodClass
    needs: ZoneNeeds
    at: Rows
    counts: Counts


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
            followed, beyond = self._followed(others)
            lines = self._lines(followed)
            free = np.maximum(free - self._load(lines, beyond), 0)
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
                room[at] = self._beside(_Pending(pod_class, needs, at, own[at]), followed, lines, most)
        return room, short

    def never(self, needs: ZoneNeeds) -> Mask:
        """Return bool[n]: where no pod would fit if all zones were empty, as far as it is known what they have."""
        numa = self.nodes.numa
        available, whole = numa.available[self.rows], numa.allocatable[self.rows]
        empty = np.where(whole == UNKNOWN, available, whole)
        return self._search(needs, self.rows, empty).count(whole=self.whole, most=1)[0] < 1

    def pending(self, *, besides: PodClass | None = None) -> list[_Pending]:
        """Return what is pending on these nodes, of other classes than one."""
        classes, rows, counts, ends = list[PodClass](), list[int](), list[int](), [0]
        for pod_class, here in self.nodes.numa.pending_of.items():
            if pod_class is not besides:
                classes.append(pod_class)
                rows.extend(here)
                counts.extend(here.values())
                ends.append(len(rows))
        place = np.full(len(self.nodes.numa.policy), -1, dtype=np.int64)
        place[self.rows] = np.arange(len(self.rows))
        at, many = place[np.array(rows, dtype=np.int64)], np.array(counts, dtype=np.int64)
        mine = (at >= 0) & (many > 0)
        upto = np.cumsum([0, *mine.tolist()])[ends].tolist()
        at, many = at[mine], many[mine]
        return [
            _Pending(one, zone_needs(one), at[first:last], many[first:last])
            for one, (first, last) in zip(classes, pairwise(upto), strict=True)
            if first < last
        ]

    def load(self, pending: Sequence[_Pending]) -> Counts:
        """Return int64[n, zones, resources]: the most that pods may take of each zone."""
        followed, beyond = self._followed(pending)
        return self._load(self._lines(followed), beyond)

    def _load(self, lines: Lines, beyond: Sequence[_Pending]) -> Counts:
        available = self.nodes.numa.available[self.rows]
        load = lines.total(lines.most(lines.times(available[lines.at])), len(self.rows))
        for one in beyond:
            load[one.at] += self._all_at_once(one)
        return load

    def _lines(self, pending: Sequence[_Pending], *, init: bool = False) -> Lines:
        """Return what these pods have aligned at once, or what their init containers have."""
        parts = [self._parts(one, init=init) for one in pending]
        shape = self.nodes.numa.available.shape[1:]
        return Lines.of(parts, [one.at for one in pending], [one.counts for one in pending], shape)

    def _parts(self, one: _Pending, *, init: bool = False) -> Parts:
        """Return what pods of a class have aligned at once; it is looked at once for each report of their nodes."""
        numa, rows, needs = self.nodes.numa, self.rows[one.at], one.needs
        stamp = (rows.tobytes(), numa.renewed[rows].tobytes(), numa.available.shape[1:], self.nodes.capacity_version)
        asked = [amounts for amounts, _ in needs.init] if init else self._asked(needs)
        key = ("zone parts", self.whole, self.restricted, init)
        search = partial(self._search, needs, rows)
        return one.pod_class.keep(key, stamp, lambda: Parts.of(search(numa.available[rows]), asked))

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

    def _search(self, needs: ZoneNeeds, rows: Rows, free: Counts) -> ZoneSearch:
        return ZoneSearch(self.nodes, needs, rows, free.copy(), self.restricted)

    def _asked(self, needs: ZoneNeeds) -> Sequence[Amounts]:
        """Return what of a pod is in one zone each."""
        return (needs.whole,) if self.whole else needs.containers

    def _beside(self, mine: _Pending, others: Sequence[_Pending], theirs: Lines, most: Counts) -> Counts:
        """Return int64[m]: how many more pods of a class are admitted beside others in every order.

        Args:
            mine: On which nodes they are counted, and how many of them are pending there.
            others: Who else is, anywhere.
            theirs: What those have aligned.
            most: int64[m], not more than so many.
        """
        available, here = self.nodes.numa.available[self.rows], np.zeros(len(self.rows), dtype=np.bool_)
        here[mine.at] = True
        own, own_init = self._lines([mine]), self._init([mine])
        theirs, their_init = theirs.on(here), self._init(others).on(here)
        low, high = np.zeros_like(most), most.copy()
        trial, counts = high, np.zeros(len(self.rows), dtype=np.int64)
        while (low < high).any():
            counts[mine.at] = mine.counts + trial
            lines, init = own.counting(counts).beside(theirs), own_init.counting(counts).beside(their_init)
            safe = all_fit(lines, init, available)[mine.at]
            low, high = np.where(safe, trial, low), np.where(safe, high, trial - 1)
            trial = (low + high + 1) // 2
        few = np.flatnonzero(low < most)[: numa_orders.MOST_NODES]
        for at, more in zip(few.tolist(), self._tried(mine, others, few, low, most), strict=True):
            low[at] = more
        return low

    def _init(self, pending: Sequence[_Pending]) -> Lines:
        """Return what is aligned by itself and given back, where pods are not aligned as a whole."""
        return self._lines([] if self.whole else [one for one in pending if one.needs.init], init=True)

    def _tried(
        self, mine: _Pending, others: Sequence[_Pending], few: Rows, least: Counts, most: Counts
    ) -> Iterator[int]:
        """Yield for some nodes how many more pods are admitted, as far as few enough are pending to try all orders."""
        known: dict[Hashable, int] = {}
        steps_left = numa_orders.MOST_ALIGNED_TOGETHER
        here: dict[int, list[tuple[_Pending, int]]] = {int(mine.at[nth]): [(mine, nth)] for nth in few.tolist()}
        for one in others:
            for nth, at in enumerate(one.at.tolist()):
                if at in here:
                    here[at].append((one, nth))
        for nth, (at, kinds) in zip(few.tolist(), here.items(), strict=True):
            counts = [int(one.counts[there]) for one, there in kinds]
            top = min(int(most[nth]), numa_orders.MOST_PODS - sum(counts))
            if top <= least[nth]:
                yield int(least[nth])
                continue
            kinds_there = tuple((id(one.pod_class), count) for (one, _), count in zip(kinds, counts, strict=True))
            key = self._looks(at), top, kinds_there
            if key not in known:
                found = self._most_in_every_order(
                    at, kinds, counts, (int(least[nth]), top), min(numa_orders.MOST_ALIGNED, steps_left)
                )
                known[key], steps_left = found[0], steps_left - found[1]
            yield known[key]

    def _looks(self, at: int) -> Hashable:
        """Return what tells nodes apart as far as zones go."""
        row, numa = self.rows[at], self.nodes.numa
        parts = (numa.available[row], numa.listed[row], numa.numbers[row], self.nodes.allocatable[row])
        return tuple(part.tobytes() for part in parts)

    def _most_in_every_order(
        self,
        at: int,
        kinds: Sequence[tuple[_Pending, int]],
        counts: Sequence[int],
        span: tuple[int, int],
        most_steps: int,
    ) -> tuple[int, int]:
        """Find how many more of the first kind are admitted beside all, from so many that are up to so many.

        Returns:
            How many, and the steps that it took, of so many at most.
        """
        least, most = span
        if sum(self._part_count(one.needs) for one, _ in kinds) > most_steps:
            return least, 0  # not even one pod of each could be followed
        free = tuple(map(tuple, self.nodes.numa.available[self.rows[at]].tolist()))
        steps, (own, *others) = [self._steps(one, nth) for one, nth in kinds], counts
        more, taken = least, sum(len(one) for one in steps)
        while more < most:
            left = most_steps - taken
            safe, took = numa_orders.are_admitted_in_every_order(free, steps, [own + more + 1, *others], left)
            taken += took
            if not safe:
                break
            more += 1
        return more, taken

    def _steps(self, one: _Pending, nth: int) -> numa_orders.Steps:
        """Return what is aligned for a pod of a class, one after another, on the nth of its nodes."""
        first = () if self.whole else self._parts(one, init=True).steps(nth, stays=False)
        return (*first, *self._parts(one).steps(nth, stays=True))
