"""The sites that pods of an application are shared out over, and columns of all nodes by these."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from tutti.cluster.network_places import Places
from tutti.placement.framework import Counts, Mask, Rows


@dataclass(frozen=True, slots=True)
class Sites:
    """Where pods may go: single nodes, or places of many.

    Attributes:
        rows: int64[k], the rows that any of them may go to, those of one site side by side.
        first: int64[sites], where those of each begin.
        place: int64[sites], the place of each.
        are_nodes: Whether each is one node.
    """

    rows: Rows
    first: Counts
    place: Counts
    are_nodes: bool

    @classmethod
    def of_nodes(cls, rows: Rows, places: Places) -> Self:
        """Return these rows, each by itself."""
        return cls(rows, np.arange(len(rows), dtype=np.int64), places.codes[rows], are_nodes=True)

    @classmethod
    def of_places(cls, rows: Rows, places: Places) -> Self:
        """Return the places of these rows."""
        codes = places.codes[rows]
        many = np.bincount(codes, minlength=len(places))
        place = np.flatnonzero(many)
        first = np.cumsum(many[place]) - many[place]
        by_place = np.argsort(codes.astype(np.int16), kind="stable")  # such small numbers are sorted faster
        return cls(rows[by_place], first, place, are_nodes=False)

    def __len__(self) -> int:
        return len(self.place)

    def rows_of(self, site: int) -> Rows:
        """Return the rows of one of them."""
        last = self.first[site + 1] if site + 1 < len(self) else len(self.rows)
        return self.rows[self.first[site] : last]

    def nothing(self) -> Counts:
        """Return int64[sites], zeros: what a column without anything comes to."""
        return np.zeros(len(self), dtype=np.int64)

    def sums(self, column: Counts) -> Counts:
        """Return int64[sites]: a column of all rows, int64[rows], summed over the rows of each."""
        return np.add.reduceat(column[self.rows], self.first)

    def most(self, column: Counts) -> Counts:
        """Return int64[sites]: the most of a column over the rows of each, 0 at least: as on a row like most."""
        return np.maximum(np.maximum.reduceat(column[self.rows], self.first), 0)

    def least(self, column: Counts) -> Counts:
        """Return int64[sites]: the least of a column over the rows of each."""
        return np.minimum.reduceat(column[self.rows], self.first)

    def between(self, matrix: Counts | Mask, same: int) -> Counts:
        """Return int64[sites, sites]: what a matrix of places says of sites; `same` of one node to itself."""
        found = matrix[np.ix_(self.place, self.place)].astype(np.int64)
        if self.are_nodes:
            np.fill_diagonal(found, same)
        return found
