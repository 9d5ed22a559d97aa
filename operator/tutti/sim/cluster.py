"""The embedded cluster: an API server on a port of this machine, hollow nodes, and the controllers it needs."""

from __future__ import annotations

import asyncio
import os
import random
import secrets
import ssl
import tempfile
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec
from aiohttp import web

from tutti.sim import bootstrap
from tutti.sim.certificate import Certificate
from tutti.sim.controllers.disruption import DisruptionController
from tutti.sim.controllers.garbage import GarbageCollector
from tutti.sim.controllers.jobs import JobController
from tutti.sim.controllers.namespaces import NamespaceController
from tutti.sim.crd.establishing import Establisher
from tutti.sim.hollow.kubelet import Kubelet
from tutti.sim.hollow.nodes import Fleet
from tutti.sim.http.server import ApiServer
from tutti.sim.kinds.builtin import resources
from tutti.sim.kinds.registry import Registry
from tutti.sim.rest.admission import PLUGINS
from tutti.sim.rest.backend import Backend
from tutti.sim.rest.local import Local
from tutti.sim.rest.webhooks import WebhookCaller
from tutti.sim.store.store import Store


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
        controllers: whether namespaces, garbage and Jobs are taken care of.
        fleet: the nodes in full, in place of `nodes`, `gpus` and `racks`.
        seed: seed of names and uids.
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
        controllers: bool = True,
        fleet: Fleet | None = None,
        seed: int | None = None,
    ) -> None:
        per_rack = -(-nodes // racks) if racks else 4
        self._fleet = fleet or Fleet(nodes=nodes, gpus=gpus, per_rack=per_rack)
        self._host = host
        self._port = port
        self._certificate = Certificate.make(host) if tls else None
        self._controllers = controllers
        self.token = token or secrets.token_urlsafe(24)
        registry = Registry(resources())
        self.backend = Backend(Store(), registry, random.Random(seed), admission=list(PLUGINS))  # noqa: S311 - names
        self._server = ApiServer(self.backend, token=self.token)
        self._webhooks = WebhookCaller(self.backend)
        self.backend.hooks = self._webhooks
        self._runner: web.ServerRunner | None = None
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def url(self) -> str:
        """Where the API server answers."""
        scheme = "https" if self._certificate else "http"
        return f"{scheme}://{self._host}:{self._port}"

    @property
    def ca(self) -> bytes | None:
        """The certificate to trust, in PEM; None without TLS."""
        return self._certificate.pem if self._certificate else None

    async def __aenter__(self) -> Self:
        for resource in self.backend.registry:
            self.backend.store.open(resource.storage)
        self.backend.after.append(Establisher(self.backend).follow)
        kubelet = Kubelet(self.backend)
        self.backend.after.append(kubelet.follow)
        if self._controllers:
            jobs = JobController(self.backend)
            others = (NamespaceController, GarbageCollector, DisruptionController)
            self.backend.after.extend(make(self.backend).follow for make in others)
            self.backend.after.append(jobs.follow)
            self._tasks.append(asyncio.create_task(jobs.run(), name="job-controller"))
        local = Local(self.backend, "tutti-cluster")
        await bootstrap.populate(local)
        nodes = self.backend.resource("", "v1", "nodes")
        for manifest in self._fleet.manifests():
            await local.create(nodes, "", manifest)
        self._tasks.append(asyncio.create_task(kubelet.run(), name="hollow-kubelet"))
        await self._listen()
        return self

    async def _listen(self) -> None:
        server = web.Server(self._server.handle, access_log=None)
        self._runner = web.ServerRunner(server, shutdown_timeout=1)
        await self._runner.setup()
        context: ssl.SSLContext | None = self._certificate.context() if self._certificate else None
        site = web.TCPSite(self._runner, self._host, self._port, ssl_context=context, backlog=1024)
        await site.start()
        self._port = self._runner.addresses[0][1]
        self._server.address = f"{self._host}:{self._port}"

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.backend.store.close()
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with suppress(asyncio.CancelledError):
                await task
        if self._runner is not None:
            await self._runner.cleanup()
        await self._webhooks.close()

    async def serve(self) -> None:
        """Stay until one of the cluster's own tasks fails, and raise what it failed with."""
        done, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_EXCEPTION)
        for task in done:
            task.result()

    def kubeconfig(self) -> str:
        """A kubeconfig for this cluster; JSON, which is YAML too."""
        cluster: dict[str, str] = {"server": self.url}
        if self._certificate:
            cluster["certificate-authority-data"] = self._certificate.encoded()
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
