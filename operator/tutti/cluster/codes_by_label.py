"""Which signatures have a value of a label, noted from when a selector first asks for the label.

A label that many have is given a place: its codes by value, followed from then on. There are places for so many, and
whoever makes up label keys could have those of everybody else forgotten, each of which takes a look at every signature
to be noted again. So a label that is asked for is worth as many steps as that would take, and the one that is worth
least goes; what is worth more stays until that many steps have been taken for others since it was asked for
(GreedyDual: Young, "On-Line File Caching", 1998). A label that few have takes no place at all: who has it is found by
the keys of labels alone (`label_keys.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from tutti.cluster.label_keys import LabelKeys
from tutti.cluster.signatures import PodSignature

_MOST_PLACES = 512
_FEW = 32
"""So many are looked at for each question; more are given a place."""


class CodesByLabel:
    """Finds the codes of signatures that have a value of a label."""

    def __init__(self, signatures: Sequence[PodSignature | None]) -> None:
        self._signatures = signatures
        self._keys = LabelKeys(self._there)
        self._looked_at = 0
        self._placed: dict[str, dict[str, int | set[int]]] = {}  # by key and value
        self._cost: dict[str, int] = {}
        self._worth: dict[str, int] = {}
        self._least = 0

    @property
    def steps(self) -> int:
        """How many labels of signatures have been looked at so that it is known who has which."""
        return self._keys.steps + self._looked_at

    def add(self, labels: Mapping[str, str], code: int) -> None:
        """Note that a code has these labels."""
        self._keys.note(code, labels)
        if self._placed:
            for key, value in labels.items():
                if (codes := self._placed.get(key)) is not None:
                    _note(codes, value, code)

    def remove(self, labels: Mapping[str, str], code: int) -> None:
        """Note that a code has these labels no more."""
        for key, value in labels.items() if self._placed else ():
            if (codes := self._placed.get(key)) is not None:
                here = codes[value]
                if not isinstance(here, int):
                    here.discard(code)
                if here in (code, set()):
                    del codes[value]

    def having(self, key: str, values: Collection[str]) -> set[int]:
        """Return the codes that have any of these values of a label."""
        codes: Mapping[str, int | set[int]] | None = self._placed.get(key)
        if codes is None:
            among = self._keys.having(key)  # maybe some that are somebody else by now
            self._looked_at += len(among)
            if len(among) <= _FEW:
                return {code for code in among if self._label(code, key) in values}
            codes = self._place(key, among)
        else:
            self._worth[key] = self._least + self._cost[key]
        out: set[int] = set()
        for value in values:
            found = codes.get(value, ())
            out.update((found,) if isinstance(found, int) else found)
        return out

    def _label(self, code: int, key: str) -> str | None:
        signature = self._signatures[code]
        return None if signature is None else signature.labels.get(key)

    def _place(self, key: str, among: Collection[int]) -> Mapping[str, int | set[int]]:
        """Note who has which value of a label, in place of the one that is worth least."""
        codes: dict[str, int | set[int]] = {}
        for code in among:
            if (value := self._label(code, key)) is not None:
                _note(codes, value, code)
        self._placed[key], self._cost[key], self._worth[key] = codes, len(among), self._least + len(among)
        if len(self._placed) > _MOST_PLACES:
            last = min(self._worth, key=self._worth.__getitem__)
            self._least = self._worth.pop(last)
            del self._placed[last], self._cost[last]
        return codes

    def _there(self) -> Iterator[tuple[int, Mapping[str, str]]]:
        return ((code, one.labels) for code, one in enumerate(self._signatures) if one is not None)


def _note(codes: dict[str, int | set[int]], value: str, code: int) -> None:
    """Note that a code has a value of a label."""
    here = codes.get(value)
    if here is None:
        codes[value] = code  # most values of a label that tells pods apart are had by one signature
    elif isinstance(here, int):
        codes[value] = {here, code}
    else:
        here.add(code)
