"""Whom throttles are about, asked of all terms of all throttles at once.

A tenant may write very many terms, and none need be like another. So nothing is asked of a term: of each there is kept
how many of its requirements do not hold of a pod without labels, and each label that a pod has changes that for the
terms that name it. Those are left of which no requirement does not hold.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from tutti.api.selectors import LabelSelector

Term = tuple[LabelSelector, LabelSelector | None]
"""Labels of pods, and those of their namespace; None: of any namespace."""
Owner = TypeVar("Owner", bound=Hashable)

_Label = tuple[str, str | None]
"""Key and value, or a key with any value."""
_NOTHING = 1 << 20
"""More requirements than any term has: of what is gone."""
_FIRST = 64


class SelectorColumn:
    """Label selectors by number, of all of which it is asked at once whether they match some labels."""

    def __init__(self) -> None:
        self._open = np.full(_FIRST, _NOTHING, dtype=np.int32)  # requirements that do not hold without labels
        self._under: dict[_Label, dict[int, int]] = {}  # how many more hold with a label, by number
        self._columns: dict[_Label, tuple[NDArray[np.int64], NDArray[np.int32]]] = {}
        self._changes: dict[int, dict[_Label, int]] = {}

    def put(self, number: int, selector: LabelSelector) -> None:
        """Add a selector under a number that is free."""
        while number >= len(self._open):
            self._open = np.concatenate([self._open, np.full_like(self._open, _NOTHING)])
        self._open[number], changes = _requirements(selector)
        self._changes[number] = changes
        for label, more_hold in changes.items():
            self._under.setdefault(label, {})[number] = more_hold
            self._columns.pop(label, None)

    def drop(self, number: int) -> None:
        """Forget a selector."""
        self._open[number] = _NOTHING
        for label in self._changes.pop(number):
            self._columns.pop(label, None)
            under = self._under[label]
            del under[number]
            if not under:
                del self._under[label]

    def matching(self, labels: Mapping[str, str]) -> NDArray[np.bool_]:
        """Return which match some labels, by number."""
        left = self._open.copy()
        for key, value in labels.items():
            for label in ((key, value), (key, None)):
                if label in self._under:
                    numbers, more_hold = self._column(label)
                    left[numbers] -= more_hold
        matching: NDArray[np.bool_] = left == 0
        return matching

    def _column(self, label: _Label) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        known = self._columns.get(label)
        if known is None:
            under = self._under[label]
            numbers = np.fromiter(under, np.int64, len(under))
            known = self._columns[label] = numbers, np.fromiter(under.values(), np.int32, len(under))
        return known


def _requirements(selector: LabelSelector) -> tuple[int, dict[_Label, int]]:
    """Return how many requirements do not hold without labels, and how many more do with each label; less: fewer."""
    changes: dict[_Label, int] = dict.fromkeys(selector.match_labels.items(), 1)
    missing = len(changes)
    for one in selector.match_expressions:
        holds = one.operator in ("NotIn", "DoesNotExist")
        missing += not holds
        values: Iterable[str | None] = ()
        if one.operator in ("In", "NotIn"):
            values = set(one.values)
        elif one.operator in ("Exists", "DoesNotExist"):
            values = (None,)
        for value in values:
            label = one.key, value
            changes[label] = changes.get(label, 0) + (-1 if holds else 1)
    return missing, changes


class TermsOfMany(Generic[Owner]):
    """The terms of many throttles: of one namespace, or of those that are about pods of all namespaces."""

    def __init__(self) -> None:
        self._pods, self._spaces = SelectorColumn(), SelectorColumn()
        self._known: dict[Owner, tuple[int, list[int]]] = {}  # place in the order in which they came, and terms
        self._at: dict[int, Owner] = {}
        self._last = 0
        self._place_of = np.zeros(_FIRST, dtype=np.int64)
        self._free = list(reversed(range(_FIRST)))

    def __len__(self) -> int:
        return len(self._known)

    def put(self, owner: Owner, terms: Sequence[Term]) -> None:
        """Add a throttle, or change its terms; then it keeps its place."""
        place = self.drop(owner)
        if place is None:
            self._last = place = self._last + 1
        numbers = [self._number() for _ in terms]
        self._known[owner], self._at[place] = (place, numbers), owner
        for number, (pods, spaces) in zip(numbers, terms, strict=True):
            self._place_of[number] = place
            self._pods.put(number, pods)
            self._spaces.put(number, spaces or LabelSelector())

    def drop(self, owner: Owner) -> int | None:
        """Forget a throttle; returns where it stood."""
        known = self._known.pop(owner, None)
        if known is None:
            return None
        place, numbers = known
        del self._at[place]
        for number in numbers:
            self._pods.drop(number)
            self._spaces.drop(number)
        self._free += numbers
        return place

    def selecting(self, namespace_labels: Mapping[str, str], labels: Mapping[str, str]) -> list[Owner]:
        """Return whose terms match a pod, in the order in which they came: any of them, in all that it says."""
        matching = self._pods.matching(labels) & self._spaces.matching(namespace_labels)
        places = np.unique(self._place_of[: len(matching)][matching])
        return [self._at[place] for place in places.tolist()]

    def _number(self) -> int:
        if not self._free:
            known = len(self._place_of)
            self._place_of = np.concatenate([self._place_of, np.zeros(known, dtype=np.int64)])
            self._free = list(reversed(range(known, 2 * known)))
        return self._free.pop()
