"""What a workload says of how long it takes in which flavor, and how fast it is with how many members.

Whoever wrote the Workload or PodGroup says it, or else the pods, or else their owners; of pods that say different
things, the least counts, whichever of them was seen first. Seconds that cannot be read are
a problem of the workload; a curve that cannot be read is told of once, and counts for nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from tutti.api.conventions import ConventionError
from tutti.api.conventions.flavor_seconds import FLAVOR_SECONDS, read_flavor_seconds
from tutti.api.conventions.membership import annotation_path
from tutti.api.conventions.speed_by_members import LONGEST_TEXT, SPEED_BY_MEMBERS, read_speed
from tutti.api.model import Object
from tutti.engine.ingest import IngestState
from tutti.engine.records.explanation import Explanation, Gate
from tutti.engine.records.members import Member, Owned
from tutti.engine.records.workloads import Workload
from tutti.quota.speed_curves import amdahl, curve_of

T = TypeVar("T")


def read_paces(
    state: IngestState,
    workload: Workload,
    found: Object | None,
    unlike: Sequence[Member],
    answers: Sequence[Owned],
) -> None:
    """Take over how long a workload takes in which flavor, and how fast it is with how many members.

    Args:
        state: The engine's memory.
        workload: The workload.
        found: The object that is it, where there is one.
        unlike: Its members that say different things.
        answers: What is known of the owners of its members.
    """
    told = [taken for m in unlike if (taken := m.claim.flavor_seconds or m.owned.terms.flavor_seconds)]
    own, problem = said_by_object(found, workload, FLAVOR_SECONDS, read_flavor_seconds)
    workload.flavor_seconds = own or (min(told) if told else ())
    workload.problem = workload.problem or problem
    if workload.speed_learned is not None:  # it is looked up anew
        workload.speed = workload.speed_learned = None
    said = _speed_said(state, workload, found, answers)
    if said != workload.speed_said:
        workload.speed_said = said
        _read_speed(state, workload)


def _speed_said(state: IngestState, workload: Workload, found: Object | None, answers: Sequence[Owned]) -> str:
    """Return the text that says how fast it is; of pods that say different things, the least of them."""
    if found is not None and (own := found.metadata.annotations.get(SPEED_BY_MEMBERS)):
        return own[: LONGEST_TEXT + 1]
    if state.some_speed and (named := {m.hints.speed for m in workload.members() if m.hints.speed}):
        return min(named)
    return min((one.terms.hints.speed for one in answers if one.terms.hints.speed), default="")


def _read_speed(state: IngestState, workload: Workload) -> None:
    """Make the curve of what was said; where that is wrong, tell it, and go on as if nothing had been."""
    workload.speed = None
    try:
        said = read_speed(workload.speed_said)
    except ConventionError as error:
        state.announce(workload, "Warning", "SpeedIgnored", f"how fast it is with how many members is ignored: {error}")
        return
    if said is not None:
        workload.speed = curve_of(said.points) if said.points else amdahl(said.parallel)


def said_by_object(
    found: Object | None, workload: Workload, key: str, read: Callable[[str, str], tuple[T, ...]]
) -> tuple[tuple[T, ...], Explanation | None]:
    """Return what an annotation of a PodGroup or Workload says; one that cannot be read says nothing, and why not."""
    said = "" if found is None else found.metadata.annotations.get(key, "")
    if not said:
        return (), None
    try:
        return read(said, annotation_path(key)), None
    except ConventionError as error:
        text = f"{workload.name}: {error}"
        return (), Explanation(Gate.GATHER, f"Invalid{workload.key[0]}", text)
