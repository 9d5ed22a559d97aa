"""The contract of a placement plugin: a few methods, called once per class of equal pods with whole columns.

A plugin is one of these, by what its answer depends on:

- `NodeFilter`: the nodes alone; its answer is kept on the class while the columns it read are unchanged.
- `InterPodFilter`, `InterPodScorer`: the pods on the nodes; asked once per choice for a `PreFilterState` or
  `PreScoreState`, which is told of every pod placed and answers for the next one.
- `NodeScorer`: the nodes alone; raw points that are scaled to the best feasible node.
- `AllocationScorer`: how full a node itself is; asked for the 1st, 2nd, ... pod of a class there.

Each says by `concerns` what it looks at, in a pod or in the cluster around it, and is asked only where there is any of
that: kube-scheduler's PreFilter `Skip`, known before the call.

Reasons are kube-scheduler's, because autoscalers and users know them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import lru_cache
from typing import Final, Protocol, Self, TypeGuard, TypeVar, runtime_checkable

import msgspec
import numpy as np
from numpy.typing import NDArray

from tutti.api.selectors import Toleration
from tutti.cluster.classes import PodClass
from tutti.cluster.nodes import NodeColumns
from tutti.cluster.transaction import Transaction

Mask = NDArray[np.bool_]
Rows = NDArray[np.int64]
Scores = NDArray[np.int64]
Counts = NDArray[np.int64]
Features = NDArray[np.int64] | NDArray[np.int32] | NDArray[np.bool_]

MAX_SCORE = 100

Kind = TypeVar("Kind", bound=np.generic)


class KeptOff(IntEnum):
    """Which nodes that leave are ruled out, whatever pods tolerate (`plugins/leaving_nodes.py`)."""

    NOTHING = 0
    LEAVING = 1
    CANDIDATES = 2
    """Those, and nodes that will leave unless they are needed."""


class FlavorConstraints(msgspec.Struct, frozen=True):
    """What a flavor adds to its pods' own constraints: labels a node must carry, taints that are tolerated.

    Beside that stands which nodes gangs are kept off, and how far from their data pods may be (None: however far).
    """

    node_labels: tuple[tuple[str, str], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    kept_off: KeptOff = KeptOff.NOTHING
    data_within: int | None = None


NO_FLAVOR = FlavorConstraints()


@dataclass(frozen=True, slots=True)
class Rejection:
    """Some nodes ruled out for one reason.

    Attributes:
        rows: bool[rows], which.
        final: Whether taking pods out of the node could not help: for all of them, or bool[rows].
        faulty: Whether it cannot be told of these nodes: then the pod has no node at all, as long as one of them
            passes all filters before.
    """

    reason: str
    rows: Mask
    final: Mask | bool = False
    faulty: bool = False


class NodeFilter(Protocol):
    """Rules nodes out for a class of pods, whoever is on them."""

    @property
    def concerns(self) -> int:
        """The features of pods and clusters that concern it: bits of `Feature`; it is asked where there is any."""
        ...

    def rejections(self, pod_class: PodClass, nodes: NodeColumns, where: FlavorConstraints) -> Sequence[Rejection]:
        """Return which nodes are ruled out and why; nothing where the class does not concern this filter."""
        ...


class PreFilterState(Protocol):
    """What one inter-pod filter knows during one choice."""

    @property
    def changes_on_add(self) -> bool:
        """Whether a pod of the class being placed can change the answer for the next, on another node or its own."""
        ...

    @property
    def one_per_node(self) -> bool:
        """Whether a node takes one pod of the class, and nothing else changes; then `changes_on_add` is False."""
        ...

    def rejections(self) -> Sequence[Rejection]:
        """Return which nodes are ruled out now; one that stands in several rejections counts for each of them."""
        ...

    def add(self, row: int) -> None:
        """Count one more pod of the class on a row."""
        ...


@dataclass(frozen=True, slots=True)
class FixedRejections:
    """The state of a filter for which no pod that is placed in this choice changes anything."""

    said: Sequence[Rejection]
    changes_on_add: bool = field(default=False, init=False)
    one_per_node: bool = field(default=False, init=False)

    def rejections(self) -> Sequence[Rejection]:
        """Return which nodes it rules out."""
        return self.said

    def add(self, row: int) -> None:
        """Do nothing: who is on a node does not matter to it."""


class LimitingPerNode(PreFilterState, Protocol):
    """A state that can say beforehand how many pods of the class each node takes."""

    def room(self, most: int) -> NDArray[np.int64]:
        """Return int64[rows]: how many more pods of the class fit, as far as this filter is concerned.

        Where so many fit as `most` or more, it need not be told how many.
        """
        ...


@runtime_checkable
class Excluding(Protocol):
    """A state that rules nodes out for single pods on them, so that those know who would have to leave."""

    def in_the_way(self, nodes: NodeColumns) -> Mask:
        """Return bool[codes] of `nodes.label_index`: pods of which signatures, each by itself, rule out their own node.

        A node that is ruled out for pods elsewhere, too, need not be open once these have left.
        """
        ...


class Reserving(PreFilterState, Protocol):
    """A state that has given something to each pod it was told of."""

    def settle(self, transaction: Transaction) -> None:
        """Keep what was given in the transaction that the pods were put in."""
        ...


class InterPodFilter(Protocol):
    """Rules nodes out for a class of pods by who is on which node."""

    @property
    def concerns(self) -> int:
        """The features of pods and clusters that concern it: bits of `Feature`; it is asked where there is any."""
        ...

    def pre_filter(self, pod_class: PodClass, nodes: NodeColumns, where: FlavorConstraints) -> PreFilterState | None:
        """Count for one choice; None where the class does not concern this filter."""
        ...


class PreScoreState(Protocol):
    """What one inter-pod scorer knows during one choice."""

    def scores(self, rows: Rows) -> Scores | None:
        """Return int64[len(rows)] in 0..MAX_SCORE, scaled over the feasible `rows`; None where it has no opinion."""
        ...

    def add(self, row: int) -> None:
        """Count one more pod of the class on a row."""
        ...


class NarrowableState(Protocol):
    """What a state offers beyond, so that rows it can never tell apart are looked at once (`sequential`)."""

    @property
    def own(self) -> bool:
        """Whether a pod changes what is said of its own row otherwise than of rows alike."""
        ...

    def features(self) -> Sequence[Features]:
        """Return numbers from 0 on for each row; rows that have all of them in common are answered for alike."""
        ...

    def at(self, rows: Rows) -> Self:
        """Return the state of these rows only, which may repeat, under their places here; it counts with this one."""
        ...

    def add_around(self, row: int) -> None:
        """Count one more pod of the class near a row, and not what it changes for its own row alone."""
        ...

    def counts_as(self, other: Self) -> bool:
        """Whether another state of the class, asked of the same nodes, has counted the same.

        Each may be of some rows only. Where it costs more to tell than to count, it may say that it has not.
        """
        ...


_NARROWING: Final = ("features", "at", "add_around", "counts_as")


class NarrowableFilterState(PreFilterState, NarrowableState, Protocol):
    """A filter's state that can be narrowed to some rows."""

    @property
    def settled(self) -> bool:
        """Whether it will refuse what it refuses now, wherever it lets pods of the class go."""
        ...

    def refused(self) -> Mask:
        """Return bool[rows]: which nodes are ruled out now, for whatever reason."""
        ...


