"""What nodes were measured to use, and what has come to them since, as columns.

A measurement is of the past: pods that came after it, or so shortly before that its window hardly holds them, are
counted by what they are expected to use, the k-th pod of a gang as much as the first, and after a restart as before,
because it is known of each when its kubelet took it over. Measured figures are percent of what a node has
(`status.capacity`); nobody has them who is not measured, and then there is no opinion.

All of this is kept only where a profile asks for it (`LoadColumns.on`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tutti.api.core import PodSpec
from tutti.cluster.classes import PodClass
from tutti.cluster.expected_use import CPU, MEMORY, NAMES, Estimates, ExpectedUse, FreshColumn, expected_use
from tutti.cluster.pods import AssumedAlike, PodKey, PodRecord

MOST_METRICS: Final = 32
"""How many different metrics nodes may have."""

MOST_FIGURE: Final = 1e16
"""What is further from 0 than this counts as not measured."""

USED: Final = {"cpu-used": CPU, "memory-used": MEMORY}
"""What is measured in milli-cores and bytes, and stands in columns as percent of the machine."""

Floats = NDArray[np.float64]

_NEVER: Final = -math.inf
_MEASURED: Final = -math.inf
"""Since when a pod is there that a measurement holds: for longer than matters."""
_MOST_SPECS: Final = 1024


class LoadColumns:
    """The load of all nodes, by the rows of the node table.

    Attributes:
        on: Whether any profile asks for load; where none does, nothing is kept here.
        estimates: By what the use of pods is estimated that have not been measured.
        unmeasured_seconds: How long before a measurement a pod may have started that is not in it yet.
        now: Unix seconds of the turn under way.
        version: Grows whenever a measurement is taken in.
        measured_at: float64[rows], Unix seconds; -inf: never.
        capacity: int64[rows, 2], cpu in milli-cores and memory in bytes that the machine has.
        requests, limits: int64[rows, 2], of the pods there, as `ExpectedUse` counts them.
        fresh: float64[rows, FreshColumn.COUNT], what is expected of those that no measurement holds.
    """

    def __init__(self, rows: Mapping[str, int]) -> None:
        self.on = False
        self.estimates = Estimates()
        self.unmeasured_seconds = 60.0
        self.now = 0.0
        self.version = 0
        self._rows = rows
        self._reports: dict[str, tuple[float, dict[str, float]]] = {}
        self._values: dict[str, Floats] = {}
        self._amounts: dict[int, Floats] = {}
        self._names: dict[int, str] = {}
        self._uses: dict[int, tuple[PodSpec, ExpectedUse]] = {}  # by the identity of the spec that is kept beside
        self._there: dict[str, dict[PodKey, tuple[ExpectedUse, float]]] = {}  # and since when, or _MEASURED
        self._coming: list[tuple[ExpectedUse, AssumedAlike]] = []  # who came since it was last asked who is where
        self._unmeasured: set[str] = set()  # the nodes with pods that no measurement holds
        self.measured_at = np.zeros(0)
        self.capacity = np.zeros((0, 2), dtype=np.int64)
        self.requests = np.zeros((0, 2), dtype=np.int64)
        self.limits = np.zeros((0, 2), dtype=np.int64)
        self.fresh = np.zeros((0, FreshColumn.COUNT))

    def __bool__(self) -> bool:
        """Whether load is kept."""
        return self.on

    def values(self, metric: str) -> Floats | None:
        """Return float64[rows]: what was measured last, NaN where nothing was; None where no node has the metric."""
        return self._values.get(metric)

    def measured_amounts(self, resource: int) -> Floats:
        """Return float64[rows]: how much of `CPU` or `MEMORY` was in use, in whole units; 0 where none was measured."""
        known = self._amounts.get(resource)
        if known is None:
            percent = self._values.get(NAMES[resource], np.zeros(len(self.capacity)))
            known = self._amounts[resource] = np.rint(percent / 100 * self.capacity[:, resource])
            known[np.isnan(known)] = 0.0
        return known

    def measure(self, metrics: Sequence[str], found: Mapping[str, tuple[float, Sequence[float | None]]]) -> None:
        """Take in a measurement of some nodes, whether they are known yet or not.

        Args:
            metrics: What was measured.
            found: By the name of the node when it was, Unix seconds, and what came of each of `metrics`; None: nothing.
        """
        known = [*self._values, *(name for name in metrics if name not in self._values)][:MOST_METRICS]
        for name, (at, numbers) in found.items():
            read = {
                metric: float(number)
                for metric, number in zip(metrics, numbers, strict=False)
                if number is not None and abs(number) <= MOST_FIGURE and metric in known
            }
            if not math.isfinite(at) or (name in self._reports and self._reports[name][0] > at):
                continue
            self._reports[name] = at, read
            if name in self._rows:
                self._show(name, self._rows[name])
        for name in [one for one in self._reports if one not in self._rows and one not in found]:
            del self._reports[name]  # a node that is gone, or something that never was one
        self.version += 1

    def forget(self, gone: str) -> None:
        """Forget what was measured of a node that does not exist any more."""
        self._reports.pop(gone, None)

    def put_node(self, name: str, row: int, capacity: tuple[int, int]) -> None:
        """Note what a node has; it stands in a row from now on."""
        if row >= len(self.capacity):
            self._resize(2 * (row + 1))
        is_new, grew = self._names.get(row) != name, tuple(self.capacity[row]) != capacity
        self.capacity[row] = capacity
        if is_new:
            self._names[row] = name
            for use, since in self._by_node().get(name, {}).values():
                self._count(row, use, 1, fresh=since != _MEASURED)
        if is_new or grew:
            self._show(name, row)

    def empty(self, row: int) -> None:
        """Note that a node is gone from a row."""
        self._names.pop(row, None)
        self._amounts.clear()
        self.measured_at[row] = _NEVER
        self.capacity[row] = self.requests[row] = self.limits[row] = 0
        self.fresh[row] = 0
        for column in self._values.values():
            column[row] = math.nan

    def use_of(self, pod_class: PodClass) -> ExpectedUse:
        """Return what is expected of one pod of a class."""
        return pod_class.keep("expected use", 0, lambda: self._expected(pod_class.spec))

    def _expected(self, spec: PodSpec) -> ExpectedUse:
        """Return what is expected of a pod of a spec; classes that differ in labels share theirs."""
        known = self._uses.get(id(spec))
        if known is None or known[0] is not spec:
            if len(self._uses) >= _MOST_SPECS:
                self._uses.clear()
            known = self._uses[id(spec)] = spec, expected_use(spec, self.estimates)
        return known[1]

    def take(self, rows: NDArray[np.int64], counts: NDArray[np.int64], pod_class: PodClass, sign: int) -> None:
        """Count `counts[i]` pods of a class on row `rows[i]`, or no more, before it is known which pods these are."""
        use, many = self.use_of(pod_class), (sign * counts)[:, None]
        self.requests[rows] += many * use.requests
        self.limits[rows] += many * use.limits
        self.fresh[rows] += many * use.fresh

    def hold(self, row: int, pod_class: PodClass) -> None:
        """Expect nothing any more of a pod to come that has been counted on a row: nobody uses its room yet.

        What it may ask for stays counted.
        """
        self.fresh[row] -= self.use_of(pod_class).fresh

    def adopt(self, row: int, held: PodClass, come: PodClass) -> None:
        """Count a pod in whose place one to come was counted until now."""
        self.lend(row, held, -1)
        self.take(np.array([row]), np.ones(1, dtype=np.int64), come, 1)

    def lend(self, row: int, pod_class: PodClass, sign: int) -> None:
        """Count what room that is kept for a pod to come may be asked for, or no more."""
        use = self.use_of(pod_class)
        self.requests[row] += sign * use.requests
        self.limits[row] += sign * use.limits

    def come(self, record: PodRecord, node: str) -> None:
        """Count a pod on a node, as one that is to be expected there unless it has been measured."""
        use, since = self.use_of(record.pod_class), math.inf if record.started is None else record.started
        known = self._by_node().get(node, {}).get(record.key)
        if known is not None and known[0] is use:
            if known[1] == _MEASURED:
                return
        else:
            self.leave(record.key, node)
            if node in self._rows:
                self._count(self._rows[node], use, 1, fresh=True)
        self._there.setdefault(node, {})[record.key] = use, since
        self._unmeasured.add(node)
        self._pass_measured(node)

    def come_all(self, alike: Sequence[AssumedAlike]) -> None:
        """Note which pods were just promised nodes, where `take` has counted them; no measurement holds them."""
        self._coming.extend([(self.use_of(pods.pod_class), pods) for pods in alike])

    def _by_node(self) -> dict[str, dict[PodKey, tuple[ExpectedUse, float]]]:
        """Return what is expected of the pods of each node that has any, those included that have come since.

        Nobody asks before they are bound, or give back what they were promised: a turn need not wait for that.
        """
        there, self._coming, coming = self._there, [], self._coming
        for use, pods in coming:
            told = use, math.inf
            for record, node in zip(pods.records, pods.nodes, strict=True):
                here = there.get(node)
                if here is None:
                    there[node] = {record.key: told}
                    continue
                if record.key in here:
                    self.leave(record.key, node)
                    here = there.setdefault(node, {})
                here[record.key] = told
            self._unmeasured.update(pods.nodes)
        return there

    def leave(self, key: PodKey, node: str) -> None:
        """Count a pod on a node no more."""
        here = self._by_node().get(node, {})
        use, since = here.pop(key, (None, _MEASURED))
        if not here:
            self._there.pop(node, None)
            self._unmeasured.discard(node)
        if use is not None and node in self._rows:
            self._count(self._rows[node], use, -1, fresh=since != _MEASURED)

    def ages(self) -> Floats:
        """Return float64[rows]: how many seconds ago each node was measured; inf: never."""
        return self.now - self.measured_at

    def _count(self, row: int, use: ExpectedUse, sign: int, *, fresh: bool) -> None:
        self.requests[row] += sign * use.requests
        self.limits[row] += sign * use.limits
        if fresh:
            self.fresh[row] += sign * use.fresh

    def _pass_measured(self, node: str) -> None:
        """Expect nothing more of the pods on a node that its last measurement holds."""
        there, report = self._by_node(), self._reports.get(node)
        if report is None or node not in self._unmeasured:
            return
        here, last, are_left = there[node], report[0] - self.unmeasured_seconds, False
        for key, (use, since) in here.items():
            if since > last:
                are_left = True
            elif since != _MEASURED:
                here[key] = use, _MEASURED
                if node in self._rows:
                    self.fresh[self._rows[node]] -= use.fresh
        if not are_left:
            self._unmeasured.discard(node)

    def _show(self, name: str, row: int) -> None:
        """Write the last measurement of a node into its row."""
        self._amounts.clear()
        for column in self._values.values():
            column[row] = math.nan
        report = self._reports.get(name)
        self.measured_at[row] = _NEVER if report is None else report[0]
        for metric, number in report[1].items() if report is not None else ():
            shown, value = metric, number
            if metric in USED:
                shown, there = NAMES[USED[metric]], int(self.capacity[row, USED[metric]])
                value = 100 * number / there if there else math.nan
            if shown not in self._values:
                self._values[shown] = np.full(len(self.capacity), math.nan)
            self._values[shown][row] = value
        self._pass_measured(name)

    def _resize(self, rows: int) -> None:
        """Let columns have so many rows; what is new is empty."""
        more = rows - len(self.capacity)
        self.measured_at = np.concatenate([self.measured_at, np.full(more, _NEVER)])
        self.capacity = np.concatenate([self.capacity, np.zeros((more, 2), dtype=np.int64)])
        self.requests = np.concatenate([self.requests, np.zeros((more, 2), dtype=np.int64)])
        self.limits = np.concatenate([self.limits, np.zeros((more, 2), dtype=np.int64)])
        self.fresh = np.concatenate([self.fresh, np.zeros((more, FreshColumn.COUNT))])
        self._values = {name: np.concatenate([one, np.full(more, math.nan)]) for name, one in self._values.items()}
