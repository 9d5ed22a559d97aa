"""A cluster whose kubelets align pods to NUMA zones, and whose agents report of them as late as a test likes."""

from __future__ import annotations

from typing import Any

from tests.engine.world import GPU, World
from tests.placement.kubelet import Kubelet
from tutti.api.core import Pod
from tutti.api.numa import RESTRICTED, SINGLE_NUMA_NODE, NodeTopology, ZoneReport
from tutti.cluster.pod_fingerprint import fingerprint

PROFILE = {"schedulerName": "tutti", "nodeResourceTopologyMatch": {}}
GIB = 2**30


class NumaWorld(World):
    """`kubelets` pin what they start; with `fingerprints` reports say which pods they know."""

    def __init__(self, *, fingerprints: bool = True, **more: Any) -> None:
        self.kubelets: dict[str, Kubelet] = {}
        self.fingerprints = fingerprints
        self.refused: list[str] = []
        super().__init__(**{"profiles": [PROFILE], **more})

    def machine(
        self,
        name: str,
        *,
        zones: int = 2,
        cpu: int = 8,
        gpus: int = 4,
        policy: str = SINGLE_NUMA_NODE,
        pod_scope: bool = False,
        report: bool = True,
    ) -> None:
        """A node with so many equal zones, of so many cores and GPUs each."""
        self.node(name, cpu=zones * cpu, gpus=zones * gpus)
        whole = [{"cpu": cpu * 1000, "memory": 512 * GIB // zones, GPU: gpus} for _ in range(zones)]
        self.kubelets[name] = Kubelet(
            [dict(zone) for zone in whole], whole, pod_scope=pod_scope, restricted=policy == RESTRICTED
        )
        if report:
            self.report(name)

    def report(self, *names: str, **more: Any) -> None:
        """The agents of these nodes look at what is pinned, and report."""
        for name in names:
            there = self.kubelets[name]
            zones = [
                ZoneReport(at, dict(left), dict(whole))
                for at, (left, whole) in enumerate(zip(there.zones, there.whole, strict=True))
            ]
            known = fingerprint(("default", pod) for pod in there.pinned) if self.fingerprints else ""
            policy = RESTRICTED if there.restricted else SINGLE_NUMA_NODE
            fields = {"policy": policy, "pod_scope": there.pod_scope, "fingerprint": known, "written": self.now}
            self.topology(NodeTopology(name, **{"zones": tuple(zones), **fields, **more}))

    def admit(self, *names: str) -> None:
        """The kubelets of these pods' nodes start them, in this order, or refuse them as the topology manager does."""
        for name in names:
            pod = self.pods["default", name]
            pod_class = self.engine.state.cluster.classes.of(pod.spec)
            if self.kubelets[pod.spec.node_name].run(name, pod_class):
                self.start(name)
            else:
                self.refused.append(name)
                self.finish(name, phase="Failed")

    def end(self, name: str) -> None:
        """A pod ends; what it had is free from now on, which the agent has yet to see."""
        self.kubelets[self.pods["default", name].spec.node_name].end(name)
        self.finish(name)
        self.delete(name)

    def waiting_for_kubelets(self) -> list[str]:
        """The pods that are bound and not started."""
        return [name for (_, name), pod in sorted(self.pods.items()) if pod.spec.node_name and _is_new(pod)]


def _is_new(pod: Pod) -> bool:
    return pod.status.start_time is None and not pod.terminated
