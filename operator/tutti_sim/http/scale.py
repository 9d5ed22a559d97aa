"""The scale subresource: how many replicas are wanted, read and written as a Scale."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from tutti_sim.http import rendering as rendering__
from tutti_sim.http.rendering import Rendering
from tutti_sim.http.request import Incoming, Target
from tutti_sim.http.writes import NOT_APPLIED, check_patch, sent, transformer
from tutti_sim.kinds.resource import BuiltinCodec, Resource, Strategy
from tutti_sim.meta import Json, selectors
from tutti_sim.meta.errors import invalid, method_not_allowed, no_such_resource, unprocessable
from tutti_sim.meta.selectors import path
from tutti_sim.rest import write
from tutti_sim.rest.backend import Backend
from tutti_sim.rest.metadata import Call, write_call
from tutti_sim.store.collection import Version

SCALE = Resource("autoscaling", "v1", "scales", "Scale", True, BuiltinCodec("Scale"), Strategy())
"""How Scales are read; nothing of that kind is stored."""


async def answer(
    backend: Backend, incoming: Incoming, resource: Resource, target: Target, rendering: Rendering
) -> web.Response:
    """Answer a request for an object's Scale."""
    method = incoming.http.method
    if method == "GET":
        shown = scale_of(resource, backend.get(resource, target.namespace, target.name))
        return rendering__.respond(rendering__.encode(shown), rendering=rendering)
    if method not in ("PUT", "PATCH"):
        raise method_not_allowed()
    kind = "PatchOptions" if method == "PATCH" else "UpdateOptions"
    call = write_call(incoming.query, kind=kind, user=incoming.user, agent=incoming.agent)
    call.warnings, call.subresource = incoming.warnings, "scale"
    changed = await (_patched if method == "PATCH" else _put)(backend, incoming, resource, target, call)
    version = await _rescale(backend, resource, target, changed, call)
    return rendering__.respond(
        rendering__.encode(scale_of(resource, version)), rendering=rendering, warnings=call.warnings
    )


async def _put(backend: Backend, incoming: Incoming, resource: Resource, target: Target, call: Call) -> Json:
    changed, _ = write.decode(SCALE, await sent(incoming, SCALE, call), call)
    write.check_place(changed, target.namespace, target.name)
    backend.get(resource, target.namespace, target.name)
    return changed


async def _patched(backend: Backend, incoming: Incoming, resource: Resource, target: Target, call: Call) -> Json:
    check_patch(resource, incoming.content_type, among=NOT_APPLIED)
    shown = scale_of(resource, backend.get(resource, target.namespace, target.name))
    made = transformer(SCALE, incoming.content_type, await incoming.http.read())(shown)
    changed, _ = write.decode(SCALE, made, call, patched=True)
    write.check_place(changed, target.namespace, target.name)
    return changed


async def _rescale(backend: Backend, resource: Resource, target: Target, changed: Json, call: Call) -> Version:
    replicas = changed.get("spec", {}).get("replicas", 0)
    if replicas < 0:
        fault = invalid("spec.replicas", replicas, "must be greater than or equal to 0")
        raise unprocessable("Scale", "autoscaling", target.name, [fault])
    if resource.scale is None:
        raise no_such_resource()
    where, asked = resource.scale.spec, changed["metadata"].get("resourceVersion")

    def transform(obj: Json) -> Json:
        result = _with(obj, where.split("."), replicas)
        if asked:
            result["metadata"] = {**result["metadata"], "resourceVersion": asked}
        return result

    call.noted = []
    return await write.change(backend, resource, target.namespace, target.name, transform, call)


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
        "spec": {"replicas": wanted} if (wanted := _number(obj, resource.scale.spec)) else {},
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
