"""Conventions by which pods describe their gang in annotations: those of pfnet, koordinator and Apache YuniKorn.

pfnet has three annotations under a prefix of the cluster's choice. Kept: a size of 1 or less is an ordinary pod; the
timeout is the pod's or the default, but at most the limit, and by chance a little more; members must agree on both; no
more members than the size have nodes at once; and, where the configuration says so, all members are deleted with the
first that is. Not kept: taking unreadable annotations for an ordinary pod, since a user who misspells a size must be
told.

koordinator's gangs that list one another in `groups`, of whatever namespaces, are one gang with a role for each of
them: none is bound before all have their minimum. Strict and NonStrict differ in what a half-placed gang may keep; none
is here. Labels that name its PodGroups are those of scheduler-plugins.

An application of YuniKorn's is one gang with a role for each task group. Whichever of its pods carry the definitions
tell them for all; while none does, its pods are placed one by one. Room is kept in memory, so that no placeholder pods
are made.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from tutti.api.conventions.membership import (
    MOST_GANGS,
    MOST_MEMBERS,
    MOST_SECONDS,
    ConventionError,
    GangMembership,
    annotation_path,
    decode_json,
    existing_name,
    label_path,
    object_name,
    part_name,
    quoted,
    whole_number,
    whole_seconds,
)
from tutti.api.resources import AmountError, parse_requests

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tutti.api.configuration import Conventions
    from tutti.api.core import Pod


_ANY_SIZE = -(2**63)


def pfnet_keys(settings: Conventions) -> tuple[str, ...]:
    """Return all that is read: the annotations with a gang's name, its size and its timeout."""
    return tuple(f"{settings.pfnet_prefix}-{suffix}" for suffix in ("name", "size", "schedule-timeout-seconds"))


def read_pfnet(pod: Pod, settings: Conventions) -> GangMembership | None:
    """The gang that the annotations describe; None without them, or with a size of 1 or less."""
    annotations = pod.metadata.annotations
    name_key, size_key, timeout_key = pfnet_keys(settings)
    name = annotations.get(name_key, "")
    size = whole_number(annotations, size_key, annotation_path(size_key), least=_ANY_SIZE)
    if size is None and not name:
        return None
    if size is None:
        raise ConventionError(
            f"must be given, because {name_key} makes the pod a member of a gang", annotation_path(size_key)
        )
    if size <= 1:
        return None
    if not name:
        raise ConventionError(
            f"must be given, because {size_key} makes the pod a member of a gang", annotation_path(name_key)
        )
    timeout = whole_number(annotations, timeout_key, annotation_path(timeout_key), least=1, most=MOST_SECONDS)
    return GangMembership(
        convention="pfnet",
        namespace=pod.metadata.namespace,
        group=object_name(name),
        min_count=size,
        count=size,
        most=size,
        timeout_seconds=min(timeout or settings.pfnet_default_timeout_seconds, settings.pfnet_timeout_limit_seconds),
        timeout_jitter_seconds=settings.pfnet_timeout_jitter_seconds,
        implicit=True,
        leaves_together=settings.pfnet_delete_together,
    )


_KOORDINATOR = "gang.scheduling.koordinator.sh/"
GANG_NAME = f"{_KOORDINATOR}name"
MIN_AVAILABLE = f"{_KOORDINATOR}min-available"
TOTAL_NUMBER = f"{_KOORDINATOR}total-number"
WAITING_TIME = f"{_KOORDINATOR}waiting-time"
GANG_MODE = f"{_KOORDINATOR}mode"
GANG_GROUPS = f"{_KOORDINATOR}groups"
MATCH_POLICY = f"{_KOORDINATOR}match-policy"
KOORDINATOR_KEYS = (GANG_NAME, MIN_AVAILABLE, TOTAL_NUMBER, WAITING_TIME, GANG_MODE, GANG_GROUPS, MATCH_POLICY)
"""All that is read."""
DEFAULT_WAITING_SECONDS = 600
_NO_GANGS = f'must be a JSON list of "namespace/name", at most {MOST_GANGS} of them'
_GANG_PATTERN = re.compile(r"[^/]+/[^/]+")
_GANGS_JSON: msgspec.json.Decoder[list[str]] = msgspec.json.Decoder(list[str])


