"""What the engine is told: one record per thing that was seen, heard back or lost.

A tagged union, so that a journal line decodes to exactly the record that was observed.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, TypeAlias, Union

from tutti.api.core import Namespace, Node, Pod, PriorityClass
from tutti.api.frameworks.records import ProjectedOwner
from tutti.api.limits import PodDisruptionBudget, ResourceQuota
from tutti.api.numa import NodeTopology
from tutti.api.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from tutti.cluster.label_index import PodSelecting
from tutti.cluster.storage import StorageKind
from tutti.engine.records.device_observations import DeviceObjectGone, DeviceObjectSeen
from tutti.engine.records.measurements import Measured
from tutti.engine.records.observation import Observation
from tutti.engine.records.provisioning import (
    ProvisioningFollowed,
    ProvisioningGone,
    ProvisioningSeen,
    ProvisioningWritten,
)


class PodSeen(Observation, frozen=True, tag="pod"):
    """A pod of any scheduler was added or changed."""

    pod: Pod


class PodGone(Observation, frozen=True, tag="pod-gone"):
    """A pod does not exist any more; `uid` tells it from a successor of the same name."""

    namespace: str
    name: str
    uid: str = ""


class NodeSeen(Observation, frozen=True, tag="node"):
    """A node was added or changed."""

    node: Node


class NodeGone(Observation, frozen=True, tag="node-gone"):
    """A node does not exist any more."""

    name: str


class PriorityClassSeen(Observation, frozen=True, tag="priority-class"):
    """A PriorityClass was added or changed."""

    priority_class: PriorityClass


class PriorityClassGone(Observation, frozen=True, tag="priority-class-gone"):
    """A PriorityClass does not exist any more."""

    name: str


class NamespaceSeen(Observation, frozen=True, tag="namespace"):
    """A namespace was added or its labels changed."""

    namespace: Namespace


class NamespaceGone(Observation, frozen=True, tag="namespace-gone"):
    """A namespace does not exist any more."""

    name: str


class SelectingSeen(Observation, frozen=True, tag="selecting"):
    """A Service, or an owner of pods, was added or selects otherwise than before."""

    found: PodSelecting


class SelectingGone(Observation, frozen=True, tag="selecting-gone"):
    """A Service or an owner of pods does not exist any more, or selects nothing any more."""

    kind: str
    namespace: str
    name: str


class BudgetSeen(Observation, frozen=True, tag="budget"):
    """A PodDisruptionBudget was added, or allows otherwise than before."""

    budget: PodDisruptionBudget


class BudgetGone(Observation, frozen=True, tag="budget-gone"):
    """A PodDisruptionBudget does not exist any more."""

    namespace: str
    name: str


class AllowanceSeen(Observation, frozen=True, tag="allowance"):
    """A ResourceQuota was added, or has other room than before."""

    quota: ResourceQuota


class AllowanceGone(Observation, frozen=True, tag="allowance-gone"):
    """A ResourceQuota does not exist any more."""

    namespace: str
    name: str


class ThrottleSeen(Observation, frozen=True, tag="throttle"):
    """A Throttle or ClusterThrottle was added or changed."""

    kind: str
    raw: dict[str, Any]


class ThrottleGone(Observation, frozen=True, tag="throttle-gone"):
    """A Throttle or ClusterThrottle does not exist any more."""

    kind: str
    namespace: str
    name: str


class NetworkObjectSeen(Observation, frozen=True, tag="network"):
    """An AppGroup or NetworkTopology was added or changed."""

    kind: str
    raw: dict[str, Any]


class NetworkObjectGone(Observation, frozen=True, tag="network-gone"):
    """An AppGroup or NetworkTopology does not exist any more."""

    kind: str
    namespace: str
    name: str


class OwnerSeen(Observation, frozen=True, tag="owner"):
    """Something that owns pods, or owns what does, was added or changed."""

    found: ProjectedOwner


class OwnerGone(Observation, frozen=True, tag="owner-gone"):
    """Such an object does not exist any more."""

    uid: str


class OwnerKindFollowed(Observation, frozen=True, tag="owner-kind"):
    """Whether the objects of a kind that owns pods are seen from now on: it is served, and may be read."""

    group: str
    kind: str
    followed: bool


class VolumeSeen(Observation, frozen=True, tag="volume"):
    """A PersistentVolume was added or changed."""

    found: PersistentVolume


class ClaimSeen(Observation, frozen=True, tag="claim"):
    """A PersistentVolumeClaim was added or changed."""

    found: PersistentVolumeClaim


class StorageClassSeen(Observation, frozen=True, tag="storage-class"):
    """A StorageClass was added or changed."""

    found: StorageClass


class CSINodeSeen(Observation, frozen=True, tag="csi-node"):
    """A CSINode was added or changed."""

    found: CSINode


class CSIDriverSeen(Observation, frozen=True, tag="csi-driver"):
    """A CSIDriver was added or changed."""

    found: CSIDriver


class CapacitySeen(Observation, frozen=True, tag="storage-capacity"):
    """A CSIStorageCapacity was added or changed."""

    found: CSIStorageCapacity


class AttachmentSeen(Observation, frozen=True, tag="volume-attachment"):
    """A VolumeAttachment was added or changed."""

    found: VolumeAttachment


class StorageGone(Observation, frozen=True, tag="storage-gone"):
    """A storage object does not exist any more (`namespace` is empty for cluster-scoped kinds)."""

    kind: StorageKind
    namespace: str
    name: str


class NodeTopologySeen(Observation, frozen=True, tag="node-topology"):
    """The agent of a node has reported of its NUMA zones, or reports otherwise than before."""

    found: NodeTopology


class NodeTopologyGone(Observation, frozen=True, tag="node-topology-gone"):
    """The report of a node does not exist any more."""

    name: str


class ObjectSeen(Observation, frozen=True, tag="object"):
    """An object of one of our kinds was added or changed.

    `raw` is the object as the server sent it; the engine parses it, so that a malformed one
    becomes an explanation on that object instead of an error in the shell.
    """

    kind: str
    raw: dict[str, Any]


class ObjectGone(Observation, frozen=True, tag="object-gone"):
    """An object of one of our kinds does not exist any more (`namespace` is empty for cluster-scoped kinds)."""

    kind: str
    namespace: str
    name: str


class GangObjectSeen(Observation, frozen=True, tag="gang-object"):
    """An object of another project that says how large a gang is was added or changed; `raw` is as it was sent."""

    api_version: str
    kind: str
    raw: dict[str, Any]


class GangObjectGone(Observation, frozen=True, tag="gang-object-gone"):
    """Such an object does not exist any more."""

    api_version: str
    kind: str
    namespace: str
    name: str


class ObjectUnread(Observation, frozen=True, tag="object-unread"):
    """An object of any kind has changed, and cannot be read as it is now."""

    kind: str
    namespace: str
    name: str
    problem: str


class BindAnswer(enum.StrEnum):
    """What the server made of a bind; the values are the words that metrics and journals know.

    After all but two of them the pod's room may be given back: BOUND, where it is used, and UNKNOWN, where nobody knows
    whether the bind took effect, so that it must stay taken.
    """

    BOUND = "Bound"
    BOUND_ELSEWHERE = "BoundElsewhere"
    GONE = "Gone"
    GATED = "Gated"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


class BindFinished(Observation, frozen=True, tag="bind-finished"):
    """What became of a Bind decision."""

    namespace: str
    name: str
    uid: str
    node: str
    outcome: BindAnswer
    message: str = ""


class ClaimWritten(Observation, frozen=True, tag="claim-written"):
    """What became of a SelectNode or ReserveVolume for a claim.

    Attributes:
        target: The node or the volume that was chosen.
        done: Whether it stands written now, under `version`.
        message: Why it does not.
    """

    namespace: str
    name: str
    uid: str
    target: str
    done: bool
    version: str = ""
    message: str = ""


class DeviceClaimWritten(Observation, frozen=True, tag="device-claim-written"):
    """What became of a WriteDeviceClaim or WriteExtendedClaim.

    Attributes:
        done: Whether it stands written now, under `version`.
        message: Why it does not.
    """

    namespace: str
    name: str
    uid: str
    change: str
    done: bool
    version: str = ""
    message: str = ""


class EvictFinished(Observation, frozen=True, tag="evict-finished"):
    """What became of an Evict decision; `done` is False where it must be asked for again."""

    namespace: str
    name: str
    uid: str
    done: bool
    message: str = ""


class PodAnnotated(Observation, frozen=True, tag="pod-annotated"):
    """What became of an AnnotatePod decision; `done` is False where it must be asked for again."""

    namespace: str
    name: str
    uid: str
    done: bool
    message: str = ""


class Deactivated(Observation, frozen=True, tag="deactivated"):
    """What became of a Deactivate decision: the generation of the object then; 0 where it must be asked for again."""

    namespace: str
    name: str
    uid: str
    generation: int


class OwnerWritten(Observation, frozen=True, tag="owner-written"):
    """What became of a StartOwner or SuspendOwner; `problem` says why it was not done, "" that it was."""

    uid: str
    problem: str = ""


class PodGroupWritten(Observation, frozen=True, tag="pod-group-written"):
    """What became of a CreatePodGroup or DeletePodGroup; `done` is False where it must be asked for again."""

    namespace: str
    name: str
    done: bool


class ChecksReset(Observation, frozen=True, tag="checks-reset"):
    """What became of a ResetChecks; `done` is False where it must be asked for again."""

    kind: str
    namespace: str
    name: str
    round: int
    done: bool


class ExtenderAnswered(Observation, frozen=True, tag="extender-answered"):
    """What became of an AskExtender.

    Attributes:
        ask: Of the decision.
        nodes: After `filter`, the names of those that the pod may go to.
        failed: Why others may not be; those in `unresolvable` also not after others have left them.
        scores: After `prioritize`, 0 to 10 by name.
        error: Why there is no answer, or "".
        gone: Whether there is none because the pod does not exist any more.
    """

    ask: int
    nodes: list[str] = []
    failed: dict[str, str] = {}
    unresolvable: dict[str, str] = {}
    scores: dict[str, int] = {}
    error: str = ""
    gone: bool = False


class Interrupted(Observation, frozen=True, tag="interrupted"):
    """Nothing could be written for a while: the server was away, or this process stood still.

    Attributes:
        seconds: For how long.
        until: When that was over, Unix seconds.
    """

    seconds: float
    until: float


class Synced(Observation, frozen=True, tag="synced"):
    """Everything that exists has been listed once; only from now on may anything be decided."""


StorageSeen = VolumeSeen | ClaimSeen | StorageClassSeen | CSINodeSeen | CSIDriverSeen | CapacitySeen | AttachmentSeen
OfProvisioning = ProvisioningSeen | ProvisioningGone | ProvisioningFollowed | ProvisioningWritten
OfOtherFiles = DeviceObjectSeen | DeviceObjectGone | Measured | OfProvisioning
"""Read here so that they are among the subclasses below: without them no journal that holds one could be read."""

if TYPE_CHECKING:
    AnyObservation: TypeAlias = Observation
else:
    AnyObservation = Union[tuple(Observation.__subclasses__())]  # noqa: UP007 - one that is made of a tuple
"""Whatever the engine can be told: journals are decoded to one of them by its tag."""
