"""Takes running members out, by deletion as kube-scheduler does with its victims; and sets Workloads inactive."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from http import HTTPStatus
from typing import Any

import msgspec
import structlog

from tutti.kube.client import MERGE_PATCH, STRATEGIC_MERGE_PATCH, Client
from tutti.kube.errors import DISRUPTION_BUDGET, ApiError, WireError, is_retryable, retry_after
from tutti.kube.fencing import Fence
from tutti.kube.fetching import read_pod
from tutti.kube.flow_control import PriorityLevel
from tutti.kube.resources import PODS, APIResource
from tutti.kube.retry import Backoff, retrying, settling
from tutti.kube.timestamps import now, second_time

log = structlog.get_logger(__name__)


class EvictOutcome(Enum):
    """What became of an eviction.

    LEAVING: accepted, the pod ends within its grace period. GONE: it, or the one with this uid, was no more. BLOCKED: a
    disruption budget forbids it for now. REFUSED: the server does not allow it. FAILED: not accepted, or not known to
    be, after all tries.
    """

    LEAVING = "leaving"
    GONE = "gone"
    BLOCKED = "blocked"
    REFUSED = "refused"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Eviction:
    """Which pod is to leave, and why; `polite` asks the disruption budgets, `grace_seconds` None is the pod's own."""

    namespace: str
    name: str
    uid: str
    reason: str = "PreemptionByScheduler"
    message: str = ""
    grace_seconds: int | None = None
    polite: bool = False


@dataclass(frozen=True, slots=True)
class EvictResult:
    """What became of an eviction; `retry_after` is set where a budget says when to ask again."""

    namespace: str
    name: str
    uid: str
    outcome: EvictOutcome
    message: str = ""
    retry_after: float | None = None


class Evictor:
    """Evicts pods.

    The pod gets the condition DisruptionTarget first, which tells controllers that it did not fail by itself.
    """

    def __init__(
        self,
        client: Client,
        *,
        fence: Fence,
        tries: int = 5,
        backoff: Callable[[], Backoff] = Backoff,
    ) -> None:
        self._client = client
        self._fence = fence
        self._tries = tries
        self._backoff = backoff

    async def evict(self, eviction: Eviction) -> EvictResult:
        """Evict one pod.

        Raises:
            LeadershipLost: Before anything, or anything more, was sent.
        """
        if not eviction.polite:  # the Eviction API sets the condition itself
            await self._mark(eviction)
        result = await self._settle(eviction)
        self._client.metrics.writes.labels("evict", result.outcome.value).inc()
        log.info(
            "pod_evicted" if result.outcome is EvictOutcome.LEAVING else "pod_not_evicted",
            namespace=eviction.namespace,
            name=eviction.name,
            reason=eviction.reason,
            outcome=result.outcome.value,
            message=result.message,
        )
        return result

    async def _mark(self, eviction: Eviction) -> None:
        """Set DisruptionTarget; the eviction goes on without it where that fails."""
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": eviction.reason,
            "message": eviction.message,
            "lastTransitionTime": second_time(now()),
        }
        patch = {"metadata": {"uid": eviction.uid}, "status": {"conditions": [condition]}}
        try:
            await self._client.write(
                PriorityLevel.EVICT,
                "PATCH",
                PODS.path(eviction.namespace, eviction.name, "status"),
                body=msgspec.json.encode(patch),
                content_type=STRATEGIC_MERGE_PATCH,
                fence=self._fence,
            )
        except WireError as error:
            log.warning("victim_not_marked", namespace=eviction.namespace, name=eviction.name, error=str(error))

    async def _settle(self, eviction: Eviction) -> EvictResult:
        """Try until accepted or refused; repeating is safe, for the uid is a precondition."""

        async def send() -> EvictResult:
            await self._send(eviction)
            return EvictResult(eviction.namespace, eviction.name, eviction.uid, EvictOutcome.LEAVING)

        async def judge(error: WireError) -> EvictResult | None:
            verdict = await self._judge(eviction, error)
            return None if verdict is None else _result(eviction, verdict, error)

        try:
            return await settling(send, judge, tries=self._tries, backoff=self._backoff())
        except WireError as error:
            return _result(eviction, EvictOutcome.FAILED, error)

    async def _send(self, eviction: Eviction) -> None:
        """Delete the pod, or ask the Eviction API to."""
        options: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": eviction.uid},
        }
        if eviction.grace_seconds is not None:
            options["gracePeriodSeconds"] = eviction.grace_seconds
        if not eviction.polite:
            path = PODS.path(eviction.namespace, eviction.name)
            await self._client.write(
                PriorityLevel.EVICT, "DELETE", path, body=msgspec.json.encode(options), fence=self._fence
            )
            return
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": eviction.name, "namespace": eviction.namespace},
            "deleteOptions": options,
        }
        path = PODS.path(eviction.namespace, eviction.name, "eviction")
        await self._client.write(PriorityLevel.EVICT, "POST", path, body=msgspec.json.encode(body), fence=self._fence)

    async def _judge(self, eviction: Eviction, error: WireError) -> EvictOutcome | None:
        """Say what an error means; None where another try is in order."""
        if not isinstance(error, ApiError):
            return None
        if error.status == HTTPStatus.NOT_FOUND:
            return EvictOutcome.GONE
        if any(cause.reason == DISRUPTION_BUDGET for cause in error.details.causes or ()):
            return EvictOutcome.BLOCKED
        if error.status == HTTPStatus.CONFLICT:
            return await self._look(eviction)
        return None if error.retryable else EvictOutcome.REFUSED

    async def _look(self, eviction: Eviction) -> EvictOutcome | None:
        """Tell another pod of the same name from a passing conflict, which evictions have on their budget."""
        try:
            pod = await read_pod(self._client, eviction.namespace, eviction.name, uid=eviction.uid, tries=2)
        except WireError as unread:
            return None if is_retryable(unread) else EvictOutcome.FAILED
        return EvictOutcome.GONE if pod is None else None


def _result(eviction: Eviction, outcome: EvictOutcome, error: WireError) -> EvictResult:
    """Record an outcome together with the error it was learnt from."""
    wait = retry_after(error) if outcome is EvictOutcome.BLOCKED else None
    return EvictResult(eviction.namespace, eviction.name, eviction.uid, outcome, str(error), wait)


PAST_ALL_GENERATIONS = 2**31 - 1
"""The generation told of an object that is no more, or is another one by now: every later one is past it."""


class _Metadata(msgspec.Struct):
    generation: int = 0


class _Answer(msgspec.Struct):
    metadata: _Metadata


class Deactivator:
    """Writes `spec.active: false`; repeating it is safe, for the uid is a precondition and the value is the same."""

    def __init__(self, client: Client, resource: APIResource, *, fence: Fence) -> None:
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
                PriorityLevel.EVICT, "PATCH", path, body=body, fence=self._fence, content_type=MERGE_PATCH
            )

        try:
            answer = await retrying(attempt)
        except WireError as error:
            if isinstance(error, ApiError) and error.status in (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT):
                return PAST_ALL_GENERATIONS
            log.error("workload_not_deactivated", namespace=namespace, name=name, error=str(error))  # noqa: TRY400 - the reason is in the answer
            return 0
        log.info("workload_deactivated", namespace=namespace, name=name)
        return msgspec.json.decode(answer, type=_Answer).metadata.generation
