"""Times in throttles are those that kube-throttler reads, which is Go's time.Parse by RFC 3339."""

from __future__ import annotations

import pytest

from tutti.api.throttles import instant

# What IsActive of kube-throttler (42dd1ec, temporary_threshold_override.go) says of an override with these as its
# bounds, asked at 2026-11-22T12:00:00Z, and Go's own reading of the text.
NOON = 1_795_348_800.0
TIMES = [
    ("", None),
    ("0001-01-01T00:00:00Z", None),  # Go's zero time
    ("0001-01-01T01:00:00+01:00", None),
    ("0001-01-01T00:00:01Z", -62_135_596_799.0),
    ("0000-01-01T00:00:00Z", -62_167_219_200.0),
    ("9999-12-31T23:59:59-12:00", 253_402_343_999.0),
    ("2026-11-22T12:00:00Z", NOON),
    ("2026-11-22T12:00:00-00:00", NOON),
    ("2026-11-22T9:00:00-03:00", NOON),  # an hour of one digit
    ("2026-11-22T12:00:00.5Z", NOON + 0.5),
    ("2026-11-22T12:00:00,5Z", NOON + 0.5),
    ("2026-11-22T12:00:00.25000000000001Z", NOON + 0.25),
    ("2026-11-23T12:00:00+24:00", NOON),
    ("2026-11-22T13:00:00+00:60", NOON),
    ("2024-02-29T00:00:00Z", 1_709_164_800.0),
]
NO_TIMES = [
    "x",
    "now",
    "2026-11-22",
    "2026-11-22T12:00Z",
    "2026-11-22T12:00:00",
    "2026-11-22 12:00:00Z",
    "2026-11-22t12:00:00Z",
    "2026-11-22T12:00:00z",
    "2026-11-22T12:0:00Z",
    "2026-11-22T24:00:00Z",
    "2026-11-22T12:00:60Z",
    "2026-11-31T12:00:00Z",
    "2026-02-29T00:00:00Z",
    "2026-13-01T00:00:00Z",
    "2026-11-22T12:00:00.Z",
    "2026-11-22T12:00:00+01",
    "2026-11-22T12:00:00+0100",
    "2026-11-22T12:00:00+25:00",
    "2026-11-22T12:00:00+00:61",
    " 2026-11-22T12:00:00Z",
    "2026-11-22T12:00:00Z ",
    "10000-01-01T00:00:00Z",
    "2026-W47-7T12:00:00Z",
    "1732276800",
    "٢٠٢٦-11-22T12:00:00Z",
]


@pytest.mark.parametrize(("text", "expected"), TIMES)
def test_a_time_is_read(text: str, expected: float | None):
    assert instant(text) == expected


@pytest.mark.parametrize("text", NO_TIMES)
def test_what_is_no_time_is_told(text: str):
    with pytest.raises(ValueError, match="is no time; write one such as 2026-12-24T18:00:00"):
        instant(text)
