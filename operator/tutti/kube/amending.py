"""Gives pods the labels and tolerations that admission checks add, before they are bound.

What a pod has already stays as it is: a label that has another value is told, and nothing is written. The pod is read
and written under its resourceVersion, so that what others write meanwhile is not undone; the API server takes more
tolerations of a pod that exists, and no fewer (kube-apiserver 1.36, pkg/apis/core/validation, ValidatePodUpdate).
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

import msgspec

from tutti.engine.records.decisions import Bind
from tutti.kube.client import MERGE_PATCH, Client
from tutti.kube.errors import ApiError
from tutti.kube.fencing import Fence
from tutti.kube.flow_control import PriorityLevel
from tutti.kube.resources import PODS

_TRIES: Final = 5
GONE: Final = "the pod is no more"


async def amend_pod(client: Client, bind: Bind, *, fence: Fence) -> str:
    """Give a pod what is to be added to it before it is bound.

    Returns:
        Why it cannot be; "" where it is done.

    Raises:
        WireError: It could not be read or written.
        LeadershipLost: Before anything, or anything more, was sent.
    """
    path = PODS.path(bind.namespace, bind.name)
    for last in [False] * (_TRIES - 1) + [True]:
        try:
            pod = msgspec.json.decode(await client.request("GET", path))
        except ApiError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return GONE
            raise
        if pod["metadata"].get("uid") != bind.uid:
            return GONE
        patch, wrong = amendment(pod, bind)
        if wrong or not patch:
            return wrong
        try:
            await client.write(
                PriorityLevel.BIND,
                "PATCH",
                path,
                body=msgspec.json.encode(patch),
                fence=fence,
                content_type=MERGE_PATCH,
            )
        except ApiError as error:
            if error.status == HTTPStatus.FORBIDDEN:
                what = "pods cannot be given what admission checks add to them (manifests/components/admission-checks)"
                return f"{what}: {error}"
            if error.status != HTTPStatus.CONFLICT or last:
                raise
        else:
            return ""
    raise AssertionError("the last try returns or raises")


def amendment(pod: Mapping[str, Any], bind: Bind) -> tuple[dict[str, Any], str]:
    """Return the merge patch that gives a pod what it lacks, empty where it lacks nothing; or else why it must not be.

    Args:
        pod: As the API server has it.
        bind: What it is to have.
    """
    meta = pod["metadata"]
    has = meta.get("labels") or {}
    for key, value in bind.labels.items():
        if has.get(key, value) != value:
            return {}, f"an admission check adds label {key}={value}, and the pod has {key}={has[key]} already"
    patch: dict[str, Any] = {}
    missing = {key: value for key, value in bind.labels.items() if key not in has}
    there = (pod.get("spec") or {}).get("tolerations") or []
    wanted = [msgspec.to_builtins(one) for one in bind.tolerations]
    more = [one for one in wanted if one not in there]
    if more:
        patch["spec"] = {"tolerations": [*there, *more]}
    if missing or more:
        patch["metadata"] = {"resourceVersion": meta.get("resourceVersion", "")} | (
            {"labels": missing} if missing else {}
        )
    return patch, ""
