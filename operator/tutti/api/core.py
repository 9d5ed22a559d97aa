"""Typed views of Kubernetes core objects, holding only the fields that scheduling reads.

The wire decodes a pod or node straight from JSON bytes into these records; every other field is dropped unparsed.
The same records are written into the journal, so a replay sees exactly what the operator saw.
Field names and meanings: Kubernetes API 1.36, core/v1 and scheduling.k8s.io/v1.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec

from tutti.api.selectors import LabelSelector, NodeSelector, NodeSelectorTerm, Taint, Toleration

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
"""A number as the API server keeps it. Templates of ours are kept as they are written, and have it from here."""


class View(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """Base of all views: immutable, camelCase on the wire, unknown fields dropped.

    Each is a tree, for it is read from JSON: nothing leads back to itself, so the garbage collector need not look at
    it.
    """


class OwnerReference(View, frozen=True):
    """Who owns an object; the controller among the owners tells members of one Job apart from another's."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class ObjectMeta(View, frozen=True):
    """The metadata of any object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: list[str] = []
    owner_references: list[OwnerReference] = []

    @property
    def created(self) -> float:
        """Creation as Unix seconds; 0 where the server has not set it."""
        return self.creation_timestamp.timestamp() if self.creation_timestamp else 0.0


class ObjectName(View, frozen=True):
    """The only metadata that is kept of an object that is known by its name."""

    name: str = ""
    namespace: str = ""


class ResourceRequirements(View, frozen=True):
    """Requests and limits as quantities in text, by resource name."""

    requests: dict[str, str | int | float] = {}
    limits: dict[str, str | int | float] = {}


class ContainerPort(View, frozen=True):
    """A port; only one with a host port constrains placement."""

    container_port: Int32 = 0
    host_port: Int32 = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = "TCP"


class ContainerRestartRule(View, frozen=True):
    """What the kubelet does when a container exits in some way."""

    action: str = ""


class Container(View, frozen=True):
    """A container, init container (`restart_policy` Always: a sidecar)."""

    name: str = ""
    image: str = ""
    restart_policy: str = ""
    restart_policy_rules: list[ContainerRestartRule] = []
    resources: ResourceRequirements = ResourceRequirements()
    ports: list[ContainerPort] = []


class PreferredSchedulingTerm(View, frozen=True):
    """A node selector term with the weight it adds where it matches."""

    weight: Int32 = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(View, frozen=True):
    """Required and preferred node affinity."""

    required: NodeSelector | None = msgspec.field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: list[PreferredSchedulingTerm] = msgspec.field(
        default=[], name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class PodAffinityTerm(View, frozen=True):
    """Which pods, in which namespaces, over which topology.

    What the keys say of a pod's own labels, the API server adds to the selector of the pod; not to that of a template.
    """

    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: list[str] = []
    namespace_selector: LabelSelector | None = None
    match_label_keys: list[str] = []
    mismatch_label_keys: list[str] = []


class WeightedPodAffinityTerm(View, frozen=True):
    """A pod affinity term with the weight it adds."""

    weight: Int32 = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(View, frozen=True):
    """Required and preferred inter-pod affinity, or anti-affinity."""

    required: list[PodAffinityTerm] = msgspec.field(default=[], name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: list[WeightedPodAffinityTerm] = msgspec.field(
        default=[], name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(View, frozen=True):
    """All affinity of a pod."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(View, frozen=True):
    """How evenly pods must, or should, spread over a topology."""

    topology_key: str = ""
    max_skew: Int32 = 1
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: LabelSelector | None = None
    min_domains: Int32 | None = None
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"
    match_label_keys: list[str] = []


class SchedulingGate(View, frozen=True):
    """A gate that keeps the pod out of scheduling until somebody removes it."""

    name: str = ""


class ClaimSource(View, frozen=True):
    """The claim a volume is made of."""

    claim_name: str = ""


class EphemeralSource(View, frozen=True):
    """A volume whose claim is made for the pod; what the claim asks for is read from the claim."""


class GCEDisk(View, frozen=True):
    """A Google disk that the pod names itself."""

    pd_name: str = ""
    read_only: bool = False


class AWSDisk(View, frozen=True):
    """An Amazon disk that the pod names itself."""

    volume_id: str = msgspec.field(default="", name="volumeID")


class ISCSIDisk(View, frozen=True):
    """An iSCSI target that the pod names itself."""

    iqn: str = ""
    read_only: bool = False


class RBDImage(View, frozen=True):
    """A Ceph image that the pod names itself."""

    monitors: list[str] = []
    pool: str = "rbd"
    image: str = ""
    read_only: bool = False


