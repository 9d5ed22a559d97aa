"""Questions put to an engine of one's own: it is told what was listed, or otherwise, and decides as the operator would.

So an answer cannot differ from what Tutti does, and a "what if" is the same question about a cluster that is told
otherwise: nodes, pods and objects changed, added or left out. Nothing that is decided here is carried out.

With a copy of a pod come the claims of its ephemeral volumes, and their volumes (kube-controller-manager 1.36,
pkg/controller/volume/ephemeral: a claim for each, named after pod and volume; pkg/controller/volume/persistentvolume: a
claim whose class binds at once is given a volume before its pod has a node).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import msgspec

from tutti.api.configuration import TuttiConfiguration
from tutti.api.core import Node, ObjectMeta, Pod, PodStatus
from tutti.api.devices import ResourceClaim, ResourceClaimStatus
from tutti.api.frameworks import ProjectedOwner
from tutti.api.model import GROUP
from tutti.api.numa import ZoneReport
from tutti.api.selectors import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from tutti.api.shards import DEFAULT_SHARD
from tutti.api.storage import (
    BIND_COMPLETED,
    SELECTED_NODE,
    ClaimReference,
    CSISource,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
    StorageClass,
    VolumeNodeAffinity,
    VolumePhase,
)
from tutti.cli.views.listing import Listed
from tutti.cluster.pods import PodKey
from tutti.engine.cycle.engine import Engine
from tutti.engine.lifecycle import LifecycleState
from tutti.engine.records.decisions import AnyDecision
from tutti.engine.records.device_observations import DeviceClaimSeen
from tutti.engine.records.explanation import Explanation
from tutti.engine.records.observations import (
    AnyObservation,
    ClaimSeen,
    NodeSeen,
    NodeTopologySeen,
    ObjectSeen,
    OwnerSeen,
    PodSeen,
    StorageClassSeen,
    Synced,
    VolumeSeen,
)
from tutti.engine.records.plugins import Plugins
from tutti.engine.records.workloads import Phase, Workload, WorkloadKey
from tutti.shards.listing import ownership_of, told_to
from tutti.shards.ownership import Holding, Ownership

FITS = "it fits now, and is not placed yet"
"""Of a workload that waits for nothing and has no nodes."""
_PLACED = (Phase.BINDING, Phase.SCHEDULED, Phase.FINISHED)


_LOOK_UP = 512
"""After so many observations it is looked whether somebody still waits for the answer."""


class Abandoned(Exception):  # noqa: N818 - it says what happened
    """Nobody waits for an answer any more, which was being worked out."""


@dataclass(slots=True)
class Effort:
    """How far an answer is that takes its time: read, and ended, by whoever waits for it in another thread.

    Attributes:
        tried: How many clusters have been decided.
        over: Whether nobody waits for it any more.
    """

    tried: int = 0
    over: bool = False

    def go_on(self) -> None:
        """Raise `Abandoned` where nobody waits any more."""
        if self.over:
            raise Abandoned("it was stopped")


@dataclass
class ObservedCluster:
    """An engine, and what it was told.

    Attributes:
        listed: What it was told.
        at: The time that it is, Unix seconds.
        assumed: Why the operator may decide by another configuration; "" where this is the operator's.
        discreet: Whether those of other namespaces are told of by their uid, as in what the operator writes.
        known: Tells of a workload why it would still wait as things are, None where it would not, where somebody has
            found out; None: it is found out whenever it is asked.
        effort: How far the answer is that it is asked for.
    """

    listed: Listed
    at: float
    configuration: TuttiConfiguration = field(default_factory=TuttiConfiguration)
    plugins: Plugins = field(default_factory=dict)
    assumed: str = ""
    discreet: bool = False
    known: Callable[[WorkloadKey], Explanation | None] | None = None
    effort: Effort = field(default_factory=Effort)

    def of_shard(self, shard: str) -> ObservedCluster:
        """Return the cluster as the engine of a shard is told of it; the same where there are no shards."""
        if not self.configuration.shards:
            return self
        return replace(self, listed=replace(self.listed, seen=told_to(shard, self.configuration, self.listed.seen)))

    def around(self, kind: str, name: str) -> ObservedCluster:
        """Return the cluster as the shard sees it that has a Node, Namespace or ClusterQueue."""
        return self.of_shard(self.shard_of(kind, name)) if self.configuration.shards else self

    def shard_of(self, kind: str, name: str) -> str:
        """Return the shard that has a Node, Namespace or ClusterQueue; "" where there are no shards."""
        if not self.configuration.shards:
            return ""
        return self.ownership.has(Holding(kind, name)) or DEFAULT_SHARD

    @cached_property
    def ownership(self) -> Ownership:
        """Who has what, where there are shards."""
        return ownership_of(self.configuration, self.listed.seen)

    def shards(self) -> list[ObservedCluster]:
        """Return the cluster as each shard sees it: as it is where there are none."""
        if not self.configuration.shards:
            return [self]
        return [self.of_shard(one) for one in (DEFAULT_SHARD, *(shard.name for shard in self.configuration.shards))]

    def stock(self, seen: Iterable[AnyObservation] | None = None) -> Engine:
        """Return an engine that knows what there is and has tried nobody yet; `seen` in place of what was listed.

        Raises:
            Abandoned: Nobody waits for it any more.
        """
        engine = Engine(self.configuration, self.plugins, discreet=self.discreet)
        for number, one in enumerate(self.listed.seen if seen is None else seen):
            engine.observe(one)
            if not number % _LOOK_UP:
                self.effort.go_on()
        engine.observe(Synced())
        engine.decide(self.at, most=0)
        return engine

    def what_if(self, seen: Iterable[AnyObservation], key: WorkloadKey) -> Explanation | None:
        """Return why a workload would still wait if this were what there is; None where it would be placed."""
        if seen is self.listed.seen and self.known is not None:
            return self.known(key)
        engine = self.stock(seen)
        engine.decide(self.at, enough=lambda: self.effort.over)
        self.effort.go_on()
        self.effort.tried += 1
        workload = engine.state.workloads.get(key)
        return None if workload is None or _gets_devices(engine.state, workload) else waits_for(workload)

    def decided(self, seen: Iterable[AnyObservation]) -> tuple[LifecycleState, Sequence[AnyDecision]]:
        """Return what would be known and decided if this were what there is."""
        engine = self.stock(seen)
        return engine.state, engine.decide(self.at)


def waits_for(workload: Workload) -> Explanation | None:
    """Return why a workload has no nodes; None where it has them, or has got them just now.

    What is suspended has them when it is started: they are held for the pods that it makes then.
    """
    if workload.phase in _PLACED and not workload.counts().waiting:
        return None
    if workload.phase is Phase.RESERVED and workload.managed is not None and workload.managed.asked == "start":
        return None
    return workload.explanation


def _gets_devices(state: LifecycleState, workload: Workload) -> bool:
    """Whether a workload has room, and devices that were chosen just now: only that is not written on its claims."""
    if workload.phase is not Phase.RESERVED or not state.device_writes:
        return False
    promises = state.cluster.nodes.devices.promises
    pods = [member.pod for member in workload.members()]
    claims = [use.claim for pod in pods for use in pod.device_uses if use.claim is not None]
    claims += [one.claim for pod in pods for one in promises.of_pod(pod.key)]
    return any(key in state.device_writes and not state.device_writes[key].answered for key in claims)


def missing_members(workload: Workload) -> int:
    """Return how many members a workload has too few of, of groups in which no others are promised."""
    lacks = (
        group.min_count - tally.live - tally.succeeded
        for group, tally in ((group, group.counts()) for group in workload.groups.values())
        if group.promised is None
    )
    return sum(max(0, lack) for lack in lacks)


Seen = Sequence[AnyObservation]
_HOSTNAME = "kubernetes.io/hostname"

changed = msgspec.structs.replace


def without_pods(seen: Seen, gone: Collection[PodKey]) -> Seen:
    """Leave pods out, as if they had ended and were deleted, and their claims had no devices any more."""
    left = [one for one in seen if not (isinstance(one, PodSeen) and key_of(one.pod) in gone)]
    uids = {one.pod.metadata.uid for one in seen if isinstance(one, PodSeen) and key_of(one.pod) in gone}
    return [
        DeviceClaimSeen(without_users(one.found, uids)) if isinstance(one, DeviceClaimSeen) else one for one in left
    ]


def without_users(claim: ResourceClaim, gone: Collection[str]) -> ResourceClaim:
    """Return a claim as the claim controller leaves it where some of its users are gone, by their uids."""
    users = [one for one in claim.status.reserved_for if one.uid not in gone]
    if len(users) == len(claim.status.reserved_for):
        return claim
    return changed(claim, status=changed(claim.status, reserved_for=users) if users else ResourceClaimStatus())


def with_pods(seen: Seen, which: Collection[PodKey], change: Callable[[Pod], Pod]) -> Seen:
    """Change some pods."""
    return [PodSeen(change(one.pod)) if isinstance(one, PodSeen) and key_of(one.pod) in which else one for one in seen]


def with_nodes(seen: Seen, which: Collection[str], change: Callable[[Node], Node]) -> Seen:
    """Change some nodes."""
    return [
        NodeSeen(change(one.node)) if isinstance(one, NodeSeen) and one.node.metadata.name in which else one
        for one in seen
    ]


def cordoned(node: Node) -> Node:
    """Return a node that takes no more pods."""
    return changed(node, spec=changed(node.spec, unschedulable=True))


def with_object(seen: Seen, kind: str, namespace: str, name: str, change: Callable[[dict[str, Any]], None]) -> Seen:
    """Change an object of ours; `change` is given a copy of the document."""
    out: list[AnyObservation] = []
    for one in seen:
        if isinstance(one, ObjectSeen) and one.kind == kind and _meta(one) == (namespace, name):
            raw = copy.deepcopy(one.raw)
            change(raw)
            out.append(ObjectSeen(kind, raw))
        else:
            out.append(one)
    return out


def with_owners(seen: Seen, change: Callable[[ProjectedOwner], ProjectedOwner]) -> Seen:
    """Change what makes pods."""
    return [OwnerSeen(change(one.found)) if isinstance(one, OwnerSeen) else one for one in seen]


def key_of(pod: Pod) -> PodKey:
    """Return the namespace and name of a pod."""
    return pod.metadata.namespace, pod.metadata.name


def node_of(seen: Seen, name: str) -> Node:
    """Return a node that was listed."""
    return next(one.node for one in seen if isinstance(one, NodeSeen) and one.node.metadata.name == name)


def pod_of(seen: Seen, key: PodKey) -> Pod:
    """Return a pod that was listed."""
    return next(one.pod for one in seen if isinstance(one, PodSeen) and key_of(one.pod) == key)


def nodes_like(node: Node, count: int) -> list[NodeSeen]:
    """Return so many more nodes like one, with names of their own and nothing on them."""
    made = []
    for name in _new_names(node, count):
        labels = {**node.metadata.labels, _HOSTNAME: name}
        made.append(NodeSeen(changed(node, metadata=changed(node.metadata, name=name, uid="", labels=labels))))
    return made


def reports_like(seen: Seen, node: Node, count: int) -> list[NodeTopologySeen]:
    """Return what agents would report of so many more nodes like one: zones of which nothing is taken."""
    found = [one.found for one in seen if isinstance(one, NodeTopologySeen) and one.found.name == node.metadata.name]
    return [
        NodeTopologySeen(changed(report, name=name, zones=tuple(map(_emptied, report.zones))))
        for report in found
        for name in _new_names(node, count)
    ]


def _new_names(node: Node, count: int) -> list[str]:
    return [f"{node.metadata.name}+{number + 1}" for number in range(count)]


def _emptied(zone: ZoneReport) -> ZoneReport:
    return changed(zone, available={**zone.available, **zone.allocatable})


def pods_like(pod: Pod, count: int) -> list[PodSeen]:
    """Return so many more pods like one, with names of their own, that wait for a node."""
    meta = pod.metadata
    names = [(f"{meta.name}+{number + 1}", f"{meta.uid}+{number + 1}") for number in range(count)]
    return [PodSeen(changed(pod, metadata=changed(meta, name=name, uid=uid))) for name, uid in names]


def successors(pod: Pod, count: int) -> list[PodSeen]:
    """Return so many that whoever makes pods like one would make in its place: without a node, and not begun."""
    annotations = {name: said for name, said in pod.metadata.annotations.items() if GROUP not in name}
    meta = changed(pod.metadata, annotations=annotations, deletion_timestamp=None)
    return pods_like(changed(pod, metadata=meta, spec=changed(pod.spec, node_name=""), status=PodStatus()), count)


def _meta(one: ObjectSeen) -> tuple[str, str]:
    meta = one.raw.get("metadata") or {}
    return str(meta.get("namespace", "")), str(meta.get("name", ""))


_OF_BINDING = (BIND_COMPLETED, SELECTED_NODE)


def claims_of(seen: Seen, pod: Pod, copy_of_it: Pod) -> list[AnyObservation]:
    """Return the claims that a copy of a pod is given for its ephemeral volumes: like the pod's own, but new.

    A new claim is unbound; where its class makes volumes at once, it comes with one that was made for it.
    """
    old, new = pod.metadata, copy_of_it.metadata
    named = {(old.namespace, f"{old.name}-{one.name}"): one.name for one in pod.spec.volumes if one.ephemeral}
    if not named:
        return []
    made: list[AnyObservation] = []
    for claim in (one.found for one in seen if isinstance(one, ClaimSeen) and one.found.key in named):
        owners = [changed(one, name=new.name, uid=new.uid) for one in claim.metadata.owner_references]
        said = {name: text for name, text in claim.metadata.annotations.items() if name not in _OF_BINDING}
        name = f"{new.name}-{named[claim.key]}"
        meta = changed(claim.metadata, name=name, uid=f"{new.uid}-{name}", annotations=said, owner_references=owners)
        spec = changed(claim.spec, volume_name="")
        unbound = changed(claim, metadata=meta, spec=spec, status=VolumePhase("Pending"))
        made += _bound_at_once(seen, claim, unbound)
    return made


def _bound_at_once(seen: Seen, old: PersistentVolumeClaim, new: PersistentVolumeClaim) -> Iterator[AnyObservation]:
    """Yield a new claim, and before it the volume that is made for it where its class does not wait for a pod."""
    classes = (one.found for one in seen if isinstance(one, StorageClassSeen))
    kind = next((one for one in classes if one.metadata.name == new.storage_class), None)
    if kind is None or kind.waits or not kind.provisions:
        yield ClaimSeen(new)
        return
    volumes = (one.found for one in seen if isinstance(one, VolumeSeen))
    before = next((one for one in volumes if one.metadata.name == old.spec.volume_name), None)
    volume = _made(new, kind, "" if before is None or before.spec.csi is None else before.spec.csi.driver)
    yield VolumeSeen(volume)
    annotations = {**new.metadata.annotations, BIND_COMPLETED: "yes"}
    meta, spec = changed(new.metadata, annotations=annotations), changed(new.spec, volume_name=volume.metadata.name)
    yield ClaimSeen(changed(new, metadata=meta, spec=spec, status=VolumePhase("Bound")))


def _made(claim: PersistentVolumeClaim, kind: StorageClass, driver: str) -> PersistentVolume:
    """Return the volume that is made for a claim: it can be used wherever its class may make volumes."""
    name = f"pvc-{claim.metadata.uid}"
    terms = [
        NodeSelectorTerm([NodeSelectorRequirement(one.key, "In", one.values) for one in term.match_label_expressions])
        for term in kind.allowed_topologies
    ]
    spec = PersistentVolumeSpec(
        capacity={"storage": claim.asks},
        access_modes=claim.spec.access_modes,
        volume_mode=claim.spec.volume_mode,
        storage_class_name=kind.metadata.name,
        claim_ref=ClaimReference(*claim.key, claim.metadata.uid),
        csi=CSISource(driver, name) if driver else None,
        node_affinity=VolumeNodeAffinity(NodeSelector(terms)) if terms else None,
    )
    return PersistentVolume(ObjectMeta(name=name, uid=name), spec, VolumePhase("Bound"))