def read_koordinator(pod: Pod, settings: Conventions) -> GangMembership | None:  # noqa: ARG001  all conventions are read the same way
    """The gang that the annotations describe; None without a gang name."""
    annotations = pod.metadata.annotations
    name = annotations.get(GANG_NAME, "")
    if not name:
        return None
    min_count = whole_number(annotations, MIN_AVAILABLE, annotation_path(MIN_AVAILABLE), least=1)
    if min_count is None:
        raise ConventionError(
            f"must be given, because {GANG_NAME} makes the pod a member of a gang", annotation_path(MIN_AVAILABLE)
        )
    _check_mode(annotations.get(GANG_MODE, ""))
    _check_policy(annotations.get(MATCH_POLICY, ""))
    own = f"{pod.metadata.namespace}/{name}"
    gangs = _gangs(annotations.get(GANG_GROUPS, ""), own)
    total = whole_number(annotations, TOTAL_NUMBER, annotation_path(TOTAL_NUMBER), least=1)
    if total is not None and total < min_count:
        raise ConventionError(
            f"{total} is below {MIN_AVAILABLE} {min_count}: give all members", annotation_path(TOTAL_NUMBER)
        )
    waiting = annotations.get(WAITING_TIME)
    alone = len(gangs) == 1
    first, _, first_name = gangs[0].partition("/")
    return GangMembership(
        convention="koordinator",
        namespace=first,
        group=object_name(name if alone else f"{first_name} and others: {','.join(gangs)}"),
        min_count=min_count if alone else None,
        count=total if alone else None,
        role="" if alone else own,
        roles=() if alone else tuple((gang, min_count if gang == own else 0) for gang in gangs),
        timeout_seconds=whole_seconds(waiting, annotation_path(WAITING_TIME)) if waiting else DEFAULT_WAITING_SECONDS,
        implicit=True,
        shared=any(gang.partition("/")[0] != first for gang in gangs),
    )


def _check_mode(mode: str) -> None:
    if mode not in ("", "Strict", "NonStrict"):
        raise ConventionError(f"{quoted(mode)} is no mode: write Strict or NonStrict", annotation_path(GANG_MODE))


def _check_policy(policy: str) -> None:
    """What counts towards the minimum: here members that wait and those that run do, until the gang has run once."""
    if policy not in ("", "once-satisfied", "waiting-and-running"):
        raise ConventionError(
            f"{quoted(policy)} is not supported: write once-satisfied or waiting-and-running",
            annotation_path(MATCH_POLICY),
        )


def _gangs(text: str, own: str) -> list[str]:
    """Return the gangs, as namespace/name, that are placed together with the pod's own, and this; sorted."""
    if not text:
        return [own]
    groups = decode_json(text, _GANGS_JSON, annotation_path(GANG_GROUPS), _NO_GANGS)
    if len(groups) > MOST_GANGS or not all(_GANG_PATTERN.fullmatch(group) for group in groups):
        raise ConventionError(_NO_GANGS, annotation_path(GANG_GROUPS))
    if own not in groups:
        raise ConventionError(f"must name the pod's own gang, {own}, too", annotation_path(GANG_GROUPS))
    return sorted(set(groups))


_YUNIKORN = "yunikorn.apache.org/"
TASK_GROUP_NAME = f"{_YUNIKORN}task-group-name"
TASK_GROUPS = f"{_YUNIKORN}task-groups"
PARAMETERS = f"{_YUNIKORN}schedulingPolicyParameters"
APPLICATION_IDS = (f"{_YUNIKORN}app-id", "applicationId")
QUEUES = (f"{_YUNIKORN}queue", "queue")
YUNIKORN_KEYS = (TASK_GROUP_NAME, TASK_GROUPS, PARAMETERS, *APPLICATION_IDS, *QUEUES)
"""All that is read."""
TIMEOUT_PARAMETER = "placeholderTimeoutInSeconds"
STYLE_PARAMETER = "gangSchedulingStyle"
_DEFAULT_TIMEOUT_SECONDS = 900
_NO_TASK_GROUPS = 'must be a JSON list such as [{"name": "workers", "minMember": 4}]'


class _TaskGroup(msgspec.Struct, frozen=True, rename="camel"):
    """A task group (yunikorn-k8shim, pkg/cache TaskGroup); where its pods can go is read as of any template."""

    name: str
    min_member: Any = None
    """A whole number; what else it may be is told by name."""
    min_resource: dict[str, str | int | float] | None = None
    labels: dict[str, str] | None = None
    node_selector: dict[str, str] | None = None
    tolerations: list[Any] | None = None
    affinity: dict[str, Any] | None = None
    topology_spread_constraints: list[Any] | None = None


