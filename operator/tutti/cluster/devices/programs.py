"""What some claims find on each node: searched once for all nodes that offer them the same.

A program is what the claims of a class of pods ask for. Its answers are kept by situation (`projections.py`), so that
only what it has not met yet is searched. How long that takes is bounded for all nodes together: a tenant writes the
claims, and may write some that take long on each of thousands.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import IntEnum, auto
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tutti.api.devices import MOST_RESULTS
from tutti.cluster.devices.allotments import ClaimPicks
from tutti.cluster.devices.asks import ClaimAsk
from tutti.cluster.devices.expression_reads import names_read
from tutti.cluster.devices.expressions import Expressions
from tutti.cluster.devices.offers import NEAR, TOO_MANY_WAYS, DeviceFault, Verdict
from tutti.cluster.devices.projections import DeviceProjection
from tutti.cluster.devices.rows import DeviceRows
from tutti.cluster.devices.search import SearchTooLong, search
from tutti.cluster.devices.search_time import FREE_STEPS, SearchTime
from tutti.cluster.devices.selections import (
    NOT_ASKED,
    SELECTED,
    UNTOLD,
)
from tutti.cluster.devices.way_selections import WaySelections
from tutti.cluster.devices.zones import ZONE_ATTRIBUTE, Situations, ZonedProjection, ZonesAhead

UNLIMITED: Final = 1 << 30
"""So many pods: as many as anybody may ask for."""

_MOST_LACKING: Final = 64
"""After so many searches in a row that have ended for want of work the others are left for the next moment."""

_UNASKED: Final = Verdict(reason="not looked at")
_NO_TIME: Final = Verdict(reason=TOO_MANY_WAYS)


class SearchLength(IntEnum):
    """How long it took to look for devices in all situations that were new.

    `LONG`: a search has used up all that there is. `CUT_SHORT`: one found less than that, because of others before it,
    and is gone on with at the next moment.
    """

    SHORT = auto()
    LONG = auto()
    CUT_SHORT = auto()


class DeviceProgram:
    """What some claims find on each row.

    Attributes:
        claims: Those that ask.
        reads: The names of the attributes and capacities that expressions look at; None where that may be all of them.
        compares: The names of the attributes of which only matters which devices of a node have the same.
        width: So many devices are asked for, of whichever pools, rounded up; 0: all that there are.
        projection: Tells the situation of each row.
        ways: Tells what the ways of the claims select.
        verdicts: What was found, by situation.
        steps: How many devices have been tried at this moment, beside those that may be tried in each situation.
        has_taken_long: Whether a search of it has ever taken longer than it may.
        has_faults: Whether a search of it could ever not tell what it found.
    """

    def __init__(
        self,
        claims: tuple[ClaimAsk, ...],
        expressions: Expressions,
        *,
        tight: bool = False,
        pods: int = 1,
        zoned: bool = False,
    ) -> None:
        """Begin.

        Args:
            claims: Those that ask.
            expressions: What selectors mean.
            tight: Whether the devices are chosen that fit tightest.
            pods: For so many pods one after another it can be told what they find of devices that nodes share.
            zoned: Whether it matters in which NUMA zone a device is, and not only which have the same.
        """
        self.claims = claims
        self.width = _most_devices(claims, pods)
        self.reads = _names_read(claims)
        if zoned and self.reads is not None:
            self.reads |= {ZONE_ATTRIBUTE}
        self.compares = _names_compared(claims) | ({_last(one) for one in NEAR} if tight else set())
        self.projection: Situations = DeviceProjection(-1, frozenset(), frozenset())
        self._zoned: ZonedProjection | None = None
        self._tight = tight
        self._pods = pods
        self.verdicts: list[Verdict] = []
        self.ways = WaySelections(expressions)
        self._searched = np.zeros(0, dtype=np.bool_)
        self._fits = np.zeros(0, dtype=np.bool_)
        self._ranks = np.zeros(0, dtype=np.int64)
        self._tightness = np.zeros(0, dtype=np.int64)
        self._faulty = np.zeros(0, dtype=np.bool_)
        self._why = np.zeros(0, dtype=np.int64)
        self._whys: dict[str | DeviceFault, int] = {}
        self._seen = (-1, -1)
        self._room_of: dict[int, tuple[int, bool]] = {}  # how many, and whether no more than that
        self._moves: tuple[int, bool] | None = None
        self._moment = -1.0
        self._left_at = 0
        self.steps = 0
        self.has_taken_long = self.has_faults = False
        self._length = SearchLength.SHORT
        self._cut_short: list[int] = []

    def beside(self, projection: DeviceProjection, zones: ZonesAhead) -> ZonedProjection:
        """Return the situations of a projection where pods of a class, always the same, go to these zones next."""
        if self._zoned is None or self._zoned.base is not projection:
            self._zoned = ZonedProjection(projection, zones)
        self._zoned.zones = zones
        return self._zoned

    def refresh(self, projection: Situations, rows: DeviceRows, count: int, moment: float, time: SearchTime) -> None:
        """Bring the answers for the first `count` rows up to date.

        Args:
            projection: Rows are looked at through it.
            rows: What each of them offers.
            count: How many there are.
            moment: With each other one there is time again for a search that takes long.
            time: How much of it there is for whoever asks.
        """
        if self._moment != moment or (self._cut_short and time is not self.ways.time):
            self._begin(moment)
        self.ways.time = time
        projection.refresh(rows, count)
        if projection is not self.projection or self._seen[0] != projection.epoch:
            self.projection = projection
            self.verdicts, self._searched, self._cut_short = [], np.zeros(0, dtype=np.bool_), []
            self.ways.begin(projection)
            self._room_of, self._moves = {}, None
            self._seen, self._left_at = (projection.epoch, -1), 0
        if self._seen[1] == projection.stamp and len(self._searched) >= len(projection.offers):
            return
        self._lengthen()
        used = projection.situation_of[:count]
        unknown = used[~self._searched[used]]
        if len(unknown):
            self._search_all(np.flatnonzero(np.bincount(unknown)))
        self._seen = (projection.epoch, projection.stamp)

    def _begin(self, moment: float) -> None:
        """Have searches gone on with that were cut short because of others: there is time anew, or it is another's."""
        if self._moment != moment:
            self._moment, self._length, self.steps = moment, SearchLength.SHORT, 0
        if self._cut_short:
            self._searched[self._cut_short] = False
            self._cut_short, self._room_of, self._seen = [], {}, (self._seen[0], -1)

    def length_at(self, moment: float) -> SearchLength:
        """Return how long searches took at a moment."""
        if self._moment != moment:
            return SearchLength.SHORT
        return SearchLength.CUT_SHORT if self._cut_short else self._length

    @property
    def verdict_of(self) -> NDArray[np.int64]:
        """int64[n]: which of `verdicts` each row has."""
        return self.projection.situation_of

    def at(self, row: int) -> Verdict:
        """Return what was found on a row."""
        return self.verdicts[int(self.verdict_of[row])]

    def in_turn(self, situation: int, pods: int) -> list[Verdict]:
        """Return what so many pods one after another find in a situation, up to the first that finds nothing."""
        verdict, found = self.verdicts[situation], list[Verdict]()
        while verdict.fits:
            found.append(verdict)
            if len(found) == pods:
                break
            situation = self._situation_after(situation, verdict)
            verdict = self.verdicts[situation]
        return found

    def picks(self, verdict: Verdict) -> ClaimPicks:
        """Return the claims with the devices that were found for each."""
        if len(self.claims) == 1:
            return ((self.claims[0], verdict.picks),)
        return [(ask, [one for one in verdict.picks if one.claim == at]) for at, ask in enumerate(self.claims)]

    def fits(self, count: int) -> NDArray[np.bool_]:
        """Return bool[count]: on which rows the claims can be fulfilled."""
        return self._fits[self.verdict_of[:count]]

    def ranks(self, count: int) -> NDArray[np.int64]:
        """Return int64[count]: what the chosen ways count in the score of each row."""
        return self._ranks[self.verdict_of[:count]]

    def tightness(self, count: int) -> NDArray[np.int64]:
        """Return int64[count]: how tight the chosen devices fit on each row, 0 to 100."""
        return self._tightness[self.verdict_of[:count]]

    def faulty(self, count: int) -> NDArray[np.bool_]:
        """Return bool[count]: of which rows it cannot be told."""
        return self._faulty[self.verdict_of[:count]]

    def refusals(self, asked: NDArray[np.bool_]) -> Iterator[tuple[str | DeviceFault, NDArray[np.bool_]]]:
        """Yield why claims cannot be fulfilled on rows that are asked about, bool[rows], and on which of them."""
        situations = self.verdict_of[: len(asked)]
        refused, why = asked & ~self._fits[situations], self._why[situations]
        met = self._why[np.flatnonzero(np.bincount(situations[refused]))]
        texts = list(self._whys)
        for number in dict.fromkeys(met.tolist()):
            yield texts[number], refused & (why == number)

    def room(self, count: int, most: int) -> NDArray[np.int64]:
        """Return int64[count]: for how many pods one after another the claims can be fulfilled on each row.

        Args:
            count: How many rows.
            most: Of so many pods or more it need not be told how many. Of devices that nodes share it is told of no
                more pods than the program was made for; where these find enough, it counts as UNLIMITED.
        """
        situations = self.verdict_of[:count]
        tally = np.bincount(situations)
        fitting = np.flatnonzero((tally > 0) & self._fits[: len(tally)])
        tally[:] = 0
        for situation in fitting.tolist():
            tally[situation] = self._room(situation, most)
        out: NDArray[np.int64] = tally[situations]
        return out

    def moves(self, rows: DeviceRows) -> bool:
        """Whether what one node gives may be missing on another: devices that several can use may be chosen."""
        if self._moves is None or self._moves[0] != rows.version:
            self._moves = (rows.version, self._can_share(rows))
        return self._moves[1]

    def _lengthen(self) -> None:
        missing = len(self.projection.offers) - len(self._searched)
        if missing > 0:
            more = max(missing, len(self._searched))  # doubled, so that it is seldom done
            self.verdicts += [_UNASKED] * more
            self._searched = np.append(self._searched, np.zeros(more, dtype=np.bool_))
            self._fits = np.append(self._fits[: len(self._searched) - more], np.zeros(more, dtype=np.bool_))
            self._faulty = np.append(self._faulty[: len(self._searched) - more], np.zeros(more, dtype=np.bool_))
            self._why = np.append(self._why[: len(self._searched) - more], np.zeros(more, dtype=np.int64))
            self._ranks = np.append(self._ranks[: len(self._searched) - more], np.zeros(more, dtype=np.int64))
            self._tightness = np.append(self._tightness[: len(self._searched) - more], np.zeros(more, dtype=np.int64))

    def _search(self, situation: int) -> Verdict:
        time = self.ways.time
        if time.is_over:
            self._leave(np.array([situation]))
            return _NO_TIME
        time.lacks_work = time.lacks_free = False
        free, is_whole = min(FREE_STEPS, time.free_steps), time.is_whole
        most, offer = time.steps + free, self.projection.offers[situation]
        found = search(self.claims, offer, self.ways.selects, most, tight=self._tight, refused=self.ways.refused)
        self.steps += max(0, found.steps - free)
        time.use_steps(found.steps, free)
        if found.reason == TOO_MANY_WAYS:
            self._length, self.has_taken_long = SearchLength.LONG, True
            if time.lacks_free or not is_whole:
                self._cut_short.append(situation)
        self.verdicts[situation] = found
        self._searched[situation] = True
        self._fits[situation], self._ranks[situation] = found.fits, found.rank
        self._tightness[situation] = found.tightness
        self._faulty[situation] = found.fault is not None
        self._why[situation] = self._whys.setdefault(found.fault or found.reason, len(self._whys))
        self.has_faults |= found.fault is not None
        return found

    def _search_all(self, situations: NDArray[np.int64]) -> None:
        """Look at some situations, int64[k], as long as there is time; first at those that were left the last time."""
        at = int(np.searchsorted(situations, self._left_at))
        situations, lacking = np.concatenate((situations[at:], situations[:at])), 0
        for place, situation in enumerate(situations.tolist()):
            if self.ways.time.is_over or lacking >= _MOST_LACKING:
                self._left_at = situation
                self._leave(situations[place:])
                return
            self._search(situation)
            lacking = lacking + 1 if self.ways.time.lacks_work else 0
        self._left_at = 0

    def _leave(self, situations: NDArray[np.int64]) -> None:
        """Note of some situations, int64[k], that there is no time to look at them at this moment."""
        those = situations.tolist()
        for situation in those:
            self.verdicts[situation] = _NO_TIME
        self._length, self.has_taken_long = SearchLength.LONG, True
        self._cut_short += those
        self._searched[situations] = True
        self._why[situations] = self._whys.setdefault(TOO_MANY_WAYS, len(self._whys))
        for column in (self._fits, self._faulty, self._ranks, self._tightness):
            column[situations] = 0

    def _room(self, situation: int, most: int) -> int:
        known = self._room_of.get(situation)
        if known is not None and (known[1] or known[0] >= most):
            return known[0]
        found, at, verdict = 0, situation, self.verdicts[situation]
        while verdict.fits and found < most:
            uses = self.projection.offers[at].uses
            if verdict.after == uses:
                found = UNLIMITED
                break
            found += 1
            if found == self._pods > 1:
                found = UNLIMITED
                break
            if found < most:
                at = self._situation_after(at, verdict)
                verdict = self.verdicts[at]
        self._room_of[situation] = found, found < most
        return found

    def _situation_after(self, situation: int, verdict: Verdict) -> int:
        """Return the situation in which a pod that found something leaves one, looked at."""
        following = self.projection.next(situation, verdict.after)
        self._lengthen()
        if not self._searched[following]:
            self._search(following)
        return following

    def _can_share(self, rows: DeviceRows) -> bool:
        ways = [way for claim in self.claims for request in claim.requests for way in request.ways]
        kinds = self.projection.shared(rows)
        numbers = np.array([one.number for one in kinds], dtype=np.int64)
        known = [(way, self.ways.answers_of(way).of(numbers)) for way in ways]
        if any(bool(((codes == SELECTED) | (codes >= UNTOLD)).any()) for _, codes in known):
            return True
        open_ = ((way, kinds[at]) for way, codes in known for at in np.flatnonzero(codes == NOT_ASKED).tolist())
        try:
            return any(self.ways.selects(way, kind) is not False for way, kind in open_)
        except SearchTooLong:
            return True


def _most_devices(claims: Iterable[ClaimAsk], pods: int) -> int:
    """Return how many devices so many pods take at most, rounded up to a power of two; 0: all there are."""
    counts = [[way.count for way in request.ways] for claim in claims for request in claim.requests]
    if not all(count for of_request in counts for count in of_request):
        return 0
    most = pods * sum(min(max(of_request), MOST_RESULTS) for of_request in counts)
    return 1 << max(most - 1, 0).bit_length()


def _names_compared(claims: Iterable[ClaimAsk]) -> frozenset[str]:
    """Return the names of the attributes that constraints of claims are about."""
    return frozenset(_last(one.attribute) for claim in claims for one in claim.constraints)


def _last(attribute: str) -> str:
    return attribute.rpartition("/")[2]


def _names_read(claims: Iterable[ClaimAsk]) -> frozenset[str] | None:
    """Return the names of the attributes and capacities that expressions read; None where that may be all of them."""
    names: set[str] = set()
    for claim in claims:
        for request in claim.requests:
            for way in request.ways:
                for expression in (*way.class_selectors, *way.selectors):
                    read = names_read(expression)
                    if read is None:
                        return None
                    names |= read
    return frozenset(names)
