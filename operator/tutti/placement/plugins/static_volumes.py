"""Which free volumes the claims of a pod would get on each node: the smallest that fits, over all nodes at once.

Rule: kube-scheduler 1.36, plugins/volumebinding/binder.go (findMatchingVolumes): claims in order of size, and a volume
that an earlier claim of the pod takes is none for a later one.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from tutti.api.storage import PersistentVolume
from tutti.cluster.nodes import NodeColumns
from tutti.cluster.volumes import UnboundClaim
from tutti.placement.plugins.volume_shelves import NONE, Ranks, Shelf, Whereabouts, where_usable

replace = msgspec.structs.replace
_encode = msgspec.msgpack.Encoder().encode


class StaticVolumes:
    """The free volumes for all claims of one class of pods, which fall as pods are placed.

    Claims that could be bound to the same volumes share a shelf.

    Attributes:
        any: Whether there is any volume for any claim, or one that was given to others who share it.
        picks: Of each claim (the smallest first) int64[rows]: the volume that it would get, or NONE.
    """

    def __init__(self, nodes: NodeColumns, wanted: Sequence[UnboundClaim]) -> None:
        self._wanted = wanted
        kinds = [_kind(one) for one in wanted]
        last = {kind: i for i, kind in enumerate(kinds)}
        shelved = {kind: list(nodes.volumes.free_volumes(wanted[i])) if kind else [] for kind, i in last.items()}
        order = _in_order(list(shelved.values()))
        self._names = [volume.metadata.name for volume in order]
        self._rank_of = {name: rank for rank, name in enumerate(self._names)}
        self._where = Whereabouts(nodes, order)
        self._shelves = [self._shelf(several, last[kind] + 1) for kind, several in shelved.items()]
        number = {kind: i for i, kind in enumerate(shelved)}
        self._shelf_of = [number[kind] for kind in kinds]
        self._none = np.full(len(nodes), NONE)
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
                self._leave_out(self._rank_of[name])
        self.picks = self._pick()

    def _settle(self, nodes: NodeColumns, claim: int, name: str) -> None:
        """Hold a shared claim to the volume that it has got, or to having one made."""
        self._settled[claim] = self._none
        self._given[claim] = name
        volume = nodes.volumes.book.volumes.get(name)
        if volume is None:
            return
        if name not in self._rank_of:
            self._rank_of[name] = len(self._names)
            self._names.append(name)
        rank = self._rank_of[name]
        self._leave_out(rank)
        self._settled[claim] = np.where(where_usable(nodes, volume), rank, NONE)

    def _leave_out(self, rank: int) -> None:
        """Have no shelf show a volume any more; what was settled before may be on none."""
        if rank < len(self._where.taken):
            self._where.taken[rank] = True
            for shelf in self._shelves:
                shelf.take(rank)

    def _shelf(self, volumes: Sequence[PersistentVolume], most: int) -> Shelf:
        members = np.zeros(len(self._names), dtype=np.bool_)
        members[[self._rank_of[volume.metadata.name] for volume in volumes]] = True
        return Shelf(self._where, members, most)

    def _pick(self) -> list[Ranks]:
        """Return what each claim gets: of what its shelf shows, the smallest that none before it has got."""
        picks: list[Ranks] = []
        shown: dict[int, Ranks] = {}
        cleared = [0] * len(self._shelves)
        for i, number in enumerate(self._shelf_of):
            if i in self._settled or not self._shelves[number].depth:
                picks.append(self._settled.get(i, self._none))
                continue
            if number not in shown:
                shown[number] = self._shelves[number].first()
            found = shown[number]
            for earlier in picks[cleared[number] :]:
                if earlier is not self._none:
                    found[found == earlier[:, None]] = NONE
            cleared[number] = i
            picks.append(found.min(axis=1))
        return picks


def _in_order(shelved: Sequence[list[PersistentVolume]]) -> list[PersistentVolume]:
    """Return all volumes once, in the order in which each shelf has its own."""
    if len(shelved) == 1:
        return shelved[0]
    volumes = {volume.metadata.name: volume for several in shelved for volume in several}
    return sorted(volumes.values(), key=lambda volume: (volume.size, volume.metadata.name))


def _kind(one: UnboundClaim) -> bytes:
    """Return what claims are equal in that could be bound to the same volumes; nothing of one that none is for."""
    return b"" if one.selected else _encode(replace(one, promised=False, shared=""))
