"""createResourceDriver, createResourceClaims and allocResourceClaims."""

from __future__ import annotations

import asyncio
import fnmatch
import random
from typing import Any, Final, TypeVar

import msgspec

from tutti.api.core import Node
from tutti.api.devices import DeviceClass, ResourceClaim, ResourceSlice
from tutti.cluster.devices.allocation import allocation_of
from tutti.cluster.devices.asks import DeviceNeeds, DeviceUse
from tutti.cluster.devices.columns import NodeView
from tutti.cluster.devices.state import DeviceState
from tutti.kube.decoding import object_decoder
from tutti.kube.resources import NODES, APIResource
from tutti_bench.objects import Refused
from tutti_bench.opcodes.objects import create_many
from tutti_bench.operations.objects import AllocResourceClaims, CreateResourceClaims, CreateResourceDriver
from tutti_bench.run import Run
from tutti_bench.templates import Object

_GROUP: Final = "resource.k8s.io"
_VERSION: Final = f"{_GROUP}/v1"
_CLAIMS: Final = APIResource(_GROUP, "v1", "resourceclaims")
_CLASSES: Final = APIResource(_GROUP, "v1", "deviceclasses", namespaced=False)
_SLICES: Final = APIResource(_GROUP, "v1", "resourceslices", namespaced=False)

T = TypeVar("T")


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


async def alloc_resource_claims(operation: AllocResourceClaims, run: Run, index: int) -> None:
    """Give each claim of a namespace that has no devices those that it asks for, on a node drawn from those that fit.

    Whoever published these: `createResourceDriver`, or slices of the file's own. Rule: scheduler_perf 1.36
    (allocResourceClaimsOp), which asks kube-scheduler's allocator where we ask ours.

    Raises:
        Refused: No node has what a claim asks for.
    """
    await run.namespaces.ensure(operation.namespace)
    devices, claims = DeviceState(), await _listed(run, _CLAIMS.path(operation.namespace), ResourceClaim)
    for device_class in await _listed(run, _CLASSES.path(), DeviceClass):
        devices.book.put_class(device_class)
    for one in await _listed(run, _SLICES.path(), ResourceSlice):
        devices.catalog.put(one)
    for claim in await _listed(run, f"/apis/{_VERSION}/resourceclaims", ResourceClaim):
        devices.put_claim(claim)
    nodes = await _listed(run, NODES.path(), Node)
    view = NodeView([one.metadata.name for one in nodes], [one.metadata.labels for one in nodes], 1, {})
    chance = random.Random(index)  # noqa: S311 - the same choice in each run is wanted
    async with asyncio.TaskGroup() as group:
        for claim in claims:
            if claim.status.allocation is None:
                allocation = _allocate(claim, devices, view, chance)
                name, change = claim.metadata.name, {"status": {"allocation": allocation}}
                group.create_task(run.objects.patch(_CLAIMS, name, change, operation.namespace, "status"))


def _allocate(claim: ResourceClaim, devices: DeviceState, nodes: NodeView, chance: random.Random) -> Object:
    """Take the devices of a claim, and return its allocation."""
    name = claim.metadata.name
    uses = [DeviceUse(name, claim.key)]
    needs: DeviceNeeds = devices.book.needs(("", ""), "", uses)
    if needs.problem:
        raise Refused(f"allocResourceClaims: claim {name} cannot be allocated: {needs.problem}")
    rows = devices.columns(needs, nodes).fits.nonzero()[0].tolist()
    row = chance.choice(rows) if rows else -1
    if row < 0 or not devices.allot(needs, nodes, row, b""):
        raise Refused(f"allocResourceClaims: no node has the devices for claim {name}")
    taken = devices.promises.take_over(b"", nodes.names[row])
    assert taken is not None  # it was allotted just now
    found = allocation_of(taken[0], claim.spec, devices.book.classes, (claim.metadata.uid,))
    document: Object = msgspec.to_builtins(found)
    return document


async def _listed(run: Run, path: str, kind: type[T]) -> list[T]:
    """Return all objects of a kind."""
    body: dict[str, Any] = msgspec.json.decode(await run.objects.client.request("GET", path))
    decode = object_decoder(kind)
    return [decode(msgspec.json.encode(one)) for one in body.get("items") or []]
