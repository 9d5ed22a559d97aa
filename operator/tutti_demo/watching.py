"""Keeps a picture in step with the cluster: informers for nodes, pods, pod groups and queues."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from tutti.api.core import Node, ObjectMeta, Pod, PodCondition, View
from tutti.api.resources import amounts
from tutti.controller.crds import RESOURCES
from tutti.kube.changes import Change, Gone
from tutti.kube.client import Client
from tutti.kube.informer import Informer
from tutti.kube.resources import NODES, PODS, Resource
from tutti_demo.manifests import HOSTNAME, JOB, RACK
from tutti_demo.picture import NodeView, Picture, QueueView
from tutti_demo.scenario import FLAVOR, GPU
from tutti_demo.track import PodView, Why

T = TypeVar("T")

_GATES = {"Unschedulable": "Placement", "Impossible": "Placement", "WaitingForQuota": "Quota", "BehindHead": "Queue"}
"""The gate behind the reason of a pod's PodScheduled condition."""


class _Reason(View, frozen=True):
    gate: str = ""
    reason: str = ""
    message: str = ""
    details: dict[str, str] = {}


class _Pending(View, frozen=True):
    reasons: list[_Reason] = []


class _GroupStatus(View, frozen=True):
    pending_reason: _Pending | None = None


class Group(View, frozen=True):
    """A PodGroup, as far as the demo shows it."""

    metadata: ObjectMeta = ObjectMeta()
    status: _GroupStatus = _GroupStatus()


class _Usage(View, frozen=True):
    name: str = ""
    total: str = "0"
    borrowed: str = "0"


class _FlavorUsage(View, frozen=True):
    name: str = ""
    resources: list[_Usage] = []


class _QueueStatus(View, frozen=True):
    conditions: list[PodCondition] = []
    pending_workloads: int = 0
    admitted_workloads: int = 0
    flavors_usage: list[_FlavorUsage] = []


class Queue(View, frozen=True):
    """A ClusterQueue, as far as the demo shows it."""

    metadata: ObjectMeta = ObjectMeta()
    status: _QueueStatus = _QueueStatus()


def node_view(node: Node) -> NodeView:
    """A node as the picture keeps it; one without a rack label stands in a rack without a name."""
    labels = node.metadata.labels
    name = node.metadata.name
    return NodeView(
        name, labels.get(RACK, ""), labels.get(HOSTNAME, name), amounts(node.status.allocatable).get(GPU, 0)
    )


def pod_view(pod: Pod) -> PodView:
    """A pod as the picture keeps it."""
    gpus = sum(amounts(one.resources.limits).get(GPU, 0) for one in pod.spec.containers)
    meta = pod.metadata
    return PodView(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        job=meta.labels.get(JOB, ""),
        node=pod.spec.node_name,
        phase=pod.status.phase,
        gpus=gpus,
        why=_pod_why(pod),
    )


def group_why(group: Group) -> Why | None:
    """Why a PodGroup waits, the most telling reason."""
    pending = group.status.pending_reason
    if pending is None or not pending.reasons:
        return None
    first = pending.reasons[0]
    fits, required = first.details.get("fits"), first.details.get("required")
    room = f"{fits} of {required}" if fits and required else ""
    return Why(first.gate, first.reason, first.message, room)


def queue_view(queue: Queue) -> QueueView:
    """A ClusterQueue as the picture keeps it."""
    status = queue.status
    usage = [
        resource
        for flavor in status.flavors_usage
        if flavor.name == FLAVOR
        for resource in flavor.resources
        if resource.name == GPU
    ]
    return QueueView(
        name=queue.metadata.name,
        active=any(one.type == "Active" and one.status == "True" for one in status.conditions),
        pending=status.pending_workloads,
        admitted=status.admitted_workloads,
        used=sum(amounts({GPU: one.total})[GPU] for one in usage),
        borrowed=sum(amounts({GPU: one.borrowed})[GPU] for one in usage),
    )


def _pod_why(pod: Pod) -> Why | None:
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            return Why(_GATES.get(condition.reason, condition.reason), condition.reason, condition.message)
    return None


class Observer:
    """Feeds a picture, and tells who waits for something in it that it has changed."""

    def __init__(self, client: Client, picture: Picture, *, clock: Callable[[], float]) -> None:
        self.picture = picture
        self._clock = clock
        self._changed = asyncio.Event()
        self._informers: tuple[Informer[Any], ...] = (
            _informer(client, NODES, Node, self._take_nodes),
            _informer(client, PODS, Pod, self._take_pods),
            _informer(client, RESOURCES["PodGroup"], Group, self._take_groups),
            _informer(client, RESOURCES["ClusterQueue"], Queue, self._take_queues),
        )

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as group:
            for informer in self._informers:
                group.create_task(informer.run(), name=f"watch {informer.resource.label}")

    async def synced(self) -> None:
        """Return once everything that is there has been seen."""
        for informer in self._informers:
            await informer.synced.wait()

    async def changed(self) -> None:
        """Return with the next change of the picture."""
        await self._changed.wait()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Return once `holds` is so; it is asked again with each change."""
        while not holds():
            await self.changed()

    def touch(self) -> None:
        """Tell that the picture has changed."""
        self._changed.set()
        self._changed = asyncio.Event()

    def _take_nodes(self, changes: Sequence[Change[Node]]) -> None:
        for change in changes:
            if isinstance(change, Gone):
                self.picture.lose_node(change.key.name)
            else:
                self.picture.see_node(node_view(change.obj))
        self.touch()

    def _take_pods(self, changes: Sequence[Change[Pod]]) -> None:
        at = self._clock()
        for change in changes:
            if isinstance(change, Gone):
                self.picture.lose_pod(change.key.namespace, change.key.name, at=at)
            else:
                self.picture.see_pod(pod_view(change.obj), at=at)
        self.touch()

    def _take_groups(self, changes: Sequence[Change[Group]]) -> None:
        at = self._clock()
        for change in changes:
            why = None if isinstance(change, Gone) else group_why(change.obj)
            self.picture.see_why(change.key.namespace, change.key.name, why, at=at)
        self.touch()

    def _take_queues(self, changes: Sequence[Change[Queue]]) -> None:
        for change in changes:
            if not isinstance(change, Gone):
                self.picture.see_queue(queue_view(change.obj))
        self.touch()


def _informer(
    client: Client, resource: Resource, view: type[T], deliver: Callable[[Sequence[Change[T]]], None]
) -> Informer[T]:
    return Informer(client, resource, view=view, deliver=deliver)
