"""Kubernetes quantities as integers of milli-units, so that no amount is ever a float or a decimal; and percentages.

Grammar, rounding and canonical form: Kubernetes 1.36, apimachinery/pkg/api/resource/quantity.go. One milli-unit is
the finest step kept here, because it is the finest that scheduling reads (`MilliValue`); finer text rounds away from
zero.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

MAX_UNITS = 2**63 - 1
"""The largest whole-unit value; Kubernetes caps greater ones, as the int64 of `Value()` holds no more."""

MAX_LENGTH = 256
"""Characters of the longest text that is read."""

_MAX_MILLI = MAX_UNITS * 1000
_FORM = re.compile(
    r"(?P<sign>[+-]?)(?P<digits>(?=\.?[0-9])[0-9]*)(?:\.(?P<fraction>[0-9]*))?"
    r"(?:(?P<suffix>[KMGTPE]i|[numkMGTPE])|[eE](?P<exponent>[+-]?[0-9]+))?",
    re.ASCII,
)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_SUFFIXES_OF_MILLI = ("m", "", "k", "M", "G", "T", "P", "E")
_BINARY_SUFFIXES = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_RIGHT = 'write a number with an optional suffix, such as 2, 500m, 1.5, 64Gi, 100M or 1e3 (binary: "Ki" to "Ei")'


class QuantityError(ValueError):
    """Text that is no quantity; the message names it and shows what would be one."""

    def __init__(self, text: object) -> None:
        super().__init__(f"{text!r} is not a quantity: {_RIGHT}")
        self.text = text


def parse_quantity(value: str | float) -> int:
    """Milli-units of a quantity as it stands in YAML or JSON: text, or a bare number.

    Rounds away from zero to whole milli-units and caps at the int64 of whole units, in both directions.

    Raises:
        QuantityError: `value` does not follow the grammar.
    """
    if isinstance(value, str):
        return _milli_of(value)
    if isinstance(value, bool):
        raise QuantityError(value)
    return _milli_of(repr(value))


@lru_cache(maxsize=16384)
def _milli_of(text: str) -> int:
    form = _FORM.fullmatch(text) if len(text) <= MAX_LENGTH else None
    if form is None:
        raise QuantityError(text)
    fraction = form["fraction"] or ""
    mantissa = int((form["digits"] + fraction) or "0")
    if mantissa == 0:
        return 0
    suffix = form["suffix"] or ""
    shift = _BINARY.get(suffix, 0)
    exponent = int(form["exponent"] or "0") if not suffix else _DECIMAL.get(suffix, 0)
    milli = _scale(mantissa << shift, exponent - len(fraction) + 3)
    milli = min(milli, _MAX_MILLI)
    return -milli if form["sign"] == "-" else milli


def _scale(value: int, exponent: int) -> int:
    """`value * 10**exponent` for a positive value, rounded up; a huge exponent costs no more than a small one."""
    if exponent >= 0:
        factor: int = 10 ** min(exponent, 30)
        return value * factor
    divisor: int = 10 ** min(-exponent, len(str(value)) + 1)
    return -(-value // divisor)


def format(milli: int, *, binary: bool = False) -> str:  # noqa: A001  the module is used qualified: quantity.format
    """The canonical text of milli-units: no fraction, the largest suffix that keeps it exact.

    With `binary`, powers of 1024 are used from 1024 units up (as Kubernetes does for memory); a value that is
    not a whole number of units stays decimal, because binary suffixes cannot hold it.
    """
    sign, rest = ("-", -milli) if milli < 0 else ("", milli)
    if rest == 0:
        return "0"
    if binary and rest % 1000 == 0 and rest >= 1024 * 1000:
        number, step = _factor(rest // 1000, base=1024, limit=len(_BINARY_SUFFIXES) - 1)
        return f"{sign}{number}{_BINARY_SUFFIXES[step]}"
    number, step = _factor(rest, base=1000, limit=len(_SUFFIXES_OF_MILLI) - 1)
    return f"{sign}{number}{_SUFFIXES_OF_MILLI[step]}"


def canonical(value: str | float) -> str:
    """The text of a quantity as the API server keeps it in an object, by how it is written: `0.5` is `500m` there.

    An amount that is no whole number of milli-units, which nothing reads, is written rounded.

    Raises:
        QuantityError: `value` does not follow the grammar.
    """
    milli = parse_quantity(value)
    form = _FORM.fullmatch(value if isinstance(value, str) else repr(value))
    if form is None or form["exponent"] is None or milli == 0:
        return format(milli, binary=form is not None and form["suffix"] in _BINARY)
    number, step = _factor(abs(milli), base=1000, limit=len(_SUFFIXES_OF_MILLI) - 1)
    sign, power = "-" if milli < 0 else "", 3 * (step - 1)
    return f"{sign}{number}e{power}" if power else f"{sign}{number}"


def shortest(milli: int) -> str:
    """The canonical text of milli-units in binary or decimal suffixes, whichever is shorter (binary if equal)."""
    return min(format(milli, binary=True), format(milli), key=len)


def _factor(number: int, *, base: int, limit: int) -> tuple[int, int]:
    """Divide `base` out of `number` as often as it goes, at most `limit` times."""
    step = 0
    while step < limit and number % base == 0:
        number //= base
        step += 1
    return number, step


PERCENTAGE_PATTERN = r"(100(\.0{1,2})?|[0-9]{1,2}(\.[0-9]{1,2})?)%"
"""What `parse` takes, as a regular expression: 0% to 100%, with at most two decimals."""

_PERCENTAGE = re.compile(PERCENTAGE_PATTERN, re.ASCII)


@dataclass(frozen=True, slots=True)
class Percentage:
    """So many hundredths of a percent."""

    hundredths: int

    def of(self, amount: int) -> int:
        """Return this part of an amount, rounded down."""
        return amount * self.hundredths // 10_000

    def __str__(self) -> str:
        whole, rest = divmod(self.hundredths, 100)
        return f"{whole}.{rest:02}".rstrip("0").rstrip(".") + "%"


def parse_percentage(text: str) -> Percentage:
    """Read a percentage.

    Raises:
        ValueError: It is not one from 0% to 100% with at most two decimals.
    """
    if _PERCENTAGE.fullmatch(text) is None:
        raise ValueError(f"{text!r} is not a percentage: write 0% to 100%, with at most two decimals, such as 80%")
    whole, _, rest = text.removesuffix("%").partition(".")
    return Percentage(int(whole) * 100 + int(rest.ljust(2, "0")))
