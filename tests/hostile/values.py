"""What is written where something else is expected: the words of a vandal, by the shape of the place.

Everything here can stand in JSON. Python's own encoder has no word for some of it: those are `Literally`.
"""

from __future__ import annotations

import json
from typing import Any

from tests.hostile.shapes import Shape

LONG = 250_000
"""Characters; an annotation may have 262,144 bytes."""
HUGE = 3_000
"""Entries of a list or a map."""
DEEP = 9_900
"""Levels; an API server takes 10,000."""

_MARK = "\ue000"


class Literally:
    """A piece of JSON as it is to stand there."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return f"Literally({self.text[:40]})"


TEXTS: dict[str, Any] = {
    "empty": "",
    "blank": " ",
    "brackets": "[" * LONG,
    "brackets in pairs": "[" * 2_000 + "]" * 2_000,
    "braces": '{"x":' * 3_000,
    "digits": "1" * LONG,
    "digits that Python refuses": "9" * 4_301,
    "digits of floats": "9" * 400,
    "hours without end": "9" * 400 + "h",
    "letters": "a" * LONG,
    "quotes": '"' * 5_000,
    "backslashes": "\\" * 5_001,
    "commas": "," * LONG,
    "parts": "1h" * 60_000,
    "words": "a=b " * 60_000,
    "labels of names": "a." * 60_000,
    "hyphens": "-" * LONG,
    "terminal": "\x1b[2J\x1b[31m\x07\x9b1m",
    "lines": "one\ntwo\r\n\u2028three\x85",
    "controls": "".join(map(chr, range(1, 32))) + "\x7f\x80\x9f",
    "nul": "a\x00b",
    "right to left": "\u202etxt.exe\u202c\u2066",
    "half a pair": "\ud800",
    "a pair the wrong way round": "\udc00\ud800",
    "no character": "\ufffe\uffff\U0010ffff",
    "combining": "e" + "\u0301" * 5_000,
    "astral": "\U0001f4a9" * 1_000,
    "other digits": "٣²Ⅷ",
    "minus one": "-1",
    "zero": "0",
    "one": "1",
    "beyond int64": str(2**63),
    "least int64": str(-(2**63)),
    "exponent": "1e999",
    "huge exponent": "1e999999999",
    "not a number": "NaN",
    "infinity": "-Infinity",
    "hexadecimal": "0x10",
    "underscores": "1_000",
    "null": "null",
    "true": "true",
    "path": "../../../etc/passwd",
    "slashes": "a/b/c",
    "url": "http://169.254.169.254/latest",
    "percent": "%s%n%x{0}{}%00",
    "markup": "[red]x[/red]",
    "expression that doubles": "[[1]]" + ".map(x, x + x)" * 24 + "[0].size() > 1",
    "expression of costly patterns": "[1, 2, 3].all(x, [1, 2, 3].all(y, 'a'.matches('((a{30}){30}|b)')))",
    "names with commas": "base," * 1_000,
    "template": "${x}$(x){{x}}",
    "json list": "[]",
    "json object": "{}",
    "json list of anything": '["a", 1, null, {}, [], -1, 1e999, "\\u0000", "\\ud800"]',
    "json numbers": "[" + "1," * 20_000 + "1]",
    "percentage": "1000%",
    "time": "9999-12-31T23:59:59Z",
}

NUMBERS: dict[str, Any] = {
    "zero": 0,
    "one": 1,
    "minus one": -1,
    "int32": 2**31 - 1,
    "beyond int32": 2**31,
    "least int32": -(2**31),
    "100 thousand": 100_000,
    "a million": 1_000_000,
    "int64": 2**63 - 1,
    "beyond int64": 2**63,
    "least int64": -(2**63),
    "uint64": 2**64 - 1,
    "beyond uint64": 2**64,
    "googol": 10**100,
    "digits": Literally("9" * 5_000),
    "exponent": Literally("1e999"),
    "small exponent": Literally("1e-999"),
    "half": 0.5,
    "minus zero": Literally("-0.0"),
    "whole float": Literally("1e3"),
}

QUANTITIES: dict[str, Any] = {
    **{f"number {name}": value for name, value in NUMBERS.items()},
    **{f"text {name}": value for name, value in TEXTS.items()},
    "huge": "9" * 4_000,
    "negative": "-100Gi",
    "tiny": "1e-999",
    "nano": "1n",
    "a little": "0.0000000001",
    "most": str(2**63 - 1),
    "most of all": "8Ei",
    "more than all": "9999999999Ei",
    "unit alone": "Gi",
    "no such unit": "1Zi",
    "two points": "1..5",
    "dot": ".",
    "plus": "+1",
    "spaces": " 1 ",
}

TIMES: dict[str, Any] = {
    "first": "0001-01-01T00:00:00Z",
    "last": "9999-12-31T23:59:59Z",
    "leap": "2016-12-31T23:59:60Z",
    "far west": "0001-01-01T00:00:00+14:00",
    "far east": "9999-12-31T23:59:59-14:00",
    "nanoseconds": "2026-01-01T00:00:00.123456789123Z",
    "no zone": "2026-01-01T00:00:00",
    "letters": "yesterday",
    "empty": "",
    "long": "2026-01-01T00:00:00." + "1" * 10_000 + "Z",
    "number": 2**63,
}

TRUTHS: dict[str, Any] = {"true": True, "false": False, "word": "true", "number": 1}

ODD: dict[str, Any] = {
    "null": None,
    "a list of null": [None],
    "an empty list": [],
    "an empty object": {},
    "a truth": True,
    "a number": 7,
    "a text": "x",
    "deep lists": Literally("[" * DEEP + "]" * DEEP),
    "deep objects": Literally('{"a":' * DEEP + "1" + "}" * DEEP),
    "empty keys": {"": "", " ": {}, "\x00": 1},
}
"""What has the wrong type nearly everywhere."""

_BY_KIND = {"text": TEXTS, "number": NUMBERS, "quantity": QUANTITIES, "time": TIMES, "truth": TRUTHS}


def hostile(shape: Shape, entry: Any) -> dict[str, Any]:
    """What is tried at a place, by name; `entry` is a plain entry of a list or a map."""
    found = dict(_BY_KIND.get(shape.kind, {}))
    found.update({f"word {word}": word for word in shape.words})
    if shape.kind == "list":
        found["huge"] = [entry] * HUGE
        found["twice"] = [entry, entry]
        found["with null"] = [entry, None]
    elif shape.kind == "map":
        found["huge"] = {f"example.com/k{at}": entry for at in range(HUGE)}
        found["odd keys"] = dict.fromkeys(("", " ", "\x1b[2J", "a" * 10_000, "\x00", "/", "a/b/c", "ü"), entry)
    elif shape.kind == "any":
        found.update({f"text {name}": value for name, value in TEXTS.items() if len(value) < 1_000})
    return {**found, **{f"odd: {name}": value for name, value in ODD.items()}}


def written(value: Any) -> bytes:
    """A document as JSON."""
    literals: list[str] = []

    def mark(found: Any) -> str:
        if not isinstance(found, Literally):
            raise TypeError(f"{found!r} is no JSON")
        literals.append(found.text)
        return f"{_MARK}{len(literals) - 1}{_MARK}"

    text = json.dumps(value, default=mark)
    for at, literal in enumerate(literals):
        text = text.replace(json.dumps(f"{_MARK}{at}{_MARK}"), literal)
    return text.encode()
