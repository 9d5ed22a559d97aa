"""The floor of upstream's workloads: a program that gives each claim the next device, binds, and decides nothing.

    python -m bench.claim_floor --config FILE

It is started as kube-scheduler is, and takes from its configuration the kubeconfig and the scheduler's name, so that
`bench.upstream --floor` can put it in kube-scheduler's place. Pods without claims are bound to all nodes in turn. A pod
with a claim takes it the writes that kube-scheduler makes for it too, one after the other: the finalizer of its claim,
the claim's status with allocation and user, and the binding. One that asks for an extended resource which devices stand
in for takes four: the claim is made, with its finalizer, gets its status, the pod is told of it, and is bound. Whoever
writes these is no quicker than the server answers. Each claim asks for one device; it gets the devices of nodes in
turn, whoever had one before.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

import aiohttp
import msgspec
import uvloop
import yaml

from bench.floor import AT_ONCE, JSON, Meta, Named, binding, connected, follow, listed
from tutti.api.devices import DELETE_PROTECTION, EXTENDED_CLAIM, IMPLICIT_RESOURCE

Read = TypeVar("Read")

STRATEGIC = {"Content-Type": "application/strategic-merge-patch+json"}
MERGE = {"Content-Type": "application/merge-patch+json"}
RESOURCE = "/apis/resource.k8s.io/v1"


class ClaimName(msgspec.Struct, rename="camel"):
    """Which claim was made for a pod."""

    resource_claim_name: str = ""


class Status(msgspec.Struct, rename="camel"):
    """What the claim controller says of a pod."""

    resource_claim_statuses: list[ClaimName] = []


class Resources(msgspec.Struct, frozen=True):
    """How much of what a container asks for."""

    requests: dict[str, msgspec.Raw] = {}


class Container(msgspec.Struct):
    """A container, and what it asks for."""

    name: str
    resources: Resources = Resources()


class Spec(msgspec.Struct, rename="camel"):
    """Which claims and resources a pod asks for, and who has it wait."""

    containers: list[Container]
    resource_claims: list[msgspec.Raw] = []
    scheduling_gates: list[msgspec.Raw] = []


class Claimant(msgspec.Struct):
    """A pod, maybe with a claim."""

    metadata: Meta
    spec: Spec
    status: Status

    @property
    def waits(self) -> bool:
        """Whether it may not be bound yet: it has a gate, or the claim that it has is not made."""
        return bool(self.spec.scheduling_gates) or (bool(self.spec.resource_claims) and not self.claim)

    @property
    def claim(self) -> str:
        """The claim that was made for it; empty where there is none."""
        return next((one.resource_claim_name for one in self.status.resource_claim_statuses), "")

    @property
    def extended(self) -> tuple[str, str] | None:
        """The first container that asks for an extended resource, and the resource."""
        return next(
            ((one.name, name) for one in self.spec.containers for name in one.resources.requests if "/" in name), None
        )


class Device(msgspec.Struct, frozen=True):
    """A device of a node."""

    node: str
    driver: str
    pool: str
    name: str


async def devices(session: aiohttp.ClientSession) -> list[Device]:
    """Return the devices that the slices of nodes tell of, node by node in turn."""
    async with session.get(f"{RESOURCE}/resourceslices") as answer:
        slices = [one["spec"] for one in (await answer.json())["items"] if one["spec"].get("nodeName")]
    most = max((len(one["devices"]) for one in slices), default=0)
    return [
        Device(one["nodeName"], one["driver"], one["pool"]["name"], one["devices"][at]["name"])
        for at in range(most)
        for one in slices
        if at < len(one["devices"])
    ]


async def classes(session: aiohttp.ClientSession) -> dict[str, str]:
    """Return the device classes by the extended resources that they stand in for."""
    async with session.get(f"{RESOURCE}/deviceclasses") as answer:
        found = [(one["metadata"]["name"], one["spec"]) for one in (await answer.json())["items"]]
    named = {spec["extendedResourceName"]: name for name, spec in found if spec.get("extendedResourceName")}
    return {**{f"{IMPLICIT_RESOURCE}{name}": name for name, _ in found}, **named}


async def nodes(session: aiohttp.ClientSession) -> list[str]:
    """Return the names of all nodes."""
    items = (await listed(session, "/api/v1/nodes")).items
    return [msgspec.json.decode(one, type=Named).metadata.name for one in items]


class Once(Generic[Read]):
    """What the first to come reads for all."""

    def __init__(self, read: Callable[[], Awaitable[Read]]) -> None:
        self._read = read
        self._reading = asyncio.Lock()
        self._found: Read | None = None

    async def get(self) -> Read:
        """Read it, or return what was read."""
        async with self._reading:
            if self._found is None:
                self._found = await self._read()
        return self._found


async def bind_all(kubeconfig: Path, scheduler: str) -> None:
    """Give devices and bind for ever."""
    waiting: asyncio.Queue[Claimant] = asyncio.Queue()
    known: set[str] = set()

    def see(pod: Claimant) -> None:
        if not pod.waits and pod.metadata.uid not in known:
            known.add(pod.metadata.uid)
            waiting.put_nowait(pod)

    async with connected(kubeconfig) as session, asyncio.TaskGroup() as group:

        async def all_devices() -> Iterator[Device]:
            return itertools.cycle(await devices(session))

        async def all_nodes() -> Iterator[str]:
            return itertools.cycle(await nodes(session))

        free, places, known_classes = Once(all_devices), Once(all_nodes), Once(partial(classes, session))

        async def work() -> None:
            while True:
                pod = await waiting.get()
                asks = pod.extended
                device_class = (await known_classes.get()).get(asks[1]) if asks else None
                if pod.claim:
                    await serve(session, pod.metadata, pod.claim, next(await free.get()))
                elif asks and device_class is not None:
                    await serve_extended(session, pod.metadata, (*asks, device_class), next(await free.get()))
                else:
                    await bind(session, pod.metadata, next(await places.get()))

        for _ in range(AT_ONCE):
            group.create_task(work())
        await follow(session, f"spec.schedulerName={scheduler},spec.nodeName=", Claimant, see)


async def serve(session: aiohttp.ClientSession, pod: Meta, claim: str, device: Device) -> None:
    """Give a pod's claim a device, and bind the pod where that is."""
    path = f"{RESOURCE}/namespaces/{pod.namespace}/resourceclaims/{claim}"
    finalizer = msgspec.json.encode({"metadata": {"finalizers": [DELETE_PROTECTION]}})
    await allocate(session, pod, await _write(session, "PATCH", path, finalizer, STRATEGIC), device)
    await bind(session, pod, device.node)


