"""Makes and removes ProvisioningRequests with their PodTemplates.

The templates come first: an autoscaler answers for what a request names. All names follow from the request's, so a
write that was made already, by this process or by one that was killed, is found; what somebody else has put under such
a name is told, and nothing is asked for by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

import msgspec
import structlog

from tutti.api.provisioning import (
    AUTOSCALING_GROUP,
    MOST_POD_SETS,
    REQUEST_VERSION,
    REQUESTS,
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
    """

    def __init__(self, client: Client, *, fence: Fence) -> None:
        self._client = client
        self._fence = fence

    async def write(self, wanted: CreateProvisioning | DeleteProvisioning) -> ProvisioningWritten:
        """Make or remove one request; what stands so already is as good as done.

        Raises:
            LeadershipLost: Before anything, or anything more, was sent.
        """
        what, final = "provision" if isinstance(wanted, CreateProvisioning) else "unprovision", False
        try:
            if isinstance(wanted, CreateProvisioning):
                problem = await self._make(wanted)
                final = bool(problem)
            else:
                problem = await self._remove(wanted)
        except WireError as error:
            problem, final = _told(error), isinstance(error, ApiError) and error.status in _IN_VAIN
        self._client.metrics.writes.labels(what, "failed" if problem else "done").inc()
        told = log.warning if problem else log.info
        told("provisioning_request", write=what, namespace=wanted.namespace, name=wanted.name, problem=problem)
        if isinstance(wanted, CreateProvisioning):
            return ProvisioningWritten(wanted.namespace, wanted.name, wanted.owner[:2], problem=problem, final=final)
        return ProvisioningWritten(wanted.namespace, wanted.name, uid=wanted.uid, problem=problem)

    async def _make(self, wanted: CreateProvisioning) -> str:
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

    async def _remove(self, wanted: DeleteProvisioning) -> str:
        """Remove the request, and then its templates; what is gone already is none of our business."""
        there = await self._delete(PROVISIONING_REQUESTS, wanted.namespace, wanted.name, wanted.uid)
        for name in template_names(wanted.name, MOST_POD_SETS):
            if not there or not await self._delete(POD_TEMPLATES, wanted.namespace, name):
                break  # they are numbered without a gap
        return ""

    async def _delete(self, resource: APIResource, namespace: str, name: str, uid: str = "") -> bool:
        """Delete an object; returns whether it was there."""
        options = {"apiVersion": "v1", "kind": "DeleteOptions"} | ({"preconditions": {"uid": uid}} if uid else {})
        body = msgspec.json.encode(options)

        async def attempt() -> bytes:
            path = resource.path(namespace, name)
            return await self._client.write(PriorityLevel.STATUS, "DELETE", path, body=body, fence=self._fence)

        try:
            await retrying(attempt)
        except ApiError as error:
            if error.status in (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT):
                return False
            raise
        return True


def _told(error: WireError) -> str:
    """Return what went wrong, in words for whoever waits."""
    if isinstance(error, ApiError) and error.status == HTTPStatus.FORBIDDEN:
        return f"{error}; the component provisioning-requests of the manifests lets the operator make them"
    return str(error)
