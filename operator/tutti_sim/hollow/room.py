"""What a pod takes of a node, counted as the kubelet counts it when it admits pods."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

from tutti_sim.meta.amounts import amount

Json = dict[str, Any]
Amounts = dict[str, Fraction]

PODS = "pods"
FIRST = (PODS, "cpu", "memory", "ephemeral-storage")


def _add(total: Amounts, more: Mapping[str, Any]) -> None:
    for name, value in more.items():
        total[name] = total.get(name, Fraction(0)) + (amount(value) if isinstance(value, str) else value)


def _most(total: Amounts, other: Amounts) -> None:
    for name, value in other.items():
        total[name] = max(total.get(name, Fraction(0)), value)


def requests(spec: Json) -> Amounts:
    """What a pod asks for: its containers together, or its largest init container, plus sidecars and overhead.

    Requests for the pod as a whole stand in place of those of its containers; the pod itself counts as one of `pods`.

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
    running.update({name: amount(value) for name, value in _whole(spec).items()})
    _add(running, spec.get("overhead", {}))
    running[PODS] = Fraction(1)
    return running


def _whole(spec: Json) -> Mapping[str, str]:
    found: Mapping[str, str] = (spec.get("resources") or {}).get("requests") or {}
    return found


def total(pods: Iterable[Amounts]) -> Amounts:
    """What pods take of a node together, themselves counted as `pods`."""
    used: Amounts = {PODS: Fraction(0)}
    for asked in pods:
        _add(used, asked)
    return used


def lacking(asked: Amounts, used: Amounts, allocatable: Mapping[str, str]) -> tuple[str, str] | None:
    """The first resource that does not fit and the kubelet's words for it; None when the pod fits.

    The order is that of kube-scheduler's fit (pods, cpu, memory, ephemeral storage, then by name), which the kubelet
    asks; of several reasons it tells the first. A resource that the node does not have at all is refused too: a real
    kubelet leaves that to the device plugin, but whoever bound the pod has made a mistake that should be seen.
    """
    for name in sorted(asked, key=lambda one: (FIRST.index(one) if one in FIRST else len(FIRST), one)):
        have, taken = amount(allocatable.get(name, "0")), used.get(name, Fraction(0))
        if asked[name] > 0 and taken + asked[name] > have:
            scale = 1000 if name == "cpu" else 1
            text = (
                f"Pod was rejected: Node didn't have enough resource: {name}, requested: {int(asked[name] * scale)}, "
                f"used: {int(taken * scale)}, capacity: {int(have * scale)}"
            )
            return name, text
    return None
