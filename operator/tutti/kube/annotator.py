"""Writes annotations of pods: what keeps autoscalers from taking their nodes away, and takes it off again."""

from __future__ import annotations

import msgspec
import structlog

from tutti.engine.records.decisions import AnnotatePod
from tutti.engine.records.observations import PodAnnotated
from tutti.kube.client import MERGE_PATCH, Client
from tutti.kube.errors import ApiError, WireError
from tutti.kube.fencing import Fence
from tutti.kube.flow_control import PriorityLevel
from tutti.kube.resources import PODS
from tutti.kube.retry import retrying
from tutti.kube.statuses import is_no_more

log = structlog.get_logger(__name__)


class PodAnnotator:
    """Merges annotations; repeating it is safe, for the uid is a precondition and the values are the same."""

    def __init__(self, client: Client, *, fence: Fence) -> None:
        self._client = client
        self._fence = fence

    async def annotate(self, wanted: AnnotatePod) -> PodAnnotated:
        """Write the annotations of one pod; a pod that is gone needs none any more.

        Raises:
            LeadershipLost: Before anything, or anything more, was sent.
        """
        path = PODS.path(wanted.namespace, wanted.name)
        body = msgspec.json.encode({"metadata": {"uid": wanted.uid, "annotations": wanted.annotations}})

        async def attempt() -> bytes:
            """Write once."""
            return await self._client.write(
                PriorityLevel.STATUS, "PATCH", path, body=body, fence=self._fence, content_type=MERGE_PATCH
            )

        about = (wanted.namespace, wanted.name, wanted.uid)
        try:
            await retrying(attempt)
        except WireError as error:
            if isinstance(error, ApiError) and is_no_more(error):
                return PodAnnotated(*about, done=True)
            log.error("pod_not_annotated", namespace=wanted.namespace, name=wanted.name, error=str(error))  # noqa: TRY400 - the reason is in the answer
            return PodAnnotated(*about, done=False, message=str(error))
        return PodAnnotated(*about, done=True)
