"""Taints that administrators put on devices, beside those of their drivers.

Field names and meanings: Kubernetes 1.36, resource.k8s.io/v1beta2 (KEP-5055; v1 since 1.37).
"""

from __future__ import annotations

from tutti.api.core import ObjectMeta, View
from tutti.api.selectors import Taint


class DeviceSelection(View, frozen=True):
    """Which devices a rule is about; what it does not say is any."""

    driver: str = ""
    pool: str = ""
    device: str = ""

    def selects(self, driver: str, pool: str, device: str = "") -> bool:
        """Whether it is about a device; without its name, whether it may be about one of that pool."""
        mine = self.driver in ("", driver) and self.pool in ("", pool)
        return mine and (not device or self.device in ("", device))


class DeviceTaintRuleSpec(View, frozen=True):
    """A taint, and the devices that have it; without a selector these are none."""

    device_selector: DeviceSelection | None = None
    taint: Taint = Taint()


class DeviceTaintRule(View, frozen=True):
    """A taint that an administrator puts on devices, beside those of their drivers (KEP-5055)."""

    metadata: ObjectMeta = ObjectMeta()
    spec: DeviceTaintRuleSpec = DeviceTaintRuleSpec()
