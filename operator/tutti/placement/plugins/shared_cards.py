"""Cards that pods share: where there is room on them for pods of a class, and which node has the tightest.

How often pods fit is counted over all cards of all nodes at once (`cluster/cards/fitting.py`); which cards they get is
chosen as they are put (`cluster/transaction.py`). Whoever leaves the smallest hole behind goes first, on a node as in
the whole cluster, so that cards which nobody uses stay whole. HAMi's own scheduler fills the fullest node, and there
the emptiest card, unless it is told otherwise; what pods say of that in HAMi's annotations is heeded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tutti.api.cards import NO_CARDS
from tutti.api.hami import COUNT
from tutti.cluster.cards.fitting import MOST_PODS, card_room
from tutti.cluster.cards.room import CardRoom
from tutti.cluster.classes import Feature, PodClass
from tutti.cluster.nodes import NodeColumns
from tutti.placement.framework import MAX_SCORE, Counts, FlavorConstraints, Mask, Rejection, Rows, Scores
from tutti.placement.plugins.accelerator_packing import Gathering, Packing

UNREADABLE: Final = "node(s) whose HAMi annotations cannot be read"
NOT_TOLD: Final = "node(s) without cards of HAMi"
SILENT: Final = "node(s) where HAMi's device plugin does not answer"
NOT_SUITED: Final = "node(s) without a card as asked for"
TOO_FULL: Final = "node(s) with too little free on each card"
PLENTY: Final = 1_000_000_000
"""More pods than any node takes."""


@dataclass(slots=True)
class CardState:
    """How many more pods of a class each node has cards for; told beforehand, so that nothing changes.

    Attributes:
        found: int64[rows]; where it is `counted`, there may be more.
        counted: How far is counted: pods of several containers are put on cards one by one, so no further than asked.
    """

    pod_class: PodClass
    nodes: NodeColumns
    found: Counts
    counted: int
    changes_on_add: bool = False
    one_per_node: bool = False

    def room(self, most: int) -> NDArray[np.int64]:
        """Return int64[rows]: how many more pods of the class each node takes."""
        if min(most, MOST_PODS) > self.counted:
            self.found, self.counted = _room(self.pod_class, self.nodes, most), most
        return self.found

    def rejections(self) -> Sequence[Rejection]:
        """Rule out nodes that take none; final where nobody's leaving would open a card."""
        cards, left = self.nodes.cards, self.nodes.present & (self.found < 1)
        out = []
        for reason, rows in (
            (UNREADABLE, self._told_wrongly()),
            (NOT_TOLD, ~told_rows(self.nodes)),
            (SILENT, self._silent()),
            (NOT_SUITED, ~cards.allowed(self.pod_class.cards.wishes).any(axis=1)),
        ):
            hit = left & rows
            left &= ~hit
            if hit.any():
                out.append(Rejection(reason, hit, final=True))
        if left.any():
            out.append(Rejection(TOO_FULL, left, self._never(left)))
        return out

    def add(self, row: int) -> None:
        """Count one more pod of the class on a row."""
        self.room(MOST_PODS)
        self.found[row] -= 1

    def _silent(self) -> Mask:
        out = np.zeros(len(self.nodes), dtype=np.bool_)
        out[[self.nodes.rows[name] for name in self.nodes.cards.silent if name in self.nodes.rows]] = True
        return out

    def _told_wrongly(self) -> Mask:
        out = np.zeros(len(self.nodes), dtype=np.bool_)
        for name, told in self.nodes.cards.told.items():
            row = self.nodes.rows.get(name)
            if row is not None and told.problem:
                out[row] = True
        return out

    def _never(self, rows: Mask) -> Mask:
        """Return bool[rows]: of some nodes, which would not take a pod if nobody had anything there."""
        columns, needs = self.nodes.cards, self.pod_class.cards
        single = needs.single
        if single is None:
            return np.zeros_like(rows)
        room = CardRoom.at(columns, needs.wishes, slice(None))
        for used in (room.used_memory, room.used_cores, room.used_slots):
            used[:] = 0
        never: Mask = rows & (room.pods(single, needs.wishes) < 1)
        return never


@dataclass(frozen=True, slots=True)
class SharedCards:
    """The filter."""

    concerns: int = field(default=Feature.CARDS, init=False)

    def pre_filter(self, pod_class: PodClass, nodes: NodeColumns, where: FlavorConstraints) -> CardState:  # noqa: ARG002 - a filter's signature
        """Count by cards."""
        nodes.cards.sync()
        stamp = (nodes.cards.version, len(nodes))
        counted = 1 if pod_class.cards.single is None else MOST_PODS
        found = pod_class.keep("card room", stamp, lambda: _room(pod_class, nodes, counted))
        return CardState(pod_class, nodes, found.copy(), counted)


