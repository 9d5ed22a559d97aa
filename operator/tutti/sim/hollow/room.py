"""What a pod takes of a node, counted as the kubelet counts it when it admits pods."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

from tutti.sim.meta.amounts import amount

Json = dict[str, Any]
Amounts = dict[str, Fraction]


def _add(total: Amounts, more: Mapping[str, Any]) -> None:
    for name, value in more.items():
        total[name] = total.get(name, Fraction(0)) + (amount(value) if isinstance(value, str) else value)


def _most(total: Amounts, other: Amounts) -> None:
    for name, value in other.items():
        total[name] = max(total.get(name, Fraction(0)), value)


def requests(spec: Json) -> Amounts:
    """What a pod asks for: its containers together, or its largest init container, plus sidecars and overhead.

    Source: k8s.io/component-helpers/resource, PodRequests.
    """
    running: Amounts = {}
    for container in spec.get("containers", ()):
        _add(running, container.get("resources", {}).get("requests", {}))
    started: Amounts = {}
    sidecars: Amounts = {}
    for container in spec.get("initContainers", ()):
        own = {name: amount(value) for name, value in container.get("resources", {}).get("requests", {}).items()}
        if container.get("restartPolicy") == "Always":
            _add(sidecars, own)
            _most(started, sidecars)
        else:
            both = dict(sidecars)
            _add(both, own)
            _most(started, both)
    _add(running, sidecars)
    _most(running, started)
    _add(running, spec.get("overhead", {}))
    return running


def lacking(asked: Amounts, used: Amounts, allocatable: Mapping[str, str], pods: int) -> tuple[str, str] | None:
    """The first resource that does not fit and the kubelet's words for it; None when the pod fits."""
    room = {name: amount(value) for name, value in allocatable.items()}
    checks: Iterable[tuple[str, Fraction, Fraction]] = [
        ("pods", Fraction(1), Fraction(pods)),
        *((name, value, used.get(name, Fraction(0))) for name, value in asked.items()),
    ]
    for name, value, taken in checks:
        have = room.get(name, Fraction(0))
        if value > 0 and taken + value > have:
            scale = 1000 if name == "cpu" else 1
            text = (
                f"Pod was rejected: Node didn't have enough resource: {name}, requested: {int(value * scale)}, "
                f"used: {int(taken * scale)}, capacity: {int(have * scale)}"
            )
            return name, text
    return None
