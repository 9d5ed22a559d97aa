"""The cards of all nodes as columns, and who has which part of them.

One row per node as in `NodeColumns`, cards in the order in which their node tells them, padded to as many as the node
with most of them has. What is taken is kept by pod (`Grant`): the columns are sums of that, and are worked out anew
for a node whose cards change. A part of a card that its node does not tell of is taken nowhere, and comes back with it.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tutti.api.cards import Card, CardNeeds, CardWishes, NodeCards, Parts, peak_use
from tutti.api.hami import CORDON, LINKS, REGISTER, NodeLock, read_cards, read_lock

Amount = NDArray[np.int64]
Mask = NDArray[np.bool_]

NO_NUMA: Final = -1

_MOST_ASKED: Final = 256
"""So many different wishes and needs of pods are remembered: tenants make them up."""
_MOST_STATES: Final = 16384


@dataclass(slots=True, eq=False)
class Grant:
    """What one pod has of the cards of a node, or is to get.

    Attributes:
        node: The name of the node.
        parts: Per container, init containers first.
        first: How many of these are init containers.
        use: Of each card, by its id: MiB, percent of compute, slots.
    """

    node: str
    parts: Parts
    first: int = 0
    use: dict[str, tuple[int, int, int]] = field(init=False)

    def __post_init__(self) -> None:
        self.use = peak_use(self.parts, self.first)


class CardColumns:
    """The cards of all nodes. `sync` before anything is read of them, in each turn.

    Attributes:
        told: What nodes tell of their cards, by name.
        locks: Who has locked a node, by its name.
        silent: The nodes whose plugin does not answer.
        version: Grows whenever anything here changes.
        cards: Per row, the cards; none where a node tells of none.
        memory, cores, slots: int64[rows, cards], what each card has; 0 where a node has no more cards.
        used_memory, used_cores, used_slots: int64[rows, cards], what of it is taken.
        open: bool[rows, cards], which cards take anybody new.
        numa: int64[rows, cards], the NUMA node of each; NO_NUMA where a node has no more cards.
    """

    def __init__(self, rows: Mapping[str, int], names: Sequence[str]) -> None:
        self._rows = rows
        self._names = names
        self.told: dict[str, NodeCards] = {}
        self.locks: dict[str, NodeLock] = {}
        self.version = 0
        self.silent: dict[str, None] = {}
        self._texts: dict[str, tuple[str | None, ...]] = {}
        self._grants: dict[str, dict[Hashable, Grant]] = {}
        self._stale: dict[str, None] = {}
        self._emptied: dict[int, None] = {}
        self._lifted: dict[tuple[Hashable, str], None] = {}
        self._places: dict[int, dict[str, int]] = {}
        self._allowed: dict[CardWishes, tuple[int, Mask]] = {}
        self._counts: dict[CardNeeds, dict[bytes, tuple[int, int]]] = {}
        self._layout = 0
        self.cards: list[tuple[Card, ...]] = []
        self._amounts = np.zeros((6, 0, 0), dtype=np.int64)  # from `memory` to `used_slots`
        self._open = np.zeros((0, 0), dtype=np.bool_)
        self._numa = np.full((0, 0), NO_NUMA, dtype=np.int64)
        self._grow(0, 0)

    def __bool__(self) -> bool:
        """Whether any node tells of cards."""
        return bool(self.told)

    def read(self, name: str, annotations: Mapping[str, str]) -> bool:
        """Take in what the annotations of a node say of its cards, and who has locked it.

        Returns:
            Whether others than before may go there: it has other cards, or its lock is gone or another's.
        """
        before, lock = self.locks.get(name), read_lock(annotations)
        if lock is not None:
            self.locks[name] = lock
        else:
            self.locks.pop(name, None)
        texts = annotations.get(REGISTER), annotations.get(LINKS), annotations.get(CORDON)
        if self._texts.get(name, (None,) * len(texts)) == texts:
            return before != lock
        self._texts[name] = texts
        found = read_cards(annotations)
        if found is None:
            self.told.pop(name, None)
            self._texts.pop(name)
        else:
            self.told[name] = found
        self._stale[name] = None
        self.version += 1
        return True

    def empty(self, row: int, name: str) -> None:
        """Forget the cards of a node that is gone; what pods have there is known until they are gone, too."""
        known = self.told.pop(name, None)
        self._texts.pop(name, None)
        self.locks.pop(name, None)
        self._stale.pop(name, None)
        # Though the node has told of none lately: the row has what it told before until the columns are worked out.
        shown = row < len(self.cards) and bool(self.cards[row])
        if shown:
            self._emptied[row] = None
        if shown or known is not None:
            self.version += 1

    def problem_of(self, name: str) -> str:
        """Return why the cards of a node cannot be used; "" where they can, or it tells of none."""
        found = self.told.get(name)
        return "" if found is None else found.problem

    def take(self, who: Hashable, grant: Grant) -> None:
        """Have somebody have parts of cards."""
        self._grants.setdefault(grant.node, {})[who] = grant
        self._charge(grant, 1)

    def free(self, who: Hashable, node: str) -> Grant | None:
        """Take back what somebody has on a node; returns it, None where that was nothing."""
        there = self._grants.get(node)
        found = None if there is None else there.pop(who, None)
        if found is not None:
            if (who, node) in self._lifted:
                del self._lifted[who, node]
            else:
                self._charge(found, -1)
            if not there:
                del self._grants[node]
        return found

    def of(self, who: Hashable, node: str) -> Grant | None:
        """Return what somebody has on a node."""
        return self._grants.get(node, {}).get(who)

    def left_of(self, grant: Grant) -> dict[str, tuple[int, int, int]]:
        """Return what is left of the cards of a grant, by their ids: MiB, percent of compute, slots.

        It is below 0 where more is taken than there is, or the card is not there any more.
        """
        self.sync()
        row = self._rows.get(grant.node)
        places = self._places.get(row, {}) if row is not None else {}
        left = {card: (-memory, -cores, -slots) for card, (memory, cores, slots) in grant.use.items()}
        for card in left.keys() & places.keys():
            memory, cores, slots = (
                self._amounts[:3, row, places[card]] - self._amounts[3:, row, places[card]]
            ).tolist()
            left[card] = memory, cores, slots
        return left

    def is_overdrawn(self, grant: Grant) -> bool:
        """Whether a card that a grant is of is not there any more, or has less than is taken of it altogether."""
        return any(min(left) < 0 for left in self.left_of(grant).values())

    def on_node(self, name: str) -> Mapping[Hashable, Grant]:
        """Return who has what on a node."""
        return self._grants.get(name, {})

    def lift(self, who: Hashable, node: str, *, back: bool) -> None:
        """Have what somebody has be free while a question is asked, or taken again.

        The columns are up to date before: else what is lifted would be counted when its node is worked out.
        """
        self.sync()
        found = self.of(who, node)
        if found is None or ((who, node) in self._lifted) is not back:
            return
        if back:
            del self._lifted[who, node]
        else:
            self._lifted[who, node] = None
        self._charge(found, 1 if back else -1)

    def sync(self) -> None:
        """Bring the columns up to date with what nodes tell."""
        if not self._stale and not self._emptied and len(self.cards) == len(self._names):
            return
        widths = (len(self.told[name].cards) for name in self._stale if name in self.told)
        self._grow(len(self._names), max(widths, default=0))
        self._layout += 1
        for row in self._emptied:
            if row < len(self.cards):
                self._fill(row, NodeCards())
        self._emptied.clear()
        stale, self._stale = self._stale, {}
        for name in stale:
            place = self._rows.get(name)
            if place is not None:
                self._fill(place, self.told.get(name, NodeCards()))
                for who, grant in self._grants.get(name, {}).items():
                    if (who, name) not in self._lifted:
                        self._charge(grant, 1)

    def allowed(self, wishes: CardWishes) -> Mask:
        """Return bool[rows, cards]: which cards a pod of these wishes may have, and which take anybody new at all."""
        self.sync()
        known = self._allowed.get(wishes)
        if known is not None and known[0] == self._layout:
            return known[1]
        if len(self._allowed) >= _MOST_ASKED:
            self._allowed.clear()
        mask = self.open.copy()
        for row, cards in enumerate(self.cards if wishes.narrow else ()):
            for at, card in enumerate(cards):
                mask[row, at] &= wishes.allow(card)
        self._allowed[wishes] = (self._layout, mask)
        return mask

    def counts_of(self, needs: CardNeeds) -> dict[bytes, tuple[int, int]]:
        """Return for how many pods of these needs there are cards on nodes counted before, by the state of the cards.

        With it stands at how many the count was ended. Whoever counts others adds them (`fitting.card_room`).
        """
        if len(self._counts) >= _MOST_ASKED or sum(map(len, self._counts.values())) >= _MOST_STATES:
            self._counts.clear()
        return self._counts.setdefault(needs, {})

    def links_of(self, name: str) -> Mapping[str, Mapping[str, int]]:
        """Return how well the cards of a node are linked, by their ids."""
        found = self.told.get(name)
        return {} if found is None else found.links

    def _grow(self, rows: int, width: int) -> None:
        """Have so many rows, and room for so many cards in each; what stands there is kept. Rows grow by doubling."""
        room, wide = self._numa.shape
        if rows > room or width > wide:
            amounts, is_open, numa = self._amounts, self._open, self._numa
            size = (max(rows, 2 * room) if rows > room else room), max(width, wide)
            self._amounts = np.zeros((len(amounts), *size), dtype=np.int64)
            self._open, self._numa = np.zeros(size, dtype=np.bool_), np.full(size, NO_NUMA, dtype=np.int64)
            self._amounts[:, :room, :wide] = amounts
            self._open[:room, :wide], self._numa[:room, :wide] = is_open, numa
        self.memory, self.cores, self.slots = self._amounts[:3, :rows]
        self.used_memory, self.used_cores, self.used_slots = self._amounts[3:, :rows]
        self.open, self.numa = self._open[:rows], self._numa[:rows]
        self.cards.extend([()] * (rows - len(self.cards)))

    def _fill(self, row: int, told: NodeCards) -> None:
        for column in (self.memory, self.cores, self.slots, self.used_memory, self.used_cores, self.used_slots):
            column[row] = 0
        self.open[row], self.numa[row] = False, NO_NUMA
        self.cards[row] = told.cards
        self._places[row] = {card.id: at for at, card in enumerate(told.cards)}
        for at, card in enumerate(told.cards):
            self.memory[row, at], self.cores[row, at], self.slots[row, at] = card.memory, card.cores, card.slots
            self.open[row, at], self.numa[row, at] = not card.closed, card.numa

    def _charge(self, grant: Grant, sign: int) -> None:
        self.version += 1
        row = self._rows.get(grant.node)
        if row is None or row >= len(self.cards) or grant.node in self._stale:
            return  # it is counted when the node is worked out
        places = self._places.get(row, {})
        for card, (memory, cores, slots) in grant.use.items():
            at = places.get(card)
            if at is not None:
                self.used_memory[row, at] += sign * memory
                self.used_cores[row, at] += sign * cores
                self.used_slots[row, at] += sign * slots
