"""createNodes, createNamespaces, createAny, updateAny, createPodGroups and waitForPodGroups."""

from __future__ import annotations

import asyncio
import uuid
from typing import Final

from tutti.kube.resources import APIResource
from tutti.kube.retry import Backoff
from tutti_bench.objects import Refused
from tutti_bench.opcodes.pods import paced
from tutti_bench.operations.objects import (
    CreateAny,
    CreateNamespaces,
    CreateNodes,
    CreatePodGroups,
    CreateResourceClaims,
    NodeAllocatable,
    UpdateAny,
    WaitForPodGroups,
)
from tutti_bench.pods import Stalled
from tutti_bench.run import Run, fill
from tutti_bench.templates import Object

_CAPACITY: Final = {"cpu": "4", "memory": "32Gi", "pods": "110"}
_READY: Final = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
_HOSTNAME: Final = "kubernetes.io/hostname"
_SUFFIX: Final = 10
"""How many characters are added to a generated name."""


async def create_nodes(operation: CreateNodes, run: Run, index: int) -> None:
    """Create nodes that nobody stands behind, and prepare them as the strategy says.

    Raises:
        Refused: The API server does not take one.
        TemplateError: The template cannot be filled in.
    """
    documents = [_node(operation, run, index, i) for i in range(operation.number)]
    async with asyncio.TaskGroup() as group:
        for document in documents:
            group.create_task(_create(document, operation.node_allocatable_strategy, run))


def _node(operation: CreateNodes, run: Run, index: int, i: int) -> Object:
    if operation.node_template_path:
        template = run.template(operation.node_template_path)
        node = {"apiVersion": "v1", "kind": "Node", **fill(template, operation.template_params, i, operation.number)}
    else:
        node = _default(f"node-{index}-{i}")
    meta = node.get("metadata") or {}
    name = meta.get("name") or f"{meta.get('generateName', 'node-')}{uuid.uuid4().hex[:_SUFFIX]}"
    labels = {**(meta.get("labels") or {}), _HOSTNAME: name}  # as its kubelet would label it
    if strategy := operation.label_node_prepare_strategy:
        labels[strategy.label_key] = strategy.label_values[i % len(strategy.label_values)]
    if unique := operation.unique_node_label_strategy:
        labels[unique.label_key] = str(uuid.uuid4())
    node["metadata"] = {**meta, "name": name, "labels": labels}
    node["status"] = _status(operation, node.get("status") or {"capacity": _CAPACITY, "conditions": [_READY]})
    return node


def _status(operation: CreateNodes, written: Object) -> Object:
    """Return the status of a node with what the operation adds; without allocatable, all of its capacity is."""
    given = operation.node_allocatable_strategy
    more = {name: str(amount) for name, amount in given.node_allocatable.items()} if given else {}
    allocatable = {**(written.get("allocatable") or written.get("capacity") or {}), **more}
    features = sorted(f"Feature{number}" for number in range(1, operation.declared_features + 1))
    declared = {"declaredFeatures": features} if features else {}
    return {**written, "capacity": {**(written.get("capacity") or {}), **more}, "allocatable": allocatable, **declared}


def _default(name: str) -> Object:
    """The node of scheduler_perf where no template is given."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
    }


async def _create(node: Object, strategy: NodeAllocatable | None, run: Run) -> None:
    made = await run.objects.create(node)
    if strategy is not None and strategy.csi_node_allocatable:
        await run.objects.create(_csi_node(made.name, made.uid, strategy))


def _csi_node(name: str, uid: str, strategy: NodeAllocatable) -> Object:
    """The CSINode that says how many volumes of each driver fit on a node."""
    owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}
    migrated = {"storage.alpha.kubernetes.io/migrated-plugins": ",".join(strategy.migrated_plugins)}
    drivers = [
        {
            "name": driver,
            "nodeID": name,
            "topologyKeys": [],
            **({} if given.volumes is None else {"allocatable": {"count": given.volumes}}),
        }
        for driver, given in strategy.csi_node_allocatable.items()
    ]
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {
            "name": name,
            "ownerReferences": [owner],
            "annotations": migrated if strategy.migrated_plugins else {},
        },
        "spec": {"drivers": drivers},
    }


async def create_namespaces(operation: CreateNamespaces, run: Run, index: int) -> None:  # noqa: ARG001 - as all opcodes
    """Create the namespaces `<prefix>-<i>`.

    Raises:
        Refused: One is there and not ours.
        TemplateError: The template cannot be filled in.
    """
    for i in range(operation.number):
        document: Object = {}
        if operation.namespace_template_path:
            document = fill(run.template(operation.namespace_template_path), {}, i, operation.number)
        await run.namespaces.ensure(f"{operation.prefix}-{i}", document)


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
    if (document.get("apiVersion"), document.get("kind")) == _POD:
        document = run.addressed(document)  # as it was created
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


async def _number(resource: APIResource, namespace: str, run: Run) -> int:
    return len(await run.objects.names(resource, namespace))
