"""Choosing victims for one ask after another, each with those before it placed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tutti.placement.framework import Mask
from tutti.placement.gang import Ask, hardest_first, place_ask
from tutti.placement.preemption.by_room import ByRoom
from tutti.placement.preemption.search import VictimSearch
from tutti.placement.preemption.units import BarredNodes, SimulatedRemoval, always_true

MOST_ASKS = 128
"""For so many asks at most: each takes about as long as a choice for all of a gang of equal pods."""


def ask_by_ask(
    search: VictimSearch, asks: Sequence[Ask], closed: Sequence[BarredNodes | None], *, within: Mask | None = None
) -> Mask | None:
    """Choose for one ask after another, the hardest first, each with the ones before it placed.

    Per ask, nodes that are `closed` to it now may be chosen, too. `within` holds all to some rows, bool[rows].

    Returns:
        bool[units]; None where that does not work out, though another order might, and for more than `MOST_ASKS`.
    """
    if len(asks) > MOST_ASKS:
        return None
    cluster, units = search.cluster, search.units
    chosen = np.zeros(len(units), dtype=np.bool_)
    order = hardest_first(cluster.nodes, asks)
    with cluster.transaction() as transaction:
        for index in order:
            last = index == order[-1]
            must = search if last else replace(search, enough=always_true)
            more = ByRoom(must, asks[index], within=within, closed=closed[index]).choose(chosen)
            if more is None:
                return None
            chosen = more
            if not last:
                with SimulatedRemoval(cluster, units.pods(chosen), seen=any(closed)):
                    if place_ask(cluster.nodes, transaction, asks[index], search.profile, within=within) is None:
                        return None
    return chosen
