"""What keeps a process that has lost its lease from writing, in three layers.

Before a write: the fence is asked, and refuses. While it is under way: the fence has said how long nobody else can act,
and neither client nor server work on it any longer than that, so a write of one leader is over before the next begins.
Both go by a clock, which stands still as well where a hypervisor has stopped the whole machine. Whom the next leader
would have taken out only that one knows, and nothing refuses an eviction: so before that, and before an object is set
inactive, started or suspended, the server is asked who holds the lease.
Where it is late all the same: it has no effect on what it was not meant for. A binding of a pod that has a node, and
whatever names the uid of an object that is no more, are refused by the server anyway; a status of ours records the
lease and its generation, and the rule in its schema refuses what was written under an earlier generation than it has.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from tutti.api.model import GROUP

Fence: TypeAlias = Callable[[], float]
"""The question every writer asks before it writes: returns for how many seconds what is sent now may be under way, and
raises `LeadershipLost` where nothing may be written any more, `LeadershipDoubted` where that is not known yet."""

Confirm: TypeAlias = Callable[[], Awaitable[object]]
"""Asks the server whether this process holds its lease, before what nothing would refuse; raises `LeadershipLost` where
it does not, and WireError where nobody can tell."""

GENERATION_ANNOTATION: Final = f"{GROUP}/lease-generation"
"""On pods: the generation of the lease under which they were bound."""


class LeadershipLost(Exception):  # noqa: N818 - it is an event that ends the process, named as such
    """Another replica holds the lease, or may take it at any moment: nothing may be written any more."""


class LeadershipDoubted(LeadershipLost):
    """The time to renew the lease is over, as after this process was stopped, but perhaps nobody has taken it.

    Attributes:
        settled: Returns once it is known whether this process goes on leading.
    """

    def __init__(self, why: str, *, settled: Callable[[], Awaitable[object]]) -> None:
        super().__init__(why)
        self.settled = settled


@dataclass(frozen=True, slots=True)
class LeaseTerm:
    """What is recorded on writes: the uid of the lease, and how often it had changed hands."""

    lease: str
    generation: int


def unfenced() -> float:
    """Allow every write, however long it takes: for a process that is alone by construction, such as the demo."""
    return float("inf")


async def unconfirmed() -> None:
    """Ask nobody: for a process that is alone by construction."""


async def granted(fence: Fence) -> float:
    """Return what the fence says, as soon as it says anything for certain.

    Raises:
        LeadershipLost: Nothing may be written any more.
    """
    while True:
        try:
            return fence()
        except LeadershipDoubted as doubt:
            await doubt.settled()


def no_term() -> LeaseTerm | None:
    """Return the term of a process that holds no lease: none."""
    return None
