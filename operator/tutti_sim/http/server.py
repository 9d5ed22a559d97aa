"""The HTTP server: who asks, what for, and which part of this room answers."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from urllib.parse import unquote

from aiohttp import web

from tutti_sim.http import discovery, lists, openapi, rendering, request, watches, writes
from tutti_sim.http import rendering as rendering__
from tutti_sim.http.rendering import BODY_LIMIT, HttpRequest
from tutti_sim.http.request import Incoming, Target
from tutti_sim.http.reviews import ADMIN, ANONYMOUS, Reviews, allowed
from tutti_sim.http.subresources import Subresources
from tutti_sim.kinds.resource import Resource
from tutti_sim.meta.errors import (
    ApiError,
    details,
    method_not_allowed,
    no_such_resource,
    qualified_resource,
    too_large,
    unauthorized,
)
from tutti_sim.rest.backend import Backend
from tutti_sim.rest.metadata import User, truth
from tutti_sim.rest.rbac import Attributes, permits

OPEN_PATHS = frozenset({"version", "healthz", "livez", "readyz"})
VERBS = {
    "GET": "get",
    "POST": "create",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
    "HEAD": "get",
    "OPTIONS": "options",
}
NO_QUERY: Mapping[str, str] = MappingProxyType({})


class ApiServer:
    """Answers HTTP requests from a backend.

    Args:
        token: the bearer token of the administrator.
        address: what `/api` announces as the server's address.
    """

    def __init__(self, backend: Backend, *, token: str, address: str = "127.0.0.1") -> None:
        self._backend = backend
        self._token = token
        self.address = address
        self._subresources = Subresources(backend)
        self._reviews = Reviews(self._owner, partial(permits, backend))
        self._openapi = openapi.Documents(backend.registry)

    async def handle(self, http: HttpRequest) -> web.StreamResponse:
        """Answer one request."""
        warnings: list[str] = []
        try:
            segments = [part for part in http.rel_url.raw_path.split("/") if part]
            if "%" in http.rel_url.raw_path:
                segments = [unquote(part) for part in segments]
            user = self._authenticate(http)
            query = http.query if http.rel_url.raw_query_string else NO_QUERY
            incoming = Incoming(http, user, query, warnings)
            if not segments or segments[0] not in ("api", "apis"):
                return self._other(incoming, segments)
            answer = await self._api(incoming, segments)
        except web.HTTPRequestEntityTooLarge:
            answer = rendering.failure(too_large(f"limit is {BODY_LIMIT}"))
        except ApiError as error:
            answer = rendering.failure(error, http.headers.get("Accept", ""), warnings)
        for settled in self._backend.settle:
            await settled()
        return answer

    def _authenticate(self, http: HttpRequest) -> User:
        given = http.headers.get("Authorization", "")
        if not given:
            return ANONYMOUS
        kind, _, token = given.partition(" ")
        user = self._owner(token.strip()) if kind.lower() == "bearer" else None
        if user is None:
            raise unauthorized()
        return user

    def _owner(self, token: str) -> User | None:
        if secrets.compare_digest(token.encode(), self._token.encode()):
            return ADMIN
        name = self._subresources.issued.get(token)
        if not name:
            return None
        namespace = name.split(":")[2]
        return User(name, ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"))

    def _other(self, incoming: Incoming, segments: list[str]) -> web.StreamResponse:
        """Versions, health, OpenAPI."""
        head = segments[0] if segments else ""
        if head not in OPEN_PATHS and not allowed(incoming.user):
            path = "/" + "/".join(segments)
            raise ApiError(
                403, "Forbidden", f'forbidden: User "{incoming.user.name}" cannot get path "{path}"', details={}
            )
        registry = self._backend.registry
        match segments:
            case []:
                return rendering.respond(rendering.encode(discovery.root_paths(registry)))
            case ["version"]:
                return rendering.respond(rendering.encode(discovery.VERSION))
            case ["healthz" | "livez" | "readyz" as check, *_]:
                verbose = "verbose" in incoming.query
                return web.Response(text=f"[+]ping ok\n{check} check passed\n" if verbose else "ok")
            case ["openapi", "v2"]:
                return _openapi_v2(self._openapi, incoming.accept)
            case ["openapi", "v3"]:
                return rendering.respond(self._openapi.index())
            case ["openapi", "v3", *rest]:
                body = self._openapi.v3("/".join(rest))
                return plain_404() if body is None else rendering.respond(body)
            case _:
                return plain_404()

    async def _api(self, incoming: Incoming, segments: list[str]) -> web.StreamResponse:
        target = request.target(segments)
        if target is None:
            return self._discover(incoming, segments)
        resource = self._backend.registry.find(target.group, target.version, target.plural)
        if resource is None:
            if target.group and target.group not in self._backend.registry.groups():
                return plain_404()
            self._authorize(incoming, target, None)
            raise no_such_resource()
        self._authorize(incoming, target, resource)
        return await self._resource(incoming, resource, target)

    def _discover(self, incoming: Incoming, segments: list[str]) -> web.StreamResponse:
        if not allowed(incoming.user) and incoming.user is ANONYMOUS:
            path = "/" + "/".join(segments)
            raise ApiError(
                403, "Forbidden", f'forbidden: User "{incoming.user.name}" cannot get path "{path}"', details={}
            )
        registry, groups = self._backend.registry, self._backend.registry.groups()
        match segments:
            case ["api" | "apis" as root]:
                version = discovery.aggregated_version(incoming.accept)
                if version:
                    return _aggregated(
                        rendering.encode(discovery.aggregated(registry, version, core=root == "api")), version
                    )
                if root == "api":
                    return rendering.respond(rendering.encode(discovery.core_versions(self.address)))
                return rendering.respond(rendering.encode(discovery.group_list(registry)))
            case ["api", "v1"]:
                return rendering.respond(rendering.encode(discovery.resource_list(registry, "", "v1")))
            case ["apis", group] if group in groups:
                answer = {"kind": "APIGroup", "apiVersion": "v1", **discovery.group(registry, group)}
                return rendering.respond(rendering.encode(answer))
            case ["apis", group, version] if version in groups.get(group, ()):
                return rendering.respond(rendering.encode(discovery.resource_list(registry, group, version)))
            case ["apis", group, _] if group in groups:
                raise no_such_resource()
        return plain_404()

    def _authorize(self, incoming: Incoming, target: Target, resource: Resource | None) -> None:
        if allowed(incoming.user):
            return
        verb = VERBS[incoming.http.method]
        if not target.name and verb == "get":
            verb = "watch" if truth(incoming.query.get("watch")) else "list"
        elif not target.name and verb == "delete":
            verb = "deletecollection"
        path = f"{target.plural}/{target.subresource}" if target.subresource else target.plural
        wanted = Attributes(verb, target.group, path, target.namespace, target.name)
        if permits(self._backend, incoming.user, wanted):
            return
        name = f' "{target.name}"' if target.name else ""
        where = f' in the namespace "{target.namespace}"' if target.namespace else " at the cluster scope"
        del resource
        what = qualified_resource(target.plural, target.group)
        raise ApiError(
            403,
            "Forbidden",
            f'{what}{name} is forbidden: User "{incoming.user.name}" cannot {verb} '
            f'resource "{path}" in API group "{target.group}"{where}',
            details=details(target.name, target.group, target.plural),
        )

    async def _resource(self, incoming: Incoming, resource: Resource, target: Target) -> web.StreamResponse:
        collection = not target.name and not target.subresource and incoming.http.method == "GET"
        rendering = rendering__.rendering(incoming.accept, watched=collection, custom=resource.custom)
        if (
            resource.namespaced
            and not target.namespace
            and (target.name or incoming.http.method not in ("GET", "DELETE"))
        ) and not target.watch_path:
            raise method_not_allowed()
        if not resource.namespaced and target.namespace:
            raise no_such_resource()
        if target.subresource:
            if target.subresource not in resource.subresources:
                raise no_such_resource()
            return await self._subresources.handle(incoming, resource, target, rendering)
        if self._reviews.knows(resource):
            return await self._review(incoming, resource)
        if resource.storage == "bindings" and incoming.http.method == "POST":
            return await self._subresources.bind(incoming, target.namespace, "")
        if target.name and not target.watch_path:
            return await self._object(incoming, resource, target, rendering)
        return await self._collection(incoming, resource, target, rendering)

    async def _review(self, incoming: Incoming, resource: Resource) -> web.StreamResponse:
        if incoming.http.method != "POST":
            raise method_not_allowed()
        body = await request.document(incoming)
        answer = self._reviews.answer(resource, body if isinstance(body, dict) else {}, incoming.user)
        return rendering.respond(rendering.encode(answer), status=201)

    async def _object(
        self, incoming: Incoming, resource: Resource, target: Target, rendering: rendering.Rendering
    ) -> web.StreamResponse:
        match incoming.http.method:
            case "GET":
                lists.check_version(self._backend, incoming.query)
                version = self._backend.get(resource, target.namespace, target.name)
                include = incoming.query.get("includeObject", "Metadata")
                body = rendering__.one(resource, version, rendering, include=include)
                return rendering__.respond(body, rendering=rendering, warnings=_deprecation(resource))
            case "PUT":
                return await writes.put(self._backend, incoming, resource, target, rendering)
            case "PATCH":
                return await writes.patch(self._backend, incoming, resource, target, rendering)
            case "DELETE":
                return await writes.remove_object(self._backend, incoming, resource, target, rendering)
            case _:
                raise method_not_allowed()

    async def _collection(
        self, incoming: Incoming, resource: Resource, target: Target, rendering: rendering.Rendering
    ) -> web.StreamResponse:
        match incoming.http.method:
            case "GET" if "list" in resource.verbs:
                watching = target.watch_path or truth(incoming.query.get("watch"))
                where = lists.scope(resource, target.namespace, target.name, incoming.query, watch=watching)
                if watching:
                    return await watches.stream(
                        incoming.http, self._backend, resource, where, incoming.query, rendering
                    )
                body = lists.answer_list(self._backend, resource, where, incoming.query, rendering)
                return rendering__.respond(body, rendering=rendering, warnings=_deprecation(resource))
            case "POST":
                return await writes.post(self._backend, incoming, resource, target, rendering)
            case "DELETE" if "deletecollection" in resource.verbs:
                return await writes.remove_all(self._backend, incoming, resource, target, rendering)
            case _:
                raise method_not_allowed()


def _deprecation(resource: Resource) -> list[str]:
    return [resource.deprecated] if resource.deprecated else []


def _aggregated(body: bytes, version: str) -> web.Response:
    response = web.Response(body=body)
    response.headers["Content-Type"] = f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
    response.headers["ETag"] = f'"{openapi.digest(body)}"'
    response.headers["Vary"] = "Accept"
    return response


def _openapi_v2(documents: openapi.Documents, accept: str) -> web.Response:
    """The document, or, for those who read it as protobuf, an empty one, in which every kind is unknown.

    kubectl asks for that where the third version has no schema, as for a List, and leaves what it does not find there
    to the server's own checks.
    """
    if openapi.ASKED_AS_PROTOBUF not in accept:
        return rendering.respond(documents.v2())
    return web.Response(body=b"", headers={"Content-Type": openapi.PROTOBUF})


def plain_404() -> web.Response:
    """The answer where nothing is served, not even an error object."""
    return web.Response(status=404, text="404 page not found\n")