class NarrowableScoreState(NarrowableState, Protocol):
    """A score's state that can be narrowed to some rows."""

    def scores(self, rows: Rows, many: NDArray[np.int64] | None = None) -> Scores | None:
        """Score as `PreScoreState` does, where row i may stand for `many[i]` rows: int64[rows].

        An array that was returned for the same `rows` before may be returned again: then nothing has changed in it
        but what it says of the row on which a pod was added since.
        """
        ...

    def add(self, row: int) -> None:
        """Count one more pod of the class on a row."""
        ...


def is_narrowable_filter(state: PreFilterState) -> TypeGuard[NarrowableFilterState]:
    """Whether a filter's state can be narrowed."""
    return _has_all(type(state), (*_NARROWING, "refused"))


def is_narrowable_score(state: PreScoreState) -> TypeGuard[NarrowableScoreState]:
    """Whether a score's state can be narrowed."""
    return _has_all(type(state), _NARROWING)


def limits_per_node(state: PreFilterState) -> TypeGuard[LimitingPerNode]:
    """Whether a state is `LimitingPerNode`."""
    return _has_all(type(state), ("room",))


def reserves(state: PreFilterState) -> TypeGuard[Reserving]:
    """Whether a state is `Reserving`."""
    return _has_all(type(state), ("settle",))


