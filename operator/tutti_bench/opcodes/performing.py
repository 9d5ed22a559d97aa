"""Which function performs which operation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any

from tutti_bench.opcodes import devices, flow, objects, pods, surroundings
from tutti_bench.operations.frame import Operation
from tutti_bench.run import Run

Perform = Callable[[Any, Run, int], Awaitable[None]]

PERFORM: Mapping[str, Perform] = MappingProxyType(
    {
        "createNodes": surroundings.create_nodes,
        "createNamespaces": surroundings.create_namespaces,
        "createPods": pods.create_pods,
        "createPodSets": pods.create_pod_sets,
        "deletePods": pods.delete_pods,
        "churn": flow.churn,
        "barrier": flow.barrier,
        "sleep": flow.sleep,
        "startCollectingMetrics": flow.start_collecting,
        "stopCollectingMetrics": flow.stop_collecting,
        "createAny": objects.create_any,
        "updateAny": objects.update_any,
        "createResourceClaims": devices.create_resource_claims,
        "createResourceDriver": devices.create_resource_driver,
        "allocResourceClaims": devices.alloc_resource_claims,
        "createPodGroups": objects.create_pod_groups,
        "waitForPodGroups": objects.wait_for_pod_groups,
    }
)
"""By opcode."""


async def perform(operation: Operation, run: Run, index: int) -> None:
    """Perform one operation, the one of this index of its workload.

    Raises:
        Refused: The API server, or this benchmark, does not do it.
        Stalled: What it waits for does not come.
        TemplateError: A template cannot be read or filled in.
        WireError: The API server could not be reached.
    """
    await PERFORM[operation.opcode](operation, run, index)
