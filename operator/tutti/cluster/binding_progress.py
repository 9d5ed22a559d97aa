"""How far the binding of a claim has come, by what the API server shows of it.

Rule: kube-scheduler 1.36, plugins/volumebinding/binder.go (checkBindings). What is older than our own write says
nothing about it yet; a provisioner that cannot serve the chosen node takes it off the claim again.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from tutti.api.storage import PersistentVolume, PersistentVolumeClaim
from tutti.cluster.pledges import Pledge
from tutti.cluster.storage import StorageBook


class Stage(enum.Enum):
    """Where a claim is: bound; not written yet; written, and being bound; or not to be bound like this."""

    BOUND = "bound"
    UNASKED = "unasked"
    UNDER_WAY = "under way"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Progress:
    """How far it has come; `why` says of a failure what went wrong."""

    stage: Stage
    why: str = ""


def progress(book: StorageBook, pledge: Pledge, node: str, labels: Mapping[str, str]) -> Progress:
    """Return how far a claim's binding has come, for a pod that is reserved a node with these labels."""
    name = pledge.claim[1]
    claim = book.claims.get(pledge.claim)
    if claim is None or claim.metadata.uid != pledge.uid:
        return Progress(Stage.FAILED, f'persistentvolumeclaim "{name}" not found')
    if claim.metadata.deletion_timestamp is not None:
        return Progress(Stage.FAILED, f'persistentvolumeclaim "{name}" is being deleted')
    if claim.fully_bound:
        return _reached(book, claim, node, labels)
    if pledge.failure:
        return Progress(Stage.FAILED, f'persistentvolumeclaim "{name}" could not be written: {pledge.failure}')
    if not pledge.asked:
        return Progress(Stage.UNASKED)
    if claim.spec.volume_name:
        return Progress(Stage.UNDER_WAY)
    why = _undone(book, pledge, claim)
    return Progress(Stage.FAILED, why) if why else Progress(Stage.UNDER_WAY)


def stands_written(book: StorageBook, pledge: Pledge) -> str | None:
    """Return the version of the object that says already what would be written; None where it is to be written."""
    if pledge.volume:
        volume = book.volumes.get(pledge.volume)
        return volume.metadata.resource_version if volume is not None and _is_for(volume, pledge) else None
    claim = book.claims.get(pledge.claim)
    written = claim is not None and claim.metadata.uid == pledge.uid and claim.selected_node == pledge.node
    return claim.metadata.resource_version if written and claim is not None else None


def _reached(book: StorageBook, claim: PersistentVolumeClaim, node: str, labels: Mapping[str, str]) -> Progress:
    volume = book.volumes.get(claim.spec.volume_name)
    if volume is None:
        return Progress(Stage.UNDER_WAY)  # made, and not seen yet
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None or affinity.required.matches(labels, node):
        return Progress(Stage.BOUND)
    why = f'persistentvolume "{volume.metadata.name}" of claim "{claim.key[1]}" cannot be used on node "{node}"'
    return Progress(Stage.FAILED, why)


def _undone(book: StorageBook, pledge: Pledge, claim: PersistentVolumeClaim) -> str:
    """Return what was undone of our write, or ""."""
    if pledge.volume:
        volume = book.volumes.get(pledge.volume)
        if volume is None:
            return f'persistentvolume "{pledge.volume}" not found'
        if _is_since(volume.metadata.resource_version, pledge.version) and not _is_for(volume, pledge):
            return f'ClaimRef got reset for persistentvolume "{pledge.volume}"'
    elif _is_since(claim.metadata.resource_version, pledge.version) and claim.selected_node != pledge.node:
        return f'provisioning failed for persistentvolumeclaim "{pledge.claim[1]}" on node "{pledge.node}"'
    return ""


def _is_for(volume: PersistentVolume, pledge: Pledge) -> bool:
    reference = volume.spec.claim_ref
    named = (pledge.claim[0], pledge.claim[1], pledge.uid)
    return reference is not None and (reference.namespace, reference.name, reference.uid) == named


def _is_since(seen: str, written: str) -> bool:
    """Whether what is seen is not older than what was written; versions are integers (Kubernetes 1.35, KEP-5504)."""
    return written.isdecimal() and seen.isdecimal() and int(seen) >= int(written)
