"""Quotas that hold for a time: which do at a moment, until when, and what comes then.

A window is on from its beginning until its end, and no longer on at its end. Where several that are on name the same
quota, the first one counts (as in kube-throttler, temporaryThresholdOverrides); what none of them names is as at other
times. Nothing is remembered: what holds at a moment follows from the moment alone, so that whoever begins in the middle
of a window has the same quotas as whoever has been there before.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tutti.api.schedules import Schedule
from tutti.quota.tree import FlavorResource, Quota

Quotas = Mapping[FlavorResource, Quota]


class WindowState(NamedTuple):
    """Whether a window is on, and until when that is so, Unix seconds; infinity: for ever."""

    is_on: bool
    until: float


@dataclass(frozen=True, slots=True)
class Window:
    """A time between two moments, or one that comes again.

    Attributes:
        begin: Unix seconds; of one that comes again without meaning, as is `end`.
        schedule: When it begins, again and again; None: once.
        seconds: How long it lasts each time.
    """

    name: str
    begin: float = -math.inf
    end: float = math.inf
    schedule: Schedule | None = None
    seconds: float = 0.0

    def at(self, now: float) -> WindowState:
        """Return whether it is on, and until when that is so at least."""
        if self.schedule is None:
            if now < self.begin:
                return WindowState(False, self.begin)
            return WindowState(True, self.end) if now < self.end else WindowState(False, math.inf)
        begun = self.schedule.last(now, self.seconds)
        if begun is not None:
            return WindowState(True, begun + self.seconds)
        begins = self.schedule.next(now)
        return WindowState(False, math.inf if begins is None else begins)

    def meets(self, other: Window, now: float) -> bool:
        """Whether two that come once are on at the same time, now or later; of others nothing is said."""
        once = self.schedule is None and other.schedule is None
        return once and max(self.begin, other.begin, now) < min(self.end, other.end)


class TemporaryQuotas(NamedTuple):
    """A window, and the quotas that hold in it, of what it names."""

    window: Window
    quotas: Quotas


class QuotasNow(NamedTuple):
    """The quotas of a queue at a moment.

    Attributes:
        quotas: Of all that it lists.
        on: The windows that are on, by name.
        until: Until when this is so at least, Unix seconds.
    """

    quotas: Quotas
    on: tuple[str, ...]
    until: float


@dataclass(frozen=True, slots=True)
class QuotaCalendar:
    """The quotas of one queue over time.

    Attributes:
        usual: Those that hold when no window is on.
        temporary: The windows in their order.
    """

    usual: Quotas
    temporary: tuple[TemporaryQuotas, ...]

    def at(self, now: float) -> QuotasNow:
        """Return what holds at a moment."""
        quotas, on, until = dict(self.usual), list[str](), math.inf
        for window, others in reversed(self.temporary):
            state = window.at(now)
            until = min(until, state.until)
            if state.is_on:
                quotas.update(others)
                on.append(window.name)
        return QuotasNow(quotas, tuple(reversed(on)), until)

    def most(self, now: float) -> Quotas:
        """Return the most that any quota is from now on, window or not: each by itself, whenever it is."""
        found: dict[FlavorResource, Quota] = {}
        states = [(window.at(now), others) for window, others in self.temporary]
        for what, usual in self.usual.items():
            named = [(state, others[what]) for state, others in states if what in others]
            is_over = any(
                state.is_on and state.until == math.inf for state, _ in named
            )  # the usual one does not return
            ahead = [quota for state, quota in named if state.is_on or state.until < math.inf]
            found[what] = _largest(ahead if is_over else [usual, *ahead])
        return found


def _largest(quotas: Sequence[Quota]) -> Quota:
    return Quota(
        max(quota.nominal for quota in quotas),
        _most([quota.borrowing_limit for quota in quotas]),
        _most([quota.lending_limit for quota in quotas]),
    )


def _most(limits: Sequence[int | None]) -> int | None:
    known = [limit for limit in limits if limit is not None]
    return max(known) if len(known) == len(limits) else None


class QuotaStep(NamedTuple):
    """From when on some queues have which quotas: all that have windows, Unix seconds."""

    at: float
    quotas: Mapping[str, Quotas]


def steps_ahead(calendars: Mapping[str, QuotaCalendar], now: float, most: int) -> list[QuotaStep]:
    """Return the next times at which any quota changes, the first one first.

    Args:
        calendars: By queue.
        now: Unix seconds; what holds now is not among them.
        most: How many at most.
    """
    holding = {name: calendar.at(now) for name, calendar in calendars.items()}
    steps: list[QuotaStep] = []
    for _ in range(2 * most):  # some boundaries change nothing
        at = min((one.until for one in holding.values()), default=math.inf)
        if at == math.inf or len(steps) == most:
            break
        before = {name: one.quotas for name, one in holding.items()}
        holding = {name: calendars[name].at(at) if one.until <= at else one for name, one in holding.items()}
        after = {name: one.quotas for name, one in holding.items()}
        if after != before:
            steps.append(QuotaStep(at, after))
    return steps
