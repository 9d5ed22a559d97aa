"""Typed views of storage objects, holding only the fields that scheduling reads.

Field names and meanings: Kubernetes API 1.36, core/v1 and storage.k8s.io/v1.
"""

from __future__ import annotations

from tutti.api import quantity
from tutti.api.core import Int32, ObjectMeta, ResourceRequirements, View
from tutti.api.resources import from_milli
from tutti.api.selectors import LabelSelector, NodeSelector

SELECTED_NODE = "volume.kubernetes.io/selected-node"
"""On a claim: the node that a scheduler has chosen for its pod; a provisioner takes it off where it cannot serve it."""

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
"""On a claim: both halves of the binding to its volume are written."""

BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
"""On a volume: it was not its maker who said which claim it is for."""

NO_PROVISIONER = "kubernetes.io/no-provisioner"
READ_WRITE_ONCE_POD = "ReadWriteOncePod"
WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"

_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
_STORAGE = "storage"


class VolumeNodeAffinity(View, frozen=True):
    """From which nodes a volume can be used."""

    required: NodeSelector | None = None


class ClaimReference(View, frozen=True):
    """The claim that a volume is for; without a uid it is only reserved by name."""

    namespace: str = ""
    name: str = ""
    uid: str = ""


class CSISource(View, frozen=True):
    """A volume of a CSI driver."""

    driver: str = ""
    volume_handle: str = ""


class PersistentVolumeSpec(View, frozen=True):
    """What a volume is."""

    capacity: dict[str, str | int | float] = {}
    access_modes: list[str] = []
    volume_mode: str = "Filesystem"
    storage_class_name: str = ""
    volume_attributes_class_name: str = ""
    claim_ref: ClaimReference | None = None
    csi: CSISource | None = None
    node_affinity: VolumeNodeAffinity | None = None


class VolumePhase(View, frozen=True):
    """The phase of a volume or claim."""

    phase: str = ""


class PersistentVolume(View, frozen=True):
    """A volume."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: VolumePhase = VolumePhase()

    @property
    def storage_class(self) -> str:
        """The name of its class, or ""."""
        return self.metadata.annotations.get(_CLASS_ANNOTATION, self.spec.storage_class_name)

    @property
    def size(self) -> int:
        """Bytes; 0 where the capacity cannot be read, so that no claim is bound to it."""
        return _bytes(self.spec.capacity.get(_STORAGE, 0)) or 0


class PersistentVolumeClaimSpec(View, frozen=True):
    """What a claim asks for."""

    access_modes: list[str] = []
    selector: LabelSelector | None = None
    resources: ResourceRequirements = ResourceRequirements()
    volume_name: str = ""
    storage_class_name: str | None = None
    volume_mode: str = "Filesystem"
    volume_attributes_class_name: str = ""


class PersistentVolumeClaim(View, frozen=True):
    """A claim on a volume."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: VolumePhase = VolumePhase()

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return self.metadata.namespace, self.metadata.name

    @property
    def storage_class(self) -> str:
        """The name of its class, or ""."""
        return self.metadata.annotations.get(_CLASS_ANNOTATION, self.spec.storage_class_name or "")

    @property
    def asks(self) -> str | int | float:
        """How much storage it asks for, as it is written; 0 where it does not say."""
        return self.spec.resources.requests.get(_STORAGE, 0)

    @property
    def size(self) -> int | None:
        """Bytes, or None where the request cannot be read."""
        return _bytes(self.asks)

    @property
    def fully_bound(self) -> bool:
        """Whether both halves of its binding are written."""
        return bool(self.spec.volume_name) and BIND_COMPLETED in self.metadata.annotations

    @property
    def selected_node(self) -> str:
        """The node that was chosen for its pod, or ""."""
        return self.metadata.annotations.get(SELECTED_NODE, "")

    @property
    def once(self) -> bool:
        """Whether one pod of the whole cluster may use it at a time."""
        return READ_WRITE_ONCE_POD in self.spec.access_modes


class TopologyRequirement(View, frozen=True):
    """A node label and the values it may have."""

    key: str = ""
    values: list[str] = []


class TopologySelectorTerm(View, frozen=True):
    """Node labels that must all fit; without any it matches nothing."""

    match_label_expressions: list[TopologyRequirement] = []


class StorageClass(View, frozen=True):
    """A kind of volume, and who makes them."""

    metadata: ObjectMeta = ObjectMeta()
    provisioner: str = ""
    volume_binding_mode: str = "Immediate"
    allowed_topologies: list[TopologySelectorTerm] = []

    @property
    def waits(self) -> bool:
        """Whether its claims are bound only when a pod that uses them has a node."""
        return self.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER

    @property
    def provisions(self) -> bool:
        """Whether volumes are made for its claims."""
        return self.provisioner not in ("", NO_PROVISIONER)


class DriverAllocatable(View, frozen=True):
    """How many volumes of a driver a node can take; None: no limit is known."""

    count: Int32 | None = None


class CSINodeDriver(View, frozen=True):
    """A CSI driver on a node; a volume that it makes for the node is for those with equal labels of these keys."""

    name: str = ""
    allocatable: DriverAllocatable | None = None
    topology_keys: list[str] = []


class CSINodeSpec(View, frozen=True):
    """The CSI drivers of a node; null where none has registered."""

    drivers: list[CSINodeDriver] | None = None


class CSINode(View, frozen=True):
    """What CSI drivers say of the node of the same name."""

    metadata: ObjectMeta = ObjectMeta()
    spec: CSINodeSpec = CSINodeSpec()

    @property
    def limits(self) -> dict[str, int]:
        """How many volumes of which driver can be attached; drivers without a limit are left out."""
        return {
            driver.name: driver.allocatable.count
            for driver in self.spec.drivers or ()
            if driver.allocatable is not None and driver.allocatable.count is not None
        }

    @property
    def topologies(self) -> dict[str, tuple[str, ...]]:
        """The topology keys of each driver, sorted."""
        return {driver.name: tuple(sorted(driver.topology_keys)) for driver in self.spec.drivers or ()}


class CSIDriverSpec(View, frozen=True):
    """What a driver wants of the scheduler."""

    storage_capacity: bool = False


class CSIDriver(View, frozen=True):
    """A CSI driver."""

    metadata: ObjectMeta = ObjectMeta()
    spec: CSIDriverSpec = CSIDriverSpec()


class CSIStorageCapacity(View, frozen=True):
    """How much of a storage class is left where."""

    metadata: ObjectMeta = ObjectMeta()
    storage_class_name: str = ""
    capacity: str | int | float | None = None
    maximum_volume_size: str | int | float | None = None
    node_topology: LabelSelector | None = None

    @property
    def largest(self) -> int:
        """Bytes of the largest volume that can be made; -1 where it does not say, or not legibly."""
        limit = self.capacity if self.maximum_volume_size is None else self.maximum_volume_size
        size = None if limit is None else _bytes(limit)
        return -1 if size is None else size


class AttachedSource(View, frozen=True):
    """What is attached; inline volumes have no name."""

    persistent_volume_name: str = ""


class VolumeAttachmentSpec(View, frozen=True):
    """Which volume is attached to which node, by which driver."""

    attacher: str = ""
    node_name: str = ""
    source: AttachedSource = AttachedSource()


class VolumeAttachment(View, frozen=True):
    """A volume that is, or is to be, attached to a node."""

    metadata: ObjectMeta = ObjectMeta()
    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()


def _bytes(text: str | float) -> int | None:
    try:
        return from_milli(_STORAGE, quantity.parse_quantity(text))
    except quantity.QuantityError:
        return None
