"""What a plugin of a user sees of pods and nodes, and what it is asked: which nodes to rule out, and which to prefer.

A plugin is called once for a class of equal pods with all nodes as columns, never once per pod or per node. It must be
a pure function of what it is handed: no I/O, no clock, no randomness, nothing remembered between calls that changes an
answer. Its answers are kept while nothing changed that it can read, and a replay asks it again and compares.

What it is handed are views that stay as they are when the rooms behind them change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tutti.api.core import PodSpec
from tutti.api.resources import Amounts
from tutti.api.selectors import Taint
from tutti.cluster.classes import PodClass
from tutti.cluster.nodes import ABSENT, NodeColumns
from tutti.placement.framework import Mask, Scores

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Pods:
    """A class of equal pods.

    Attributes:
        labels: Those of their labels that some selector reads, or a plugin by `ReadsPodLabels`.
        requests: What one of them takes, in scheduling units (cpu in milli-cores, everything else whole).
        spec: What scheduling reads of their spec.
    """

    namespace: str
    labels: Mapping[str, str]
    requests: Amounts
    spec: PodSpec

    @classmethod
    def of(cls, pod_class: PodClass) -> Pods:
        """Return the view of a class."""
        return cls(pod_class.namespace, pod_class.labels, pod_class.requests, pod_class.spec)


class Nodes:
    """All nodes as columns; a row without a node is not `present`, and what is said of it does not count.

    Whatever is read here changes only when a node comes, goes, or changes its labels, taints or cordon.
    """

    def __init__(self, columns: NodeColumns) -> None:
        self._columns = columns

    def __len__(self) -> int:
        return len(self._columns)

    @property
    def names(self) -> Sequence[str]:
        """The name of the node in each row, "" where there is none."""
        return tuple(self._columns.names)

    @property
    def present(self) -> Mask:
        """bool[rows]: which rows hold a node."""
        return self._columns.present.copy()

    @property
    def unschedulable(self) -> Mask:
        """bool[rows]: which nodes are cordoned."""
        return self._columns.unschedulable.copy()

    def taints(self, row: int) -> Sequence[Taint]:
        """Return the taints of one node."""
        taints: Sequence[Taint] = self._columns.taint_sets[int(self._columns.taint_code[row])]
        return taints

    def label(self, row: int, key: str) -> str | None:
        """Return a label of one node; None where it has none of that key."""
        return self._columns.labels[row].get(key)

    def marked(self, key: str, holds: Callable[[str], bool]) -> Mask:
        """Return bool[rows]: the nodes whose label `key` has a value that `holds`; it is asked once per value."""
        return self._per_value(key, holds, False).astype(np.bool_)

    def numbers(self, key: str, read: Callable[[str], float], missing: float) -> NDArray[np.float64]:
        """Return float64[rows]: what `read` makes of label `key`, asked once per value; `missing` without the label."""
        return self._per_value(key, read, missing).astype(np.float64)

    def _per_value(self, key: str, read: Callable[[str], float], missing: float) -> NDArray[np.float64]:
        column = self._columns.label(key)
        codes = column.codes[: len(self)]
        used = np.unique(codes)
        table = np.full(len(column.values) + 1, missing, dtype=np.float64)  # ABSENT is the last
        for code in used[used != ABSENT].tolist():
            table[code] = read(column.values[code])
        return table[codes]


class Rooms(Nodes):
    """All nodes with what they offer and what is taken there, reservations included; that changes all the time."""

    def offered(self, resource: str) -> NDArray[np.int64]:
        """Return int64[rows]: what each node offers of a resource, in scheduling units."""
        return self._of(self._columns.allocatable, resource)

    def taken(self, resource: str) -> NDArray[np.int64]:
        """Return int64[rows]: what pods hold or are reserved of a resource, in scheduling units."""
        return self._of(self._columns.requested, resource)

    def _of(self, table: NDArray[np.int64], resource: str) -> NDArray[np.int64]:
        column = self._columns.resource_index.column(resource)
        if column >= table.shape[1]:
            return np.zeros(len(self), dtype=np.int64)
        return table[:, column].copy()


@runtime_checkable
class FilterPlugin(Protocol):
    """Rules nodes out for a class of pods."""

    def filter(self, pods: Pods, nodes: Nodes, now: float) -> Mapping[str, Mask]:
        """Return which nodes are ruled out: a reason, as in "node(s) in maintenance", to bool[rows].

        Args:
            pods: The class.
            nodes: All nodes.
            now: Unix seconds. An answer that goes by it is wrong later, so give it only with `ChangesWithTime`.
        """
        ...


@runtime_checkable
class ScorePlugin(Protocol):
    """Prefers nodes for a class of pods."""

    def score(self, pods: Pods, nodes: Nodes, now: float) -> Scores | None:
        """Return int64[rows], at least 0, more is better; None where it has no opinion on these pods.

        The best feasible node is scaled to 100, and that is multiplied by the weight in the profile.
        """
        ...


@runtime_checkable
class PolicyPlugin(Protocol):
    """Prefers nodes by figures about them, which change with every pod: how full they would be, what holes are left.

    It is asked again and again, so it must be quick: array expressions over what it is handed.
    """

    @property
    def policy_features(self) -> Sequence[str]:
        """The features that it is told, names of `POLICY_FEATURES`."""
        ...

    @property
    def policy_features_version(self) -> int:
        """The version of their meaning that it was written for: `FEATURES_VERSION` of then."""
        ...

    def policy(self, features: Mapping[str, NDArray[np.float64]]) -> NDArray[np.float64]:
        """Return float64[m, k]: how good it is to have the nth pod of a class on each node; any finite number.

        100 / (1 + e^-x) of it counts as points, and is multiplied by the weight in the profile.

        Args:
            features: By name float64[m, k]: row by row the 1st, 2nd, ... pod, column by column a node. The answer for
                one of them may not depend on what stands elsewhere.
        """
        ...


@runtime_checkable
class ChangesWithTime(Protocol):
    """A filter or score whose answer goes by the time."""

    @property
    def recheck_seconds(self) -> float:
        """How long an answer may be kept; workloads that wait for nodes are tried again that much later."""
        ...


@runtime_checkable
class ReadsPodLabels(Protocol):
    """A filter or score that tells pods apart by labels."""

    @property
    def pod_labels(self) -> Sequence[str]:
        """The label keys that it reads: pods that differ in others only are one class."""
        ...


class PluginCall(NamedTuple):
    """A call of foreign code: the schedulerName of the profile that it is made for, the plugin, and its method."""

    profile: str
    plugin: str
    point: str


class Stopwatch(Protocol):
    """Makes a call, and may measure how long it takes; no decision depends on what it has measured."""

    def __call__(self, asked: PluginCall, call: Callable[[], T], /) -> T:
        """Return what the call returns, or let out what it raises."""
        ...


class Host(Protocol):
    """What a plugin's adapter needs of the engine."""

    @property
    def now(self) -> float:
        """The time of this turn, Unix seconds."""
        ...

    def fault(self, plugin: str, point: str, message: str) -> None:
        """Note that a plugin has failed at an extension point."""

    def timed(self, asked: PluginCall, call: Callable[[], T]) -> T:
        """Call a plugin; who runs the engine may measure it."""
        ...

    def recheck(self, at: float) -> None:
        """Have those that wait for nodes tried again at a time, Unix seconds."""
