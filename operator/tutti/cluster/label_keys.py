"""Who has a label, whatever its value: known from when that is asked, and forgotten when it is not any longer.

Who makes up label keys has each of them asked for with his pods, and nobody else asks ever. So the keys of all are
noted when it is first asked, followed while more come, and forgotten once as many have come as there were.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class LabelKeys(Generic[T]):
    """Finds those that have a label.

    Args:
        everybody: Gives all that there are, each with its labels.

    Attributes:
        steps: How many labels have been noted.
    """

    def __init__(self, everybody: Callable[[], Iterable[tuple[T, Mapping[str, str]]]]) -> None:
        self.steps = 0
        self._everybody = everybody
        self._having: dict[str, dict[T, None]] | None = None
        self._left = 0

    def note(self, one: T, labels: Mapping[str, str]) -> None:
        """Note which labels one has; under those that it had before it is found until all is forgotten."""
        if self._having is None:
            return
        self._left -= 1
        if self._left < 0:
            self._having = None
        else:
            self._note(self._having, one, labels)

    def having(self, key: str) -> Collection[T]:
        """Return all that have a label, in order of arrival, and maybe some that had it lately or are gone."""
        if self._having is None:
            self._having = {}
            for there, (one, labels) in enumerate(self._everybody(), start=1):
                self._note(self._having, one, labels)
                self._left = there
        return self._having.get(key, ())

    def _note(self, having: dict[str, dict[T, None]], one: T, labels: Mapping[str, str]) -> None:
        self.steps += len(labels)
        for key in labels:
            having.setdefault(key, {})[one] = None
