"""A whole operator, a process of its own, beside hostile objects on an embedded cluster.

They come over HTTP. What the API server refuses is put into its store all the same, as something that was written before
it knew better, or by another server: the operator sees it, and the cluster's own controllers are not told.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.controller.objects import cluster_queue, local_queue, obj, pod
from tests.controller.process import CRDS, Cluster, Operator, operator, until
from tests.hostile.cases import Case
from tests.hostile.tally import Tally
from tests.hostile.target import NAMESPACE, QUEUE
from tests.hostile.values import written
from tests.hostile.ward import HarmError
from tutti.api import network, numa, provisioning, throttles
from tutti.api.conventions.gang_objects import GANG_KINDS, GangKind
from tutti.api.frameworks import KNOWN_KINDS
from tutti.api.owners import BUILT_IN
from tutti.controller.discovery import OUR_RESOURCES
from tutti.kube.client import Client
from tutti.kube.credentials import Access, Credentials
from tutti.kube.errors import WireError
from tutti.kube.resources import NAMESPACES, PODS
from tutti_sim.cluster import EmbeddedCluster
from tutti_sim.store.store import Exists

HONEST = "honest"


class Siege:
    """The cluster, the operator and how it is with them.

    Attributes:
        taken: How many objects the API server took.
        stored: How many were put into its store past it.
        longest: Seconds until an honest pod had a node, at most.
    """

    def __init__(self, embedded: EmbeddedCluster, cluster: Cluster, running: Operator) -> None:
        self.taken = self.stored = 0
        self.longest = 0.0
        self.running = running
        self._embedded = embedded
        self._cluster = cluster
        self._honest = 0
        self._made: list[tuple[str, str, str]] = []

    async def send(self, cases: Sequence[Case]) -> None:
        """Have objects made."""
        for case in cases:
            found = case.document
            for given in ("uid", "resourceVersion", "creationTimestamp"):
                found["metadata"].pop(given, None)
            resource, namespace, name = (
                case.target.resource,
                found["metadata"].get("namespace", ""),
                found["metadata"]["name"],
            )
            try:
                await self._cluster.client.request("POST", resource.path(namespace), body=written(found))
            except (WireError, ValueError):  # refused, or its namespace stands in no path
                self._smuggle(case)
            else:
                self.taken += 1
                self._made.append((resource.label, namespace, name))

    def _smuggle(self, case: Case) -> None:
        """Put an object into the store as it is, if it is something that a store can hold."""
        try:
            found: dict[str, Any] = json.loads(case.text)
            json.dumps(found, ensure_ascii=False, allow_nan=False).encode()
        except (ValueError, RecursionError):
            return
        store = self._embedded.backend.store
        collection = store.collection(case.target.resource.label)
        try:
            store.create(collection, found)
        except Exists:
            return
        self.stored += 1
        self._made.append(
            (case.target.resource.label, found["metadata"].get("namespace", ""), found["metadata"]["name"])
        )

    async def check(self) -> float:
        """Hold that the operator lives, says so, and places honest pods; return how long that took."""
        if self.running.process.returncode is not None:
            raise HarmError(f"the operator ended: {self.running.lines[-3:]}")
        self._honest += 1
        names = {f"{HONEST}-{self._honest}": "", f"{HONEST}-queued-{self._honest}": HONEST}
        began = time.monotonic()
        for name, queue in names.items():
            labels = {"scheduling.tutti.dev/queue-name": queue} if queue else {}
            document = pod(name, labels=labels)
            document["spec"]["tolerations"] = [{"key": HONEST, "operator": "Exists"}]
            await self._cluster.create(PODS, document)

        async def placed() -> bool:
            found = [await self._cluster.get(PODS, name, "default") for name in names]
            return all(one is not None and one["spec"].get("nodeName") for one in found)

        await until(placed)
        took = time.monotonic() - began
        self.longest = max(self.longest, took)
        for path in ("/healthz", "/readyz"):
            status, text = await self.running.ask(path)
            if status != 200:
                raise HarmError(f"{path}: {status} {text}")
        for name in names:
            await self._cluster.delete(PODS, name, "default", gracePeriodSeconds=0)
        return took

    def set_aside(self) -> list[dict[str, Any]]:
        """The lines of the log that tell of objects that made the engine raise."""
        return self.running.said("set_aside")

    def clear(self) -> None:
        """Take every hostile object away."""
        store = self._embedded.backend.store
        for label, namespace, name in self._made:
            collection = store.collection(label)
            if (found := collection.get(namespace, name)) is not None:
                store.remove(collection, found)
        self._made.clear()


@asynccontextmanager
async def besieged(folder: Path) -> AsyncIterator[Siege]:
    """A cluster with an operator, an honest node and honest queues."""
    # Controllers of the cluster would look at what they were not told of, and are not what is tried here.
    async with EmbeddedCluster(nodes=3, gpus=2, seed=1, controllers=False) as embedded:
        kubeconfig = folder / "kubeconfig"
        embedded.write_kubeconfig(kubeconfig)
        access = Access(embedded.url, headers={"Authorization": f"Bearer {embedded.token}"})
        async with Client(Credentials.fixed(access)) as client:
            cluster = Cluster(client)
            await cluster.install_crds()
            await serve_other_projects(cluster)
            await cluster.create(NAMESPACES, obj("Namespace", NAMESPACE))
            await cluster.create(OUR_RESOURCES["ResourceFlavor"], obj("ResourceFlavor", "f"))
            for name, namespace in ((HONEST, "default"), (QUEUE, NAMESPACE)):
                await cluster.create(OUR_RESOURCES["ClusterQueue"], cluster_queue(name))
                await cluster.create(OUR_RESOURCES["LocalQueue"], local_queue(name, name, namespace))
            signals = {"throttles": {"name": "kube-throttler"}, "network": {"bandwidth": True}}
            async with operator(kubeconfig, folder, **signals) as running:
                await running.says("deciding")
                yield Siege(embedded, cluster, running)
                if await running.stop() != 0:
                    raise HarmError("the operator did not end well")


ZONES_OF_NODES = GangKind(numa.GROUP, numa.KIND, numa.PLURAL, numa.VERSIONS, "")
_THROTTLE = throttles.NAMESPACED_KIND
THROTTLES = GangKind(throttles.GROUP, _THROTTLE, throttles.PLURALS[_THROTTLE], (throttles.VERSION,), "")

NETWORK = tuple(
    GangKind(network.GROUPS[kind], kind, plural, (network.VERSION,), "") for kind, plural in network.PLURALS.items()
)

REQUESTS = GangKind(
    provisioning.AUTOSCALING_GROUP,
    provisioning.REQUEST_KIND,
    provisioning.REQUESTS,
    (provisioning.REQUEST_VERSION,),
    "",
)


async def serve_other_projects(cluster: Cluster) -> None:
    """Have the kinds of other projects served: how large gangs are, owners, NUMA zones, throttles, networks, asked nodes."""
    owners = [one for one in KNOWN_KINDS if one.group not in BUILT_IN]
    for kind in (*GANG_KINDS, *owners, ZONES_OF_NODES, THROTTLES, REQUESTS, *NETWORK):
        schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
        names = {
            "plural": kind.plural,
            "singular": kind.kind.lower(),
            "kind": kind.kind,
            "listKind": f"{kind.kind}List",
        }
        definition = {
            "kind": "CustomResourceDefinition",
            "metadata": {
                "name": f"{kind.plural}.{kind.group}",
                "annotations": {"api-approved.kubernetes.io": "https://example.com"},
            },
            "spec": {
                "group": kind.group,
                "scope": "Cluster" if kind is ZONES_OF_NODES else "Namespaced",
                "names": names,
                "versions": [{"name": kind.versions[0], "served": True, "storage": True, "schema": schema}],
            },
        }
        await cluster.create(CRDS, definition)


async def fuzz(batches: Iterator[list[Case]], seconds: float, tell: Callable[[str], None]) -> Tally:
    """Show objects to a whole operator until the time is over, or it has come to harm."""
    tally, began = Tally(), time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        async with besieged(Path(folder)) as siege:
            for cases in batches:
                if time.monotonic() > began + seconds:
                    break
                await siege.send(cases)
                tally.count(cases)
                try:
                    took = await siege.check()
                except (HarmError, TimeoutError, AssertionError) as error:
                    tally.found["operator"] = f"{type(error).__name__}: {error}"
                    tell("\n".join([tally.found["operator"], *map(str, cases)]))
                    break
                for line in siege.set_aside()[len(tally.found) :]:
                    tally.found[f"{line}"] = str(line)
                    tell(str(line))
                siege.clear()
                tally.slowest = max(tally.slowest, took)
                tell(f"{tally.objects} objects, {siege.taken} taken, {siege.stored} past the API server: {took:.2f} s")
                await asyncio.sleep(0)
    return tally
