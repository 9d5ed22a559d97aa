"""The journal: what was observed and what was decided, one JSON line each, and its replay.

Lines, in order: a header with the configuration; `{"saw": ...}` for each observation; `{"decided": [...], "at": t}`
for each call of `decide`; and, of a run that has ended by itself, that it has. A journal of several parts is read as
one; each begins with a header that says which part of which run it is. A replay feeds the observations to a fresh
engine of the same configuration, asks it to decide at the same times, and compares. The engine has no other input, so
the decisions must be equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

import msgspec

from tutti import __version__
from tutti.api.configuration import TuttiConfiguration
from tutti.engine.cycle.engine import Engine
from tutti.engine.records.decisions import AnyDecision
from tutti.engine.records.observations import AnyObservation
from tutti.engine.records.plugins import Plugins, checksums

_ENCODER = msgspec.json.Encoder()


class Header(msgspec.Struct, frozen=True, tag_field="line", tag="header"):
    """The first line: who wrote the journal, with which configuration (JSON of its model), and which part it is.

    Attributes:
        policies: The checksum of each profile's learned policy, by schedulerName; "": its file could not be used.
    """

    version: str
    configuration: str
    run: str = ""
    part: int = 1
    policies: dict[str, str] = {}


class Saw(msgspec.Struct, frozen=True, tag_field="line", tag="saw"):
    """One observation."""

    observation: AnyObservation


class Decided(msgspec.Struct, frozen=True, tag_field="line", tag="decided", omit_defaults=True):
    """One call of `decide`, with how many workloads it might try at most, and what came of it.

    Attributes:
        ended: When the engine asked for the how-manieth time it was told that the turn had had its share of time;
            None where it never was.
    """

    at: float
    decisions: list[AnyDecision]
    most: int | None = None
    ended: int | None = None


class Share:
    """What a turn is told when it asks whether it has had its share of time, and at which question that was so.

    Args:
        is_used: Whether it has; in a replay that follows from the number of the question.
    """

    def __init__(self, is_used: Callable[[int], bool]) -> None:
        self.ended: int | None = None
        self._is_used = is_used
        self._asked = 0

    def __call__(self) -> bool:
        """Answer one question."""
        self._asked += 1
        if self.ended is None and self._is_used(self._asked):
            self.ended = self._asked
        return self.ended is not None


class Ended(msgspec.Struct, frozen=True, tag_field="line", tag="ended"):
    """The last line of a run that has ended by itself."""


ENDED = _ENCODER.encode(Ended()) + b"\n"
"""That line, as it is written."""
Line = Header | Saw | Decided | Ended
_DECODER: msgspec.json.Decoder[Line] = msgspec.json.Decoder(Line)


class JournalError(ValueError):
    """A journal that cannot be read; says which line, and why."""


class Sink(Protocol):
    """Where lines go."""

    def write(self, data: bytes, /) -> object:
        """Take one or more whole lines."""


class JournalWriter:
    """Writes a journal line by line; the sink decides when it reaches the disk.

    Args:
        sink: Takes the lines.
        configuration: Of the engine.
        run: The run, where it has several parts, and `part`, which of them this is.
        policies: As in the header.
    """

    def __init__(
        self,
        sink: Sink,
        configuration: TuttiConfiguration,
        *,
        run: str = "",
        part: int = 1,
        policies: Mapping[str, str] | None = None,
    ) -> None:
        self._sink = sink
        settings = configuration.model_dump_json(by_alias=True)
        self._put(Header(__version__, settings, run, part, dict(policies or {})))

    def saw(self, observation: AnyObservation) -> None:
        """Record an observation, before the engine is told."""
        self._put(Saw(observation))

    def decided(
        self, at: float, decisions: list[AnyDecision], *, most: int | None = None, ended: int | None = None
    ) -> None:
        """Record a call of `decide` and what came of it."""
        self._put(Decided(at, decisions, most, ended))

    def ended(self) -> None:
        """Record that the run has ended by itself."""
        self._sink.write(ENDED)

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


def _as_told(line: Decided) -> Share:
    return Share(lambda asked: asked == line.ended)


def _part(header: Header) -> str:
    return f"part {header.part} of run {header.run}" if header.run else "another journal"


def _first_header(entries: Iterator[tuple[int, Line]]) -> Header:
    """Return the header of the first part, which is the first line.

    Raises:
        JournalError: It is none, or that of a later part.
    """
    first = next(entries, None)
    if first is None or not isinstance(first[1], Header):
        raise JournalError("line 1 is not the header of a journal; was the beginning cut off?")
    header = first[1]
    if header.part != 1:
        raise JournalError(f"it begins with part {header.part} of run {header.run}; give all parts, from .001 on")
    return header


def _check_goes_on(number: int, header: Header, before: Header) -> None:
    """See that the part which a line begins is the next one of the same run.

    Raises:
        JournalError: It is another, or no part at all.
    """
    if before.run and (header.run, header.part) == (before.run, before.part + 1):
        return
    if not header.run:
        raise JournalError(f"line {number} is a second header")
    raise JournalError(f"line {number} begins {_part(header)}, which does not go on from {_part(before)}")


def _check_policies(recorded: Mapping[str, str], found: Mapping[str, str]) -> None:
    """See that the policies that decided are those that would decide now.

    Raises:
        JournalError: One is another, or could be used in only one of them.
    """
    for scheduler, one in recorded.items():
        if found.get(scheduler, "") != one:
            was, now = one or "one that could not be used", found.get(scheduler) or "none that can be used"
            raise JournalError(
                f"the profile {scheduler} had the learned policy {was}, and there is {now}: put the file of then there"
            )


def replay(lines: Iterable[bytes], load: Callable[[TuttiConfiguration], Plugins] = lambda _: {}) -> Replay:
    """Run a journal again and compare every decision.

    Args:
        lines: The journal.
        load: Gives the plugins that its configuration enables.

    Raises:
        JournalError: the journal cannot be read, does not begin with its header, or lacks a part; or its learned
            policies are not those that are there.
    """
    entries = read(lines)
    header = _first_header(entries)
    configuration = TuttiConfiguration.model_validate_json(header.configuration)
    plugins = load(configuration)
    _check_policies(header.policies, checksums(plugins))
    engine = Engine(configuration, plugins)
    observations = calls = decisions = 0
    differences: list[Difference] = []
    for number, line in entries:
        if isinstance(line, Saw):
            observations += 1
            engine.observe(line.observation)
        elif isinstance(line, Decided):
            calls += 1
            decisions += len(line.decisions)
            again = engine.decide(line.at, most=line.most, enough=_as_told(line))
            if _ENCODER.encode(again) != _ENCODER.encode(line.decisions):
                differences.append(Difference(number, line.at, line.decisions, again))
        elif isinstance(line, Header):
            _check_goes_on(number, line, header)
            header = line
    return Replay(observations, calls, decisions, differences)
