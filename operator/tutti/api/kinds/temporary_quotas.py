"""Quota that holds for a time: the windows of a ClusterQueue or Cohort, once between two moments or again and again.

kube-throttler has such windows on its thresholds (`temporaryThresholdOverrides`, begin and end as RFC 3339), and users
of Kueue ask for them on quotas (its issue 8654). Two things are otherwise here: a window ends at its end, not a second
after it, so that one may begin where another ends; and what a window does not name stays as it is (there it has no
limit). Windows that come again have the fields of a CronJob.

What is wrong with a window by itself refuses the object. What can only be told with a calendar in hand, or beside the
quotas of the queue, costs that window alone, and a condition of the queue says so (`tutti.engine.reading.windows`).
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, ClassVar

from pydantic import BeforeValidator, Field

from tutti.api.kinds.quotas import Nominal
from tutti.api.model import Model, Name, Quantity, ResourceName, ShortName, ValidationRule, list_map

MOST_WINDOW_SECONDS = 366 * 86400
"""The longest that a window may last that comes again."""

_MOMENT = (
    r"^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
    r"(\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$"
)


def _is_moment(value: object) -> object:
    if isinstance(value, str):
        seconds_of(value)
    return value


def seconds_of(moment: str) -> float:
    """Return a time in RFC 3339 as Unix seconds.

    Raises:
        ValueError: There is no such day, or it is not one of the years 1 to 9999 in UTC.
    """
    try:
        found = datetime.fromisoformat(moment)
        return found.astimezone(UTC).timestamp()
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{moment!r} is no time ({error}); write one such as 2026-12-24T18:00:00+01:00") from error


Moment = Annotated[str, BeforeValidator(_is_moment), Field(max_length=40, pattern=_MOMENT)]
"""A time in RFC 3339, in any zone."""


class TemporaryResourceQuota(Model):
    """What is otherwise about the quota of one resource of one flavor."""

    name: ResourceName
    """The resource."""
    nominal_quota: Nominal
    """How much is its own meanwhile: an amount, or a percentage of what the nodes of the flavor offer."""
    borrowing_limit: Quantity | None = None
    """How much more it may use meanwhile of what others in the cohort leave idle; left out: as at other times."""
    lending_limit: Quantity | None = None
    """How much of its own it lends meanwhile when idle; left out: as at other times."""


class TemporaryFlavorQuotas(Model):
    """What is otherwise about the quota in one flavor."""

    name: Name
    """The ResourceFlavor, one of those in resourceGroups."""
    resources: list[TemporaryResourceQuota] = Field(min_length=1, max_length=64, json_schema_extra=list_map("name"))
    """The resources whose quota is otherwise; the others have the same quota as at other times."""


def _has_one_form(window: TemporaryQuota) -> bool:
    if window.schedule is None:
        return bool(window.begin or window.end) and window.duration_seconds is None and window.time_zone is None
    return window.duration_seconds is not None and not (window.begin or window.end)


def _ends_after_it_begins(window: TemporaryQuota) -> bool:
    return not (window.begin and window.end) or seconds_of(window.begin) < seconds_of(window.end)


class TemporaryQuota(Model):
    """A window of time, once or again and again, and the quotas that hold in it."""

    name: ShortName
    """What it is called in conditions and messages."""
    begin: Moment | None = None
    """From when on, in RFC 3339; left out: it has begun already."""
    end: Moment | None = None
    """Until when, in RFC 3339; left out: for ever."""
    schedule: str | None = Field(default=None, min_length=1, max_length=128)
    """When it begins, again and again, as in a CronJob: '0 18 * * 1-5' is at 18:00 from Monday to Friday."""
    time_zone: str | None = Field(default=None, min_length=1, max_length=64)
    """The zone of the schedule by its name in the IANA database, such as Europe/Berlin; left out: UTC."""
    duration_seconds: Annotated[int, Field(ge=60, le=MOST_WINDOW_SECONDS)] | None = None
    """How long it lasts each time that the schedule has begun it."""
    flavors: list[TemporaryFlavorQuotas] = Field(min_length=1, max_length=64, json_schema_extra=list_map("name"))
    """The quotas that hold in it; what is not named stays as it is."""
    RULES: ClassVar = (
        ValidationRule(
            message="a window has begin, end or both; or else schedule and durationSeconds, and maybe timeZone",
            holds=_has_one_form,
            cel="has(self.schedule) ? has(self.durationSeconds) && !has(self.begin) && !has(self.end)"
            " : (has(self.begin) || has(self.end)) && !has(self.durationSeconds) && !has(self.timeZone)",
        ),
        ValidationRule(
            message="end must be after begin",
            holds=_ends_after_it_begins,
            cel="(has(self.begin) ? timestamp(self.begin) : timestamp('0001-01-01T00:00:00Z'))"
            " < (has(self.end) ? timestamp(self.end) : timestamp('9999-12-31T23:59:59Z'))",
            path=".end",
        ),
    )


TemporaryQuotas = Annotated[list[TemporaryQuota], Field(max_length=64, json_schema_extra=list_map("name"))]
