"""Any operation, told apart by its opcode."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

from tutti.api.problems import Problem, nearest, problems_of
from tutti_bench.operations.flow import Barrier, Churn, Sleep, StartCollecting, StopCollecting
from tutti_bench.operations.frame import Operation
from tutti_bench.operations.objects import (
    AllocResourceClaims,
    CreateAny,
    CreatePodGroups,
    CreateResourceClaims,
    CreateResourceDriver,
    UpdateAny,
    WaitForPodGroups,
)
from tutti_bench.operations.pods import CreatePods, CreatePodSets, DeletePods
from tutti_bench.operations.surroundings import CreateNamespaces, CreateNodes

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


def read_operation(value: Any) -> Operation | list[Problem]:
    """Read one operation as it stands in a file; or tell all that is wrong with it."""
    if isinstance(value, Operation):
        return value
    if not isinstance(value, dict):
        return [Problem("", f"an operation has an opcode and its fields; this is {value!r}")]
    opcode = next((entry for key, entry in value.items() if str(key).lower() == "opcode"), None)
    kind = OPERATIONS.get(str(opcode))
    if kind is None:
        return [Problem("opcode", f"there is no opcode {opcode!r}; {nearest(str(opcode), list(OPERATIONS))}")]
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        return problems_of(error, kind)
