"""Of nodes worth the same, pods that ask for nothing take the one with the fewest pods on it, all others the first.

kube-scheduler draws one of them. Here equal input gives equal output, so that a gang, pods one by one, what is tried
out and a replay come to the same.

A pod that asks for nothing takes a place and nothing else. Scores tell nothing of places, and once they are at their
end, of nothing at all; so the first node would be filled to its last place before the next is begun. Pods count that
are on a node or have room kept there, with those placed before in the same choice: the column of `pods` in what nodes
have in use.

Pods that ask for something are spread by the scores. Where these do not tell nodes apart, because they count whole
percents or no devices, the first is taken, so that what is left stays in one piece for those who ask for much of it. To
spread these, too, made the jobs of examples/simulate wait longer (docs/performance/in-vain.md). Whoever asks for
nothing takes the first, too, where fuller nodes are worth more (MostAllocated, or a shape by which a full node scores
more than an empty one): there pods are to gather. Members of a gang whose devices are linked have an order of their own
(`device_links.py`).

Worth and pods make up one number, the key. Only that is compared; scores stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tutti.api.resources import PODS
from tutti.cluster.nodes import NodeColumns
from tutti.placement.framework import Counts, Rows, Scores

MOST_PODS = 1 << 16
"""Nodes with as many pods as this count alike: a key has room for scores beside pods.

With worths below 2**27 (weights of profiles are small; an extender's may be 1,000,000, by 100) and rows fewer than
2**20, what `NodeKinds` makes of the three fits into 63 bits.
"""


@dataclass(frozen=True, slots=True)
class TieRule:
    """How nodes of equal worth are told apart.

    Attributes:
        nodes: The columns, which are read whenever keys are asked for.
        step: What one point of worth is in a key: a power of two above the most pods of any node that has room; 1 where
            ties go to the first.
    """

    nodes: NodeColumns
    step: int

    def keys(self, worth: Scores, rows: Rows, more: Counts | None = None) -> Scores:
        """Return int64, as `worth`: higher for what is taken before others; of equal ones the first is.

        Args:
            worth: int64[..., len(rows)], what one more pod is worth.
            rows: Where; all rows only in their order.
            more: Pods there which the columns do not count, such as can be added to int64[len(rows)]; None: there are
                none.
        """
        if self.step == 1:
            return worth
        there = self.nodes.in_use(self.nodes.resource_index.column(PODS))
        there = there if len(rows) == len(there) else there[rows]
        keys: Scores = worth * self.step
        keys -= np.minimum(there if more is None else there + more, self.step - 1)
        return keys

    def first(self, worth: Scores, rows: Rows, more: Counts | None = None) -> int:
        """Return the index of what is taken before all others: of the highest key, where arguments are as for `keys`.

        Args:
            worth: int64[k], at least one.
            rows: int64[k].
            more: int64[k] or None.
        """
        return int(self.keys(worth, rows, more).argmax())


def fewest_pods(nodes: NodeColumns) -> TieRule:
    """Of nodes worth the same, take that with the fewest pods, and of those the first."""
    stamp = (nodes.capacity_version, nodes.allocatable.shape)
    return nodes.keep("fewest pods", stamp, lambda: TieRule(nodes, _step(nodes)))


def the_first(nodes: NodeColumns) -> TieRule:
    """Of nodes worth the same, take the first."""
    return TieRule(nodes, 1)


def _step(nodes: NodeColumns) -> int:
    """Return a power of two above what nodes have room for: one that has room has fewer pods than that."""
    most = int(nodes.allocatable[:, nodes.resource_index.column(PODS)].max(initial=0))
    return min(MOST_PODS, 1 << most.bit_length())


def ascending(values: Scores) -> Rows:
    """Return int64[k], the order of int64[k], each at least 0, from the lowest; ties in place.

    numpy sorts numbers of 16 bits by radix, many times faster than others. So larger ones are sorted in two halves.
    """
    most = int(values.max(initial=0))
    if most < 1 << 16:
        return np.argsort(values.astype(np.uint16), kind="stable")
    if most >= 1 << 32:
        return np.argsort(values, kind="stable")
    low = np.argsort((values & 0xFFFF).astype(np.uint16), kind="stable")
    return low[np.argsort((values >> 16).astype(np.uint16)[low], kind="stable")]


def best_first(keys: Scores) -> Rows:
    """Return int64[k], the order of int64[k] from the highest; ties in place."""
    return ascending(int(keys.max(initial=0)) - keys)
