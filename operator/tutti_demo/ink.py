"""How the views draw things: a glyph and a colour per team, a colour per state and per kind of happening.

Teams are told apart by shade as well as by colour, so that a capture without colours still reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from tutti_demo.picture import Kind
from tutti_demo.scenario import PLATFORM
from tutti_demo.track import State

BORDER = "bright_black"
QUIET = "bright_black"
FREE = "·"
WIDE = 100
"""Terminals at least so wide are given more words."""
_TENTH = 100


class Ink(NamedTuple):
    """How a team is drawn."""

    glyph: str
    style: str


INKS: Mapping[str, Ink] = MappingProxyType(
    {"vision": Ink("█", "cyan"), "speech": Ink("▓", "magenta"), PLATFORM: Ink("▒", "yellow")}
)

STATES: Mapping[State, str] = MappingProxyType(
    {
        State.EXPECTED: QUIET,
        State.WAITING: "yellow",
        State.BINDING: "bold green",
        State.RUNNING: "green",
        State.FINISHED: QUIET,
        State.FAILED: "bold red",
    }
)

KINDS: Mapping[Kind, str] = MappingProxyType(
    {
        Kind.ACT: "bold",
        Kind.ARRIVED: "dim",
        Kind.WAITS: "yellow",
        Kind.PLACED: "green",
        Kind.FINISHED: "dim",
        Kind.FAILED: "bold red",
        Kind.OPERATOR: "bold magenta",
    }
)


def seconds(value: float | None) -> str:
    """A duration for people: in milliseconds below a tenth of a second."""
    if value is None:
        return "-"
    milliseconds = round(value * 1000)
    if milliseconds < 1:
        return "< 1 ms"
    return f"{milliseconds} ms" if milliseconds < _TENTH else f"{value:.1f} s"
