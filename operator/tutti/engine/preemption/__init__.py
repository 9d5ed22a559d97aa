"""Who has to go so that others fit, and the room that is held for these until then."""

from __future__ import annotations

from dataclasses import dataclass, field

from tutti.engine.lifecycle import LifecycleState
from tutti.engine.preemption.candidates import KnownCandidates
from tutti.engine.preemption.nominated_columns import NominatedColumns
from tutti.placement.preemption.victim_cost import Budget


@dataclass(kw_only=True)
class PreemptionState(LifecycleState):
    """What the choice of victims needs beside that.

    Attributes:
        budgets: PodDisruptionBudgets, by namespace and name.
        budgets_eased: How often one of them has come to let more be moved than before.
        candidates: Who may be taken out by priority, as found in this turn.
        nominated: The nominations that somebody was tried against last in this turn.
    """

    budgets: dict[tuple[str, str], Budget] = field(default_factory=dict)
    budgets_eased: int = 0
    candidates: KnownCandidates = field(default_factory=KnownCandidates)
    nominated: NominatedColumns = field(default_factory=NominatedColumns)
