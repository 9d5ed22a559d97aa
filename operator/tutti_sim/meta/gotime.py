"""What Go's time.Parse says of a text that is no time in a layout."""

from __future__ import annotations

import re
from typing import Final

from tutti_sim.meta.errors import shown_value

SECONDS: Final = "2006-01-02T15:04:05Z07:00"
MICROS: Final = "2006-01-02T15:04:05.000000Z07:00"
_PARTS: Final = re.compile(r"2006|01|02|15|04|05|\.0+|Z07:00|.")
_NUMBERS: Final = {
    "2006": (re.compile(r"\d{4}", re.ASCII), "year", 0, 9999),
    "01": (re.compile(r"\d\d", re.ASCII), "month", 1, 12),
    "02": (re.compile(r"\d\d", re.ASCII), "day", 0, 99),
    "15": (re.compile(r"\d\d?", re.ASCII), "hour", 0, 23),
    "04": (re.compile(r"\d\d", re.ASCII), "minute", 0, 59),
    "05": (re.compile(r"\d\d", re.ASCII), "second", 0, 59),
}
_FRACTION: Final = re.compile(r"[.,]\d+", re.ASCII)
_ZONE: Final = re.compile(r"Z|[+-]\d\d:\d\d", re.ASCII)


def fault(text: str, layout: str) -> str:
    """What is wrong with a text as a time of a layout; it is asked only of texts that are none."""
    rest = text
    parts = _PARTS.findall(layout)
    for index, part in enumerate(parts):
        if part in _NUMBERS:
            pattern, name, least, most = _NUMBERS[part]
            found = pattern.match(rest)
            if found and not least <= int(found[0]) <= most:
                return f"parsing time {shown_value(text)}: {name} out of range"
            if found and part == "05" and parts[index + 1][0] != ".":
                found = re.match(found[0] + r"(?:[.,]\d+)?", rest, re.ASCII)
        elif part[0] == "." and len(part) > 1:
            found = _FRACTION.match(rest[: len(part)])
            found = found if found and found.end() == len(part) else None
        elif part == "Z07:00":
            found = _ZONE.match(rest)
        else:
            found = re.match(re.escape(part), rest)
        if found is None:
            what = f"cannot parse {shown_value(rest)} as {shown_value(part)}"
            return f"parsing time {shown_value(text)} as {shown_value(layout)}: {what}"
        rest = rest[found.end() :]
    if rest:
        return f"parsing time {shown_value(text)}: extra text: {shown_value(rest)}"
    return f"parsing time {shown_value(text)}: day out of range"
