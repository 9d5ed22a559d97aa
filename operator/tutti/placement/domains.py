"""Counting the pods that a query means by topology domain: a domain is a value of one node label."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tutti.cluster.classes import PodClass
from tutti.cluster.label_index import Codes
from tutti.cluster.nodes import NodeColumns
from tutti.cluster.signatures import PodQuery
from tutti.placement.framework import Counts, Mask


@dataclass(slots=True)
class Domains:
    """One topology key over all rows.

    Attributes:
        codes: int32[rows], the domain of each row, -1 where it has none; int64 of chosen rows, for what is looked up
            by these again and again.
        size: How many domains there may be.
        whole: Whether it is known that every row has one.
        key: The topology key.
    """

    codes: NDArray[np.int32] | NDArray[np.int64]
    size: int
    whole: bool = False
    key: str = ""

    @classmethod
    def of(cls, nodes: NodeColumns, key: str) -> Domains:
        """Return the domains of a topology key."""
        column = nodes.label(key)
        return cls(column.codes[: len(nodes)], len(column.values), key=key)

    @property
    def known(self) -> Mask:
        """bool[rows]: which rows are in a domain."""
        known: Mask = self.codes >= 0
        return known

    def at(self, rows: NDArray[np.int64]) -> Domains:
        """Return the domains of these rows only."""
        codes = self.codes[rows].astype(np.int64)
        return Domains(codes, self.size, whole=bool((codes >= 0).all()), key=self.key)

    def sum(self, rows: NDArray[np.int32], amounts: Counts) -> Counts:
        """Return int64[size]: the sum of the amounts of these rows (which may repeat), per domain."""
        codes = self.codes[rows]
        inside = codes >= 0
        out = np.zeros(self.size, dtype=np.int64)
        np.add.at(out, codes[inside], amounts[inside])
        return out

    def sum_all(self, amounts: Counts) -> Counts:
        """Return int64[size]: the sum of all rows' amounts, int64[rows], per domain."""
        known = self.known
        out: Counts = np.bincount(self.codes[known], amounts[known], self.size).astype(np.int64)
        return out

    def spread(self, per_domain: Counts) -> Counts:
        """Return int64[rows]: each row's domain's number, 0 for rows without a domain."""
        return per_domain[self.codes] if self.whole else np.append(per_domain, 0)[self.codes]


def count_by_domain(nodes: NodeColumns, chosen: Codes, domains: Domains) -> Counts:
    """Return int64[domains]: how many pods of the chosen codes are in each."""
    rows, counts, _ = nodes.label_index.where(chosen)
    return domains.sum(rows, counts)


def means(query: PodQuery, pod_class: PodClass, nodes: NodeColumns) -> bool:
    """Whether a query means the pods of a class."""
    return query.matches(pod_class.namespace, nodes.namespaces.namespace_labels(pod_class.namespace), pod_class.labels)
