"""An annotation that says how fast a gang runs with how many members, on pods, PodGroups and Workloads, on owners.

    scheduling.tutti.dev/speed-by-members: 1=1, 2=1.9, 4=3.4, 8=5
    scheduling.tutti.dev/speed-by-members: parallel=0.95

The first has points: members, and the speed that they reach together, in any unit. The second names the part of the
work that all members share (Amdahl's law). It is a hint: one that cannot be read is told of and counts for nothing.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise
from typing import Final, NamedTuple

from tutti.api.conventions.membership import ConventionError, quoted
from tutti.api.messages import counted
from tutti.api.model import GROUP

SPEED_BY_MEMBERS: Final = f"{GROUP}/speed-by-members"
"""The annotation."""
LONGEST_TEXT: Final = 2048
"""Characters of it."""
MOST_POINTS: Final = 64
MOST_MEMBERS: Final = 1_000_000
"""As many as a curve may speak of."""
_ROUNDING: Final = 1.001
"""Speeds are written with few digits, so that much above ideal still counts as ideal."""

_NUMBER = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?", re.ASCII)
_RIGHT = "write members with their speed, such as 1=1,2=1.9,4=3.4, or the part that all share, such as parallel=0.95"


class SpeedSaid(NamedTuple):
    """What was said.

    Attributes:
        points: Members and the speed that they reach together, by members; none where `parallel` says it.
        parallel: The part of the work that all members share, 0 to 1.
    """

    points: tuple[tuple[int, float], ...] = ()
    parallel: float = 0.0


@lru_cache(maxsize=1024)
def read_speed(text: str) -> SpeedSaid | None:
    """Return what an annotation says; None where it is empty.

    Raises:
        ConventionError: It cannot be read; the message says what is wrong, and what would be right.
    """
    where = f"metadata.annotations[{SPEED_BY_MEMBERS}]"
    if len(text) > LONGEST_TEXT:
        raise ConventionError(f"it has more than {LONGEST_TEXT} characters: give at most {MOST_POINTS} points", where)
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts:
        return None
    if len(parts) > MOST_POINTS:
        raise ConventionError(f"it has {len(parts)} points: give at most {MOST_POINTS}", where)
    name, _, said = (piece.strip() for piece in parts[0].partition("="))
    if name == "parallel":
        if len(parts) > 1 or not _NUMBER.fullmatch(said) or float(said) > 1:
            raise ConventionError(f"{quoted(text.strip())} cannot be read: parallel is one part from 0 to 1", where)
        return SpeedSaid(parallel=float(said))
    points = sorted(_point(part, where) for part in parts)
    for (members, speed), (more, faster) in pairwise(points):
        if members == more:
            raise ConventionError(f"it has two speeds with {counted(members, 'member')}: give one", where)
        if faster < speed:
            raise ConventionError(
                f"it is slower with {more} members than with {members} ({faster:g}, {speed:g}): give only as many "
                f"members as make it faster",
                where,
            )
        if faster / speed > more / members * _ROUNDING:
            raise ConventionError(
                f"{more} members cannot be {faster / speed:.4g} times as fast as {members}: {more / members:.4g} times "
                f"is the most that counts",
                where,
            )
    return SpeedSaid(tuple(points))


def _point(part: str, where: str) -> tuple[int, float]:
    members, _, speed = (piece.strip() for piece in part.partition("="))
    if not members.isascii() or not members.isdigit() or len(members) > len(str(MOST_MEMBERS)):
        raise ConventionError(f"{quoted(part)} cannot be read: {_RIGHT}", where)
    if not _NUMBER.fullmatch(speed) or float(speed) <= 0 or not 1 <= int(members) <= MOST_MEMBERS:
        raise ConventionError(f"{quoted(part)} cannot be read: {_RIGHT}", where)
    return int(members), float(speed)
