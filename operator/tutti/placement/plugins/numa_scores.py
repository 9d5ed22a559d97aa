"""How well pods would sit in the NUMA zones of each node: the four strategies of scheduler-plugins.

Source: scheduler-plugins, noderesourcetopology/score.go, least_allocated.go, most_allocated.go, balanced_allocation.go
and least_numa.go. A score is that of the node as it is now; what is pending counts as taken from every zone
that it may be in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from tutti.api.resources import CPU, Amounts
from tutti.cluster.classes import Feature, PodClass
from tutti.cluster.columns import MOST_AMOUNT
from tutti.cluster.nodes import NodeColumns
from tutti.cluster.numa import NO_ZONE, SINGLE, NumaColumns
from tutti.cluster.numa_needs import ZoneNeeds, zone_needs
from tutti.placement.framework import MAX_SCORE, Counts, Mask, Rows, Scores
from tutti.placement.plugins.numa_fit import given, made_of, sets_of_zones
from tutti.placement.plugins.numa_room import loaded

Strategy = Literal["LeastAllocated", "MostAllocated", "BalancedAllocation", "LeastNUMANodes"]

_MILLI: Final = 1000


@dataclass(frozen=True, slots=True)
class NumaScore:
    """The score, of NodeResourceTopologyMatch; all nodes are alike to pods that are not Guaranteed.

    Attributes:
        strategy: Which.
        weights: What resources count beside each other; those not named count 1.
    """

    strategy: Strategy = "LeastAllocated"
    weights: tuple[tuple[str, int], ...] = ()
    name: str = "NodeResourceTopologyMatch"
    weight: int = 1
    scaled: bool = False
    reverse: bool = False
    concerns: int = field(default=Feature.NUMA_ZONES, init=False)

    def points(self, pod_class: PodClass, nodes: NodeColumns) -> Scores:
        """Return int64[rows] in 0..MAX_SCORE: 0 where zones are not known, or the policy is none that counts."""
        needs, numa = zone_needs(pod_class), nodes.numa
        if not needs.guaranteed:
            return np.full(len(nodes), MAX_SCORE, dtype=np.int64)
        numa.sync()
        stamp = (numa.version, nodes.capacity_version, len(nodes))
        return pod_class.keep(("zone score", self), stamp, lambda: self._points(needs, nodes))

    def _points(self, needs: ZoneNeeds, nodes: NodeColumns) -> Scores:
        numa = nodes.numa
        out = np.zeros(len(numa.policy), dtype=np.int64)
        known = numa.reported & ~numa.unusable
        if self.strategy != "LeastNUMANodes":
            known &= numa.policy == SINGLE
        for whole in (False, True):
            rows = np.flatnonzero(known & (numa.pod_scope == whole))
            if not len(rows):
                continue
            parts = [needs.whole] if whole else [*(asked for asked, _ in needs.init), *needs.containers]
            free = np.maximum(numa.available[rows] - loaded(nodes, rows), 0)
            if self.strategy == "LeastNUMANodes":
                out[rows] = _FewestZones(numa, rows, free).score(parts)
            else:
                scores = [self._lowest(numa, rows, free, asked) for asked in parts]
                out[rows] = sum(scores) // len(scores)
        return out

    def _lowest(self, numa: NumaColumns, rows: Rows, free: Counts, asked: Amounts) -> Scores:
        """Return int64[n]: the lowest score that is not 0 of any zone of each node, 0 where all are."""
        per_zone = (
            self._balanced(numa, free, asked)
            if self.strategy == "BalancedAllocation"
            else self._allocated(numa, free, asked)
        )
        counting = np.where((numa.numbers[rows] != NO_ZONE) & (per_zone > 0), per_zone, MAX_SCORE + 1)
        lowest = counting.min(axis=1, initial=MAX_SCORE + 1)
        return np.where(lowest > MAX_SCORE, 0, lowest)

    def _allocated(self, numa: NumaColumns, free: Counts, asked: Amounts) -> Scores:
        """Return int64[n, zones]: by how much of each zone would be left, or taken."""
        weights, total, weighed = dict(self.weights), np.zeros(free.shape[:2], dtype=np.int64), 0
        for name, amount in asked.items():
            has, weight = _column(numa, free, name), max(1, weights.get(name, 1))
            fits, whole, wants = (has > 0) & (amount <= has), _whole(name, has), int(_whole(name, np.int64(amount)))
            part = wants if self.strategy == "MostAllocated" else whole - wants
            total += np.where(fits, part * MAX_SCORE // np.maximum(whole, 1), 0) * weight
            weighed += weight
        return total // max(1, weighed)

    def _balanced(self, numa: NumaColumns, free: Counts, asked: Amounts) -> Scores:
        """Return int64[n, zones]: by how evenly the resources of each zone would be used; 0 for a single resource."""
        if len(asked) < 2:  # noqa: PLR2004 - the variance of one number is none
            return np.zeros(free.shape[:2], dtype=np.int64)
        parts: list[NDArray[np.float64]] = []
        for name, amount in asked.items():
            has = _whole(name, _column(numa, free, name))
            parts.append(np.where(has == 0, 1.0, float(_whole(name, np.int64(amount))) / np.maximum(has, 1)))
        fractions = np.stack(parts)
        apart = fractions - fractions.sum(axis=0) / len(parts)
        squares = (apart * apart).sum(axis=0) - apart.sum(axis=0) ** 2 / len(parts)
        fits = (fractions <= 1).all(axis=0)
        scores: Scores = (np.where(fits, 1.0 - squares / (len(parts) - 1), 0.0) * MAX_SCORE).astype(np.int64)
        return scores


def _column(numa: NumaColumns, free: Counts, name: str) -> Counts:
    """Return int64[n, zones]: what each zone has of a resource; 0 where it does not list it."""
    column = numa.column_of.get(name)
    found: Counts = np.zeros(free.shape[:2], dtype=np.int64) if column is None else free[:, :, column]
    return found


def _whole(name: str, amounts: Counts | np.int64) -> Counts:
    """Return amounts in whole units, rounded up: cores, bytes, devices."""
    return np.asarray(-(-amounts // _MILLI) if name == CPU else amounts, dtype=np.int64)


@dataclass(slots=True)
class _FewestZones:
    """How few zones pods need on some nodes, and how near those are.

    Attributes:
        rows: int64[n].
        free: int64[n, zones, resources]; it falls as containers are put there.
    """

    numa: NumaColumns
    rows: Rows
    free: Counts

    def score(self, parts: list[Amounts]) -> Scores:
        """Return int64[n] for what is to be put in zones one after another."""
        most, nearest = np.zeros(len(self.rows), dtype=np.int64), np.ones(len(self.rows), dtype=np.bool_)
        failed = np.zeros(len(self.rows), dtype=np.bool_)
        for asked in parts:
            bound = self._is_listed(asked)
            if not bound.any():
                continue
            zones, near = self._closest(asked)
            size = zones.sum(axis=1)
            failed |= bound & (size == 0)
            most = np.where(bound, np.maximum(most, size), most)
            nearest &= near | ~bound
            self._take(asked, zones & bound[:, None])
        unit = MAX_SCORE // self.numa.most_zones[self.rows]
        points = MAX_SCORE - most * unit + np.where(nearest, unit // 2, 0)
        return np.where(failed, 0, np.where(most == 0, MAX_SCORE, np.maximum(points, 0)))

    def _is_listed(self, asked: Mapping[str, int]) -> Mask:
        """Return bool[n]: where any zone lists anything of a request."""
        columns = [self.numa.column_of[name] for name in asked if name in self.numa.column_of]
        return np.asarray(self.numa.listed[self.rows][:, :, columns].any(axis=(1, 2)), dtype=np.bool_)

    def _closest(self, asked: Mapping[str, int]) -> tuple[Mask, Mask]:
        """Return the fewest zones that together have what is asked for, those nearest to each other.

        Returns:
            bool[n, zones], none where no zones have it; bool[n], whether no zones are nearer to each other.
        """
        there = self.numa.numbers[self.rows] != NO_ZONE
        costs, listed = self.numa.costs[self.rows], self.numa.listed[self.rows]
        chosen, near = np.zeros_like(there), np.zeros(len(self.rows), dtype=np.bool_)
        open_ = np.ones(len(self.rows), dtype=np.bool_)
        able = there.copy()
        for name in asked:
            column = self.numa.column_of.get(name)
            able &= listed[:, :, column] if column is not None else False
        for size in range(1, there.shape[1] + 1):
            sets = sets_of_zones(there.shape[1], size)
            at = np.flatnonzero(open_)
            if sets is None or not len(at):
                break
            members = sets.astype(np.int64)
            real = made_of(sets, there[at])
            good = made_of(sets, able[at])
            for name, amount in asked.items():
                column = self.numa.column_of.get(name)
                if column is not None and amount:
                    good &= self.free[at][:, :, column] @ members.T >= min(amount, MOST_AMOUNT + 1)
            distance = np.einsum("sa,nab,sb->ns", members, costs[at], members)
            far = np.iinfo(np.int64).max
            nearest = np.where(real, distance, far).min(axis=1)
            mine = np.where(good, distance, far)
            found = good.any(axis=1)
            best = mine.argmin(axis=1)
            chosen[at[found]] = sets[best[found]]
            near[at[found]] = mine[found, best[found]] == nearest[found]
            open_[at[found]] = False
        return chosen, near

    def _take(self, asked: Mapping[str, int], zones: Mask) -> None:
        for name, amount in asked.items():
            column = self.numa.column_of.get(name)
            if column is None:
                continue
            free = self.free[:, :, column]
            free -= given(zones, free, amount)
