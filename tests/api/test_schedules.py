"""When schedules come, as a CronJob's do (robfig/cron v3, v3.0.1)."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.api.schedules import parse_schedule, zone_of


def at(text: str) -> float:
    """A time as people write it; with no zone it is UTC."""
    found = datetime.fromisoformat(text)
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def shown(time: float | None, zone: str = "") -> str | None:
    return None if time is None else datetime.fromtimestamp(time, tz=zone_of(zone) if zone else UTC).isoformat()[:16]


@pytest.mark.parametrize(
    ("schedule", "after", "comes"),
    [
        # robfig/cron, spec_test.go, TestNext (without seconds)
        ("0/15 * * * *", "2012-07-09T14:45", "2012-07-09T15:00"),
        ("20-35/15 * * * *", "2012-07-09T15:45", "2012-07-09T16:20"),
        ("*/15 * * * *", "2012-07-09T23:46", "2012-07-10T00:00"),
        ("0 0 */3 * *", "2012-07-09T23:59", "2012-07-10T00:00"),
        ("20-35/15 1/2 */2 * *", "2012-07-09T23:35", "2012-07-11T01:20"),
        ("0 0 9 Apr-Oct ?", "2012-07-09T23:35", "2012-08-09T00:00"),
        ("0 0 */5 Apr,Aug,Oct Mon", "2012-07-09T23:35", "2012-08-01T00:00"),
        ("0 0 */5 Oct Mon", "2012-07-09T23:35", "2012-10-01T00:00"),
        ("0 0 * Feb Mon", "2012-07-09T23:35", "2013-02-04T00:00"),
        ("0 0 * Feb Mon/2", "2012-07-09T23:35", "2013-02-01T00:00"),
        ("0 0 29 Feb ?", "2012-07-09T23:35", "2016-02-29T00:00"),
        # where both days are given either will do (crontab(5)); steps are a restriction, too, but for */1
        ("0 0 */1 Feb Mon", "2012-07-09T23:35", "2013-02-04T00:00"),
        ("0 12 13 * Fri", "2026-11-01T00:00", "2026-11-06T12:00"),
        ("0 12 13 * *", "2026-11-01T00:00", "2026-11-13T12:00"),
        ("0 12 * * Sun", "2026-11-01T13:00", "2026-11-08T12:00"),
        ("0 12 * * 7", "2026-11-01T13:00", "2026-11-08T12:00"),
        ("0 12 * * 5-7", "2026-11-08T13:00", "2026-11-13T12:00"),
        ("@daily", "2026-11-08T00:00", "2026-11-09T00:00"),
        ("@hourly", "2026-11-08T00:30", "2026-11-08T01:00"),
        ("@weekly", "2026-11-08T00:00", "2026-11-15T00:00"),
        ("@monthly", "2026-11-08T00:00", "2026-12-01T00:00"),
        ("@yearly", "2026-11-08T00:00", "2027-01-01T00:00"),
        ("0 0 29 2 *", "2096-03-01T00:00", "2104-02-29T00:00"),  # 2100 is no leap year
        ("0 0 29 2 *", "9997-03-01T00:00", None),
    ],
)
def test_the_next_time_is_the_first_that_suits(schedule, after, comes):
    assert shown(parse_schedule(schedule).next(at(after))) == comes


@pytest.mark.parametrize(
    ("zone", "schedule", "after", "comes", "in_utc"),
    [
        ("Europe/Berlin", "0 18 * * *", "2026-07-01T00:00", "2026-07-01T18:00", "2026-07-01T16:00"),
        ("Europe/Berlin", "0 18 * * *", "2026-12-01T00:00", "2026-12-01T18:00", "2026-12-01T17:00"),
        # 2026-03-29: there is no 02:30 in Berlin; it comes as much later as the clocks are put forward
        ("Europe/Berlin", "30 2 * * *", "2026-03-28T12:00", "2026-03-29T03:30", "2026-03-29T01:30"),
        # 2026-10-25: there are two; it comes the first time
        ("Europe/Berlin", "30 2 * * *", "2026-10-24T12:00", "2026-10-25T02:30", "2026-10-25T00:30"),
        ("Europe/Berlin", "30 2 * * *", "2026-10-25T00:30", "2026-10-26T02:30", "2026-10-26T01:30"),
        ("Asia/Kolkata", "0 9 * * *", "2026-07-01T00:00", "2026-07-01T09:00", "2026-07-01T03:30"),
        ("Pacific/Apia", "0 0 * * *", "2011-12-29T11:00", "2011-12-31T00:00", "2011-12-30T10:00"),  # it had no 30th
    ],
)
def test_times_are_those_of_the_clocks_in_a_zone(zone, schedule, after, comes, in_utc):
    found = parse_schedule(schedule, zone).next(at(after))
    assert (shown(found, zone), shown(found)) == (comes, in_utc)


@pytest.mark.parametrize(
    ("schedule", "zone", "wrong"),
    [
        ("", "", "five fields"),
        ("0 18 * *", "", "five fields"),
        ("0 0 18 * * *", "", "five fields"),
        ("@every 1h", "", "five fields"),
        ("TZ=UTC 0 18 * * *", "", "five fields"),
        ("60 * * * *", "", "minute '60'"),
        ("* 24 * * *", "", "hour '24'"),
        ("* * 0 * *", "", "day of the month '0'"),
        ("* * * 13 *", "", "month '13'"),
        ("* * * Jam *", "", "month 'Jam'"),
        ("* * * * 8", "", "day of the week '8'"),
        ("30-10 * * * *", "", "ends before it begins"),
        ("*/0 * * * *", "", "minute '*/0'"),
        ("1,,2 * * * *", "", "minute ''"),
        ("-1 * * * *", "", "minute '-1'"),
        ("1-2-3 * * * *", "", "minute '1-2-3'"),
        ("٣ * * * *", "", "minute"),
        ("99999999999999999999 * * * *", "", "minute"),
        ("0 0 31 2 *", "", "never comes"),
        ("0 0 31 2,4,6 *", "", "never comes"),
        ("0 18 * * *", "Europe/Berlinn", "did you mean 'Europe/Berlin'?"),
        ("0 18 * * *", "../../etc/passwd", "there is no time zone"),
        ("0 18 * * *", "Europe", "there is no time zone"),
        ("0 18 * * *", "Local", "there is no time zone"),
    ],
)
def test_what_cannot_be_read_is_told_with_what_would_be_right(schedule, zone, wrong):
    with pytest.raises(ValueError) as caught:
        parse_schedule(schedule, zone)
    assert wrong in str(caught.value)


_SCHEDULES = st.sampled_from(
    ["0 18 * * 1-5", "*/7 3 * * *", "30 2 * * *", "0 0 1 * *", "15 1,13 * Mar,Oct Sun", "0 */5 */9 * Tue", "@hourly"]
)
_ZONES = st.sampled_from(["", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"])


@given(_SCHEDULES, _ZONES, st.integers(1_700_000_000, 2_000_000_000), st.integers(60, 40 * 86400))
def test_between_the_last_time_and_the_next_there_is_none(schedule, zone, moment, within):
    """`last` and `next` go by the same times: whoever goes from one to the next meets all of them."""
    found = parse_schedule(schedule, zone)
    last, following = found.last(moment, within), found.next(moment)
    assert following is not None
    assert following > moment
    if last is None:
        assert found.next(moment - within) == following
    else:
        assert moment - within < last <= moment
        assert found.next(last) == following
        assert found.last(last, within) == last
