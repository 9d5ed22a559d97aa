"""What the engine is told of devices: what drivers and administrators say of them, and who claims them."""

from __future__ import annotations

from tutti.api.device_taints import DeviceTaintRule
from tutti.api.devices import DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from tutti.cluster.devices.state import DeviceKind
from tutti.engine.records.observation import Observation


class SliceSeen(Observation, frozen=True, tag="resource-slice"):
    """A ResourceSlice was added or changed."""

    found: ResourceSlice


class DeviceClassSeen(Observation, frozen=True, tag="device-class"):
    """A DeviceClass was added or changed."""

    found: DeviceClass


class DeviceClaimSeen(Observation, frozen=True, tag="resource-claim"):
    """A ResourceClaim was added or changed."""

    found: ResourceClaim


class ClaimTemplateSeen(Observation, frozen=True, tag="resource-claim-template"):
    """A ResourceClaimTemplate was added or changed."""

    found: ResourceClaimTemplate


class DeviceTaintRuleSeen(Observation, frozen=True, tag="device-taint-rule"):
    """A DeviceTaintRule was added or changed."""

    found: DeviceTaintRule


class DeviceObjectGone(Observation, frozen=True, tag="device-object-gone"):
    """An object about devices does not exist any more (`namespace` is empty for cluster-scoped kinds)."""

    kind: DeviceKind
    namespace: str
    name: str


DeviceObjectSeen = SliceSeen | DeviceClassSeen | DeviceClaimSeen | ClaimTemplateSeen | DeviceTaintRuleSeen
