"""Workloads that start when others have ended: whom they name, and whom they need not wait for any more."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from tutti.api.model import Lenient, Model, Name, list_map

MOST_AFTER = 16
"""How many others a workload may name."""


class AfterWorkload(Model):
    """Another workload that has to end before this one is looked at."""

    workload: Annotated[Name, Field(min_length=1)]
    """The name of a Workload or PodGroup, or of what makes pods, such as a Job or a RayJob, in the same namespace."""
    when: Literal["Succeeded", "Finished"] = "Succeeded"
    """Succeeded: it has to succeed; one that fails is waited for until it has succeeded after all. Finished: it has to
    end, whichever way."""


class EndedWorkload(Lenient):
    """One of them that has ended as it must: it is not waited for again, even if it is deleted or starts anew."""

    workload: str = Field(max_length=253)
    """Its name."""
    outcome: Annotated[str, Field(max_length=63)] = "Succeeded"
    """How it ended: Succeeded or Failed."""


After = Annotated[list[AfterWorkload], Field(max_length=MOST_AFTER, json_schema_extra=list_map("workload"))]
EndedWorkloads = Annotated[list[EndedWorkload], Field(max_length=MOST_AFTER, json_schema_extra=list_map("workload"))]
