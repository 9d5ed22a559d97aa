"""Those who are parked for want of quota in one quota tree, as columns: who of them fits now, and who of these is next.

A class has a row, a row has an option for each flavor that would do, and an option asks for something of each resource
at a spot of the tree (`quota/tree_columns.py`). One expression says of all of them who fits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tutti.cluster.columns import longer
from tutti.engine.queue.heads import Place, place_among_heads
from tutti.engine.records.queue_entries import EquivalenceClass, QueueEntry
from tutti.quota.assignment import AssignmentMode
from tutti.quota.fair_sharing import Key
from tutti.quota.share_columns import Ranks, ShareColumns, is_before
from tutti.quota.tree import QuotaNode
from tutti.quota.tree_columns import NOWHERE, TreeColumns, clipped

_LOOKS: Final = 2
"""So often in a turn the first alone is looked for; after that all who fit are put in order."""

_FAR: Final = 2**31
"""Further away than any quota."""


def first_by(keys: Sequence[NDArray[Any]]) -> int:
    """Return which of n comes first by keys, each an array[n], what counts most first."""
    some = np.arange(len(keys[0]))
    for key in keys:
        values = key[some]
        some = some[values == values.min()]
    return int(some[0])


class Slots:
    """Columns that grow together; slot 0 is nobody's, and a slot that was given back is used again."""

    def __init__(self, **blank: float) -> None:
        self._blank = blank
        self._of: dict[str, NDArray[Any]] = {name: np.full(64, value) for name, value in blank.items()}
        self._free: list[int] = []
        self.count = 1

    def __getitem__(self, name: str) -> NDArray[Any]:
        """Return a column, as long as there are slots."""
        return self._of[name][: self.count]

    def take(self, **values: float) -> int:
        """Fill a slot, in the columns that are named, and return its number."""
        slot = self._free.pop() if self._free else self.count
        if slot == self.count:
            self.count += 1
            if self.count > len(next(iter(self._of.values()))):
                self._of = {name: longer(column, 2 * self.count) for name, column in self._of.items()}
        for name, value in values.items():
            self._of[name][slot] = value
        return slot

    def give(self, slot: int) -> None:
        """Give a slot back."""
        for name, value in self._blank.items():
            self._of[name][slot] = value
        self._free.append(slot)


@dataclass(slots=True, eq=False)
class Row:
    """A class that is parked, its first entry, and where it stands in the columns.

    Attributes:
        queue: Its ClusterQueue.
        place: Where the first stood when it came.
        is_own: Whether it waits for what is its queue's own.
    """

    first: QueueEntry
    queue: str
    is_own: bool
    place: Place
    number: int = 0
    options: list[int] = field(default_factory=list)
    asks: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _RankedByShare:
    """How those rank who may go by shares, by option: as long as the same is used, and nobody else comes.

    Attributes:
        rows: intp[n], whose it is.
        fits: bool[n], whether it fits; else it waits for what is its queue's own.
        ranks: How it ranks.
        rest: What is compared after that, an array[n] each: less importance, since when it waits, its queue's place.
    """

    rows: NDArray[np.intp]
    fits: NDArray[np.bool_]
    ranks: Ranks
    rest: tuple[NDArray[Any], NDArray[Any], NDArray[Any]]


