"""koordinator: gang annotations on the pods. Labels that name its PodGroups are those of scheduler-plugins."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tutti.api.conventions.claim import Claim, ConventionError, annotation, duration, integer, object_name

if TYPE_CHECKING:
    from tutti.api.configuration import Conventions
    from tutti.api.core import Pod

_PREFIX = "gang.scheduling.koordinator.sh/"
NAME = f"{_PREFIX}name"
MIN_AVAILABLE = f"{_PREFIX}min-available"
TOTAL_NUMBER = f"{_PREFIX}total-number"
WAITING_TIME = f"{_PREFIX}waiting-time"
MODE = f"{_PREFIX}mode"
GROUPS = f"{_PREFIX}groups"
DEFAULT_WAITING_SECONDS = 600


def read(pod: Pod, settings: Conventions) -> Claim | None:  # noqa: ARG001  all conventions are read the same way
    """The gang that the annotations describe; None without a gang name."""
    annotations = pod.metadata.annotations
    name = annotations.get(NAME, "")
    if not name:
        return None
    min_count = integer(annotations, MIN_AVAILABLE, annotation(MIN_AVAILABLE), least=1)
    if min_count is None:
        raise ConventionError(
            f"must be given, because {NAME} makes the pod a member of a gang", annotation(MIN_AVAILABLE)
        )
    _check_mode(annotations.get(MODE, ""))
    _check_groups(annotations.get(GROUPS, ""), f"{pod.metadata.namespace}/{name}")
    total = integer(annotations, TOTAL_NUMBER, annotation(TOTAL_NUMBER), least=1)
    if total is not None and total < min_count:
        raise ConventionError(
            f"{total} is below {MIN_AVAILABLE} {min_count}: give all members", annotation(TOTAL_NUMBER)
        )
    waiting = annotations.get(WAITING_TIME)
    return Claim(
        convention="koordinator",
        namespace=pod.metadata.namespace,
        group=object_name(name),
        min_count=min_count,
        count=total,
        timeout_seconds=duration(waiting, annotation(WAITING_TIME)) if waiting else DEFAULT_WAITING_SECONDS,
        implicit=True,
    )


def _check_mode(mode: str) -> None:
    """Strict and NonStrict differ in what a half-placed gang may keep; here no gang is ever half placed."""
    if mode not in ("", "Strict", "NonStrict"):
        raise ConventionError(f"{mode!r} is no mode: write Strict or NonStrict", annotation(MODE))


def _check_groups(text: str, own: str) -> None:
    """Several gangs that bind only together are not supported, so a list of others is refused."""
    if not text:
        return
    try:
        groups = json.loads(text)
    except ValueError as error:
        raise ConventionError('must be a JSON list of "namespace/name"', annotation(GROUPS)) from error
    if not isinstance(groups, list):
        raise ConventionError('must be a JSON list of "namespace/name"', annotation(GROUPS))
    if any(group != own for group in groups):
        raise ConventionError(
            f"gangs that wait for one another are not supported yet: list {own} only, or leave it out",
            annotation(GROUPS),
        )
