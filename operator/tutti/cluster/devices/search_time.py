"""How long it may take at one moment to look for devices, for all claims of a namespace together.

A tenant writes his claims: he may write some that take long on each of thousands of nodes, and he may write many. What
is cut short for want of time is gone on with at the next moment, and nobody else waits for it.
"""

from __future__ import annotations

from typing import Final

MOST_STEPS: Final = 20_000
"""So many devices are tried at one moment for claims of a namespace, on all nodes that need more than FREE_STEPS."""
FREE_STEPS: Final = 64
"""So many devices may be tried in each situation beside that."""
MOST_FREE_STEPS: Final = 65_536
"""So many in all situations together; to look whether there is any to try counts as one."""
MOST_WORK: Final = 5_000_000
"""So much the expressions of claims may cost at one moment, in steps as `expression_costs.py` counts them."""
FREE_WORK: Final = 600
"""So much those of a pod's claims may cost about each kind of devices beside that."""
MOST_FREE_WORK: Final = 5_000_000
"""So much that may be about all kinds together."""
MOST_TEXT: Final = 65_536
"""So many characters of expressions are compiled, which takes 15 us for each (measured)."""
MOST_LOOKS: Final = 32_768
"""So many pools are looked through to say what claims lack."""


class SearchTime:
    """What is left for the claims of one namespace at one moment.

    Attributes:
        steps: So many devices may be tried.
        free_steps: So many may be tried of those that count for their situation.
        work: So much may expressions cost.
        free_work: So much of what counts for their kind of devices.
        looks: So many pools may be looked through.
        text: So many characters of expressions may be compiled.
        lacks_work: Whether a search has ended for want of work or text.
        lacks_free: Whether it was for want of what others have used.
    """

    __slots__ = ("free_steps", "free_work", "lacks_free", "lacks_work", "looks", "steps", "text", "work")

    def __init__(self) -> None:
        self.steps, self.free_steps = MOST_STEPS, MOST_FREE_STEPS
        self.work, self.free_work = MOST_WORK, MOST_FREE_WORK
        self.looks, self.text = MOST_LOOKS, MOST_TEXT
        self.lacks_work = self.lacks_free = False

    @property
    def is_whole(self) -> bool:
        """Whether nothing has been used of what a single search may use up."""
        return (self.steps, self.work) == (MOST_STEPS, MOST_WORK)

    @property
    def is_over(self) -> bool:
        """Whether nothing may be tried any more."""
        return not (self.steps or self.free_steps)

    def use_steps(self, steps: int, free: int) -> None:
        """Note that a search has tried so many devices, of which so many count for its situation."""
        counted = max(1, steps)
        self.steps -= max(0, counted - free)
        self.free_steps -= min(counted, free)

    def use_work(self, work: int, free: int) -> bool:
        """Note what it costs to tell of a kind of devices, of which so much is free; whether there is so much left."""
        free = min(work, free)
        self.lacks_free |= free > self.free_work
        if work - free > self.work or free > self.free_work:
            self.lacks_work = True
            return False
        self.work -= work - free
        self.free_work -= free
        return True

    def use_text(self, characters: int) -> bool:
        """Note that so many characters are to be compiled; whether there is so much left."""
        if characters > self.text:
            self.lacks_work = self.lacks_free = True
            return False
        self.text -= characters
        return True


class SearchTimes:
    """The time of each namespace at one moment."""

    def __init__(self) -> None:
        self._moment = -1.0
        self._of: dict[str, SearchTime] = {}

    def of(self, namespace: str, moment: float) -> SearchTime:
        """Return what is left for a namespace."""
        if self._moment != moment:
            self._moment, self._of = moment, {}
        return self._of.setdefault(namespace, SearchTime())
