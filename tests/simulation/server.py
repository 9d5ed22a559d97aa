"""The simulated cluster's API server, kubelets and controllers, in this process and without sockets.

It is the embedded cluster's own store and handlers. Our kinds are taken into service once; what a run changes is its
own.
"""

from __future__ import annotations

import asyncio
import copy
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import yaml

from tests.simulation.loop import VirtualLoop
from tutti_sim import bootstrap
from tutti_sim.controllers import roster
from tutti_sim.controllers.roster import Timing, Working
from tutti_sim.crd.serving import STORAGE, Establisher
from tutti_sim.hollow.kubelet import Kubelet
from tutti_sim.hollow.nodes import manifest
from tutti_sim.http.server import ApiServer
from tutti_sim.kinds.builtin import resources
from tutti_sim.kinds.resource import Registry
from tutti_sim.rest.admission import CHECKS, PLUGINS
from tutti_sim.rest.backend import Backend
from tutti_sim.rest.local import Local
from tutti_sim.store.store import Store

Json = dict[str, Any]

CONTROLLERS = ("garbage-collector", "pod-garbage", "volume-binder", "resource-claim", "device-taint-eviction")
QUARANTINE_SECONDS = 10.0
STRICT_EVERY = 10
"""One seed of so many is run on a server that checks schemas and keeps managedFields."""
TOKEN = "simulated"
OURS = ("scheduling.tutti.dev", "v1alpha1")
PLURALS = {
    "Workload": "workloads",
    "PodGroup": "podgroups",
    "ClusterQueue": "clusterqueues",
    "LocalQueue": "localqueues",
    "Cohort": "cohorts",
    "ResourceFlavor": "resourceflavors",
    "Topology": "topologies",
    "WorkloadPriorityClass": "workloadpriorityclasses",
    "AdmissionCheck": "admissionchecks",
}


GUESTS = {
    "Throttle": ("schedule.k8s.everpeace.github.com", "v1alpha1", "throttles"),
    "AppGroup": ("appgroup.diktyo.x-k8s.io", "v1alpha1", "appgroups"),
    "NetworkTopology": ("networktopology.diktyo.x-k8s.io", "v1alpha1", "networktopologies"),
}
"""Kinds of other projects, which are served where policies are about them."""

NATIVE_GROUPS = ("scheduling.k8s.io", "v1alpha2", "podgroups")
"""PodGroups of Kubernetes, which are served where gangs are told of by them."""


@dataclass
class HttpRequest:
    """What the server's handlers read of a request."""

    method: str
    path: str
    query: Mapping[str, str]
    body: bytes
    content_type: str
    transport: None = None
    headers: Mapping[str, str] = field(init=False)
    rel_url: SimpleNamespace = field(init=False)

    def __post_init__(self) -> None:
        self.rel_url = SimpleNamespace(raw_path=self.path, raw_query_string="yes" if self.query else "")
        self.headers = {
            "Authorization": f"Bearer {TOKEN}",
            "Accept": "application/json",
            "Content-Type": self.content_type,
            "User-Agent": "tutti/simulated",
        }

    async def read(self) -> bytes:
        return self.body


def _nothing_wrong(obj: Json, old: Json | None) -> list[Any]:
    """What a server finds that does not look."""
    return []


def _guest(kind: str, group: str, version: str, plural: str) -> Json:
    """The definition of a kind of another project, as far as it is needed here."""
    anything = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    one = {"name": version, "served": True, "storage": True, "schema": anything, "subresources": {"status": {}}}
    names = {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [one]},
    }


@lru_cache(maxsize=8)
def _established(*, strict: bool, guests: bool, natives: bool) -> tuple[Registry, list[Json]]:
    """Built-in kinds and ours, and the definitions of ours as they are stored.

    Args:
        strict: Whether objects of ours are held to their schemas and it is noted who manages which fields, as a real
            server does; half of a run's time goes into that.
        guests: Whether kinds of other projects are served as well.
        natives: Whether PodGroups of Kubernetes are.
    """
    registry = Registry(resources())
    backend = Backend(Store(), registry, random.Random(0), admission=list(PLUGINS), checks=list(CHECKS))
    backend.after.append(Establisher(backend).follow)
    definitions = backend.resource("apiextensions.k8s.io", "v1", "customresourcedefinitions")
    folder = Path(__file__).parents[2] / "crds"

    async def install() -> None:
        for path in sorted(folder.glob("scheduling.tutti.dev_*.yaml")):
            await Local(backend, "user").create(definitions, "", yaml.safe_load(path.read_text()))
        served = [*(GUESTS.items() if guests else ()), *([("PodGroup", NATIVE_GROUPS)] if natives else ())]
        for kind, where in served:
            await Local(backend, "user").create(definitions, "", _guest(kind, *where))

    loop = VirtualLoop(random.Random(0))
    loop.run_until_complete(install())
    loop.close()
    for resource in () if strict else registry:
        if resource.custom:
            resource.codec.validate = _nothing_wrong
        resource.strategy.managed = False
    return registry, [one.obj for one in backend.collection(definitions).scan()]


