"""createAny, updateAny, createPodGroups and waitForPodGroups."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from tutti.kube.backoff import Backoff
from tutti.kube.resources import Resource
from tutti_bench.objects import Refused
from tutti_bench.opcodes.pacing import paced
from tutti_bench.operations.objects import (
    CreateAny,
    CreatePodGroups,
    CreateResourceClaims,
    UpdateAny,
    WaitForPodGroups,
)
from tutti_bench.pods import Stalled
from tutti_bench.run import Run, fill

Object = dict[str, Any]

_NEW_KIND_SECONDS: Final = 20.0
"""How long an object is offered again: its kind may have been defined a moment ago."""
_AGAIN_SECONDS: Final = 1.0
_POD_GROUPS: Final = "podgroups"
_POD: Final = ("v1", "Pod")


async def create_any(operation: CreateAny, run: Run, index: int) -> None:  # noqa: ARG001 - as all opcodes
    """Create objects, one after the other; one that is refused is offered again for a while.

    Raises:
        Refused: The API server does not take one.
        TemplateError: The template cannot be filled in.
    """
    if operation.namespace:
        await run.namespaces.ensure(operation.namespace)
    template = run.template(operation.template_path)
    for i in range(operation.number):
        document = fill(template, operation.template_params, i, operation.number)
        await _offer(document, operation.namespace, run)
        run.reporter.progress(i + 1, operation.number)


async def _offer(document: Object, namespace: str, run: Run) -> None:
    is_pod = (document.get("apiVersion"), document.get("kind")) == _POD
    end = run.now + _NEW_KIND_SECONDS
    while True:
        try:
            await run.objects.create(run.addressed(document) if is_pod else document, namespace, strict=True)
        except Refused:
            if run.now >= end:
                raise
            await asyncio.sleep(_AGAIN_SECONDS)
        else:
            return


async def update_any(operation: UpdateAny, run: Run, index: int) -> None:  # noqa: ARG001 - as all opcodes
    """Replace objects, or their subresources, with what the template says.

    Raises:
        Refused: The API server does not take one.
        TemplateError: The template cannot be filled in.
    """
    template = run.template(operation.template_path)
    documents = [fill(template, operation.template_params, i, operation.number) for i in range(operation.number)]
    if not operation.update_per_second:
        for document in documents:
            await _update(document, operation, run)
        return
    async for document in paced(documents, operation.update_per_second):
        await _update(document, operation, run)


async def _update(document: Object, operation: UpdateAny, run: Run) -> None:
    for subresource in operation.subresources or [""]:
        await run.objects.replace(document, operation.namespace, subresource)
    if "status" in document and "status" not in operation.subresources:
        await run.objects.replace(document, operation.namespace, "status")


async def create_pod_groups(operation: CreatePodGroups, run: Run, index: int) -> None:  # noqa: ARG001 - as all opcodes
    """Create PodGroups and wait until the API server shows them.

    Raises:
        Refused: The API server does not take one.
        Stalled: It does not show them in time.
        TemplateError: The template cannot be filled in.
    """
    await create_many(operation, run)
    await _until_there(operation.namespace, operation.number, run)


async def create_many(operation: CreateResourceClaims | CreatePodGroups, run: Run) -> None:
    """Create the objects of a template, as many at once as there are creators.

    Raises:
        Refused: The API server does not take one.
        TemplateError: The template cannot be filled in.
    """
    await run.namespaces.ensure(operation.namespace)
    template = run.template(operation.template_path)
    count = operation.number
    async with asyncio.TaskGroup() as group:
        for i in range(count):
            document = fill(template, operation.template_params, i, count)
            group.create_task(run.objects.create(document, operation.namespace))


async def wait_for_pod_groups(operation: WaitForPodGroups, run: Run, index: int) -> None:  # noqa: ARG001 - as all opcodes
    """Wait until the API server shows so many PodGroups; what its schedulers have seen is not known outside of them.

    Raises:
        Refused: None was created in this namespace.
        Stalled: It does not show them in time.
    """
    await _until_there(operation.namespace, operation.number, run)


async def _until_there(namespace: str, count: int, run: Run) -> None:
    resource = run.objects.collection(_POD_GROUPS, namespace)
    if resource is None:
        raise Refused(f"waitForPodGroups: no PodGroup was created in namespace {namespace}")
    end, backoff = run.now + run.limits.operation, Backoff(0.05, 1.0)
    while (found := await _number(resource, namespace, run)) < count:
        if run.now >= end:
            raise Stalled(f"namespace {namespace} has {found} of {count} PodGroups")
        await asyncio.sleep(backoff.next())


async def _number(resource: Resource, namespace: str, run: Run) -> int:
    return len(await run.objects.names(resource, namespace))
