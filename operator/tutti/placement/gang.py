"""Where a whole gang goes: k equal pods are one choice over all nodes, not k passes.

Capacity per node is one expression. The choice equals what k sequential decisions of kube-scheduler would give for
scores that only fall (LeastAllocated) or only rise (MostAllocated) as a node fills: in the first case the k best of
all (node, nth pod) pairs, in the second the best node filled up, then the next.
Ties go to the lower row, so that equal input gives equal output.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tutti.cluster.classes import PodClass
from tutti.cluster.nodes import NodeColumns
from tutti.cluster.transaction import Transaction
from tutti.placement.filters import judge
from tutti.placement.framework import ANYWHERE, Mask, Rows, Where
from tutti.placement.scores import Packing, constant_scores

FIRST_DEPTH = 8


@dataclass(frozen=True, slots=True)
class Ask:
    """Pods of one class that want nodes.

    Attributes:
        klass: Their class.
        required: How many must be placed, or nothing is.
        extra: How many more are placed where there is room.
        where: What their flavor adds to their own constraints.
    """

    klass: PodClass
    required: int
    extra: int = 0
    where: Where = ANYWHERE


def capacity(nodes: NodeColumns, klass: PodClass, mask: Mask) -> NDArray[np.int64]:
    """Return int64[rows]: how many more pods of the class fit on each node by resources; 0 where masked out.

    A resource that the class does not ask for never limits it (plugins/noderesources/fit.go).
    """
    request = nodes.vector(klass.requests)
    asked = np.flatnonzero(request)
    free = nodes.allocatable[:, asked] - nodes.requested[:, asked]
    fits = np.where(free > 0, free, 0) // request[asked]
    return np.where(mask, fits.min(axis=1, initial=np.iinfo(np.int64).max), 0)


def place(nodes: NodeColumns, transaction: Transaction, ask: Ask, packing: Packing) -> Rows | None:
    """Take room for the pods of one ask.

    Returns:
        int64[m], one row per pod placed, `required <= m <= required + extra`, pods of one node side by side;
        None, and nothing taken, where the required ones do not fit.
    """
    if ask.klass.problem:
        return None
    room = capacity(nodes, ask.klass, judge(ask.klass, nodes, ask.where).mask)
    total = int(np.minimum(room, ask.required + ask.extra).sum())
    if total < ask.required:
        return None
    wanted = min(ask.required + ask.extra, total)
    if wanted == 0:
        return np.zeros(0, dtype=np.int64)
    rows = np.flatnonzero(room)
    counts = _choose(nodes, ask.klass, rows, np.minimum(room[rows], wanted), wanted, packing)
    chosen = np.flatnonzero(counts)
    transaction.take(rows[chosen], counts[chosen], nodes.vector(ask.klass.requests))
    return np.repeat(rows[chosen], counts[chosen])


def place_all(nodes: NodeColumns, transaction: Transaction, asks: Sequence[Ask], packing: Packing) -> list[Rows] | int:
    """Take room for several asks, hardest first, all or nothing.

    Returns:
        Per ask the rows of its pods, as `place` gives them; or the index of the ask that did not fit, with
        everything that this call took given back.
    """
    mark = transaction.mark()
    placed: list[Rows] = [np.zeros(0, dtype=np.int64)] * len(asks)
    for index in hardest_first(nodes, asks):
        rows = place(nodes, transaction, asks[index], packing)
        if rows is None:
            transaction.rollback(mark)
            return index
        placed[index] = rows
    return placed


def hardest_first(nodes: NodeColumns, asks: Sequence[Ask]) -> list[int]:
    """Return the order in which to place asks: the one whose pod takes the largest part of a node first."""
    largest = nodes.allocatable.max(axis=0, initial=1)

    def part(index: int) -> float:
        request = nodes.vector(asks[index].klass.requests)[: len(largest)]
        return float((request / np.maximum(largest, 1)).max(initial=0.0))

    return sorted(range(len(asks)), key=lambda i: (-part(i), i))


def _choose(
    nodes: NodeColumns, klass: PodClass, rows: Rows, room: NDArray[np.int64], wanted: int, packing: Packing
) -> NDArray[np.int64]:
    """Return int64[len(rows)]: how many of the wanted pods go to each row; `room` is what fits there."""
    base = constant_scores(klass, nodes, rows)
    if packing.most:
        first = base + packing.weight * packing.scores(klass, nodes, rows, np.ones(1, dtype=np.int64))[:, 0]
        return _fill_in_order(np.argsort(-first, kind="stable"), room, wanted)
    deepest = int(room.max())
    depth = min(deepest, max(FIRST_DEPTH, -(-2 * wanted // len(rows))))
    while True:
        counts = _top_pairs(nodes, klass, rows, room, wanted, packing, base, depth)
        # A node taken as deep as was looked might have been worth more pods; look deeper until none is.
        if depth >= deepest or (int(counts.sum()) == wanted and not (counts == depth).any()):
            return counts
        depth = min(deepest, 4 * depth)


def _fill_in_order(order: Rows, room: NDArray[np.int64], wanted: int) -> NDArray[np.int64]:
    before = np.cumsum(room[order]) - room[order]
    counts = np.zeros_like(room)
    counts[order] = np.clip(wanted - before, 0, room[order])
    return counts


def _top_pairs(
    nodes: NodeColumns,
    klass: PodClass,
    rows: Rows,
    room: NDArray[np.int64],
    wanted: int,
    packing: Packing,
    base: NDArray[np.int64],
    depth: int,
) -> NDArray[np.int64]:
    nth = np.arange(1, depth + 1, dtype=np.int64)
    scores = base[:, None] + packing.weight * packing.scores(klass, nodes, rows, nth)
    fits = nth[None, :] <= room[:, None]
    pair_row, pair_nth = np.nonzero(fits)
    values = scores[pair_row, pair_nth]
    if len(values) > wanted:
        order = np.argsort(-values, kind="stable")[:wanted]
        pair_row = pair_row[order]
    return np.bincount(pair_row, minlength=len(rows)).astype(np.int64)
