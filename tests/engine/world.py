"""A cluster for engine tests: it tells the engine what exists and carries out what the engine decides.

Nothing here schedules. Binds succeed unless a test says otherwise, and become visible at once unless `hold_binds`.
"""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from typing import Any

import msgspec

from tutti.api.configuration import TuttiConfiguration
from tutti.api.core import (
    Container,
    Namespace,
    Node,
    NodeSpec,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodSpec,
    PodStatus,
    ResourceRequirements,
    SchedulingGate,
)
from tutti.api.labels import LabelSelector  # noqa: F401 - re-exported for tests
from tutti.api.taints import Taint
from tutti.engine.decisions import AnyDecision, Bind, CreatePodGroup, DeletePodGroup, EmitEvent, Evict, PatchStatus
from tutti.engine.engine import Engine
from tutti.engine.observations import (
    AnyObservation,
    BindFinished,
    EvictFinished,
    NamespaceSeen,
    NodeGone,
    NodeSeen,
    ObjectGone,
    ObjectSeen,
    PodGone,
    PodSeen,
    Synced,
)

START = 1_000_000.0
NAMESPACED = {"Workload", "PodGroup", "LocalQueue"}


class World:
    """A cluster and the engine that schedules it."""

    def __init__(self, *, namespaces: tuple[str, ...] = ("default",), synced: bool = True, **configuration: Any) -> None:
        self.engine = Engine(TuttiConfiguration(**configuration))
        self.now = START
        self.pods: dict[tuple[str, str], Pod] = {}
        self.nodes: dict[str, Node] = {}
        self.objects: dict[tuple[str, str, str], dict[str, Any]] = {}
        self.pending_binds: list[Bind] = []
        self.hold_binds = False
        self.log: list[AnyDecision] = []
        self.journal: list[tuple[str, Any]] = []
        self._uids = itertools.count(1)
        for name in namespaces:
            self.tell(NamespaceSeen(Namespace(ObjectMeta(name=name, labels={"kubernetes.io/metadata.name": name}))))
        if synced:
            self.tell(Synced())

    # ---- what exists

    def node(self, name: str, *, gpus: int = 8, cpu: int = 64, labels: dict[str, str] | None = None,
             taints: list[Taint] | None = None, cordoned: bool = False) -> None:  # fmt: skip
        self.nodes[name] = Node(
            ObjectMeta(name=name, labels={"kubernetes.io/hostname": name, **(labels or {})}),
            NodeSpec(cordoned, taints or []),
            NodeStatus({"cpu": str(cpu), "memory": "512Gi", "pods": "110", "nvidia.com/gpu": str(gpus)}),
        )
        self.tell(NodeSeen(self.nodes[name]))

    def remove_node(self, name: str) -> None:
        del self.nodes[name]
        self.tell(NodeGone(name))

    def pod(self, name: str, *, gpus: int | str = 1, cpu: str = "1", namespace: str = "default", group: str = "",
            workload: str = "", queue: str = "", node: str = "", scheduler: str = "tutti", gated: bool = False,
            priority: int = 0, selector: dict[str, str] | None = None, annotations: dict[str, str] | None = None,
            ) -> Pod:  # fmt: skip
        labels = {
            key: value
            for key, value in (
                ("scheduling.tutti.dev/pod-group", group),
                ("scheduling.tutti.dev/workload", workload),
                ("scheduling.tutti.dev/queue-name", queue),
            )
            if value
        }
        requests: dict[str, str | int | float] = {"cpu": cpu, "memory": "1Gi"}
        if gpus:
            requests["nvidia.com/gpu"] = str(gpus)
        pod = Pod(
            ObjectMeta(
                name=name, namespace=namespace, uid=f"uid-{next(self._uids)}", labels=labels,
                annotations=annotations or {}, creation_timestamp=datetime.fromtimestamp(self.now, UTC),
            ),
            PodSpec(
                scheduler_name=scheduler, node_name=node, priority=priority, node_selector=selector or {},
                scheduling_gates=[SchedulingGate("wait")] if gated else [],
                containers=[Container("c", resources=ResourceRequirements(requests))],
            ),
        )  # fmt: skip
        self._put(pod)
        return pod

    def gang(self, name: str, size: int, *, min_count: int | None = None, **pod: Any) -> None:
        """A PodGroup and its pods."""
        self.pod_group(name, min_count or size)
        for rank in range(size):
            self.pod(f"{name}-{rank}", group=name, **pod)

    def pod_group(self, name: str, min_count: int, namespace: str = "default", **spec: Any) -> None:
        self.object("PodGroup", name, {"schedulingPolicy": {"gang": {"minCount": min_count}}, **spec}, namespace)

    def object(self, kind: str, name: str, spec: dict[str, Any], namespace: str = "default",
               labels: dict[str, str] | None = None) -> None:  # fmt: skip
        key = (kind, namespace if kind in NAMESPACED else "", name)
        before = self.objects.get(key)
        meta: dict[str, Any] = {
            "name": name, "uid": before["metadata"]["uid"] if before else f"uid-{next(self._uids)}",
            "generation": before["metadata"]["generation"] + 1 if before else 1, "labels": labels or {},
            "creationTimestamp": datetime.fromtimestamp(self.now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }  # fmt: skip
        if key[1]:
            meta["namespace"] = key[1]
        self.objects[key] = {
            "apiVersion": "scheduling.tutti.dev/v1alpha1", "kind": kind, "metadata": meta, "spec": spec,
            "status": before["status"] if before else {},
        }  # fmt: skip
        self.tell(ObjectSeen(kind, self.objects[key]))

    def remove_object(self, kind: str, name: str, namespace: str = "default") -> None:
        key = (kind, namespace if kind in NAMESPACED else "", name)
        del self.objects[key]
        self.tell(ObjectGone(*key))

    def flavor(self, name: str = "default", **spec: Any) -> None:
        self.object("ResourceFlavor", name, spec)

    def queue(self, name: str, gpus: int | str, *, cohort: str = "", borrow: int | None = None, lend: int | None = None,
              flavors: tuple[str, ...] = ("default",), local: str = "queue", namespace: str = "default",
              **spec: Any) -> None:  # fmt: skip
        """A ClusterQueue with so many GPUs in each flavor (and plenty of the rest), and a LocalQueue to it."""

        def quota(resource: str, nominal: int | str) -> dict[str, Any]:
            out: dict[str, Any] = {"name": resource, "nominalQuota": nominal}
            if resource == "nvidia.com/gpu" and borrow is not None:
                out["borrowingLimit"] = borrow
            if resource == "nvidia.com/gpu" and lend is not None:
                out["lendingLimit"] = lend
            return out

        covered = {"nvidia.com/gpu": gpus, "cpu": 10_000, "memory": "1000Ti"}
        group = {
            "coveredResources": list(covered),
            "flavors": [{"name": f, "resources": [quota(r, n) for r, n in covered.items()]} for f in flavors],
        }
        if cohort:
            spec["cohortName"] = cohort
        spec.setdefault("namespaceSelector", {})
        self.object("ClusterQueue", name, {"resourceGroups": [group], **spec})
        if local:
            self.object("LocalQueue", local, {"clusterQueue": name}, namespace)

    # ---- what happens to pods

    def change(self, name: str, namespace: str = "default", **status: Any) -> None:
        """Change a pod: phase=..., gated=False, deleting=True, ready=True, node=..."""
        pod = self.pods[namespace, name]
        replace = msgspec.structs.replace
        if "phase" in status:
            pod = replace(pod, status=replace(pod.status, phase=status["phase"]))
        if "node" in status:
            pod = replace(pod, spec=replace(pod.spec, node_name=status["node"]))
        if status.get("gated") is False:
            pod = replace(pod, spec=replace(pod.spec, scheduling_gates=[]))
        if status.get("deleting"):
            pod = replace(pod, metadata=replace(pod.metadata, deletion_timestamp=datetime.fromtimestamp(self.now, UTC)))
        self._put(pod)

    def delete(self, name: str, namespace: str = "default") -> None:
        pod = self.pods.pop((namespace, name))
        self.tell(PodGone(namespace, name, pod.metadata.uid))

    def finish(self, *names: str, phase: str = "Succeeded") -> None:
        for name in names:
            self.change(name, phase=phase)

    # ---- the engine

    def tell(self, observation: AnyObservation) -> None:
        # Through the journal's encoding, as a replay would see it.
        self.journal.append(("saw", observation))
        self.engine.observe(observation)

    def decide(self, advance: float = 0.0) -> list[AnyDecision]:
        """Let the engine decide once, and carry it out."""
        self.now += advance
        decisions = self.engine.decide(self.now)
        self.journal.append(("decided", (self.now, decisions)))
        self.log.extend(decisions)
        for decision in decisions:
            self._carry_out(decision)
        return decisions

    def run(self, turns: int = 20) -> list[AnyDecision]:
        """Decide until nothing more comes of it."""
        out: list[AnyDecision] = []
        for _ in range(turns):
            decisions = self.decide()
            out += decisions
            if not decisions:
                return out
        raise AssertionError(f"no rest after {turns} turns; last: {decisions}")

    def until(self, seconds: float) -> list[AnyDecision]:
        """Run on, following the engine's wake-ups, for so many seconds."""
        end, out = self.now + seconds, self.run()
        while (due := self.engine.wakeup()) is not None and due <= end:
            self.now = max(self.now, due)
            out += self.run()
        self.now = end
        return out + self.run()

    def answer(self, bind: Bind, outcome: str = "Bound", message: str = "") -> None:
        """Let a held bind come to an end."""
        self.pending_binds.remove(bind)
        pod = self.pods.get((bind.namespace, bind.name))
        if outcome == "Bound" and pod is not None and pod.metadata.uid == bind.uid:
            spec = msgspec.structs.replace(pod.spec, node_name=bind.node)
            meta = msgspec.structs.replace(pod.metadata, annotations={**pod.metadata.annotations, **bind.annotations})
            self._put(msgspec.structs.replace(pod, spec=spec, metadata=meta))
        elif outcome == "Bound":
            outcome = "Gone"
        self.tell(BindFinished(bind.namespace, bind.name, bind.uid, bind.node, outcome, message))

    # ---- what tests look at

    def where(self, prefix: str = "", namespace: str = "default") -> dict[str, str]:
        """Bound pods and their nodes."""
        return {
            name: pod.spec.node_name
            for (ns, name), pod in sorted(self.pods.items())
            if ns == namespace and name.startswith(prefix) and pod.spec.node_name
        }

    def why(self, kind: str, name: str, namespace: str = "default") -> Any:
        workload = self.engine.state.workloads.get((kind, namespace, name))
        return workload.explanation if workload else None

    def events(self, reason: str = "") -> list[EmitEvent]:
        return [d for d in self.log if isinstance(d, EmitEvent) and (not reason or d.reason == reason)]

    def status(self, kind: str, name: str, namespace: str = "default") -> dict[str, Any]:
        return self.objects[kind, namespace if kind in NAMESPACED else "", name]["status"]

    def condition(self, kind: str, name: str, type_: str, namespace: str = "default") -> dict[str, Any]:
        return next(c for c in self.status(kind, name, namespace).get("conditions", []) if c["type"] == type_)

    def _put(self, pod: Pod) -> None:
        self.pods[pod.metadata.namespace, pod.metadata.name] = pod
        self.tell(PodSeen(pod))

    def _carry_out(self, decision: AnyDecision) -> None:
        if isinstance(decision, Bind):
            self.pending_binds.append(decision)
            if not self.hold_binds:
                self.answer(decision)
        elif isinstance(decision, Evict):
            if (decision.namespace, decision.name) in self.pods:
                self.delete(decision.name, decision.namespace)
            self.tell(EvictFinished(decision.namespace, decision.name, decision.uid, done=True))
        elif isinstance(decision, PatchStatus):
            found = self.objects[decision.kind, decision.namespace, decision.name]
            status = {**found["status"], **decision.status}
            found["status"] = {key: value for key, value in status.items() if value is not None}
            self.tell(ObjectSeen(decision.kind, found))
        elif isinstance(decision, CreatePodGroup):
            self.object("PodGroup", decision.name, decision.spec, decision.namespace, decision.labels)
        elif isinstance(decision, DeletePodGroup):
            self.remove_object("PodGroup", decision.name, decision.namespace)


__all__ = ["START", "PodStatus", "World"]
