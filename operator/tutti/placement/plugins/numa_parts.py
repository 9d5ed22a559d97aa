"""What pods that are pending have aligned, on columns: those of all classes at once, on all nodes that they are on.

A line is what is aligned at once of a pod, a container or the pod as a whole, of one class on one node. What it asks of
zones there is kept with the class until the report of the node is another. So a thousand classes of which none is
like another are looked at in a few steps, and not one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tutti.api.resources import Amounts
from tutti.cluster.columns import bounded
from tutti.placement.framework import Counts, Mask, Rows
from tutti.placement.plugins.numa_fit import PLENTY, ZoneSearch
from tutti.placement.plugins.numa_orders import Step, Steps


@dataclass(frozen=True, slots=True)
class Parts:
    """What is aligned at once of pods of a class, a line for each part and each of some nodes.

    Attributes:
        node: int64[lines], which of the nodes.
        able: bool[lines, zones], the zones that list all that has to be there.
        limited: bool[lines], whether anything limits them.
        asked: int64[lines, resources], what a zone must have; 0 of what need not be counted.
    """

    node: Rows
    able: Mask
    limited: Mask
    asked: Counts

    @classmethod
    def of(cls, search: ZoneSearch, parts: Sequence[Amounts]) -> Parts:
        """Read them off what some nodes list."""
        count, (zones, resources) = len(search.rows), search.free.shape[1:]
        shape = (len(parts), count)
        able, limited = np.zeros((*shape, zones), dtype=np.bool_), np.zeros(shape, dtype=np.bool_)
        asked = np.zeros((*shape, resources), dtype=np.int64)
        for at, part in enumerate(parts):
            able[at], limited[at], counted = search.terms(search.considered(part))
            for column, amount, where in counted:
                asked[at, :, column] = np.where(where, bounded(amount), 0)
        lines = len(parts) * count
        node = np.tile(np.arange(count), len(parts))
        return cls(node, able.reshape(lines, zones), limited.reshape(lines), asked.reshape(lines, resources))

    def steps(self, node: int, *, stays: bool) -> Steps:
        """Return what is aligned on one of the nodes, one after another."""
        return tuple(
            Step(
                stays,
                bool(self.limited[line]),
                tuple(np.flatnonzero(self.able[line]).tolist()),
                tuple((column, int(self.asked[line, column])) for column in np.flatnonzero(self.asked[line]).tolist()),
            )
            for line in np.flatnonzero(self.node == node).tolist()
        )


@dataclass(frozen=True, slots=True)
class Lines:
    """What is aligned at once of pods of many classes.

    Attributes:
        at: int64[lines], on which of some nodes.
        counts: int64[lines], of how many pods.
        able: As of `Parts`, and so are `limited` and `asked`.
    """

    at: Rows
    counts: Counts
    able: Mask
    limited: Mask
    asked: Counts

    @classmethod
    def of(cls, parts: Sequence[Parts], at: Sequence[Rows], counts: Sequence[Counts], shape: tuple[int, int]) -> Lines:
        """Put those of several classes together.

        Args:
            parts: Of each class.
            at: Of which nodes they tell, int64[k].
            counts: How many pods are there, int64[k].
            shape: How many zones and resources there are.
        """
        if not parts:
            return cls.none(*shape)
        firsts = np.cumsum([0, *(len(one) for one in at[:-1])])
        whose = np.concatenate([one.node for one in parts]) + np.repeat(firsts, [len(one.node) for one in parts])
        return cls(
            np.concatenate(at)[whose],
            np.concatenate(counts)[whose],
            np.concatenate([one.able for one in parts]),
            np.concatenate([one.limited for one in parts]),
            np.concatenate([one.asked for one in parts]),
        )

    @classmethod
    def none(cls, zones: int, resources: int) -> Lines:
        """Return no lines."""
        none, nowhere = np.zeros(0, dtype=np.int64), np.zeros((0, zones), dtype=np.bool_)
        return cls(none, none, nowhere, np.zeros(0, dtype=np.bool_), np.zeros((0, resources), dtype=np.int64))

    def on(self, here: Mask) -> Lines:
        """Return those on some of the nodes only, bool[n]."""
        mine = here[self.at]
        return Lines(self.at[mine], self.counts[mine], self.able[mine], self.limited[mine], self.asked[mine])

    def counting(self, counts: Counts) -> Lines:
        """Return these of other numbers of pods, int64[n]."""
        return replace(self, counts=counts[self.at])

    def beside(self, other: Lines) -> Lines:
        """Return these and others of the same nodes."""
        return Lines(
            np.concatenate([self.at, other.at]),
            np.concatenate([self.counts, other.counts]),
            np.concatenate([self.able, other.able]),
            np.concatenate([self.limited, other.limited]),
            np.concatenate([self.asked, other.asked]),
        )

    def times(self, free: Counts) -> Counts:
        """Return int64[lines, zones]: how many times each fits there, where int64[lines, zones, resources] are free."""
        fits = np.where(self.able, PLENTY, 0)
        for column in np.flatnonzero(self.asked.any(axis=0)).tolist():
            asked = self.asked[:, column, None]
            each = np.maximum(free[:, :, column], 0) // np.maximum(asked, 1)
            np.minimum(fits, np.where(asked > 0, each, PLENTY), out=fits)
        return fits

    def most(self, times: Counts) -> Counts:
        """Return int64[lines, zones, resources]: the most that each takes of each zone, where it fits so many times."""
        taken: Counts = np.minimum(times, self.counts[:, None])[:, :, None] * self.asked[:, None, :]
        return taken

    def total(self, amounts: Counts, nodes: int) -> Counts:
        """Return int64[nodes, zones, resources]: amounts of the lines, added up for each node."""
        total = np.zeros((nodes, *amounts.shape[1:]), dtype=np.int64)
        np.add.at(total, self.at, amounts)
        return total


def all_fit(lines: Lines, init: Lines, available: Counts) -> Mask:
    """Return bool[n]: where all is admitted, in whatever order (`tutti.placement.plugins.numa_room` says why).

    Args:
        lines: What stays.
        init: What is given back, and needs room beside all that stays.
        available: int64[n, zones, resources].
    """
    count = len(available)
    most = lines.most(lines.times(available[lines.at]))
    load = lines.total(most, count)
    fits = lines.times(available[lines.at] - (load[lines.at] - most)).sum(axis=1)
    refused = lines.limited & (fits < lines.counts)
    beside = init.times(available[init.at] - load[init.at])
    refused_init = init.limited & ~(beside > 0).any(axis=1) & (init.counts > 0)
    safe = np.ones(count, dtype=np.bool_)
    safe[lines.at[refused]] = False
    safe[init.at[refused_init]] = False
    return safe
