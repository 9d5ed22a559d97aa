"""How many more pods each node has cards for, and which cards the next ones get: the tightest that do.

A container has each of its cards once. So n pods that want c cards each, of cards that can be used k1, k2, ... times,
fit where the sum of min(k, n) is at least n * c, whatever has been given out before; that is counted for all nodes at
once. Pods of which several containers ask for cards are put on cards one after another, once for nodes alike: what
was counted is kept by what the cards of a node are and what is taken of them, and counted anew where that changes.
Rules of a card: HAMi 2.9, pkg/device/nvidia/device.go, Fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, islice
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tutti.api.cards import ALL_CORES, CardDemand, CardNeeds, CardPart, CardWishes, Parts
from tutti.cluster.cards.columns import Amount, CardColumns, Grant, Mask

MOST_PODS: Final = 1024
"""So many pods of several containers with cards are put on one node; no kubelet takes as many."""
MOST_SETS: Final = 1024
"""So many sets of cards are weighed by their links; eight cards have 70 of four."""
_PLENTY: Final = 1_000_000


@dataclass(slots=True)
class CardRoom:
    """The cards of some nodes, as what is free of them changes while pods are put there.

    Attributes:
        memory, cores, slots: int64[n, cards], what there is.
        used_memory, used_cores, used_slots: int64[n, cards], what is taken; changed as pods are put.
        allowed: bool[n, cards], which cards the pods may have.
        numa: int64[n, cards].
    """

    memory: Amount
    cores: Amount
    slots: Amount
    used_memory: Amount
    used_cores: Amount
    used_slots: Amount
    allowed: Mask
    numa: Amount

    @classmethod
    def at(cls, columns: CardColumns, wishes: CardWishes, rows: slice | NDArray[np.int64]) -> CardRoom:
        """Return the cards of some rows; what is taken is copied."""
        allowed = columns.allowed(wishes)
        return cls(
            columns.memory[rows], columns.cores[rows], columns.slots[rows],
            columns.used_memory[rows].copy(), columns.used_cores[rows].copy(), columns.used_slots[rows].copy(),
            allowed[rows], columns.numa[rows],
        )  # fmt: skip

    def states(self) -> Amount:
        """Return int64[n, 8 * cards]: all of that; nodes whose rows are equal take the same pods."""
        return np.concatenate(
            (
                self.memory, self.cores, self.slots, self.used_memory, self.used_cores, self.used_slots,
                self.allowed.astype(np.int64), self.numa,
            ),
            axis=1,
        )  # fmt: skip

    def asked(self, demand: CardDemand) -> Amount:
        """Return int64[n, cards]: MiB that a container would have of each card."""
        return self.memory * demand.percent // 100 if not demand.memory else np.full_like(self.memory, demand.memory)

    def times(self, demand: CardDemand, wishes: CardWishes) -> Amount:
        """Return int64[n, cards]: how many more containers each card takes."""
        asked = self.asked(demand)
        fits = np.maximum(self.slots - self.used_slots, 0)
        left = np.maximum(self.memory - self.used_memory, 0)
        np.minimum(fits, np.where(asked > 0, left // np.maximum(asked, 1), _PLENTY), out=fits)
        free = np.maximum(self.cores - self.used_cores, 0)
        if demand.cores:
            np.minimum(fits, free // demand.cores, out=fits)
        else:
            fits[(self.cores > 0) & (free == 0)] = 0
        if demand.cores == ALL_CORES:
            fits[(self.cores == ALL_CORES) & (self.used_slots > 0)] = 0
        if "mutex" in wishes.policies:
            fits = np.where(self.used_slots > 0, 0, np.minimum(fits, 1))
        return np.where(self.allowed, fits, 0)

    def pods(self, demand: CardDemand, wishes: CardWishes) -> Amount:
        """Return int64[n]: how many more pods fit of which one container asks for that, and no other for any."""
        fits = self.times(demand, wishes)
        if demand.count == 1:
            return np.asarray(fits.sum(axis=1), dtype=np.int64)
        if not wishes.one_numa_node:
            return most_groups(fits, demand.count)
        total = np.zeros(len(fits), dtype=np.int64)
        for number in np.unique(self.numa[self.allowed]).tolist():
            total += most_groups(np.where(self.numa == number, fits, 0), demand.count)
        return total


def most_groups(times: Amount, size: int) -> Amount:
    """Return int64[n]: how many groups of so many different cards can be made of cards that can be used so many times.

    Args:
        times: int64[n, cards].
        size: How many cards a group has.
    """
    low = np.zeros(len(times), dtype=np.int64)
    high = times.sum(axis=1) // size
    while (low < high).any():
        middle = (low + high + 1) // 2
        enough = np.minimum(times, middle[:, None]).sum(axis=1) >= middle * size
        low, high = np.where(enough, middle, low), np.where(enough, high, middle - 1)
    return low


def card_room(columns: CardColumns, needs: CardNeeds, most: int = MOST_PODS) -> Amount:
    """Return int64[rows]: how many more pods each node has cards for; where these are `most`, there may be more."""
    columns.sync()
    found = CardRoom.at(columns, needs.wishes, slice(None))
    single = needs.single
    if single is not None:
        return found.pods(single, needs.wishes)
    needs = _distinct(needs)
    demands = list(dict.fromkeys(one for one in needs.containers if one is not None))
    # No more than of pods that ask for one of these alone; that is counted for all nodes at once.
    out = np.full(len(found.memory), min(most, MOST_PODS), dtype=np.int64)
    for demand in demands:
        np.minimum(out, found.pods(demand, needs.wishes), out=out)
    states = found.states()
    known = columns.counts_of(needs)
    for row in np.flatnonzero(out > 0).tolist():
        state, wanted = states[row].tobytes(), int(out[row])
        count, asked = known.get(state, (0, 0))
        if count == asked < wanted:
            count = _count(CardRoom.at(columns, needs.wishes, np.array([row])), needs, wanted)
            known[state] = count, wanted
        out[row] = min(count, wanted)
    return out


def _distinct(needs: CardNeeds) -> CardNeeds:
    """Return needs of which as many fit: init containers that ask for the same have the same cards, one after another.

    Those that ask for none are left out.
    """
    begun = tuple(dict.fromkeys(one for one in needs.containers[: needs.first] if one is not None))
    running = tuple(one for one in needs.containers[needs.first :] if one is not None)
    return CardNeeds((*begun, *running), len(begun), needs.wishes)


def _count(room: CardRoom, needs: CardNeeds, most: int) -> int:
    """Return how many pods can be put on the cards of one node, one after another, up to so many."""
    count = 0
    while count < most and _put(room, needs, ()) is not None:
        count += 1
    return count


def choose_parts(columns: CardColumns, needs: CardNeeds, row: int, node: str, count: int) -> list[Grant]:
    """Return what the next pods get of the cards of a row, one after another; fewer than `count` where no more fit."""
    columns.sync()
    room = CardRoom.at(columns, needs.wishes, np.array([row]))
    cards = columns.cards[row]
    links = _link_matrix([card.id for card in cards], columns.links_of(node))
    out: list[Grant] = []
    while len(out) < count:
        found = _put(room, needs, links)
        if found is None:
            break
        parts: Parts = tuple(
            tuple(CardPart(cards[at].id, memory, cores) for at, memory, cores in mine) for mine in found
        )
        out.append(Grant(node, parts, needs.first))
    return out


_Links = Sequence[Sequence[int]]
_Found = list[list[tuple[int, int, int]]]
_Used = tuple[Amount, Amount, Amount]


def _put(room: CardRoom, needs: CardNeeds, links: _Links) -> _Found | None:
    """Put one pod on the cards of one node; returns per container card, MiB and cores; None where it does not fit."""
    before = _used(room)
    peak, found = before, _Found()
    for at, demand in enumerate(needs.containers):
        if at <= needs.first:
            _restore(room, before)
        if demand is None:
            found.append([])
            continue
        chosen = _choose(room, demand, needs.wishes, links, only=needs.single is not None)
        if chosen is None:
            _restore(room, before)
            return None
        asked = room.asked(demand)[0]
        for card in chosen:
            room.used_memory[0, card] += asked[card]
            room.used_cores[0, card] += demand.cores
            room.used_slots[0, card] += 1
        found.append([(card, int(asked[card]), demand.cores) for card in chosen])
        peak = _larger(peak, _used(room))
    _restore(room, peak)
    return found


def _used(room: CardRoom) -> _Used:
    return room.used_memory.copy(), room.used_cores.copy(), room.used_slots.copy()


def _larger(one: _Used, other: _Used) -> _Used:
    memory, cores, slots = (np.maximum(mine, theirs) for mine, theirs in zip(one, other, strict=True))
    return memory, cores, slots


def _restore(room: CardRoom, used: _Used) -> None:
    room.used_memory, room.used_cores, room.used_slots = (one.copy() for one in used)


def _choose(
    room: CardRoom, demand: CardDemand, wishes: CardWishes, links: _Links, *, only: bool
) -> Sequence[int] | None:
    """Choose the cards of one container; None where there are too few.

    With `only` nobody else of the pod asks for cards: then as many pods fit after it as fitted before, less this one.
    """
    fits = room.times(demand, wishes)[0]
    best_first = _by_worth(room, wishes, fits)
    groups = [best_first]
    if wishes.one_numa_node:
        numa = room.numa[0].tolist()
        zones = dict.fromkeys(numa[at] for at in best_first)
        groups = [[at for at in best_first if numa[at] == zone] for zone in zones]
    groups = [one for one in groups if len(one) >= demand.count]
    if not groups:
        return None
    group = groups[0]
    if demand.count == 1:
        return group[:1]
    chosen = _nearest(group, demand.count, links) if links else group[: demand.count]
    if only and not wishes.one_numa_node and not _leaves_room(fits, chosen, demand.count):
        # Cards that can be used most often, so that no other is left over without company.
        return sorted(sorted(group, key=lambda at: (-fits[at], group.index(at)))[: demand.count])
    return chosen


def _leaves_room(fits: Amount, chosen: Sequence[int], count: int) -> bool:
    after = fits.copy()
    after[list(chosen)] -= 1
    now, then = most_groups(fits[None, :], count), most_groups(after[None, :], count)
    return bool(then[0] >= now[0] - 1)


def _by_worth(room: CardRoom, wishes: CardWishes, fits: Amount) -> list[int]:
    """Return the cards that can be used, the best first: where least is left, or most where they are to be spread."""
    able = np.flatnonzero(fits > 0)
    left = (room.memory - room.used_memory)[0, able]
    cores, slots = (room.cores - room.used_cores)[0, able], (room.slots - room.used_slots)[0, able]
    keys: list[Amount] = [able, slots, cores, left]
    ordering = next((one for one in wishes.policies if one in ("binpack", "spread", "numa")), "binpack")
    if ordering == "spread":
        keys = [able, -slots, -cores, -left]
    elif ordering == "numa":
        keys = [*keys, room.numa[0, able]]
    order: list[int] = able[np.lexsort(keys)].tolist()
    return order


def _nearest(group: Sequence[int], count: int, links: _Links) -> Sequence[int]:
    """Return the cards that are linked best; of several such sets, the one that is best without looking at that."""
    sets = list(islice(combinations(group, count), MOST_SETS))
    worth = [sum(links[one][other] for one, other in combinations(some, 2)) for some in sets]
    return sets[worth.index(max(worth))]


def _link_matrix(ids: Sequence[str], links: object) -> _Links:
    """Return how well each two cards are linked, both ways together; nothing where nobody tells."""
    if not isinstance(links, dict) or not links:
        return ()
    return [[links.get(one, {}).get(other, 0) + links.get(other, {}).get(one, 0) for other in ids] for one in ids]
