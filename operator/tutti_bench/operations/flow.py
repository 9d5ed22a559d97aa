"""Operations that wait, measure, or go on beside the others."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from tutti_bench.durations import Duration
from tutti_bench.operations.frame import Operation, Whole
from tutti_bench.params import Params


class Churn(Operation):
    """Creates, or creates and deletes, objects in the background until the workload ends."""

    opcode: Literal["churn"]
    mode: Literal["create", "recreate"]
    number: Whole = 0
    interval_milliseconds: Whole = 500
    namespace: str = ""
    template_paths: Annotated[list[str], Field(min_length=1)]

    @model_validator(mode="after")
    def check_number(self) -> Self:
        """To recreate, one must know how many."""
        if self.mode == "recreate" and not self.number:
            raise ValueError("number cannot be 0 where the mode is recreate")
        return self


class Barrier(Operation):
    """Waits until the pods of some or all namespaces have nodes, or have at least been tried."""

    opcode: Literal["barrier"]
    namespaces: list[str] = []
    label_selector: dict[str, str] = {}
    stage_requirement: Literal["", "Scheduled", "Attempted"] = ""


class Sleep(Operation):
    """Waits."""

    opcode: Literal["sleep"]
    duration: Duration = 0.0
    duration_param: str = ""

    def values(self, params: Params) -> dict[str, Any]:
        """Return the fields that parameters say."""
        return {"duration": params.duration(self.duration_param)} if self.duration_param else {}


class StartCollecting(Operation):
    """Begins to measure the pods of some namespaces."""

    opcode: Literal["startCollectingMetrics"]
    name: str = ""
    namespaces: Annotated[list[str], Field(min_length=1)]
    label_selector: dict[str, str] = {}


class StopCollecting(Operation):
    """Ends what startCollectingMetrics has begun."""

    opcode: Literal["stopCollectingMetrics"]
