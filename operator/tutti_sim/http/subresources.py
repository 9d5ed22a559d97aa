"""Paths below an object other than its status: binding, eviction, scale, finalize, resize, tokens and logs."""

from __future__ import annotations

import secrets

from aiohttp import web

from tutti_sim.http import logs, rendering, request, scale, writes
from tutti_sim.http.rendering import Rendering
from tutti_sim.http.request import Incoming, Target
from tutti_sim.kinds.resource import BuiltinCodec, Resource, Strategy
from tutti_sim.meta import Json, clock
from tutti_sim.meta.checks import STANDARD_FINALIZERS
from tutti_sim.meta.errors import (
    bad_request,
    invalid,
    method_not_allowed,
    no_such_resource,
    not_found,
    unprocessable,
)
from tutti_sim.rest import binding, write
from tutti_sim.rest.backend import Backend
from tutti_sim.rest.metadata import Call, write_call

TOKEN_SECONDS = 3600
TOKEN_LIMIT = 1 << 32
SHORTEST_TOKEN = 600


class Subresources:
    """Handles subresources. `issued` maps service account tokens to user names."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.issued: dict[str, str] = {}

    async def handle(
        self, incoming: Incoming, resource: Resource, target: Target, rendering: Rendering
    ) -> web.Response:
        """Answer a request for a subresource that the resource has."""
        method = incoming.http.method
        match target.subresource:
            case "status" | "resize" | "ephemeralcontainers":
                return await self._part(incoming, resource, target, rendering)
            case "scale":
                return await scale.answer(self._backend, incoming, resource, target, rendering)
            case "binding" if method == "POST":
                return await self.bind(incoming, target.namespace, target.name)
            case "eviction" if method == "POST":
                return await self._evict(incoming, target)
            case "finalize" if method == "PUT":
                return await self._finalize(incoming, resource, target, rendering)
            case "token" if method == "POST":
                return await self._token(incoming, resource, target)
            case "log" if method == "GET":
                logs.check(self._backend, self._backend.get(resource, target.namespace, target.name), incoming.query)
                return web.Response(text="", content_type="text/plain")
            case "binding" | "eviction" | "finalize" | "token" | "log":
                raise method_not_allowed()
            case _:
                raise no_such_resource()

    async def _part(self, incoming: Incoming, resource: Resource, target: Target, rendering: Rendering) -> web.Response:
        """A part of the object that is read and written as the whole object."""
        match incoming.http.method:
            case "GET":
                version = self._backend.get(resource, target.namespace, target.name)
                return writes.answer_write(resource, version, rendering)
            case "PUT":
                return await writes.put(self._backend, incoming, resource, target, rendering)
            case "PATCH":
                return await writes.patch(self._backend, incoming, resource, target, rendering)
            case _:
                raise method_not_allowed()

    async def bind(self, incoming: Incoming, namespace: str, name: str) -> web.Response:
        """Bind a pod; without a name in the path, the one that the Binding names."""
        call = write_call(incoming.query, kind="CreateOptions", user=incoming.user, agent=incoming.agent)
        body = await _posted(incoming, BINDING, call, namespace)
        if not name and not body["metadata"].get("name"):
            raise bad_request("Name parameter required.")
        name = name or body["metadata"]["name"]
        binding.bind(self._backend, namespace, name, body, dry_run=call.dry_run)
        return rendering.respond(BOUND, status=201, warnings=call.warnings)

    async def _evict(self, incoming: Incoming, target: Target) -> web.Response:
        call = write_call(incoming.query, kind="CreateOptions", user=incoming.user, agent=incoming.agent)
        body = await _posted(incoming, EVICTION, call, target.namespace)
        binding.evict(self._backend, target.namespace, target.name, body, user=incoming.user, dry_run=call.dry_run)
        return rendering.respond(BOUND, status=201, warnings=call.warnings)

    async def _finalize(
        self, incoming: Incoming, resource: Resource, target: Target, rendering: Rendering
    ) -> web.Response:
        """Replace a namespace's finalizers; the last one takes the namespace with it."""
        call = write_call(incoming.query, kind="UpdateOptions", user=incoming.user, agent=incoming.agent)
        body = await request.document(incoming)
        current = self._backend.get(resource, target.namespace, target.name)
        wanted, _ = write.decode(resource, body, call)
        faults = [
            invalid(
                f"spec.finalizers[{index}]", one, "name is neither a standard finalizer name nor is it fully qualified"
            )
            for index, one in enumerate(wanted.get("spec", {}).get("finalizers") or ())
            if "/" not in one and one not in STANDARD_FINALIZERS
        ]
        if faults:
            raise unprocessable(resource.kind, resource.group, target.name, faults)
        obj = {**current.obj, "metadata": dict(current.obj["metadata"]), "spec": wanted.get("spec", {})}
        version = write.commit(self._backend, resource, current, obj, call)
        return writes.answer_write(resource, version, rendering, call=call)

    async def _token(self, incoming: Incoming, resource: Resource, target: Target) -> web.Response:
        call = write_call(incoming.query, kind="CreateOptions", user=incoming.user, agent=incoming.agent)
        body = await _posted(incoming, TOKEN, call, target.namespace)
        account = self._backend.get(resource, target.namespace, target.name)
        spec = _token_spec(self._backend, body, target)
        token = secrets.token_urlsafe(32)
        self.issued[token] = f"system:serviceaccount:{target.namespace}:{target.name}"
        answer = {
            "kind": TOKEN.kind,
            "apiVersion": TOKEN.api_version,
            "metadata": {
                "name": target.name,
                "namespace": target.namespace,
                "uid": account.obj["metadata"]["uid"],
                "creationTimestamp": clock.now(),
            },
            "spec": spec,
            "status": {"token": token, "expirationTimestamp": clock.later(spec["expirationSeconds"])},
        }
        return rendering.respond(rendering.encode(answer), status=201, warnings=call.warnings)


