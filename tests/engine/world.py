"""A cluster for engine tests: it tells the engine what exists and carries out what the engine decides.

Nothing here schedules. Binds and evictions succeed and are seen at once, unless a test holds them back or names
another outcome. What the engine is told and decides is journalled, so that every test can replay itself.
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, ClassVar

import msgspec

from tests.engine.autoscaler import Autoscaler
from tests.engine.devices import Devices
from tests.engine.storage import Storage
from tutti.api.configuration import TuttiConfiguration
from tutti.api.core import (
    ClaimSource,
    Container,
    Namespace,
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
from tutti.engine.cycle.engine import Engine
from tutti.engine.journal import JournalWriter, Replay, Share, replay
from tutti.engine.records.decisions import (
    AnnotatePod,
    AnyDecision,
    AskExtender,
    Bind,
    CreatePodGroup,
    CreateProvisioning,
    Deactivate,
    DeletePodGroup,
    DeleteProvisioning,
    EmitEvent,
    Evict,
    KeepAdmission,
    NoteFault,
    NotePluginFault,
    PatchStatus,
    ReserveVolume,
    ResetChecks,
    SelectNode,
    SetPodCondition,
    WriteDeviceClaim,
    WriteExtendedClaim,
)
from tutti.engine.records.explanation import Explanation
from tutti.engine.records.members import ADMITTED_CONDITION
from tutti.engine.records.observations import (
    AllowanceGone,
    AllowanceSeen,
    AnyObservation,
    BindAnswer,
    BindFinished,
    ChecksReset,
    Deactivated,
    EvictFinished,
    GangObjectGone,
    GangObjectSeen,
    NamespaceSeen,
    NetworkObjectGone,
    NetworkObjectSeen,
    NodeGone,
    NodeSeen,
    NodeTopologyGone,
    NodeTopologySeen,
    ObjectGone,
    ObjectSeen,
    OwnerGone,
    OwnerKindFollowed,
    OwnerSeen,
    PodAnnotated,
    PodGone,
    PodSeen,
    Synced,
    ThrottleGone,
    ThrottleSeen,
)
from tutti.engine.records.plugins import Plugins, checksums
from tutti.engine.records.provisioning import ProvisioningFollowed

START = 1_000_000.0
NAMESPACED = {"Workload", "PodGroup", "LocalQueue"}
GPU = "nvidia.com/gpu"

replaced = msgspec.structs.replace


def merged(before: Any, patch: Any) -> Any:
    """A merge patch applied as a server does it (RFC 7386)."""
    if not isinstance(patch, dict):
        return patch
    out = dict(before) if isinstance(before, dict) else {}
    for key, value in patch.items():
        if value is None:
            out.pop(key, None)
        else:
            out[key] = merged(out.get(key), value)
    return out


class World:
    """A cluster and the engine that schedules it.

    `hold_binds` keeps binds in `pending_binds` until `answer`; `outcomes` names the next outcomes of a pod's binds;
    `hold_evictions` keeps evicted pods there, being deleted, until `delete`; `refuse_evictions`,
    `refuse_deactivation` and `refuse_resets` have these writes fail; with `may_raise` the engine may set aside what makes it raise. `opened` gives what the journal of each engine is written to.
    """

    opened: ClassVar[Callable[[], io.BytesIO]] = io.BytesIO

    def __init__(
        self,
        *,
        namespaces: tuple[str, ...] = ("default",),
        synced: bool = True,
        plugins: Plugins | None = None,
        **configuration: Any,
    ) -> None:
        self.configuration = TuttiConfiguration(**configuration)
        self.plugins = plugins or {}
        self.asks: list[AskExtender] = []
        self.now = START
        self.namespaces = namespaces
        self.pods: dict[tuple[str, str], Pod] = {}
        self.nodes: dict[str, Node] = {}
        self.allowances: dict[tuple[str, str], ResourceQuota] = {}
        self.objects: dict[tuple[str, str, str], dict[str, Any]] = {}
        self.gang_objects: dict[tuple[str, str, str, str], dict[str, Any]] = {}
        self.network_objects: dict[tuple[str, str, str], dict[str, Any]] = {}
        self.throttles: dict[tuple[str, str, str], dict[str, Any]] = {}
        self.owners: dict[str, ProjectedOwner] = {}
        self.followed: list[tuple[str, str]] = []
        self.topologies: dict[str, NodeTopology] = {}
        self.pending_binds: list[Bind] = []
        self.most: int | None = None  # how many are tried in one turn
        self.share: int | None = None  # at which question a turn is told that its share of time is over
        self.hold_binds = False
        self.hold_evictions = False
        self.refuse_evictions = False
        self.refuse_deactivation = False
        self.refuse_resets = False
        self.refuse_annotations = False
        self.may_raise = False
        self.outcomes: dict[str, list[str]] = {}
        self.log: list[AnyDecision] = []
        self.storage = Storage(self)
        self.devices = Devices(self)
        self.autoscaler = Autoscaler(self)
        self._uids = itertools.count(1)
        self._start(synced=synced)

    def _start(self, *, synced: bool) -> None:
        self.engine = Engine(self.configuration, self.plugins)
        self.journal = type(self).opened()
        self._writer = JournalWriter(self.journal, self.configuration, policies=checksums(self.plugins))
        for name in self.namespaces:
            self.tell(NamespaceSeen(Namespace(ObjectMeta(name=name, labels={"kubernetes.io/metadata.name": name}))))
        for kind in self.followed:
            self.tell(OwnerKindFollowed(*kind, followed=True))
        if self.autoscaler.served:
            self.tell(ProvisioningFollowed(followed=True))
        if synced:
            self.tell(Synced())

    def restart(self, *, backwards: bool = False) -> None:
        """Start a new engine and list everything to it; answers that are still out are lost with the old one."""
        self.pending_binds.clear()
        self._start(synced=False)
        seen = self.listed()
        for observation in reversed(seen) if backwards else seen:
            self.tell(observation)
        self.tell(Synced())

    def listed(self) -> list[AnyObservation]:
        """Everything that there is, as a new engine is told of it."""
        return [
            *(ObjectSeen(key[0], raw) for key, raw in self.objects.items()),
            *(GangObjectSeen(key[0], key[1], raw) for key, raw in self.gang_objects.items()),
            *(NodeSeen(node) for node in self.nodes.values()),
            *(AllowanceSeen(quota) for quota in self.allowances.values()),
            *(NodeTopologySeen(report) for report in self.topologies.values()),
            *(ThrottleSeen(key[0], raw) for key, raw in self.throttles.items()),
            *(NetworkObjectSeen(key[0], raw) for key, raw in self.network_objects.items()),
            *(OwnerSeen(owner) for owner in self.owners.values()),
            *self.storage.all(),
            *self.devices.all(),
            *self.autoscaler.all(),
            *(PodSeen(pod) for pod in self.pods.values()),
        ]

    # What exists.

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

    def allowance(
        self, name: str, namespace: str = "default", *, used: dict[str, Any] | None = None, **hard: Any
    ) -> None:
        """A ResourceQuota; `_` in the name of a resource stands for what Python takes in no name: `requests_cpu`."""
        said = {key.replace("_", ".", 1): str(value) for key, value in hard.items()}
        had = {key.replace("_", ".", 1): str(value) for key, value in (used or {}).items()}
        quota = ResourceQuota(ObjectName(name, namespace), ResourceQuotaSpec(said), ResourceQuotaStatus(said, had))
        self.allowances[namespace, name] = quota
        self.tell(AllowanceSeen(quota))

    def topology(self, report: NodeTopology) -> None:
        """The agent of a node reports of its NUMA zones."""
        self.topologies[report.name] = report
        self.tell(NodeTopologySeen(report))

    def remove_topology(self, name: str) -> None:
        del self.topologies[name]
        self.tell(NodeTopologyGone(name))

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

    def remove_allowance(self, name: str, namespace: str = "default") -> None:
        del self.allowances[namespace, name]
        self.tell(AllowanceGone(namespace, name))

    def remove_node(self, name: str) -> None:
        del self.nodes[name]
        self.tell(NodeGone(name))

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

    def gang(self, name: str, size: int, *, min_count: int | None = None, **pod: Any) -> None:
        """A PodGroup and its pods, `name`-0 and so on."""
        self.pod_group(name, min_count or size, pod.get("namespace", "default"))
        for rank in range(size):
            self.pod(f"{name}-{rank}", group=name, **pod)

    def pod_group(self, name: str, min_count: int, namespace: str = "default", **spec: Any) -> None:
        self.object("PodGroup", name, {"schedulingPolicy": {"gang": {"minCount": min_count}}, **spec}, namespace)

    def workload(self, name: str, *groups: dict[str, Any], **spec: Any) -> None:
        self.object("Workload", name, {"podGroups": list(groups), **spec})

    def flavor(self, name: str = "default", **spec: Any) -> None:
        self.object("ResourceFlavor", name, spec)

    def queue(
        self,
        name: str,
        gpus: int | str,
        *,
        cohort: str = "",
        borrow: int | None = None,
        lend: int | None = None,
        flavors: tuple[str, ...] = ("default",),
        local: str = "queue",
        namespace: str = "default",
        more: dict[str, int | str] | None = None,
        **spec: Any,
    ) -> None:
        """A ClusterQueue with so many GPUs in each flavor (and plenty of the rest), and a LocalQueue to it."""
        limits = {"borrowingLimit": borrow, "lendingLimit": lend}
        gpu_quota = {"name": GPU, "nominalQuota": gpus, **{k: v for k, v in limits.items() if v is not None}}
        quotas = [gpu_quota, {"name": "cpu", "nominalQuota": 10_000}, {"name": "memory", "nominalQuota": "1000Ti"}]
        quotas += [{"name": name, "nominalQuota": amount} for name, amount in (more or {}).items()]
        group = {
            "coveredResources": [quota["name"] for quota in quotas],
            "flavors": [{"name": flavor, "resources": quotas} for flavor in flavors],
        }
        if cohort:
            spec["cohortName"] = cohort
        self.object("ClusterQueue", name, {"namespaceSelector": {}, "resourceGroups": [group], **spec})
        if local:
            self.object("LocalQueue", local, {"clusterQueue": name}, namespace)

    def object(
        self,
        kind: str,
        name: str,
        spec: dict[str, Any],
        namespace: str = "default",
        labels: dict[str, str] | None = None,
        uid: str = "",
    ) -> None:
        """Make an object of ours, or change its spec; without `uid` it has the next number."""
        key = (kind, namespace if kind in NAMESPACED else "", name)
        before = self.objects.get(key)
        meta = {
            "name": name,
            "uid": before["metadata"]["uid"] if before else uid or f"uid-{next(self._uids)}",
            "generation": before["metadata"]["generation"] + 1 if before else 1,
            "labels": labels or {},
            "creationTimestamp": before["metadata"]["creationTimestamp"]
            if before
            else self._timestamp().strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        if key[1]:
            meta["namespace"] = key[1]
        self.objects[key] = {
            "apiVersion": "scheduling.tutti.dev/v1alpha1",
            "kind": kind,
            "metadata": meta,
            "spec": spec,
            "status": before["status"] if before else {},
        }
        self.tell(ObjectSeen(kind, self.objects[key]))

    def gang_object(
        self,
        api_version: str,
        name: str,
        spec: dict[str, Any],
        namespace: str = "default",
        kind: str = "PodGroup",
        owners: Any = (),
    ) -> None:
        """Make an object of another project that says how large a gang is, or change its spec."""
        key = (api_version, kind, namespace, name)
        before = self.gang_objects.get(key)
        meta = {
            "name": name,
            "namespace": namespace,
            "uid": before["metadata"]["uid"] if before else f"uid-{next(self._uids)}",
            "generation": before["metadata"]["generation"] + 1 if before else 1,
        }
        if owners != ():
            meta["ownerReferences"] = msgspec.to_builtins(owners)
        self.gang_objects[key] = {"metadata": meta, "spec": spec, "status": before["status"] if before else {}}
        self.tell(GangObjectSeen(api_version, kind, self.gang_objects[key]))

    def throttle(self, kind: str, raw: dict[str, Any]) -> None:
        """Make a Throttle or ClusterThrottle, or change it."""
        meta = raw["metadata"]
        key = (kind, meta.get("namespace", ""), meta["name"])
        before = self.throttles.get(key)
        self.throttles[key] = {"status": before["status"] if before else {}, **raw}
        self.tell(ThrottleSeen(kind, self.throttles[key]))

    def network_object(self, kind: str, raw: dict[str, Any]) -> None:
        """Make an AppGroup or NetworkTopology, or change it."""
        meta = raw["metadata"]
        self.network_objects[kind, meta.get("namespace", ""), meta["name"]] = raw
        self.tell(NetworkObjectSeen(kind, raw))

    def remove_network_object(self, kind: str, name: str, namespace: str = "default") -> None:
        del self.network_objects[kind, namespace, name]
        self.tell(NetworkObjectGone(kind, namespace, name))

    def remove_throttle(self, kind: str, name: str, namespace: str = "") -> None:
        del self.throttles[kind, namespace, name]
        self.tell(ThrottleGone(kind, namespace, name))

    def throttle_status(self, kind: str, name: str = "t") -> dict[str, Any]:
        return next(one["status"] for key, one in self.throttles.items() if (key[0], key[2]) == (kind, name))

    def remove_gang_object(
        self, api_version: str, name: str, namespace: str = "default", kind: str = "PodGroup"
    ) -> None:
        del self.gang_objects[api_version, kind, namespace, name]
        self.tell(GangObjectGone(api_version, kind, namespace, name))

    def put_object(self, kind: str, raw: dict[str, Any]) -> None:
        """Have an object seen as it is given, whatever it says."""
        meta = raw["metadata"]
        self.objects[kind, meta.get("namespace", ""), meta["name"]] = raw
        self.tell(ObjectSeen(kind, raw))

    def remove_object(self, kind: str, name: str, namespace: str = "default") -> None:
        key = (kind, namespace if kind in NAMESPACED else "", name)
        del self.objects[key]
        self.tell(ObjectGone(*key))

    # What happens to pods.

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

    def begin_deleting(self, *names: str) -> None:
        """The pod is told to end; it is there until `delete`."""
        for name in names:
            pod = self.pods["default", name]
            self.put(replaced(pod, metadata=replaced(pod.metadata, deletion_timestamp=self._timestamp())))

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

    # The engine.

    def tell(self, observation: AnyObservation) -> None:
        self._writer.saw(observation)
        self.engine.observe(observation)

    def decide(self, advance: float = 0.0) -> list[AnyDecision]:
        """Let the engine decide once, and carry it out."""
        self.now += advance
        share = Share(lambda asked: asked == self.share)
        decisions = self.engine.decide(self.now, most=self.most, enough=share)
        self._writer.decided(self.now, decisions, most=self.most, ended=share.ended)
        self.log.extend(decisions)
        self._carry_out_all(decisions)
        return decisions

    def run(self, turns: int = 30) -> list[AnyDecision]:
        """Decide until nothing more comes of it."""
        out: list[AnyDecision] = []
        for _ in range(turns):
            decisions = self.decide()
            out += decisions
            due = self.engine.wakeup()
            if not decisions and (due is None or due > self.now):
                return out
        raise AssertionError(f"no rest after {turns} turns; last: {decisions}, next at {due}, now {self.now}")

    def until(self, seconds: float) -> list[AnyDecision]:
        """Run on, following the engine's wake-ups, for so many seconds."""
        end, out = self.now + seconds, self.run()
        while (due := self.engine.wakeup()) is not None and due <= end:
            self.now = max(self.now, due)
            out += self.run()
        self.now = end
        return out + self.run()

    def answer(self, bind: Bind, outcome: str = "Bound", *, seen: bool = True) -> None:
        """Let a held bind come to an end; without `seen`, the watch has not shown the pod on its node yet."""
        self.pending_binds.remove(bind)
        pod = self.pods.get((bind.namespace, bind.name))
        if outcome == "Bound" and (pod is None or pod.metadata.uid != bind.uid):
            outcome = "Gone"
        if outcome == "Bound":
            self.land(bind, seen=seen)
        said = f"the server said {outcome}"
        self.tell(BindFinished(bind.namespace, bind.name, bind.uid, bind.node, BindAnswer(outcome), said))

    def land(self, bind: Bind, *, seen: bool = True) -> None:
        """The server has taken a bind; the answer is another matter."""
        pod = self.pods[bind.namespace, bind.name]
        assert not pod.spec.node_name, f"{bind.name} is bound twice"
        assert not pod.spec.scheduling_gates, f"{bind.name} is bound while gated"
        assert pod.metadata.deletion_timestamp is None, f"{bind.name} is bound while being deleted"
        spec = replaced(pod.spec, node_name=bind.node, tolerations=[*pod.spec.tolerations, *bind.tolerations])
        labels, annotations = {**pod.metadata.labels, **bind.labels}, {**pod.metadata.annotations, **bind.annotations}
        meta = replaced(pod.metadata, annotations=annotations, labels=labels)
        self.pods[bind.namespace, bind.name] = replaced(pod, spec=spec, metadata=meta)
        if seen:
            self.tell(PodSeen(self.pods[bind.namespace, bind.name]))

    def replay(self) -> Replay:
        """Replay the journal of the engine that runs now."""
        return replay(self.journal.getvalue().splitlines(), lambda _: self.plugins)

    # What tests look at.

    def where(self, prefix: str = "", namespace: str = "default") -> dict[str, str]:
        """Bound pods and their nodes."""
        return {
            name: pod.spec.node_name
            for (ns, name), pod in sorted(self.pods.items())
            if ns == namespace and name.startswith(prefix) and pod.spec.node_name
        }

    def why(self, kind: str, name: str, namespace: str = "default") -> Explanation | None:
        workload = self.engine.state.workloads.get((kind, namespace, name))
        return workload.explanation if workload else None

    def reason(self, kind: str, name: str) -> str:
        why = self.why(kind, name)
        return why.reason if why else ""

    def events(self, reason: str = "", name: str = "") -> list[EmitEvent]:
        return [
            d
            for d in self.log
            if isinstance(d, EmitEvent) and (not reason or d.reason == reason) and (not name or d.name == name)
        ]

    def binds(self) -> list[Bind]:
        return [d for d in self.log if isinstance(d, Bind)]

    def status(self, kind: str, name: str) -> dict[str, Any]:
        status: dict[str, Any] = self.objects[kind, "default" if kind in NAMESPACED else "", name]["status"]
        return status

    def condition(self, kind: str, name: str, type_: str) -> dict[str, Any]:
        found: dict[str, Any] = next(c for c in self.status(kind, name)["conditions"] if c["type"] == type_)
        return found

    def pod_condition(self, name: str) -> PodCondition | None:
        conditions = self.pods["default", name].status.conditions
        return next((c for c in conditions if c.type == "PodScheduled"), None)

    def used(self, queue: str, flavor: str = "default", resource: str = GPU) -> int:
        return self.engine.state.ledger.used(queue).get((flavor, resource), 0)

    # How decisions are carried out.

    def _carry_out_all(self, decisions: list[AnyDecision]) -> None:
        for decision in decisions:
            self._carry_out(decision)

    def _carry_out(self, decision: AnyDecision) -> None:  # noqa: PLR0912 - one per kind
        match decision:
            case Bind():
                self.pending_binds.append(decision)
                outcomes = self.outcomes.get(decision.name)
                if not self.hold_binds:
                    self.answer(decision, outcomes.pop(0) if outcomes else "Bound")
            case SelectNode() | ReserveVolume():
                self.storage.choose(decision)
            case WriteDeviceClaim() | WriteExtendedClaim():
                self.devices.choose(decision)
            case Evict():
                self._evict(decision)
            case Deactivate():
                self._deactivate(decision)
            case SetPodCondition():
                told = decision.reason, decision.message, decision.observed_generation
                condition = PodCondition("PodScheduled", "False", *told)
                self._nominate(decision)
                self._set_condition(decision.namespace, decision.name, condition)
            case KeepAdmission():
                kept = PodCondition(ADMITTED_CONDITION, "True", "Admitted", decision.admission)
                self._set_condition(decision.namespace, decision.name, kept)
            case AnnotatePod():
                self._annotate(decision)
            case PatchStatus():
                self._patch(decision)
            case ResetChecks():
                self._reset_checks(decision)
            case CreateProvisioning() | DeleteProvisioning():
                self.autoscaler.write(decision)
            case CreatePodGroup():
                self.object("PodGroup", decision.name, decision.spec, decision.namespace, decision.labels)
            case DeletePodGroup():
                self.remove_object("PodGroup", decision.name, decision.namespace)
            case AskExtender():
                self.asks.append(decision)
            case NoteFault():
                assert self.may_raise, f"{decision.during} {decision.kind} {decision.name} raised {decision.error}"
            case EmitEvent() | NotePluginFault():
                pass

    def _nominate(self, decision: SetPodCondition) -> None:
        pod = self.pods.get((decision.namespace, decision.name))
        if pod is not None and decision.nominated_node is not None:
            status = replaced(pod.status, nominated_node_name=decision.nominated_node)
            self.pods[decision.namespace, decision.name] = replaced(pod, status=status)

    def _annotate(self, decision: AnnotatePod) -> None:
        pod, where = self.pods.get((decision.namespace, decision.name)), (decision.namespace, decision.name)
        done = not self.refuse_annotations
        if done and pod is not None and pod.metadata.uid == decision.uid:
            annotations = merged(pod.metadata.annotations, decision.annotations)
            self.put(replaced(pod, metadata=replaced(pod.metadata, annotations=annotations)))
        self.tell(PodAnnotated(*where, decision.uid, done=done, message="" if done else "forbidden"))

    def _evict(self, decision: Evict) -> None:
        pod = self.pods.get((decision.namespace, decision.name))
        if not self.refuse_evictions and pod is not None and pod.metadata.uid == decision.uid:
            if self.hold_evictions:
                self.begin_deleting(decision.name)
            else:
                self.delete(decision.name, namespace=decision.namespace)
        done = not self.refuse_evictions
        self.tell(EvictFinished(decision.namespace, decision.name, decision.uid, done=done))

    def _deactivate(self, decision: Deactivate) -> None:
        found = self.objects.get(("Workload", decision.namespace, decision.name))
        generation = 0
        if found is not None and found["metadata"]["uid"] == decision.uid and not self.refuse_deactivation:
            self.object("Workload", decision.name, {**found["spec"], "active": False}, decision.namespace)
            generation = found["metadata"]["generation"] + 1
        self.tell(Deactivated(decision.namespace, decision.name, decision.uid, generation))

    def _patch(self, decision: PatchStatus) -> None:
        throttle = self.throttles.get((decision.kind, decision.namespace, decision.name))
        if throttle is not None and decision.api_version:
            status = merged(throttle["status"], decision.status)
            assert status != throttle["status"], f"{decision.kind} {decision.name} is told what it says already"
            self.throttle(decision.kind, {**throttle, "status": status})
            return
        if decision.api_version:
            key = (decision.api_version, decision.kind, decision.namespace, decision.name)
            thing = self.gang_objects.get(key)
            if thing is not None and thing["metadata"]["uid"] == decision.uid:
                self.gang_objects[key] = {**thing, "status": merged(thing["status"], decision.status)}
                self.tell(GangObjectSeen(decision.api_version, decision.kind, self.gang_objects[key]))
            return
        found = self.objects.get((decision.kind, decision.namespace, decision.name))
        if found is None or found["metadata"]["uid"] != decision.uid:
            return
        status = merged(found["status"], decision.status)
        assert status != found["status"], f"{decision.kind} {decision.name} is told what it says already"
        # A new document each time: the journal and the engine may still hold the old one.
        self.objects[decision.kind, decision.namespace, decision.name] = {**found, "status": status}
        self.tell(ObjectSeen(decision.kind, self.objects[decision.kind, decision.namespace, decision.name]))

    def _reset_checks(self, decision: ResetChecks) -> None:
        key = (decision.kind, decision.namespace, decision.name)
        found = self.objects.get(key)
        if self.refuse_resets or found is None or found["metadata"]["uid"] != decision.uid:
            self.tell(ChecksReset(*key, decision.round, done=False))
            return
        news = {"admissionChecks": decision.checks, "checksRound": decision.round}
        self.objects[key] = {**found, "status": {**found["status"], **news}}
        self.tell(ObjectSeen(decision.kind, self.objects[key]))
        self.tell(ChecksReset(*key, decision.round, done=True))

    def admission_check(self, name: str, *, active: bool = True) -> None:
        """An AdmissionCheck, and whether its controller says that it is active."""
        self.object("AdmissionCheck", name, {"controllerName": "example.com/budget"})
        self.check_active(name, active=active)

    def check_active(self, name: str, *, active: bool) -> None:
        found = self.objects["AdmissionCheck", "", name]
        condition = {
            "type": "Active",
            "status": str(active),
            "reason": "Active",
            "message": "",
            "lastTransitionTime": "",
        }
        self.put_object("AdmissionCheck", {**found, "status": {"conditions": [condition]}})

    def answer_check(self, name: str, state: str, kind: str = "Workload", of: str = "w", **said: Any) -> None:
        """The controller of a check writes its answer into a status, as server-side apply would: by name."""
        found = self.objects[kind, "default", of]
        before = found["status"].get("admissionChecks", [])
        entry = {"name": name, "state": state, "lastTransitionTime": self._timestamp().strftime("%Y-%m-%dT%H:%M:%SZ")}
        known = {one["name"]: one for one in before}
        known[name] = {**known.get(name, {}), **entry, **said}
        self.put_object(kind, {**found, "status": {**found["status"], "admissionChecks": list(known.values())}})

    def _set_condition(self, namespace: str, name: str, condition: PodCondition, phase: str = "") -> None:
        pod = self.pods.get((namespace, name))
        if pod is None:
            return
        others = [c for c in pod.status.conditions if c.type != condition.type]
        status = replaced(pod.status, conditions=[*others, condition], phase=phase or pod.status.phase)
        self.put(replaced(pod, status=status))

    def _timestamp(self) -> datetime:
        return datetime.fromtimestamp(self.now, UTC)
