"""Which free volumes the claims of a pod would get on each node: the smallest that fits, over all nodes at once.

Most volumes say where they can be used by one label of the node and the values it may have. Those are kept per label
value, so that the smallest for each node is looked up for all nodes in one step, however many volumes there are.
Rule: kube-scheduler 1.36, plugins/volumebinding/binder.go (findMatchingVolumes): claims in order of size, and a volume
that an earlier claim of the pod takes is none for a later one.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from tutti.api.labels import NodeSelector
from tutti.api.storage import PersistentVolume
from tutti.cluster.nodes import NodeColumns
from tutti.cluster.volumes import UnboundClaim
from tutti.placement.framework import Mask
from tutti.placement.plugins import node_affinity

Ranks = NDArray[np.int64]
"""Numbers of volumes in order of size, the same order for all claims of a pod."""

NONE = np.iinfo(np.int64).max
"""The rank that stands for no volume."""


class _Places:
    """Volumes that can be used where one label has some value; without a label, everywhere."""

    def __init__(self, codes: NDArray[np.int32], values: int, depth: int) -> None:
        self._by_code: dict[int, list[int]] = {}
        self._codes_of: dict[int, list[int]] = {}
        self._table = np.full((values + 1, depth), NONE, dtype=np.int64)
        self._codes = np.where(codes < 0, values, codes)

    def put(self, rank: int, codes: Sequence[int]) -> None:
        """Add a volume that can be used where the label has one of these values."""
        self._codes_of[rank] = list(codes)
        for code in codes:
            insort(self._by_code.setdefault(code, []), rank)
            self._show(code)

    def take(self, rank: int) -> None:
        """Leave out a volume from now on."""
        for code in self._codes_of.pop(rank, ()):
            self._by_code[code].remove(rank)
            self._show(code)

    def first(self) -> Ranks:
        """Return int64[rows, depth]: the smallest volumes that each node can use, ascending."""
        found: Ranks = self._table[self._codes]
        return found

    def _show(self, code: int) -> None:
        found = self._by_code[code][: self._table.shape[1]]
        self._table[code] = NONE
        self._table[code, : len(found)] = found


class Shelf:
    """The volumes that one claim could be bound to; `depth` is how many of them are looked at for each node."""

    def __init__(self, nodes: NodeColumns, volumes: Iterable[tuple[int, PersistentVolume]], depth: int) -> None:
        self._places: dict[str, _Places] = {}
        self._masks: dict[int, Mask] = {}
        self._shape = (len(nodes), depth)
        for rank, volume in volumes:
            self._put(nodes, rank, volume)

    def first(self) -> Ranks:
        """Return int64[rows, depth]: the smallest volumes that each node can use, ascending, padded with NONE."""
        found = [places.first() for places in self._places.values()]
        if len(found) == 1 and not self._masks:
            return found[0]
        masked = [np.where(mask, rank, NONE)[:, None] for rank, mask in self._masks.items()]
        several = np.concatenate([np.full(self._shape, NONE), *found, *masked], axis=1)
        several.sort(axis=1)
        return several[:, : self._shape[1]]

    def take(self, rank: int) -> None:
        """Leave out a volume from now on."""
        self._masks.pop(rank, None)
        for places in self._places.values():
            places.take(rank)

    def _put(self, nodes: NodeColumns, rank: int, volume: PersistentVolume) -> None:
        required = _required(volume)
        if required is None:
            self._at("", np.where(nodes.present, 0, -1).astype(np.int32), 1).put(rank, [0])
            return
        terms = required.node_selector_terms
        expressions = terms[0].match_expressions if len(terms) == 1 and not terms[0].match_fields else []
        if len(expressions) != 1 or expressions[0].operator != "In":
            self._masks[rank] = node_affinity.matches_any_term(nodes, required)
            return
        column = nodes.label(expressions[0].key)
        places = self._at(expressions[0].key, column.codes[: len(nodes)], len(column.values))
        codes = (column.code_of.get(value) for value in dict.fromkeys(expressions[0].values))
        places.put(rank, [code for code in codes if code is not None])

    def _at(self, key: str, codes: NDArray[np.int32], values: int) -> _Places:
        places = self._places.get(key)
        if places is None:
            places = self._places[key] = _Places(codes, values, self._shape[1])
        return places


class StaticVolumes:
    """The free volumes for all claims of one class of pods, which fall as pods are placed.

    Attributes:
        any: Whether there is any volume for any claim, or one that was given to others who share it.
        picks: Of each claim (the smallest first) int64[rows]: the volume that it would get, or NONE.
    """

    def __init__(self, nodes: NodeColumns, wanted: Sequence[UnboundClaim]) -> None:
        self._wanted = wanted
        shelved = [list(nodes.volumes.free_volumes(one)) if not one.selected else [] for one in wanted]
        volumes = {volume.metadata.name: volume for volumes in shelved for volume in volumes}
        order = sorted(volumes.values(), key=lambda volume: (volume.size, volume.metadata.name))
        self._names = [volume.metadata.name for volume in order]
        self._rank_of = {name: rank for rank, name in enumerate(self._names)}
        self._shelves = [
            Shelf(nodes, ((self._rank_of[volume.metadata.name], volume) for volume in several), i + 1)
            for i, several in enumerate(shelved)
        ]
        self._settled: dict[int, Ranks] = {}
        self._given: dict[int, str] = {}
        self.any = bool(order)
        self.picks = self._pick()
        for i, one in enumerate(wanted):
            kept = nodes.volumes.pledges.shared(one.shared) if one.shared else None
            if kept is not None:
                self._settle(nodes, i, kept.volume)
                self.any = self.any or bool(kept.volume)
        if self._settled:
            self.picks = self._pick()

    def given(self, claim: int) -> str | None:
        """Return what a claim that several pods use has got: a volume, or "" for one to be made; None: nothing yet."""
        return self._given.get(claim)

    def names(self, row: int) -> tuple[str, ...]:
        """Return the volumes that the claims of a pod on a row would get; "" for those that none is there for."""
        return tuple(self._names[ranks[row]] if ranks[row] != NONE else "" for ranks in self.picks)

    def take(self, nodes: NodeColumns, row: int) -> None:
        """Give the volumes of a row to a pod there; a claim that its pods share is settled with the first of them."""
        for i, name in enumerate(self.names(row)):
            if i in self._settled:
                continue
            if self._wanted[i].shared:
                self._settle(nodes, i, name)
            elif name:
                for shelf in self._shelves:
                    shelf.take(self._rank_of[name])
        self.picks = self._pick()

    def _settle(self, nodes: NodeColumns, claim: int, name: str) -> None:
        """Hold a shared claim to the volume that it has got, or to having one made."""
        self._settled[claim] = np.full(len(nodes), NONE)
        self._given[claim] = name
        volume = nodes.volumes.book.volumes.get(name)
        if volume is None:
            return
        if name not in self._rank_of:
            self._rank_of[name] = len(self._names)
            self._names.append(name)
        rank = self._rank_of[name]
        for shelf in self._shelves:
            shelf.take(rank)
        self._settled[claim][where_usable(nodes, volume)] = rank

    def _pick(self) -> list[Ranks]:
        picks: list[Ranks] = []
        for i, shelf in enumerate(self._shelves):
            if i in self._settled:
                picks.append(self._settled[i])
                continue
            found = shelf.first()
            for earlier in picks:
                found = np.where(found == earlier[:, None], NONE, found)
            picks.append(found.min(axis=1))
        return picks


def where_usable(nodes: NodeColumns, volume: PersistentVolume) -> Mask:
    """Return bool[rows]: which nodes can use a volume."""
    required = _required(volume)
    return nodes.present.copy() if required is None else node_affinity.matches_any_term(nodes, required)


def _required(volume: PersistentVolume) -> NodeSelector | None:
    return volume.spec.node_affinity.required if volume.spec.node_affinity is not None else None