_TASK_GROUPS_JSON: msgspec.json.Decoder[list[_TaskGroup]] = msgspec.json.Decoder(list[_TaskGroup])


def read_yunikorn(pod: Pod, settings: Conventions) -> GangMembership | None:  # noqa: ARG001  all conventions are read the same way
    """What the labels and annotations say; None for a pod that belongs to no application."""
    annotations = pod.metadata.annotations
    application = _first(pod, APPLICATION_IDS)
    if not application:
        return None
    queue = _first(pod, QUEUES).removeprefix("root.")
    claim = GangMembership(
        convention="yunikorn", namespace=pod.metadata.namespace, queue=existing_name(queue, label_path(QUEUES[0]))
    )
    task_group = part_name(annotations.get(TASK_GROUP_NAME, ""), annotation_path(TASK_GROUP_NAME))
    declared = annotations.get(TASK_GROUPS, "")
    if not task_group and not declared:
        return claim if queue else None
    groups = _task_groups(declared, annotation_path(TASK_GROUPS))
    parameters = dict(part.split("=", 1) for part in annotations.get(PARAMETERS, "").split() if "=" in part)
    timeout = whole_number(parameters, TIMEOUT_PARAMETER, annotation_path(PARAMETERS), least=1, most=MOST_SECONDS)
    return GangMembership(
        convention=claim.convention,
        namespace=claim.namespace,
        queue=claim.queue,
        group=object_name(application),
        role=task_group,
        roles=tuple((name, group.min_member) for name, group in groups.items()),
        templates={name: _template(group) for name, group in groups.items() if group.min_resource},
        style=_style(parameters) if groups else "",
        timeout_seconds=(timeout or _DEFAULT_TIMEOUT_SECONDS) if groups else None,
        implicit=True,
    )


def _first(pod: Pod, keys: tuple[str, ...]) -> str:
    """The first of the keys that is set, labels before annotations."""
    for texts in (pod.metadata.labels, pod.metadata.annotations):
        for key in keys:
            if texts.get(key):
                return texts[key]
    return ""


def _task_groups(text: str, where: str) -> dict[str, _TaskGroup]:
    """Return the task groups that an annotation declares, by name; none where there is no annotation."""
    groups = decode_json(text, _TASK_GROUPS_JSON, where, _NO_TASK_GROUPS) if text else []
    if len(groups) > MOST_GANGS:
        raise ConventionError(f"it declares {len(groups)} task groups: write at most {MOST_GANGS}", where)
    for group in groups:
        if not part_name(group.name, where):
            raise ConventionError(_NO_TASK_GROUPS, where)
        _check_size(group, where)
    if sum(group.min_member for group in groups) > MOST_MEMBERS:
        raise ConventionError(f"all minMember together must be at most {MOST_MEMBERS}", where)
    return {group.name: group for group in groups}


def _check_size(group: _TaskGroup, where: str) -> None:
    """Refuse a task group that has no size, or one that nothing has."""
    size = group.min_member
    if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= MOST_MEMBERS:
        text = f"minMember of {group.name!r} must be a whole number of at least 1 and at most {MOST_MEMBERS}"
        raise ConventionError(text, where)
    try:
        parse_requests(group.min_resource or {})
    except AmountError as error:
        raise ConventionError(f"minResource of {group.name!r}: {error}", where) from error


def _template(group: _TaskGroup) -> dict[str, Any]:
    """Return the pods that room is kept for, as a task group describes them."""
    said = {"nodeSelector": group.node_selector, "tolerations": group.tolerations, "affinity": group.affinity}
    said["topologySpreadConstraints"] = group.topology_spread_constraints
    spec = {name: value for name, value in said.items() if value is not None}
    container = {"name": "member", "resources": {"requests": group.min_resource}}
    return {"metadata": {"labels": group.labels or {}}, "spec": {**spec, "containers": [container]}}


def _style(parameters: Mapping[str, str]) -> str:
    style = parameters.get(STYLE_PARAMETER, "Soft")
    if style not in ("Soft", "Hard"):
        raise ConventionError(
            f"{quoted(style)} is no gangSchedulingStyle: write Soft or Hard", annotation_path(PARAMETERS)
        )
    return style
