"""Starts and suspends objects that make pods: each write goes by the version of the object that it was worked out from.

What is written, and in which order, follows from the object as it is then: whoever finds it after a process that was
killed in between goes on where that one was. A Job lets its template be changed only while it has no start time, which
its controller leaves there when it is suspended (batch/v1, Kueue's integration clears it likewise, 0.20,
pkg/controller/jobs/job/job_controller.go).
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

import msgspec
import structlog

from tutti.api.framework_kind import FrameworkKind
from tutti.api.frameworks import KindTable
from tutti.api.frameworks.roles import placed_roles
from tutti.api.frameworks.starting import (
    StartError,
    has_start_time,
    restored,
    start_state,
    started,
    suspended,
)
from tutti.engine.records.decisions import StartOwner, SuspendOwner
from tutti.engine.records.observations import OwnerWritten
from tutti.kube.client import MERGE_PATCH, Client
from tutti.kube.errors import ApiError, WireError
from tutti.kube.fencing import Confirm, Fence, unconfirmed
from tutti.kube.fetching import fetch_object
from tutti.kube.flow_control import PriorityLevel
from tutti.kube.resources import APIResource
from tutti.kube.retry import retrying

log = structlog.get_logger(__name__)

_MOST_STEPS: Final = 8
"""Writes and conflicts of one start or suspension; a suspension takes three at most."""
_JOB: Final = ("batch", "Job")


class OwnerWriter:
    """Writes to objects of kinds that are started here.

    Args:
        client: Sends.
        kinds: What is known of kinds.
        fence: Asked before each write.
        confirm: Asks the server before each who leads: to suspend an object ends its pods.
    """

    def __init__(self, client: Client, kinds: KindTable, *, fence: Fence, confirm: Confirm = unconfirmed) -> None:
        self._client = client
        self._kinds = kinds
        self._fence = fence
        self._confirm = confirm

    async def write(self, wanted: StartOwner | SuspendOwner) -> OwnerWritten:
        """Start or suspend one object; one that is so already, or is gone, is left as it is.

        Raises:
            LeadershipLost: Before anything, or anything more, was sent.
        """
        what = "start" if isinstance(wanted, StartOwner) else "suspend"
        try:
            problem = await self._settle(wanted)
        except (WireError, StartError) as error:
            problem = _told(error, wanted)
        self._client.metrics.writes.labels(what, "failed" if problem else "done").inc()
        told = log.warning if problem else log.info
        told(f"owner_{what}", kind=wanted.kind, namespace=wanted.namespace, name=wanted.name, problem=problem)
        return OwnerWritten(wanted.uid, problem)

    async def _settle(self, wanted: StartOwner | SuspendOwner) -> str:
        """Write until nothing is left to be written; returns why that cannot be, or ""."""
        kind = self._kinds.get(wanted.group, wanted.kind)
        if kind is None:
            return f"kind {wanted.kind} is not known any more"
        path = APIResource(wanted.group, wanted.version, wanted.plural).path(wanted.namespace, wanted.name)
        for _ in range(_MOST_STEPS):
            raw = await self._read(path, wanted.uid)
            if raw is None:
                return "" if isinstance(wanted, SuspendOwner) else "it does not exist any more"
            try:
                if isinstance(wanted, StartOwner):
                    done = await self._start(path, raw, kind, wanted)
                else:
                    done = await self._suspend(path, raw, kind)
            except ApiError as error:
                if error.status != HTTPStatus.CONFLICT:
                    raise
                continue  # somebody else was faster: look at what they have written
            if done is not None:
                return done
        return "others write to it all the time"

    async def _start(self, path: str, raw: dict[str, Any], kind: FrameworkKind, wanted: StartOwner) -> str | None:
        state = start_state(raw, kind, wanted.version)
        assert state is not None  # such kinds alone are started
        if state.finished:
            return "it has ended"
        if not _is_suspended(raw, kind):
            return "" if state.started else "somebody else has started it"
        if state.generation != wanted.generation or state.started:
            return "it was changed meanwhile"
        templates = {one.role.name: one.template for one in placed_roles(raw, kind)[0]}
        # Patches that the server knows nothing of, and would drop, are to start nothing.
        strictly = "?fieldValidation=Strict" if kind.template_patches is not None else ""
        await self._patch(f"{path}{strictly}", started(raw, kind, templates, wanted.added, wanted.at))
        return ""

    async def _suspend(self, path: str, raw: dict[str, Any], kind: FrameworkKind) -> str | None:
        """Do the next step; returns "" after the last one, None where there are more."""
        state = start_state(raw, kind, "")
        if state is None or state.finished:
            return ""
        templates = {one.role.name: one.template for one in placed_roles(raw, kind)[0]}
        back = restored(raw, kind, templates)
        is_job = (kind.group, kind.kind) == _JOB
        if kind.template_patches is not None:
            if not _is_suspended(raw, kind):
                await self._patch(path, suspended(raw, kind))
            elif back is not None and not state.active:
                await self._patch(path, back)
            return ""  # its patches can be changed when nothing of it runs, which its status has to say first
        if not _is_suspended(raw, kind):
            await self._patch(path, suspended(raw, kind) if is_job or back is None else back)
            return None if is_job and back is not None else ""
        if back is None:
            return ""
        if is_job and has_start_time(raw):
            meta = {key: raw["metadata"][key] for key in ("uid", "resourceVersion")}
            await self._patch(f"{path}/status", {"metadata": meta, "status": {"startTime": None}})
            return None
        await self._patch(path, back)
        return ""

    async def _read(self, path: str, uid: str) -> dict[str, Any] | None:
        """Return the object as it is; None where it is gone, or is another one by now."""
        body = await fetch_object(self._client, path)
        raw: dict[str, Any] = {} if body is None else msgspec.json.decode(body)
        return raw if raw.get("metadata", {}).get("uid") == uid else None

    async def _patch(self, path: str, patch: dict[str, Any]) -> None:
        body = msgspec.json.encode(patch)

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

        await retrying(attempt)


def _is_suspended(raw: dict[str, Any], kind: FrameworkKind) -> bool:
    at: Any = raw
    for step in (kind.suspended or "").split("."):
        at = at.get(step) if isinstance(at, dict) else None
    return at is True


def _told(error: WireError | StartError, wanted: StartOwner | SuspendOwner) -> str:
    """Return what went wrong, in words for whoever waits."""
    if isinstance(error, ApiError) and error.status == HTTPStatus.FORBIDDEN:
        return f"{error}; the component suspend of the manifests lets the operator change {wanted.plural}"
    return str(error)
