"""The embedded cluster: an API server on a port of this machine, hollow nodes, and the controllers it needs."""

from __future__ import annotations

import asyncio
import base64
import os
import random
import secrets
import ssl
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from tutti_sim import bootstrap
from tutti_sim.controllers import roster
from tutti_sim.controllers.roster import Controller, Timing, Working
from tutti_sim.crd.serving import Establisher
from tutti_sim.data_folder import DataFolder
from tutti_sim.faults.replica import Replica, StaleServer
from tutti_sim.faults.rules import FaultBook, Faults, Restart
from tutti_sim.faults.shell import Admin, FaultyServer
from tutti_sim.hollow.drivers import Drivers
from tutti_sim.hollow.kubelet import Kubelet
from tutti_sim.hollow.machines import Machines
from tutti_sim.hollow.nodes import Fleet
from tutti_sim.hollow.shapes import Shapes
from tutti_sim.http.server import ApiServer
from tutti_sim.kinds.builtin import resources
from tutti_sim.kinds.resource import Registry
from tutti_sim.listening import Listener, ServingCertificate
from tutti_sim.rest.admission import CHECKS, PLUGINS
from tutti_sim.rest.backend import Backend
from tutti_sim.rest.local import Local
from tutti_sim.rest.webhooks import WebhookCaller
from tutti_sim.store.store import Store


