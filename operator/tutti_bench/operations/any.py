"""Any operation, told apart by its opcode; among them those that wait, measure, or go on beside the others."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from tutti.api.problems import FieldProblem, nearest, problems_of
from tutti_bench.operations.frame import Operation, Whole
from tutti_bench.operations.objects import (
    AllocResourceClaims,
    CreateAny,
    CreateNamespaces,
    CreateNodes,
    CreatePodGroups,
    CreateResourceClaims,
    CreateResourceDriver,
    UpdateAny,
    WaitForPodGroups,
)
from tutti_bench.operations.pods import CreatePods, CreatePodSets, DeletePods
from tutti_bench.params import Params
from tutti_bench.templates import Duration


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


OPERATIONS: Mapping[str, type[Operation]] = MappingProxyType(
    {
        "createNodes": CreateNodes,
        "createNamespaces": CreateNamespaces,
        "createPods": CreatePods,
        "createPodSets": CreatePodSets,
        "deletePods": DeletePods,
        "churn": Churn,
        "barrier": Barrier,
        "sleep": Sleep,
        "startCollectingMetrics": StartCollecting,
        "stopCollectingMetrics": StopCollecting,
        "createAny": CreateAny,
        "updateAny": UpdateAny,
        "createResourceClaims": CreateResourceClaims,
        "createResourceDriver": CreateResourceDriver,
        "allocResourceClaims": AllocResourceClaims,
        "createPodGroups": CreatePodGroups,
        "waitForPodGroups": WaitForPodGroups,
    }
)
"""The records of the operations by their opcode."""


def read_operation(value: Any) -> Operation | list[FieldProblem]:
    """Read one operation as it stands in a file; or tell all that is wrong with it."""
    if isinstance(value, Operation):
        return value
    if not isinstance(value, dict):
        return [FieldProblem("", f"an operation has an opcode and its fields; this is {value!r}")]
    opcode = next((entry for key, entry in value.items() if str(key).lower() == "opcode"), None)
    kind = OPERATIONS.get(str(opcode))
    if kind is None:
        return [FieldProblem("opcode", f"there is no opcode {opcode!r}; {nearest(str(opcode), list(OPERATIONS))}")]
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        return problems_of(error, kind)
