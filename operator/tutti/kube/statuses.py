"""Writes statuses: the latest wish for each object wins, and what is already there is not written again.

Each object's status has one wanted value at a time. While one is being written, or waits for its turn, newer values
replace each other, so that however often an object changes its mind the server sees at most one write of it per
`spacing_seconds`. Writing is blind (a merge patch): one process writes a status, the leader; one that has been the
leader before is refused by the object itself, which knows under which lease it was written (`fencing.py`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from http import HTTPStatus
from typing import Any, Final

import msgspec
import structlog

from tutti.api.conditions import timestamp
from tutti.api.model import GROUP
from tutti.kube.client import MERGE_PATCH, STRATEGIC_MERGE_PATCH, Client
from tutti.kube.errors import ApiError, WireError, is_retryable, retry_after
from tutti.kube.fencing import Fence, LeadershipLost, LeaseTerm, no_term
from tutti.kube.flow_control import PriorityLevel
from tutti.kube.resources import PODS, APIResource
from tutti.kube.retry import Backoff

log = structlog.get_logger(__name__)

_DIGEST_BYTES: Final = 16
_UID: Final = "metadata.uid"
"""The field that the server names where a patch of a pod is meant for another of that name (422, apiserver 1.36)."""
_NOMINATED: Final = "status.nominatedNodeName"
"""The field that it names where a node is nominated for a pod that is bound by now."""
_WITHOUT_RIGHTS: Final = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})
_MOST_WITHOUT_RIGHTS: Final = 8
"""How often what is refused for want of rights is tried, in a minute or so. A kube-apiserver that has just started has
not read the rights yet, and refuses everything for a second (measured, 1.36): what it refuses then must not be lost."""


@dataclass(frozen=True, slots=True)
class StatusTarget:
    """The object a status belongs to; with a uid, never another object of the same name."""

    resource: APIResource
    namespace: str
    name: str
    uid: str = ""


@dataclass(frozen=True, slots=True)
class PodConditionUpdate:
    """A condition of a pod, as scheduling decides it; `since` is only written, never compared."""

    type: str
    status: str
    reason: str
    message: str
    observed_generation: int = 0
    since: str = ""

    def as_patch(self) -> dict[str, Any]:
        """Return it as an entry of `status.conditions`, which the server merges by type."""
        fields: dict[str, Any] = {
            "type": self.type,
            "status": self.status,
            "reason": self.reason,
            "message": self.message,
        }
        if self.observed_generation:
            fields["observedGeneration"] = self.observed_generation
        return {**fields, "lastTransitionTime": self.since or timestamp(time.time())}


@dataclass(frozen=True, slots=True)
class _Write:
    """A wanted value: the patch, and what tells it from others."""

    body: bytes
    content_type: str
    digest: bytes


@dataclass(slots=True)
class _Slot:
    """What is known and wanted of one status."""

    backoff: Backoff
    wanted: _Write | None = None
    written: bytes = b""
    written_at: float = float("-inf")
    waiting: asyncio.TimerHandle | None = None
    busy: bool = False  # queued, or being written
    once: bool = False  # nothing of it need be known once it is written


_Key = tuple[StatusTarget, str]  # the part of the status is a condition's type for pods, empty for everything else


class StatusWriter:
    """Takes wishes without blocking, and writes them with `concurrency` requests in flight while `run` runs."""

    def __init__(
        self,
        client: Client,
        *,
        fence: Fence,
        term: Callable[[], LeaseTerm | None] = no_term,
        concurrency: int = 8,
        spacing_seconds: float = 1.0,
        backoff: Callable[[], Backoff] = lambda: Backoff(first=0.5),
    ) -> None:
        self._client = client
        self._fence = fence
        self._term = term
        self._concurrency = concurrency
        self._spacing_seconds = spacing_seconds
        self._backoff = backoff
        self._slots: dict[_Key, _Slot] = {}
        self._queue: asyncio.Queue[tuple[_Key, _Slot]] = asyncio.Queue()
        self._unfinished: set[_Key] = set()
        self._finished = asyncio.Event()
        self._finished.set()
        self._hurry = False
        self._awaited: dict[_Key, asyncio.Event] = {}

    def put(self, target: StatusTarget, status: Mapping[str, Any]) -> None:
        """Want these fields in the object's status; fields not named are left alone (merge patch, RFC 7386)."""
        term = self._term() if target.resource.group == GROUP else None
        recorded = {**status, "fence": term} if term is not None else status
        told = msgspec.json.encode(recorded, order="deterministic")
        body = msgspec.json.encode({**_precondition(target), "status": msgspec.Raw(told)})
        self._want((target, ""), _Write(body, MERGE_PATCH, _digest(told)))

    def put_pod_condition(
        self,
        namespace: str,
        name: str,
        uid: str,
        *,
        verdict: PodConditionUpdate,
        nominated_node: str | None = None,
        once: bool = False,
    ) -> None:
        """Want this condition on the pod, merged by type; a nominated node of "" clears it, None leaves it alone.

        One that is wanted `once` is remembered until it is written, and not as long as the pod exists.
        """
        target = StatusTarget(PODS, namespace, name, uid)
        status: dict[str, Any] = {"conditions": [verdict.as_patch()]}
        if nominated_node is not None:
            status["nominatedNodeName"] = nominated_node or None
        body = msgspec.json.encode({**_precondition(target), "status": status})
        digest = _condition_digest(verdict, nominated_node)
        key = target, verdict.type
        self._want(key, _Write(body, STRATEGIC_MERGE_PATCH, digest))
        self._slots[key].once = once

    def forget(self, target: StatusTarget, *, parts: Sequence[str] = ("",)) -> None:
        """Drop what is known and wanted of an object that is gone; `parts` are its condition types."""
        for part in parts:
            slot = self._slots.pop((target, part), None)
            if slot is not None:
                slot.wanted = None
                self._settle((target, part), slot)

    async def settled(self, target: StatusTarget, *, within_seconds: float) -> bool:
        """Wait until nothing is left to write of an object's status; returns whether that was so in time."""
        key = target, ""
        if key not in self._unfinished:
            return True
        awaited = self._awaited.setdefault(key, asyncio.Event())
        try:
            async with asyncio.timeout(within_seconds):
                await awaited.wait()
        except TimeoutError:
            return False
        return True

    async def run(self) -> None:
        """Write until cancelled.

        Raises:
            ExceptionGroup: With LeadershipLost, where this process may not write any more.
        """
        async with asyncio.TaskGroup() as group:
            for _ in range(self._concurrency):
                group.create_task(self._work())

    async def flush(self, *, within_seconds: float = 5.0) -> int:
        """Write what is wanted without further spacing; return how much is left unwritten. `run` must still run."""
        self._hurry = True
        for key in list(self._unfinished):
            slot = self._slots[key]
            if slot.waiting is not None:
                slot.waiting.cancel()
                slot.waiting = None
                self._enqueue(key, slot)
        try:
            async with asyncio.timeout(within_seconds):
                await self._finished.wait()
        except TimeoutError:
            log.warning("statuses_not_flushed", left=len(self._unfinished))
        finally:
            self._hurry = False
        return len(self._unfinished)

    def _want(self, key: _Key, write: _Write) -> None:
        """Make this the wanted value, unless it is what is there already."""
        slot = self._slots.get(key)
        if slot is None:
            slot = self._slots[key] = _Slot(self._backoff())
        if not slot.busy and write.digest == slot.written:
            slot.wanted = None
            self._settle(key, slot)
            return
        slot.wanted = write
        self._unfinished.add(key)
        self._finished.clear()
        self._schedule(key, slot, 0.0)

    def _schedule(self, key: _Key, slot: _Slot, delay: float) -> None:
        """Queue the object when its turn comes, unless that is already arranged."""
        if slot.busy or slot.waiting is not None:
            return
        loop = asyncio.get_running_loop()
        spacing = 0.0 if self._hurry else slot.written_at + self._spacing_seconds - loop.time()
        if max(delay, spacing) > 0:
            slot.waiting = loop.call_later(max(delay, spacing), self._enqueue, key, slot)
        else:
            self._enqueue(key, slot)

    def _enqueue(self, key: _Key, slot: _Slot) -> None:
        """Hand the object to the writers."""
        slot.waiting = None
        slot.busy = True
        self._queue.put_nowait((key, slot))

    def _settle(self, key: _Key, slot: _Slot) -> None:
        """Mark the object as having nothing left to write."""
        if slot.waiting is not None:
            slot.waiting.cancel()
            slot.waiting = None
        self._unfinished.discard(key)
        awaited = self._awaited.pop(key, None)
        if awaited is not None:
            awaited.set()
        if not self._unfinished:
            self._finished.set()

    async def _work(self) -> None:
        """Write one object after another."""
        while True:
            key, slot = await self._queue.get()
            if self._slots.get(key) is slot:
                await self._write(key, slot)

    async def _write(self, key: _Key, slot: _Slot) -> None:
        """Write the newest wanted value, and arrange what follows."""
        write, slot.wanted = slot.wanted, None
        delay = 0.0
        if write is not None and write.digest != slot.written:
            delay = await self._send(key, slot, write)
        slot.busy = False
        if self._slots.get(key) is not slot:
            return
        if slot.wanted is not None:
            self._schedule(key, slot, delay)
            return
        self._settle(key, slot)
        if slot.once:
            del self._slots[key]

    async def _send(self, key: _Key, slot: _Slot, write: _Write) -> float:
        """Send one patch; return the seconds to wait before the next try of this object."""
        target, _ = key
        try:
            await self._client.write(
                PriorityLevel.STATUS,
                "PATCH",
                _status_path(target),
                body=write.body,
                fence=self._fence,
                content_type=write.content_type,
            )
        except WireError as error:
            return self._after_error(target, slot, write, error)
        except LeadershipLost:
            raise
        except Exception:
            slot.written = b""
            self._count("raised")
            log.exception(
                "status_not_written", resource=target.resource.label, namespace=target.namespace, name=target.name
            )
            return 0.0
        slot.written = write.digest
        slot.written_at = asyncio.get_running_loop().time()
        slot.backoff.reset()
        self._count("written")
        return 0.0

    def _after_error(self, target: StatusTarget, slot: _Slot, write: _Write, error: WireError) -> float:
        """Keep the value for another try where that may help; drop it where the object is gone or refuses it.

        A conflict says that others were faster each time the server tried: it passes, and ends with the object at last.
        """
        slot.written = b""
        if is_retryable(error) or (isinstance(error, ApiError) and _may_pass(error, slot.backoff.failures)):
            self._count("retried")
            if slot.wanted is None:
                slot.wanted = write
            return slot.backoff.next(retry_after(error))
        slot.backoff.reset()  # what is wanted next has as many tries
        gone = isinstance(error, ApiError) and (is_no_more(error) or _is_bound_by_now(error))
        self._count("gone" if gone else "refused")
        say = log.debug if gone else log.error
        say(
            "status_not_written",
            resource=target.resource.label,
            namespace=target.namespace,
            name=target.name,
            error=str(error),
        )
        return 0.0

    def _count(self, outcome: str) -> None:
        """Count a write by outcome."""
        self._client.metrics.writes.labels("status", outcome).inc()


