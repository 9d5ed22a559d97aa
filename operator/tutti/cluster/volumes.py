"""What the volumes of a pod ask of its node, without the names that tell equal pods apart.

Members of a gang have claims of their own, named after them; what matters to placement is where the volumes can be
used or made, and how many of a driver's volumes come along. So pods whose claims are constrained alike are of one
class. The name of a claim or volume counts only where several pods use it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from tutti.api.core import PodSpec
from tutti.api.selectors import LabelSelector, NodeSelector

ClaimKey = tuple[str, str]
"""Namespace and name."""

VolumeName = tuple[str, str]
"""A CSI driver, and what it knows the volume as."""


@dataclass(frozen=True, slots=True)
class ClaimUse:
    """That a pod uses a claim; `ephemeral`: one that is made for it alone."""

    claim: ClaimKey
    ephemeral: bool = False


class VolumeReach(msgspec.Struct, frozen=True):
    """Where a bound volume can be used.

    Attributes:
        affinity: The volume's node affinity; None is everywhere.
        zones: Zone and region labels of the volume with the values that a node may have for each.
        missing: Whether there is no such volume: then no node will do.
    """

    affinity: NodeSelector | None = None
    zones: tuple[tuple[str, tuple[str, ...]], ...] = ()
    missing: bool = False


class UnboundClaim(msgspec.Struct, frozen=True):
    """A claim that is bound only when its pod has a node.

    Attributes:
        size: Bytes.
        modes: Access modes, sorted.
        mode: Filesystem or Block.
        selected: The node that was chosen for it before, or "": it can be provisioned there only.
        reserved: The volume that names this claim and has what it asks for, or "": no other will do.
        promised: Whether that volume was promised to it here, so that none will be made for it.
        shared: The claim (namespace/name) where several pods use it, else "".
    """

    storage_class: str
    size: int
    modes: tuple[str, ...]
    mode: str = "Filesystem"
    selector: LabelSelector | None = None
    attributes_class: str = ""
    selected: str = ""
    reserved: str = ""
    promised: bool = False
    shared: str = ""


class AttachedVolume(msgspec.Struct, frozen=True, order=True):
    """A volume that a pod has attached to its node; `handle` is "" where no other pod uses it."""

    driver: str
    handle: str = ""


class VolumeNeeds(msgspec.Struct, frozen=True):
    """What the volumes of a pod ask of its node.

    Attributes:
        problem: Why it can have no node at all yet, in kube-scheduler's words, or "".
        bound: Where its bound volumes can be used.
        wanted: Its claims that wait for a node, the smallest first.
        attached: What it attaches to its node.
        once: Claims (namespace/name) that one pod of the cluster may use, and that others use or want to use as well.
    """

    problem: str = ""
    bound: tuple[VolumeReach, ...] = ()
    wanted: tuple[UnboundClaim, ...] = ()
    attached: tuple[AttachedVolume, ...] = ()
    once: tuple[str, ...] = ()


NO_VOLUMES = VolumeNeeds()


def has_claims(spec: PodSpec) -> bool:
    """Whether any volume of a pod is made from a claim."""
    return any(volume.is_claimed for volume in spec.volumes)


def uses_of(spec: PodSpec, namespace: str, name: str) -> tuple[ClaimUse, ...]:
    """Return the claims that a pod uses, each once, in order (naming: component-helpers/storage/ephemeral, 1.36)."""
    if not spec.volumes:
        return ()
    return tuple({use.claim: use for use in _uses(spec, namespace, name)}.values())


def _uses(spec: PodSpec, namespace: str, name: str) -> Iterator[ClaimUse]:
    for volume in spec.volumes:
        if volume.persistent_volume_claim is not None:
            yield ClaimUse((namespace, volume.persistent_volume_claim.claim_name))
        elif volume.ephemeral is not None:
            yield ClaimUse((namespace, f"{name}-{volume.name}"), ephemeral=True)
