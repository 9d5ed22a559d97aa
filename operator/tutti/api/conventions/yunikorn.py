"""Apache YuniKorn: an application id, a queue, and task groups as JSON on the pods of a gang.

An application is one gang with a role for each task group. Whichever of its pods carry the definitions tell them for
all; while none does, its pods are placed one by one. Room is kept in memory, so that no placeholder pods are made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from tutti.api.conventions.claim import Claim, ConventionError, annotation, existing_name, label, object_name, shown
from tutti.api.conventions.texts import MOST_GANGS, MOST_MEMBERS, MOST_SECONDS, decoded, integer, part_name
from tutti.api.resources import AmountError, amounts_from_zero

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tutti.api.configuration import Conventions
    from tutti.api.core import Pod

_PREFIX = "yunikorn.apache.org/"
TASK_GROUP_NAME = f"{_PREFIX}task-group-name"
TASK_GROUPS = f"{_PREFIX}task-groups"
PARAMETERS = f"{_PREFIX}schedulingPolicyParameters"
APPLICATION_IDS = (f"{_PREFIX}app-id", "applicationId")
QUEUES = (f"{_PREFIX}queue", "queue")
KEYS = (TASK_GROUP_NAME, TASK_GROUPS, PARAMETERS, *APPLICATION_IDS, *QUEUES)
"""All that is read."""
TIMEOUT = "placeholderTimeoutInSeconds"
STYLE = "gangSchedulingStyle"
_DEFAULT_TIMEOUT_SECONDS = 900
_RIGHT = 'must be a JSON list such as [{"name": "workers", "minMember": 4}]'


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


_TASK_GROUPS: msgspec.json.Decoder[list[_TaskGroup]] = msgspec.json.Decoder(list[_TaskGroup])


def read(pod: Pod, settings: Conventions) -> Claim | None:  # noqa: ARG001  all conventions are read the same way
    """What the labels and annotations say; None for a pod that belongs to no application."""
    annotations = pod.metadata.annotations
    application = _first(pod, APPLICATION_IDS)
    if not application:
        return None
    queue = _first(pod, QUEUES).removeprefix("root.")
    claim = Claim(convention="yunikorn", namespace=pod.metadata.namespace, queue=existing_name(queue, label(QUEUES[0])))
    task_group = part_name(annotations.get(TASK_GROUP_NAME, ""), annotation(TASK_GROUP_NAME))
    declared = annotations.get(TASK_GROUPS, "")
    if not task_group and not declared:
        return claim if queue else None
    groups = _task_groups(declared, annotation(TASK_GROUPS))
    parameters = dict(part.split("=", 1) for part in annotations.get(PARAMETERS, "").split() if "=" in part)
    timeout = integer(parameters, TIMEOUT, annotation(PARAMETERS), least=1, most=MOST_SECONDS)
    return Claim(
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
    groups = decoded(text, _TASK_GROUPS, where, _RIGHT) if text else []
    if len(groups) > MOST_GANGS:
        raise ConventionError(f"it declares {len(groups)} task groups: write at most {MOST_GANGS}", where)
    for group in groups:
        if not part_name(group.name, where):
            raise ConventionError(_RIGHT, where)
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
        amounts_from_zero(group.min_resource or {})
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
    style = parameters.get(STYLE, "Soft")
    if style not in ("Soft", "Hard"):
        raise ConventionError(f"{shown(style)} is no gangSchedulingStyle: write Soft or Hard", annotation(PARAMETERS))
    return style
