"""How many pods of which several containers ask for cards fit on each node: they are put on all nodes at once.

Containers are put on cards one after another, each on those that `tutti.cluster.cards.fitting` would choose where
nobody tells how cards are linked: the tightest first. Nodes that take no more are left out of the next round.
"""

from __future__ import annotations

import numpy as np

from tutti.api.cards import CardDemand, CardNeeds, CardWishes
from tutti.cluster.cards.columns import Amount, Mask
from tutti.cluster.cards.room import CardRoom, Used, larger


def count_in_turn(room: CardRoom, needs: CardNeeds, most: Amount) -> Amount:
    """Return int64[n]: how many pods fit on the cards of each node, one after another, up to so many, int64[n]."""
    total, open_ = np.zeros_like(most), np.flatnonzero(most > 0)
    room = room.some(open_)
    while len(open_):
        fit = _put(room, needs)
        open_ = open_[fit]
        total[open_] += 1
        more = total[open_] < most[open_]
        open_, room = open_[more], room.some(np.flatnonzero(fit)[more])
    return total


def _put(room: CardRoom, needs: CardNeeds) -> Mask:
    """Put a pod on the cards of each node; returns bool[n], where it fits. Elsewhere what is used is no more known."""
    before = peak = room.used
    fits = np.ones(len(room.memory), dtype=np.bool_)
    for at, demand in enumerate(needs.containers):
        if at <= needs.first:
            room.restore(before)
        if demand is None:
            continue
        chosen, enough = _choose(room, demand, needs.wishes)
        fits &= enough
        room.restore(_with(room, demand, chosen))
        peak = larger(peak, room.used)
    room.restore(peak)
    return fits


def _with(room: CardRoom, demand: CardDemand, chosen: Mask) -> Used:
    memory = room.used_memory + np.where(chosen, room.asked(demand), 0)
    return memory, room.used_cores + demand.cores * chosen, room.used_slots + chosen


def _choose(room: CardRoom, demand: CardDemand, wishes: CardWishes) -> tuple[Mask, Mask]:
    """Return bool[n, cards], the cards of one container, and bool[n], where there are enough."""
    able = room.times(demand, wishes) > 0
    if wishes.one_numa_node:
        with_it = (room.numa[:, :, None] == room.numa[:, None, :]) & able[:, None, :]
        able &= with_it.sum(axis=2) >= demand.count
    order = np.lexsort((*room.worth(wishes), ~able), axis=1)
    if wishes.one_numa_node and order.shape[1]:
        able &= room.numa == np.take_along_axis(room.numa, order[:, :1], axis=1)
    in_order = np.take_along_axis(able, order, axis=1)
    chosen = np.zeros_like(able)
    np.put_along_axis(chosen, order, in_order & (np.cumsum(in_order, axis=1) <= demand.count), axis=1)
    return chosen, np.asarray(able.sum(axis=1) >= demand.count)