@lru_cache(maxsize=1024)
def _has_all(kind: type, methods: tuple[str, ...]) -> bool:
    """Whether a class has methods: what `isinstance` says of a protocol, which looks into all of it each time."""
    return all(hasattr(kind, name) for name in methods)


class InterPodScorer(Protocol):
    """Prefers nodes for a class of pods by who is on which node."""

    @property
    def name(self) -> str:
        """What kube-scheduler calls it."""
        ...

    @property
    def weight(self) -> int:
        """How much this score counts against the others."""
        ...

    @property
    def concerns(self) -> int:
        """The features of pods and clusters that concern it, as for an `InterPodFilter`."""
        ...

    def pre_score(self, pod_class: PodClass, nodes: NodeColumns) -> PreScoreState | None:
        """Count for one choice; None where it can have no opinion on this class."""
        ...


class NodeScorer(Protocol):
    """Prefers nodes for a class of pods, whoever is on them."""

    @property
    def name(self) -> str:
        """What kube-scheduler calls it."""
        ...

    @property
    def weight(self) -> int:
        """How much this score counts against the others."""
        ...

    @property
    def scaled(self) -> bool:
        """Whether points are scaled so that the best feasible node has MAX_SCORE."""
        ...

    @property
    def reverse(self) -> bool:
        """Whether fewer points are better; only with `scaled`."""
        ...

    @property
    def concerns(self) -> int:
        """The features of pods and clusters that concern it: bits of `Feature`; it is asked where there is any."""
        ...

    def points(self, pod_class: PodClass, nodes: NodeColumns) -> Scores | None:
        """Return int64[rows], at least 0, or None where it has no opinion on this class."""
        ...


class AllocationScorer(Protocol):
    """Prefers nodes by how full they would be."""

    @property
    def name(self) -> str:
        """What kube-scheduler calls it."""
        ...

    @property
    def weight(self) -> int:
        """How much this score counts against the others."""
        ...

    def scores(self, pod_class: PodClass, nodes: NodeColumns, rows: Rows, nth: NDArray[np.int64]) -> Scores | None:
        """Score each row as it would be with the `nth` more pod of the class placed on it.

        Args:
            pod_class: The class.
            nodes: All nodes.
            rows: int64[k], the nodes to score.
            nth: int64[m], which pod of the class there, from 1, one after another.

        Returns:
            int64[m, k] in 0..MAX_SCORE, or None where it has no opinion on this class.
        """
        ...


def scaled(points: Scores, *, reverse: bool) -> Scores:
    """Scale points so that the highest becomes MAX_SCORE (framework/plugins/helper/normalize_score.go)."""
    top = int(points.max(initial=0))
    out = points * MAX_SCORE // top if top > 0 else points
    return MAX_SCORE - out if reverse else out


def at_rows(column: NDArray[Kind], rows: Rows) -> NDArray[Kind]:
    """Return a column at some distinct rows in order; the column itself where these are all."""
    return column if len(rows) == len(column) else column[rows]
