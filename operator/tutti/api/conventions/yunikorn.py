"""Apache YuniKorn: an application id, a queue, and task groups as JSON on the pods of a gang.

Each task group is a gang of its own here. A pod that names a task group without carrying its definition is an ordinary
member of the queue, because the size of that gang stands on another pod. Placeholders are not needed and not made.
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
TIMEOUT = "placeholderTimeoutInSeconds"
_DEFAULT_TIMEOUT_SECONDS = 900


def read(pod: Pod, settings: Conventions) -> Claim | None:  # noqa: ARG001  all conventions are read the same way
    """What the labels and annotations say; None for a pod that belongs to no application."""
    annotations = pod.metadata.annotations
    application = _first(pod, APPLICATION_IDS)
    if not application:
        return None
    queue = _first(pod, QUEUES).removeprefix("root.")
    claim = Claim(convention="yunikorn", namespace=pod.metadata.namespace, queue=existing_name(queue, label(QUEUES[0])))
    task_group = annotations.get(TASK_GROUP_NAME, "")
    min_count = _min_member(annotations.get(TASK_GROUPS, ""), task_group) if task_group else None
    if min_count is None:
        return claim if queue else None
    return Claim(
        convention=claim.convention,
        namespace=claim.namespace,
        queue=claim.queue,
        group=object_name(f"{application}-{task_group}"),
        min_count=min_count,
        timeout_seconds=_timeout(annotations.get(PARAMETERS, "")),
        implicit=True,
    )


def _first(pod: Pod, keys: tuple[str, ...]) -> str:
    """The first of the keys that is set, labels before annotations."""
    for texts in (pod.metadata.labels, pod.metadata.annotations):
        for key in keys:
            if texts.get(key):
                return texts[key]
    return ""


def _min_member(text: str, task_group: str) -> int | None:
    """The size of a task group; None where its definition is not on this pod."""
    if not text:
        return None
    where = annotation(TASK_GROUPS)
    for group in _task_groups(text, where):
        if group.get("name") == task_group:
            size = group.get("minMember")
            if not isinstance(size, int) or isinstance(size, bool) or size < 1:
                raise ConventionError(f"minMember of {task_group!r} must be a whole number of at least 1", where)
            return size
    return None


def _task_groups(text: str, where: str) -> list[Mapping[str, Any]]:
    try:
        groups = json.loads(text)
    except ValueError as error:
        raise ConventionError(f"this is not JSON: {error}", where) from error
    if not isinstance(groups, list) or not all(isinstance(group, dict) for group in groups):
        raise ConventionError('must be a JSON list such as [{"name": "workers", "minMember": 4}]', where)
    return groups


def _timeout(text: str) -> int:
    """The timeout among `key=value` parameters that are separated by spaces."""
    parameters = dict(part.split("=", 1) for part in text.split() if "=" in part)
    return integer(parameters, TIMEOUT, annotation(PARAMETERS), least=1) or _DEFAULT_TIMEOUT_SECONDS
