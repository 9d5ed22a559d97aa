"""The order of one line, kept up to date as workloads come and go, where it is not first come, first served.

What the order goes by stands in columns, a row for each equivalence class: of equals the oldest goes first, whatever
the order, so that only the first of each class competes. A turn asks for all that are active, in one expression; after
that only what has changed is looked at again. Where somebody stands depends on the moment, on what users have, and on
how long others have run: none of that is kept, all of it is read when it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from tutti.quota.queue_order import BY_DEMAND, BY_RUN_TIME, BY_USE, Factor, QueueOrder, Standpoint
from tutti.quota.run_times import Expected, seconds_expected

Terms = tuple[float, ...]
"""What an order says of a workload, less for who is next; nothing where there is none."""

Class = TypeVar("Class", bound=Hashable)

WHOLE = 2**40
"""All of the quota of a queue: parts of it are whole numbers, so that sums do not depend on who came first."""
_NOTHING: Mapping[str, int] = {}


class Traits(NamedTuple):
    """What an order goes by that a workload has of itself; equals have the same.

    Attributes:
        holder: For whom it would hold quota: its user, or its LocalQueue.
        local_queue: Namespace and name.
        kind: Whose run times tell its own.
        said: For how long it says that it runs, seconds; 0 where it does not.
        limit: For how long it may run yet, seconds; 0 for ever.
        size: The part of the queue's quota that it asks for, 0 to 1.
        progress: 0 for who has converged, 1 for who still progresses.
        asks: What it asks for of each resource, of `WHOLE`.
    """

    holder: str
    local_queue: str
    kind: str
    said: float
    limit: float
    size: float
    progress: float
    asks: tuple[tuple[str, int], ...]


class OrderFacts(Protocol):
    """What an order goes by that changes."""

    def now(self) -> float:
        """Return the time, Unix seconds."""

    def expected(self, local_queue: str, kind: str) -> Expected | None:
        """Return what is known of how long a kind of workload runs."""

    def share(self, queue: str, holder: str) -> float:
        """Return which part of a queue somebody has, in his dominant resource, 0 to 1."""


class FirstPlace(NamedTuple):
    """Where the first of a class stands before its traits count: what a plugin says, its priority, and since when."""

    rank: float
    priority: int
    since: float


class _Numbers:
    """Numbers for what many rows have in common, so that it is worked out once for all of them."""

    def __init__(self) -> None:
        self._known: dict[Hashable, list[int]] = {}
        self._free: list[int] = []
        self.traits: list[Traits] = []

    def take(self, about: Hashable, traits: Traits) -> int:
        """Return the number of something that one more row has."""
        found = self._known.get(about)
        if found is None:
            number = self._free.pop() if self._free else len(self.traits)
            if number == len(self.traits):
                self.traits.append(traits)
            self.traits[number] = traits
            found = self._known[about] = [number, 0]
        found[1] += 1
        return found[0]

    def give(self, about: Hashable) -> None:
        """Note that one row less has it."""
        found = self._known[about]
        found[1] -= 1
        if not found[1]:
            del self._known[about]
            self._free.append(found[0])


_RANK, _PRIORITY, _SINCE, _SIZE, _PROGRESS, _RUN, _HOLDER = range(7)


class LineOrder(Generic[Class]):
    """Sorts the classes of a line.

    Args:
        queue: The name of the ClusterQueue.
        order: Its order.
        facts: What that goes by.
        first: Returns where the first of a class stands; None where it is empty.
        key: Returns what sorts it wholly.
    """

    def __init__(
        self,
        queue: str,
        order: QueueOrder,
        facts: OrderFacts,
        *,
        first: Callable[[Class], FirstPlace | None],
        key: Callable[[Class], Any],
    ) -> None:
        self.queue, self.order, self.facts = queue, order, facts
        self._first, self._key = first, key
        self._rows: dict[Class, int] = {}
        self._free: list[int] = []
        self._columns = np.zeros((7, 8))
        self._stale: dict[Class, None] = {}
        self._demand: dict[str, dict[str, float]] = {}
        self._runs, self._holders = _Numbers(), _Numbers()

    def terms(self, traits: Traits, priority: int, since: float) -> Terms:
        """Return what sorts a workload as things are now."""
        now = self.facts.now()
        return self.order.terms(priority, since, now, self.standpoint(traits, now - since))

    def standpoint(self, traits: Traits, wait: float) -> Standpoint:
        """Return what the order goes by of a workload that has waited so long, seconds."""
        return Standpoint(
            wait,
            self._seconds(traits) if self.order.goes_by(BY_RUN_TIME) else 0.0,
            traits.size,
            self._share(traits) if self.order.goes_by(BY_USE) else 0.0,
            self._demanded(traits) if self.order.goes_by(BY_DEMAND) else 0.0,
            traits.progress,
        )

    def come(self, one: Class, traits: Traits) -> None:
        """Note that a workload has come to a class."""
        if one not in self._rows:
            width = self._columns.shape[1]
            row = self._free.pop() if self._free else len(self._rows)
            if row >= width:
                self._columns = np.concatenate((self._columns, np.zeros_like(self._columns)), axis=1)
            self._rows[one] = row
            numbers = self._runs.take(_run_of(traits), traits), self._holders.take(traits.holder, traits)
            self._columns[_SIZE:, row] = traits.size, traits.progress, *numbers
        self._stale[one] = None
        self._asks(traits, 1)

    def go(self, one: Class, traits: Traits, *, last: bool) -> None:
        """Note that a workload has left its class, perhaps as the last one."""
        self._asks(traits, -1)
        self._stale[one] = None
        if last:
            del self._stale[one]
            self._free.append(self._rows.pop(one))
            self._runs.give(_run_of(traits))
            self._holders.give(traits.holder)

    def clear(self) -> None:
        """Forget everybody."""
        self._rows, self._free, self._stale, self._demand = {}, [], {}, {}
        self._runs, self._holders = _Numbers(), _Numbers()

    def sorted(self, some: Iterable[Class]) -> Iterator[Class]:
        """Yield some classes, that of who is next first."""
        for one in self._stale:
            place = self._first(one)
            if place is not None:
                self._columns[: _SINCE + 1, self._rows[one]] = place
        self._stale = {}
        chosen = [one for one in some if one in self._rows]
        rows = np.fromiter((self._rows[one] for one in chosen), dtype=np.intp, count=len(chosen))
        rank, priority, since, size, progress, runs, holders = self._columns[:, rows]
        seconds = self._gathered(BY_RUN_TIME, self._runs, runs, self._seconds)
        share = self._gathered(BY_USE, self._holders, holders, self._share)
        demand = self._gathered(BY_DEMAND, self._holders, holders, self._demanded)
        now = self.facts.now()
        of = Standpoint(now - since, seconds, size, share, demand, progress)
        less, overdue, value = self.order.columns(priority, since, now, of)
        columns = rank, less, overdue, value
        places = np.lexsort(columns[::-1])
        numbers = list(zip(*(column[places].tolist() for column in columns), strict=True))
        for _, equals in groupby(range(len(places)), key=numbers.__getitem__):
            found = [chosen[places[at]] for at in equals]
            yield from sorted(found, key=self._key) if len(found) > 1 else found

    def terms_of_all(self, found: Sequence[tuple[Traits, int, float]]) -> list[Terms]:
        """Return what sorts each of many: by their traits, priorities, and since when they wait, Unix seconds."""
        seconds = self._each(BY_RUN_TIME, [traits for traits, _, _ in found], _run_of, self._seconds)
        share = self._each(BY_USE, [traits for traits, _, _ in found], _holder_of, self._share)
        demand = self._each(BY_DEMAND, [traits for traits, _, _ in found], _holder_of, self._demanded)
        said = [(one.size, one.progress, float(priority), since) for one, priority, since in found]
        size, progress, priority, since = np.array(said, dtype=np.float64).reshape(-1, 4).T
        now = self.facts.now()
        columns = self.order.columns(
            priority, since, now, Standpoint(now - since, seconds, size, share, demand, progress)
        )
        return list(zip(*(one.tolist() for one in columns), strict=True))

    def _each(
        self,
        factors: frozenset[Factor],
        found: Sequence[Traits],
        about: Callable[[Traits], Hashable],
        of: Callable[[Traits], float],
    ) -> Any:
        """Return float64[found]: something that many have in common, worked out once for each; 0 where nobody asks."""
        if not self.order.goes_by(factors):
            return 0.0
        firsts = {about(one): one for one in found}
        known = {key: of(one) for key, one in firsts.items()}
        return np.fromiter((known[about(one)] for one in found), dtype=np.float64, count=len(found))

    def _gathered(
        self, factors: frozenset[Factor], numbers: _Numbers, which: NDArray[np.float64], of: Callable[[Traits], float]
    ) -> Any:
        """Return float64[rows]: something that rows have in common, worked out once for each; 0 where nobody asks."""
        if not self.order.goes_by(factors):
            return 0.0
        known, at = np.unique(which, return_inverse=True)
        values = [of(numbers.traits[int(number)]) for number in known.tolist()]
        return np.asarray(values, dtype=np.float64)[at]

    def _seconds(self, traits: Traits) -> float:
        known = self.facts.expected(traits.local_queue, traits.kind)
        return seconds_expected(known, said=traits.said, limit=traits.limit, otherwise=self.order.run_seconds)

    def _share(self, traits: Traits) -> float:
        return self.facts.share(self.queue, traits.holder)

    def _demanded(self, traits: Traits) -> float:
        return max(self._demand.get(traits.holder, _NOTHING).values(), default=0) / WHOLE

    def _asks(self, traits: Traits, sign: int) -> None:
        if not self.order.goes_by(BY_DEMAND):
            return
        asked = self._demand.setdefault(traits.holder, {})
        for resource, part in traits.asks:
            asked[resource] = asked.get(resource, 0) + sign * part
            if not asked[resource]:
                del asked[resource]
        if not asked:
            del self._demand[traits.holder]


def _holder_of(traits: Traits) -> Hashable:
    return traits.holder


def _run_of(traits: Traits) -> Hashable:
    return traits.local_queue, traits.kind, traits.said, traits.limit
