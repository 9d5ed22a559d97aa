"""The storage of a World: what scheduling writes is written, and a provisioner and binder do the rest.

With `held`, the binder waits until `bind` is called for a claim; `refused` names claims whose node the provisioner takes
off again; `conflicts` names those that cannot be written.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from tests.engine.kept_objects import KeptObjects
from tests.placement.storage import at, volume
from tutti.api.storage import (
    BIND_COMPLETED,
    SELECTED_NODE,
    ClaimReference,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from tutti.engine.records.decisions import ReserveVolume, SelectNode
from tutti.engine.records.observations import (
    AnyObservation,
    AttachmentSeen,
    CapacitySeen,
    ClaimSeen,
    ClaimWritten,
    CSIDriverSeen,
    CSINodeSeen,
    StorageClassSeen,
    StorageGone,
    VolumeSeen,
)

if TYPE_CHECKING:
    from tests.engine.world import World

ZONE = "topology.kubernetes.io/zone"

replaced = msgspec.structs.replace


class Storage(KeptObjects):
    """Claims, volumes and classes, and what becomes of them."""

    def __init__(self, world: World) -> None:
        super().__init__(world, _seen, StorageGone)
        self.held = False
        self.refused: set[str] = set()
        self.conflicts: set[str] = set()
        self.chosen: list[SelectNode | ReserveVolume] = []

    def claim(self, name: str) -> PersistentVolumeClaim:
        found: PersistentVolumeClaim = self.objects["PersistentVolumeClaim", name]
        return found

    def is_chosen(self, claim: PersistentVolumeClaim) -> bool:
        """Whether a node or a volume was chosen for a claim that is not bound yet."""
        return not claim.fully_bound and bool(claim.selected_node or any(_is_for(v, claim) for v in self._volumes()))

    def choose(self, decision: SelectNode | ReserveVolume) -> None:
        """Write what was chosen."""
        self.chosen.append(decision)
        target = decision.node if isinstance(decision, SelectNode) else decision.volume
        claim = (decision.namespace, decision.name, decision.uid)
        wanted = [("PersistentVolumeClaim", decision.name)]
        wanted += [("PersistentVolume", decision.volume)] if isinstance(decision, ReserveVolume) else []
        if decision.name in self.conflicts or any(key not in self.objects for key in wanted):
            self._world.tell(ClaimWritten(*claim, target, done=False, message="somebody else was first"))
            return
        if isinstance(decision, SelectNode):
            found = self.claim(decision.name)
            self._annotate(found, {SELECTED_NODE: decision.node})
            written = self.claim(decision.name)
        else:
            free: PersistentVolume = self.objects["PersistentVolume", decision.volume]
            self.put(replaced(free, spec=replaced(free.spec, claim_ref=ClaimReference(*claim))))
            written = self.objects["PersistentVolume", decision.volume]
        self._world.tell(ClaimWritten(*claim, target, done=True, version=written.metadata.resource_version))
        if not self.held:
            self.bind(decision.name)

    def bind(self, *names: str, zone: str = "") -> None:
        """Let the binder and provisioner go on with claims; `zone` is where a volume is made, the node's if not given."""
        for name in names:
            claim = self.claim(name)
            if name in self.refused:
                self._annotate(claim, {SELECTED_NODE: None})
                continue
            reserved = [v for v in self._volumes() if _is_for(v, claim)]
            node = self._world.nodes.get(claim.selected_node)
            if not reserved:
                where = zone or (node.metadata.labels.get(ZONE, "") if node else "")
                made = volume(
                    f"pvc-{name}",
                    driver="csi.example.com",
                    claim=name,
                    uid=claim.metadata.uid,
                    where=at(ZONE, where) if where else None,
                )
                self.put(made)
                reserved = [made]
            self.put(replaced(reserved[0], status=replaced(reserved[0].status, phase="Bound")))
            bound = replaced(claim, spec=replaced(claim.spec, volume_name=reserved[0].metadata.name))
            self._annotate(bound, {BIND_COMPLETED: "yes"})

    def _volumes(self) -> Iterable[PersistentVolume]:
        return [one for one in self.objects.values() if isinstance(one, PersistentVolume)]

    def _annotate(self, claim: PersistentVolumeClaim, changes: dict[str, str | None]) -> None:
        merged = {**claim.metadata.annotations, **changes}
        annotations = {key: value for key, value in merged.items() if value is not None}
        self.put(replaced(claim, metadata=replaced(claim.metadata, annotations=annotations)))


def _is_for(one: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    return one.spec.claim_ref is not None and one.spec.claim_ref.name == claim.metadata.name


def _seen(one: Any) -> AnyObservation:
    match one:
        case PersistentVolumeClaim():
            return ClaimSeen(one)
        case PersistentVolume():
            return VolumeSeen(one)
        case StorageClass():
            return StorageClassSeen(one)
        case CSINode():
            return CSINodeSeen(one)
        case CSIDriver():
            return CSIDriverSeen(one)
        case CSIStorageCapacity():
            return CapacitySeen(one)
        case VolumeAttachment():
            return AttachmentSeen(one)
    raise AssertionError(f"no observation for {one}")
