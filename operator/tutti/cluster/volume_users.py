"""Which pods use which claims, and what they attach to their nodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tutti.cluster.attachments import Attachments
from tutti.cluster.pods import PodKey
from tutti.cluster.storage import StorageBook
from tutti.cluster.volumes import ClaimKey, Use, VolumeName


class VolumeUsers:
    """The pods that use claims; what they attach follows the storage objects."""

    def __init__(self, book: StorageBook, attachments: Attachments) -> None:
        self._book = book
        self._attachments = attachments
        self._users: dict[ClaimKey, dict[PodKey, None]] = {}
        self._mounted: dict[PodKey, tuple[str, tuple[Use, ...], tuple[VolumeName, ...]]] = {}
        self._placed: dict[ClaimKey, int] = {}

    def __contains__(self, claim: ClaimKey) -> bool:
        return claim in self._users

    def of(self, claim: ClaimKey) -> Iterable[PodKey]:
        """Return the pods that use a claim."""
        return self._users.get(claim, ())

    def is_shared(self, claim: ClaimKey) -> bool:
        """Whether several pods use a claim."""
        return len(self._users.get(claim, ())) > 1

    def add(self, pod: PodKey, uses: Sequence[Use]) -> list[PodKey]:
        """Note the claims that a pod uses; returns the others that now share one."""
        sharing: list[PodKey] = []
        for use in uses:
            users = self._users.setdefault(use.claim, {})
            if pod not in users and len(users) == 1:
                sharing += users
            users[pod] = None
        return sharing

    def drop(self, pod: PodKey, uses: Sequence[Use]) -> list[PodKey]:
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

    def mount(self, pod: PodKey, node: str, uses: tuple[Use, ...]) -> None:
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
