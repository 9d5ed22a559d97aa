"""Semantic versions as Kubernetes compares them in expressions about devices.

Grammar and order: semver.org 2.0.0, as github.com/blang/semver reads it (Kubernetes 1.36,
apiserver/pkg/cel/library/semverlib.go). Build metadata is read and counts for nothing.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

_NUMBER: Final = r"(?:0|[1-9][0-9]{0,18})"
_FORM: Final = re.compile(
    rf"(?P<major>{_NUMBER})\.(?P<minor>{_NUMBER})\.(?P<patch>{_NUMBER})"
    r"(?:-(?P<pre>[0-9A-Za-z.-]+))?(?:\+(?P<build>[0-9A-Za-z.-]+))?",
    re.ASCII,
)
_LOOSE: Final = re.compile(r"v?(?P<numbers>[0-9]+(?:\.[0-9]+){0,2})(?P<rest>[-+].*)?", re.ASCII | re.DOTALL)
_PARTS: Final = 3
_LONGEST: Final = 64

Rank = tuple[int, int, int, tuple[tuple[int, int, str], ...]]
"""Sorts as versions do: the numbers; then the identifiers of a pre-release, which is before its release."""

_RELEASE: Final = ((2, 0, ""),)


class VersionError(ValueError):
    """Text that is no semantic version."""


@lru_cache(maxsize=4096)
def version_rank(text: str) -> Rank:
    """Return what a version sorts by.

    Raises:
        VersionError: It is none.
    """
    form = _FORM.fullmatch(text) if len(text) <= _LONGEST else None
    if form is None:
        raise VersionError(f"{text[:_LONGEST]!r} is no semantic version: write one such as 1.2.3 or 1.2.3-rc.1")
    before = _RELEASE if form["pre"] is None else tuple(_identifier(one) for one in form["pre"].split("."))
    return int(form["major"]), int(form["minor"]), int(form["patch"]), before


def _identifier(text: str) -> tuple[int, int, str]:
    if not text or (text.isdigit() and len(text) > 1 and text[0] == "0"):
        raise VersionError(f"{text!r} is no identifier of a pre-release: write a number or letters, such as rc.1")
    return (0, int(text), "") if text.isdigit() else (1, 0, text)


def loosened(text: str) -> str:
    """Return a version as `semver(text, true)` reads it: a leading v is dropped, and missing numbers are 0."""
    form = _LOOSE.fullmatch(text) if len(text) <= _LONGEST else None
    if form is None:
        return text
    numbers = [str(int(one)) for one in form["numbers"].split(".")]
    return ".".join(numbers + ["0"] * (_PARTS - len(numbers))) + (form["rest"] or "")


def without_build(text: str) -> str:
    """Return a version without its build metadata: two that are equal then are equal."""
    return text.partition("+")[0]
