"""The cluster as it was, or will be, at a moment: read off a journal, or played on from what was listed.

What is asked about it is asked of that moment then, as of a cluster that was listed there.
"""

from __future__ import annotations

import fileinput
import re
from collections.abc import Hashable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tutti.api.configuration import TuttiConfiguration
from tutti.api.core import Pod
from tutti.api.owners import controller_of
from tutti.cli.views.listing import Listed
from tutti.cli.views.what_if import ObservedCluster
from tutti.controller.plugins import load_plugins
from tutti.engine.journal import Decided, Header, JournalError, Line, Saw, read
from tutti.engine.lifecycle.limits import ends_at
from tutti.engine.records.measurements import Measured
from tutti.engine.records.observations import (
    AnyObservation,
    OwnerKindFollowed,
    OwnerSeen,
    SelectingSeen,
    StorageGone,
    StorageSeen,
)
from tutti.engine.records.provisioning import ProvisioningFollowed
from tutti.engine.records.workloads import Phase, Workload
from tutti.virtual_time.cluster import Habits, VirtualCluster

MOST_AHEAD = 366 * 86_400.0
"""How far ahead a moment may lie, seconds."""
_MOST_TURNS = 20_000
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_SEEN, _GONE = "Seen", "Gone"


class MomentError(ValueError):
    """A moment of which nothing can be known; the message says why, and what would be right."""


def read_moment(text: str, now: float) -> float:
    """Return a moment in Unix seconds: `2026-11-24T18:00:00Z`, or `+90m` from now on.

    Raises:
        MomentError: It is none.
    """
    ahead = re.fullmatch(r"\+(\d{1,9})([smhd])", text)
    if ahead is not None:
        return now + int(ahead[1]) * _UNITS[ahead[2]]
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise MomentError(f"--at is written 2026-11-24T18:00:00Z, or +90m, +2h, +1d, not {text[:60]!r}") from None
    return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp()


def later(asked: ObservedCluster, at: float, run_seconds: float | None) -> ObservedCluster:
    """Return the cluster as it will be at a moment, as far as ends are known and nobody comes.

    Args:
        asked: The cluster as it is.
        at: The moment, Unix seconds.
        run_seconds: How long work runs of which that is not known; None: for ever.

    Raises:
        MomentError: It lies in the past, or too far ahead.
        StuckError: The engine asks for ever to be called again (a fault of ours).
    """
    if not asked.at <= at <= asked.at + MOST_AHEAD:
        raise MomentError(
            f"--at must lie between now and {MOST_AHEAD / 86_400:.0f} days ahead; the past is in a journal (--journal)"
        )
    engine = asked.stock()

    def lasts(workload: Workload) -> float | None:
        end = ends_at(engine.state, workload)
        return run_seconds if end is None else end - cluster.now

    cluster = VirtualCluster(engine, asked.at, Habits(lasts, _comes_again, keeps=True))
    cluster.adopt(asked.listed.seen)
    for key, workload in list(engine.state.workloads.items()):
        if workload.phase in (Phase.BINDING, Phase.SCHEDULED):
            cluster.runs(key)
    cluster.settle()
    while cluster.turns < _MOST_TURNS and cluster.advance(at):
        pass
    return replace(asked, listed=replace(asked.listed, seen=cluster.seen(asked.listed.seen)), at=at)


def _comes_again(pod: Pod) -> bool:
    return controller_of(pod.metadata.owner_references) is not None


def recorded(files: Sequence[Path], at: float | None) -> ObservedCluster:
    """Return the cluster as a journal had it at a moment; at its end if none is given.

    Args:
        files: Its parts, in order.
        at: Unix seconds.

    Raises:
        MomentError: It is no journal, or the moment lies before it.
        ConfigurationError: A plugin that its configuration enables is not there.
        OSError: It cannot be read.
    """
    recording = _Recording()
    try:
        with fileinput.input(files, mode="rb") as lines:
            for number, line in read(lines):
                if not recording.take(number, line, at):
                    break
    except JournalError as error:
        raise MomentError(str(error)) from None
    configuration, moment = recording.configuration, recording.moment
    if configuration is None or moment is None:
        raise MomentError("nothing was decided in it, so there is no moment to ask about")
    return ObservedCluster(Listed(recording.book.all()), moment, configuration, load_plugins(configuration))


_LASTING = (OwnerKindFollowed, ProvisioningFollowed, Measured)
"""What is told anew each time, and holds until then."""


class _Book:
    """What there is, by what was seen last of each thing; answers to writes are none."""

    def __init__(self) -> None:
        self._there: dict[Hashable, AnyObservation] = {}

    def saw(self, one: AnyObservation) -> None:
        """Take one observation in."""
        name = type(one).__name__
        if isinstance(one, _LASTING):
            self._there[name, getattr(one, "group", ""), getattr(one, "kind", "")] = one
        elif isinstance(one, StorageGone):
            self._there.pop((one.kind, "", one.namespace, one.name), None)
        elif name.endswith(_SEEN):
            self._there[_identity(one)] = one
        elif name.endswith(_GONE):
            gone: Any = one
            said = (getattr(gone, "namespace", ""), getattr(gone, "name", "") or getattr(gone, "uid", ""))
            self._there.pop((name.removesuffix(_GONE), getattr(gone, "kind", ""), *said), None)

    def all(self) -> list[AnyObservation]:
        """Return it, in the order in which it was first seen."""
        return list(self._there.values())


def _identity(one: Any) -> tuple[str, str, str, str]:
    """Return what kind of thing was seen, its own kind where several are seen alike, its namespace and its name."""
    stem, kind = type(one).__name__.removesuffix(_SEEN), str(getattr(one, "kind", ""))
    if hasattr(one, "raw"):
        meta = one.raw.get("metadata") or {}
        return stem, kind, str(meta.get("namespace", "")), str(meta.get("name", ""))
    found = getattr(one, one.__struct_fields__[0])
    if isinstance(one, StorageSeen):
        stem = type(found).__name__
    elif isinstance(one, OwnerSeen):
        return stem, "", "", found.uid
    elif isinstance(one, SelectingSeen):
        kind = found.kind
    meta = getattr(found, "metadata", found)
    return stem, kind, str(getattr(meta, "namespace", "")), str(getattr(meta, "name", ""))


class _Recording:
    """What a journal tells up to a moment.

    Attributes:
        book: What there is by then.
        configuration: By which was decided; None until its header has been read.
        moment: That of the last call of decide, Unix seconds, or the one asked for where there is a later; None: none.
    """

    def __init__(self) -> None:
        self.book = _Book()
        self.configuration: TuttiConfiguration | None = None
        self.moment: float | None = None

    def take(self, number: int, line: Line, at: float | None) -> bool:
        """Take a line in, by its number; returns False where it lies after the moment that is asked for.

        Raises:
            MomentError: It is no journal, or the moment lies before it.
        """
        if isinstance(line, Header):
            self.configuration = self.configuration or TuttiConfiguration.model_validate_json(line.configuration)
        elif self.configuration is None:
            raise MomentError(f"line {number} is not the header of a journal; was the beginning cut off?")
        elif isinstance(line, Saw):
            self.book.saw(line.observation)
        elif isinstance(line, Decided):
            is_later = at is not None and line.at > at
            if is_later and self.moment is None:
                begin = datetime.fromtimestamp(line.at, UTC).isoformat()
                raise MomentError(f"it begins at {begin}, which is later than --at")
            self.moment = at if is_later else line.at
            return not is_later
        return True
