"""Whole numbers in texts, as Go's strconv reads them: decimal digits of ASCII, and no more than 64 bits."""

from __future__ import annotations

import re

_SIGNED = re.compile(r"[+-]?[0-9]+")
_UNSIGNED = re.compile(r"[0-9]+")
_LONGEST = 20  # digits of 2^64, and more are not even converted


def integer(text: str) -> int:
    """A number of 64 bits with or without a sign (ParseInt); ValueError in Go's words when it is none."""
    if not _SIGNED.fullmatch(text):
        raise _invalid("ParseInt", text)
    return _within("ParseInt", text, -(1 << 63), (1 << 63) - 1)


def unsigned(text: str) -> int:
    """A number of 64 bits without a sign (ParseUint); ValueError in Go's words when it is none."""
    if not _UNSIGNED.fullmatch(text):
        raise _invalid("ParseUint", text)
    return _within("ParseUint", text, 0, (1 << 64) - 1)


def _invalid(function: str, text: str) -> ValueError:
    return ValueError(f'strconv.{function}: parsing "{text}": invalid syntax')


def _within(function: str, text: str, least: int, most: int) -> int:
    if len(text.lstrip("+-0")) <= _LONGEST and least <= (number := int(text)) <= most:
        return number
    raise ValueError(f'strconv.{function}: parsing "{text}": value out of range')
