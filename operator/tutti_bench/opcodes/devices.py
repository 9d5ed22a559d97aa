"""createResourceDriver, createResourceClaims and allocResourceClaims."""

from __future__ import annotations

import asyncio
import fnmatch
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from tutti.kube.resources import NODES, Resource
from tutti_bench.objects import Refused
from tutti_bench.opcodes.objects import create_many
from tutti_bench.operations.objects import AllocResourceClaims, CreateResourceClaims, CreateResourceDriver
from tutti_bench.run import Run

Object = dict[str, Any]

_VERSION: Final = "resource.k8s.io/v1"
_CLAIMS: Final = Resource("resource.k8s.io", "v1", "resourceclaims")


class _Exactly(msgspec.Struct, frozen=True):
    count: int = 1


class _Request(msgspec.Struct, frozen=True):
    name: str
    exactly: _Exactly | None = None


class _Devices(msgspec.Struct, frozen=True):
    requests: list[_Request] = []


class _Spec(msgspec.Struct, frozen=True):
    devices: _Devices = _Devices()


class _Meta(msgspec.Struct, frozen=True):
    name: str


class _Claim(msgspec.Struct, frozen=True):
    metadata: _Meta
    spec: _Spec = _Spec()
    status: dict[str, Any] = {}


class _Claims(msgspec.Struct, frozen=True):
    items: list[_Claim] | None = None


async def create_resource_driver(operation: CreateResourceDriver, run: Run, index: int) -> None:  # noqa: ARG001 - as all opcodes
    """Publish a ResourceSlice for each node whose name matches, with a device for each claim that it may serve.

    Raises:
        Refused: The API server does not take one.
    """
    names = [one.name for one in await run.objects.names(NODES)]
    count = operation.max_claims_per_node or 0
    devices = [f"instance-{i}" for i in range(count)]
    async with asyncio.TaskGroup() as group:
        for name in fnmatch.filter(names, operation.nodes):
            group.create_task(run.objects.create(_slice(operation.driver_name, name, devices)))
            run.devices += [(operation.driver_name, name, device) for device in devices]


def _slice(driver: str, node: str, devices: list[str]) -> Object:
    return {
        "apiVersion": _VERSION,
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-{driver}"},
        "spec": {
            "driver": driver,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": device} for device in devices],
        },
    }


async def create_resource_claims(operation: CreateResourceClaims, run: Run, index: int) -> None:  # noqa: ARG001 - as all opcodes
    """Create ResourceClaims.

    Raises:
        Refused: The API server does not take one.
        TemplateError: The template cannot be filled in.
    """
    await create_many(operation, run)


async def alloc_resource_claims(operation: AllocResourceClaims, run: Run, index: int) -> None:  # noqa: ARG001 - as all opcodes
    """Give each claim of a namespace that has none the next free devices of this workload's drivers.

    What selectors say is not looked at: the devices of a benchmark are all alike.

    Raises:
        Refused: There are not enough devices, or a claim asks in a way that needs an allocator.
    """
    await run.namespaces.ensure(operation.namespace)
    body = await run.objects.client.request("GET", _CLAIMS.path(operation.namespace))
    claims = msgspec.json.decode(body, type=_Claims).items or []
    async with asyncio.TaskGroup() as group:
        for claim in claims:
            if not claim.status.get("allocation"):
                change = {"status": {"allocation": _allocation(claim, run)}}
                work = run.objects.patch(_CLAIMS, claim.metadata.name, change, operation.namespace, "status")
                group.create_task(work)


def _allocation(claim: _Claim, run: Run) -> Object:
    results = list(_results(claim, run))
    nodes = sorted({one["pool"] for one in results})
    if len(nodes) > 1:
        raise Refused(f"allocResourceClaims: the devices for claim {claim.metadata.name} are not on one node")
    field = {"key": "metadata.name", "operator": "In", "values": nodes}
    selector = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return {"devices": {"results": results}, "nodeSelector": selector}


def _results(claim: _Claim, run: Run) -> Iterator[dict[str, str]]:
    for request in claim.spec.devices.requests:
        if request.exactly is None:
            raise Refused(f"allocResourceClaims: claim {claim.metadata.name} asks for more than `exactly`")
        for _ in range(request.exactly.count):
            if not run.devices:
                raise Refused(f"allocResourceClaims: no device is left for claim {claim.metadata.name}")
            driver, node, device = run.devices.pop(0)
            yield {"request": request.name, "driver": driver, "pool": node, "device": device}
