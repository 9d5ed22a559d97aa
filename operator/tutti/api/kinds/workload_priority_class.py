"""WorkloadPriorityClass: a priority for queueing, apart from the priority of pods (Kueue v1beta2 fields)."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from tutti.api.kinds.frame import AGE, Column, Object


class WorkloadPriorityClass(Object):
    """A priority by name; it has neither spec nor status."""

    KIND: ClassVar = "WorkloadPriorityClass"
    PLURAL: ClassVar = "workloadpriorityclasses"
    SHORT_NAMES: ClassVar = ("wpc",)
    COLUMNS: ClassVar = (Column("Value", ".value", "integer"), AGE)

    value: Annotated[int, Field(ge=-(2**31), le=2**31 - 1)]
    """The priority; higher goes first."""
    description: Annotated[str, Field(max_length=2048)] = ""
    """When to use it."""
