"""koordinator: gang annotations on the pods. Labels that name its PodGroups are those of scheduler-plugins.

Gangs that list one another in `groups`, of whatever namespaces, are one gang with a role for each of them: none is
bound before all have their minimum. Strict and NonStrict differ in what a half-placed gang may keep; none is here.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from tutti.api.conventions.claim import Claim, ConventionError, annotation, object_name, shown
from tutti.api.conventions.texts import MOST_GANGS, decoded, duration, integer

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
MATCH_POLICY = f"{_PREFIX}match-policy"
KEYS = (NAME, MIN_AVAILABLE, TOTAL_NUMBER, WAITING_TIME, MODE, GROUPS, MATCH_POLICY)
"""All that is read."""
DEFAULT_WAITING_SECONDS = 600
_NO_LIST = f'must be a JSON list of "namespace/name", at most {MOST_GANGS} of them'
_GANG = re.compile(r"[^/]+/[^/]+")
_GANGS: msgspec.json.Decoder[list[str]] = msgspec.json.Decoder(list[str])


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
    _check_policy(annotations.get(MATCH_POLICY, ""))
    own = f"{pod.metadata.namespace}/{name}"
    gangs = _gangs(annotations.get(GROUPS, ""), own)
    total = integer(annotations, TOTAL_NUMBER, annotation(TOTAL_NUMBER), least=1)
    if total is not None and total < min_count:
        raise ConventionError(
            f"{total} is below {MIN_AVAILABLE} {min_count}: give all members", annotation(TOTAL_NUMBER)
        )
    waiting = annotations.get(WAITING_TIME)
    alone = len(gangs) == 1
    first, _, first_name = gangs[0].partition("/")
    return Claim(
        convention="koordinator",
        namespace=first,
        group=object_name(name if alone else f"{first_name} and others: {','.join(gangs)}"),
        min_count=min_count if alone else None,
        count=total if alone else None,
        role="" if alone else own,
        roles=() if alone else tuple((gang, min_count if gang == own else 0) for gang in gangs),
        timeout_seconds=duration(waiting, annotation(WAITING_TIME)) if waiting else DEFAULT_WAITING_SECONDS,
        implicit=True,
    )


def _check_mode(mode: str) -> None:
    if mode not in ("", "Strict", "NonStrict"):
        raise ConventionError(f"{shown(mode)} is no mode: write Strict or NonStrict", annotation(MODE))


def _check_policy(policy: str) -> None:
    """What counts towards the minimum: here members that wait and those that run do, until the gang has run once."""
    if policy not in ("", "once-satisfied", "waiting-and-running"):
        raise ConventionError(
            f"{shown(policy)} is not supported: write once-satisfied or waiting-and-running", annotation(MATCH_POLICY)
        )


def _gangs(text: str, own: str) -> list[str]:
    """Return the gangs, as namespace/name, that are placed together with the pod's own, and this; sorted."""
    if not text:
        return [own]
    groups = decoded(text, _GANGS, annotation(GROUPS), _NO_LIST)
    if len(groups) > MOST_GANGS or not all(_GANG.fullmatch(group) for group in groups):
        raise ConventionError(_NO_LIST, annotation(GROUPS))
    if own not in groups:
        raise ConventionError(f"must name the pod's own gang, {own}, too", annotation(GROUPS))
    return sorted(set(groups))
