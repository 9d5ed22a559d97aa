"""Which class each waiting pod is of, and when it has become another.

What a selector reads of labels and what claims ask of a node can change while a pod waits. A pod that has a place
keeps the class it was placed as. The class of a record is changed here and nowhere else, so that whoever goes by the
classes of those who wait is told of every one that has become another (`take_changed`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from tutti.api.core import Pod
from tutti.api.owners import owner_of
from tutti.cluster.classes import ClassBook, PodClass
from tutti.cluster.pods import PodKey, PodRecord
from tutti.cluster.volume_needs import Volumes
from tutti.cluster.volumes import NO_VOLUMES, Use


class Classing:
    """Keeps the classes of waiting pods up to date."""

    def __init__(self, classes: ClassBook, volumes: Volumes, pods: Mapping[PodKey, PodRecord]) -> None:
        self._classes = classes
        self._volumes = volumes
        self._pods = pods
        self._watched = 0
        self._changed: dict[PodKey, None] = {}

    @property
    def changed(self) -> Collection[PodKey]:
        """The pods that have become of another class while they waited, since these were last taken."""
        return self._changed.keys()

    def take_changed(self) -> Sequence[PodKey]:
        """Return them in the order in which they did, for whoever takes note of all of them now."""
        changed, self._changed = tuple(self._changed), {}
        return changed

    def assign(self, record: PodRecord, klass: PodClass) -> None:
        """Have a pod be of a class."""
        if klass is not record.klass:
            record.klass = klass
            if not record.place:
                self._changed[record.key] = None

    def of(self, pod: Pod, record: PodRecord | None, uses: Sequence[Use], *, waits: bool) -> PodClass:
        """Return the class of a pod as it is seen now, which uses these claims."""
        meta = pod.metadata
        volumes = NO_VOLUMES
        if record is not None and record.place:
            volumes = record.klass.volumes
        elif uses and waits:
            volumes = self._volumes.needs((meta.namespace, meta.name), meta.uid, uses)
        owner = owner_of(meta.owner_references)
        return self._classes.of(pod.spec, meta.namespace, meta.labels, owner=owner, volumes=volumes, waits=waits)

    def by_labels(self) -> None:
        """Class the waiting pods again, where a label key has come to matter that did not before."""
        if len(self._classes.watched) == self._watched:
            return
        self._watched = len(self._classes.watched)
        for record in self._pods.values():
            if not record.place:
                self._again(record)

    def by_volumes(self, pods: Iterable[PodKey]) -> bool:
        """Class these pods again as far as they wait; returns whether any is of another class now."""
        waiting = [record for key in pods if (record := self._pods.get(key)) is not None and not record.place]
        changed = [record for record in waiting if self._again(record)]
        return bool(changed)

    def _again(self, record: PodRecord) -> bool:
        before = record.klass
        volumes = NO_VOLUMES
        if record.uses and not record.terminated:
            volumes = self._volumes.needs(record.key, record.uid, record.uses)
        labels = record.kin.labels
        now = self._classes.of(before.spec, record.namespace, labels, owner=before.owner, volumes=volumes)
        self.assign(record, now)
        return now is not before
