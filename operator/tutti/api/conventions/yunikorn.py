"""Apache YuniKorn: an application id, a queue, and task groups as JSON on the pods of a gang.

An application is one gang with a role for each task group. Whichever of its pods carry the definitions tell them for
all; while none does, its pods are placed one by one. Room is kept in memory, so that no placeholder pods are made.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tutti.api.conventions.claim import Claim, ConventionError, annotation, existing_name, integer, label, object_name

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
_PLACING = ("nodeSelector", "tolerations", "affinity", "topologySpreadConstraints")
"""What of a task group decides where its pods can go."""


def read(pod: Pod, settings: Conventions) -> Claim | None:  # noqa: ARG001  all conventions are read the same way
    """What the labels and annotations say; None for a pod that belongs to no application."""
    annotations = pod.metadata.annotations
    application = _first(pod, APPLICATION_IDS)
    if not application:
        return None
    queue = _first(pod, QUEUES).removeprefix("root.")
    claim = Claim(convention="yunikorn", namespace=pod.metadata.namespace, queue=existing_name(queue, label(QUEUES[0])))
    task_group, declared = annotations.get(TASK_GROUP_NAME, ""), annotations.get(TASK_GROUPS, "")
    if not task_group and not declared:
        return claim if queue else None
    groups = _task_groups(declared, annotation(TASK_GROUPS))
    parameters = dict(part.split("=", 1) for part in annotations.get(PARAMETERS, "").split() if "=" in part)
    timeout = integer(parameters, TIMEOUT, annotation(PARAMETERS), least=1) or _DEFAULT_TIMEOUT_SECONDS
    return Claim(
        convention=claim.convention,
        namespace=claim.namespace,
        queue=claim.queue,
        group=object_name(application),
        role=task_group,
        roles=tuple((name, _min_member(group)) for name, group in groups.items()),
        templates={name: _template(group) for name, group in groups.items() if group.get("minResource")},
        style=_style(parameters) if groups else "",
        timeout_seconds=timeout if groups else None,
        implicit=True,
    )


def _first(pod: Pod, keys: tuple[str, ...]) -> str:
    """The first of the keys that is set, labels before annotations."""
    for texts in (pod.metadata.labels, pod.metadata.annotations):
        for key in keys:
            if texts.get(key):
                return texts[key]
    return ""


def _task_groups(text: str, where: str) -> dict[str, Mapping[str, Any]]:
    """Return the task groups that an annotation declares, by name; none where there is no annotation."""
    try:
        groups = json.loads(text) if text else []
    except ValueError as error:
        raise ConventionError(f"this is not JSON: {error}", where) from error
    if not isinstance(groups, list) or not all(isinstance(group, dict) and group.get("name") for group in groups):
        raise ConventionError('must be a JSON list such as [{"name": "workers", "minMember": 4}]', where)
    return {str(group["name"]): group for group in groups}


def _min_member(group: Mapping[str, Any]) -> int:
    size = group.get("minMember")
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        text = f"minMember of {group['name']!r} must be a whole number of at least 1"
        raise ConventionError(text, annotation(TASK_GROUPS))
    return size


def _template(group: Mapping[str, Any]) -> dict[str, Any]:
    """Return the pods that room is kept for, as a task group describes them."""
    spec = {name: group[name] for name in _PLACING if name in group}
    container = {"name": "member", "resources": {"requests": group["minResource"]}}
    return {"metadata": {"labels": group.get("labels") or {}}, "spec": {**spec, "containers": [container]}}


def _style(parameters: Mapping[str, str]) -> str:
    style = parameters.get(STYLE, "Soft")
    if style not in ("Soft", "Hard"):
        raise ConventionError(f"{style!r} is no gangSchedulingStyle: write Soft or Hard", annotation(PARAMETERS))
    return style
