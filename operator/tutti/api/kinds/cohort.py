"""Cohort: queues that lend quota to one another, and what they share on top.

Fields are those of Kueue v1beta2; `temporaryQuotas` is ours.
"""

from __future__ import annotations

from typing import ClassVar

from tutti.api.kinds.quotas import APPEAR_ONCE, FairSharing, ResourceGroups, limits_need
from tutti.api.kinds.statuses import ConditionsOnly
from tutti.api.kinds.temporary_quotas import TemporaryQuotas
from tutti.api.model import ACTIVE_COLUMN, AGE_COLUMN, WHY_INACTIVE_COLUMN, Model, Name, Object, PrinterColumn


class CohortSpec(Model):
    """Its parent, and the quota that its members share on top of their own."""

    parent_name: Name = ""
    """The cohort above; left out: none."""
    resource_groups: ResourceGroups = []
    """Quota that members share on top of their own."""
    temporary_quotas: TemporaryQuotas = []
    """Windows of time in which it has other quotas (ours, not Kueue's). Where several are on, the first one counts."""
    fair_sharing: FairSharing | None = None
    """Its weight in the parent."""
    RULES: ClassVar = (
        APPEAR_ONCE,
        limits_need("parentName", lambda it: it.parent_name),
    )


class Cohort(Object):
    """A group of queues that lend quota to one another."""

    KIND: ClassVar = "Cohort"
    PLURAL: ClassVar = "cohorts"
    COLUMNS: ClassVar = (
        PrinterColumn("Parent", ".spec.parentName"),
        ACTIVE_COLUMN,
        WHY_INACTIVE_COLUMN,
        AGE_COLUMN,
    )

    spec: CohortSpec = CohortSpec()
    status: ConditionsOnly = ConditionsOnly()
