"""Which equivalence class each waiting pod is of, and when it has become another.

What a selector reads of labels and what claims ask of a node can change while a pod waits: a label key comes to
matter, a claim becomes shared, a volume is taken or free again. A pod that has a place keeps the class it was placed
as. The class of a record is changed here and nowhere else, so that whoever goes by the classes of those who wait is
told of every one that has become another (`take_changed`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from tutti.api.core import Pod
from tutti.api.owners import owner_of
from tutti.api.storage import PersistentVolumeClaim
from tutti.cluster.class_book import ClassBook
from tutti.cluster.classes import PodClass
from tutti.cluster.devices.asks import NO_DEVICES, DeviceUse
from tutti.cluster.devices.state import DeviceState
from tutti.cluster.label_keys import LabelKeys
from tutti.cluster.pods import PodKey, PodRecord
from tutti.cluster.storage import StorageKind, StorageObject
from tutti.cluster.volume_needs import VolumeState
from tutti.cluster.volumes import NO_VOLUMES, ClaimUse, VolumeNeeds

_NeedsOfUses = dict[tuple[ClaimUse, ...], VolumeNeeds]
"""What those ask who use the same claims, as long as nothing changes."""


class Classifier:
    """Keeps the classes of waiting pods up to date.

    Attributes:
        changed: The pods that have become of another class while they waited, since these were last taken, in order.
    """

    def __init__(
        self, classes: ClassBook, volumes: VolumeState, devices: DeviceState, pods: Mapping[PodKey, PodRecord]
    ) -> None:
        self._classes = classes
        self._volumes = volumes
        self._devices = devices
        self._pods = pods
        self._labelled = LabelKeys(lambda: ((key, one.pod_signature.labels) for key, one in pods.items()))
        self.changed: dict[PodKey, None] = {}

    def take_changed(self) -> Sequence[PodKey]:
        """Return those that have changed, in this order, for whoever takes note of all of them now."""
        changed = tuple(self.changed)
        self.changed.clear()
        return changed

    def assign(self, record: PodRecord, pod_class: PodClass) -> None:
        """Have a pod be of a class."""
        if pod_class is not record.pod_class:
            record.pod_class = pod_class
            if not record.place:
                self.changed[record.key] = None

    def elsewhere(self, record: PodRecord) -> PodClass:
        """Return the class that an equal pod would be of in its place: what its claims ask of a node stands in it."""
        of = record.pod_class
        if not record.uses and not record.device_uses and of.devices is NO_DEVICES:
            return of
        volumes = self._volumes.needs(record.key, record.uid, record.uses)
        devices = self._devices.needs(
            record.key, record.uid, record.device_uses, of.spec, scheduler=record.scheduler, elsewhere=True
        )
        return self._classes.of(
            of.spec,
            record.namespace,
            of.labels,
            owner=of.owner,
            volumes=volumes,
            devices=devices,
            cards=of.cards,
            waits=False,
        )

    def of(
        self,
        pod: Pod,
        record: PodRecord | None,
        uses: Sequence[ClaimUse],
        device_uses: Sequence[DeviceUse],
        *,
        waits: bool,
    ) -> PodClass:
        """Return the class of a pod as it is seen now, which uses these claims on volumes, and these on devices."""
        meta = pod.metadata
        volumes, devices = NO_VOLUMES, NO_DEVICES
        if record is not None and record.place:
            kept = record.pod_class
            volumes, devices, cards = kept.volumes, kept.devices, kept.cards
        else:
            cards = self._classes.card_needs(pod.spec, meta.annotations)
            if waits and uses:
                volumes = self._volumes.needs((meta.namespace, meta.name), meta.uid, uses)
            if waits and (device_uses or self._devices.book.asked_by_name):
                key, scheduler = (meta.namespace, meta.name), pod.spec.scheduler_name
                devices = self._devices.needs(key, meta.uid, device_uses, pod.spec, scheduler=scheduler)
        owner = owner_of(meta.owner_references)
        return self._classes.of(
            pod.spec,
            meta.namespace,
            meta.labels,
            owner=owner,
            volumes=volumes,
            devices=devices,
            cards=cards,
            waits=waits,
        )

    def relabelled(self, record: PodRecord) -> None:
        """Take note of a pod that is new or may have other labels than before."""
        self._labelled.note(record.key, record.pod_signature.labels)

    def by_labels(self) -> None:
        """Class the waiting pods again that have a label of which the key has come to matter."""
        for key in dict.fromkeys(pod for label in self._classes.take_fresh() for pod in self._labelled.having(label)):
            record = self._pods.get(key)
            if record is not None and not record.place:
                self._again(record, {})

    def again(self, pods: Iterable[PodKey]) -> bool:
        """Class these pods again as far as they wait; returns whether any is of another class now."""
        found = (self._pods.get(key) for key in dict.fromkeys(pods))
        waiting = [record for record in found if record is not None and not record.place]
        asked: _NeedsOfUses = {}
        changed = [record for record in waiting if self._again(record, asked)]
        return bool(changed)

    def _again(self, record: PodRecord, asked: _NeedsOfUses) -> bool:
        before = record.pod_class
        volumes, devices = NO_VOLUMES, NO_DEVICES
        if record.uses and not record.terminated:
            volumes = self._volume_needs(record, asked)
        if (record.device_uses or self._devices.book.asked_by_name) and not record.terminated:
            uses, scheduler = record.device_uses, record.scheduler
            devices = self._devices.needs(record.key, record.uid, uses, before.spec, scheduler=scheduler)
        labels = record.pod_signature.labels
        now = self._classes.of(
            before.spec,
            record.namespace,
            labels,
            owner=before.owner,
            volumes=volumes,
            devices=devices,
            cards=before.cards,
        )
        self.assign(record, now)
        return now is not before

    def _volume_needs(self, record: PodRecord, asked: _NeedsOfUses) -> VolumeNeeds:
        """Return what the volumes of a pod ask; pods that use the same claims, and none made for them, ask the same."""
        known = asked.get(record.uses)
        if known is None:
            known = self._volumes.needs(record.key, record.uid, record.uses)
            if not any(use.ephemeral for use in record.uses):
                asked[record.uses] = known
        return known


class PodsByClaim:
    """Follows pods and storage, and calls whenever somebody who waits for a node may profit.

    `helped` is called where that is one whose own claims are others by now, or may be used by him now;
    `storage_changed` where it may be anybody who has claims.
    """

    def __init__(
        self,
        volumes: VolumeState,
        classing: Classifier,
        classes: ClassBook,
        *,
        helped: Callable[[], None],
        storage_changed: Callable[[], None],
    ) -> None:
        self._volumes = volumes
        self._classing = classing
        self._classes = classes
        self._helped = helped
        self._tell_changed = storage_changed

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

    def add(self, pod: PodKey, uses: Sequence[ClaimUse]) -> None:
        """Note the claims that a pod uses."""
        self.classed_anew(self._volumes.users.add(pod, uses))

    def leave(self, pod: PodKey, uses: Sequence[ClaimUse]) -> None:
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
        self.classed_anew(self._volumes.pledge(record.key, record.pod_class, record.assumed, record.uses))

    def release(self, record: PodRecord) -> None:
        """Promise the claims of a pod nothing any more, since it is bound or its room was given back."""
        before = self._volumes.pledges.version
        self.classed_anew((record.key, *self._volumes.release(record.key)))
        if self._volumes.pledges.version != before:  # a volume that was promised is free
            self._tell_changed()

    def classed_anew(self, pods: Iterable[PodKey]) -> None:
        """Class pods again whose volumes may ask something else of a node now."""
        if self._classing.again(pods):
            self._helped()

    def _storage_changed(self, pods: Iterable[PodKey], before: int, *, is_claim: bool) -> None:
        """Let those who wait profit from a change, if there was any; a claim concerns only the pods that use it."""
        self.classed_anew(pods)
        if self._classes.claiming and not is_claim and self._volumes.book.changes != before:
            self._tell_changed()
