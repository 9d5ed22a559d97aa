"""The floor of upstream's workloads: a program that gives each claim the next device, binds, and decides nothing.

    python -m bench.claim_floor --config FILE

It is started as kube-scheduler is, and takes from its configuration the kubeconfig and the scheduler's name, so that
`bench.upstream --floor` can put it in kube-scheduler's place. Pods without claims are bound to all nodes in turn. A pod
with a claim takes it the writes that kube-scheduler makes for it too, one after the other: the finalizer of its claim,
the claim's status with allocation and user, and the binding. Whoever writes these is no quicker than the server
answers. That claim was made from a template and asks for one device; it gets the devices of nodes in turn, whoever had
one before.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import uvloop
import yaml

from bench.floor import AT_ONCE, JSON, Meta, Named, binding, connected, follow, listed
from tutti.api.devices import DELETE_PROTECTION

STRATEGIC = {"Content-Type": "application/strategic-merge-patch+json"}
MERGE = {"Content-Type": "application/merge-patch+json"}
RESOURCE = "/apis/resource.k8s.io/v1"


class ClaimName(msgspec.Struct, rename="camel"):
    """Which claim was made for a pod."""

    resource_claim_name: str = ""


class Status(msgspec.Struct, rename="camel"):
    """What the claim controller says of a pod."""

    resource_claim_statuses: list[ClaimName] = []


class Spec(msgspec.Struct, rename="camel"):
    """Which claims a pod asks for."""

    resource_claims: list[msgspec.Raw] = []


class Claimant(msgspec.Struct):
    """A pod, maybe with a claim."""

    metadata: Meta
    spec: Spec
    status: Status


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


async def nodes(session: aiohttp.ClientSession) -> list[str]:
    """Return the names of all nodes."""
    items = (await listed(session, "/api/v1/nodes")).items
    return [msgspec.json.decode(one, type=Named).metadata.name for one in items]


async def bind_all(kubeconfig: Path, scheduler: str) -> None:
    """Give devices and bind for ever."""
    waiting: asyncio.Queue[tuple[Meta, str]] = asyncio.Queue()
    known: set[str] = set()

    def see(pod: Claimant) -> None:
        made = [one.resource_claim_name for one in pod.status.resource_claim_statuses if one.resource_claim_name]
        if (made or not pod.spec.resource_claims) and pod.metadata.uid not in known:
            known.add(pod.metadata.uid)
            waiting.put_nowait((pod.metadata, made[0] if made else ""))

    async with connected(kubeconfig) as session, asyncio.TaskGroup() as group:
        free: Iterator[Device] | None = None
        names: Iterator[str] | None = None
        reading = asyncio.Lock()  # the first to come reads them for all

        async def work() -> None:
            nonlocal free, names
            while True:
                pod, claim = await waiting.get()
                async with reading:
                    if claim and free is None:
                        free = itertools.cycle(await devices(session))
                    elif not claim and names is None:
                        names = itertools.cycle(await nodes(session))
                if claim and free is not None:
                    await serve(session, pod, claim, next(free))
                elif names is not None:
                    await bind(session, pod, next(names))

        for _ in range(AT_ONCE):
            group.create_task(work())
        await follow(session, f"spec.schedulerName={scheduler},spec.nodeName=", Claimant, see)


async def serve(session: aiohttp.ClientSession, pod: Meta, claim: str, device: Device) -> None:
    """Give a pod's claim a device, and bind the pod where that is."""
    path = f"{RESOURCE}/namespaces/{pod.namespace}/resourceclaims/{claim}"
    finalizer = msgspec.json.encode({"metadata": {"finalizers": [DELETE_PROTECTION]}})
    found = await _write(session, "PATCH", path, finalizer, STRATEGIC)
    given = {
        "request": found["spec"]["devices"]["requests"][0]["name"],
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
    version = {"resourceVersion": found["metadata"]["resourceVersion"]}
    status = {"metadata": version, "status": {"allocation": allocation, "reservedFor": users}}
    await _write(session, "PATCH", f"{path}/status", msgspec.json.encode(status), MERGE)
    await bind(session, pod, device.node)


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
