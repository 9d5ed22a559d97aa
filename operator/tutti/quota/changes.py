"""When more or less was used of which queue: so that answers are kept while they hold, and who waits looks again.

A queue's quota depends on its whole tree of cohorts, so what is kept, and who looks again, goes by trees.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import takewhile


class QuotaChanges:
    """What has changed in which tree, and since when.

    Attributes:
        frees: Grows whenever quota may have become available anywhere.
        moment: Grows whenever more or less is used of any queue.
    """

    def __init__(self) -> None:
        self.frees = 0
        self.moment = 0
        self._roots: Mapping[str, str] = {}
        self._epoch = 0
        self._moves: dict[str, int] = {}
        self._moved_at: dict[str, int] = {}  # by queue when more or less was used of it last, the latest last
        self._frees: dict[str, int] = {}
        self._freed: dict[str, None] = {}

    def begin(self, roots: Mapping[str, str]) -> None:
        """Take over new trees: nothing that was answered before counts, and there may be more of everything.

        Args:
            roots: By queue what names its tree.
        """
        self._roots = roots
        self._moved_at = {name: at for name, at in self._moved_at.items() if name in roots}
        self._epoch += 1
        self.retry_all()
        self.frees += 1

    def root_of(self, queue: str) -> str:
        """Return what names the tree that a queue is in: queues of one tree are told the same."""
        return self._roots.get(queue) or f"queue/{queue}"

    # what the ledger tells

    def moved(self, queue: str) -> None:
        """Note that more or less is used of a queue."""
        root = self._roots.get(queue) or f"queue/{queue}"
        self._moves[root] = self._moves.get(root, 0) + 1
        self.moment += 1
        self._moved_at.pop(queue, None)
        self._moved_at[queue] = self.moment

    def eased(self, queue: str) -> None:
        """Note that less is used of a queue; nobody need look again for it."""
        self.moved(queue)
        root = self.root_of(queue)
        self._frees[root] = self._moves[root]

    def freed(self, queue: str) -> None:
        """Note that less is used of a queue, so that others may have it."""
        self.eased(queue)
        self.retry(queue)
        self.frees += 1

    # whether an answer still holds

    def version(self, queue: str) -> tuple[int, int]:
        """Return what changes whenever anything that a queue's quota depends on does."""
        return self._epoch, self._moves.get(self._roots.get(queue) or f"queue/{queue}", 0)

    def only_used_since(self, queue: str, version: tuple[int, int]) -> bool:
        """Whether in the tree of a queue quota was only used and none given back since a version."""
        return version[0] == self._epoch and self._frees.get(self.root_of(queue), 0) <= version[1]

    def frees_of(self, root: str) -> int:
        """Return what grows whenever quota may have become available in a tree (`root_of`)."""
        return self._frees.get(root, 0)

    def moved_since(self, moment: int) -> list[str]:
        """Return the queues of which more or less is used than at a `moment`, in the order in which that came about."""
        later = takewhile(lambda queue: self._moved_at[queue] > moment, reversed(self._moved_at))
        return list(later)[::-1]

    # who looks again

    def retry(self, queue: str) -> None:
        """Have those tried again who wait for quota in the tree of a queue."""
        self._freed[self.root_of(queue)] = None

    def retry_all(self) -> None:
        """Have everybody who waits for quota look again, as if some had been given back everywhere."""
        self._freed.update(dict.fromkeys(self._roots.values()))

    def take_freed(self) -> list[str]:
        """Return the trees in which quota may have become available since the last call."""
        freed, self._freed = self._freed, {}
        return list(freed)

    def has_freed(self, roots: Iterable[str]) -> bool:
        """Whether quota may have become available in any of these trees since `take_freed` was last called."""
        return bool(self._freed) and not self._freed.keys().isdisjoint(roots)
