"""What the ways to fulfil the requests of some claims select of the devices that are seen, told within their time."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from tutti.cluster.devices.asks import WayAsk
from tutti.cluster.devices.expressions import Expressions
from tutti.cluster.devices.offers import DeviceKind, OfferedPool
from tutti.cluster.devices.pools import NodePool
from tutti.cluster.devices.projections import DeviceProjection
from tutti.cluster.devices.search import SearchTooLong, is_tolerated
from tutti.cluster.devices.search_time import FREE_WORK, SearchTime
from tutti.cluster.devices.selections import (
    CLASS_UNTOLD,
    LEFT,
    NOT_ASKED,
    OF_NO_CLASS,
    SELECTED,
    UNTOLD,
    SelectedDevices,
    bits,
    told,
)
from tutti.cluster.devices.zones import Situations

_EVALUATION: Final = 100
"""What it costs to begin with an expression."""


class PoolMatches(NamedTuple):
    """Which devices of a pool a way to fulfil a request is about: their places as bits of an int.

    Attributes:
        of_class: Those of its class.
        selected: Those that it selects by all that it asks.
        tolerated: Those whose taints it tolerates.
        shared: Those that several may have.
        untold: Those of which it cannot be told whether it selects them.
        fault: Why not of the first of these, with {claim} for the claim, or "".
    """

    of_class: int
    selected: int
    tolerated: int
    shared: int
    untold: int
    fault: str


class WaySelections:
    """Which devices the ways of one program select.

    Attributes:
        time: How much of it there is for whoever asks.
    """

    def __init__(self, expressions: Expressions) -> None:
        self.time = SearchTime()
        self._expressions = expressions
        self._projection: Situations = DeviceProjection(-1, frozenset(), frozenset())
        self._small_work: dict[int, int] = {}
        self.begin(self._projection)

    def begin(self, projection: Situations) -> None:
        """Forget what was told: devices are looked at through a projection that is another now, or has begun anew."""
        self._projection = projection
        self._answers: dict[int, SelectedDevices] = {}
        self._refused: dict[tuple[int, int], tuple[int, int]] = {}
        self._matches: dict[tuple[int, int], PoolMatches] = {}
        self._free_of: dict[int, int] = {}

    def selects(self, way: WayAsk, kind: DeviceKind) -> bool | str:
        """Whether a way selects a device; text, with {claim} for the claim, where that cannot be told.

        Raises:
            SearchTooLong: It takes more work than is left at this moment.
        """
        answers, number = self.answers_of(way), kind.number
        known = answers.known(number)
        if known is None:
            self._tell(way, kind, answers)
            known = answers.known(number)
            assert known is not None  # it is told now
        return known

    def _tell(self, way: WayAsk, kind: DeviceKind, answers: SelectedDevices) -> None:
        """Find out of a device whether a way selects it; and of all others, where that can be told of all at once."""
        time, number = self.time, kind.number
        if not answers.count and not time.use_text(sum(map(len, self._expressions.unknown(way.selectors)))):
            raise SearchTooLong
        self._projection.contents.fill(way, answers, self._expressions)
        if answers.known(number) is not None:
            return
        work, free = self._work_on(way, kind), self._free_of.get(number, FREE_WORK)
        if not time.use_work(work, free):
            raise SearchTooLong
        self._free_of[number] = max(0, free - work)
        answers.put(number, *told(way, kind.content, self._expressions))

    def refused(self, way: WayAsk, pool: OfferedPool) -> int:
        """Return which devices of a pool a way does not select, as bits, as far as that is known."""
        answers, key = self.answers_of(way), (id(way), id(pool))  # both are kept as long as the program
        known = self._refused.get(key)
        if known is None or known[0] != answers.count:
            codes = answers.of(pool.numbers)
            known = self._refused[key] = (answers.count, bits((codes == LEFT) | (codes == OF_NO_CLASS)))
        return known[1]

    def answers_of(self, way: WayAsk) -> SelectedDevices:
        """Return what is known of what a way selects."""
        known = self._answers.get(id(way))
        if known is None:
            known = self._answers[id(way)] = self._projection.contents.answers(way)
        return known

    def matches(self, way: WayAsk, pool: NodePool) -> PoolMatches:
        """Return which devices of a pool a way selects.

        Raises:
            SearchTooLong: It takes more work than is left at this moment.
        """
        key = (id(way), self._projection.code_of(pool))
        known = self._matches.get(key)
        if known is None:
            if not self.time.looks:
                raise SearchTooLong
            self.time.looks -= 1
            answers, seen = self.answers_of(way), self._projection.seen(pool)
            for at in np.flatnonzero(answers.of(seen.numbers) == NOT_ASKED).tolist():
                self.selects(way, seen.kinds[at])
            codes = answers.of(seen.numbers)
            untold = np.flatnonzero(codes >= UNTOLD)
            kept_off = sum(1 << at for at in seen.tainted if not is_tolerated(way, seen.kinds[at]))
            known = self._matches[key] = PoolMatches(
                bits((codes != OF_NO_CLASS) & (codes != CLASS_UNTOLD)),
                bits(codes == SELECTED),
                ((1 << len(codes)) - 1) & ~kept_off,
                seen.multiple,
                bits(codes >= UNTOLD),
                answers.texts[int(seen.numbers[untold[0]])] if len(untold) else "",
            )
        return known

    def _work_on(self, way: WayAsk, kind: DeviceKind) -> int:
        """Return what it costs at most to tell of one kind of devices whether a way selects them."""
        known = self._small_work.get(id(way), 0)
        if known:
            return known
        every = (*way.class_selectors, *way.selectors)
        costs = [self._expressions.small_cost(one) for one in every]
        small = [_EVALUATION + cost for cost in costs if cost is not None]
        if len(small) == len(every):
            self._small_work[id(way)] = sum(small)
        return sum(_EVALUATION + self._expressions.cost(one, kind.content) for one in every)
