"""Nodes as columns: one row per node, one array per thing that a filter or score reads.

A row is reused after its node is gone; `present` says which rows hold a node. Arrays grow by doubling, so that
row numbers and slices stay valid while a transaction is open. Each column lies in one piece of memory, because that
is how filters and scores read.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from tutti.api.core import ContainerImage, Node
from tutti.api.resources import Amounts
from tutti.api.selectors import Taint, parse_integer
from tutti.cluster.cards.columns import CardColumns
from tutti.cluster.cards.holders import CardHolders
from tutti.cluster.classes import PodClass
from tutti.cluster.columns import MOST_AMOUNT, UNKNOWN_RESOURCE, ResourceIndex, bounded, longer, wider
from tutti.cluster.devices.asks import NO_DEVICES, DeviceNeeds
from tutti.cluster.devices.columns import NodeView
from tutti.cluster.devices.state import DeviceState
from tutti.cluster.devices.zones import ZonesAhead
from tutti.cluster.label_index import LabelIndex, NamespaceIndex
from tutti.cluster.load import LoadColumns
from tutti.cluster.network import NetworkState
from tutti.cluster.nominated_pods import NominatedPods
from tutti.cluster.numa import NumaColumns
from tutti.cluster.volume_needs import VolumeState


def normalised(name: str) -> str:
    """Return an image name with its tag; one without tag or digest means `latest` (plugins/imagelocality)."""
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"


_TIMED = frozenset({"ToBeDeletedByClusterAutoscaler", "DeletionCandidateOfClusterAutoscaler"})
"""Taints whose value is the time at which they were set (cluster-autoscaler 1.36, utils/taints)."""


def untimed(taint: Taint) -> Taint:
    """Return a taint without the time: it tells nodes apart that are alike, and no pod can name it."""
    return msgspec.structs.replace(taint, value="") if taint.key in _TIMED else taint


class ImageTable:
    """Image name to the rows that hold it.

    Attributes:
        version: Grows whenever an image comes to a node or leaves it.
    """

    def __init__(self) -> None:
        self.version = 0
        self._sizes: dict[str, dict[int, int]] = {}
        self._on: dict[int, dict[str, int]] = {}

    def put(self, row: int, images: Iterable[ContainerImage]) -> None:
        """Say which images a row holds now."""
        now = {name: image.size_bytes for image in images for name in image.names}
        before = self._on.get(row, {})
        if now == before:
            return
        for name in before:
            holders = self._sizes[name]
            del holders[row]
            if not holders:
                del self._sizes[name]
        for name, size in now.items():
            self._sizes.setdefault(name, {})[row] = size
        if now:
            self._on[row] = now
        else:
            self._on.pop(row, None)
        self.version += 1

    def holders(self, name: str) -> Mapping[int, int]:
        """Return row to size in bytes, for the rows that hold an image."""
        return self._sizes.get(name, {})

    def sizes(self, name: str, rows: int) -> NDArray[np.int64]:
        """Return int64[rows]: the size of an image in bytes where a row holds it, else 0."""
        out = np.zeros(rows, dtype=np.int64)
        held = self.holders(name)
        if held:
            out[np.fromiter(held, dtype=np.int64, count=len(held))] = list(held.values())
        return out


ABSENT = -1

K = TypeVar("K")
T = TypeVar("T")


@dataclass(slots=True)
class LabelColumn:
    """One label key over all rows: `codes` int32[rows] into `values`, ABSENT where a node lacks the key.

    `version` grows whenever the code of a row changes.
    """

    codes: NDArray[np.int32]
    values: list[str] = field(default_factory=list)
    code_of: dict[str, int] = field(default_factory=dict)
    version: int = 0
    _integers: list[int | None] = field(default_factory=list)

    @property
    def integers(self) -> Sequence[int | None]:
        """What each of `values` is as an integer, None where it is none; each is read once."""
        self._integers.extend(map(parse_integer, self.values[len(self._integers) :]))
        return self._integers

    def put(self, row: int, value: str | None) -> None:
        """Set one row."""
        code = ABSENT if value is None else self._code(value)
        if code != self.codes[row]:
            self.codes[row] = code
            self.version += 1

    def fill(self, values: Sequence[str | None]) -> None:
        """Set the first rows of a new column."""
        self.values = [value for value in dict.fromkeys(values) if value is not None]
        self._integers = []
        self.code_of = {value: code for code, value in enumerate(self.values)}
        code_of: dict[str | None, int] = dict(self.code_of.items())
        code_of[None] = ABSENT
        self.codes[: len(values)] = np.fromiter(map(code_of.__getitem__, values), np.int32, len(values))
        self.version += 1

    def _code(self, value: str) -> int:
        code = self.code_of.get(value)
        if code is None:
            code = self.code_of[value] = len(self.values)
            self.values.append(value)
        return code


class NodeColumns:
    """All nodes.

    Attributes:
        axis: Which resource stands in which column.
        allocatable: int64[rows, resources], what each node offers, in scheduling units. This and the next six are
            views, made anew when the table gets longer or wider: ask for them in each turn.
        requested: int64[rows, resources], what is bound or reserved there.
        scored: int64[rows, 2], cpu and memory of the same pods as scores count them (`requests.DEFAULT_REQUESTS`).
        present: bool[rows], which rows hold a node.
        unschedulable: bool[rows], which nodes are cordoned.
        taint_code: int32[rows] into `taint_sets`, the distinct lists of taints.
        feature_code: int32[rows] into `feature_sets`, the distinct sets of features that nodes declare.
        version: Grows whenever labels, taints, cordons, declared features or the set of nodes change; masks are kept
            for one version.
        supply: Grows whenever what nodes offer changes, or which of them do.
        images: Which images are where.
        label_index: Which pods are where.
        nominated: Which pods are nominated, for as long as somebody is tried for whom they count.
        namespaces: Namespaces, and what selects pods.
        derived: What has been worked out of columns, with a stamp of what it was worked out of.
        volumes: Storage, and who uses it.
        devices: Devices, and who holds them.
        numa: The NUMA zones of the nodes that tell of them.
        cards: The cards that pods share, of the nodes that tell of them.
        card_holders: Who has which parts of these.
        load: What nodes were measured to use, where a profile asks for it.
        network: Which pods talk to one another, and what that costs, where the configuration has it.
        zones_ahead: Tells from which NUMA zones the next pods of a class get their cores, for the choice of devices.
    """

    def __init__(self) -> None:
        self.resource_index = ResourceIndex()
        self.rows: dict[str, int] = {}
        self.names: list[str] = []
        self.labels: list[Mapping[str, str]] = []
        self.taint_sets: list[tuple[Taint, ...]] = [()]
        self._taint_code_of: dict[tuple[Taint, ...], int] = {(): 0}
        self.feature_sets: list[frozenset[str]] = [frozenset()]
        self._feature_code_of: dict[frozenset[str], int] = {frozenset(): 0}
        self._label_columns: dict[str, LabelColumn] = {}
        self._carriers: dict[str, int] = {}  # how many nodes carry each label
        self._free: list[int] = []
        self.version = 0
        self.capacity_version = 0
        self.images = ImageTable()
        self.label_index = LabelIndex()
        self.nominated: NominatedPods | None = None
        self.namespaces = NamespaceIndex()
        self.derived: dict[Hashable, object] = {}
        self.volumes = VolumeState()
        self.devices = DeviceState()
        self.numa = NumaColumns(self.rows, self.names)
        self.cards = CardColumns(self.rows, self.names)
        self.card_holders = CardHolders(self.cards)
        self.load = LoadColumns(self.rows)
        self.network = NetworkState()
        self.zones_ahead: Callable[[PodClass, NodeColumns], ZonesAhead | None] = lambda *_: None
        room, width = 16, 8
        self._allocatable = np.zeros((room, width), dtype=np.int64, order="F")
        self._requested = np.zeros((room, width), dtype=np.int64, order="F")
        self._scored = np.zeros((room, 2), dtype=np.int64, order="F")
        self._present = np.zeros(room, dtype=np.bool_)
        self._unschedulable = np.zeros(room, dtype=np.bool_)
        self._taint_code = np.zeros(room, dtype=np.int32)
        self._feature_code = np.zeros(room, dtype=np.int32)
        self._nobodys = LabelColumn(np.full(room, ABSENT, dtype=np.int32))
        self._renew_views()

    def __len__(self) -> int:
        return len(self.names)

    @property
    def count(self) -> int:
        """How many nodes there are (rows without a node do not count)."""
        return len(self.rows)

    def put(self, node: Node, allocatable: Amounts) -> int:
        """Add or change a node; returns its row. What is requested there is left alone."""
        name = node.metadata.name
        for resource in allocatable:
            self.resource_index.add(resource)
        self._widen()
        vector = np.minimum(self.resource_index.vector(allocatable), MOST_AMOUNT)
        row = self.rows.get(name)
        if row is None:
            row = self._new_row(name)
        before = self._allocatable[row].copy()
        self._allocatable[row] = 0
        self._allocatable[row, : len(vector)] = vector
        self.capacity_version += bool((self._allocatable[row] != before).any())
        self.images.put(row, node.status.images)
        taints, features = tuple(map(untimed, node.spec.taints)), frozenset(node.status.declared_features)
        if self._is_unchanged(row, node, taints, features):
            return row
        self._unschedulable[row] = node.spec.unschedulable
        self._taint_code[row] = _code(taints, self._taint_code_of, self.taint_sets)
        self._feature_code[row] = _code(features, self._feature_code_of, self.feature_sets)
        self._set_labels(row, node.metadata.labels)
        self.version += 1
        self.capacity_version += 1
        return row

    def close(self, name: str) -> None:
        """Have a node take no new pods until it is put again; nothing happens where it is not known."""
        row = self.rows.get(name)
        if row is not None and not self._unschedulable[row]:
            self._unschedulable[row] = True
            self.version += 1
            self.capacity_version += 1

    def remove(self, name: str) -> None:
        """Take a node out; its row becomes free."""
        row = self.rows.pop(name)
        if self.numa:
            self.numa.empty(row)
        self.cards.empty(row, name)
        if self.load:
            self.load.empty(row)
        self._present[row] = False
        self._allocatable[row] = 0
        self._requested[row] = 0
        self._scored[row] = 0
        self.images.put(row, ())
        self.names[row] = ""
        self._set_labels(row, {})
        self._free.append(row)
        self.version += 1
        self.capacity_version += 1

    def charge(self, row: int, amounts: Mapping[str, int], weight: tuple[int, int], sign: int) -> None:
        """Add what `sign` equal pods take on a row, or below 0 free; `weight` is cpu and memory for the score."""
        requested, column_of = self._requested, self.resource_index.column_of
        for name, amount in amounts.items():
            at = column_of.get(name, UNKNOWN_RESOURCE)
            requested[row, at] += sign * (bounded(amount) if at != UNKNOWN_RESOURCE else amount > 0)
        self._scored[row, 0] += sign * bounded(weight[0])
        self._scored[row, 1] += sign * bounded(weight[1])

    def vector(self, amounts: Mapping[str, int]) -> NDArray[np.int64]:
        """Return amounts as int64[resources] on this table's axis; no node has what it has no column for."""
        return self.resource_index.vector(amounts)

    def name(self, row: int, amounts: Mapping[str, int], names: Iterable[str]) -> None:
        """Count what a pod on a row takes of resources that have columns now and had none when it was charged."""
        for name in names:
            amount = amounts.get(name, 0)
            if amount > 0:
                self._requested[row, UNKNOWN_RESOURCE] -= 1
                self._requested[row, self.resource_index.column(name)] += bounded(amount)

    def in_use(self, column: int) -> NDArray[np.int64]:
        """Return int64[rows], what scores count of a resource: `requested`, but what is taken for nominated pods."""
        requested = self.requested[:, column]
        if self.nominated is None:
            return requested
        return requested - self.nominated.unused(column, len(requested))

    def all_in_use(self) -> NDArray[np.int64]:
        """Return int64[rows, resources]: the same of all resources, which may be `requested` itself."""
        if self.nominated is None:
            return self.requested
        return np.stack([self.in_use(column) for column in range(self.requested.shape[1])], axis=1)

    def keep(self, key: Hashable, stamp: Hashable, work_out: Callable[[], T]) -> T:
        """Return what is worked out once for each stamp: the versions of all that it is worked out of."""
        kept = self.derived.get(key)
        if isinstance(kept, tuple) and kept[0] == stamp:
            known: T = kept[1]
            return known
        found = work_out()
        self.derived[key] = (stamp, found)
        return found

    def follow_devices(self) -> None:
        """Look at what drivers have published of nodes since that was last looked at."""
        self.devices.follow(self.device_view(NO_DEVICES))

    def gives_devices_in_turn(self, needs: DeviceNeeds) -> bool:
        """Whether what one pod is given changes what the next finds elsewhere, so that each is asked about in turn."""
        return self.devices.moves(needs, self.device_view(needs))

    def device_view(self, needs: DeviceNeeds) -> NodeView:
        """Return what devices are matched with, for pods that ask for some."""
        unoffered = {}
        for one in needs.extended:
            at = self.resource_index.column_of.get(one.resource)
            none = ~self.present if at is None else self.allocatable[:, at] > 0
            unoffered[one.resource] = ~none & self.present
        return NodeView(self.names, self.labels, self.version, unoffered, self.capacity_version)

    def devices_ahead(self, pod_class: PodClass, *, after: int = 0) -> NodeView:
        """Return what devices are matched with for the next pod of a class, or for that after so many on each node.

        Where nodes share devices that it asks for, it matters for none of them which zone it gets its cores from.
        """
        view = self.device_view(pod_class.devices)
        if not pod_class.devices.near_cores or self.devices.moves(pod_class.devices, view):
            return view
        zones = self.zones_ahead(pod_class, self)
        return view if zones is None else view._replace(zones=zones.after(after))

    def _widen(self) -> None:
        width = len(self.resource_index.column_of)
        if width > self._allocatable.shape[1]:
            self._allocatable = wider(self._allocatable, width)
            self._requested = wider(self._requested, width)
        if width > self.allocatable.shape[1]:
            self._renew_views()

    def _renew_views(self) -> None:
        """Let what is read of the columns be as long and as wide as the table is now."""
        rows, width = len(self.names), len(self.resource_index.column_of)
        self.allocatable = self._allocatable[:rows, :width]
        self.requested = self._requested[:rows, :width]
        self.scored = self._scored[:rows]
        self.present = self._present[:rows]
        self.unschedulable = self._unschedulable[:rows]
        self.taint_code = self._taint_code[:rows]
        self.feature_code = self._feature_code[:rows]

    def label(self, key: str) -> LabelColumn:
        """Return the column of a label key, built on first use and kept up to date from then on.

        Its `codes` may be longer than the table; only the first `len(self)` rows count. Keys that no node carries
        share one column without values, so that made-up keys cost nothing: ask anew in each turn.
        """
        column = self._label_columns.get(key)
        if column is None:
            if key not in self._carriers:
                return self._nobodys
            column = LabelColumn(np.full(len(self._present), ABSENT, dtype=np.int32))
            column.fill([labels.get(key) for labels in self.labels])
            self._label_columns[key] = column
        return column

    def rows_alike(self, rows: Iterable[int], keys: Iterable[str]) -> dict[int, None]:
        """Return some rows, and those that have the same value of one of these labels as any of them."""
        found = dict.fromkeys(rows)
        first = list(found)
        for key in keys:
            codes = self.label(key).codes[: len(self)]
            theirs = np.unique(codes[first])
            alike = np.flatnonzero(np.isin(codes, theirs[theirs != ABSENT]))
            found.update(dict.fromkeys(alike.tolist()))
        return found

    def _is_unchanged(self, row: int, node: Node, taints: Sequence[Taint], features: frozenset[str]) -> bool:
        return (
            bool(self._present[row])
            and self.labels[row] == node.metadata.labels
            and self.taint_sets[self._taint_code[row]] == taints
            and self.feature_sets[self._feature_code[row]] == features
            and bool(self._unschedulable[row]) == node.spec.unschedulable
        )

    def _new_row(self, name: str) -> int:
        if self._free:
            row = self._free.pop()
            self.names[row] = name
        else:
            row = len(self.names)
            if row == len(self._present):
                self._grow()
            self.names.append(name)
            self.labels.append({})
            self._renew_views()
        self.rows[name] = row
        if self.numa:
            self.numa.touch(name)
        self._requested[row] = 0
        self._scored[row] = 0
        return row

    def _set_labels(self, row: int, labels: Mapping[str, str]) -> None:
        for key in self.labels[row]:
            self._carriers[key] -= 1
            if not self._carriers[key]:
                del self._carriers[key]
        for key in labels:
            self._carriers[key] = self._carriers.get(key, 0) + 1
        self.labels[row] = labels
        self._present[row] = self.names[row] != ""
        for key, column in self._label_columns.items():
            column.put(row, labels.get(key))

    def _grow(self) -> None:
        room = 2 * len(self._present)
        self._allocatable = longer(self._allocatable, room)
        self._requested = longer(self._requested, room)
        self._scored = longer(self._scored, room)
        self._present = longer(self._present, room)
        self._unschedulable = longer(self._unschedulable, room)
        self._taint_code = longer(self._taint_code, room)
        self._feature_code = longer(self._feature_code, room)
        for column in (*self._label_columns.values(), self._nobodys):
            column.codes = longer(column.codes, room, fill=ABSENT)


def _code(value: K, code_of: dict[K, int], values: list[K]) -> int:
    """Return the code of a value, giving it the next one if it is new."""
    code = code_of.get(value)
    if code is None:
        code = code_of[value] = len(values)
        values.append(value)
    return code
