"""PodDisruptionBudgets, as far as the choice of victims reads them (policy/v1)."""

from __future__ import annotations

from typing import Any

from tutti.api.core import Int32, View
from tutti.api.labels import LabelSelector


class BudgetName(View, frozen=True):
    """The only metadata that is kept of a budget."""

    name: str = ""
    namespace: str = ""


class BudgetSpec(View, frozen=True):
    """Whom a budget covers; what it allows is worked out by the disruption controller."""

    selector: LabelSelector | None = None


class BudgetStatus(View, frozen=True):
    """How many more pods may be disrupted now, and which are counted as disrupted already, by name."""

    disruptions_allowed: Int32 = 0
    disrupted_pods: dict[str, Any] = {}


class PodDisruptionBudget(View, frozen=True):
    """A limit on how many pods of an application may be taken out at a time."""

    metadata: BudgetName = BudgetName()
    spec: BudgetSpec = BudgetSpec()
    status: BudgetStatus = BudgetStatus()
