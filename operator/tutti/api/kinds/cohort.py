"""Cohort: a node of the tree in which quota is borrowed and lent (Kueue v1beta2 fields)."""

from __future__ import annotations

from typing import ClassVar

from tutti.api.kinds.frame import AGE, Column, Object
from tutti.api.kinds.quotas import APPEAR_ONCE, FairSharing, ResourceGroups, limits_need
from tutti.api.kinds.statuses import ConditionsOnly
from tutti.api.model import Model, Name


class CohortSpec(Model):
    """Its parent, and the quota that its members share on top of their own."""

    parent_name: Name = ""
    """The cohort above; left out: none."""
    resource_groups: ResourceGroups = []
    """Quota that members share on top of their own."""
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
        Column("Parent", ".spec.parentName"),
        Column("Active", '.status.conditions[?(@.type=="Active")].status'),
        Column("Why", '.status.conditions[?(@.type=="Active")].message', priority=1),
        AGE,
    )

    spec: CohortSpec = CohortSpec()
    status: ConditionsOnly = ConditionsOnly()
