"""The journal: what was observed and what was decided, one JSON line each, and its replay.

Lines, in order: a header with the configuration; `{"saw": ...}` for each observation; `{"decided": [...], "at": t}`
for each call of `decide`. A replay feeds the observations to a fresh engine of the same configuration, asks it to
decide at the same times, and compares. The engine has no other input, so the decisions must be equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

import msgspec

from tutti import __version__
from tutti.api.configuration import TuttiConfiguration
from tutti.engine.decisions import AnyDecision
from tutti.engine.engine import Engine
from tutti.engine.extending.hosting import Plugins
from tutti.engine.observations import AnyObservation

_ENCODER = msgspec.json.Encoder()


class Header(msgspec.Struct, frozen=True, tag_field="line", tag="header"):
    """The first line: who wrote the journal, with which configuration (JSON of its model)."""

    version: str
    configuration: str


class Saw(msgspec.Struct, frozen=True, tag_field="line", tag="saw"):
    """One observation."""

    observation: AnyObservation


class Decided(msgspec.Struct, frozen=True, tag_field="line", tag="decided", omit_defaults=True):
    """One call of `decide`, with how many workloads it might try at most, and what came of it."""

    at: float
    decisions: list[AnyDecision]
    most: int | None = None


Line = Header | Saw | Decided
_DECODER: msgspec.json.Decoder[Line] = msgspec.json.Decoder(Line)


class JournalError(ValueError):
    """A journal that cannot be read; says which line, and why."""


class Sink(Protocol):
    """Where lines go."""

    def write(self, data: bytes, /) -> object:
        """Take one or more whole lines."""


class JournalWriter:
    """Writes a journal line by line; the sink decides when it reaches the disk."""

    def __init__(self, sink: Sink, configuration: TuttiConfiguration) -> None:
        self._sink = sink
        self._put(Header(__version__, configuration.model_dump_json(by_alias=True)))

    def saw(self, observation: AnyObservation) -> None:
        """Record an observation, before the engine is told."""
        self._put(Saw(observation))

    def decided(self, at: float, decisions: list[AnyDecision], *, most: int | None = None) -> None:
        """Record a call of `decide` and what came of it."""
        self._put(Decided(at, decisions, most))

    def _put(self, line: Line) -> None:
        self._sink.write(_ENCODER.encode(line) + b"\n")


@dataclass(frozen=True, slots=True)
class Difference:
    """A call of `decide` that came out differently on replay."""

    line: int
    at: float
    recorded: list[AnyDecision]
    replayed: list[AnyDecision]


@dataclass(frozen=True, slots=True)
class Replay:
    """What a replay found: how much was compared, and each difference."""

    observations: int
    calls: int
    decisions: int
    differences: list[Difference]


def read(lines: Iterable[bytes]) -> Iterator[tuple[int, Line]]:
    """Yield each line with its number (from 1); a last line cut off by a crash is left out.

    Raises:
        JournalError: a line that cannot be read stands before the last.
    """
    broken: tuple[int, msgspec.MsgspecError] | None = None
    for number, text in enumerate(lines, start=1):
        if broken is not None:
            raise JournalError(f"line {broken[0]} is no line of a journal: {broken[1]}")
        try:
            yield number, _DECODER.decode(text)
        except msgspec.MsgspecError as error:
            broken = (number, error)
    if broken is not None and broken[0] == 1:
        raise JournalError(f"line 1 is no header of a journal: {broken[1]}")


def replay(lines: Iterable[bytes], load: Callable[[TuttiConfiguration], Plugins] = lambda _: {}) -> Replay:
    """Run a journal again and compare every decision.

    Args:
        lines: The journal.
        load: Gives the plugins that its configuration enables.

    Raises:
        JournalError: the journal cannot be read, or does not begin with its header.
    """
    entries = read(lines)
    first = next(entries, None)
    if first is None or not isinstance(first[1], Header):
        raise JournalError("line 1 is not the header of a journal; was the beginning cut off?")
    configuration = TuttiConfiguration.model_validate_json(first[1].configuration)
    engine = Engine(configuration, load(configuration))
    observations = calls = decisions = 0
    differences: list[Difference] = []
    for number, line in entries:
        if isinstance(line, Saw):
            observations += 1
            engine.observe(line.observation)
        elif isinstance(line, Decided):
            calls += 1
            decisions += len(line.decisions)
            again = engine.decide(line.at, most=line.most)
            if _ENCODER.encode(again) != _ENCODER.encode(line.decisions):
                differences.append(Difference(number, line.at, line.decisions, again))
        else:
            raise JournalError(f"line {number} is a second header")
    return Replay(observations, calls, decisions, differences)
