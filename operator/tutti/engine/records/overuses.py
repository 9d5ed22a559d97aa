"""The memory of who has been told that more quota is used than there is."""

from __future__ import annotations

from dataclasses import dataclass, field

from tutti.engine.records.spoilt import ObjectKey
from tutti.quota.tree import QuotaTree


@dataclass(frozen=True, slots=True)
class Told:
    """What one ClusterQueue or Cohort is told, and since when, Unix seconds."""

    message: str
    at: float


@dataclass(slots=True)
class Overuses:
    """The ClusterQueues and Cohorts that use more than there is.

    Attributes:
        told: What each is told, by its key; no entry where all is well.
        version: Grows whenever that changes.
        look_at: When to look for the sake of newer figures, Unix seconds; None where those told are right.
        tree: The quota as it was when all were looked at.
    """

    told: dict[ObjectKey, Told] = field(default_factory=dict)
    version: int = 0
    look_at: float | None = None
    tree: QuotaTree | None = None
