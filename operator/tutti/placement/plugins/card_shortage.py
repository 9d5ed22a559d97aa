"""What cards that pods share lack for pods of a class, in numbers: the largest hole, and where it is."""

from __future__ import annotations

from collections import Counter
from typing import Final

import numpy as np

from tutti.api.cards import CardDemand
from tutti.api.messages import counted
from tutti.cluster.cards.room import CardRoom
from tutti.cluster.classes import PodClass
from tutti.cluster.nodes import NodeColumns
from tutti.placement.framework import Mask

_MOST_ROWS: Final = 1_000
"""The cards of so many nodes are counted for people."""


def card_shortage(pod_class: PodClass, nodes: NodeColumns, among: Mask) -> str:
    """Say what the cards of some nodes, bool[rows], have too little of, and what the largest hole among them is."""
    needs, columns = pod_class.cards, nodes.cards
    columns.sync()
    demand = _largest(pod_class)
    if demand is None or not among.any():
        return ""
    room = CardRoom.at(columns, needs.wishes, slice(None))
    free = np.where(room.allowed & among[:, None], np.maximum(room.memory - room.used_memory, 0), -1)
    free[(room.used_slots >= room.slots) & (free > 0)] = 0
    if not free.size or int(free.max()) < 0:
        return ""
    row, at = (int(one) for one in np.unravel_index(int(free.argmax()), free.shape))
    cores = max(0, int(room.cores[row, at] - room.used_cores[row, at]))
    slots = max(0, int(room.slots[row, at] - room.used_slots[row, at]))
    card = columns.cards[row][at]
    return (
        f"On {counted(int(among.sum()), 'node')} {_asked(demand)}; the largest hole is {int(free[row, at])} MiB, "
        f"{cores} % of the compute and {counted(slots, 'slot')}, on card {card.index} ({card.id}) of "
        f"{nodes.names[row]}."
    )


def closed_cards(nodes: NodeColumns, among: Mask) -> str:
    """Say how many cards of some nodes take nobody new, and why; "" where none does not."""
    rows = np.flatnonzero(among & ~nodes.cards.open.any(axis=1))[:_MOST_ROWS].tolist()
    tally = Counter(card.closed for row in rows for card in nodes.cards.cards[row] if card.closed)
    if not tally:
        return ""
    said = ", ".join(f"{count} {why}" for why, count in sorted(tally.items()))
    note = "; cards in mode mig are left to HAMi's own scheduler" if "in mode mig" in tally else ""
    return f"{counted(tally.total(), 'card')} there take nobody new: {said}{note}."


def _largest(pod_class: PodClass) -> CardDemand | None:
    found = [one for one in pod_class.cards.containers if one is not None]
    return max(found, key=lambda one: (one.memory or one.percent, one.count), default=None)


def _asked(demand: CardDemand) -> str:
    memory = f"{demand.memory} MiB" if demand.memory else f"{demand.percent} % of the memory"
    cores = f" and {demand.cores} % of the compute" if demand.cores else ""
    if demand.count == 1:
        return f"no card has {memory}{cores} free"
    return f"there are no {demand.count} cards with {memory}{cores} free on each"
