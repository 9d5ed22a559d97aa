"""What is said of a cluster: one finding for each thing that was looked at."""

from __future__ import annotations

import enum
from collections.abc import Iterable

import msgspec


class FindingVerdict(enum.StrEnum):
    """How it is with one thing."""

    GOOD = "Good"
    WARNING = "Warning"
    BAD = "Bad"
    UNKNOWN = "Unknown"
    """It could not be looked at."""


class Finding(msgspec.Struct, frozen=True, rename="camel"):
    """One thing that was looked at.

    Attributes:
        check: What, in one word.
        message: What was found, with the figures.
        remedy: What would put it right; "" where nothing has to be.
    """

    check: str
    verdict: FindingVerdict
    message: str
    remedy: str = ""


class CheckUp(msgspec.Struct, frozen=True, rename="camel"):
    """All of them."""

    ok: bool
    findings: tuple[Finding, ...]


def good(check: str, message: str) -> Finding:
    """Return that something is as it should be."""
    return Finding(check, FindingVerdict.GOOD, message)


def warning(check: str, message: str, remedy: str) -> Finding:
    """Return that something may surprise somebody."""
    return Finding(check, FindingVerdict.WARNING, message, remedy)


def bad(check: str, message: str, remedy: str) -> Finding:
    """Return that something keeps Tutti from its work, or has it do wrong."""
    return Finding(check, FindingVerdict.BAD, message, remedy)


def unknown(check: str, message: str, remedy: str = "") -> Finding:
    """Return that something could not be looked at."""
    return Finding(check, FindingVerdict.UNKNOWN, message, remedy)


def check_up(findings: Iterable[Finding]) -> CheckUp:
    """Return all findings, and whether nothing among them is bad."""
    found = tuple(findings)
    return CheckUp(all(one.verdict is not FindingVerdict.BAD for one in found), found)
