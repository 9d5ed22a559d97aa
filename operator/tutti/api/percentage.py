"""Parts of something that changes, such as 80% of what nodes offer."""

from __future__ import annotations

import re
from dataclasses import dataclass

PATTERN = r"(100(\.0{1,2})?|[0-9]{1,2}(\.[0-9]{1,2})?)%"
"""What `parse` takes, as a regular expression: 0% to 100%, with at most two decimals."""

_FORM = re.compile(PATTERN, re.ASCII)


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


def parse(text: str) -> Percentage:
    """Read a percentage.

    Raises:
        ValueError: It is not one from 0% to 100% with at most two decimals.
    """
    if _FORM.fullmatch(text) is None:
        raise ValueError(f"{text!r} is not a percentage: write 0% to 100%, with at most two decimals, such as 80%")
    whole, _, rest = text.removesuffix("%").partition(".")
    return Percentage(int(whole) * 100 + int(rest.ljust(2, "0")))
