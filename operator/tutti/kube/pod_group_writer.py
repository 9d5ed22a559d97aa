"""Creates PodGroups for what other frameworks call a gang, and deletes those that nobody needs any more."""

from __future__ import annotations

from typing import Any

import msgspec
import structlog

from tutti.api.model import API_VERSION
from tutti.engine.records.decisions import CreatePodGroup, DeletePodGroup
from tutti.engine.records.observations import PodGroupWritten
from tutti.kube.client import Client
from tutti.kube.errors import ApiError, WireError
from tutti.kube.fencing import Fence
from tutti.kube.flow_control import PriorityLevel
from tutti.kube.resources import APIResource
from tutti.kube.retry import retrying

log = structlog.get_logger(__name__)


class PodGroupWriter:
    """Creates and deletes PodGroups; that one is there, or gone, already is as good as having done it.

    Any other conflict is none of these: whether there is another of that name now will be observed.
    """

    def __init__(self, client: Client, pod_groups: APIResource, *, fence: Fence) -> None:
        self._client = client
        self._pod_groups = pod_groups
        self._fence = fence

    async def write(self, wanted: CreatePodGroup | DeletePodGroup) -> PodGroupWritten:
        """Create or delete one; whether that is so now is answered.

        Raises:
            LeadershipLost: Before anything, or anything more, was sent.
        """
        namespace, name = wanted.namespace, wanted.name
        if isinstance(wanted, CreatePodGroup):
            method, path, so_already = "POST", self._pod_groups.path(namespace), "AlreadyExists"
            body = msgspec.json.encode(_made(wanted))
        else:
            method, path, so_already = "DELETE", self._pod_groups.path(namespace, name), "NotFound"
            body = msgspec.json.encode(
                {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": wanted.uid}}
            )

        async def attempt() -> bytes:
            """Write once."""
            return await self._client.write(PriorityLevel.STATUS, method, path, body=body, fence=self._fence)

        try:
            await retrying(attempt)
        except WireError as error:
            if not (isinstance(error, ApiError) and error.reason == so_already):
                log.error("pod_group_not_written", method=method, namespace=namespace, name=name, error=str(error))  # noqa: TRY400 - the reason is in the answer
                return PodGroupWritten(namespace, name, done=False)
        return PodGroupWritten(namespace, name, done=True)


def _made(wanted: CreatePodGroup) -> dict[str, Any]:
    """Return the PodGroup that is to be created; none of its owners controls it."""
    return {
        "apiVersion": API_VERSION,
        "kind": "PodGroup",
        "metadata": {
            "name": wanted.name,
            "namespace": wanted.namespace,
            "labels": wanted.labels,
            "ownerReferences": [{**msgspec.to_builtins(owner), "controller": False} for owner in wanted.owners],
        },
        "spec": wanted.spec,
    }