class Volume(View, frozen=True):
    """A volume, as far as it constrains placement."""

    name: str = ""
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: EphemeralSource | None = None
    gce_persistent_disk: GCEDisk | None = None
    aws_elastic_block_store: AWSDisk | None = None
    iscsi: ISCSIDisk | None = None
    rbd: RBDImage | None = None

    @property
    def is_claimed(self) -> bool:
        """Whether it is made from a claim."""
        return self.persistent_volume_claim is not None or self.ephemeral is not None


class SchedulingGroup(View, frozen=True):
    """Membership in a native pod group (Kubernetes 1.36)."""

    pod_group_name: str = ""


class WorkloadReference(View, frozen=True):
    """Membership in a native workload (Kubernetes 1.35)."""

    name: str = ""
    pod_group: str = ""
    pod_group_replica_key: str = ""


class PodResourceClaim(View, frozen=True):
    """A claim on devices that a pod uses: one that is named, or one that is made for it from a template."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSpec(View, frozen=True):
    """What a pod asks for."""

    scheduler_name: str = ""
    node_name: str = ""
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: list[Toleration] = []
    priority: Int32 | None = None
    priority_class_name: str = ""
    preemption_policy: str = ""
    restart_policy: str = ""
    scheduling_gates: list[SchedulingGate] = []
    containers: list[Container] = []
    init_containers: list[Container] = []
    overhead: dict[str, str | int | float] = {}
    resources: ResourceRequirements | None = None
    host_network: bool = False
    host_users: bool | None = None
    topology_spread_constraints: list[TopologySpreadConstraint] = []
    volumes: list[Volume] = []
    resource_claims: list[PodResourceClaim] = []
    scheduling_group: SchedulingGroup | None = None
    workload_ref: WorkloadReference | None = None


class PodCondition(View, frozen=True):
    """A condition of a pod, without its times."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    observed_generation: int = 0


class ContainerStatus(View, frozen=True):
    """What the kubelet has granted a container, which an in-place resize may hold apart from its spec."""

    name: str = ""
    resources: ResourceRequirements | None = None
    allocated_resources: dict[str, str | int | float] = {}


class PodClaimStatus(View, frozen=True):
    """Which claim was made for an entry of a pod's claims; without one the entry needs none."""

    name: str = ""
    resource_claim_name: str | None = None


class ExtendedClaimStatus(View, frozen=True):
    """Which claim was made for what a pod asks for as extended resources."""

    resource_claim_name: str = ""


class PodStatus(View, frozen=True):
    """How a pod is doing."""

    phase: str = "Pending"
    reason: str = ""
    conditions: list[PodCondition] = []
    nominated_node_name: str = ""
    start_time: datetime | None = None
    container_statuses: list[ContainerStatus] = []
    init_container_statuses: list[ContainerStatus] = []
    resources: ResourceRequirements | None = None
    allocated_resources: dict[str, str | int | float] = {}
    resource_claim_statuses: list[PodClaimStatus] = []
    extended_resource_claim_status: ExtendedClaimStatus | None = None


class Pod(View, frozen=True):
    """A pod of any scheduler."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def terminated(self) -> bool:
        """Whether it has succeeded or failed, and so holds no resources any more."""
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def told_to_end(self) -> bool:
        """Whether it would run for ever, and ends because it is being deleted, whatever its containers say of that."""
        return self.metadata.deletion_timestamp is not None and self.spec.restart_policy == "Always"

    @property
    def ready(self) -> bool:
        """Whether its Ready condition is true."""
        return any(c.type == "Ready" and c.status == "True" for c in self.status.conditions)


class ContainerImage(View, frozen=True):
    """An image present on a node."""

    names: list[str] = []
    size_bytes: int = 0


class NodeSpec(View, frozen=True):
    """What an administrator says of a node."""

    unschedulable: bool = False
    taints: list[Taint] = []


class NodeStatus(View, frozen=True):
    """What a node offers."""

    allocatable: dict[str, str | int | float] = {}
    capacity: dict[str, str | int | float] = {}
    images: list[ContainerImage] = []
    conditions: list[PodCondition] = []
    declared_features: list[str] = []


class Node(View, frozen=True):
    """A node."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class Namespace(View, frozen=True):
    """A namespace; its labels decide which queues it may use."""

    metadata: ObjectMeta = ObjectMeta()


class PriorityClass(View, frozen=True):
    """A priority by name."""

    metadata: ObjectMeta = ObjectMeta()
    value: Int32 = 0
    global_default: bool = False
    preemption_policy: str = ""
