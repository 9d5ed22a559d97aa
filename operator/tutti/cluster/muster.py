"""What pods of a set are doing, counted one change at a time: no event goes through a gang of a thousand."""

from __future__ import annotations

import enum


class Doing(enum.IntEnum):
    """What a pod is doing, as far as its gang is concerned; a deleted pod that is not bound is only leaving.

    LOST: being deleted on a node that does not work, so that nobody tells when it has ended.
    """

    WAITING = 0
    GATED = 1
    RESERVED = 2
    BOUND = 3
    BOUND_READY = 4
    BOUND_LEAVING = 5
    BOUND_READY_LEAVING = 6
    LEAVING = 7
    SUCCEEDED = 8
    FAILED = 9
    LOST = 10


BOUND = (Doing.BOUND, Doing.BOUND_READY, Doing.BOUND_LEAVING, Doing.BOUND_READY_LEAVING)
"""By whether the pod is ready, and whether it is being deleted: one and two more."""


class Muster:
    """How many pods of a set are doing what.

    Attributes:
        counts: One number for each `Doing`.
    """

    __slots__ = ("counts",)

    def __init__(self) -> None:
        self.counts = [0] * len(Doing)
