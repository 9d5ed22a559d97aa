"""Which function performs which operation.

And those that wait, measure or go on beside the others: churn, barrier, sleep, startCollectingMetrics and
stopCollectingMetrics.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from tutti.kube.resources import APIResource
from tutti_bench.objects import Refused
from tutti_bench.opcodes import devices, objects, pods
from tutti_bench.operations.any import Barrier, Churn, Sleep, StartCollecting, StopCollecting
from tutti_bench.operations.frame import Operation
from tutti_bench.pods import Known
from tutti_bench.run import Run
from tutti_bench.templates import Object, Template


async def churn(operation: Churn, run: Run, index: int) -> None:
    """Begin to create, or to create and delete, objects every so often until the workload ends.

    Raises:
        Refused: The namespace is not ours.
        TemplateError: A template cannot be read.
    """
    namespace = operation.namespace or f"namespace-{index}"
    await run.namespaces.ensure(namespace)
    templates = [run.template(path) for path in operation.template_paths]
    work = _recreate if operation.mode == "recreate" else _create
    run.go_on(work(operation, run, namespace, templates), f"churn {index}")


async def _create(operation: Churn, run: Run, namespace: str, templates: Sequence[Template]) -> None:
    """Create one object of each template every so often, up to so many of each, or without end."""
    round_ = 0
    while not operation.number or round_ < operation.number:
        for template in templates:
            await _one(run, namespace, template, round_)
        round_ += 1
        await asyncio.sleep(operation.interval_milliseconds / 1e3)


async def _recreate(operation: Churn, run: Run, namespace: str, templates: Sequence[Template]) -> None:
    """Create so many objects of each template, one every so often, delete them the same way, and begin again."""
    interval = operation.interval_milliseconds / 1e3
    while True:
        made: list[list[tuple[APIResource, str]]] = []
        for round_ in range(operation.number):
            made.append([await _one(run, namespace, template, round_) for template in templates])
            await asyncio.sleep(interval)
        for batch in made:
            for resource, name in batch:
                where = namespace if resource.namespaced else ""
                await run.objects.delete(resource, name, where)
            await asyncio.sleep(interval)


async def _one(run: Run, namespace: str, template: Template, round_: int) -> tuple[APIResource, str]:
    document: Object = template.object({"Index": round_, "Count": round_ + 1})
    is_pod = document.get("kind") == "Pod" and document.get("apiVersion") == "v1"
    resource = await run.objects.resource(document)
    # Pods go with all others of their namespace, so they need not be remembered one by one.
    made = await run.objects.create(run.addressed(document) if is_pod else document, namespace, remember=not is_pod)
    return resource, made.name


async def barrier(operation: Barrier, run: Run, index: int) -> None:  # noqa: ARG001 - as all opcodes
    """Wait until pods have nodes, or have been tried.

    Raises:
        Stalled: They have not in time.
    """
    pods = run.book.pods(operation.namespaces, operation.label_selector)
    reached = _tried if operation.stage_requirement == "Attempted" else _bound
    what = "tried" if reached is _tried else "on nodes"
    await run.book.until(pods, reached, what=what, seconds=run.limits.operation)


def _tried(pod: Known) -> bool:
    return pod.gone or pod.is_attempted


def _bound(pod: Known) -> bool:
    return pod.gone or pod.is_bound


async def sleep(operation: Sleep, run: Run, index: int) -> None:  # noqa: ARG001 - as all opcodes
    """Wait as long as it says."""
    await asyncio.sleep(operation.duration)


async def start_collecting(operation: StartCollecting, run: Run, index: int) -> None:  # noqa: ARG001 - as all opcodes
    """Begin to measure.

    Raises:
        Refused: A measurement goes on already.
    """
    if run.measuring is not None:
        raise Refused("startCollectingMetrics: a measurement goes on; stopCollectingMetrics must come first")
    for namespace in operation.namespaces:
        run.book.follow(namespace)  # it need not be ours: nothing is made in it
    run.measuring = run.measure(operation.name, operation.namespaces, operation.label_selector)


async def stop_collecting(operation: StopCollecting, run: Run, index: int) -> None:  # noqa: ARG001 - as all opcodes
    """End the measurement.

    Raises:
        Refused: None goes on.
    """
    if run.measuring is None:
        raise Refused("stopCollectingMetrics: no measurement goes on; startCollectingMetrics must come first")
    run.items += await run.measuring.stop()
    run.measuring = None


Perform = Callable[[Any, Run, int], Awaitable[None]]

PERFORM: Mapping[str, Perform] = MappingProxyType(
    {
        "createNodes": objects.create_nodes,
        "createNamespaces": objects.create_namespaces,
        "createPods": pods.create_pods,
        "createPodSets": pods.create_pod_sets,
        "deletePods": pods.delete_pods,
        "churn": churn,
        "barrier": barrier,
        "sleep": sleep,
        "startCollectingMetrics": start_collecting,
        "stopCollectingMetrics": stop_collecting,
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
