"""What a World has of the kinds that are not Tutti's: nodes, pods, owners of pods, ResourceQuotas and NUMA reports.

Each method changes what is there as a user, a kubelet or a controller would, and has it seen at once.
"""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from typing import Any

import msgspec

from tutti.api.core import (
    ClaimSource,
    Container,
    Node,
    NodeSpec,
    NodeStatus,
    ObjectMeta,
    ObjectName,
    OwnerReference,
    Pod,
    PodCondition,
    PodResourceClaim,
    PodSpec,
    ResourceRequirements,
    SchedulingGate,
    Volume,
)
from tutti.api.frameworks import ProjectedOwner, projected
from tutti.api.limits import ResourceQuota, ResourceQuotaSpec, ResourceQuotaStatus
from tutti.api.numa import NodeTopology
from tutti.api.selectors import Taint, Toleration
from tutti.engine.records.observations import (
    AllowanceGone,
    AllowanceSeen,
    NodeGone,
    NodeSeen,
    NodeTopologyGone,
    NodeTopologySeen,
    OwnerGone,
    OwnerKindFollowed,
    OwnerSeen,
    PodGone,
    PodSeen,
)

GPU = "nvidia.com/gpu"

replaced = msgspec.structs.replace


class NodesAndPods:
    """The part of a World that has nodes and pods; of the rest it needs `now`, `tell` and the kinds of owners that the engine knows."""

    def __init__(self) -> None:
        super().__init__()
        self.pods: dict[tuple[str, str], Pod] = {}
        self.nodes: dict[str, Node] = {}
        self.allowances: dict[tuple[str, str], ResourceQuota] = {}
        self.owners: dict[str, ProjectedOwner] = {}
        self.followed: list[tuple[str, str]] = []
        self.topologies: dict[str, NodeTopology] = {}
        self._uids = itertools.count(1)

    def node(
        self,
        name: str,
        *,
        gpus: int | str = 8,
        cpu: int | str = 64,
        labels: dict[str, str] | None = None,
        taints: list[Taint] | None = None,
        cordoned: bool = False,
        extra: dict[str, str] | None = None,
    ) -> None:
        self.nodes[name] = Node(
            ObjectMeta(name=name, labels={"kubernetes.io/hostname": name, **(labels or {})}),
            NodeSpec(cordoned, taints or []),
            NodeStatus({"cpu": str(cpu), "memory": "512Gi", "pods": "110", GPU: str(gpus), **(extra or {})}),
        )
        self.tell(NodeSeen(self.nodes[name]))

    def remove_node(self, name: str) -> None:
        del self.nodes[name]
        self.tell(NodeGone(name))

    def topology(self, report: NodeTopology) -> None:
        """The agent of a node reports of its NUMA zones."""
        self.topologies[report.name] = report
        self.tell(NodeTopologySeen(report))

    def remove_topology(self, name: str) -> None:
        del self.topologies[name]
        self.tell(NodeTopologyGone(name))

    def allowance(
        self, name: str, namespace: str = "default", *, used: dict[str, Any] | None = None, **hard: Any
    ) -> None:
        """A ResourceQuota; `_` in the name of a resource stands for what Python takes in no name: `requests_cpu`."""
        said = {key.replace("_", ".", 1): str(value) for key, value in hard.items()}
        had = {key.replace("_", ".", 1): str(value) for key, value in (used or {}).items()}
        quota = ResourceQuota(ObjectName(name, namespace), ResourceQuotaSpec(said), ResourceQuotaStatus(said, had))
        self.allowances[namespace, name] = quota
        self.tell(AllowanceSeen(quota))

    def remove_allowance(self, name: str, namespace: str = "default") -> None:
        del self.allowances[namespace, name]
        self.tell(AllowanceGone(namespace, name))

    def follow_owners(self) -> None:
        """From now on pods wait for owners that are yet to be seen."""
        self.followed = [(kind.group, kind.kind) for kind in self.engine.state.kinds]
        for kind in self.followed:
            self.tell(OwnerKindFollowed(*kind, followed=True))

    def owner(
        self,
        kind: str,
        name: str,
        *,
        controller: OwnerReference | None = None,
        namespace: str = "default",
        labels: dict[str, str] | None = None,
        annotations: dict[str, str] | None = None,
        group: str | None = None,
        seen: bool = True,
        **fields: Any,
    ) -> OwnerReference:
        """An object that owns pods, or owns what does; whoever names it may come before it is `seen`.

        Called again with other `fields` (`spec`, `status`), it changes.
        """
        described = next(one for one in self.engine.state.kinds if one.kind == kind and group in (None, one.group))
        references = [msgspec.to_builtins(controller)] if controller else []
        uid = f"{kind}-{name}"
        meta = {"name": name, "namespace": namespace, "uid": uid, "ownerReferences": references}
        meta |= {"labels": labels or {}, "annotations": annotations or {}}
        raw = {"metadata": meta, **fields}
        self.owners[uid] = projected(raw, described, self.engine.state.kinds.ignored)
        if seen:
            self.tell(OwnerSeen(self.owners[uid]))
        return OwnerReference(f"{described.group}/{described.versions[0]}", kind, name, uid, controller=True)

    def remove_owner(self, ref: OwnerReference) -> None:
        del self.owners[ref.uid]
        self.tell(OwnerGone(ref.uid))

    def pod(
        self,
        name: str,
        *,
        gpus: int | str = 1,
        cpu: str = "1",
        memory: str = "1Gi",
        namespace: str = "default",
        group: str = "",
        workload: str = "",
        queue: str = "",
        node: str = "",
        scheduler: str = "tutti",
        gated: bool = False,
        priority: int = 0,
        preempts: bool = True,
        selector: dict[str, str] | None = None,
        tolerations: list[Toleration] | None = None,
        annotations: dict[str, str] | None = None,
        claims: tuple[str, ...] = (),
        device_claims: tuple[str, ...] = (),
        extended: dict[str, str] | None = None,
        owner: OwnerReference | None = None,
        labels: dict[str, str] | None = None,
        guaranteed: bool = False,
        restart_policy: str = "",
    ) -> Pod:
        named = {"pod-group": group, "workload": workload, "queue-name": queue}
        requests: dict[str, str | int | float] = {"cpu": cpu, "memory": memory, GPU: str(gpus), **(extended or {})}
        asked = {name: amount for name, amount in requests.items() if amount != "0"}
        pod = Pod(
            ObjectMeta(
                name=name,
                namespace=namespace,
                uid=f"uid-{next(self._uids)}",
                labels={f"scheduling.tutti.dev/{key}": value for key, value in named.items() if value} | (labels or {}),
                annotations=annotations or {},
                creation_timestamp=self._timestamp(),
                owner_references=[owner] if owner else [],
            ),
            PodSpec(
                scheduler_name=scheduler,
                node_name=node,
                priority=priority,
                preemption_policy="" if preempts else "Never",
                restart_policy=restart_policy,
                node_selector=selector or {},
                tolerations=tolerations or [],
                volumes=[Volume(name, ClaimSource(name)) for name in claims],
                resource_claims=[PodResourceClaim(f"d{i}", claim) for i, claim in enumerate(device_claims)],
                scheduling_gates=[SchedulingGate("wait")] if gated else [],
                containers=[Container("c", resources=ResourceRequirements(asked, asked if guaranteed else {}))],
            ),
        )
        self.put(pod)
        return pod

    def put(self, pod: Pod) -> None:
        self.pods[pod.metadata.namespace, pod.metadata.name] = pod
        self.tell(PodSeen(pod))

    def start(self, *names: str) -> None:
        """The kubelet starts the pod."""
        for name in names:
            pod = self.pods["default", name]
            self.put(replaced(pod, status=replaced(pod.status, start_time=self._timestamp())))

    def finish(self, *names: str, phase: str = "Succeeded") -> None:
        for name in names:
            pod = self.pods["default", name]
            self.put(replaced(pod, status=replaced(pod.status, phase=phase)))

    def become_ready(self, *names: str) -> None:
        for name in names:
            self._set_condition("default", name, PodCondition("Ready", "True"), phase="Running")

    def become_unready(self, *names: str) -> None:
        for name in names:
            self._set_condition("default", name, PodCondition("Ready", "False"))

    def ungate(self, *names: str) -> None:
        for name in names:
            pod = self.pods["default", name]
            self.put(replaced(pod, spec=replaced(pod.spec, scheduling_gates=[])))

    def begin_deleting(self, *names: str, grace: float = 0.0) -> None:
        """The pod is told to end, in so many seconds; it is there until `delete`."""
        ends = datetime.fromtimestamp(self.now + grace, UTC)
        for name in names:
            pod = self.pods["default", name]
            meta = replaced(pod.metadata, deletion_timestamp=ends, deletion_grace_period_seconds=int(grace))
            self.put(replaced(pod, metadata=meta))

    def keep(self, name: str) -> None:
        """The pod is not told to end after all."""
        pod = self.pods["default", name]
        self.put(replaced(pod, metadata=replaced(pod.metadata, deletion_timestamp=None)))

    def bound_by_another(self, name: str, node: str) -> None:
        pod = self.pods["default", name]
        self.put(replaced(pod, spec=replaced(pod.spec, node_name=node)))

    def delete(self, *names: str, namespace: str = "default") -> None:
        for name in names:
            pod = self.pods.pop((namespace, name))
            self.tell(PodGone(namespace, name, pod.metadata.uid))

    def _set_condition(self, namespace: str, name: str, condition: PodCondition, phase: str = "") -> None:
        pod = self.pods.get((namespace, name))
        if pod is None:
            return
        others = [c for c in pod.status.conditions if c.type != condition.type]
        status = replaced(pod.status, conditions=[*others, condition], phase=phase or pod.status.phase)
        self.put(replaced(pod, status=status))

    def _timestamp(self) -> datetime:
        return datetime.fromtimestamp(self.now, UTC)
