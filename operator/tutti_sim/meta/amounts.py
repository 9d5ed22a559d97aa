"""Quantities in canonical form, as apimachinery's resource.Quantity writes them.

`0.5` becomes `500m`, `1024Mi` becomes `1Gi`, `1000000` becomes `1M`: the largest suffix that keeps an integer, in the
family (decimal or binary) the text was written in.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache

PATTERN = re.compile(r"([+-]?)(\d+\.?\d*|\.\d+)([eE][+-]?\d+|[numkMGTPE]i?|Ki|)")
BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
DECIMAL = {"n": -3, "u": -2, "m": -1, "": 0, "k": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}
EXPONENT_LIMIT = 308
FORM = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


@lru_cache(maxsize=4096)
def amount(text: str) -> Fraction:
    """The exact amount a quantity names; ValueError when it is none."""
    match = PATTERN.fullmatch(text)
    if not match:
        raise ValueError(FORM)
    sign, digits, suffix = match.groups()
    number = Fraction(digits if digits[-1] != "." else digits[:-1])
    if suffix in BINARY:
        number *= 1024 ** BINARY[suffix]
    elif suffix in DECIMAL:
        number *= Fraction(1000) ** DECIMAL[suffix]
    elif suffix[:1] in "eE":
        if abs(int(suffix[1:])) > EXPONENT_LIMIT:
            raise ValueError(f"the exponent of {text} is beyond {EXPONENT_LIMIT}")
        number *= Fraction(10) ** int(suffix[1:])
    else:
        raise ValueError(FORM)
    return -number if sign == "-" else number


@lru_cache(maxsize=4096)
def canonical_amount(text: str) -> str:
    """The quantity in canonical form; ValueError when it is none."""
    value = amount(text)
    suffix = text.lstrip("+-0123456789.")
    if (suffix in BINARY or (False)) and value.denominator == 1:
        return _scaled_binary(value.numerator)
    if suffix[:1] in ("e", "E") and suffix not in DECIMAL:
        return _scaled(value, exponent=True)
    return _scaled(value, exponent=False)


@lru_cache(maxsize=4096)
def rounded_up(text: str) -> str:
    """A quantity in canonical form, with no more than three decimals."""
    value = amount(text) * 1000
    return text if value.denominator == 1 else canonical_amount(f"{-(-value.numerator // value.denominator)}m")


def _scaled_binary(value: int) -> str:
    if abs(value) < 1024:  # noqa: PLR2004 - below one Ki there is no binary suffix
        return str(value)
    best = ""
    for suffix, power in BINARY.items():
        if value % 1024**power == 0:
            best = suffix
    return f"{value // 1024 ** BINARY[best]}{best}" if best else str(value)


def _with_exponent(part: Fraction, power: int) -> str:
    """A whole number and a power of a thousand, the greatest one."""
    while part.numerator % 1000 == 0:
        part, power = part / 1000, power + 1
    return f"{part}e{3 * power}"


def _scaled(value: Fraction, *, exponent: bool) -> str:
    if value == 0:
        return "0"
    for suffix, power in reversed(DECIMAL.items()):
        part = value / Fraction(1000) ** power
        if part.denominator == 1:
            return _with_exponent(part, power) if exponent and power else f"{part}{suffix}"
    rounded = -(-value * 10**9 // 1)
    return f"{rounded}n"