async def serve_extended(session: aiohttp.ClientSession, pod: Meta, asks: tuple[str, str, str], device: Device) -> None:
    """Make a claim for an extended resource (container, resource, class), give it a device, and bind its pod."""
    container, resource, device_class = asks
    name, request = f"{pod.name}-extended-resources", "container-0-request-0"
    exactly = {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": 1}
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid, "controller": True}
    meta = {"name": name, "annotations": {EXTENDED_CLAIM: "true"}, "ownerReferences": [owner]}
    body = {
        "metadata": {**meta, "finalizers": [DELETE_PROTECTION]},
        "spec": {"devices": {"requests": [{"name": request, "exactly": exactly}]}},
    }
    path = f"{RESOURCE}/namespaces/{pod.namespace}/resourceclaims"
    await allocate(session, pod, await _write(session, "POST", path, msgspec.json.encode(body), JSON), device)
    mapping = {"containerName": container, "resourceName": resource, "requestName": request}
    told = {"status": {"extendedResourceClaimStatus": {"resourceClaimName": name, "requestMappings": [mapping]}}}
    path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/status"
    await _write(session, "PATCH", path, msgspec.json.encode(told), MERGE)
    await bind(session, pod, device.node)


async def allocate(session: aiohttp.ClientSession, pod: Meta, claim: Any, device: Device) -> None:
    """Write a device into a claim, and that a pod uses it."""
    given = {
        "request": claim["spec"]["devices"]["requests"][0]["name"],
        "driver": device.driver,
        "pool": device.pool,
        "device": device.name,
    }
    where = {"key": "metadata.name", "operator": "In", "values": [device.node]}
    allocation = {
        "devices": {"results": [given]},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [where]}]},
    }
    users = [{"resource": "pods", "name": pod.name, "uid": pod.uid}]
    version = {"resourceVersion": claim["metadata"]["resourceVersion"]}
    status = {"metadata": version, "status": {"allocation": allocation, "reservedFor": users}}
    path = f"{RESOURCE}/namespaces/{pod.namespace}/resourceclaims/{claim['metadata']['name']}/status"
    await _write(session, "PATCH", path, msgspec.json.encode(status), MERGE)


async def bind(session: aiohttp.ClientSession, pod: Meta, node: str) -> None:
    """Bind a pod to a node."""
    await _write(session, "POST", *binding(pod, node), JSON)


async def _write(session: aiohttp.ClientSession, method: str, path: str, body: bytes, headers: dict[str, str]) -> Any:
    async with session.request(method, path, data=body, headers=headers) as answer:
        text = await answer.read()
        if not answer.ok:
            raise RuntimeError(f"{method} {path}: {answer.status} {text[:300]!r}")
        return msgspec.json.decode(text)


def main() -> None:
    """Read the configuration of a kube-scheduler, and bind."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, required=True)
    options, _ = parser.parse_known_args()
    said = yaml.safe_load(options.config.read_text("utf-8"))
    uvloop.run(bind_all(Path(said["clientConnection"]["kubeconfig"]), said["profiles"][0]["schedulerName"]))


if __name__ == "__main__":
    main()
