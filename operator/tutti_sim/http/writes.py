"""POST, PUT, PATCH and DELETE on objects and collections, and their bodies and answers."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from aiohttp import web

from tutti_sim.http import lists, request
from tutti_sim.http import rendering as rendering__
from tutti_sim.http.rendering import PLAIN, Rendering
from tutti_sim.http.request import Incoming, Target
from tutti_sim.kinds.resource import Resource
from tutti_sim.meta import Json
from tutti_sim.meta.errors import (
    GO_NAMES,
    ApiError,
    bad_request,
    conflict,
    details,
    no_such_patch,
    unsupported_media_type,
)
from tutti_sim.patch import apply, strategic, typed
from tutti_sim.rest import delete, write
from tutti_sim.rest.backend import Backend
from tutti_sim.rest.metadata import Call, write_call
from tutti_sim.store.collection import Version

APPLY = "application/apply-patch+yaml"
STRATEGIC = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"
OPERATIONS = "application/json-patch+json"
NOT_APPLIED = (OPERATIONS, MERGE, STRATEGIC)
PATCHES = (*NOT_APPLIED, APPLY)
CUSTOM_PATCHES = f"{OPERATIONS}, {MERGE}, {APPLY}"


def answer_write(
    resource: Resource, version: Version, rendering: Rendering, *, status: int = 200, call: Call | None = None
) -> web.Response:
    """The answer to a write: the object, and what the writer is warned of."""
    warnings = list(call.warnings) if call else []
    if resource.deprecated:
        warnings.insert(0, resource.deprecated)
    return rendering__.respond(
        rendering__.one(resource, version, rendering), status=status, rendering=rendering, warnings=warnings
    )


async def post(
    backend: Backend, incoming: Incoming, resource: Resource, target: Target, rendering: Rendering
) -> web.Response:
    """Create an object."""
    call = write_call(incoming.query, kind="CreateOptions", user=incoming.user, agent=incoming.agent)
    call.warnings = incoming.warnings
    body = await sent(incoming, resource, call)
    version = await write.create(backend, resource, target.namespace, body, call)
    return answer_write(resource, version, rendering, status=201, call=call)


async def put(
    backend: Backend, incoming: Incoming, resource: Resource, target: Target, rendering: Rendering
) -> web.Response:
    """Replace an object, or its status."""
    call = write_call(incoming.query, kind="UpdateOptions", user=incoming.user, agent=incoming.agent)
    call.warnings = incoming.warnings
    call.subresource = target.subresource
    body = await sent(incoming, resource, call)
    version, created = await write.replace(backend, resource, target.namespace, target.name, body, call)
    return answer_write(resource, version, rendering, status=201 if created else 200, call=call)


async def sent(incoming: Incoming, resource: Resource, call: Call) -> Any:
    """The body of a write, and what it gives twice, which the call notes."""
    body = await request.sent(incoming, resource.kind)
    if call.field_validation != "Ignore":
        call.noted = request.doubled(await incoming.http.read(), body, incoming.content_type)
    return body


async def patch(
    backend: Backend, incoming: Incoming, resource: Resource, target: Target, rendering: Rendering
) -> web.Response:
    """Change an object, or its status, by a patch."""
    kind = incoming.content_type
    check_patch(resource, kind)
    call = write_call(
        incoming.query, kind="PatchOptions", user=incoming.user, agent=incoming.agent, apply=kind == APPLY
    )
    call.subresource, call.warnings = target.subresource, incoming.warnings
    data = await incoming.http.read()
    if kind == APPLY:
        return await _apply(backend, incoming, resource, target, rendering, call)
    backend.get(resource, target.namespace, target.name)
    transform = transformer(resource, kind, data)
    version = await write.change(backend, resource, target.namespace, target.name, transform, call)
    return answer_write(resource, version, rendering, call=call)


def check_patch(resource: Resource, kind: str, *, among: Collection[str] = PATCHES) -> None:
    """ApiError 415 for a kind of patch that is not among those that are taken here, or not for the resource."""
    if kind not in among or (kind == STRATEGIC and resource.custom):
        raise unsupported_media_type(CUSTOM_PATCHES) if resource.custom else no_such_patch()


def transformer(resource: Resource, kind: str, data: bytes) -> write.Transform:
    """The function that a patch of a kind other than an apply patch is; ApiError 400 when it is malformed."""
    if kind == OPERATIONS:
        operations = request.from_patch(data)
        return lambda obj: strategic.operations(obj, operations)
    change = request.from_patch(data)
    if change is None and kind == MERGE:
        raise bad_request("Invalid JSON Patch")
    if not isinstance(change, dict):
        what = GO_NAMES.get(type(change), "value")
        raise bad_request(
            f"error decoding patch: json: cannot unmarshal {what} into Go value of type map[string]interface {{}}"
        )
    if kind == MERGE:
        return lambda obj: dict(strategic.merge_json(obj, change))
    return lambda obj: strategic.merge(obj, change, resource.codec.shape)


async def _apply(
    backend: Backend, incoming: Incoming, resource: Resource, target: Target, rendering: Rendering, call: Call
) -> web.Response:
    config = _applied(resource, await incoming.http.read())
    found = config.get("metadata") or {}
    meta = dict(found) if isinstance(found, dict) else {}
    name = f"{meta.get('namespace', '')}/{meta.get('name', '')}"
    about = f"{name}; {resource.group}/{resource.version}, Kind={resource.kind}"
    typed.check(config, resource.codec.declared, about)
    write.check_name(meta, target.name)
    if meta.get("managedFields"):
        raise bad_request("metadata.managedFields must be nil")
    stated = {**config, "metadata": {**meta, "name": target.name}}
    if target.namespace:
        stated["metadata"]["namespace"] = target.namespace
    shape = resource.codec.shape

    def transform(live: Json) -> Json:
        return apply.apply(
            live,
            stated,
            shape,
            manager=call.manager,
            api_version=resource.api_version,
            subresource=call.subresource,
            force=call.force,
        )

    if backend.collection(resource).get(target.namespace, target.name) is None:
        if call.subresource:
            backend.get(resource, target.namespace, target.name)
        _check_absent(resource, target, meta)
        fresh = transform({"metadata": {}})
        fresh["metadata"].pop("resourceVersion", None)
        version = await write.create(backend, resource, target.namespace, fresh, call)
        return answer_write(resource, version, rendering, status=201, call=call)
    version = await write.change(backend, resource, target.namespace, target.name, transform, call)
    return answer_write(resource, version, rendering, call=call)


def _applied(resource: Resource, data: bytes) -> Json:
    """The configuration of an apply patch; ApiError 400 where it is of another kind, or none."""
    try:
        config = request.from_yaml(data)
    except ApiError as error:
        raise bad_request(f"error decoding YAML: {error.message}") from None
    if not isinstance(config, dict):
        what = GO_NAMES.get(type(config), "value")
        text = f"json: cannot unmarshal {what} into Go value of type map[string]interface {{}}"
        raise bad_request(f"error decoding YAML: error unmarshaling JSON: while decoding JSON: {text}")
    kind, api_version = str(config.get("kind") or ""), str(config.get("apiVersion") or "")
    if (kind, api_version) != (resource.kind, resource.api_version):
        group, _, version = api_version.rpartition("/")
        raise bad_request(f"invalid object type: {group}/{version}, Kind={kind}")
    return config


def _check_absent(resource: Resource, target: Target, meta: Json) -> None:
    """ApiError 409 where a configuration is of an object that has been, and there is none."""
    if meta.get("uid"):
        text = f"uid mismatch: the provided object specified uid {meta['uid']}, and no existing object was found"
        raise conflict(resource.plural, resource.group, target.name, text)


async def remove_object(
    backend: Backend, incoming: Incoming, resource: Resource, target: Target, rendering: Rendering
) -> web.Response:
    """Delete an object."""
    options = delete.delete_options(await request.document(incoming), incoming.query, user=incoming.user)
    _warn_of_orphans(resource, options, incoming)
    version, gone = await delete.delete(backend, resource, target.namespace, target.name, options)
    if gone and not resource.strategy.answers_object:
        meta = version.obj["metadata"]
        about = details(meta["name"], resource.group, resource.plural, uid=meta["uid"])
        return rendering__.respond(rendering__.success(about), rendering=rendering, warnings=options.call.warnings)
    return answer_write(resource, version, rendering, call=options.call)


def _warn_of_orphans(resource: Resource, options: delete.DeleteOptions, incoming: Incoming) -> None:
    """What a deletion without a policy leaves behind is warned of before it is known whether there is anything."""
    options.call.warnings = incoming.warnings
    if resource.strategy.orphans and not options.policy:
        options.call.warnings.append(
            "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove "
            "them or set propagationPolicy=Orphan to suppress this warning"
        )


async def remove_all(
    backend: Backend, incoming: Incoming, resource: Resource, target: Target, rendering: Rendering
) -> web.Response:
    """Delete the objects of a collection that selectors choose."""
    options = delete.delete_options(await request.document(incoming), incoming.query, user=incoming.user)
    _warn_of_orphans(resource, options, incoming)
    where = lists.scope(resource, target.namespace, "", incoming.query)
    query = {key: value for key, value in incoming.query.items() if key in ("limit", "continue")}
    found, meta = lists.page(backend, resource, where, query)
    for version in found:
        try:
            await delete.delete(backend, resource, *version.key, options)
        except ApiError as error:
            if error.code != 404:  # noqa: PLR2004 - somebody else was faster
                raise
    return rendering__.respond(
        rendering__.listing(resource, found, meta, PLAIN), rendering=rendering, warnings=options.call.warnings
    )
