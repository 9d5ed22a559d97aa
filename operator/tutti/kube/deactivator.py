"""Sets a Workload inactive: the one write of ours to what users write."""

from __future__ import annotations

from http import HTTPStatus

import msgspec
import structlog

from tutti.kube.client import MERGE_PATCH, Client
from tutti.kube.errors import ApiError, WireError
from tutti.kube.fencing import Fence
from tutti.kube.lanes import Lane
from tutti.kube.resources import Resource
from tutti.kube.retry import retrying

log = structlog.get_logger(__name__)

GONE = 2**31 - 1
"""The generation told of an object that is no more, or is another one by now: every later one is past it."""


class _Metadata(msgspec.Struct):
    generation: int = 0


class _Answer(msgspec.Struct):
    metadata: _Metadata


class Deactivator:
    """Writes `spec.active: false`; repeating it is safe, for the uid is a precondition and the value is the same."""

    def __init__(self, client: Client, resource: Resource, *, fence: Fence) -> None:
        self._client = client
        self._resource = resource
        self._fence = fence

    async def deactivate(self, namespace: str, name: str, uid: str) -> int:
        """Set one object inactive.

        Returns:
            The generation that the object has then, `GONE` where it is no more, or 0 where it could not be written.

        Raises:
            LeadershipLost: Before anything, or anything more, was sent.
        """
        path = self._resource.path(namespace, name)
        body = msgspec.json.encode({"metadata": {"uid": uid}, "spec": {"active": False}})

        async def attempt() -> bytes:
            """Write once."""
            return await self._client.write(
                Lane.EVICT, "PATCH", path, body=body, fence=self._fence, content_type=MERGE_PATCH
            )

        try:
            answer = await retrying(attempt)
        except WireError as error:
            if isinstance(error, ApiError) and error.status in (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT):
                return GONE
            log.error("workload_not_deactivated", namespace=namespace, name=name, error=str(error))  # noqa: TRY400 - the reason is in the answer
            return 0
        log.info("workload_deactivated", namespace=namespace, name=name)
        return msgspec.json.decode(answer, type=_Answer).metadata.generation
