"""createPods, createPodSets and deletePods.

A pod with volumes gets claims that are bound already, since nobody else may be there to bind them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Final, TypeVar

from tutti.kube.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS
from tutti_bench.operations.pods import CreatePods, CreatePodSets, DeletePods
from tutti_bench.pods import Known
from tutti_bench.run import Run, fill
from tutti_bench.templates import Object, Template

T = TypeVar("T")


async def paced(things: Iterable[T], per_second: float) -> AsyncIterator[T]:
    """Give things one by one, so many a second at most; what is late is not waited for again."""
    clock = asyncio.get_running_loop().time
    begun = clock()
    for index, thing in enumerate(things):
        await asyncio.sleep(begun + index / per_second - clock())
        yield thing


_BOUND: Final = {"pv.kubernetes.io/bind-completed": "true"}
_VOLUME: Final = "vol"
_IDENTITY: Final = {"csi": "volumeHandle", "awsElasticBlockStore": "volumeID"}
"""The fields of volumes that say which one it is, where templates give all the same, or none."""


@dataclass(frozen=True, slots=True)
class Volumes:
    """Makes the persistent volume and the claim of each pod."""

    run: Run
    namespace: str
    volume: Template
    claim: Template
    operation: CreatePods

    async def attach(self, pod: Object, i: int) -> Object:
        """Create the volume `<namespace>-vol-<i>` and the claim `pvc-<i>`, bound to each other; return the pod with it.

        Raises:
            Refused: The API server does not take them.
            TemplateError: A template cannot be filled in.
        """
        objects, params, count = self.run.objects, self.operation.template_params, self.operation.number
        volume_name, claim_name = f"{self.namespace}-vol-{i}", f"pvc-{i}"
        claim = _named(fill(self.claim, params, i, count), "PersistentVolumeClaim", claim_name)
        claim["metadata"]["annotations"] = {**(claim["metadata"].get("annotations") or {}), **_BOUND}
        claim["spec"] = {**(claim.get("spec") or {}), "volumeName": volume_name}
        made = await objects.create(claim, self.namespace)
        volume = _named(fill(self.volume, params, i, count), "PersistentVolume", volume_name)
        of = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": self.namespace, "name": claim_name}
        volume["spec"] = {**_identified(volume.get("spec") or {}, volume_name), "claimRef": {**of, "uid": made.uid}}
        await objects.create(volume)
        await objects.patch(PERSISTENT_VOLUMES, volume_name, {"status": {"phase": "Bound"}}, subresource="status")
        modes = volume["spec"].get("accessModes") or []
        status = {"phase": "Bound", "accessModes": modes, "capacity": volume["spec"].get("capacity") or {}}
        await objects.patch(PERSISTENT_VOLUME_CLAIMS, claim_name, {"status": status}, self.namespace, "status")
        spec = pod.get("spec") or {}
        mount = {"name": _VOLUME, "persistentVolumeClaim": {"claimName": claim_name}}
        return {**pod, "spec": {**spec, "volumes": [*(spec.get("volumes") or []), mount]}}


def volumes_of(operation: CreatePods, run: Run, namespace: str) -> Volumes | None:
    """Return what makes the volumes of an operation's pods; None where they have none.

    Raises:
        TemplateError: A template cannot be read.
    """
    if not operation.persistent_volume_template_path:
        return None
    volume = run.template(operation.persistent_volume_template_path)
    claim = run.template(operation.persistent_volume_claim_template_path)
    return Volumes(run, namespace, volume, claim, operation)


def _identified(spec: Object, name: str) -> Object:
    """Return the spec of a volume that is one of its own: its driver knows it by its name."""
    kinds = ((kind, key) for kind, key in _IDENTITY.items() if spec.get(kind) is not None)
    return {**spec, **{kind: {**spec[kind], key: name} for kind, key in kinds}}


def _named(document: Object, kind: str, name: str) -> Object:
    meta = {key: value for key, value in (document.get("metadata") or {}).items() if key != "generateName"}
    return {"apiVersion": "v1", "kind": kind, **document, "metadata": {**meta, "name": name}}


SIGNATURE: Final = "signature"
"""The label that tells which pods are equal to a scheduler that decides for equal pods at once (1.37)."""
_REQUESTS: Final = {"cpu": "100m", "memory": "500Mi"}


def default_pod() -> Object:
    """Return the pod of scheduler_perf where no template is given."""
    container = {
        "name": "pause",
        "image": "registry.k8s.io/pause:3.10.1",
        "ports": [{"containerPort": 80}],
        "resources": {"requests": _REQUESTS, "limits": _REQUESTS},
    }
    return {"metadata": {"generateName": "pod-"}, "spec": {"containers": [container]}}


async def create_pods(operation: CreatePods, run: Run, index: int) -> None:
    """Create pods and, unless it says otherwise, wait until all have nodes, measuring where it says so.

    Raises:
        Refused: The API server does not take one.
        Stalled: Not all have a node in time.
        TemplateError: The template cannot be filled in.
    """
    namespace = operation.namespace or f"namespace-{index}"
    await run.namespaces.ensure(namespace)
    if not operation.collect_metrics:
        await _work(operation, run, namespace)
        return
    if run.process.drains and not operation.steady_state:
        await _drain(operation, run, namespace)
        return
    async with measured(run, namespace):
        await _work(operation, run, namespace)


async def _work(operation: CreatePods, run: Run, namespace: str) -> None:
    if operation.steady_state:
        await _keep_steady(operation, run, namespace)
        return
    pods = await _create(operation, run, namespace)
    if not operation.skip_wait_to_completion:
        await _until_bound(run, pods)


async def _drain(operation: CreatePods, run: Run, namespace: str) -> None:
    """Create pods while the scheduler stands still, and measure from when it is let go.

    It is once the claims are there that are made from templates, so that the pace is its own, not who makes these.
    """
    async with AsyncExitStack() as stack:
        with run.process.stopped():
            pods = await _create(operation, run, namespace)
            seconds = run.limits.operation
            await run.book.until(
                pods, lambda pod: pod.has_claims, what="given the claims of templates", seconds=seconds
            )
            await stack.enter_async_context(measured(run, namespace))
        await _until_bound(run, pods)


@asynccontextmanager
async def measured(run: Run, namespace: str) -> AsyncIterator[None]:
    """Measure the pods of a namespace meanwhile, and note what was found."""
    measurement = run.measure(namespace, [namespace])
    try:
        yield
        run.items += await measurement.stop()
    finally:
        await measurement.cancel()


async def create_pod_sets(operation: CreatePodSets, run: Run, index: int) -> None:
    """Create the same pods in each of the namespaces `<prefix>-<i>`, one after the other.

    Raises:
        Refused: The API server does not take one.
        Stalled: Not all have a node in time.
        TemplateError: The template cannot be filled in.
    """
    for i in range(operation.number):
        namespace = f"{operation.namespace_prefix}-{i}"
        await create_pods(operation.create_pods_op.model_copy(update={"namespace": namespace}), run, index)


def _maker(operation: CreatePods, run: Run) -> Callable[[int], Object]:
    """Return what makes the pod of an index."""
    path = operation.pod_template_path or run.default_pod_template
    template = run.template(path) if path else None

    def make(i: int) -> Object:
        made = fill(template, operation.template_params, i, operation.number) if template else default_pod()
        pod = run.addressed({"apiVersion": "v1", "kind": "Pod", **made})
        if operation.signature_batch_size:
            meta = pod.get("metadata") or {}
            label = {SIGNATURE: f"signature-label-{i // operation.signature_batch_size}"}
            pod["metadata"] = {**meta, "labels": {**(meta.get("labels") or {}), **label}}
        return pod

    return make


async def _create(operation: CreatePods, run: Run, namespace: str) -> list[Known]:
    """Create pods, as many at once as there are creators; they are returned in the order of their indices."""
    make, volumes = _maker(operation, run), volumes_of(operation, run, namespace)
    done = 0

    async def one(i: int) -> Known:
        nonlocal done
        pod = make(i)
        if volumes is not None:
            pod = await volumes.attach(pod, i)
        made, at = await run.objects.create_at(pod, namespace)
        done += 1
        run.reporter.progress(done, 2 * operation.number)
        labels = (pod.get("metadata") or {}).get("labels") or {}
        return run.book.created(namespace, made.name, made.uid, labels, at)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(i)) for i in range(operation.number)]
    return [task.result() for task in tasks]


async def _until_bound(run: Run, pods: Sequence[Known]) -> None:
    """Wait until all have a node, and show how many have."""
    limit = run.limits.operation
    bound = sum(pod.is_bound for pod in pods)

    def holds(pod: Known) -> bool:
        return pod.is_bound

    def show(left: int) -> None:
        run.reporter.progress(2 * len(pods) - left, 2 * len(pods))

    show(len(pods) - bound)
    await run.book.until(pods, holds, what="on nodes", seconds=limit, show=show)


async def _keep_steady(operation: CreatePods, run: Run, namespace: str) -> None:
    """Create pods, wait until they have nodes, delete them, and begin again, until the time is over."""
    end = run.now + operation.duration
    while True:
        await _until_bound(run, await _create(operation, run, namespace))
        if run.now >= end:
            return
        await run.namespaces.empty_one(namespace)


async def delete_pods(operation: DeletePods, run: Run, index: int) -> None:
    """Delete pods of a namespace, and wait until they are gone unless it says otherwise.

    Raises:
        Refused: The namespace is not ours.
        Stalled: They are not gone in time; on a node without a kubelet a pod goes only if its grace period is 0.
    """
    await run.namespaces.ensure(operation.namespace)
    if operation.skip_wait_to_completion:
        run.go_on(_delete(operation, run), f"deletePods {index}")
        return
    pods = run.book.pods([operation.namespace], operation.label_selector)
    await _delete(operation, run)
    await run.book.until(pods, lambda pod: pod.gone, what="gone", seconds=run.limits.operation)


async def _delete(operation: DeletePods, run: Run) -> None:
    pods = run.book.pods([operation.namespace], operation.label_selector)
    if not operation.delete_pods_per_second:
        async with asyncio.TaskGroup() as group:
            for pod in pods:
                group.create_task(run.objects.delete(PODS, pod.name, pod.namespace))
        return
    async for pod in paced(pods, operation.delete_pods_per_second):
        await run.objects.delete(PODS, pod.name, pod.namespace)