BOUND = rendering.success(code=201)

BINDING = Resource("", "v1", "bindings", "Binding", True, BuiltinCodec("Binding"), Strategy())
EVICTION = Resource("policy", "v1", "evictions", "Eviction", True, BuiltinCodec("Eviction"), Strategy())
TOKEN = Resource(
    "authentication.k8s.io", "v1", "tokenrequests", "TokenRequest", True, BuiltinCodec("AuthenticationV1TokenRequest"),
    Strategy(),
)  # fmt: skip
BINDABLE = {("v1", "Pod"): "pods", ("v1", "Secret"): "secrets", ("v1", "Node"): "nodes"}


async def _posted(incoming: Incoming, kind: Resource, call: Call, namespace: str) -> Json:
    """What is posted to a subresource, which is an object of a kind that is not stored."""
    call.warnings = incoming.warnings
    body, _ = write.decode(kind, await writes.sent(incoming, kind, call), call)
    write.check_place(body, namespace, "")
    return body


def _token_spec(backend: Backend, body: Json, target: Target) -> Json:
    """What a token is made for; ApiError 422 where it would be too short or too long a time."""
    spec, named = body.get("spec", {}), body["metadata"].get("name")
    seconds = spec.get("expirationSeconds", TOKEN_SECONDS)
    if named and named != target.name:
        fault = invalid("metadata.name", named, "must match the service account name if specified")
        raise unprocessable(TOKEN.kind, TOKEN.group, target.name, [fault])
    if not SHORTEST_TOKEN <= seconds <= TOKEN_LIMIT:
        limit = "less than 10 minutes" if seconds < SHORTEST_TOKEN else "larger than 2^32 seconds"
        fault = invalid("spec.expirationSeconds", seconds, f"may not specify a duration {limit}")
        raise unprocessable(TOKEN.kind, TOKEN.group, "", [fault])
    bound = spec.get("boundObjectRef")
    if bound:
        plural = BINDABLE.get((bound.get("apiVersion", ""), bound.get("kind", "")))
        if plural is None:
            group, _, version = bound.get("apiVersion", "").rpartition("/")
            raise bad_request(f"cannot bind token to object of type {group}/{version}, Kind={bound.get('kind', '')}")
        found = backend.find(plural, "" if plural == "nodes" else target.namespace, bound.get("name", ""))
        if found is None:
            raise not_found(plural, "", bound.get("name", ""))
    audiences = spec.get("audiences") or ["https://kubernetes.default.svc"]
    kept = {"boundObjectRef": bound} if bound else {"boundObjectRef": None}
    return {"audiences": audiences, "expirationSeconds": seconds, **kept}
