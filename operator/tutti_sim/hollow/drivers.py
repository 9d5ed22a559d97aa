"""Hollow drivers: they publish the devices of hollow nodes, taint them, vanish, and make ready what was allocated.

What a driver has published is what stands in its slices: a taint is put there, and so may be put there, or taken off,
by anybody who can write slices. What a driver lacks it publishes again when its nodes change, or when it is told to.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Final

import structlog

from tutti_sim.controllers.worker import Place, Tended, Worker
from tutti_sim.hollow.devices import API, Driver, DriverDeed
from tutti_sim.hollow.nodes import is_hollow
from tutti_sim.hollow.timetable import follow_time
from tutti_sim.kinds.resource import Resource
from tutti_sim.meta import Json, clock
from tutti_sim.rest.backend import Backend
from tutti_sim.rest.local import Local
from tutti_sim.store.collection import Key, Version

log = structlog.get_logger()

_PUBLISH: Final[Place] = ("drivers", ("", ""))


class Drivers:
    """Follows nodes and claims.

    Args:
        drivers: who has devices on which nodes.
    """

    def __init__(self, backend: Backend, drivers: Sequence[Driver]) -> None:
        self._local = Local(backend, "device-driver")
        self._nodes = Tended(backend, "", "v1", "nodes")
        self._slices = Tended(backend, API, "v1", "resourceslices")
        self._claims = Tended(backend, API, "v1", "resourceclaims")
        self._drivers = {one.name: one for one in drivers}
        self._gone: dict[str, set[str]] = {}
        self._due: dict[Key, float] = {}
        self._worker = Worker("device-driver", self._sync)

    def follow(self, resource: Resource, old: Version | None, new: Version | None) -> None:
        """Publish when nodes come and go, and look after claims that got devices that are waited for."""
        if resource.storage == self._nodes.storage and (old is None or new is None):
            self._worker.note(_PUBLISH)
        elif resource.storage == self._claims.storage:
            version = new or old
            if version is not None and self._waited_for(version.obj):
                self._worker.note((self._claims.storage, version.key))

    async def run(self) -> None:
        """Work until cancelled."""
        await self._publish()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._worker.run())
            for driver in self._drivers.values():
                for deed in driver.schedule:
                    tasks.create_task(self._follow_schedule(driver.name, deed))

    async def _follow_schedule(self, driver: str, deed: DriverDeed) -> None:
        async for _ in follow_time(deed.at, deed.every):
            await self.do(driver, deed)

    async def do(self, driver: str, deed: DriverDeed) -> None:
        """Do something to devices of a driver.

        Raises:
            KeyError: There is no such driver.
        """
        log.info("devices_operated", driver=driver, what=deed.do, nodes=deed.nodes, devices=deed.devices)
        gone = self._gone.setdefault(self._drivers[driver].name, set())
        match deed.do:
            case "vanish":
                gone.add(deed.nodes)
                await self._publish()
            case "publish":
                gone.clear()
                await self._publish()
            case _:
                for version in self._published(driver):
                    self._taint(version, deed)

    def _published(self, driver: str) -> list[Version]:
        return [version for version in self._slices.scan() if version.obj["spec"]["driver"] == driver]

    def _taint(self, version: Version, deed: DriverDeed) -> None:
        spec = version.obj["spec"]
        if not fnmatchcase(spec["pool"]["name"], deed.nodes) or deed.taint is None:
            return
        wanted = deed.taint.model_dump(exclude_defaults=True) | {"effect": deed.taint.effect}
        devices = [_tainted(one, wanted, on=deed.do == "taint", names=deed.devices) for one in spec.get("devices", ())]
        if devices != spec.get("devices", []):
            changed = {**version.obj, "metadata": dict(version.obj["metadata"]), "spec": {**spec, "devices": devices}}
            changed["metadata"]["generation"] = changed["metadata"].get("generation", 0) + 1
            self._local.write(self._slices.resource, version, changed)

    async def _sync(self, place: Place) -> None:
        if place == _PUBLISH:
            await self._publish()
        else:
            self._make_ready(place[1])

    async def _publish(self) -> None:
        """Bring what is published in line with the nodes that there are."""
        nodes = {version.key[1]: version.obj for version in self._nodes.scan() if is_hollow(version.obj)}
        for driver in self._drivers.values():
            gone = self._gone.get(driver.name, set())
            wanted = {
                one["metadata"]["name"]: one
                for one in driver.published(sorted(nodes))
                if not any(fnmatchcase(one["spec"]["pool"]["name"], names) for names in gone)
            }
            for version in self._published(driver.name):
                if version.key[1] not in wanted:
                    self._local.remove(self._slices.resource, version)
                else:
                    del wanted[version.key[1]]
            for made in wanted.values():
                await self._local.create(self._slices.resource, "", _owned(made, nodes))

    def _waited_for(self, claim: Json) -> list[Json]:
        """The devices of a claim that one of the drivers has yet to make ready."""
        status = claim.get("status") or {}
        told = {_place(one) for one in status.get("devices", ()) if one.get("conditions")}
        return [
            one
            for one in ((status.get("allocation") or {}).get("devices") or {}).get("results") or ()
            if one.get("bindingConditions") and one["driver"] in self._drivers and _place(one) not in told
        ]

    def _make_ready(self, key: Key) -> None:
        claim = self._claims.get(key)
        waiting = self._waited_for(claim.obj) if claim is not None else []
        if claim is None or not waiting:
            self._due.pop(key, None)
            return
        now = asyncio.get_running_loop().time()
        seconds = max(self._drivers[one["driver"]].ready_seconds for one in waiting)
        left = self._due.setdefault(key, now + seconds) - now
        if left > 0:
            self._worker.later(left, (self._claims.storage, key))
            return
        del self._due[key]
        status = claim.obj["status"]
        self._local.set_status(
            self._claims.resource, claim, {**status, "devices": [*status.get("devices", ()), *map(_ready, waiting)]}
        )


def _owned(made: Json, nodes: dict[str, Json]) -> Json:
    """A slice that goes with its node."""
    node = nodes.get(made["spec"].get("nodeName", ""))
    if node is None:
        return made
    meta = node["metadata"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": meta["name"], "uid": meta["uid"], "controller": True}
    return {**made, "metadata": {**made["metadata"], "ownerReferences": [owner]}}


def _tainted(device: Json, taint: Json, *, on: bool, names: str) -> Json:
    if not fnmatchcase(device["name"], names):
        return device
    mark = (taint["key"], taint["effect"])
    kept = [one for one in device.get("taints", ()) if (one["key"], one["effect"]) != mark]
    if on:
        kept.append({**taint, "timeAdded": clock.now()})
    bare = {key: value for key, value in device.items() if key != "taints"}
    return {**bare, "taints": kept} if kept else bare


def _place(device: Json) -> tuple[str, str, str, str]:
    return device["driver"], device["pool"], device["device"], device.get("shareID") or ""


def _ready(result: Json) -> Json:
    conditions: list[Json] = []
    for kind in result["bindingConditions"]:
        conditions = clock.put_condition(conditions, kind, "True", reason="Ready", message="")
    named: Json = {name: result[name] for name in ("driver", "pool", "device", "shareID") if name in result}
    return {**named, "conditions": conditions}
