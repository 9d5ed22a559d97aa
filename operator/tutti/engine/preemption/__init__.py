"""Who has to go so that others fit, and the room that is held for these until then."""

from __future__ import annotations

from dataclasses import dataclass, field

from tutti.engine.lifecycle import LifecycleState
from tutti.placement.preemption.victim_cost import Budget


@dataclass(kw_only=True)
class PreemptionState(LifecycleState):
    """What the choice of victims needs beside that.

    Attributes:
        budgets: PodDisruptionBudgets, by namespace and name.
        budgets_eased: How often one of them has come to let more be moved than before.
    """

    budgets: dict[tuple[str, str], Budget] = field(default_factory=dict)
    budgets_eased: int = 0
