"""What a pod was admitted to, as the pod itself tells it: so that a process which has not admitted it knows.

It travels in the Binding, as an annotation (docs/adr/0005), and is then kept in a condition of the pod's status:
whoever may edit pods can write over an annotation and take labels off, and cannot write a status.
"""

from __future__ import annotations

import json
from functools import lru_cache

import msgspec

from tutti.api.core import Pod
from tutti.quota.flavors import FlavorByResource

ADMISSION_ANNOTATION = "scheduling.tutti.dev/admission"
"""The annotation of a pod that says it, from its Binding on."""

ADMITTED_CONDITION = "scheduling.tutti.dev/Admitted"
"""The type of a bound pod's condition that says in which ClusterQueue and flavors it is counted."""


class PodAdmission(msgspec.Struct, frozen=True, rename="camel"):
    """What a pod was admitted to: the ClusterQueue, and the flavor of each resource.

    Whether that was out of turn is said by a status alone: an annotation that says so could be a tenant's.
    """

    cluster_queue: str
    flavors: dict[str, str]
    out_of_turn: bool = False


def admission_text(queue: str, flavors: FlavorByResource, *, out_of_turn: bool = False) -> str:
    """Return an admission as a text of JSON."""
    return _admission_text(queue, tuple(flavors.items()), out_of_turn)


def read_admission(text: str) -> PodAdmission | None:
    """Return what such a text says; None where there is none, or somebody has written another thing over it."""
    try:
        return msgspec.json.decode(text, type=PodAdmission) if text else None
    except msgspec.MsgspecError:
        return None


def admission_in_status(pod: Pod) -> str:
    """Return the admission that a pod's status keeps; "" where it keeps none."""
    for condition in pod.status.conditions:
        if condition.type == ADMITTED_CONDITION and condition.status == "True":
            return condition.message
    return ""


@lru_cache(maxsize=4096)  # most of what a queue admits is counted in the same flavors
def _admission_text(queue: str, flavors: tuple[tuple[str, str], ...], out_of_turn: bool) -> str:
    said = {"clusterQueue": queue, "flavors": dict(flavors)} | ({"outOfTurn": True} if out_of_turn else {})
    return json.dumps(said, sort_keys=True, separators=(",", ":"))
