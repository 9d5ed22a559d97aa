"""For how long a workload is expected to run, by how long others of its kind have.

Of a kind are those that come through one LocalQueue, of one user where users are told apart, whose names begin alike
and whose numbers of pods are within the same power of two. What is expected is the median of the last `KEPT` that have
succeeded; the error that is told with it is the median of how far these were from it.

What a workload says itself (`expected-seconds`) counts, but for no less than a quarter of its kind's last runs took:
to say less than the truth gains nothing once there are some. Nobody is expected to run for longer than he may.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

KEPT = 8
"""So many runs of a kind are kept."""
BELIEVED = 3
"""So many runs say something of a kind."""
MOST_KINDS = 64
"""So many kinds of a LocalQueue are kept: those that have ended last."""
ANY_KIND = ""
"""All workloads of a LocalQueue, for kinds of which nothing is known."""
LONGEST_STEM = 63
MOST_SECONDS = 2**31 - 1

_VARIES = re.compile(r"\d")
_PARTS = re.compile(r"[-._]")


class Expected(NamedTuple):
    """What is known of a kind.

    Attributes:
        seconds: The median run.
        least: A quarter of the runs were no longer.
        error: The median of how far runs were from `seconds`.
        runs: How many runs that is from.
    """

    seconds: float
    least: float
    error: float
    runs: int


def expected_of(seconds: Sequence[int]) -> Expected | None:
    """Return what some runs say of the next one, in seconds; None where they are too few."""
    if len(seconds) < BELIEVED:
        return None
    middle = float(statistics.median(seconds))
    error = float(statistics.median(abs(one - middle) for one in seconds))
    least = float(sorted(seconds)[(len(seconds) - 1) // 4])
    return Expected(middle, least, error, len(seconds))


def stem_of(name: str) -> str:
    """Return what names of the same kind of work begin with: without the parts at the end that have digits.

    `train-resnet-2026-11-24` and `nightly-28374650` come to `train-resnet` and `nightly`.
    """
    parts = _PARTS.split(name)
    while len(parts) > 1 and _VARIES.search(parts[-1]):
        parts.pop()
    parts[-1] = parts[-1].rstrip("0123456789") or parts[-1]
    return "-".join(parts)[:LONGEST_STEM]


def kind_of(user: str, name: str, pods: int) -> str:
    """Return the kind of a workload of some user ("": not told apart) that has so many pods."""
    size = 1 << max(0, max(1, pods) - 1).bit_length()
    stem = stem_of(name)
    return f"{stem} up to {size}" if not user else f"{stem} up to {size} of {user[:LONGEST_STEM]}"


def kind_in(kind: str, flavor: str) -> str:
    """Return the runs of a kind that were in one flavor, as a kind of their own."""
    return f"{kind} in {flavor}"


_OF_A_SIZE = re.compile(r"([1-9][0-9]{0,6}) members of (.*)")


def kind_with(kind: str, members: int) -> str:
    """Return the runs of a kind that had so many members, as a kind of their own; no other kind has such a name."""
    return f"{members} members of {kind}"


@dataclass(slots=True)
class RunHistory:
    """How long the workloads of a LocalQueue have run.

    Attributes:
        uid: Of the LocalQueue.
        runs: By kind, in seconds, the latest last; the kind that ended last stands last.
    """

    uid: str
    runs: dict[str, list[int]] = field(default_factory=dict)

    def ended(self, kind: str, seconds: float, flavor: str = "", members: int = 0) -> None:
        """Count a run, where all of it was in one flavor that matters as one in that, and with so many members."""
        whole = min(MOST_SECONDS, max(1, math.ceil(seconds)))
        in_flavor = (kind_in(kind, flavor),) if flavor else ()
        of_size = (kind_with(kind, members),) if members > 0 else ()
        for one in (ANY_KIND, kind, *in_flavor, *of_size):
            runs = self.runs.pop(one, [])
            self.runs[one] = [*runs, whole][-KEPT:]
        while len(self.runs) > MOST_KINDS:
            del self.runs[next(iter(self.runs))]

    def expected(self, kind: str) -> Expected | None:
        """Return what is known of a kind, or else of all; None where that is nothing."""
        found = expected_of(self.runs.get(kind, ()))
        return expected_of(self.runs.get(ANY_KIND, ())) if found is None else found

    def by_flavor(self, kind: str, flavors: Iterable[str]) -> dict[str, Expected]:
        """Return what is known of a kind in each of some flavors; nothing is concluded from other kinds or flavors."""
        found = ((flavor, expected_of(self.runs.get(kind_in(kind, flavor), ()))) for flavor in flavors)
        return {flavor: known for flavor, known in found if known is not None}

    def by_members(self, kind: str) -> dict[int, Sequence[int]]:
        """Return how long runs of a kind took with how many members."""
        found = ((_OF_A_SIZE.fullmatch(one), runs) for one, runs in self.runs.items())
        return {int(size[1]): runs for size, runs in found if size is not None and size[2] == kind}


def history_of(uid: str, said: Mapping[str, Sequence[int]]) -> RunHistory:
    """Return the history that a status tells of; what cannot have been written by us is left out."""
    found = RunHistory(uid)
    for kind, runs in list(said.items())[-MOST_KINDS:]:
        kept = [one for one in runs if 1 <= one <= MOST_SECONDS][-KEPT:]
        if kept:
            found.runs[kind] = kept
    return found


def seconds_expected(known: Expected | None, *, said: float = 0.0, limit: float = 0.0, otherwise: float) -> float:
    """Return for how long a workload is expected to run.

    Args:
        known: Of its kind.
        said: What it says itself, seconds; 0 where it does not.
        limit: For how long it may run; 0 for ever.
        otherwise: What is expected where nothing is known.
    """
    if said > 0:
        seconds = said if known is None else max(said, known.least)
    elif known is not None:
        seconds = known.seconds
    else:
        seconds = limit if limit > 0 else otherwise
    return max(1.0, min(seconds, limit) if limit > 0 else seconds)
