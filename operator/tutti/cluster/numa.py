"""NUMA zones of nodes as columns: what their agents report, less what pods take that the reports do not know yet.

One row per node as in `NodeColumns`, zones by number, padded to as many as the node with most zones has. Where the
kubelet is to align pods, who is placed has to know how much each single zone has left. Which zone pods get is the
kubelet's choice, and unknown until the report tells. So how many pods are pending, reserved here or bound since the
report, is kept apart by class, and nothing is taken out of any zone for them (`placement/plugins/numa_room.py` counts).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tutti.api.numa import FARTHEST, RESTRICTED, SINGLE_NUMA_NODE, NodeTopology
from tutti.cluster.classes import PodClass
from tutti.cluster.columns import MOST_AMOUNT, bounded
from tutti.cluster.numa_needs import zone_needs
from tutti.cluster.numa_reports import Zones, freed_by, unreported
from tutti.cluster.pods import PodKey, PodRecord

MOST_RESOURCES: Final = 64
"""So many resources of zones are told apart; a report that brings in more is not used."""
NO_ZONE: Final = -1
UNKNOWN: Final = -1
"""Stands for an amount that the agent does not say."""

NO_POLICY, SINGLE, RESTRICTING = 0, 1, 2
"""How a node's kubelet aligns: not at all or without refusing anybody, to one zone, or to as few zones as can be."""

_CODES: Final[Mapping[str, int]] = {SINGLE_NUMA_NODE: SINGLE, RESTRICTED: RESTRICTING}

Amount = NDArray[np.int64]


