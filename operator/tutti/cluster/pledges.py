"""Which claim is to get which volume before the API server knows of it, and how far its binding has come since.

A pod that is reserved a node is pledged what its claims need there: a free volume each, or that one is provisioned for
the node. The pledge ends when the pod is bound or its reservation is given back. What a transaction chooses is
earmarked until the pods of the class are assumed to be there, or the transaction is rolled back.

Rule of progress: kube-scheduler 1.36, plugins/volumebinding/binder.go (checkBindings). What is older than our own
write says nothing about it yet; a provisioner that cannot serve the chosen node takes it off the claim again.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tutti.api.storage import PersistentVolume, PersistentVolumeClaim
from tutti.cluster.classes import PodClass
from tutti.cluster.pods import PodKey
from tutti.cluster.storage import StorageBook
from tutti.cluster.volumes import ClaimKey

Picks = tuple[str, ...]
"""For each claim that a pod wants bound, in order: the volume, or "" where one is to be made."""


@dataclass(slots=True, eq=False)
class Pledge:
    """What one claim is to get.

    Attributes:
        uid: Of the claim.
        node: The node of its pod.
        volume: The volume that it is to be bound to, or "" where one is to be made for the node.
        pods: Who is reserved a node on the strength of it.
        asked: Whether it has been written, or is being written.
        version: The resourceVersion of what was written, once that is known.
        failure: Why it could not be written, or "".
    """

    claim: ClaimKey
    uid: str
    node: str
    volume: str
    pods: dict[PodKey, None] = field(default_factory=dict)
    asked: bool = False
    version: str = ""
    failure: str = ""


@dataclass(slots=True)
class SharedVolume:
    """What a claim that several pods use is to get, while these are being placed.

    Attributes:
        volume: The volume, or "" where one is to be made.
        node: A node that it is for.
        settled: Whether that was settled before any of them was placed, so that all must be where it can be used.
        users: How many earmarks of theirs there are, the settlement counted as one.
    """

    volume: str
    node: str
    settled: bool = False
    users: int = 0


class Pledges:
    """All pledges and earmarks.

    Attributes:
        version: Grows whenever a volume is taken or becomes free.
    """

    def __init__(self) -> None:
        self.version = 0
        self._of_claim: dict[ClaimKey, Pledge] = {}
        self._of_pod: dict[PodKey, tuple[ClaimKey, ...]] = {}
        self._taken: dict[str, int] = {}
        self._earmarks: dict[tuple[bytes, str], list[Picks]] = {}
        self._shared: dict[str, SharedVolume] = {}

    def __bool__(self) -> bool:
        """Whether anything is promised to any pod."""
        return bool(self._of_pod)

    def of(self, claim: ClaimKey) -> Pledge | None:
        """Return what a claim is to get, if that was decided here."""
        return self._of_claim.get(claim)

    def of_pod(self, pod: PodKey) -> Iterator[Pledge]:
        """Yield what the claims of a pod are to get."""
        for claim in self._of_pod.get(pod, ()):
            yield self._of_claim[claim]

    def is_taken(self, volume: str) -> bool:
        """Whether a volume is for a claim already."""
        return volume in self._taken

    def shared(self, claim: str) -> SharedVolume | None:
        """Return what a claim that several pods use is to get; None where it is open."""
        return self._shared.get(claim)

    def settle(self, claim: str, volume: str, node: str) -> None:
        """Hold all pods that use a claim to a volume, or to one made for a node, until it is unsettled.

        Pods for which it is earmarked may be there; then it is what these are to get.
        """
        kept = self._shared.setdefault(claim, SharedVolume(volume, node))
        if not kept.users:
            self._take(volume)
        kept.settled = True
        kept.users += 1

    def unsettle(self, claim: str) -> None:
        """Undo `settle`; what has been earmarked since stays as it is."""
        self._forgo(claim)

    def earmark(self, pod_class: PodClass, node: str, picks: Picks) -> None:
        """Keep volumes for the next pod of a class that is assumed to be on a node."""
        self._earmarks.setdefault((pod_class.signature, node), []).append(picks)
        for wanted, volume in zip(pod_class.volumes.wanted, picks, strict=True):
            if not wanted.shared:
                self._take(volume)
                continue
            kept = self._shared.setdefault(wanted.shared, SharedVolume(volume, node))
            if not kept.users:
                self._take(kept.volume)
            kept.users += 1

    def earmarks(self, pod_class: PodClass, node: str) -> list[Picks]:
        """Return what is kept for pods of a class on a node."""
        return list(self._earmarks.get((pod_class.signature, node), ()))

    def withdraw(self, pod_class: PodClass, node: str) -> Picks:
        """Undo the last earmark for a class on a node, and return what it was."""
        several = self._earmarks[pod_class.signature, node]
        picks = several.pop()
        if not several:
            del self._earmarks[pod_class.signature, node]
        for wanted, volume in zip(pod_class.volumes.wanted, picks, strict=True):
            if not wanted.shared:
                self._free(volume)
                continue
            self._forgo(wanted.shared)
        return picks

    def _forgo(self, claim: str) -> None:
        """Count one earmark less of a claim that several pods use."""
        kept = self._shared[claim]
        kept.users -= 1
        if not kept.users:
            del self._shared[claim]
            self._free(kept.volume)

    def pledge(
        self, pod: PodKey, pod_class: PodClass, node: str, claims: Sequence[tuple[ClaimKey, str]]
    ) -> list[ClaimKey]:
        """Promise the claims of a pod (key and uid, in the order of its class) what was earmarked for it on a node.

        Returns the claims that nothing was promised before.
        """
        earmarked = (pod_class.signature, node) in self._earmarks
        picks = self.withdraw(pod_class, node) if earmarked else ("",) * len(claims)
        begun = []
        for (claim, uid), volume in zip(claims, picks, strict=True):
            known = self._of_claim.get(claim)
            if known is None:
                known = self._of_claim[claim] = Pledge(claim, uid, node, volume)
                self._take(volume)
                begun.append(claim)
            known.pods[pod] = None
        self._of_pod[pod] = tuple(claim for claim, _ in claims)
        return begun

    def release(self, pod: PodKey) -> list[ClaimKey]:
        """End what was promised for a pod; returns the claims that nothing is promised any more."""
        ended = []
        for claim in self._of_pod.pop(pod, ()):
            known = self._of_claim[claim]
            del known.pods[pod]
            if not known.pods:
                del self._of_claim[claim]
                self._free(known.volume)
                ended.append(claim)
        return ended

    def _take(self, volume: str) -> None:
        if volume:
            self._taken[volume] = self._taken.get(volume, 0) + 1
            self.version += 1

    def _free(self, volume: str) -> None:
        if volume:
            self._taken[volume] -= 1
            if not self._taken[volume]:
                del self._taken[volume]
            self.version += 1


class BindingStage(enum.Enum):
    """Where a claim is: bound; not written yet; written, and being bound; or not to be bound like this."""

    BOUND = "bound"
    UNASKED = "unasked"
    UNDER_WAY = "under way"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class BindingProgress:
    """How far it has come; `why` says of a failure what went wrong."""

    stage: BindingStage
    why: str = ""


def binding_progress(book: StorageBook, pledge: Pledge, node: str, labels: Mapping[str, str]) -> BindingProgress:
    """Return how far a claim's binding has come, for a pod that is reserved a node with these labels."""
    name = pledge.claim[1]
    claim = book.claims.get(pledge.claim)
    if claim is None or claim.metadata.uid != pledge.uid:
        return BindingProgress(BindingStage.FAILED, f'persistentvolumeclaim "{name}" not found')
    if claim.metadata.deletion_timestamp is not None:
        return BindingProgress(BindingStage.FAILED, f'persistentvolumeclaim "{name}" is being deleted')
    if claim.fully_bound:
        return _reached(book, claim, node, labels)
    if pledge.failure:
        return BindingProgress(
            BindingStage.FAILED, f'persistentvolumeclaim "{name}" could not be written: {pledge.failure}'
        )
    if not pledge.asked:
        return BindingProgress(BindingStage.UNASKED)
    if claim.spec.volume_name:
        return BindingProgress(BindingStage.UNDER_WAY)
    why = _undone(book, pledge, claim)
    return BindingProgress(BindingStage.FAILED, why) if why else BindingProgress(BindingStage.UNDER_WAY)


def written_version(book: StorageBook, pledge: Pledge) -> str | None:
    """Return the version of the object that says already what would be written; None where it is to be written."""
    if pledge.volume:
        volume = book.volumes.get(pledge.volume)
        return volume.metadata.resource_version if volume is not None and _is_for(volume, pledge) else None
    claim = book.claims.get(pledge.claim)
    written = claim is not None and claim.metadata.uid == pledge.uid and claim.selected_node == pledge.node
    return claim.metadata.resource_version if written and claim is not None else None


def _reached(book: StorageBook, claim: PersistentVolumeClaim, node: str, labels: Mapping[str, str]) -> BindingProgress:
    volume = book.volumes.get(claim.spec.volume_name)
    if volume is None:
        return BindingProgress(BindingStage.UNDER_WAY)  # made, and not seen yet
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None or affinity.required.matches(labels, node):
        return BindingProgress(BindingStage.BOUND)
    why = f'persistentvolume "{volume.metadata.name}" of claim "{claim.key[1]}" cannot be used on node "{node}"'
    return BindingProgress(BindingStage.FAILED, why)


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
