"""How far a volume reaches that is made for a node: to the nodes that its driver cannot tell from that one.

A CSI driver says by which node labels: the topology keys in the CSINodes (storage.k8s.io/v1); without any, its volumes
are used everywhere. Of a provisioner that no CSINode knows it can only be supposed: volumes stay in a zone, or where
the class allows them (`allowedTopologies`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tutti.cluster.classes import PodClass
from tutti.cluster.nodes import NodeColumns
from tutti.cluster.storage import StorageBook
from tutti.cluster.volumes import Wanted
from tutti.placement.framework import Mask

ZONE = "topology.kubernetes.io/zone"


@dataclass(frozen=True, slots=True)
class Reaches:
    """Which nodes can use one another's volumes.

    Attributes:
        codes: int64[rows], equal where a volume that is made for the one can be used on the other.
        count: How many there are: codes are less.
        known: Whether the driver says so; else it is supposed.
    """

    codes: NDArray[np.int64]
    count: int
    known: bool

    def of(self, row: int) -> Mask:
        """Return bool[rows]: where a volume can be used that is made for a row."""
        mask: Mask = self.codes == self.codes[row]
        return mask


def reaches_of(klass: PodClass, wanted: Wanted, nodes: NodeColumns) -> Reaches | None:
    """Return how far a volume reaches that is made for a claim of a class of pods; None where it is used everywhere."""
    stamp = (nodes.version, len(nodes), nodes.volumes.book.version)
    return klass.keep(("reaches", wanted.storage_class), stamp, lambda: _reaches(wanted.storage_class, nodes))


def _reaches(storage_class: str, nodes: NodeColumns) -> Reaches | None:
    keys, known = _keys(storage_class, nodes.volumes.book)
    codes = np.zeros(len(nodes), dtype=np.int64)
    for key in keys:
        column = nodes.label(key)
        codes = codes * (len(column.values) + 1) + column.codes[: len(nodes)] + 1
        codes = np.unique(codes, return_inverse=True)[1].reshape(-1).astype(np.int64)
    count = int(codes.max(initial=0)) + 1
    several = len(np.unique(codes[nodes.present])) > 1
    return Reaches(codes, count, known) if several else None


def _keys(storage_class: str, book: StorageBook) -> tuple[tuple[str, ...], bool]:
    """Return the labels that a volume of a class goes by, and whether its driver says so."""
    found = book.classes.get(storage_class)
    if found is None:
        return (), True  # nothing is made
    said = book.topology_keys(found.provisioner)
    if said is not None:
        return said, True
    allowed = {one.key for term in found.allowed_topologies for one in term.match_label_expressions}
    return tuple(sorted({ZONE, *allowed})), False
