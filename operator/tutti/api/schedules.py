"""Times that come again: five fields as cron has them, in a time zone, and when they come before and after a moment.

Fields and their meaning are those of a CronJob's `spec.schedule` and `spec.timeZone` (Kubernetes 1.36, which reads
them with robfig/cron v3 `ParseStandard`): minute, hour, day of the month, month and day of the week, each `*`, `?`,
a number, a range, any of these with a step, or a list of them; months and days by their English names, too, Sunday
also as 7; and `@yearly`, `@monthly`, `@weekly`, `@daily` and `@hourly`. Where days of the month and of the week are
both given, either will do. `@every` and zones within the text are refused, as a CronJob refuses the latter.

A time that the clocks skip in spring comes by as much later, one that they show twice in autumn comes the first time.
(robfig/cron leaves out the former: a job may, but quota that is given for a night should not be missing in one.)

The rules of time zones come with the package tzdata, and never from the machine: equal versions decide alike wherever
they run, as a replay must.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from difflib import get_close_matches
from functools import lru_cache
from importlib.resources import files
from types import MappingProxyType
from typing import Final
from zoneinfo import ZoneInfo

_LONGEST_WAIT_YEARS = 8
"""From one 29 February to the next where the year between is no leap year (1896 to 1904, 2096 to 2104)."""

_MACROS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "@yearly": "0 0 1 1 *",
        "@annually": "0 0 1 1 *",
        "@monthly": "0 0 1 * *",
        "@weekly": "0 0 * * 0",
        "@daily": "0 0 * * *",
        "@midnight": "0 0 * * *",
        "@hourly": "0 * * * *",
    }
)
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH_NAMES: Final[Mapping[str, int]] = MappingProxyType({name: number for number, name in enumerate(_MONTHS, 1)})
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_DAY_NAMES: Final[Mapping[str, int]] = MappingProxyType({name: number for number, name in enumerate(_DAYS)})
_NO_NAMES: Final[Mapping[str, int]] = MappingProxyType({})
_SATURDAY = 6
_FIELDS: Final[tuple[tuple[str, int, int, Mapping[str, int]], ...]] = (
    ("minute", 0, 59, _NO_NAMES),
    ("hour", 0, 23, _NO_NAMES),
    ("day of the month", 1, 31, _NO_NAMES),
    ("month", 1, 12, _MONTH_NAMES),
    ("day of the week", 0, 7, _DAY_NAMES),
)
_ANY = ("*", "?")
_NUMBER: Final = re.compile(r"[0-9]{1,4}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Schedule:
    """When something begins, again and again.

    Attributes:
        minutes: Rising, and so are `hours`, `days` (of the month) and `months`.
        weekdays: 0 is Sunday.
        either: Whether a day of the month or of the week is enough; else both must suit.
        zone: Whose clocks count.
    """

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: tuple[int, ...]
    months: tuple[int, ...]
    weekdays: tuple[int, ...]
    either: bool
    zone: tzinfo = UTC

    def last(self, at: float, within: float) -> float | None:
        """Return the latest time, Unix seconds, that is not after `at` and less than `within` seconds before it."""
        day = self._day_of(at)
        days = 0 if day is None else int(within // 86400) + 3
        for back in range(days):
            found = [time for time in self._times(_shifted(day, 1 - back)) if at - within < time <= at]
            if found:
                return max(found)
        return None

    def next(self, after: float) -> float | None:
        """Return the first time after some moment, Unix seconds; None where it does not come in 8 years."""
        start = self._day_of(after)
        for day in () if start is None else self._days_from(_shifted(start, -1)):
            found = [time for time in self._times(day) if time > after]
            if found:
                return min(found)
        return None

    def _day_of(self, at: float) -> date | None:
        try:
            return datetime.fromtimestamp(at, tz=self.zone).date()
        except (OverflowError, ValueError, OSError):
            return None  # before the year 1 or after 9999

    def _days_from(self, start: date | None) -> Iterator[date]:
        """Yield the days that suit, from one on."""
        if start is None:
            return
        for number in range(_LONGEST_WAIT_YEARS * 12 + 2):
            year, month = start.year + (start.month - 1 + number) // 12, (start.month - 1 + number) % 12 + 1
            if year > date.max.year:
                return
            if month not in self.months:
                continue
            first = start.day if number == 0 else 1
            days = (date(year, month, day) for day in range(first, calendar.monthrange(year, month)[1] + 1))
            yield from (day for day in days if self._suits(day))

    def _suits(self, day: date) -> bool:
        in_month, in_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return day.month in self.months and (in_month or in_week if self.either else in_month and in_week)

    def _times(self, day: date | None) -> Iterator[float]:
        """Yield the times of one day, Unix seconds; none where it does not suit."""
        if day is None or not self._suits(day):
            return
        for hour in self.hours:
            for minute in self.minutes:
                yield datetime(day.year, day.month, day.day, hour, minute, tzinfo=self.zone).timestamp()


def parse_schedule(text: str, zone: str = "") -> Schedule:
    """Read a schedule and the name of its time zone, UTC where there is none.

    Raises:
        ValueError: What is wrong with it, and what would be right.
    """
    fields = _MACROS.get(text.strip().lower(), text).split()
    if len(fields) != len(_FIELDS):
        raise ValueError(
            f"schedule {text!r} must have five fields (minute, hour, day of the month, month, day of the week), "
            f"such as '0 18 * * 1-5', or be one of {', '.join(_MACROS)}"
        )
    minutes, hours, days, months, weekdays = (
        _numbers(field, what, (low, high), names)
        for field, (what, low, high, names) in zip(fields, _FIELDS, strict=True)
    )
    weekdays = tuple(sorted({day % 7 for day in weekdays}))
    either = not any(_is_any(field) for field in (fields[2], fields[4]))
    schedule = Schedule(minutes, hours, days, months, weekdays, either, zone_of(zone) if zone else UTC)
    if not either and all(day > _longest(month) for day in days for month in months):
        raise ValueError(f"schedule {text!r} never comes: no month of it has such a day")
    return schedule


def _longest(month: int) -> int:
    return calendar.monthrange(2024, month)[1]  # a leap year


def _is_any(field: str) -> bool:
    return any(part.removesuffix("/1") in _ANY for part in field.split(","))


def _numbers(field: str, what: str, bounds: tuple[int, int], names: Mapping[str, int]) -> tuple[int, ...]:
    """Return what a field stands for, rising."""
    found: set[int] = set()
    for part in field.split(","):
        found.update(_range(part, what, bounds, names))
    return tuple(sorted(found))


def _range(part: str, what: str, bounds: tuple[int, int], names: Mapping[str, int]) -> range:
    low, high = bounds
    span, stepped, step_text = part.partition("/")
    first, ranged, last = span.partition("-")
    highest = min(high, _SATURDAY) if names is _DAY_NAMES else high  # 7 is Sunday once more
    if first in _ANY and not ranged:
        start, end = low, highest
    else:
        start = _number(first, part, what, bounds, names)
        end = _number(last, part, what, bounds, names) if ranged else highest if stepped else start
    step = _number(step_text, part, what, (1, high), _NO_NAMES) if stepped else 1
    if end < start:
        raise ValueError(f"{what} {part!r} of the schedule ends before it begins")
    return range(start, end + 1, step)


def _number(text: str, part: str, what: str, bounds: tuple[int, int], names: Mapping[str, int]) -> int:
    low, high = bounds
    number = names.get(text.lower())
    if number is None and _NUMBER.fullmatch(text):
        number = int(text)
    if number is None or not low <= number <= high:
        raise ValueError(f"{what} {part!r} of the schedule must be made of numbers from {low} to {high}, * , - and /")
    return number


def _shifted(day: date | None, by: int) -> date | None:
    try:
        return None if day is None else day + timedelta(days=by)
    except OverflowError:
        return None


@lru_cache(maxsize=1)
def zone_names() -> frozenset[str]:
    """Return the names of all time zones."""
    return frozenset((files("tzdata") / "zones").read_text(encoding="ascii").split())


@lru_cache(maxsize=256)
def zone_of(name: str) -> ZoneInfo:
    """Return a time zone of the IANA database.

    Raises:
        ValueError: There is none of that name.
    """
    if name not in zone_names():
        near = get_close_matches(name, sorted(zone_names()), n=1)
        meant = f"did you mean {near[0]!r}?" if near else "name one of the IANA database, such as 'Europe/Berlin'"
        raise ValueError(f"there is no time zone {name!r}; {meant}")
    with files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as rules:
        return ZoneInfo.from_file(rules, key=name)
