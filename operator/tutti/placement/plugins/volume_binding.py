"""Where the volumes of a pod can be had: bound ones used, free ones taken, new ones made; and how far those reach.

Rules: kube-scheduler 1.36, plugins/volumebinding/binder.go. Claims that several pods of a gang share have one volume:
the first of them chooses the volume, or the node that one is made for, and the others go where that can be used.
kube-scheduler would let them wait until the volume exists; a gang that is placed as a whole cannot.

A volume that is made for a node can be used on the nodes that its CSI driver cannot tell from that one: it says by
which node labels (the topology keys in the CSINodes, storage.k8s.io/v1); without any, its volumes are used everywhere.
Of a provisioner that no CSINode knows it can only be supposed: volumes stay in a zone, or where the class allows them
(`allowedTopologies`). That is tried first (`shared_claims.py`), but where no one place holds the gang it is spread.
Should the volume turn out to be out of reach of some then, the gang is placed again, by it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from tutti.api.storage import CSIStorageCapacity, StorageClass
from tutti.cluster.classes import Feature, PodClass
from tutti.cluster.nodes import NodeColumns
from tutti.cluster.storage import StorageBook
from tutti.cluster.transaction import Transaction
from tutti.cluster.volumes import UnboundClaim
from tutti.placement.framework import FlavorConstraints, Mask, Rejection
from tutti.placement.plugins import node_affinity
from tutti.placement.plugins.static_volumes import StaticVolumes
from tutti.placement.plugins.volume_shelves import NONE

ZONE = "topology.kubernetes.io/zone"


@dataclass(frozen=True, slots=True)
class VolumeTopology:
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


def volume_topology(pod_class: PodClass, wanted: UnboundClaim, nodes: NodeColumns) -> VolumeTopology | None:
    """Return how far a volume reaches that is made for a claim of a class of pods; None where it is used everywhere."""
    stamp = (nodes.version, len(nodes), nodes.volumes.book.version)
    return pod_class.keep(
        ("reaches", wanted.storage_class), stamp, lambda: _volume_topology(wanted.storage_class, nodes)
    )


def _volume_topology(storage_class: str, nodes: NodeColumns) -> VolumeTopology | None:
    keys, known = _topology_keys(storage_class, nodes.volumes.book)
    codes = np.zeros(len(nodes), dtype=np.int64)
    for key in keys:
        column = nodes.label(key)
        codes = codes * (len(column.values) + 1) + column.codes[: len(nodes)] + 1
        codes = np.unique(codes, return_inverse=True)[1].reshape(-1).astype(np.int64)
    count = int(codes.max(initial=0)) + 1
    several = len(np.unique(codes[nodes.present])) > 1
    return VolumeTopology(codes, count, known) if several else None


def _topology_keys(storage_class: str, book: StorageBook) -> tuple[tuple[str, ...], bool]:
    """Return the labels that a volume of a class goes by, and whether its driver says so."""
    found = book.classes.get(storage_class)
    if found is None:
        return (), True  # nothing is made
    said = book.topology_keys(found.provisioner)
    if said is not None:
        return said, True
    allowed = {one.key for term in found.allowed_topologies for one in term.match_label_expressions}
    return tuple(sorted({ZONE, *allowed})), False


OUT_OF_REACH = "node(s) didn't match PersistentVolume's node affinity"
NONE_TO_BIND = "node(s) didn't find available persistent volumes to bind"
NOT_ENOUGH = "node(s) did not have enough free storage"
OUT_OF_SHARED_REACH = "node(s) out of reach of the volume of a claim that the pods share"
NO_SUCH_VOLUME = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"

_CAN_BE_MADE, _CANNOT, _NO_SPACE = 0, 1, 2


class BindingState:
    """Where the volumes of one class can be used, as its pods take free volumes one after another."""

    one_per_node = False

    def __init__(self, pod_class: PodClass, nodes: NodeColumns) -> None:
        self._pod_class, self._nodes = pod_class, nodes
        self._wanted = pod_class.volumes.wanted
        stamp = (nodes.version, len(nodes))
        self._bound = pod_class.keep("volumes bound elsewhere", stamp, lambda: _bound_elsewhere(pod_class, nodes))
        self._makeable = [
            pod_class.keep(
                ("volumes made", one.storage_class, one.size, one.promised),
                (*stamp, nodes.volumes.book.version),
                partial(_makeable, one, nodes, pod_class),
            )
            for one in self._wanted
        ]
        self._free = StaticVolumes(nodes, self._wanted)
        self._given: list[tuple[int, tuple[str, ...]]] = []
        self._reaches = [_shared_topology(pod_class, one, nodes) for one in self._wanted]
        self._homes: dict[int, Mask] = {}
        for i, one in enumerate(self._wanted):
            kept = nodes.volumes.pledges.shared(one.shared) if one.shared else None
            if kept is not None and not kept.volume:
                self._keep_near(i, nodes.rows[kept.node], settled=kept.settled)

    @property
    def changes_on_add(self) -> bool:
        """Whether what a pod of the class takes, or has made, keeps the next one from some nodes."""
        ties = any(one is not None and one.known and i not in self._homes for i, one in enumerate(self._reaches))
        return self._free.any or ties

    def rejections(self) -> Sequence[Rejection]:
        """Rule out nodes for each thing that is the matter with them."""
        cannot, no_space = self._unbindable()
        beyond = np.zeros(len(self._nodes), dtype=np.bool_)
        for home in self._homes.values():
            beyond |= ~home
        beyond &= ~(cannot | no_space)
        out = self._bound + [
            Rejection(reason, rows, final=True)
            for reason, rows in ((NONE_TO_BIND, cannot), (NOT_ENOUGH, no_space), (OUT_OF_SHARED_REACH, beyond))
            if rows.any()
        ]
        return tuple(out)

    def add(self, row: int) -> None:
        """Give a pod on a row its volumes; one whose claims are all bound needs none."""
        if not self._wanted:
            return
        self._given.append((row, self._free.names(row)))
        self._free.take(self._nodes, row)
        for i, one in enumerate(self._wanted):
            if one.shared and self._free.given(i) == "":
                self._keep_near(i, row, settled=False)

    def settle(self, transaction: Transaction) -> None:
        """Earmark what was given since the last time; nothing was where all is to be made."""
        given, self._given = self._given, []
        for row, volumes in given:
            transaction.earmark(self._pod_class, row, volumes)

    def _keep_near(self, claim: int, row: int, *, settled: bool) -> None:
        """Hold the pods to where a volume can be used that is made for a row, where that is known or settled."""
        topology = self._reaches[claim]
        if topology is not None and (topology.known or settled) and claim not in self._homes:
            self._homes[claim] = topology.of(row)

    def _unbindable(self) -> tuple[Mask, Mask]:
        """Return bool[rows] twice: where no volume can be had for a claim, and where there is no space to make one."""
        rows = len(self._nodes)
        cannot, no_space = np.zeros(rows, dtype=np.bool_), np.zeros(rows, dtype=np.bool_)
        left = np.ones(rows, dtype=np.bool_)
        for one in self._wanted:
            if one.selected:
                elsewhere = np.ones(rows, dtype=np.bool_)
                elsewhere[[self._nodes.rows[name] for name in (one.selected,) if name in self._nodes.rows]] = False
                cannot |= left & elsewhere
                left &= ~elsewhere
        claims = sorted(range(len(self._wanted)), key=lambda i: not self._wanted[i].selected)
        for i in claims:
            lacking = left & (self._free.picks[i] == NONE)
            if self._free.given(i):
                cannot |= lacking
                left &= ~lacking
                continue
            cannot |= lacking & (self._makeable[i] == _CANNOT)
            no_space |= lacking & (self._makeable[i] == _NO_SPACE)
            left &= ~(cannot | no_space)
        return cannot, no_space


@dataclass(frozen=True, slots=True)
class VolumeBinding:
    """The filter."""

    concerns: int = field(default=Feature.CLAIMS, init=False)

    def pre_filter(self, pod_class: PodClass, nodes: NodeColumns, where: FlavorConstraints) -> BindingState | None:  # noqa: ARG002 - a filter's signature
        """Look where the volumes can be had; None where the class has none."""
        if not pod_class.volumes.bound and not pod_class.volumes.wanted:
            return None
        return BindingState(pod_class, nodes)


def _shared_topology(pod_class: PodClass, wanted: UnboundClaim, nodes: NodeColumns) -> VolumeTopology | None:
    """Return how far a volume reaches that is made for a claim which others may use; None where that is no matter."""
    return volume_topology(pod_class, wanted, nodes) if wanted.shared and not wanted.selected else None


def _bound_elsewhere(pod_class: PodClass, nodes: NodeColumns) -> list[Rejection]:
    """Rule out nodes that a bound volume cannot be used on."""
    out, left = [], nodes.present.copy()
    for reach in pod_class.volumes.bound:
        if reach.missing:
            out.append(Rejection(NO_SUCH_VOLUME, left.copy(), final=True))
            break
        if reach.affinity is not None:
            rows = left & ~node_affinity.matches_any_term(nodes, reach.affinity)
            left &= ~rows
            out.append(Rejection(OUT_OF_REACH, rows, final=True))
    return out


def makeable(wanted: UnboundClaim, nodes: NodeColumns, pod_class: PodClass) -> Mask:
    """Return bool[rows]: for which nodes a volume can be made."""
    mask: Mask = _makeable(wanted, nodes, pod_class) == _CAN_BE_MADE
    return mask


def _makeable(wanted: UnboundClaim, nodes: NodeColumns, pod_class: PodClass) -> NDArray[np.int8]:
    """Return int8[rows]: whether a volume can be made for a node, for a claim of a class of pods."""
    book = nodes.volumes.book
    out = np.full(len(nodes), _CANNOT, dtype=np.int8)
    found = book.classes.get(wanted.storage_class)
    if found is not None and found.provisions and not wanted.promised:
        allowed = _in_topology(found, nodes)
        out[allowed] = _CAN_BE_MADE
        if wanted.size and book.tracks_capacity(found.provisioner):
            key, stamp = ("space", wanted.storage_class), (nodes.version, len(nodes), book.version)
            space = pod_class.keep(key, stamp, lambda: _space(wanted.storage_class, nodes))
            out[allowed & ~space.takes(wanted.size)] = _NO_SPACE
    return out


@dataclass(frozen=True, slots=True)
class _Space:
    """The largest volume of a storage class that can be made for each node.

    Attributes:
        sizes: All that there are, ascending.
        most: int64[rows]: how many of them are no larger than that of the node; 0 where none can be made.
    """

    sizes: Sequence[int]
    most: NDArray[np.int64]

    def takes(self, size: int) -> Mask:
        """Return bool[rows]: for which nodes there is space for a volume of a size."""
        mask: Mask = self.most > bisect_left(self.sizes, size)
        return mask


def _space(storage_class: str, nodes: NodeColumns) -> _Space:
    places = sorted(nodes.volumes.book.capacities(storage_class), key=lambda one: one.largest)
    most = np.zeros(len(nodes), dtype=np.int64)
    for i, one in enumerate(places):
        most[_has_access(one, nodes)] = i + 1
    return _Space([one.largest for one in places], most)


def _in_topology(storage_class: StorageClass, nodes: NodeColumns) -> Mask:
    """Return bool[rows]: where a class's provisioner may make volumes; everywhere if it does not say."""
    if not storage_class.allowed_topologies:
        return nodes.present.copy()
    out = np.zeros(len(nodes), dtype=np.bool_)
    for term in storage_class.allowed_topologies:
        fits = nodes.present.copy() if term.match_label_expressions else np.zeros_like(out)
        for one in term.match_label_expressions:
            fits &= node_affinity.has_label_among(nodes, one.key, one.values)
        out |= fits
    return out


def _has_access(capacity: CSIStorageCapacity, nodes: NodeColumns) -> Mask:
    """Return bool[rows]: which nodes can use the storage of a place."""
    if capacity.node_topology is None:
        return np.zeros(len(nodes), dtype=np.bool_)
    return node_affinity.matches_label_selector(nodes, capacity.node_topology)
