"""Pools that nodes share, as those see them who ask for so many devices: of pools that are alike, the first few.

Of pools that nothing tells apart but their place, whoever takes so many devices takes them from the first so many of
these: the others change no answer. So what is looked at does not grow with how many pools a network has.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Hashable, Sequence
from itertools import chain

from tutti.cluster.devices.rows import CommonUse


class CommonView:
    """What is looked at of pools that several rows share.

    Attributes:
        common: The pools, and what is taken of them.
        values: What is compared of their devices.
        situations: Which situation a row with these pools is in, by what tells it from others with the same.
    """

    def __init__(self, common: CommonUse, likes: Sequence[Hashable], values: frozenset[object], width: int) -> None:
        """Begin.

        Args:
            common: The pools.
            likes: Per pool what tells it from others, beside what is taken of it.
            values: What is compared of their devices.
            width: So many of those that are alike are looked at; 0: all.
        """
        self.common = common
        self.values = values
        self.situations: dict[int, int] = {}
        self._likes = likes
        self._width = width
        self._seen = -1
        self._class_of: list[Hashable] = []
        self._classes: dict[Hashable, list[int]] = {}
        self._chosen: tuple[int, ...] | None = None

    @property
    def everything(self) -> Sequence[int]:
        """The places of all pools."""
        return range(len(self._likes))

    @property
    def chosen(self) -> Sequence[int]:
        """The places of those pools that are looked at, in order."""
        if not self._width:
            return self.everything
        if self._chosen is None:
            first = (places[: self._width] for places in self._classes.values())
            self._chosen = tuple(sorted(chain.from_iterable(first)))
        return self._chosen

    def follow(self) -> None:
        """Take in what has changed."""
        if self._seen == self.common.end:
            return
        self.situations = {}
        self._chosen = None
        if not self._width:
            pass
        elif self._seen < self.common.begin:
            self._class_of = [(like, use) for like, use in zip(self._likes, self.common.uses, strict=True)]
            self._classes = {}
            for place, known in enumerate(self._class_of):
                self._classes.setdefault(known, []).append(place)
        else:
            for place in dict.fromkeys(self.common.changed_since(self._seen)):
                self._move(place)
        self._seen = self.common.end

    def _move(self, place: int) -> None:
        before, now = self._class_of[place], (self._likes[place], self.common.uses[place])
        if before == now:
            return
        places = self._classes[before]
        del places[bisect_left(places, place)]
        if not places:
            del self._classes[before]
        insort(self._classes.setdefault(now, []), place)
        self._class_of[place] = now


def merged(spots: Sequence[int], places: Sequence[int]) -> list[int]:
    """Return pools of a row's own and pools that it shares in the order in which they are tried.

    Args:
        spots: Per pool of its own, in order, how many of the shared ones come before it.
        places: Those shared ones that are looked at, in order.

    Returns:
        The place of each shared one; for the nth of its own, -1 - n.
    """
    out: list[int] = []
    own = 0
    for place in places:
        while own < len(spots) and spots[own] <= place:
            out.append(-1 - own)
            own += 1
        out.append(place)
    out += [-1 - at for at in range(own, len(spots))]
    return out
