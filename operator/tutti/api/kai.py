"""KAI's annotations for parts of GPUs, which Tutti refuses: a scheduler alone cannot fulfil them.

A pod of KAI's asks for no resource. Its own binder creates a pod that reserves a GPU for all that share it, waits
until that has found out by NVML which GPU the kubelet gave it, and then has the sharing pod see that GPU, by a
ConfigMap that KAI's webhook has put into the pod before (KAI-Scheduler 0.13, pkg/binder/binding/resourcereservation
and pkg/admission/webhook/v1alpha2/gpusharing). Bound by another scheduler, such a pod would see no GPU, or all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tutti.api.messages import escape_controls

ANNOTATIONS: Final = ("gpu-fraction", "gpu-memory", "gpu-fraction-num-devices")
_SAID: Final = frozenset(ANNOTATIONS)
REASON: Final = "UnsupportedGPUSharing"
_LONGEST: Final = 64


def refusal(annotations: Mapping[str, str]) -> str:
    """Return why a pod that asks for part of a GPU as KAI's users do has no node from here; "" where it does not."""
    if _SAID.isdisjoint(annotations):
        return ""
    said = next(key for key in ANNOTATIONS if key in annotations)
    value = escape_controls(annotations[said][:_LONGEST])
    return (
        f"annotation {said}: {value} asks for part of a GPU, and only KAI's binder can tell the container which GPU "
        "that is: leave the pod to kai-scheduler, or ask for nvidia.com/gpumem of HAMi, a shared or a MIG resource"
    )
