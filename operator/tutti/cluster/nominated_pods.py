"""Pods that are nominated, and wait for their victims to leave a node, as those see them who are tried meanwhile.

Filters let a pod go to a node where it may go both with those that are nominated there and without them; those on other
nodes may never come. Scores count none of them (kube-scheduler 1.36, framework/runtime,
RunFilterPluginsWithNominatedPods). Their room is taken by `Transaction.nominate`; here is what else they do to others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tutti.cluster.classes import PodClass

Counts = NDArray[np.int64]

NominatedClass = tuple[PodClass, NDArray[np.int64], Counts]
"""Pods of a class: int64[k], distinct rows, and int64[k], how many are nominated on each."""


class NominatedRoom(NamedTuple):
    """What all of them take together.

    Attributes:
        rows: int64[n], distinct.
        amounts: int64[n, resources], in scheduling units.
    """

    rows: NDArray[np.int64]
    amounts: Counts


@dataclass(slots=True)
class NominatedPods:
    """All that count for somebody who is tried.

    Attributes:
        placed: Which pods are nominated where.
        room: What they take.
        overlap: int64[n] and int64[n, resources]: on which distinct rows how much of their room is in use already.
        in_domains: Whether they count in all of their topology domains: while victims are chosen, so that nobody leaves
            for a pod that could not be where it goes once those are there, too.
    """

    placed: Sequence[NominatedClass]
    room: NominatedRoom
    overlap: tuple[NDArray[np.int64], Counts] | None = None
    in_domains: bool = False
    _unused: dict[int, Counts] = field(default_factory=dict)
    _with_terms: bool | None = None

    @property
    def with_terms(self) -> bool:
        """Whether any of them keeps off others."""
        if self._with_terms is None:
            self._with_terms = any(pod_class.inter_pod.anti_affinity for pod_class, _, _ in self.placed)
        return self._with_terms

    def count(self, rows: int, meant: Callable[[PodClass], bool]) -> Counts:
        """Return int64[rows]: how many of those classes that are meant are nominated on each row."""
        out = np.zeros(rows, dtype=np.int64)
        for pod_class, where, counts in self.placed:
            if meant(pod_class):
                out[where] += counts
        return out

    def unused(self, column: int, rows: int) -> Counts:
        """Return int64[rows]: what is taken for them of the resource in a column, and nobody uses by now."""
        known = self._unused.get(column)
        if known is None:
            known = np.zeros(rows, dtype=np.int64)
            for sign, part in ((1, self.room), (-1, self.overlap)):
                if part is not None and column < part[1].shape[1]:
                    known[part[0]] += sign * part[1][:, column]
            self._unused[column] = known
        return known