def _may_pass(error: ApiError, failures: int) -> bool:
    """Whether a refusal may be another one later, after so many failures."""
    without_rights = error.status in _WITHOUT_RIGHTS and failures < _MOST_WITHOUT_RIGHTS
    return error.status == HTTPStatus.CONFLICT or without_rights


def _status_path(target: StatusTarget) -> str:
    """Return where a status is written: Volcano's kinds have no subresource for it (ed72c7c8, config/crd)."""
    subresource = None if target.resource.group == "scheduling.volcano.sh" else "status"
    return target.resource.path(target.namespace, target.name, subresource)


def is_no_more(error: ApiError) -> bool:
    """Whether there is no such object, or another of that name."""
    causes = error.details.causes or ()
    return error.status == HTTPStatus.NOT_FOUND or any(cause.field == _UID for cause in causes)


def _is_bound_by_now(error: ApiError) -> bool:
    """Whether a node was to be named for a pod that has been bound while that was on its way (1.36, pod validation)."""
    return any(cause.field == _NOMINATED for cause in error.details.causes or ())


def _precondition(target: StatusTarget) -> dict[str, Any]:
    """Return the metadata that keeps a patch off another object of the same name."""
    return {"metadata": {"uid": target.uid}} if target.uid else {}


def _digest(told: bytes) -> bytes:
    """Return a short fingerprint of a JSON text."""
    return blake2b(told, digest_size=_DIGEST_BYTES).digest()


def _condition_digest(verdict: PodConditionUpdate, nominated_node: str | None) -> bytes:
    """Return the fingerprint of a condition without its time."""
    fields = (verdict.type, verdict.status, verdict.reason, verdict.message, verdict.observed_generation)
    return _digest(msgspec.json.encode((*fields, nominated_node)))
