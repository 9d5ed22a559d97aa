"""Taints that administrators put on devices: they count as if the drivers had published them.

Rule: Kubernetes 1.36, dynamic-resource-allocation/resourceslice/tracker.
"""

from __future__ import annotations

from collections.abc import Callable

from tutti.api.device_taints import DeviceTaintRule, DeviceTaintRuleSpec
from tutti.api.selectors import HARD_EFFECTS, Taint

PoolKey = tuple[str, str]
"""A driver and the name of a pool of it."""


class TaintRules:
    """All such rules that keep somebody off devices."""

    def __init__(self) -> None:
        self._rules: dict[str, DeviceTaintRuleSpec] = {}

    def put(self, rule: DeviceTaintRule) -> Callable[[PoolKey], bool]:
        """Add or change a rule; returns what tells of which pools devices may have other taints now."""
        name, spec = rule.metadata.name, rule.spec
        before = self._rules.get(name)
        if before == spec:
            return _concerns()
        self._rules.pop(name, None)
        if spec.device_selector is not None and spec.taint.effect in HARD_EFFECTS:
            self._rules[name] = spec
        return _concerns(before, self._rules.get(name))

    def drop(self, name: str) -> Callable[[PoolKey], bool]:
        """Forget a rule; returns the same."""
        return _concerns(self._rules.pop(name, None))

    def taints(self, pool: PoolKey, device: str) -> tuple[Taint, ...]:
        """Return the taints that rules put on a device."""
        if not self._rules:
            return ()
        rules = ((one.device_selector, one.taint) for one in self._rules.values())
        return tuple([taint for said, taint in rules if said is not None and said.selects(*pool, device)])


def _concerns(*rules: DeviceTaintRuleSpec | None) -> Callable[[PoolKey], bool]:
    said = [one.device_selector for one in rules if one is not None and one.device_selector is not None]
    return lambda pool: any(one.selects(*pool) for one in said)
