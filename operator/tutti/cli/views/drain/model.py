"""What a drain of one node would do."""

from __future__ import annotations

import enum
from collections.abc import Mapping

import msgspec

from tutti.cli.views.degraded import KeptQuota

NOBODY_MAKES_THEM = "nothing makes its pods again"
"""Why a gang is not whole again of which pods that nothing controls leave."""


class Fate(enum.StrEnum):
    """What becomes of a pod when its node is drained."""

    STAYS = "Stays"
    ENDED = "Ended"
    MOVES = "Moves"
    WAITS = "Waits"
    LOST = "Lost"


class Leaver(msgspec.Struct, frozen=True, rename="camel"):
    """A pod of the node.

    Attributes:
        owner: Kind and name of what controls it and makes another one, or "".
        gang: Kind, namespace and name of the gang that it is in, or "".
        budgets: The disruption budgets that cover it.
        to: Where the one that is made in its place would go, or "".
        why: Why it would not come back.
    """

    namespace: str
    name: str
    scheduler: str
    owner: str
    gang: str
    budgets: tuple[str, ...]
    fate: Fate
    to: str = ""
    why: str = ""


class GangHit(msgspec.Struct, frozen=True, rename="camel"):
    """A gang with members on the node.

    Attributes:
        bound: How many members have a node now; `leaving` of them are on this one, and `required` must run together.
        breaks: Whether it would run with fewer than it needs meanwhile.
        whole: Whether it would be whole again.
        why: Why not.
        deleted: Whether all its members are deleted, wherever they are, once one of them is.
        patience: After how many seconds without being ready it is taken out as a whole; None: it is left as it is.
        action: Of one that breaks, Restart or Keep, as its onMemberLoss says; else "".
        window: For how many seconds what it loses is kept for successors; None: as long as it lacks them.
        kept: The quota that is.
        at_once: Why it is restarted before that, or "".
        when_gone: Whether it is restarted before that when the Node is deleted.
        again: Of one that is restarted, how many of its members go to each node then, as it is now.
        again_why: What it waits for then, or "".
    """

    kind: str
    namespace: str
    name: str
    bound: int
    leaving: int
    required: int
    breaks: bool
    whole: bool
    why: str = ""
    deleted: bool = False
    patience: int | None = None
    action: str = ""
    window: int | None = None
    kept: tuple[KeptQuota, ...] = ()
    at_once: str = ""
    when_gone: bool = False
    again: Mapping[str, int] = {}
    again_why: str = ""


class BudgetHit(msgspec.Struct, frozen=True, rename="camel"):
    """A disruption budget that covers pods of the node, and how many more of its pods may be disrupted now."""

    namespace: str
    name: str
    covered: int
    allowed: int

    @property
    def short(self) -> int:
        """How many evictions it would refuse for now."""
        return max(0, self.covered - self.allowed)


class Drain(msgspec.Struct, frozen=True, rename="camel"):
    """What a drain would do.

    Attributes:
        cordoned: Whether the node is already.
        taken_out: Pods that Tutti would evict elsewhere to make room.
        problems: Why it should not be drained now; none where it can be.
    """

    node: str
    cordoned: bool
    pods: tuple[Leaver, ...]
    gangs: tuple[GangHit, ...]
    budgets: tuple[BudgetHit, ...]
    taken_out: tuple[str, ...]
    problems: tuple[str, ...]
