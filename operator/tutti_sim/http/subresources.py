"""Paths below an object other than its status, and kinds that are questions.

The paths are binding, eviction, scale, finalize, resize, tokens and logs; the questions: who am I, may I, is this token
good.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

from aiohttp import web

from tutti_sim.http import rendering, request, writes
from tutti_sim.http import rendering as rendering__
from tutti_sim.http.rendering import Rendering
from tutti_sim.http.request import Incoming, Target
from tutti_sim.http.writes import NOT_APPLIED, check_patch, transformer
from tutti_sim.kinds.resource import Resource
from tutti_sim.meta import Json, clock, selectors
from tutti_sim.meta.errors import ApiError, bad_request, method_not_allowed, no_such_resource
from tutti_sim.meta.selectors import path
from tutti_sim.rest import binding, write
from tutti_sim.rest.backend import Backend
from tutti_sim.rest.metadata import Call, User, write_call
from tutti_sim.rest.rbac import Attributes
from tutti_sim.store.collection import Version

TOKEN_SECONDS = 3600
TOKEN_LIMIT = 1 << 32


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
                return await self._scale(incoming, resource, target, rendering)
            case "binding" if method == "POST":
                return await self.bind(incoming, target.namespace, target.name)
            case "eviction" if method == "POST":
                return await self._evict(incoming, target)
            case "finalize" if method == "PUT":
                return await self._finalize(incoming, resource, target, rendering)
            case "token" if method == "POST":
                return await self._token(incoming, resource, target)
            case "log" if method == "GET":
                self._backend.get(resource, target.namespace, target.name)
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
        body = await request.posted(incoming, "metadata", "target")
        name = name or (body.get("metadata") or {}).get("name", "")
        binding.bind(self._backend, namespace, name, body, dry_run=call.dry_run)
        return rendering.respond(BOUND, status=201)

    async def _evict(self, incoming: Incoming, target: Target) -> web.Response:
        call = write_call(incoming.query, kind="CreateOptions", user=incoming.user, agent=incoming.agent)
        body = await request.posted(incoming, "metadata", "deleteOptions")
        binding.evict(self._backend, target.namespace, target.name, body, user=incoming.user, dry_run=call.dry_run)
        return rendering.respond(BOUND, status=201)

    async def _finalize(
        self, incoming: Incoming, resource: Resource, target: Target, rendering: Rendering
    ) -> web.Response:
        """Replace a namespace's finalizers; the last one takes the namespace with it."""
        call = write_call(incoming.query, kind="UpdateOptions", user=incoming.user, agent=incoming.agent)
        body = await request.document(incoming)
        current = self._backend.get(resource, target.namespace, target.name)
        wanted, _ = write.decode(resource, body, call)
        obj = {**current.obj, "metadata": dict(current.obj["metadata"]), "spec": wanted.get("spec", {})}
        version = write.commit(self._backend, resource, current, obj, call)
        return writes.answer_write(resource, version, rendering, call=call)

    async def _token(self, incoming: Incoming, resource: Resource, target: Target) -> web.Response:
        body = await request.posted(incoming, "metadata", "spec")
        self._backend.get(resource, target.namespace, target.name)
        seconds = (body.get("spec") or {}).get("expirationSeconds") or TOKEN_SECONDS
        if type(seconds) is not int or not 0 < seconds <= TOKEN_LIMIT:
            raise bad_request(f"spec.expirationSeconds must be an integer between 1 and {TOKEN_LIMIT}")
        token = secrets.token_urlsafe(32)
        self.issued[token] = f"system:serviceaccount:{target.namespace}:{target.name}"
        answer = {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {"name": target.name, "namespace": target.namespace, "creationTimestamp": clock.now()},
            "spec": {"audiences": ["https://kubernetes.default.svc"], "expirationSeconds": seconds},
            "status": {"token": token, "expirationTimestamp": clock.later(seconds)},
        }
        return rendering.respond(rendering.encode(answer), status=201)

    async def _scale(
        self, incoming: Incoming, resource: Resource, target: Target, rendering: Rendering
    ) -> web.Response:
        current = self._backend.get(resource, target.namespace, target.name)
        shown = scale_of(resource, current)
        if incoming.http.method == "GET":
            return rendering__.respond(rendering__.encode(shown), rendering=rendering)
        kind = "PatchOptions" if incoming.http.method == "PATCH" else "UpdateOptions"
        call = write_call(incoming.query, kind=kind, user=incoming.user, agent=incoming.agent)
        if incoming.http.method == "PATCH":
            check_patch(resource, incoming.content_type, among=NOT_APPLIED)
            changed = transformer(resource, incoming.content_type, await incoming.http.read())(shown)
        else:
            changed = await request.document(incoming)
        if not isinstance(changed, dict):
            raise bad_request("a Scale must be an object")
        request.require_objects(changed, "metadata", "spec")
        version = await self._rescale(resource, current, changed, call)
        return rendering__.respond(rendering__.encode(scale_of(resource, version)), rendering=rendering)

    async def _rescale(self, resource: Resource, current: Version, changed: Json, call: Call) -> Version:
        replicas = (changed.get("spec") or {}).get("replicas", 0)
        if not isinstance(replicas, int) or replicas < 0:
            raise ApiError(422, "Invalid", "spec.replicas: Invalid value: must be greater than or equal to 0")
        asked = (changed.get("metadata") or {}).get("resourceVersion")
        if resource.scale is None:
            raise no_such_resource()
        where = resource.scale.spec

        def transform(obj: Json) -> Json:
            result = _with(obj, where.split("."), replicas)
            if asked:
                result["metadata"] = {**result["metadata"], "resourceVersion": asked}
            return result

        return await write.change(self._backend, resource, *current.key, transform, call)


