"""How much memory one object of each kind takes, as the operator keeps it: python -m bench.kinds.

Objects are read as a list is, by the streams' own readers, and told to the catalogue and an engine that decides; what
Python has allocated meanwhile (tracemalloc) is divided by how many they are. No API server. Pods of ours are single
ones in a queue; a bound one has its node and has been seen there.
"""

from __future__ import annotations

import argparse
import gc
import sys
import tracemalloc
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from tutti.api.configuration import TuttiConfiguration
from tutti.controller.discovery import OUR_RESOURCES
from tutti.controller.leader_session import charged_queues
from tutti.controller.object_cache import ObjectCache
from tutti.controller.watch_list import WATCH_LIST
from tutti.engine.cycle.engine import Engine
from tutti.engine.records.observations import Synced
from tutti.kube.metrics import WireMetrics
from tutti.kube.store import Change, Deletion, ObjectStore

API = "scheduling.tutti.dev/v1alpha1"
NOW = 1_800_000_000.0
_STREAMS = {stream.kind: stream for stream in WATCH_LIST}
_SIZES = {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"}

Raw = dict[str, Any]


class Operator:
    """What the operator keeps of objects: mirrors, the catalogue and the engine."""

    def __init__(self) -> None:
        self.engine = Engine(TuttiConfiguration())
        self.catalogue = ObjectCache(lambda: charged_queues(self.engine.state))
        self._metrics = WireMetrics()
        self._mirrors: dict[str, ObjectStore[Any]] = {}
        self._now = NOW

    def see(self, kind: str, objects: Iterable[Raw]) -> None:
        """Take in a list of a kind."""
        mirror = self._mirrors.get(kind) or self._mirrors.setdefault(kind, self._mirror(kind))
        for one in objects:
            mirror.take_items([msgspec.Raw(msgspec.json.encode(one))])

    def decide(self) -> None:
        """Decide until there is nothing left to try."""
        self.engine.observe(Synced())
        while True:
            self._now += 0.1
            self.engine.decide(self._now, most=32)
            due = self.engine.wakeup()
            if due is None or due > self._now:
                return

    def _mirror(self, kind: str) -> ObjectStore[Any]:
        stream = _STREAMS[kind]

        def deliver(changes: Iterable[Change[Any]]) -> None:
            for change in changes:
                assert not isinstance(change, Deletion)
                self.engine.observe(stream.seen(change.obj))
                if kind in OUR_RESOURCES:
                    self.catalogue.seen(kind, change.obj)

        return ObjectStore(stream.resource, self._metrics, view=stream.view, deliver=deliver, trim=stream.trim)


def meta(name: str, *, namespace: str = "", **more: Any) -> Raw:
    """Return metadata as an API server writes it, with an entry of managedFields as controllers leave it."""
    fields: Raw = {f"f:{number}": {"f:name": {}, "f:value": {}} for number in range(20)}
    found = {
        "name": name,
        "uid": f"00000000-0000-4000-8000-{abs(hash(name)) % 10**12:012d}",
        "resourceVersion": str(abs(hash(name)) % 10**8),
        "generation": 1,
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "managedFields": [{"manager": "kubectl", "operation": "Update", "fieldsV1": fields}],
        **more,
    }
    return {**found, "namespace": namespace} if namespace else found


def node(at: int) -> Raw:
    """Return a node with eight labels."""
    labels = {"kubernetes.io/hostname": f"n{at}", "topology.kubernetes.io/zone": f"z{at % 10}"}
    labels |= {f"example.com/label-{number}": f"v{number}" for number in range(6)}
    offers = {"cpu": "64", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": "8"}
    status = {"allocatable": offers, "capacity": offers, "conditions": [{"type": "Ready", "status": "True"}]}
    return {"metadata": meta(f"n{at}", labels=labels), "spec": {}, "status": status}


def pod(at: int, *, scheduler: str = "tutti", on: str = "", queue: str = "lq", gpus: int = 1) -> Raw:
    """Return a pod as a Job makes it."""
    labels = {"job": f"j{at // 100}", "scheduling.tutti.dev/queue-name": queue} if queue else {"job": f"j{at // 100}"}
    requests = {**_SIZES, "nvidia.com/gpu": str(gpus)}
    container = {"name": "c", "image": "example.com/image:1", "resources": {"requests": requests}}
    spec = {"schedulerName": scheduler, "containers": [container], "restartPolicy": "Never"}
    status = {"phase": "Running" if on else "Pending"}
    named = meta(f"p{scheduler}{at}{on and '-bound'}", namespace="default", labels=labels)
    return {"metadata": named, "spec": {**spec, "nodeName": on} if on else spec, "status": status}


def ours(kind: str, name: str, spec: Raw, *, namespace: str = "") -> Raw:
    """Return an object of ours."""
    return {"apiVersion": API, "kind": kind, "metadata": meta(name, namespace=namespace), "spec": spec}


def queue(name: str) -> Raw:
    """Return a ClusterQueue of one flavor and three resources."""
    quota = [{"name": one, "nominalQuota": "100"} for one in _SIZES]
    groups = [{"coveredResources": list(_SIZES), "flavors": [{"name": "f", "resources": quota}]}]
    return ours("ClusterQueue", name, {"namespaceSelector": {}, "resourceGroups": groups})


def workload(at: int) -> Raw:
    """Return a Workload that waits, with a template."""
    template = {"spec": pod(at)["spec"]}
    groups = [{"name": "main", "count": 4, "template": template}]
    return ours("Workload", f"w{at}", {"queueName": "lq", "podGroups": groups}, namespace="default")


def pod_group(at: int) -> Raw:
    """Return a PodGroup whose pods do not exist yet."""
    spec = {"queueName": "lq", "schedulingPolicy": {"gang": {"minCount": 4}}}
    return ours("PodGroup", f"g{at}", spec, namespace="default")


def other(at: int) -> Raw:
    """Return a pod of another scheduler that runs."""
    return pod(at, scheduler="o", on=f"n{at % 100}", queue="")


def flavor(at: int) -> Raw:
    """Return a ResourceFlavor of one label."""
    return ours("ResourceFlavor", f"f{at}", {"nodeLabels": {"a": "b"}})


CASES: dict[str, tuple[str, Callable[[int], Raw], int]] = {
    "Node": ("Node", lambda at: node(100 + at), 2_000),
    "Pod that waits in a queue": ("Pod", lambda at: pod(at, gpus=9), 5_000),
    "Pod that runs, from a queue": ("Pod", lambda at: pod(at, on=f"n{at % 100}", gpus=0), 5_000),
    "Pod of another scheduler that runs": ("Pod", other, 5_000),
    "Workload that waits, with a template": ("Workload", workload, 2_000),
    "PodGroup without pods": ("PodGroup", pod_group, 2_000),
    "ClusterQueue": ("ClusterQueue", lambda at: queue(f"cq{at}"), 1_000),
    "LocalQueue": (
        "LocalQueue",
        lambda at: ours("LocalQueue", f"lq{at}", {"clusterQueue": "cq"}, namespace="default"),
        1_000,
    ),
    "ResourceFlavor": ("ResourceFlavor", flavor, 1_000),
    "Namespace": ("Namespace", lambda at: {"metadata": meta(f"ns{at}", labels={"team": f"t{at}"})}, 2_000),
}
"""What is measured: the kind, an object of it, and how many."""


def measure(name: str) -> tuple[float, float]:
    """Return the KiB that one object of a case takes, and the KiB of its JSON."""
    kind, make, count = CASES[name]
    operator = Operator()
    operator.see("Namespace", [{"metadata": meta("default")}])
    operator.see("Node", map(node, range(100)))
    operator.see("ResourceFlavor", [ours("ResourceFlavor", "f", {})])
    operator.see("ClusterQueue", [queue("cq")])
    operator.see("LocalQueue", [ours("LocalQueue", "lq", {"clusterQueue": "cq"}, namespace="default")])
    operator.decide()
    gc.collect()
    tracemalloc.start()
    operator.see(kind, map(make, range(count)))
    operator.decide()
    gc.collect()
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return taken / count / 1024, len(msgspec.json.encode(make(0))) / 1024


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="measure only what has this in its name")
    only = parser.parse_args().only
    sys.stdout.write("| kind | KiB each | its JSON, KiB |\n|---|---|---|\n")
    for name in CASES:
        if only in name:
            taken, size = measure(name)
            sys.stdout.write(f"| {name} | {taken:.1f} | {size:.1f} |\n")


if __name__ == "__main__":
    main()