class ParkedTree:
    """The classes that are parked in one tree.

    Attributes:
        lines: By their queue.
        tried: Who has not been looked at again since he was tried.

    Args:
        shares: What the queues of the tree compete by, where they do so by fair shares.
    """

    def __init__(self, shares: ShareColumns | None = None) -> None:
        self.lines: dict[str, dict[EquivalenceClass, Row]] = {}
        self.tried: dict[EquivalenceClass, None] = {}
        self._columns = TreeColumns()
        self._shares = shares
        self._rows: list[Row | None] = [None]
        self._row = Slots(
            there=False, asked=False, own=False, rank=0.0, level=0, less=0, since=0.0, name=0, queue=0, child=0
        )
        self._option = Slots(row=0)
        self._ask = Slots(option=0, spot=NOWHERE, amount=0, resource=0, worth=0.0)
        self._owning: dict[str, int] = {}
        self._moved: dict[str, None] = {}
        self._names: list[tuple[str, int]] = []
        self._unnamed = False
        self._by_share: _RankedByShare | None = None
        self._looks = 0
        self._line: list[tuple[Place, Row]] = []
        self._own_line: list[tuple[Place, Row]] = []

    def put(self, node: QuotaNode, entry: QueueEntry, flavors: Iterable[str]) -> Row:
        """Take in a class that is parked.

        Args:
            node: Its queue in the tree.
            entry: The first of it.
            flavors: Any of which would do.
        """
        self._by_share = None
        equals, queue = entry.equivalence, node.name
        choice, group = equals.choice, equals.known.groups[0]
        assert choice is not None  # it has been looked at
        place = place_among_heads(entry, choice.level)
        row = Row(entry, queue, choice.mode is AssignmentMode.PREEMPT, place)
        rank, (level, less, since), name = place
        shares = self._shares
        competes = {} if shares is None else {"queue": shares.queue(node), "child": shares.place(node)}
        ranks = {"rank": rank, "level": level, "less": clipped(less), "since": since}
        row.number = self._row.take(there=True, own=row.is_own, **ranks, **competes)
        if row.number == len(self._rows):
            self._rows.append(row)
        self._rows[row.number] = row
        self._names.append((name, row.number))
        self._unnamed = True
        ((_, resources),) = group.resource_groups.items()
        for flavor in flavors:
            option = self._option.take(row=row.number)
            row.options.append(option)
            for one in resources:
                spot, amount = self._columns.spot(node, (flavor, one)), clipped(group.requests[one])
                row.asks.append(self._ask.take(option=option, spot=spot, amount=amount))
                if shares is not None:
                    self._ask["resource"][row.asks[-1]] = shares.resource((flavor, one))
                    self._ask["worth"][row.asks[-1]] = node.worth_of((flavor, one), 1)
        self.lines.setdefault(queue, {})[equals] = row
        self._moved.pop(queue, None)
        self._owning[queue] = self._owning.get(queue, 0) + row.is_own
        if not equals.stale:
            self.tried[equals] = None
        return row

    def compare_again(self, row: Row) -> bool:
        """Have a class compared as if just tried, and say so; not where it is asked for, or stands elsewhere by now."""
        if self.is_asked(row) or place_among_heads(row.first, row.place[1].level) != row.place:
            return False
        self.tried[row.first.equivalence] = None
        return True

    def drop(self, row: Row) -> bool:
        """Let go of a class; returns whether it was asked for."""
        was_asked = self.is_asked(row)
        for slot in row.asks:
            self._ask.give(slot)
        for slot in row.options:
            self._option.give(slot)
        self._row.give(row.number)
        self._rows[row.number] = None
        here, equals = self.lines[row.queue], row.first.equivalence
        del here[equals]
        self._owning[row.queue] -= row.is_own
        if not here:
            del self.lines[row.queue], self._owning[row.queue]
        self.tried.pop(equals, None)
        return was_asked

    def has_moved(self, queue: QuotaNode) -> None:
        """Note that more or less is used of a queue."""
        self._by_share = None
        self._moved[queue.name] = None
        self._columns.has_moved(queue.path)
        if self._shares is not None:
            self._shares.has_moved(queue)

    def take_moved(self) -> Iterator[EquivalenceClass]:
        """Yield who waits for what is his own in queues of which more or less is used than when this was asked last."""
        moved, self._moved = self._moved, {}
        for queue in moved:
            if self._owning.get(queue):
                yield from list(self.lines[queue])

    def ask_all(self) -> None:
        """Have everybody looked at who is parked now."""
        self._row["asked"][:] = self._row["there"]
        self.begin_anew()

    def asks_any(self) -> bool:
        """Whether anybody is to be looked at."""
        return bool(self._row["asked"].any())

    def begin_anew(self) -> None:
        """Forget in which order they come: more may fit than did."""
        self._looks, self._line, self._own_line = 0, [], []

    def end(self) -> list[EquivalenceClass]:
        """Have nobody looked at any more; returns of whom nothing has come for the first time since he was tried."""
        asked = self._row["asked"]
        news = [equals for equals in self.tried if asked[self.lines[equals.line.name[0]][equals].number]]
        for equals in news:
            del self.tried[equals]
        asked[:] = False
        self.begin_anew()
        return news

    def nearest(self, *, has_others: bool) -> tuple[Place, Row] | None:
        """Return who is next of those who are asked for, by a place that is never behind his.

        As long as no quota is given back, who has not fitted never will: `begin_anew` says where that is not so.

        Args:
            has_others: Whether anybody else is looked at.
        """
        if self._looks > _LOOKS:
            return self._next_in_line(has_others=has_others)
        self._looks += 1
        asked = self._row["asked"]
        fitting = self._fitting_options() if asked.any() else np.zeros(0, dtype=np.intp)
        fits = np.zeros(self._row.count, dtype=np.bool_)
        fits[self._option["row"][fitting]] = True
        fits &= asked
        chosen = fits | (asked & self._row["own"])
        if not (chosen if has_others else fits).any():
            return None
        level = self._row["level"].copy()
        level[fits] = self._levels(fitting)[fits]
        keys = self._keys(level)
        if self._looks > _LOOKS:
            self._line = self._in_line(np.flatnonzero(fits), keys)
            self._own_line = self._in_line(np.flatnonzero(asked & self._row["own"]), self._keys(self._row["level"]))
            return self._next_in_line(has_others=has_others)
        some = np.flatnonzero(chosen)
        return self._placed(int(some[first_by([key[some] for key in keys])]), level)

    def nearest_by_share(self, head: tuple[QuotaNode, Key] | None) -> Row | None:
        """Return who is asked for and may go before the head that would win among those who are awake.

        Args:
            head: The queue of that head, and how it ranks; None where nobody is awake.
        """
        asked = self._row["asked"]
        if not asked.any():
            return None
        if self._by_share is None:
            self._by_share = self._ranked_by_share()
        ranked = self._by_share
        goes = asked[ranked.rows]
        some = np.flatnonzero(goes)
        if not len(some) or (head is None and not (goes & ranked.fits).any()):
            return None
        best = int(some[first_by([key[some] for key in (*ranked.ranks, *ranked.rest)])])
        row = self._rows[int(ranked.rows[best])]
        assert row is not None  # a row without anybody is not asked
        if head is not None:
            assert self._shares is not None  # they compete by them
            share = bool(ranked.ranks.is_infinite[best]), float(ranked.ranks.share[best])
            less, since, child = (one[best].item() for one in ranked.rest)
            borrows, place = bool(ranked.ranks.borrows[best]), self._shares.place(head[0])
            if not is_before(borrows, share, (less, since, child), head[1], place):
                return None
        return row

    def _ranked_by_share(self) -> _RankedByShare:
        """Rank all who fit, or wait for what is their queue's own."""
        shares, of_row = self._shares, self._option["row"]
        assert shares is not None  # they compete by them
        fits = np.zeros(self._option.count, dtype=np.bool_)
        fits[self._fitting_options()] = True
        options = np.flatnonzero(fits | (self._row["own"][of_row] & (of_row > 0)))
        number = np.full(self._option.count, -1, dtype=np.intp)
        number[options] = np.arange(len(options))
        of_ask = number[self._ask["option"]]
        some = np.flatnonzero((of_ask >= 0) & (self._ask["spot"] != NOWHERE))
        spots, amounts, resources, worths = (self._ask[name][some] for name in ("spot", "amount", "resource", "worth"))
        rows = of_row[options]
        queues, own_left = self._row["queue"][rows], self._columns.own_left(spots)
        ranks = shares.ranks(queues, of_ask[some], resources, amounts, worths, own_left)
        less, since, child = (self._row[name][rows] for name in ("less", "since", "child"))
        return _RankedByShare(rows, fits[options], ranks, (less, since, child))

    def _fitting_options(self) -> NDArray[np.intp]:
        """Return intp[n]: the options of which everything fits."""
        asks, of = self._ask, self._option["row"]
        lacks = asks["amount"] > np.maximum(self._columns.available()[asks["spot"]], 0)
        short = np.bincount(asks["option"][lacks], minlength=len(of))
        return np.flatnonzero((short == 0) & (of > 0))

    def _levels(self, fitting: NDArray[np.intp]) -> NDArray[np.int64]:
        """Return int64[rows]: from how far away what each asks for would come, in the nearest flavor that fits."""
        of_option = np.full(self._option.count, -1, dtype=np.int64)
        of_option[fitting] = 0
        some = np.flatnonzero(of_option[self._ask["option"]] == 0)
        spots, amounts, options = (self._ask[name][some] for name in ("spot", "amount", "option"))
        np.maximum.at(of_option, options, self._columns.levels(spots, amounts))
        out = np.full(self._row.count, _FAR, dtype=np.int64)
        np.minimum.at(out, self._option["row"][fitting], of_option[fitting])
        return out

    def _keys(self, level: NDArray[np.int64]) -> tuple[NDArray[Any], ...]:
        """Return what sorts the rows as `place_among_heads` does, what counts most first."""
        if self._unnamed:
            self._names = [(name, number) for name, number in self._names if self._is_named(name, number)]
            self._names.sort()
            self._row["name"][[number for _, number in self._names]] = np.arange(len(self._names))
            self._unnamed = False
        return self._row["rank"], level, self._row["less"], self._row["since"], self._row["name"]

    def _is_named(self, name: str, number: int) -> bool:
        row = self._rows[number]
        return row is not None and row.first.workload.name == name

    def _in_line(self, some: NDArray[np.intp], keys: tuple[NDArray[Any], ...]) -> list[tuple[Place, Row]]:
        """Return some rows in order, the next one last, with their places."""
        order = np.lexsort([key[some] for key in reversed(keys)])[::-1]
        return [self._placed(number, keys[1]) for number in some[order].tolist()]

    def _placed(self, number: int, level: NDArray[np.int64]) -> tuple[Place, Row]:
        row = self._rows[number]
        assert row is not None  # a row without anybody is not asked
        return place_among_heads(row.first, int(level[number])), row

    def _next_in_line(self, *, has_others: bool) -> tuple[Place, Row] | None:
        """Return the next one of those in line who still fits, or who waits for his own where anybody else is there."""
        line, own = self._line, self._own_line
        while line and not (self.is_asked(line[-1][1]) and self._still_fits(line[-1][1])):
            line.pop()
        while own and not self.is_asked(own[-1][1]):
            own.pop()
        ends = [some[-1] for some in ((line, own) if line or has_others else (line,)) if some]
        return min(ends, key=lambda one: one[0], default=None)

    def is_asked(self, row: Row) -> bool:
        """Whether a class is to be looked at."""
        return self._rows[row.number] is row and bool(self._row["asked"][row.number])

    def _still_fits(self, row: Row) -> bool:
        left, short = self._columns.available(), set[int]()
        for slot in row.asks:
            if self._ask["amount"][slot] > max(0, left[self._ask["spot"][slot]]):
                short.add(int(self._ask["option"][slot]))
        return len(short) < len(row.options)
