"""The windows of ClusterQueues and Cohorts as they are written, what is wrong with them, and what is on now.

What is wrong with a window costs that window, or what it names in vain, and the condition `TemporaryQuotas` of its
queue says so. The queue goes on with what is left.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations

import msgspec

from tutti.api.conditions import timestamp
from tutti.api.kinds import ClusterQueue, Cohort
from tutti.api.kinds.quotas import Nominal
from tutti.api.kinds.temporary_quotas import TemporaryQuota, seconds_of
from tutti.api.resources import from_milli
from tutti.api.schedules import parse_schedule
from tutti.quota.tree import FlavorResource, Quota
from tutti.quota.windows import QuotaCalendar, Quotas, QuotasNow, QuotaStep, TemporaryQuotas, Window, steps_ahead

MOST_STEPS = 16
"""How many of the next changes of quota are looked at when it is worked out who starts when."""

_MOST_PROBLEMS = 5
"""How many problems of one queue are told; the rest is counted."""

Turning = ClusterQueue | Cohort
"""What may have windows."""

InUnits = Callable[[str, str, Nominal], int]
"""What a flavor's nominal quota of a resource comes to, in scheduling units."""


class WindowNote(msgspec.Struct, frozen=True):
    """What a queue with windows is told of them: a condition without its times, and which are on."""

    is_on: bool
    reason: str
    message: str
    on: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WrittenWindow:
    """A window that can be read, and where it is written."""

    window: Window
    spec: TemporaryQuota


class QuotaWindows:
    """The windows of all queues and cohorts.

    Attributes:
        calendars: Of each queue that has any, by name, and of each cohort, by its `cohort_key`.
        notes: What these are told.
        turns_at: When anything is otherwise next, Unix seconds.
        version: Grows whenever a note changes.
    """

    def __init__(self) -> None:
        self.calendars: dict[str, QuotaCalendar] = {}
        self.notes: dict[str, WindowNote] = {}
        self.turns_at = math.inf
        self.version = 0
        self._now: dict[str, QuotasNow] = {}
        self._read: dict[str, tuple[Turning, list[WrittenWindow], list[str]]] = {}
        self._steps: dict[tuple[str, ...], list[QuotaStep]] = {}

    def compile(self, queues: Mapping[str, tuple[Turning, Quotas]], in_units: InUnits, now: float) -> None:
        """Work out what holds now.

        Args:
            queues: Each queue with any windows, and its usual quotas, by name; each such cohort by its `cohort_key`.
            in_units: Says what an amount or a part comes to.
            now: Unix seconds.
        """
        if not queues and not self.calendars:
            return
        self._read = {name: self._read_anew(name, found) for name, (found, _) in queues.items()}
        self.calendars = {}
        for name, (_, usual) in queues.items():
            temporary = [_temporary(one, usual, in_units) for one in self._read[name][1]]
            self.calendars[name] = QuotaCalendar(usual, tuple(temporary))
        self._look(now)

    def turn(self, now: float) -> dict[str, WindowNote] | None:
        """Have begun and end what is due; returns the queues whose quotas are others now, None where none are."""
        if now < self.turns_at:
            return None
        before = {name: one.quotas for name, one in self._now.items()}
        self._look(now)
        others = {name: self.notes[name] for name, one in self._now.items() if one.quotas != before[name]}
        return others or None

    def quotas_of(self, queue: str) -> Quotas:
        """Return what a queue with windows has now."""
        return self._now[queue].quotas

    def most_of(self, queue: str, now: float) -> Quotas:
        """Return the most that a queue may have of anything from now on; nothing of one without windows."""
        calendar = self.calendars.get(queue)
        return {} if calendar is None else calendar.most(now)

    def steps(self, queues: tuple[str, ...], now: float) -> list[QuotaStep]:
        """Return the next changes of quota of any of these queues; worked out once until something is otherwise."""
        if queues not in self._steps:
            those = {name: self.calendars[name] for name in queues if name in self.calendars}
            self._steps[queues] = steps_ahead(those, now, MOST_STEPS) if those else []
        return self._steps[queues]

    def _read_anew(self, name: str, found: Turning) -> tuple[Turning, list[WrittenWindow], list[str]]:
        known = self._read.get(name)
        if known is not None and known[0] is found:
            return known
        written, problems = read_windows(found)
        return found, written, problems

    def _look(self, now: float) -> None:
        self._steps = {}
        self._now = {name: calendar.at(now) for name, calendar in self.calendars.items()}
        self.turns_at = min((one.until for one in self._now.values()), default=math.inf)
        notes = {name: self._note(name, now) for name in self._now}
        if notes != self.notes:
            self.notes = notes
            self.version += 1

    def _note(self, name: str, now: float) -> WindowNote:
        _, written, problems = self._read[name]
        problems = [*problems, *_together([one.window for one in written], self.calendars[name], now)]
        states = [(one.window.name, one.window.at(now)) for one in written]
        on = tuple(window for window, state in states if state.is_on)
        said = [f"window {window} is on{_until(state.until)}" for window, state in states if state.is_on]
        ahead = [(state.until, window) for window, state in states if not state.is_on and state.until < math.inf]
        if ahead:
            at, window = min(ahead)
            said.append(f"window {window} begins at {timestamp(at)}")
        told = [*_listed(problems), *(said or ["no window is on, and none is to come"])]
        reason = "InvalidWindow" if problems else "WindowOn" if on else "NoWindowOn"
        return WindowNote(bool(on), reason, "; ".join(told), on)