BOUND = rendering.success(code=201)


def scale_of(resource: Resource, version: Version) -> Json:
    """The Scale of an object."""
    if resource.scale is None:
        raise no_such_resource()
    obj, meta = version.obj, version.obj["metadata"]
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    status: Json = {"replicas": _number(obj, resource.scale.status)}
    selector = _selector(obj, resource)
    if selector:
        status["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: meta[key] for key in kept if key in meta},
        "spec": {"replicas": _number(obj, resource.scale.spec)},
        "status": status,
    }


def _number(obj: Json, where: str) -> int:
    return int(path(where)(obj) or 0)


def _selector(obj: Json, resource: Resource) -> str:
    where = resource.scale.selector if resource.scale else ""
    if not where:
        return ""
    if resource.custom:
        return path(where)(obj)
    selector = obj.get("spec", {}).get("selector")
    return selectors.selector_text({"matchLabels": selector} if resource.kind == "ReplicationController" else selector)


def _with(obj: Json, names: list[str], value: Any) -> Json:
    """A copy of an object with one place set."""
    if len(names) == 1:
        return {**obj, names[0]: value}
    return {**obj, names[0]: _with(obj.get(names[0]) or {}, names[1:], value)}


ADMIN = User("tutti-admin", ("system:masters", "system:authenticated"))
ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))


def allowed(user: User) -> bool:
    """Whether a user may do everything; the others may look at versions and health only."""
    return "system:masters" in user.groups


def _rules(spec: Json, user: User) -> Json:
    del spec
    everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
    return {
        "resourceRules": [everything] if allowed(user) else [],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}] if allowed(user) else [],
        "incomplete": False,
    }


def _self(spec: Json, user: User) -> Json:
    del spec
    return {"userInfo": {"username": user.name, "groups": list(user.groups)}}


Question = Callable[[Json, User], Json]


class Reviews:
    """Answers reviews; `identify` tells whose a token is, and `permits` what somebody may do."""

    def __init__(self, identify: Callable[[str], User | None], permits: Callable[[User, Attributes], bool]) -> None:
        self._identify = identify
        self._permits = permits
        self._questions: dict[str, Question] = {
            "selfsubjectaccessreviews": self._access,
            "subjectaccessreviews": self._access,
            "localsubjectaccessreviews": self._access,
            "selfsubjectrulesreviews": _rules,
            "selfsubjectreviews": _self,
            "tokenreviews": self._token,
        }

    def knows(self, resource: Resource) -> bool:
        """Whether a resource is a review."""
        return resource.plural in self._questions

    def answer(self, resource: Resource, body: Json, user: User) -> Json:
        """The review with its status."""
        spec = body.get("spec") or {}
        status = self._questions[resource.plural](spec, user)
        return {
            "kind": resource.kind,
            "apiVersion": resource.api_version,
            "metadata": {"creationTimestamp": None},
            "spec": spec,
            "status": status,
        }

    def _access(self, spec: Json, user: User) -> Json:
        groups = spec.get("groups")
        asked = user if "user" not in spec and groups is None else User(spec.get("user", ""), tuple(groups or ()))
        return {"allowed": self._permits(asked, Attributes.of_review(spec))}

    def _token(self, spec: Json, user: User) -> Json:
        del user
        owner = self._identify(str(spec.get("token", "")))
        if owner is None:
            return {"authenticated": False, "user": {}}
        return {"authenticated": True, "user": {"username": owner.name, "groups": list(owner.groups)}}
