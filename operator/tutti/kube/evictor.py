"""Takes running members out, by deletion as kube-scheduler does with its victims; and sets Workloads inactive.

Who is moved leaves for the good of others only, and so by eviction: a PodDisruptionBudget that has no room refuses it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import Enum
from http import HTTPStatus
from typing import NamedTuple

import msgspec
import structlog

from tutti.api.conditions import timestamp
from tutti.engine.records.decisions import Deactivate, Evict
from tutti.engine.records.observations import Deactivated
from tutti.kube.client import JSON, MERGE_PATCH, STRATEGIC_MERGE_PATCH, Client
from tutti.kube.errors import ApiError, WireError, is_retryable
from tutti.kube.fencing import Confirm, Fence, unconfirmed
from tutti.kube.fetching import read_pod
from tutti.kube.flow_control import PriorityLevel
from tutti.kube.resources import PODS, APIResource
from tutti.kube.retry import Backoff, retrying, settling

log = structlog.get_logger(__name__)


class EvictOutcome(Enum):
    """What became of an eviction.

    LEAVING: accepted, the pod ends within its grace period. GONE: it, or the one with this uid, was no more. REFUSED:
    the server does not allow it. FAILED: not accepted, or not known to be, after all tries.
    """

    LEAVING = "leaving"
    GONE = "gone"
    REFUSED = "refused"
    FAILED = "failed"


class EvictResult(NamedTuple):
    """What became of an eviction; `message` explains anything but LEAVING to people."""

    outcome: EvictOutcome
    message: str = ""


class Evictor:
    """Evicts pods.

    The pod gets the condition DisruptionTarget first, which tells controllers that it did not fail by itself.
    """

    def __init__(
        self,
        client: Client,
        *,
        fence: Fence,
        confirm: Confirm = unconfirmed,
        tries: int = 5,
        backoff: Callable[[], Backoff] = Backoff,
    ) -> None:
        self._client = client
        self._fence = fence
        self._confirm = confirm
        self._tries = tries
        self._backoff = backoff

    async def evict(self, evict: Evict) -> EvictResult:
        """Evict one pod.

        Raises:
            LeadershipLost: Before anything, or anything more, was sent.
        """
        await self._mark(evict)
        result = await self._settle(evict)
        self._client.metrics.writes.labels("evict", result.outcome.value).inc()
        log.info(
            "pod_evicted" if result.outcome is EvictOutcome.LEAVING else "pod_not_evicted",
            namespace=evict.namespace,
            name=evict.name,
            reason=evict.reason,
            outcome=result.outcome.value,
            message=result.message,
        )
        return result

    async def _mark(self, evict: Evict) -> None:
        """Set DisruptionTarget; the eviction goes on without it where that fails."""
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": evict.reason,
            "message": evict.message,
            "lastTransitionTime": timestamp(time.time()),
        }
        patch = {"metadata": {"uid": evict.uid}, "status": {"conditions": [condition]}}
        try:
            path = PODS.path(evict.namespace, evict.name, "status")
            await self._write("PATCH", path, msgspec.json.encode(patch), STRATEGIC_MERGE_PATCH)
        except WireError as error:
            log.warning("victim_not_marked", namespace=evict.namespace, name=evict.name, error=str(error))

    async def _settle(self, evict: Evict) -> EvictResult:
        """Try until accepted or refused; repeating is safe, for the uid is a precondition."""

        async def send() -> EvictResult:
            await self._send(evict)
            return EvictResult(EvictOutcome.LEAVING)

        async def judge(error: WireError) -> EvictResult | None:
            outcome = await self._judge(evict, error)
            return None if outcome is None else EvictResult(outcome, str(error))

        try:
            return await settling(send, judge, tries=self._tries, backoff=self._backoff())
        except WireError as error:
            return EvictResult(EvictOutcome.FAILED, str(error))

    async def _send(self, evict: Evict) -> None:
        """Delete the pod, or have the API server evict it, which keeps its disruption budgets."""
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": evict.uid}}
        if evict.within_budgets:
            about = {"name": evict.name, "namespace": evict.namespace}
            eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": about, "deleteOptions": options}
            path = PODS.path(evict.namespace, evict.name, "eviction")
            body = msgspec.json.encode(eviction)
            await self._write("POST", path, body)
            return
        await self._write("DELETE", PODS.path(evict.namespace, evict.name), msgspec.json.encode(options))

    async def _write(self, method: str, path: str, body: bytes, content_type: str = JSON) -> None:
        """Send what takes a pod out, or says so, which only this process can know not to be wanted any more."""
        await self._client.write(
            PriorityLevel.EVICT,
            method,
            path,
            body=body,
            fence=self._fence,
            confirm=self._confirm,
            content_type=content_type,
        )

    async def _judge(self, evict: Evict, error: WireError) -> EvictOutcome | None:
        """Say what an error means; None where another try is in order."""
        if not isinstance(error, ApiError):
            return None
        if error.status == HTTPStatus.NOT_FOUND:
            return EvictOutcome.GONE
        if error.status == HTTPStatus.CONFLICT:
            return await self._look(evict)
        if evict.within_budgets and error.status == HTTPStatus.TOO_MANY_REQUESTS:
            return EvictOutcome.REFUSED  # a budget has no room for it; the engine asks again after a while
        return None if error.retryable else EvictOutcome.REFUSED

    async def _look(self, evict: Evict) -> EvictOutcome | None:
        """Tell another pod of the same name from a passing conflict."""
        try:
            pod = await read_pod(self._client, evict.namespace, evict.name, uid=evict.uid, tries=2)
        except WireError as unread:
            return None if is_retryable(unread) else EvictOutcome.FAILED
        return EvictOutcome.GONE if pod is None else None


PAST_ALL_GENERATIONS = 2**31 - 1
"""The generation told of an object that is no more, or is another one by now: every later one is past it."""


class _Metadata(msgspec.Struct):
    generation: int = 0


class _Answer(msgspec.Struct):
    metadata: _Metadata


class Deactivator:
    """Writes `spec.active: false`; repeating it is safe, for the uid is a precondition and the value is the same."""

    def __init__(self, client: Client, resource: APIResource, *, fence: Fence, confirm: Confirm = unconfirmed) -> None:
        self._client = client
        self._resource = resource
        self._fence = fence
        self._confirm = confirm

    async def deactivate(self, wanted: Deactivate) -> Deactivated:
        """Set one object inactive.

        Returns:
            The generation that it has then; `PAST_ALL_GENERATIONS` where it is no more, 0 where it was not written.

        Raises:
            LeadershipLost: Before anything, or anything more, was sent.
        """
        return Deactivated(wanted.namespace, wanted.name, wanted.uid, await self._generation(wanted))

    async def _generation(self, wanted: Deactivate) -> int:
        path = self._resource.path(wanted.namespace, wanted.name)
        body = msgspec.json.encode({"metadata": {"uid": wanted.uid}, "spec": {"active": False}})

        async def attempt() -> bytes:
            """Write once."""
            return await self._client.write(
                PriorityLevel.EVICT,
                "PATCH",
                path,
                body=body,
                fence=self._fence,
                confirm=self._confirm,
                content_type=MERGE_PATCH,
            )

        try:
            answer = await retrying(attempt)
        except WireError as error:
            if isinstance(error, ApiError) and error.status in (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT):
                return PAST_ALL_GENERATIONS
            log.error("workload_not_deactivated", namespace=wanted.namespace, name=wanted.name, error=str(error))  # noqa: TRY400 - the reason is in the answer
            return 0
        log.info("workload_deactivated", namespace=wanted.namespace, name=wanted.name)
        return msgspec.json.decode(answer, type=_Answer).metadata.generation
