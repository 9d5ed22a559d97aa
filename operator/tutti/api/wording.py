"""Numbers in sentences: what agrees with a number is worded here, so that no message says "1 pods" or "1 are"."""

from __future__ import annotations

from typing import Final

Forms = tuple[str, str]
"""A word as it is with one, and as it is with any other number."""

IS: Final[Forms] = ("is", "are")
HAS: Final[Forms] = ("has", "have")
WAS: Final[Forms] = ("was", "were")


def agreeing(number: int, forms: Forms) -> str:
    """Return the form of a word that agrees with a number."""
    return forms[0] if number == 1 else forms[1]


def counted(number: int, noun: str, *, verb: Forms | None = None) -> str:
    """Return a number with its noun, and with a verb where one is given: `1 pod`, `2 pods`, `0 pods are`."""
    words = f"{number} {noun}{'' if number == 1 else 's'}"
    return words if verb is None else f"{words} {agreeing(number, verb)}"


def all_of(number: int, noun: str) -> str:
    """Return what names all of so many: `the pod`, `all 3 pods`."""
    return f"the {noun}" if number == 1 else f"all {counted(number, noun)}"
