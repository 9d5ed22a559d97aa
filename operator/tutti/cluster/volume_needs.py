"""Which pods use which claims, and what their volumes ask of a node, read off the storage objects.

Rules: kube-scheduler 1.36, plugins/volumebinding/binder.go (which claims are bound, wait, or stand in the way),
plugins/volumezone (zones of volumes), plugins/nodevolumelimits/csi.go (what counts as attached).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from tutti.api.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from tutti.cluster.classes import PodClass
from tutti.cluster.pledges import Pledges
from tutti.cluster.pods import PodKey
from tutti.cluster.storage import Attachments, StorageBook, StorageKind, StorageObject
from tutti.cluster.volumes import (
    NO_VOLUMES,
    AttachedVolume,
    ClaimKey,
    ClaimUse,
    UnboundClaim,
    VolumeName,
    VolumeNeeds,
    VolumeReach,
)
from tutti.cluster.volumes_of_class import is_large_enough


class VolumeUsers:
    """The pods that use claims; what they attach follows the storage objects."""

    def __init__(self, book: StorageBook, attachments: Attachments) -> None:
        self._book = book
        self._attachments = attachments
        self._users: dict[ClaimKey, dict[PodKey, None]] = {}
        self._mounted: dict[PodKey, tuple[str, tuple[ClaimUse, ...], tuple[VolumeName, ...]]] = {}
        self._placed: dict[ClaimKey, int] = {}

    def __contains__(self, claim: ClaimKey) -> bool:
        return claim in self._users

    def of(self, claim: ClaimKey) -> Iterable[PodKey]:
        """Return the pods that use a claim."""
        return self._users.get(claim, ())

    def is_shared(self, claim: ClaimKey) -> bool:
        """Whether several pods use a claim."""
        return len(self._users.get(claim, ())) > 1

    def add(self, pod: PodKey, uses: Sequence[ClaimUse]) -> list[PodKey]:
        """Note the claims that a pod uses; returns the others that now share one."""
        sharing: list[PodKey] = []
        for use in uses:
            users = self._users.setdefault(use.claim, {})
            if pod not in users and len(users) == 1:
                sharing += users
            users[pod] = None
        return sharing

    def drop(self, pod: PodKey, uses: Sequence[ClaimUse]) -> list[PodKey]:
        """Note that a pod uses its claims no more; returns the others that now have one for themselves."""
        alone: list[PodKey] = []
        for use in uses:
            users = self._users.get(use.claim, {})
            if pod in users:
                del users[pod]
                if len(users) == 1:
                    alone += users
                if not users:
                    del self._users[use.claim]
        return alone

    def mount(self, pod: PodKey, node: str, uses: tuple[ClaimUse, ...]) -> None:
        """Count what a pod attaches to its node."""
        volumes = tuple(dict.fromkeys(filter(None, (self._book.volume_of(use.claim) for use in uses))))
        self._mounted[pod] = (node, uses, volumes)
        self._count(pod, 1)

    def unmount(self, pod: PodKey) -> None:
        """Take back what a pod attaches to its node."""
        self._count(pod, -1)
        del self._mounted[pod]

    def occupy(self, claim: ClaimKey, count: int) -> None:
        """Count pods with a node that use a claim; a negative count takes them away."""
        self._placed[claim] = self._placed.get(claim, 0) + count
        if not self._placed[claim]:
            del self._placed[claim]

    def is_occupied(self, claim: ClaimKey) -> bool:
        """Whether a pod that has a node uses a claim."""
        return claim in self._placed

    def changed(self, claims: Iterable[ClaimKey]) -> list[PodKey]:
        """Count anew what the users of claims attach; returns the users."""
        users = list(dict.fromkeys(pod for claim in claims for pod in self._users.get(claim, ())))
        for pod in users:
            mounted = self._mounted.get(pod)
            if mounted is not None:
                self.unmount(pod)
                self.mount(pod, *mounted[:2])
        return users

    def _count(self, pod: PodKey, sign: int) -> None:
        node, uses, volumes = self._mounted[pod]
        for volume in volumes:
            self._attachments.use(node, volume, sign)
        for use in uses:
            if not use.ephemeral:
                self.occupy(use.claim, sign)


BETA_ZONES = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
"""Old labels of zones and regions, and those that replace them."""

ZONE_LABELS = (*BETA_ZONES, *BETA_ZONES.values())

_UNBOUND = "pod has unbound immediate PersistentVolumeClaims"


class VolumeState:
    """Everything about volumes: objects, users, and what was decided here.

    Attributes:
        book: The storage objects.
        users: Which pods use which claims.
        attachments: What is attached where.
        pledges: What was decided here and the API server does not show yet.
    """

    def __init__(self) -> None:
        self.attachments = Attachments()
        self.book = StorageBook(self.attachments)
        self.users = VolumeUsers(self.book, self.attachments)
        self.pledges = Pledges()

    def put(self, seen: StorageObject) -> list[PodKey]:
        """Add or change a storage object; returns the pods whose needs may be others now."""
        before = self.book.changes
        claims = self.book.put(seen)
        return self._concerned(claims, seen.metadata.name if isinstance(seen, StorageClass) else "", before)

    def drop(self, kind: StorageKind, namespace: str, name: str) -> list[PodKey]:
        """Forget a storage object; returns the pods whose needs may be others now."""
        before = self.book.changes
        claims = self.book.drop(kind, namespace, name)
        return self._concerned(claims, name if kind == "StorageClass" else "", before)

    def needs(self, pod: PodKey, uid: str, uses: Sequence[ClaimUse]) -> VolumeNeeds:
        """Return what the volumes of a pod, whose uses are noted, ask of its node."""
        if not uses:
            return NO_VOLUMES
        problem = next(self._problems(pod, uid, uses), "")
        if problem:
            return VolumeNeeds(problem)
        claims = self.book.claims
        reaches = [self._reach(use) for use in uses if claims[use.claim].fully_bound]
        return VolumeNeeds(
            bound=tuple(one for i, one in enumerate(reaches) if one not in reaches[:i]),
            wanted=tuple(self._wanted(claims[key]) for key, _ in self.wants(uses)),
            attached=tuple(sorted(self._attached(uses))),
            once=tuple(
                "/".join(use.claim)
                for use in uses
                if claims[use.claim].once and not use.ephemeral and self.users.is_shared(use.claim)
            ),
        )

    def wants(self, uses: Sequence[ClaimUse]) -> list[tuple[ClaimKey, str]]:
        """Return the claims, with their uids, that are bound when the pod has a node: the smallest first."""
        claims = (self.book.claims[use.claim] for use in uses if use.claim in self.book.claims)
        waiting = [claim for claim in claims if not claim.fully_bound]
        return [(claim.key, claim.metadata.uid) for claim in sorted(waiting, key=lambda claim: claim.size or 0)]

    def pledge(self, pod: PodKey, pod_class: PodClass, node: str, uses: Sequence[ClaimUse]) -> list[PodKey]:
        """Promise the claims of a pod what its class was given on a node; returns the others that use new promises."""
        claims = self.wants(uses)
        if not claims:
            return []
        promised = self.pledges.pledge(pod, pod_class, node, claims)
        return [other for key in promised for other in self.users.of(key) if other != pod]

    def release(self, pod: PodKey) -> list[PodKey]:
        """Promise the claims of a pod nothing any more; returns the others that use them."""
        return [other for claim in self.pledges.release(pod) for other in self.users.of(claim) if other != pod]

    def hold(self, needs: VolumeNeeds, node: str, count: int) -> None:
        """Count what so many pods that are not named yet attach to a node; a negative count takes it back."""
        for one in needs.attached:
            if one.handle:
                self.attachments.use(node, (one.driver, one.handle), count)
            else:
                self.attachments.add(node, one.driver, count)
        for claim in needs.once:
            namespace, _, name = claim.partition("/")
            self.users.occupy((namespace, name), count)

    def frees_one_of(self, uses: Sequence[ClaimUse]) -> bool:
        """Whether one of these is of a claim for one pod that no pod with a node uses now."""
        claims = (self.book.claims.get(use.claim) for use in uses if not use.ephemeral)
        return any(one is not None and one.once and not self.users.is_occupied(one.key) for one in claims)

    def free_volumes(self, wanted: UnboundClaim) -> Iterator[PersistentVolume]:
        """Yield the volumes that a claim could be bound to, wherever they are, the smallest first.

        Rule: component-helpers/storage/volume/pv_helpers.go, FindMatchingVolume, 1.36. Ties go by name.
        """
        shelf = self.book.of_class(wanted.storage_class)
        if wanted.reserved:
            found = shelf.named(wanted.reserved)
            if found is not None and is_large_enough(found, wanted):
                yield found
            return
        yield from (volume for volume in shelf.unclaimed(wanted) if not self.pledges.is_taken(volume.metadata.name))

    def _concerned(self, claims: Sequence[ClaimKey], storage_class: str, before: int) -> list[PodKey]:
        if storage_class and self.book.changes != before:
            claims = [k for k, c in self.book.claims.items() if c.storage_class == storage_class and k in self.users]
        return self.users.changed(claims)

    def _problems(self, pod: PodKey, uid: str, uses: Sequence[ClaimUse]) -> Iterator[str]:
        """Yield what keeps a pod from any node, in the order in which kube-scheduler's plugins come to it."""
        claims, volumes = self.book.claims, self.book.volumes
        for use in uses:
            if not use.ephemeral and use.claim not in claims:
                yield f'persistentvolumeclaim "{use.claim[1]}" not found'
        for use in uses:
            yield from _in_the_way(claims, pod, uid, use)
        if not all(self._is_ready(claims[use.claim]) for use in uses):
            yield _UNBOUND
        for use in uses:
            volume = claims[use.claim].spec.volume_name
            if not use.ephemeral and volume and volume not in volumes:
                yield f'persistentvolume "{volume}" not found'

    def _is_ready(self, claim: PersistentVolumeClaim) -> bool:
        """Whether a claim is bound, or is to be once its pod has a node."""
        if claim.fully_bound:
            return True
        found = self.book.classes.get(claim.storage_class)
        return found is not None and found.waits and not claim.spec.volume_name

    def _reach(self, use: ClaimUse) -> VolumeReach:
        volume = self.book.volumes.get(self.book.claims[use.claim].spec.volume_name)
        if volume is None:
            return VolumeReach(missing=True)
        affinity = volume.spec.node_affinity.required if volume.spec.node_affinity is not None else None
        return VolumeReach(affinity, () if use.ephemeral else _zones(volume))

    def _wanted(self, claim: PersistentVolumeClaim) -> UnboundClaim:
        pledge, size = self.pledges.of(claim.key), claim.size
        assert size is not None  # such a claim stands in the way
        wanted = UnboundClaim(
            storage_class=claim.storage_class,
            size=size,
            modes=tuple(sorted(claim.spec.access_modes)),
            mode=claim.spec.volume_mode,
            selector=claim.spec.selector,
            attributes_class=claim.spec.volume_attributes_class_name,
            selected=pledge.node if pledge is not None and not pledge.volume else claim.selected_node,
            reserved=pledge.volume if pledge is not None else "",
            promised=pledge is not None and bool(pledge.volume),
            shared="/".join(claim.key) if self.users.is_shared(claim.key) else "",
        )
        if wanted.promised:
            return wanted
        fitting = (volume for volume in self.book.meant_for(claim) if is_large_enough(volume, wanted))
        reserved = next((volume.metadata.name for volume in fitting), "")
        return msgspec.structs.replace(wanted, reserved=reserved) if reserved else wanted

    def _attached(self, uses: Sequence[ClaimUse]) -> Iterator[AttachedVolume]:
        seen = {}
        for use in uses:
            volume = self.book.volume_of(use.claim)
            if volume is not None:
                shared = self.users.is_shared(use.claim) or self.book.is_twofold(volume)
                seen[volume] = AttachedVolume(volume[0], volume[1] if shared else "")
        yield from seen.values()


def _in_the_way(
    claims: Mapping[ClaimKey, PersistentVolumeClaim], pod: PodKey, uid: str, use: ClaimUse
) -> Iterator[str]:
    namespace, name = use.claim
    claim = claims.get(use.claim)
    if claim is None:
        yield f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
        return
    if claim.status.phase == "Lost":
        volume = claim.spec.volume_name
        yield f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{volume}"'
    if claim.metadata.deletion_timestamp is not None:
        yield f'persistentvolumeclaim "{name}" is being deleted'
    if use.ephemeral and not any(one.controller and one.uid == uid for one in claim.metadata.owner_references):
        yield f"PVC {namespace}/{name} was not created for pod {'/'.join(pod)} (pod is not owner)"
    if claim.size is None:
        yield f'persistentvolumeclaim "{name}" asks for {claim.asks!r} of storage, which is not a quantity'


def _zones(volume: PersistentVolume) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the zone and region labels of a volume; several values are joined by two underscores."""
    out = []
    for key in ZONE_LABELS:
        if key in volume.metadata.labels:
            values = [value.strip() for value in volume.metadata.labels[key].split("__")]
            if all(values):
                out.append((key, tuple(values)))
    return tuple(out)
