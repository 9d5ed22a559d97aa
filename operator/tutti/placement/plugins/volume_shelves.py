"""Where free volumes can be used, as columns, and the smallest of them that each node can use.

Most volumes say where they can be used by one label of the node and the values it may have. Those are kept per label
value, so that the smallest for each node is looked up for all nodes in one step, however many volumes there are. Of
others that only a few nodes can use, these nodes are kept; of the rest a column of all nodes, once for all volumes
that say the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from tutti.api.selectors import NodeSelector
from tutti.api.storage import PersistentVolume
from tutti.cluster.nodes import NodeColumns
from tutti.placement.framework import Mask
from tutti.placement.plugins import node_affinity

Ranks = NDArray[np.int64]
"""Numbers of volumes in order of size, the same order for all claims of a pod."""

NONE = np.iinfo(np.int64).max
"""The rank that stands for no volume."""

_EVERYWHERE, _BY_NODE = "", "/"
"""Places that no label is named like: all nodes together, and each by itself."""

_FEW = 16
"""Of so many nodes each is noted that can use a volume."""

_encode = msgspec.msgpack.Encoder().encode


@dataclass(slots=True)
class _Place:
    """The volumes that can be used where one label has some value, as pairs of both, the smallest volume first.

    Attributes:
        codes: int64[rows], the value that a node has; `values` where it has none.
        ranks: int64[pairs], the volumes.
        at: int64[pairs], the values.
    """

    codes: NDArray[np.int64]
    values: int
    ranks: Ranks
    at: NDArray[np.int64]

    def among(self, members: Mask) -> _Place:
        """Return what is left where only some volumes count."""
        kept = members[self.ranks]
        return _Place(self.codes, self.values, self.ranks[kept], self.at[kept])


class Whereabouts:
    """Where each of some volumes, ranked in their order, can be used.

    Attributes:
        taken: bool[ranks], those that are left out from now on.
        wide: Of volumes that many nodes can use and that name no one label, bool[rows]: which can.
    """

    def __init__(self, nodes: NodeColumns, volumes: Sequence[PersistentVolume]) -> None:
        self.rows = len(nodes)
        self.taken = np.zeros(len(volumes), dtype=np.bool_)
        self.wide: dict[int, Mask] = {}
        self._nodes = nodes
        self._masks: dict[bytes, Mask | list[int]] = {}
        self._by_value: dict[str, dict[int, list[int]]] = {}
        pairs: dict[str, tuple[list[int], list[int]]] = {}
        for rank, volume in enumerate(volumes):
            place, codes = self._where(rank, volume)
            ranks, at = pairs.setdefault(place, ([], []))
            ranks += [rank] * len(codes)
            at += codes
        self.places = [self._place(key, *both) for key, both in pairs.items() if both[0]]

    def _where(self, rank: int, volume: PersistentVolume) -> tuple[str, Sequence[int]]:
        """Return the place of a volume and the values for which it can be used there."""
        required = required_of(volume)
        if required is None:
            return _EVERYWHERE, (0,)
        key = _one_label(required)
        if key is not None:
            code_of = self._nodes.label(key).code_of
            values = dict.fromkeys(required.node_selector_terms[0].match_expressions[0].values)
            return key, [code_of[value] for value in values if value in code_of]
        said = _encode(required)
        rows = self._masks.get(said)
        if rows is None:
            rows = self._masks[said] = self._usable(required)
        if isinstance(rows, list):
            return _BY_NODE, rows
        self.wide[rank] = rows
        return _BY_NODE, ()

    def _usable(self, required: NodeSelector) -> Mask | list[int]:
        """Return the nodes that match, as rows where these are few."""
        few = self._candidates(required)
        if few is not None:
            nodes = self._nodes
            return [row for row in few if required.matches(nodes.labels[row], nodes.names[row])]
        mask = node_affinity.matches_any_term(self._nodes, required)
        rows = np.flatnonzero(mask)
        return rows.tolist() if len(rows) <= _FEW else mask

    def _candidates(self, required: NodeSelector) -> list[int] | None:
        """Return the few nodes beyond which none can match, where one expression says so."""
        terms = required.node_selector_terms
        if len(terms) == 1:
            for one in terms[0].match_expressions:
                if one.operator == "In" and len(one.values) <= _FEW:
                    rows_of, code_of = self._rows_by_value(one.key), self._nodes.label(one.key).code_of
                    values = [value for value in dict.fromkeys(one.values) if value in code_of]
                    found = [row for value in values for row in rows_of.get(code_of[value], ())]
                    if len(found) <= _FEW:
                        return sorted(found)
        return None

    def _rows_by_value(self, key: str) -> dict[int, list[int]]:
        found = self._by_value.get(key)
        if found is None:
            found = self._by_value[key] = {}
            for row, code in enumerate(self._nodes.label(key).codes[: self.rows].tolist()):
                found.setdefault(code, []).append(row)
        return found

    def _place(self, key: str, ranks: list[int], at: list[int]) -> _Place:
        if key == _EVERYWHERE:
            codes, values = np.where(self._nodes.present, 0, -1), 1
        elif key == _BY_NODE:
            codes, values = np.arange(self.rows), self.rows
        else:
            column = self._nodes.label(key)
            codes, values = column.codes[: self.rows], len(column.values)
        return _Place(np.where(codes < 0, values, codes), values, np.array(ranks), np.array(at))


class _Table:
    """The smallest volumes of one place for each value."""

    def __init__(self, place: _Place, taken: Mask, most: int) -> None:
        self._place, self._taken = place, taken
        order = np.argsort(place.at, kind="stable")
        self._ranks, at = place.ranks[order], place.at[order]
        self._starts = np.searchsorted(at, np.arange(place.values + 1))
        self.depth = min(most, int(np.diff(self._starts).max(initial=0)))
        self._table = np.full((place.values + 1, self.depth), NONE, dtype=np.int64)
        number = np.arange(len(at)) - self._starts[at]
        shown = number < self.depth
        self._table[at[shown], number[shown]] = self._ranks[shown]

    def first(self) -> Ranks:
        """Return int64[rows, depth]: the smallest volumes that each node can use, ascending."""
        found: Ranks = self._table[self._place.codes]
        return found

    def take(self, rank: int) -> None:
        """Show what is left where a volume was that is taken."""
        begin, end = np.searchsorted(self._place.ranks, (rank, rank + 1))
        for code in self._place.at[begin:end].tolist():
            ranks = self._ranks[self._starts[code] : self._starts[code + 1]]
            left = ranks[~self._taken[ranks]][: self.depth]
            self._table[code] = NONE
            self._table[code, : len(left)] = left


class Shelf:
    """The volumes that claims of one kind could be bound to.

    Attributes:
        depth: How many of them are looked at for each node: all that any node can use, but no more than is asked for.
    """

    def __init__(self, where: Whereabouts, members: Mask, most: int) -> None:
        self._where = where
        self._wide = {rank: mask for rank, mask in where.wide.items() if members[rank]}
        places = [place.among(members) for place in where.places]
        self._tables = [_Table(place, where.taken, most) for place in places if len(place.ranks)]
        self.depth = min(most, sum(table.depth for table in self._tables) + len(self._wide))

    def first(self) -> Ranks:
        """Return int64[rows, depth]: the smallest volumes that each node can use, ascending, padded with NONE."""
        found = [table.first() for table in self._tables]
        if self._wide:
            found.append(self._first_wide())
        if len(found) == 1:
            return found[0]
        several = np.concatenate(found, axis=1)
        several.sort(axis=1)
        return several[:, : self.depth]

    def take(self, rank: int) -> None:
        """Leave out a volume that is taken."""
        for table in self._tables:
            table.take(rank)

    def _first_wide(self) -> Ranks:
        out = np.full((self._where.rows, self.depth), NONE)
        count = np.zeros(self._where.rows, dtype=np.int64)
        for rank, mask in self._left_wide():
            rows = np.flatnonzero(mask & (count < self.depth))
            out[rows, count[rows]] = rank
            count[rows] += 1
        return out

    def _left_wide(self) -> Iterator[tuple[int, Mask]]:
        return ((rank, mask) for rank, mask in self._wide.items() if not self._where.taken[rank])


def where_usable(nodes: NodeColumns, volume: PersistentVolume) -> Mask:
    """Return bool[rows]: which nodes can use a volume."""
    required = required_of(volume)
    return nodes.present.copy() if required is None else node_affinity.matches_any_term(nodes, required)


def required_of(volume: PersistentVolume) -> NodeSelector | None:
    """Return which nodes can use a volume; None where all can."""
    return volume.spec.node_affinity.required if volume.spec.node_affinity is not None else None


def _one_label(required: NodeSelector) -> str | None:
    """Return the label of which a volume names the values, where it says nothing else; else None."""
    terms = required.node_selector_terms
    expressions = terms[0].match_expressions if len(terms) == 1 and not terms[0].match_fields else []
    return expressions[0].key if len(expressions) == 1 and expressions[0].operator == "In" else None