class Server:
    """An API server with what makes pods live: kubelets and the controllers that clean up.

    Attributes:
        history: Forgets what has happened when `forget` is called, as a server does that starts anew.
        strict: Whether it checks schemas.
        serves_guests: Whether it serves kinds of other projects, and nodes are in zones.
        streams_lists: Whether a watch may begin with all that exists; every second seed's server cannot do that.
    """

    def __init__(self, seed: int, *, guests: bool = False, natives: bool = False) -> None:
        self.serves_guests = guests
        self.streams_lists = seed % 2 == 0
        self.strict = seed % STRICT_EVERY == 0
        registry, definitions = _established(strict=self.strict, guests=guests, natives=natives)
        self.backend = Backend(Store(), registry, random.Random(seed), admission=list(PLUGINS), checks=list(CHECKS))
        for resource in registry:
            self.backend.store.open(resource.storage)
        for one in definitions:
            self.backend.store.create(self.backend.store.collection(STORAGE), copy.deepcopy(one))
        self.api = ApiServer(self.backend, token=TOKEN)
        self.user = Local(self.backend, "user")
        self._workers = [
            Kubelet(self.backend),
            *roster.make(self.backend, CONTROLLERS, Timing(quarantine=QUARANTINE_SECONDS)),
        ]
        self.backend.after.extend(one.follow for one in self._workers)
        self._tasks: list[asyncio.Task[None]] = []
        self.pods = self.resource("", "v1", "pods")
        self.nodes = self.resource("", "v1", "nodes")

    def resource(self, group: str, version: str, plural: str) -> Any:
        return self.backend.resource(group, version, plural)

    def ours(self, kind: str) -> Any:
        """The resource of a kind of ours."""
        return self.resource(*OURS, PLURALS[kind])

    def native_group(self, name: str) -> Json | None:
        """A PodGroup of Kubernetes, where they are served."""
        found = self.backend.registry.find(*NATIVE_GROUPS)
        version = None if found is None else self.backend.collection(found).get("default", name)
        return None if version is None else version.obj

    async def start(self) -> None:
        await bootstrap.populate(self.user)
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(one.run()) for one in self._workers if isinstance(one, Working)]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.backend.store.close()

    async def put_node(self, name: str, gpus: int, labels: Mapping[str, str]) -> None:
        """Have a node of this size, unless one of the name is there."""
        if self.backend.find("nodes", "", name) is None:
            capacity = {"cpu": "32", "memory": "64Gi", "pods": "20", "nvidia.com/gpu": str(gpus)}
            await self.user.create(self.nodes, "", manifest(name, capacity, labels))

    def remove_node(self, name: str) -> None:
        found = self.backend.collection(self.nodes).get("", name)
        if found is not None:
            self.user.remove(self.nodes, found)

    async def put(self, kind: str, name: str, spec: Json, *, namespace: str = "default") -> None:
        """Create an object of ours, or change its spec."""
        resource = self.ours(kind)
        namespace = namespace if resource.namespaced else ""
        current = self.backend.collection(resource).get(namespace, name)
        if current is not None:
            meta = {**current.obj["metadata"], "generation": current.obj["metadata"]["generation"] + 1}
            self.user.write(resource, current, {**current.obj, "metadata": meta, "spec": spec})
            return
        meta = {"name": name, **({"namespace": namespace} if namespace else {})}
        body = {"apiVersion": "/".join(OURS), "kind": kind, "metadata": meta, "spec": spec}
        await self.user.create(resource, namespace, body)

    async def put_priority(self, value: int) -> None:
        """Have a class of this priority, named after it."""
        resource, name = self.ours("WorkloadPriorityClass"), f"of-{value}"
        if self.backend.collection(resource).get("", name) is None:
            body = {"apiVersion": "/".join(OURS), "kind": "WorkloadPriorityClass", "metadata": {"name": name}}
            await self.user.create(resource, "", {**body, "value": value})

    def remove(self, kind: str, name: str, *, namespace: str = "default") -> None:
        resource = self.ours(kind)
        found = self.backend.collection(resource).get(namespace if resource.namespaced else "", name)
        if found is not None:
            self.user.remove(resource, found)

    def objects(self, kind: str) -> list[Json]:
        """All objects of a kind of ours."""
        return [one.obj for one in self.backend.collection(self.ours(kind)).scan()]

    def all_pods(self) -> list[Json]:
        return [one.obj for one in self.backend.collection(self.pods).scan()]

    def pod(self, name: str, namespace: str = "default") -> Json | None:
        return self.backend.find("pods", namespace, name)
