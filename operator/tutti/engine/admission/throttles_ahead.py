"""What throttles will allow a workload, and from when on: by the clock, and as pods end that they count.

An override begins and ends at times that are known (`tutti.quota.throttles`). A pod whose end is known is used no more
from then on. Between two changes of thresholds more ends never take anything away; beyond one, what was allowed before
may not be.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tutti.cluster.placed_pods import Slots
from tutti.cluster.pods import PodRecord
from tutti.engine.admission import AdmissionState, throttling
from tutti.engine.records.pod_sets import PodSetRequest
from tutti.engine.records.throttled_pods import ThrottleBook, ThrottleKey
from tutti.quota.throttles import JUST_AFTER, NOTHING, Limits, Load

Loads = Mapping[ThrottleKey, Load]
InForce = Mapping[ThrottleKey, Limits]


class LimitStep(NamedTuple):
    """From when on some throttles have which thresholds in force, Unix seconds; of the others nothing is said."""

    at: float
    limits: InForce


def limit_steps(book: ThrottleBook, keys: Sequence[ThrottleKey], now: float) -> list[LimitStep]:
    """Return when any of some throttles next has another threshold in force, the first time first.

    Each step says what holds of all of them that have changed until then. A threshold changes just after an override
    has ended, and is followed then, so that it is taken to do so just after one has begun as well.
    """
    changes = [
        (at + JUST_AFTER, number, limits) for number, key in enumerate(keys) for at, limits in book.changes(key, now)
    ]
    steps: list[LimitStep] = []
    held: dict[ThrottleKey, Limits] = {}
    for at, number, limits in sorted(changes, key=lambda one: one[:2]):
        held = {**held, keys[number]: limits}
        if steps and steps[-1].at == at:
            steps.pop()
        steps.append(LimitStep(at, held))
    return steps


@dataclass(frozen=True, slots=True)
class CountedPods:
    """What some placed pods are to throttles.

    Attributes:
        code: int64[m], the index of what each pod is to them; -1 where none counts it.
        kinds: The throttles that count it, what it is to each of them, and whether it is used or reserved.
    """

    code: NDArray[np.int64]
    kinds: list[tuple[tuple[ThrottleKey, ...], Load, bool]]

    @classmethod
    def of(cls, book: ThrottleBook, records: Sequence[PodRecord]) -> CountedPods:
        """Read them off some pods."""
        known: dict[tuple[tuple[ThrottleKey, ...], int, bool], int] = {}
        kinds: list[tuple[tuple[ThrottleKey, ...], Load, bool]] = []
        code = np.full(len(records), -1, dtype=np.int64)
        for index, record in enumerate(records):
            counted = book.counted(record.key)
            if counted is None:
                continue
            which = (counted.keys, id(record.pod_class), counted.is_used)
            number = known.setdefault(which, len(kinds))
            if number == len(kinds):
                kinds.append((counted.keys, counted.load, counted.is_used))
            code[index] = number
        return cls(code, kinds)

    def total(self, those: NDArray[np.bool_]) -> tuple[Loads, Loads]:
        """Return what those of some pods (bool[m]) are together to each throttle: used, and reserved."""
        counts = np.bincount(self.code[those & (self.code >= 0)], minlength=len(self.kinds))
        found: tuple[dict[ThrottleKey, Load], dict[ThrottleKey, Load]] = ({}, {})
        for (keys, load, is_used), count in zip(self.kinds, counts.tolist(), strict=True):
            into = found[0] if is_used else found[1]
            for key in keys if count else ():
                into[key] = into.get(key, NOTHING) + load.times(count)
        return found


NOBODY_GONE: tuple[Loads, Loads] = ({}, {})


@dataclass(frozen=True, slots=True)
class ThrottlesAhead:
    """The throttles that are about a workload.

    Attributes:
        book: Of all throttles.
        wanted: What the required pods of the workload are together to each of them.
        steps: When they have other thresholds in force.
    """

    book: ThrottleBook
    wanted: Loads
    steps: Sequence[LimitStep]

    def limits_at(self, at: float) -> InForce:
        """Return those thresholds that are others at a time than now, Unix seconds."""
        return next((step.limits for step in reversed(self.steps) if step.at <= at), {})

    def then(
        self, limits: InForce, gone: tuple[Loads, Loads], beside: Sequence[Loads] = ()
    ) -> AbstractContextManager[None]:
        """Have other thresholds in force, some pods gone, and others there: inside, `throttling.throttled` says so.

        Args:
            limits: Those that are others than now.
            gone: What those who have gone were: used, and reserved.
            beside: What others are that will be there.
        """
        used = {key: self.book.used.get(key, NOTHING) - gone[0][key] for key in self.wanted if key in gone[0]}
        reserved: dict[ThrottleKey, Load] = {}
        for key in self.wanted:
            more = [one[key] for one in beside if key in one]
            if more or key in gone[1]:
                left = self.book.reserved.get(key, NOTHING) - gone[1].get(key, NOTHING)
                reserved[key] = sum(more, left)
        return self.book.supposing(limits, used, reserved)


def throttles_ahead(state: AdmissionState, needs: Sequence[PodSetRequest]) -> ThrottlesAhead | None:
    """Return the throttles that are about a workload; None where none is.

    Args:
        state: The engine's memory.
        needs: Its pods; the required ones of these are to start together.
    """
    return ahead_of(state, throttling.wanted_of(state, needs)) if state.throttles else None


def ahead_of(state: AdmissionState, wanted: Loads) -> ThrottlesAhead | None:
    """Return the throttles of which somebody wants this; None where that is nothing."""
    return (
        ThrottlesAhead(state.throttles, wanted, limit_steps(state.throttles, list(wanted), state.now))
        if wanted
        else None
    )


class Start(NamedTuple):
    """Somebody who starts before another: from when until when, Unix seconds, and what it is to throttles."""

    begin: float
    end: float
    wanted: Loads


def allowed_from(
    state: AdmissionState, needs: Sequence[PodSetRequest], since: float, before: Sequence[Start]
) -> float | None:
    """Return from when on all throttles let a workload start, as far as ends are known, Unix seconds.

    Args:
        state: The engine's memory; it is as before afterwards.
        needs: Its pods.
        since: Not before that, Unix seconds.
        before: Those who start before it.

    Returns:
        `since` where they do so then; None where none of the overrides and ends that are looked at is enough.
    """
    ahead = throttles_ahead(state, needs)
    if ahead is None:
        return since
    columns = state.cluster.pod_columns
    slots: Slots = np.flatnonzero((columns.row >= 0) & np.isfinite(columns.until))
    ends, counted = columns.until[slots], CountedPods.of(state.throttles, columns.at(slots))
    moments = {since, *ends[(ends > since) & (counted.code >= 0)].tolist(), *(one.at for one in ahead.steps)}
    moments |= {at for one in before for at in (one.begin, one.end) if math.isfinite(at)}
    times: list[float] = sorted(at for at in moments if at >= since)

    def lets(at: float) -> bool:
        there = [one.wanted for one in before if one.begin <= at < one.end]
        with ahead.then(ahead.limits_at(at), counted.total(ends <= at), there):
            return throttling.throttled(state, needs) is None

    for first, last in _stretches(times, [*(one.at for one in ahead.steps), *(one.begin for one in before)]):
        if lets(times[last]):
            return times[bisect.bisect_left(range(last), True, lo=first, key=lambda index: lets(times[index]))]
    return None


def _stretches(times: Sequence[float], turns: Sequence[float]) -> Iterator[tuple[int, int]]:
    """Yield the first and the last index of times between which only ends lie; `turns` may take something away."""
    firsts = sorted({0, *(index for index in (bisect.bisect_left(times, one) for one in turns) if index < len(times))})
    yield from zip(firsts, [*(one - 1 for one in firsts[1:]), len(times) - 1], strict=True)
