"""Pods that use claims, kept in step with the storage objects and with where the pods are.

What one pod or object does can change what the volumes of others ask of a node: a claim becomes shared, a volume is
taken or free again. Those who wait are then of another class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tutti.api.storage import PersistentVolumeClaim
from tutti.cluster.classes import ClassBook
from tutti.cluster.classing import Classing
from tutti.cluster.pods import PodKey, PodRecord
from tutti.cluster.storage import StorageKind, StorageObject
from tutti.cluster.volume_needs import Volumes
from tutti.cluster.volumes import Use


class Claimants:
    """Follows pods and storage; `helped` is called whenever somebody who waits for a node may profit."""

    def __init__(self, volumes: Volumes, classing: Classing, classes: ClassBook, *, helped: Callable[[], None]) -> None:
        self._volumes = volumes
        self._classing = classing
        self._classes = classes
        self._helped = helped

    def put(self, seen: StorageObject) -> list[PodKey]:
        """Add or change a storage object; returns the pods whose volumes it concerns."""
        before = self._volumes.book.changes
        pods = self._volumes.put(seen)
        self._storage_changed(pods, before, is_claim=isinstance(seen, PersistentVolumeClaim))
        return pods

    def drop(self, kind: StorageKind, namespace: str, name: str) -> list[PodKey]:
        """Forget a storage object; returns the pods whose volumes it concerned."""
        before = self._volumes.book.changes
        pods = self._volumes.drop(kind, namespace, name)
        self._storage_changed(pods, before, is_claim=kind == "PersistentVolumeClaim")
        return pods

    def add(self, pod: PodKey, uses: Sequence[Use]) -> None:
        """Note the claims that a pod uses."""
        self.classed_anew(self._volumes.users.add(pod, uses))

    def leave(self, pod: PodKey, uses: Sequence[Use]) -> None:
        """Note that a pod, which has ended or is gone, uses its claims no more."""
        self.classed_anew(self._volumes.users.drop(pod, uses))

    def move(self, record: PodRecord, node: str, sign: int) -> None:
        """Count what a pod attaches to a node; with `sign` -1 take it back."""
        if sign > 0:
            self._volumes.users.mount(record.key, node, record.uses)
        else:
            self._volumes.users.unmount(record.key)

    def lose_node(self, record: PodRecord) -> None:
        """Take back what a pod attached to a node that is gone; a claim for one pod is another's to use now."""
        self._volumes.users.unmount(record.key)
        if self._volumes.frees_one_of(record.uses):
            self._helped()

    def reserve(self, record: PodRecord) -> None:
        """Count what a pod attaches to the node it is assumed on, and promise its claims what was chosen for them."""
        self.move(record, record.assumed, 1)
        self.classed_anew(self._volumes.pledge(record.key, record.klass, record.assumed, record.uses))

    def release(self, record: PodRecord) -> None:
        """Promise the claims of a pod nothing any more, since it is bound or its room was given back."""
        self.classed_anew((record.key, *self._volumes.release(record.key)))

    def classed_anew(self, pods: Iterable[PodKey]) -> None:
        """Class pods again whose volumes may ask something else of a node now."""
        if self._classing.by_volumes(pods):
            self._helped()

    def _storage_changed(self, pods: Iterable[PodKey], before: int, *, is_claim: bool) -> None:
        """Let those who wait profit from a change, if there was any; a claim concerns only the pods that use it."""
        self.classed_anew(pods)
        if self._classes.claiming and not is_claim and self._volumes.book.changes != before:
            self._helped()
