"""The contract of a placement plugin: a few methods, called once per class of equal pods with whole columns.

A filter says which nodes a class may run on, in words that autoscalers know; a scorer says which of them it prefers.
"""

from __future__ import annotations

from typing import Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from tutti.api.taints import Toleration
from tutti.cluster.classes import PodClass
from tutti.cluster.nodes import NodeColumns

Mask = NDArray[np.bool_]
Rows = NDArray[np.int64]
Scores = NDArray[np.int64]

MAX_SCORE = 100


class Where(msgspec.Struct, frozen=True):
    """What a flavor adds to its pods' own constraints: labels a node must carry, taints that are tolerated."""

    node_labels: tuple[tuple[str, str], ...] = ()
    tolerations: tuple[Toleration, ...] = ()


ANYWHERE = Where()


class Filter(Protocol):
    """Rules nodes out for a class of pods, from columns that do not depend on what is placed."""

    @property
    def reason(self) -> str:
        """What a node that is ruled out counts as, in kube-scheduler's words."""
        ...

    def mask(self, klass: PodClass, nodes: NodeColumns, where: Where) -> Mask:
        """Return bool[rows]: True where the class may run."""
        ...


class Scorer(Protocol):
    """Prefers some nodes for a class of pods, from columns that do not depend on what is placed."""

    @property
    def weight(self) -> int:
        """How much this score counts against the others."""
        ...

    def scores(self, klass: PodClass, nodes: NodeColumns, rows: Rows) -> Scores | None:
        """Return int64[len(rows)] in 0..MAX_SCORE, or None where it has no opinion on this class."""
        ...
