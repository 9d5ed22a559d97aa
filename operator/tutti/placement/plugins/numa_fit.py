"""How many pods of a class fit in the NUMA zones of each node, counted over all nodes at once.

Where the kubelet aligns to a single zone, containers, or pods as a whole, go to the zone of the lowest number that has
all they ask for. What is asked for at once, by pods of one container or aligned as a whole, is counted by divisions:
zone by zone, as many as fit. Pods of several containers are put in zones one after another, on all nodes in one step.
Source: scheduler-plugins, noderesourcetopology/filter.go.

Where the policy is `restricted`, the kubelet admits what it can give the fewest zones that could hold it were the node
empty, the same for each resource (kubernetes pkg/kubelet/cm/topologymanager, policy_restricted.go and policy.go). Only
what surely has hints counts: whole cores of Guaranteed pods and devices of which the report says how many there are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations
from typing import Final

import numpy as np

from tutti.api.resources import CPU, EPHEMERAL_STORAGE, MEMORY, Amounts
from tutti.cluster.columns import MOST_AMOUNT
from tutti.cluster.nodes import NodeColumns
from tutti.cluster.numa import NO_ZONE, UNKNOWN, NumaColumns
from tutti.cluster.numa_needs import ZoneNeeds, may_be_outside_zones, own_part
from tutti.placement.framework import Counts, Mask, Rows

PLENTY: Final = 1_000_000_000
"""More pods than any node takes."""
MOST_PODS: Final = 1024
"""So many pods of several containers are put in the zones of one node; no kubelet takes as many."""
MOST_STEPS: Final = 8192
"""So many containers are put in the zones of a node, one after another: of pods that have hundreds, fewer pods."""
MOST_COMBINATIONS: Final = 1024
"""So many sets of zones of one size are looked at; eight zones have 70 of four."""

_ALWAYS_OFFERED: Final = frozenset({CPU, MEMORY, EPHEMERAL_STORAGE})
"""Resources that every node counts as offering some of, if only none."""

UNTOLD: Final = -1
"""Stands for a zone that cannot be told."""

FITS, WHOLE, INIT, SIDECAR, CONTAINER = range(5)
"""What finds no zone: the pod as a whole, an init container, a sidecar, or a container."""


Terms = tuple[Mask, Mask, list[tuple[int, int, Mask]]]


@lru_cache(maxsize=256)
def sets_of_zones(zones: int, size: int) -> Mask | None:
    """Return bool[sets, zones]: all sets of so many zones, in order; None where they are too many to look at."""
    count = 1
    for taken in range(size):
        count = count * (zones - taken) // (taken + 1)
    if not 0 < count <= MOST_COMBINATIONS:
        return None
    out = np.zeros((count, zones), dtype=np.bool_)
    for at, members in enumerate(combinations(range(zones), size)):
        out[at, list(members)] = True
    return out


def made_of(sets: Mask, zones: Mask) -> Mask:
    """Return bool[n, sets]: which sets of zones are made of some only, bool[n, zones]."""
    return np.asarray((zones[:, None, :] | ~sets).all(axis=2), dtype=np.bool_)


def given(zones: Mask, free: Counts, amount: int) -> Counts:
    """Return int64[n, zones]: how much of an amount zones give, bool[n, zones], those of the lowest number first."""
    has = np.where(zones, np.maximum(free, 0), 0)
    before = np.cumsum(has, axis=1) - has
    taken: Counts = np.clip(min(amount, MOST_AMOUNT) - before, 0, has)
    return taken


@dataclass(slots=True)
class ZoneSearch:
    """The zones of some nodes while pods of a class are put in them.

    Attributes:
        rows: int64[n], the nodes.
        free: int64[n, zones, resources], what is left.
        restricted: Whether the fewest zones count that could hold something, and only of what is surely aligned.
    """

    nodes: NodeColumns
    needs: ZoneNeeds
    rows: Rows
    free: Counts
    restricted: bool
    _listed: Mask = field(init=False)
    _zones: Mask = field(init=False)
    _whole: Counts = field(init=False)

    def __post_init__(self) -> None:
        numa = self.nodes.numa
        self._listed, self._zones = numa.listed[self.rows], numa.numbers[self.rows] != NO_ZONE
        self._whole = numa.allocatable[self.rows]

    @classmethod
    def of(cls, nodes: NodeColumns, needs: ZoneNeeds, rows: Rows, free: Counts, *, restricted: bool) -> ZoneSearch:
        """Begin with what is free: int64[n, zones, resources], which is changed."""
        return cls(nodes, needs, rows, free, restricted)

    @property
    def _numa(self) -> NumaColumns:
        return self.nodes.numa

    def count(self, *, whole: bool, most: int = MOST_PODS) -> tuple[Counts, Counts]:
        """Return int64[n] each: how many pods fit, and what finds no zone for one more."""
        parts = [self.needs.whole] if whole else list(self.needs.containers)
        if len(parts) == 1 and (whole or not self.needs.init):
            asked = self.considered(parts[0])
            size = self.least(asked)
            total = self._at_once(asked)
            several = np.flatnonzero(size > 1)
            if len(several):
                rest = ZoneSearch.of(
                    self.nodes, self.needs, self.rows[several], self.free[several], restricted=self.restricted
                )
                total[several] = rest._in_turn(whole=whole, most=most)[0]  # noqa: SLF001 - of the same class
            return np.where(size < 0, 0, total), np.full(len(self.rows), WHOLE if whole else CONTAINER)
        return self._in_turn(whole=whole, most=most)

    def considered(self, asked: Mapping[str, int]) -> Amounts:
        """Return the part of a request that is aligned."""
        if not self.restricted:
            return {name: amount for name, amount in asked.items() if amount > 0 and name != "pods"}
        surely = own_part(asked, guaranteed=self.needs.guaranteed)
        return {name: amount for name, amount in surely.items() if name in self._numa.column_of}

    def least(self, asked: Mapping[str, int]) -> Counts:
        """Return int64[n]: to how many zones a request is aligned; 0 to none, -1 where it can never be."""
        if not self.restricted:
            return np.ones(len(self.rows), dtype=np.int64)
        least = np.zeros(len(self.rows), dtype=np.int64)
        for name, amount in asked.items():
            known, column = self._is_told(name), self._numa.column_of[name]
            largest = -np.sort(-np.maximum(self._whole[:, :, column], 0), axis=1)
            enough = np.cumsum(largest, axis=1) >= amount
            size = np.where(enough.any(axis=1), enough.argmax(axis=1) + 1, -1)
            least = np.where(~known | (least < 0), least, np.where((least == 0) | (least == size), size, -1))
        return least

    def _is_told(self, name: str) -> Mask:
        """Return bool[n]: of which nodes it is known how much of a resource their zones have in all."""
        column = self._numa.column_of[name]
        listed, whole = self._listed[:, :, column], self._whole[:, :, column]
        told: Mask = listed.any(axis=1) & ((whole != UNKNOWN) | ~listed).all(axis=1)
        return told

    def terms(self, asked: Mapping[str, int]) -> Terms:
        """Look at what a request asks of zones.

        Returns:
            bool[n, zones]: the zones that list all that has to be there; bool[n]: whether anything limits them; and the
            columns of what they must have enough of, with how much, and for which nodes, bool[n].
        """
        able, limited = self._zones.copy(), np.zeros(len(self.rows), dtype=np.bool_)
        counted: list[tuple[int, int, Mask]] = []
        offered, column_of = self.nodes.allocatable, self.nodes.resource_index.column_of
        for name, amount in asked.items():
            there = column_of.get(name)
            column = self._numa.column_of.get(name)
            listed = self._listed[:, :, column] if column is not None else np.zeros_like(able)
            if self.restricted:
                told = self._is_told(name)
                able &= listed | ~told[:, None]
                limited |= told
                counted.append((self._numa.column_of[name], amount, told))
                continue
            somewhere = np.asarray(listed.any(axis=1), dtype=np.bool_)
            has = np.full(len(self.rows), name in _ALWAYS_OFFERED)
            if there is not None:
                has |= offered[self.rows, there] > 0
            open_ = ~somewhere & may_be_outside_zones(name)
            able &= (listed | open_[:, None]) & has[:, None]
            limited |= ~open_ | ~has
            if column is not None and self.needs.counts(name):
                counted.append((column, amount, somewhere))
        return able, limited, counted

    def times(self, terms: Terms) -> Counts:
        """Return int64[n, zones]: how many times a request fits in each zone; `PLENTY` where nothing counts there."""
        able, _, counted = terms
        fits = np.where(able, PLENTY, 0)
        for column, amount, where in counted:
            each = np.where(where[:, None], np.maximum(self.free[:, :, column], 0) // amount, PLENTY)
            np.minimum(fits, each, out=fits)
        return fits

    def _at_once(self, asked: Mapping[str, int]) -> Counts:
        """Return int64[n]: how many times a request fits, each time in one zone."""
        terms = self.terms(asked)
        return np.where(terms[1], np.minimum(self.times(terms).sum(axis=1), PLENTY), PLENTY)

    def _in_turn(self, *, whole: bool, most: int) -> tuple[Counts, Counts]:
        """Put pods in zones one after another, until none fits."""
        steps = [(WHOLE, self.considered(self.needs.whole), True)]
        if not whole:
            init = [(SIDECAR if side else INIT, self.considered(asked), False) for asked, side in self.needs.init]
            steps = [*init, *((CONTAINER, self.considered(asked), True) for asked in self.needs.containers)]
        sizes = [self.least(asked) for _, asked, _ in steps]
        terms = [self.terms(asked) for _, asked, _ in steps]
        wanted = self._most_pods(most)
        limits = np.minimum(wanted, max(1, MOST_STEPS // max(1, len(steps))))
        total = np.zeros(len(self.rows), dtype=np.int64)
        short = np.full(len(self.rows), steps[-1][0] if steps else CONTAINER)
        alive = total < limits
        if not any(limited.any() for _, limited, _ in terms):
            return np.full_like(total, PLENTY), short
        while alive.any():
            for (stage, asked, stays), size, term in zip(steps, sizes, terms, strict=True):
                fits, chosen = self._choose(size, term)
                short[alive & ~fits] = stage
                alive &= fits
                if stays:
                    self._take(asked, chosen & alive[:, None])
            total[alive] += 1
            alive &= total < limits
        return np.where(total >= wanted, PLENTY, total) if most == MOST_PODS else total, short

    def in_order(self, *, whole: bool, most: int) -> Counts:
        """Return int64[n, most]: the zone of which the 1st, 2nd, ... pod gets cores or devices.

        UNTOLD where it gets them of several, nothing limits it, or it has no place. Containers get what an init
        container has had, of the zone where that is (kubernetes pkg/kubelet/cm/cpumanager, policy_static.go,
        generateCPUTopologyHints): UNTOLD from the first pod on that has another zone for one.
        """
        parts, owned = [self.needs.whole], [self.needs.exclusive]
        if not whole:
            parts = [*(one for one, _ in self.needs.init), *self.needs.containers]
            owned = [own_part(one, guaranteed=self.needs.guaranteed) for one in parts]
        asked, before = [self.considered(one) for one in parts], 0 if whole else len(self.needs.init)
        steps = [(one, self.terms(one), self._is_listed(own)) for one, own in zip(asked, owned, strict=True)]
        one_zone, alive = np.ones(len(self.rows), dtype=np.int64), np.ones(len(self.rows), dtype=np.bool_)
        numbers, zones = self._numa.numbers[self.rows], np.full((len(self.rows), most), UNTOLD, dtype=np.int64)
        for nth in range(most):
            used, had = np.zeros_like(self._zones), np.zeros_like(self._zones)
            for at, (one, term, pinned) in enumerate(steps):
                fits, chosen = self._choose(one_zone, term)
                alive &= fits
                if at < before:
                    had |= chosen & pinned[:, None]
                    continue
                self._take(one, chosen & alive[:, None])
                used |= chosen & pinned[:, None]
            alive &= ~(had & ~used).any(axis=1)
            if not alive.any():
                break
            told = alive & (used.sum(axis=1) == 1)
            zones[told, nth] = numbers[told, used[told].argmax(axis=1)]
        return zones

    def _is_listed(self, own: Mapping[str, int]) -> Mask:
        """Return bool[n]: on which nodes any zone lists something of a request."""
        columns = [self._numa.column_of[name] for name in own if name in self._numa.column_of]
        return np.asarray(self._listed[:, :, columns].any(axis=(1, 2)), dtype=np.bool_)

    def _most_pods(self, most: int) -> Counts:
        """Return int64[n]: how many pods are put on each node at most."""
        pods = self.nodes.allocatable[self.rows, self.nodes.resource_index.column("pods")]
        limits: Counts = np.minimum(np.maximum(pods, 1), most)
        return limits

    def _choose(self, size: Counts, term: Terms) -> tuple[Mask, Mask]:
        """Return where a request fits, bool[n], and in which zones, bool[n, zones]; none where none limits it."""
        able, limited, counted = term
        single = able & (size == 1)[:, None]
        for column, amount, where in counted:
            single &= (self.free[:, :, column] >= amount) | ~where[:, None]
        chosen = single & (np.cumsum(single, axis=1) == 1)
        fits = single.any(axis=1)
        for several in np.unique(size[size > 1]).tolist():
            at = np.flatnonzero(size == several)
            sets = sets_of_zones(self._zones.shape[1], several)
            if sets is None:  # too many to look at: it is not known that none fits
                fits[at] = True
                continue
            good = made_of(sets, able[at])
            for column, amount, where in counted:
                sums = np.maximum(self.free[at][:, :, column], 0) @ sets.T.astype(np.int64)
                good &= (sums >= amount) | ~where[at][:, None]
            fits[at] = good.any(axis=1)
            chosen[at] = sets[good.argmax(axis=1)] & fits[at][:, None]
        fits |= ~limited & (size >= 0)
        return fits, chosen & limited[:, None]

    def _take(self, asked: Mapping[str, int], chosen: Mask) -> None:
        """Take a request out of zones, bool[n, zones], those of the lowest number first."""
        for name, amount in asked.items():
            column = self._numa.column_of.get(name)
            if column is None or not self.needs.counts(name):
                continue
            free = self.free[:, :, column]
            free -= given(chosen & self._listed[:, :, column], free, amount)
