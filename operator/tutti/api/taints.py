"""Taints and tolerations.

Rules: Kubernetes 1.36, component-helpers/scheduling/corev1/helpers.go and core/v1/toleration.go. The operators
Lt and Gt are behind a gate that is off in 1.36, so a toleration that uses them tolerates nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

NO_SCHEDULE = "NoSchedule"
NO_EXECUTE = "NoExecute"
PREFER_NO_SCHEDULE = "PreferNoSchedule"
HARD_EFFECTS = frozenset((NO_SCHEDULE, NO_EXECUTE))
"""The effects that keep a pod off a node."""


class Taint(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What a node repels pods with."""

    key: str = ""
    value: str = ""
    effect: str = ""


class Toleration(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What a pod puts up with: an empty effect means all effects, an empty key with Exists all keys."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None

    def tolerates(self, taint: Taint) -> bool:
        """Whether a pod with this toleration may be on a node with this taint."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        match self.operator:
            case "" | "Equal":
                return self.value == taint.value
            case "Exists":
                return True
            case _:
                return False


def untolerated(
    taints: Iterable[Taint], tolerations: Sequence[Toleration], effects: Collection[str] = HARD_EFFECTS
) -> Taint | None:
    """The first taint with one of `effects` that no toleration covers; None if all are covered."""
    for taint in taints:
        if taint.effect in effects and not any(toleration.tolerates(taint) for toleration in tolerations):
            return taint
    return None
