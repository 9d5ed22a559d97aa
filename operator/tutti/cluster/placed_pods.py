"""The pods that take room on nodes: by the name of their node, and as columns with one slot per pod.

By name, because pods may be seen before their node is, and stay when it goes; room held for pods that do not exist
yet goes with its node. As columns, so that a question about all of them is one expression: what would be free on each
node if all pods below some priority were gone is a sum over these columns, kept up to date pod by pod.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tutti.api.resources import Amounts
from tutti.cluster.classes import PodClass
from tutti.cluster.columns import ResourceIndex, bounded, longer
from tutti.cluster.pods import AssumedAlike, PodKey, PodRecord
from tutti.cluster.requests import Scored

Hold = tuple[str, int]
"""Room held for a pod to come: the name of its node, and a number of its own."""


class PodFollower(Protocol):
    """Somebody who is told of every pod that takes room or may take it, and of room that is kept for pods to come."""

    def seen(self, record: PodRecord) -> None:
        """A pod has come, or something about it has changed: its place, its labels, whether it has ended."""

    def seen_all(self, alike: Sequence[AssumedAlike]) -> None:
        """All of these have got a place."""

    def gone(self, about: PodKey | Hold) -> None:
        """A pod is gone, or room is kept no more."""

    def kept(self, hold: Hold, pod_class: PodClass) -> None:
        """Room is kept for a pod of a class that does not exist yet."""

    def labels_read(self) -> Iterable[str]:
        """Return the keys of labels by which it tells pods apart now."""


class Nobody:
    """A follower who takes no note of anything."""

    def seen(self, record: PodRecord) -> None:
        """Nothing."""

    def seen_all(self, alike: Sequence[AssumedAlike]) -> None:
        """Nothing."""

    def gone(self, about: PodKey | Hold) -> None:
        """Nothing."""

    def kept(self, hold: Hold, pod_class: PodClass) -> None:
        """Nothing."""

    def labels_read(self) -> Iterable[str]:
        """None."""
        return ()


class PodsByNode:
    """The pods and holds of every node."""

    def __init__(self) -> None:
        self._pods: dict[str, dict[PodKey, PodRecord]] = {}
        self._coming: list[tuple[str, PodRecord]] = []  # who came since it was last asked who is where
        self._holds: dict[str, dict[int, PodClass]] = {}
        self._last_hold = 0
        self._held_for: dict[str, Counter[str]] = {}
        self._unheld: dict[str, None] = {}

    def pods_on(self, node: str) -> Collection[PodRecord]:
        """Return the pods on a node, in the order they came."""
        return self._by_node().get(node, {}).values()

    def add(self, node: str, record: PodRecord) -> None:
        """Note that a pod is on a node."""
        self._coming.append((node, record))

    def add_all(self, records: Sequence[PodRecord], nodes: Sequence[str]) -> None:
        """Note that pods are on nodes: `records[i]` on `nodes[i]`."""
        self._coming.extend(zip(nodes, records, strict=True))

    def _by_node(self) -> dict[str, dict[PodKey, PodRecord]]:
        """Return the pods of each node that has any, those included that have come since this was last asked."""
        pods, self._coming, coming = self._pods, [], self._coming
        for node, record in coming:
            here = pods.get(node)
            if here is None:
                here = pods[node] = {}
            here[record.key] = record
        return pods

    def remove(self, node: str, record: PodRecord) -> None:
        """Note that a pod is not on a node any more."""
        here = self._by_node()[node]
        del here[record.key]
        if not here:
            del self._pods[node]

    def hold(self, node: str, pod_class: PodClass) -> Hold:
        """Note that room on a node is held for a pod of a class."""
        self._last_hold += 1
        self._holds.setdefault(node, {})[self._last_hold] = pod_class
        self._held_for.setdefault(pod_class.namespace, Counter()).update(pod_class.requests)
        return node, self._last_hold

    def is_held(self, hold: Hold) -> bool:
        """Whether room is still held."""
        node, number = hold
        return number in self._holds.get(node, {})

    def end(self, hold: Hold) -> PodClass | None:
        """Hold room no more; returns for pods of which class it was held, None where it was not."""
        node, number = hold
        pod_class = self._holds.get(node, {}).pop(number, None)
        if pod_class is not None:
            self._unhold(pod_class)
        return pod_class

    def held_on(self, node: str) -> Collection[PodClass]:
        """Return the classes of the pods for which room is held on a node."""
        return self._holds.get(node, {}).values()

    def end_all(self, node: str) -> Collection[tuple[int, PodClass]]:
        """Hold no room on a node any more; returns the numbers of what was held, and for pods of which classes."""
        ended = self._holds.pop(node, {}).items()
        for _, pod_class in ended:
            self._unhold(pod_class)
        return ended

    def holds(self) -> Iterator[tuple[Hold, PodClass]]:
        """Yield all room that is held, and for pods of which class."""
        for node, here in self._holds.items():
            for number, pod_class in here.items():
                yield (node, number), pod_class

    def held_for(self, namespace: str) -> Mapping[str, int]:
        """Return what is held for pods of a namespace, in scheduling units."""
        return self._held_for.get(namespace, {})

    def take_unheld(self) -> list[str]:
        """Return the namespaces for whose pods less is held since this was last asked."""
        found, self._unheld = list(self._unheld), {}
        return found

    def _unhold(self, pod_class: PodClass) -> None:
        held = self._held_for[pod_class.namespace]
        held.subtract(pod_class.requests)
        self._unheld[pod_class.namespace] = None
        if not any(held.values()):
            del self._held_for[pod_class.namespace]


Slots = NDArray[np.int64]
"""int64[m]: slots of pods."""

_NOWHERE = -1


class PodColumns:
    """Every pod that takes room on a node that is known, whichever scheduler placed it.

    A slot is reused after its pod is gone; `row` says which slots hold one.

    Attributes:
        records: The pod in each slot, None in a free one.
        version: Grows whenever anything here changes.
    """

    def __init__(self) -> None:
        self.version = 0
        self.records: list[PodRecord | None] = []
        self._free: list[int] = []
        self._row = np.full(256, _NOWHERE, dtype=np.int32)
        self._priority = np.zeros(256, dtype=np.int64)
        self._started = np.zeros(256, dtype=np.float64)
        self._until = np.full(256, np.inf, dtype=np.float64)
        self._shape = np.zeros(256, dtype=np.int32)
        self._bound = np.zeros(256, dtype=np.bool_)
        self._leaving = np.zeros(256, dtype=np.bool_)
        self._tenancy = np.zeros(256, dtype=np.int64)
        self._shapes: list[tuple[Amounts, Scored]] = []
        self._users: list[int] = []
        self._free_shapes: list[int] = []
        self._shape_of: dict[Hashable, int] = {}
        self._taken: list[Amounts] = []
        self._matrices: tuple[int, NDArray[np.int64], NDArray[np.int64]] | None = None

    def __len__(self) -> int:
        """How many slots there are, free ones included."""
        return len(self.records)

    @property
    def row(self) -> NDArray[np.int32]:
        """int32[slots], the row of each pod's node, -1 in a free slot; a view."""
        return self._row[: len(self.records)]

    @property
    def priority(self) -> NDArray[np.int64]:
        """int64[slots]; a view."""
        return self._priority[: len(self.records)]

    @property
    def started(self) -> NDArray[np.float64]:
        """float64[slots], Unix seconds since when the kubelet has each pod, infinity where it has not; a view."""
        return self._started[: len(self.records)]

    @property
    def until(self) -> NDArray[np.float64]:
        """float64[slots], Unix seconds when each pod ends at the latest, infinity where nobody knows; a view."""
        return self._until[: len(self.records)]

    @property
    def bound(self) -> NDArray[np.bool_]:
        """bool[slots], whether the pod is bound; else its room is only reserved; a view."""
        return self._bound[: len(self.records)]

    @property
    def leaving(self) -> NDArray[np.bool_]:
        """bool[slots], whether the pod is being deleted; a view."""
        return self._leaving[: len(self.records)]

    @property
    def tenancy(self) -> NDArray[np.int64]:
        """int64[slots], how many pods each has had and not any more: while that stays, the pod is the same; a view."""
        return self._tenancy[: len(self.records)]

    def put(self, record: PodRecord, row: int) -> None:
        """Take in a pod on a row, or what has changed about one."""
        self.version += 1
        slot = record.slot
        if slot < 0:
            slot = record.slot = self._new_slot(record)
        self._row[slot] = row
        self._priority[slot] = record.priority
        self._started[slot] = np.inf if record.started is None else record.started
        self._bound[slot] = bool(record.node)
        self._leaving[slot] = record.deleting
        if self._taken[slot] is not record.held:
            before = int(self._shape[slot])
            self._shape[slot] = self._use(record.held, record.weight)
            self._drop_shape(before)
            self._taken[slot] = record.held

    def reserve(self, records: Sequence[PodRecord], rows: Sequence[int]) -> None:
        """Take in pods at once for which room is reserved, `records[i]` on row `rows[i]`; none is on a row yet."""
        if len(records) == 1:
            self.put(records[0], rows[0])
            return
        self.version += 1
        taken = [record.held for record in records]
        slots = self._free_slots(records, taken)
        self._shape[slots] = self._use_all(records, taken)
        self._row[slots] = rows
        self._priority[slots] = [record.priority for record in records]
        self._leaving[slots] = [record.deleting for record in records]
        self._started[slots] = self._until[slots] = np.inf
        self._bound[slots] = False

    def expect(self, slots: Sequence[int], until: float) -> None:
        """Note when the pods in some slots end at the latest, Unix seconds."""
        self._until[slots] = until

    def drop(self, record: PodRecord) -> None:
        """Forget a pod that is on no row any more."""
        slot = record.slot
        if slot < 0:
            return
        self.version += 1
        record.slot = -1
        self.records[slot] = None
        self._row[slot] = _NOWHERE
        self._tenancy[slot] += 1
        self._drop_shape(int(self._shape[slot]))
        self._free.append(slot)

    def at(self, slots: Slots) -> list[PodRecord]:
        """Return the pods in some slots, none of them free."""
        records = [self.records[slot] for slot in slots.tolist()]
        return [record for record in records if record is not None]

    def held(self, slots: Slots, axis: ResourceIndex) -> NDArray[np.int64]:
        """Return int64[len(slots), resources]: what each of these pods takes."""
        return self._per_shape(axis)[0][self._shape[slots]]

    def weight(self, slots: Slots, axis: ResourceIndex) -> NDArray[np.int64]:
        """Return int64[len(slots), 2]: what each of these pods takes of cpu and memory as the score counts it."""
        return self._per_shape(axis)[1][self._shape[slots]]

    def _per_shape(self, axis: ResourceIndex) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return int64[shapes, resources] and int64[shapes, 2], made anew where a shape or resource has come."""
        if self._matrices is None or self._matrices[0] != len(axis):
            held = np.zeros((len(self._shapes), len(axis)), dtype=np.int64)
            for code, (amounts, _) in enumerate(self._shapes):
                held[code] = axis.vector(amounts)  # whoever is on a node has made the columns for it
            weighs = [(bounded(cpu), bounded(memory)) for _, (cpu, memory) in self._shapes]
            weight = np.array(weighs, dtype=np.int64).reshape(-1, 2)
            self._matrices = (len(axis), held, weight)
        return self._matrices[1:]

    def _new_slot(self, record: PodRecord) -> int:
        if self._free:
            slot = self._free.pop()
            self.records[slot], self._taken[slot] = record, record.held
        else:
            slot = len(self.records)
            self.records.append(record)
            self._taken.append(record.held)
            if slot == len(self._row):
                self._grow()
        self._until[slot] = np.inf
        self._shape[slot] = self._use(record.held, record.weight)
        return slot

    def _free_slots(self, records: Sequence[PodRecord], taken: Sequence[Amounts]) -> Slots:
        """Give each of these pods a slot, its shape not yet set."""
        again = [self._free.pop() for _ in range(min(len(records), len(self._free)))]
        for slot, record, held in zip(again, records, taken, strict=False):
            self.records[slot], self._taken[slot] = record, held
        first = len(self.records)
        self.records.extend(records[len(again) :])
        self._taken.extend(taken[len(again) :])
        while len(self.records) > len(self._row):
            self._grow()
        slots = [*again, *range(first, len(self.records))]
        for slot, record in zip(slots, records, strict=True):
            record.slot = slot
        return np.array(slots, dtype=np.int64)

    def _use_all(self, records: Sequence[PodRecord], taken: Sequence[Amounts]) -> list[int]:
        """Return the shape of each of these pods; `taken[i]` is what `records[i]` takes."""
        same, codes = list(map(id, taken)), dict[int, int]()  # pods of one class share the record of what they take
        for one, record in dict(zip(same, records, strict=True)).items():
            codes[one] = self._use(record.held, record.weight)
            self._users[codes[one]] -= 1
        for one, many in Counter(same).items():
            self._users[codes[one]] += many
        return [codes[one] for one in same]

    def _use(self, held: Amounts, weight: Scored) -> int:
        key = (*held.items(), weight)
        code = self._shape_of.get(key)
        if code is None:
            if self._free_shapes:
                code = self._free_shapes.pop()
                self._shapes[code], self._users[code] = (held, weight), 0
            else:
                code = len(self._shapes)
                self._shapes.append((held, weight))
                self._users.append(0)
            self._shape_of[key] = code
            self._matrices = None
        self._users[code] += 1
        return code

    def _drop_shape(self, code: int) -> None:
        self._users[code] -= 1
        if not self._users[code]:
            held, weight = self._shapes[code]
            del self._shape_of[(*held.items(), weight)]
            self._free_shapes.append(code)

    def _grow(self) -> None:
        room = 2 * len(self._row)
        self._row = longer(self._row, room)
        self._priority = longer(self._priority, room)
        self._started = longer(self._started, room)
        self._until = longer(self._until, room)
        self._shape = longer(self._shape, room)
        self._bound = longer(self._bound, room)
        self._leaving = longer(self._leaving, room)
        self._tenancy = longer(self._tenancy, room)