class EmbeddedCluster:
    """A cluster inside this process, to be entered with `async with`.

    Args:
        nodes: how many hollow nodes there are.
        gpus: `nvidia.com/gpu` of each.
        host: address to listen on.
        port: port to listen on; 0 takes a free one.
        tls: whether to serve HTTPS with a certificate made for this run.
        token: the administrator's bearer token; a random one if not given.
        racks: how many racks the nodes are spread over; four nodes make a rack if not given.
        controllers: the names of the controllers that run (`controllers.roster`), or whether all do.
        timing: how long the controllers wait.
        fleet: the nodes in full, in place of `nodes`, `gpus` and `racks`; with shapes, also what becomes of them.
        seed: seed of names and uids.
        faults: what goes wrong from the start.
        stale: whether there is a second listener, whose reads lag behind as the faults say.
        data: a folder that everything is kept in, and continued from.
        pod_groups: whether Kubernetes' own PodGroups (scheduling.k8s.io) are served, which real servers have by a gate.
    """

    def __init__(
        self,
        nodes: int = 20,
        gpus: int = 8,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        tls: bool = False,
        token: str | None = None,
        racks: int | None = None,
        controllers: bool | Sequence[str] = True,
        timing: Timing | None = None,
        fleet: Fleet | Shapes | None = None,
        seed: int | None = None,
        faults: Faults | None = None,
        stale: bool = False,
        data: Path | None = None,
        pod_groups: bool = False,
    ) -> None:
        per_rack = -(-nodes // racks) if racks else 4
        self._fleet = fleet or Fleet(nodes=nodes, gpus=gpus, per_rack=per_rack)
        self._certificate = ServingCertificate.made_for(["localhost", "127.0.0.1", host]) if tls else None
        names = controllers if not isinstance(controllers, bool) else roster.ALL if controllers else ()
        self._controllers = roster.chosen(names)
        self._timing = timing or Timing()
        self._data = DataFolder(data) if data is not None else None
        self.token = token or (self._data and self._data.token) or secrets.token_urlsafe(24)
        if self._data is not None:
            self._data.token = self.token
        registry = Registry(resources())
        self.backend = Backend(Store(), registry, random.Random(seed), admission=list(PLUGINS), checks=list(CHECKS))  # noqa: S311 - names
        self._server = ApiServer(self.backend, token=self.token)
        self._webhooks = WebhookCaller(self.backend)
        self.backend.hooks = self._webhooks
        context: ssl.SSLContext | None = self._certificate.context() if self._certificate else None
        self._pod_groups = pod_groups
        self._faults = faults or Faults()
        self._replica = Replica(self.backend.store) if stale else None
        self._book = FaultBook(self._restart_soon, self._replica.set_lag if self._replica else lambda _: None)
        faulty = FaultyServer(self._server, self._book, Admin(self._book, self._restart_soon, self.token))
        self._listener = Listener(faulty.handle, host=host, port=port, context=context)
        self._stale: Listener | None = None
        if self._replica is not None:
            late = StaleServer(self._server, self._replica, self.backend, token=self.token)
            self._stale = Listener(late.handle, host=host, port=0, context=context)
        self._restarting: asyncio.Task[None] | None = None
        self._writing: asyncio.Task[None] | None = None
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def url(self) -> str:
        """Where the API server answers."""
        return self._listener.url

    @property
    def stale_url(self) -> str:
        """Where reads lag behind; empty where there is no such listener."""
        return self._stale.url if self._stale else ""

    @property
    def ca(self) -> bytes | None:
        """The certificate to trust, in PEM; None without TLS."""
        return self._certificate.pem if self._certificate else None

    async def __aenter__(self) -> Self:
        for resource in self.backend.registry:
            self.backend.store.open(resource.storage)
            if self._replica is not None:
                self._replica.store.open(resource.storage)
        shaped = self._fleet if isinstance(self._fleet, Shapes) else None
        workers: list[Controller] = [
            Establisher(self.backend),
            Kubelet(self.backend, shaped.fates if shaped else None),
            *roster.make(self.backend, self._controllers, self._timing),
        ]
        if shaped is not None and shaped.schedule:
            workers.append(Machines(self.backend, shaped.schedule, shaped.seed))
        if shaped is not None and shaped.drivers:
            workers.append(Drivers(self.backend, shaped.drivers))
        self.backend.after.extend(one.follow for one in workers)
        if self._data is not None:
            self._writing = self._data.resume(self.backend)
        await self._populate()
        for one in workers:
            if isinstance(one, Working):
                self._tasks.append(asyncio.create_task(one.run(), name=type(one).__name__))
        await self._listener.open()
        self._server.address = f"{self._listener.host}:{self._listener.port}"
        if self._stale is not None:
            await self._stale.open()
        self._book.put(self._faults)
        return self

    async def restart(self, down_seconds: float = 0.0) -> None:
        """Break all connections, be gone for a while, and come back on the same port without any history."""
        self._listener.cut()
        self.backend.store.forget()
        await self._listener.shut()
        await asyncio.sleep(down_seconds)
        await self._listener.open()

    def _restart_soon(self, wanted: Restart) -> None:
        """Restart, unless the server is restarting already."""
        if self._restarting is None or self._restarting.done():
            self._restarting = asyncio.create_task(self.restart(wanted.down_seconds), name="restart")

    async def _populate(self) -> None:
        local = Local(self.backend, "tutti-cluster")
        await bootstrap.populate(local)
        if self._pod_groups:
            await bootstrap.add_pod_groups(local)
        await bootstrap.add_nodes(local, self._fleet.manifests())
        if isinstance(self._fleet, Shapes):
            await bootstrap.add_device_classes(local, [one for made in self._fleet.drivers for one in made.classes()])

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._book.close()
        self.backend.store.close()
        tasks = [*self._tasks, *([self._restarting] if self._restarting else [])]
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task
        if self._replica is not None:
            self._replica.close()
        for listener in filter(None, (self._listener, self._stale)):
            await listener.shut()
        await self._webhooks.close()
        if self._data is not None:
            await self._data.close()

    async def serve(self) -> None:
        """Stay until one of the cluster's own tasks fails, and raise what it failed with."""
        tasks = [*self._tasks, *([self._writing] if self._writing else [])]
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        for task in done:
            task.result()

    def kubeconfig(self) -> str:
        """A kubeconfig for this cluster; JSON, which is YAML too."""
        cluster: dict[str, str] = {"server": self.url}
        if self._certificate:
            cluster["certificate-authority-data"] = base64.b64encode(self._certificate.pem).decode()
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "tutti",
            "clusters": [{"name": "tutti", "cluster": cluster}],
            "users": [{"name": "tutti-admin", "user": {"token": self.token}}],
            "contexts": [{"name": "tutti", "context": {"cluster": "tutti", "user": "tutti-admin"}}],
        }
        return msgspec.json.format(msgspec.json.encode(config), indent=2).decode() + "\n"

    def write_kubeconfig(self, path: str | os.PathLike[str]) -> None:
        """Write the kubeconfig in one step, readable by its owner only: who sees the file can use it."""
        target = Path(path)
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=target.name)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(self.kubeconfig())
        Path(name).replace(target)
