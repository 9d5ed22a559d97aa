"""Makes and removes ProvisioningRequests with their PodTemplates.

The templates come first: an autoscaler answers for what a request names. All names follow from the request's, so a
write that was made already, by this process or by one that was killed, is found; what somebody else has put under such
a name is told, and nothing is asked for by it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any, Final

import msgspec
import structlog

from tutti.api.provisioning import (
    AUTOSCALING_GROUP,
    MOST_POD_SETS,
    REQUEST_VERSION,
    REQUESTS,
    WORKLOAD_LABEL,
    is_the_same,
    request_documents,
    same_placement,
    template_names,
)
from tutti.engine.records.decisions import CreateProvisioning, DeleteProvisioning
from tutti.engine.records.provisioning import ProvisioningWritten
from tutti.kube.client import Client
from tutti.kube.errors import ApiError, WireError
from tutti.kube.fencing import Fence
from tutti.kube.fetching import fetch_object
from tutti.kube.flow_control import PriorityLevel
from tutti.kube.resources import APIResource
from tutti.kube.retry import retrying

log = structlog.get_logger(__name__)

PROVISIONING_REQUESTS: Final = APIResource(AUTOSCALING_GROUP, REQUEST_VERSION, REQUESTS)
POD_TEMPLATES: Final = APIResource("", "v1", "podtemplates")

_IN_VAIN: Final = (HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY)


class ProvisioningWriter:
    """Writes requests and templates.

    Args:
        client: Sends.
        fence: Asked before each write.
        is_named: Waits until the status of a workload, given by kind, namespace, name and uid, is written, and returns
            whether it is. Nothing is made before that names it: else nobody would know, after this process was killed,
            that there are templates.
    """

    def __init__(
        self, client: Client, *, fence: Fence, is_named: Callable[[str, str, str, str], Awaitable[bool]]
    ) -> None:
        self._client = client
        self._fence = fence
        self._is_named = is_named

    async def write(self, wanted: CreateProvisioning | DeleteProvisioning) -> ProvisioningWritten:
        """Make or remove one request; what stands so already is as good as done.

        Raises:
            LeadershipLost: Before anything, or anything more, was sent.
        """
        what = "provision" if isinstance(wanted, CreateProvisioning) else "unprovision"
        problem, final = "", False
        try:
            if isinstance(wanted, CreateProvisioning):
                problem = await self._named_first(wanted)
                problem, final = (problem, False) if problem else await self._make(wanted)
            else:
                await self._remove(wanted)
        except WireError as error:
            problem = _told(error)
        self._client.metrics.writes.labels(what, "failed" if problem else "done").inc()
        told = log.warning if problem else log.info
        told("provisioning_request", write=what, namespace=wanted.namespace, name=wanted.name, problem=problem)
        if isinstance(wanted, CreateProvisioning):
            return ProvisioningWritten(wanted.namespace, wanted.name, wanted.owner[:2], problem=problem, final=final)
        return ProvisioningWritten(wanted.namespace, wanted.name, uid=wanted.uid, problem=problem)

    async def _named_first(self, wanted: CreateProvisioning) -> str:
        """Wait until the status of its workload is written; returns why nothing may be made yet, or ""."""
        kind, name, uid = wanted.owner
        if await self._is_named(kind, wanted.namespace, name, uid):
            return ""
        return f"the status of {kind} {name}, which has to name it first, could not be written yet"

    async def _make(self, wanted: CreateProvisioning) -> tuple[str, bool]:
        """Make the templates and then the request; returns why not, or "", and whether another try would be in vain.

        Where it would, the templates are removed that nothing asks for then.
        """
        try:
            problem = await self._make_all(wanted)
            final = bool(problem)
        except ApiError as error:
            if error.status not in _IN_VAIN:
                raise
            problem, final = _told(error), True
        if final:
            try:
                await self._remove_templates(wanted.namespace, wanted.name, wanted.owner[2])
            except WireError as error:  # they go with the workload; what it is to be told is what is wrong with it
                log.warning(
                    "provisioning_templates_left", namespace=wanted.namespace, name=wanted.name, problem=_told(error)
                )
        return problem, final

    async def _make_all(self, wanted: CreateProvisioning) -> str:
        """Make the templates and then the request; returns whose name is taken, or ""."""
        templates, request = request_documents(
            wanted.namespace,
            wanted.name,
            wanted.owner,
            class_name=wanted.class_name,
            parameters=wanted.parameters,
            pods=wanted.pods,
        )
        for document, pods in zip(templates, wanted.pods, strict=True):
            there = await self._create(POD_TEMPLATES, document)
            if there is not None and not same_placement(there, pods):
                return f"PodTemplate {document['metadata']['name']} is there, and asks for other nodes: delete it"
        there = await self._create(PROVISIONING_REQUESTS, request)
        if there is not None and not is_the_same(there, request):
            return f"ProvisioningRequest {wanted.name} is there, and somebody else has made it: delete it"
        return ""

    async def _create(self, resource: APIResource, document: Mapping[str, Any]) -> dict[str, Any] | None:
        """Make an object; returns the one of its name that is there instead, None where it was made."""
        meta, body = document["metadata"], msgspec.json.encode(document)

        async def attempt() -> bytes:
            path = resource.path(meta["namespace"])
            return await self._client.write(PriorityLevel.STATUS, "POST", path, body=body, fence=self._fence)

        async def read() -> bytes:
            return await self._client.request("GET", resource.path(meta["namespace"], meta["name"]))

        try:
            await retrying(attempt)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
            found: dict[str, Any] = msgspec.json.decode(await retrying(read))
            return found
        return None

    async def _remove(self, wanted: DeleteProvisioning) -> None:
        """Remove the request, and then its templates; what is gone already is none of our business."""
        if not wanted.uid:
            await self._remove_templates(wanted.namespace, wanted.name, wanted.workload)
            return
        found = await self._delete(PROVISIONING_REQUESTS, wanted.namespace, wanted.name, wanted.uid)
        if found is not HTTPStatus.CONFLICT:  # else the templates are those of another request, which has the name now
            await self._remove_templates(wanted.namespace, wanted.name)

    async def _remove_templates(self, namespace: str, request: str, owner: str = "") -> None:
        """Remove the templates that were made here for a request, for a workload's uid if given.

        They are numbered without a gap, and the last one goes first: so whoever is interrupted leaves no gap either.
        """
        uids: dict[str, str] = {}
        for name in template_names(request, MOST_POD_SETS):
            there = await self._read(POD_TEMPLATES, namespace, name)
            if there is None:
                break
            workload = _made_for(there)
            if workload and owner in ("", workload):
                uids[name] = there["metadata"]["uid"]
        for name in reversed(uids):
            await self._delete(POD_TEMPLATES, namespace, name, uids[name])

    async def _read(self, resource: APIResource, namespace: str, name: str) -> dict[str, Any] | None:
        """Return an object; None where there is none."""
        body = await fetch_object(self._client, resource.path(namespace, name))
        found: dict[str, Any] | None = None if body is None else msgspec.json.decode(body)
        return found

    async def _delete(self, resource: APIResource, namespace: str, name: str, uid: str) -> HTTPStatus:
        """Delete an object; returns OK, NOT_FOUND, or CONFLICT where another has the name."""
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}}
        body = msgspec.json.encode(options)

        async def attempt() -> bytes:
            path = resource.path(namespace, name)
            return await self._client.write(PriorityLevel.STATUS, "DELETE", path, body=body, fence=self._fence)

        try:
            await retrying(attempt)
        except ApiError as error:
            if error.status in (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT):
                return HTTPStatus(error.status)
            raise
        return HTTPStatus.OK


def _made_for(template: Mapping[str, Any]) -> str:
    """Return the uid of the workload for which a template was made here; "" where somebody else has made it."""
    meta = template["metadata"]
    uid: str = (meta.get("labels") or {}).get(WORKLOAD_LABEL, "")
    return uid if any(one["uid"] == uid for one in meta.get("ownerReferences") or ()) else ""


def _told(error: WireError) -> str:
    """Return what went wrong, in words for whoever waits."""
    if isinstance(error, ApiError) and error.status == HTTPStatus.FORBIDDEN:
        return f"{error}; the component provisioning-requests of the manifests lets the operator make them"
    return str(error)
