"""The devices of a World: drivers publish, claims are made, and what scheduling writes on them is written and seen.

With `held`, writes wait until `write` is called; `conflicts` names claims that cannot be written.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec

from tests.engine.kept_objects import KeptObjects
from tutti.api.core import OwnerReference, Pod
from tutti.api.device_taints import DeviceTaintRule
from tutti.api.devices import (
    DELETE_PROTECTION,
    ClaimConsumer,
    DeviceClass,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from tutti.engine.records.decisions import WriteDeviceClaim, WriteExtendedClaim
from tutti.engine.records.device_observations import (
    ClaimTemplateSeen,
    DeviceClaimSeen,
    DeviceClassSeen,
    DeviceObjectGone,
    DeviceTaintRuleSeen,
    SliceSeen,
)
from tutti.engine.records.observations import (
    AnyObservation,
    DeviceClaimWritten,
)
from tutti.kube.extended_claims import claim_document

if TYPE_CHECKING:
    from tests.engine.world import World

DRIVER = "gpu.example.com"

replaced = msgspec.structs.replace


def resource_slice(node: str, count: int = 8, *, driver: str = DRIVER, **device: Any) -> ResourceSlice:
    """A complete pool of a node with equal devices but for their index and a PCIe root for every two of them."""
    devices = [
        {
            "name": f"gpu-{i}",
            "attributes": {
                "model": {"string": "h100"},
                "index": {"int": i},
                "uuid": {"string": f"{node}-{i}"},
                "resource.kubernetes.io/pcieRoot": {"string": f"pci{i // 2}"},
            },
            "capacity": {"memory": {"value": "80Gi"}},
            **device,
        }
        for i in range(count)
    ]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    raw = {
        "metadata": {"name": f"{node}-{driver}"},
        "spec": {"driver": driver, "pool": pool, "nodeName": node, "devices": devices},
    }
    return decoded(raw, ResourceSlice)


def device_class(name: str = "gpu", expression: str = f'device.driver == "{DRIVER}"', **spec: Any) -> DeviceClass:
    raw = {"metadata": {"name": name}, "spec": {"selectors": [{"cel": {"expression": expression}}], **spec}}
    return decoded(raw, DeviceClass)


def asks_for(count: int = 1, *, name: str = "gpu", match: str = "", **exactly: Any) -> dict[str, Any]:
    """What a claim asks for: so many devices of a class."""
    request = {"name": "r", "exactly": {"deviceClassName": name, "count": count, **exactly}}
    constraints = [{"matchAttribute": match}] if match else []
    return {"devices": {"requests": [request], "constraints": constraints}}


def decoded(raw: Any, kind: Any) -> Any:
    return msgspec.json.decode(json.dumps(raw), type=kind)


class Devices(KeptObjects):
    """Slices, classes and claims, and what becomes of them."""

    def __init__(self, world: World) -> None:
        super().__init__(world, _seen, DeviceObjectGone)
        self.held = False
        self.conflicts: set[str] = set()
        self.written: list[WriteDeviceClaim | WriteExtendedClaim] = []
        self.told: dict[str, WriteExtendedClaim] = {}
        self._waiting: list[WriteDeviceClaim | WriteExtendedClaim] = []

    def claim(self, name: str) -> ResourceClaim:
        found: ResourceClaim = self.objects["ResourceClaim", name]
        return found

    def make_claim(self, name: str, spec: dict[str, Any], *, owner: Pod | None = None) -> None:
        """A claim, of its own or made from the template of a pod."""
        raw = {"metadata": {"name": name, "namespace": "default", "uid": f"claim-{name}"}, "spec": spec}
        made: ResourceClaim = decoded(raw, ResourceClaim)
        if owner is not None:
            reference = OwnerReference("v1", "Pod", owner.metadata.name, owner.metadata.uid, controller=True)
            made = replaced(made, metadata=replaced(made.metadata, owner_references=[reference]))
        self.put(made)

    def results(self, name: str) -> list[str]:
        """The devices of a claim."""
        allocation = self.claim(name).status.allocation
        return [] if allocation is None else [f"{one.pool}/{one.device}" for one in allocation.devices.results]

    def taken(self) -> list[str]:
        """All devices that claims have, each as often as one has it."""
        names = [name for kind, name in self.objects if kind == "ResourceClaim"]
        return [one for name in names for one in self.results(name)]

    def free(self, name: str) -> None:
        """Do as the claim controller when the last pod that used a claim is gone."""
        claim = self.claim(name)
        self.put(replaced(claim, status=type(claim.status)()))

    def choose(self, decision: WriteDeviceClaim | WriteExtendedClaim) -> None:
        """Write what was decided."""
        self._waiting.append(decision)
        if not self.held:
            self.write()

    def lose_writes(self) -> list[WriteDeviceClaim | WriteExtendedClaim]:
        """Have nobody write what has been decided and is not written yet; returns that."""
        lost, self._waiting = self._waiting, []
        return lost

    def write(self) -> None:
        """Write what has been decided so far, as an API server takes it."""
        waiting, self._waiting = self._waiting, []
        for decision in waiting:
            about = (decision.namespace, decision.name, decision.uid, decision.change)
            if isinstance(decision, WriteExtendedClaim):
                self._write_extended(decision)
                continue
            claim = self.objects.get(("ResourceClaim", decision.name))
            gone = claim is None or claim.metadata.uid != decision.uid
            if gone or decision.name in self.conflicts or is_overtaken(decision, claim):
                self._world.tell(DeviceClaimWritten(*about, done=False, message="somebody else was first"))
                continue
            self.written.append(decision)
            self.put(written(claim, decision))
            version = self.claim(decision.name).metadata.resource_version
            self._world.tell(DeviceClaimWritten(*about, done=True, version=version))

    def _write_extended(self, decision: WriteExtendedClaim) -> None:
        about = (decision.namespace, decision.name, decision.uid, decision.change)
        self.written.append(decision)
        if decision.change in self.conflicts:
            self._world.tell(DeviceClaimWritten(*about, done=False, message="somebody else was first"))
            return
        match decision.change:
            case "make":
                self.put(made(decision))
            case "tell":
                self.told[decision.pod[0]] = decision
            case "remove" if ("ResourceClaim", decision.name) in self.objects:
                self.drop("ResourceClaim", decision.name)
        self._world.tell(DeviceClaimWritten(*about, done=True))


def is_overtaken(decision: WriteDeviceClaim, claim: ResourceClaim) -> bool:
    """Whether a claim has changed since something was decided about it, such that this cannot be written."""
    if claim.metadata.resource_version == decision.version:
        return False
    return (claim.status.allocation is None) is (decision.change == "reserve") and decision.change != "free"


def made(decision: WriteExtendedClaim) -> ResourceClaim:
    """The claim that is made for a pod, as its writer makes it."""
    raw = {**claim_document(decision)}
    raw["metadata"] = {**raw["metadata"], "uid": f"claim-{decision.name}"}
    claim: ResourceClaim = decoded(raw, ResourceClaim)
    return claim


def written(claim: ResourceClaim, decision: WriteDeviceClaim) -> ResourceClaim:
    """A claim as it is once a decision was written on it."""
    status = claim.status
    if decision.change == "free":
        return replaced(claim, status=type(status)())
    known = {one.uid for one in status.reserved_for}
    users = [ClaimConsumer("", "pods", name, uid) for name, uid in decision.pods if uid not in known]
    users += [ClaimConsumer("scheduling.k8s.io", "podgroups", *one) for one in decision.groups if one[1] not in known]
    status = replaced(status, reserved_for=[*status.reserved_for, *users])
    if decision.change == "allocate":
        assert status.allocation is None, f"{claim.key} is allocated already"
        status = replaced(status, allocation=decision.allocation)
        claim = replaced(claim, metadata=replaced(claim.metadata, finalizers=[DELETE_PROTECTION]))
    assert status.allocation is not None, f"{claim.key} has nothing that could be used"
    return replaced(claim, status=status)


def _seen(one: Any) -> AnyObservation:
    match one:
        case ResourceSlice():
            return SliceSeen(one)
        case DeviceClass():
            return DeviceClassSeen(one)
        case ResourceClaimTemplate():
            return ClaimTemplateSeen(one)
        case DeviceTaintRule():
            return DeviceTaintRuleSeen(one)
        case _:
            return DeviceClaimSeen(one)
