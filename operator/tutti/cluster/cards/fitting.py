"""How many more pods each node has cards for, and which cards the next ones get: the tightest that do.

A container has each of its cards once. So n pods that want c cards each, of cards that can be used k1, k2, ... times,
fit where the sum of min(k, n) is at least n * c, whatever has been given out before; that is counted for all nodes at
once. Pods of which several containers ask for cards are put on cards one after another, once for nodes alike: what
was counted is kept by what the cards of a node are and what is taken of them, and counted anew where that changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, islice
from typing import Final

import numpy as np

from tutti.api.cards import CardDemand, CardNeeds, CardPart, CardWishes, Parts
from tutti.cluster.cards.columns import Amount, CardColumns, Grant
from tutti.cluster.cards.counting import count_in_turn
from tutti.cluster.cards.room import CardRoom, larger, most_groups

MOST_PODS: Final = 1024
"""So many pods of several containers with cards are put on one node; no kubelet takes as many."""
MOST_SETS: Final = 1024
"""So many sets of cards are weighed by their links; eight cards have 70 of four."""


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
    rows = np.flatnonzero(out > 0)
    state_of = [state.tobytes() for state in states[rows]]
    fresh: dict[bytes, int] = {}
    for row, state, wanted in zip(rows.tolist(), state_of, out[rows].tolist(), strict=True):
        count, asked = known.get(state, (0, 0))
        if count == asked < wanted:
            fresh.setdefault(state, row)
    if fresh:
        at = np.array(list(fresh.values()))
        counts = count_in_turn(CardRoom.at(columns, needs.wishes, at), needs, out[at])
        known.update(zip(fresh, zip(counts.tolist(), out[at].tolist(), strict=True), strict=True))
    out[rows] = np.minimum(out[rows], [known[state][0] for state in state_of])
    return out


def _distinct(needs: CardNeeds) -> CardNeeds:
    """Return needs of which as many fit: init containers that ask for the same have the same cards, one after another.

    Those that ask for none are left out.
    """
    begun = tuple(dict.fromkeys(one for one in needs.containers[: needs.first] if one is not None))
    running = tuple(one for one in needs.containers[needs.first :] if one is not None)
    return CardNeeds((*begun, *running), len(begun), needs.wishes)


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


def _put(room: CardRoom, needs: CardNeeds, links: _Links) -> _Found | None:
    """Put one pod on the cards of one node; returns per container card, MiB and cores; None where it does not fit."""
    before = room.used
    peak, found = before, _Found()
    for at, demand in enumerate(needs.containers):
        if at <= needs.first:
            room.restore(before)
        if demand is None:
            found.append([])
            continue
        chosen = _choose(room, demand, needs.wishes, links, only=needs.single is not None)
        if chosen is None:
            room.restore(before)
            return None
        asked = room.asked(demand)[0]
        for card in chosen:
            room.used_memory[0, card] += asked[card]
            room.used_cores[0, card] += demand.cores
            room.used_slots[0, card] += 1
        found.append([(card, int(asked[card]), demand.cores) for card in chosen])
        peak = larger(peak, room.used)
    room.restore(peak)
    return found


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
    keys = [one[0, able] for one in room.worth(wishes)]
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
