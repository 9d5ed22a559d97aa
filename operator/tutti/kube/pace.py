"""How many writes may be under way at once: as many as the server answers without letting them queue.

The limit follows what the answers say, as TCP Vegas follows round trips (Brakmo and Peterson, 1995): of `limit`
requests under way, `limit * (1 - quickest / mean)` are taken to be waiting inside the server. While few wait there the
limit grows, while many do it shrinks. A 429 of API priority and fairness halves it. Nothing here knows a clock.
"""

from __future__ import annotations

from typing import Final

_FEW_QUEUED: Final = 16
"""Waiting in the server that keep it busy however long an answer takes to come back."""
_MANY_QUEUED: Final = 32
"""Waiting in the server that only delay what is written next, and everybody else's requests."""
_LEAST: Final = 4


class Pace:
    """The limit, from `first` on and between 4 and `most`; or `most` alone where that is lower.

    Attributes:
        limit: Writes that may be under way.
    """

    def __init__(self, most: int, *, first: int = 32) -> None:
        self._most = most
        self._least = min(_LEAST, most)
        self.limit = min(first, most)
        self._quickest = float("inf")
        self._answers = 0
        self._seconds = 0.0
        self._least_seconds = float("inf")
        self._pressed = False
        self._halved = False

    def answered(self, seconds: float, *, pressed: bool) -> None:
        """Count an answer that took so long; `pressed` says whether other writes waited for its slot."""
        self._answers += 1
        self._seconds += seconds
        self._least_seconds = min(self._least_seconds, seconds)
        self._pressed = self._pressed or pressed
        if self._answers >= self.limit:
            self._judge()

    def refused(self) -> None:
        """Count a 429: the limit is halved, once for all that were refused together."""
        if not self._halved:
            self.limit = max(self._least, self.limit // 2)
            self._begin()
            self._halved = True

    def _judge(self) -> None:
        """End a round of as many answers as may be under way."""
        mean = self._seconds / self._answers
        if self._pressed:
            self._quickest = min(self._quickest, self._least_seconds)
        else:
            self._quickest = self._least_seconds  # a quiet hour shows anew how quick the server is
        queued = self.limit * (1 - self._quickest / mean) if mean else 0.0
        if queued > _MANY_QUEUED:
            self.limit = max(self._least, self.limit - max(1, self.limit // 8))
        elif queued < _FEW_QUEUED and self._pressed and not self._halved:
            self.limit = min(self._most, self.limit + max(1, self.limit // 4))
        self._begin()

    def _begin(self) -> None:
        """Begin a round."""
        self._answers = 0
        self._seconds = 0.0
        self._least_seconds = float("inf")
        self._pressed = False
        self._halved = False
