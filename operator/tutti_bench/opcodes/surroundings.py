"""createNodes and createNamespaces."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any, Final

from tutti_bench.operations.surroundings import CreateNamespaces, CreateNodes, NodeAllocatable
from tutti_bench.run import Run, fill

Object = dict[str, Any]

_CAPACITY: Final = {"cpu": "4", "memory": "32Gi", "pods": "110"}
_READY: Final = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
_HOSTNAME: Final = "kubernetes.io/hostname"


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
    labels: dict[str, str] = {}
    if strategy := operation.label_node_prepare_strategy:
        labels[strategy.label_key] = strategy.label_values[i % len(strategy.label_values)]
    if unique := operation.unique_node_label_strategy:
        labels[unique.label_key] = str(uuid.uuid4())
    meta = node.get("metadata") or {}
    node["metadata"] = {**meta, "labels": {**(meta.get("labels") or {}), **labels}}
    if given := operation.node_allocatable_strategy:
        status = node.get("status") or {}
        more = {name: str(amount) for name, amount in given.node_allocatable.items()}
        node["status"] = {**status, "allocatable": {**(status.get("allocatable") or {}), **more}}
    return node


def _default(name: str) -> Object:
    """The node of scheduler_perf where no template is given."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {_HOSTNAME: name}},
        "status": {"capacity": _CAPACITY, "allocatable": _CAPACITY, "conditions": [_READY]},
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
