"""What limits pods, as far as it is read: ResourceQuotas (core/v1) and PodDisruptionBudgets (policy/v1)."""

from __future__ import annotations

from typing import Any

from tutti.api import resources
from tutti.api.core import Int32, ObjectName, View
from tutti.api.resources import Amounts
from tutti.api.selectors import LabelSelector

PODS = "pods"
_COUNTED = "count/pods"
_REQUESTS = "requests."
_PLAIN = frozenset({PODS, "cpu", "memory", "ephemeral-storage"})
"""Names that mean what pods request, without saying so (Kubernetes 1.36, pkg/quota/v1/evaluator/core/pods.go)."""


class ResourceQuotaSpec(View, frozen=True):
    """What a namespace may have in all."""

    hard: dict[str, str | int | float] = {}


class ResourceQuotaStatus(View, frozen=True):
    """What it may have, as the controller has read it, and what it has."""

    hard: dict[str, str | int | float] = {}
    used: dict[str, str | int | float] = {}


class ResourceQuota(View, frozen=True):
    """How much a namespace may have; one that holds for some pods only (`scopes`) is read as if it held for all."""

    metadata: ObjectName = ObjectName()
    spec: ResourceQuotaSpec = ResourceQuotaSpec()
    status: ResourceQuotaStatus = ResourceQuotaStatus()


def remaining(quota: ResourceQuota) -> Amounts:
    """Return how much more pods may request, in scheduling units, by resource; `pods` is how many more there may be.

    Of one that cannot be read there is no more room for any pod.
    """
    try:
        hard = resources.parse_amounts(_of_pods(quota.status.hard or quota.spec.hard))
        used = resources.parse_amounts(_of_pods(quota.status.used))
    except resources.AmountError:
        return {PODS: 0}
    return {name: amount - used.get(name, 0) for name, amount in hard.items()}


def _of_pods(said: dict[str, str | int | float]) -> dict[str, str | int | float]:
    """Return what is said of the requests of pods, and of their number, by the names of resources."""
    out: dict[str, str | int | float] = {}
    for name, quantity in said.items():
        if name == _COUNTED:
            out[PODS] = quantity
        elif name.startswith(_REQUESTS) or name in _PLAIN:
            out[name.removeprefix(_REQUESTS)] = quantity
    return out


class DisruptionBudgetSpec(View, frozen=True):
    """Whom a budget covers; what it allows is worked out by the disruption controller."""

    selector: LabelSelector | None = None


class DisruptionBudgetStatus(View, frozen=True):
    """How many more pods may be disrupted now, and which are counted as disrupted already, by name."""

    disruptions_allowed: Int32 = 0
    disrupted_pods: dict[str, Any] = {}


class PodDisruptionBudget(View, frozen=True):
    """A limit on how many pods of an application may be taken out at a time."""

    metadata: ObjectName = ObjectName()
    spec: DisruptionBudgetSpec = DisruptionBudgetSpec()
    status: DisruptionBudgetStatus = DisruptionBudgetStatus()