class NumaColumns:
    """The zones of all nodes. `sync` before anything is read of them, in each turn.

    Attributes:
        reports: What the agents report, by the name of the node.
        version: Grows whenever anything here changes.
        column_of: The column of each resource that any zone lists.
        policy: int8[rows], how the kubelet aligns.
        pod_scope: bool[rows], whether pods as a whole.
        reported: bool[rows], which nodes have a report.
        unusable: bool[rows], of which nodes it cannot be used.
        most_zones: int64[rows], how many NUMA nodes the kubelet takes into account.
        numbers: int64[rows, zones], NO_ZONE where a node has no more.
        listed: bool[rows, zones, resources], what each zone lists.
        available: int64[rows, zones, resources], as reported.
        allocatable: int64[rows, zones, resources], what each zone has in all; UNKNOWN where that is not told.
        costs: int64[rows, zones, zones], the distances.
        renewed: int64[rows], another number each time that a report is read again.
    """

    def __init__(self, rows: Mapping[str, int], names: Sequence[str]) -> None:
        self._rows = rows
        self._names = names
        self.reports: dict[str, NodeTopology] = {}
        self.version = 0
        self.column_of: dict[str, int] = {}
        self.crowded: dict[str, None] = {}
        self._pods_on: Callable[[str], Collection[PodRecord]] = lambda _: ()
        self._held_on: Callable[[str], Collection[PodClass]] = lambda _: ()
        self._lifted: dict[str, dict[PodKey, None]] = {}
        self._lent: dict[str, list[PodClass]] = {}
        self._stale: dict[str, None] = {}
        self._emptied: dict[int, None] = {}
        self._pending: dict[int, dict[PodClass, int]] = {}
        self._of_class: dict[PodClass, dict[int, int]] = {}
        self._crowds: dict[int, int] = {}
        self._times = 0
        self._make(0, 0, 0)

    def __bool__(self) -> bool:
        """Whether any node tells of its zones."""
        return bool(self.reports)

    def follow(
        self, pods_on: Callable[[str], Collection[PodRecord]], held_on: Callable[[str], Collection[PodClass]]
    ) -> None:
        """Say who is on a node, and for pods of which classes room is held there, by its name."""
        self._pods_on, self._held_on = pods_on, held_on

    def put(self, report: NodeTopology) -> bool:
        """Take in a report; returns whether a pod may find room there that did not before."""
        name = report.name
        new = self.reports.get(name)
        if new == report:
            return False
        before = self._left(name)
        fresh = {resource for zone in report.zones for resource in zone.available if resource not in self.column_of}
        self.crowded.pop(name, None)
        if len(self.column_of) + len(fresh) > MOST_RESOURCES:
            self.crowded[name] = None
        else:
            for resource in sorted(fresh):
                self.column_of[resource] = len(self.column_of)
        self.reports[name] = report
        self.touch(name)
        after = self._left(name)
        return before is None or after is None or before.shape != after.shape or bool((after > before).any())

    def problem_of(self, name: str) -> str:
        """Return why the report of a node cannot be used; "" where it can, or there is none."""
        report = self.reports.get(name)
        if report is None or report.problem:
            return "" if report is None else report.problem
        if name in self.crowded:
            return f"zones: with this report there are more than {MOST_RESOURCES} resources of zones in the cluster"
        return ""

    def drop(self, name: str) -> bool:
        """Forget the report of a node; returns whether there was one."""
        known = self.reports.pop(name, None)
        self.crowded.pop(name, None)
        if known is not None and name in self._rows:
            self.empty(self._rows[name])
        return known is not None

    def touch(self, name: str) -> None:
        """Note that a node has come, or that other pods are there than before."""
        if name in self.reports:
            self._stale[name] = None
            self.version += 1

    def empty(self, row: int) -> None:
        """Note that a node is gone from a row, or has no report any more."""
        self._emptied[row] = None
        self.version += 1

    def lift(self, name: str, pod: PodKey, *, back: bool = False) -> None:
        """Have a pod on a node not be there for a while, or be there again."""
        if back:
            self._lifted[name].pop(pod, None)
            if not self._lifted[name]:
                del self._lifted[name]
        else:
            self._lifted.setdefault(name, {})[pod] = None
        self.touch(name)

    def lend(self, pod_class: PodClass, name: str, *, back: bool) -> None:
        """Have room that is held for a pod of a class be free for a while, or taken again."""
        if back:
            self._lent[name].remove(pod_class)
            if not self._lent[name]:
                del self._lent[name]
        else:
            self._lent.setdefault(name, []).append(pod_class)
        self.touch(name)

    def hold(self, pod_class: PodClass, rows: Amount, counts: Amount, sign: int) -> None:
        """Count pods of a class as pending, int64[k] on rows int64[k], or take that back; for a transaction."""
        self.sync()
        mine = self.reported[rows]
        if pod_class.problem or not mine.any():
            return
        for row, count in zip(rows[mine].tolist(), counts[mine].tolist(), strict=True):
            self._count(pod_class, row, sign * count)
        self.version += 1

    def vector(self, amounts: Mapping[str, int]) -> Amount:
        """Return amounts as int64[resources], those left out that no zone lists."""
        out = np.zeros(len(self.column_of), dtype=np.int64)
        for name, amount in amounts.items():
            column = self.column_of.get(name)
            if column is not None:
                out[column] = bounded(amount)
        return out

    def pending(self, pod_class: PodClass) -> Amount:
        """Return int64[rows]: how many pods of a class are pending."""
        out = np.zeros(len(self.policy), dtype=np.int64)
        for row, count in self._of_class.get(pod_class, {}).items():
            out[row] = count
        return out

    def is_crowded(self, row: int) -> bool:
        """Whether pods are pending on a row."""
        return row in self._crowds

    @property
    def pending_of(self) -> Mapping[PodClass, Mapping[int, int]]:
        """How many pods of which class are pending, by row."""
        return self._of_class

    def sync(self) -> None:
        """Bring the columns up to date with reports and pods."""
        if not (self._stale or self._emptied) and len(self.policy) == len(self._names):
            return
        deepest = max((len(self.reports[name].zones) for name in self._stale if name in self.reports), default=0)
        shape = (len(self._names), max(deepest, self.numbers.shape[1]), len(self.column_of))
        if shape != self.available.shape:
            self._widen(*shape)
        for row in self._emptied:
            self._clear(row)
        for name in self._stale:
            if name in self._rows and name in self.reports:
                self._renew(self._rows[name], self.reports[name])
        self._stale.clear()
        self._emptied.clear()
        self.version += 1

    def _left(self, name: str) -> Amount | None:
        """Return int64[zones, resources]: what each zone of a node has at least; None where the node is not known."""
        self.sync()
        row = self._rows.get(name)
        if row is None or not self.reported[row] or self.unusable[row]:
            return None
        left = np.where(self.listed[row], self.available[row], -MOST_AMOUNT)
        closed = self.policy[row] != NO_POLICY
        return np.append(left.ravel(), (-int(closed), -self._crowds.get(row, 0)))

    def _renew(self, row: int, report: NodeTopology) -> None:
        """Take over the report of the node in a row, and which of its pods are pending."""
        self._clear(row)
        name = report.name
        self.reported[row] = True
        self.unusable[row] = bool(report.problem) or name in self.crowded
        self.policy[row] = _CODES.get(report.policy, NO_POLICY)
        self.pod_scope[row], self.most_zones[row] = report.pod_scope, report.max_zones
        if self.unusable[row]:
            return
        for at, zone in enumerate(report.zones):
            self.numbers[row, at] = zone.number
            for resource, amount in zone.available.items():
                column = self.column_of[resource]
                self.listed[row, at, column] = True
                self.available[row, at, column] = min(amount, MOST_AMOUNT)
                if resource in zone.allocatable:
                    self.allocatable[row, at, column] = min(zone.allocatable[resource], MOST_AMOUNT)
            for other, one in enumerate(report.zones):
                self.costs[row, at, other] = zone.costs.get(one.number, FARTHEST)
        pods, lifted = self._pods_on(name), self._lifted.get(name, {})
        missing = unreported(report, pods)
        if lifted:
            unknown = {pod.key for pod in missing}
            known = [pod for pod in pods if pod.key not in unknown and not pod.pod_class.problem]
            gone = [pod for pod in known if pod.key in lifted]
            if gone:
                self._free(row, freed_by(report, known, gone))
            missing = [pod for pod in missing if pod.key not in lifted]
        held = list(self._held_on(name))
        for pod_class in self._lent.get(name, ()):
            held.remove(pod_class)
        for pod_class in (*(pod.pod_class for pod in missing), *held):
            if not pod_class.problem and zone_needs(pod_class).charged:
                here = self._pending.setdefault(row, {})
                here[pod_class] = here.get(pod_class, 0) + 1
        for pod_class, count in self._pending.get(row, {}).items():
            self._count(pod_class, row, count)

    def _free(self, row: int, freed: Zones | None) -> None:
        """Have a row have more available; None: all that its zones have."""
        if freed is None:
            told = self.allocatable[row] != UNKNOWN
            self.available[row] = np.where(told, self.allocatable[row], self.available[row])
            return
        for at, amounts in enumerate(freed):
            self.available[row, at] += self.vector(amounts)

    def _clear(self, row: int) -> None:
        for pod_class, count in self._pending.pop(row, {}).items():
            self._count(pod_class, row, -count)
        self.policy[row] = NO_POLICY
        self.pod_scope[row] = self.reported[row] = self.unusable[row] = False
        self.most_zones[row] = 1
        self.numbers[row] = NO_ZONE
        self.listed[row] = False
        self.available[row] = 0
        self.allocatable[row] = UNKNOWN
        self.costs[row] = FARTHEST
        self._times += 1
        self.renewed[row] = self._times

    def _count(self, pod_class: PodClass, row: int, count: int) -> None:
        if not zone_needs(pod_class).charged:
            return
        mine = self._of_class.setdefault(pod_class, {})
        for counts, key in ((mine, row), (self._crowds, row)):
            counts[key] = counts.get(key, 0) + count
            if not counts[key]:
                del counts[key]
        if not mine:
            del self._of_class[pod_class]

    def _make(self, rows: int, zones: int, resources: int) -> None:
        self.policy = np.zeros(rows, dtype=np.int8)
        self.pod_scope = np.zeros(rows, dtype=np.bool_)
        self.reported = np.zeros(rows, dtype=np.bool_)
        self.unusable = np.zeros(rows, dtype=np.bool_)
        self.most_zones = np.ones(rows, dtype=np.int64)
        self.numbers = np.full((rows, zones), NO_ZONE, dtype=np.int64)
        self.listed = np.zeros((rows, zones, resources), dtype=np.bool_)
        self.available = np.zeros((rows, zones, resources), dtype=np.int64)
        self.allocatable = np.full((rows, zones, resources), UNKNOWN, dtype=np.int64)
        self.costs = np.full((rows, zones, zones), FARTHEST, dtype=np.int64)
        self.renewed = np.zeros(rows, dtype=np.int64)

    def _widen(self, rows: int, zones: int, resources: int) -> None:
        """Have room for more nodes, zones or resources; what is there stays."""
        before = {name: getattr(self, name) for name in _COLUMNS}
        self._make(rows, zones, resources)
        for name, old in before.items():
            getattr(self, name)[tuple(slice(size) for size in old.shape)] = old


_COLUMNS: Final = (
    "policy",
    "pod_scope",
    "reported",
    "unusable",
    "most_zones",
    "numbers",
    "listed",
    "available",
    "allocatable",
    "costs",
    "renewed",
)