def _until(at: float) -> str:
    return "" if at == math.inf else f" until {timestamp(at)}"


def _listed(problems: list[str]) -> list[str]:
    more = len(problems) - _MOST_PROBLEMS
    return [*problems[:_MOST_PROBLEMS], *([f"and {more} more problems"] if more > 0 else [])]


def read_windows(found: Turning) -> tuple[list[WrittenWindow], list[str]]:
    """Return the windows of a queue that can be used, and what is wrong with these and the others."""
    listed = {
        (flavor.name, one.name)
        for group in found.spec.resource_groups
        for flavor in group.flavors
        for one in flavor.resources
    }
    written: list[WrittenWindow] = []
    problems: list[str] = []
    for spec in found.spec.temporary_quotas:
        try:
            written.append(WrittenWindow(_window(spec), spec))
        except ValueError as error:
            problems.append(f"window {spec.name} is left out: {error}")
            continue
        names = ((flavor.name, one.name) for flavor in spec.flavors for one in flavor.resources)
        problems += [
            f"window {spec.name} names {resource} of flavor {flavor}, of which resourceGroups has no quota"
            for flavor, resource in names
            if (flavor, resource) not in listed
        ]
    return written, problems


def _window(spec: TemporaryQuota) -> Window:
    if spec.schedule is not None:
        schedule = parse_schedule(spec.schedule, spec.time_zone or "")
        return Window(spec.name, schedule=schedule, seconds=float(spec.duration_seconds or 0))
    begin = -math.inf if spec.begin is None else seconds_of(spec.begin)
    return Window(spec.name, begin, math.inf if spec.end is None else seconds_of(spec.end))


def _temporary(written: WrittenWindow, usual: Quotas, in_units: InUnits) -> TemporaryQuotas:
    """Return what a window gives of what its queue has quota of at all."""
    quotas: dict[FlavorResource, Quota] = {}
    for flavor in written.spec.flavors:
        for one in flavor.resources:
            what = (flavor.name, one.name)
            if what not in usual:
                continue
            quota = replace(usual[what], nominal=in_units(*what, one.nominal_quota))
            if one.borrowing_limit is not None:
                quota = replace(quota, borrowing_limit=from_milli(one.name, one.borrowing_limit))
            if one.lending_limit is not None:
                quota = replace(quota, lending_limit=from_milli(one.name, one.lending_limit))
            quotas[what] = quota
    return TemporaryQuotas(written.window, quotas)


def _together(windows: list[Window], calendar: QuotaCalendar, now: float) -> Iterator[str]:
    """Yield which windows name the same quota and are on at the same time: now, or as far as they come once, ever."""
    is_on = [window.at(now).is_on for window in windows]
    for (first, one), (second, other) in combinations(enumerate(calendar.temporary), 2):
        both = one.quotas.keys() & other.quotas.keys()
        if both and ((is_on[first] and is_on[second]) or one.window.meets(other.window, now)):
            flavor, resource = min(both)
            yield (
                f"windows {one.window.name} and {other.window.name} overlap, and both name {resource} of flavor "
                f"{flavor}: {one.window.name}, which stands first, counts"
            )