def _room(pod_class: PodClass, nodes: NodeColumns, most: int) -> Counts:
    """Return int64[rows]: for how many pods there are cards; whole ones can be had of nodes without HAMi as well."""
    room = card_room(nodes.cards, pod_class.cards, most)
    if pod_class.cards.whole:
        room[~told_rows(nodes)] = PLENTY
    room[[nodes.rows[name] for name in nodes.cards.silent if name in nodes.rows]] = 0
    return room


def told_rows(nodes: NodeColumns) -> Mask:
    """Return bool[rows]: which nodes tell of cards, whether these can be used or not."""
    out = np.zeros(len(nodes), dtype=np.bool_)
    out[[nodes.rows[name] for name in nodes.cards.told if name in nodes.rows]] = True
    return out


@dataclass(frozen=True, slots=True)
class TightestCard:
    """The score: in percent, how much of the card with the smallest hole that will do would be in use.

    A node that takes a pod on several cards counts by the tightest of them.
    """

    weight: int = 10
    name: str = "TightestCard"
    scaled: bool = False
    reverse: bool = False
    concerns: int = field(default=Feature.CARDS, init=False)

    def points(self, pod_class: PodClass, nodes: NodeColumns) -> Scores | None:
        """Return int64[rows] in 0..MAX_SCORE; None for pods that are to be spread over nodes."""
        needs = pod_class.cards
        if needs.problem or needs.wishes.spread_nodes:
            return None
        nodes.cards.sync()
        demand = next(one for one in reversed(needs.containers) if one is not None)
        room = CardRoom.at(nodes.cards, needs.wishes, slice(None))
        able = room.times(demand, needs.wishes) > 0
        used = (room.used_memory + room.asked(demand)) * MAX_SCORE // np.maximum(room.memory, 1)
        points: Scores = np.where(able, np.minimum(used, MAX_SCORE), 0).max(axis=1, initial=0)
        return points


@dataclass(frozen=True, slots=True)
class CardPacking:
    """Keeps cards in whole nodes as `AcceleratorPacking` does, by their memory; other pods are left to `others`."""

    others: Packing | None = None
    weight: int = 10
    name: str = "CardPacking"

    def concerns(self, pod_class: PodClass) -> bool:
        """Whether pods of the class are packed."""
        if _shares(pod_class):
            return not pod_class.cards.wishes.spread_nodes
        return self.others is not None and self.others.concerns(pod_class)

    def scores(self, pod_class: PodClass, nodes: NodeColumns, rows: Rows, nth: Counts) -> Scores | None:
        """Return int64[m, k] in 0..MAX_SCORE, or None where the class is not packed."""
        if not self.concerns(pod_class):
            return None
        return self.in_use(pod_class, nodes, rows, nth[:, None])

    def in_use(self, pod_class: PodClass, nodes: NodeColumns, rows: Rows, more: Counts) -> Scores:
        """Return the percentage of the memory of a node's cards in use with so many more pods on each row."""
        if not _shares(pod_class) and self.others is not None:
            return self.others.in_use(pod_class, nodes, rows, more)
        cards, needs = nodes.cards, pod_class.cards
        cards.sync()
        memory = cards.memory[rows]
        each = np.zeros(len(rows), dtype=np.int64)
        for demand in needs.containers[needs.first :]:
            if demand is not None and memory.shape[1]:
                largest = memory.max(axis=1)
                each += demand.count * (largest * demand.percent // 100 if not demand.memory else demand.memory)
        whole = np.maximum(memory.sum(axis=1), 1)
        used = np.minimum(cards.used_memory[rows].sum(axis=1) + more * each, whole)
        share: Scores = used * MAX_SCORE // whole
        return share

    def gathering(self, pod_class: PodClass, nodes: NodeColumns, room: Counts, wanted: int) -> Gathering:
        """Begin the choice of nodes for `wanted` pods, where int64[rows] `room` says how many each could take."""
        if not _shares(pod_class) and self.others is not None:
            return self.others.gathering(pod_class, nodes, room, wanted)
        return Gathering.begun(self, pod_class, nodes, room, wanted)


def _shares(pod_class: PodClass) -> bool:
    return pod_class.cards is not NO_CARDS and COUNT in pod_class.requests
