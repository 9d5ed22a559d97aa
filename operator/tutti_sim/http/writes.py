"""POST, PUT, PATCH and DELETE on objects and collections, and their bodies and answers."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from aiohttp import web

from tutti_sim.http import lists, request
from tutti_sim.http import rendering as rendering__
from tutti_sim.http.rendering import PLAIN, Rendering
from tutti_sim.http.request import Incoming, Target
from tutti_sim.kinds.resource import Resource
from tutti_sim.meta import Json
from tutti_sim.meta.errors import ApiError, bad_request, details, unsupported_media_type
from tutti_sim.patch import apply, strategic
from tutti_sim.rest import delete, write
from tutti_sim.rest.backend import Backend
from tutti_sim.rest.metadata import Call, write_call
from tutti_sim.store.collection import Version

APPLY = ("application/apply-patch+yaml", "application/apply-patch+cbor")
STRATEGIC = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"
OPERATIONS = "application/json-patch+json"
NOT_APPLIED = (OPERATIONS, MERGE, STRATEGIC)
PATCHES = (*NOT_APPLIED, *APPLY)
BUILTIN_PATCHES = f"{OPERATIONS}, {MERGE}, {STRATEGIC}, application/apply-patch+yaml, application/apply-patch+cbor"
CUSTOM_PATCHES = f"{OPERATIONS}, {MERGE}, application/apply-patch+yaml, application/apply-patch+cbor"


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
    body = await request.document(incoming)
    _refuse_duplicates(await incoming.http.read(), call)
    if body is None:
        raise bad_request("a body is required")
    version = await write.create(backend, resource, target.namespace, body, call)
    return answer_write(resource, version, rendering, status=201, call=call)


async def put(
    backend: Backend, incoming: Incoming, resource: Resource, target: Target, rendering: Rendering
) -> web.Response:
    """Replace an object, or its status."""
    call = write_call(incoming.query, kind="UpdateOptions", user=incoming.user, agent=incoming.agent)
    call.subresource = target.subresource
    body = await request.document(incoming)
    _refuse_duplicates(await incoming.http.read(), call)
    version, created = await write.replace(backend, resource, target.namespace, target.name, body, call)
    return answer_write(resource, version, rendering, status=201 if created else 200, call=call)


def _refuse_duplicates(data: bytes, call: Call) -> None:
    """Strict field validation refuses a key given twice, which the fast decoder does not see."""
    if call.field_validation != "Strict" or data.lstrip()[:1] != b"{":
        return
    found = duplicates(data)
    if found:
        raise bad_request("strict decoding error: " + ", ".join(f'duplicate field "{path}"' for path in found))


def duplicates(data: bytes) -> list[str]:
    """The paths of keys that a JSON document gives twice."""
    found: list[str] = []

    class Pairs(dict[str, Any]):
        """An object that remembers which of its keys were given twice."""

        twice: tuple[str, ...] = ()

    def pairs(items: list[tuple[str, Any]]) -> Pairs:
        result = Pairs(items)
        if len(result) < len(items):
            seen: set[str] = set()
            result.twice = tuple(key for key, _ in items if key in seen or seen.add(key))  # type: ignore[func-returns-value]  # add returns None, which is false
        return result

    def walk(node: Any, path: str) -> None:
        if isinstance(node, Pairs):
            found.extend(path + key for key in node.twice)
            for key, inner in node.items():
                walk(inner, f"{path}{key}.")
        elif isinstance(node, list):
            for index, inner in enumerate(node):
                walk(inner, f"{path[:-1]}[{index}].")

    walk(json.loads(data, object_pairs_hook=pairs), "")
    return found


async def patch(
    backend: Backend, incoming: Incoming, resource: Resource, target: Target, rendering: Rendering
) -> web.Response:
    """Change an object, or its status, by a patch."""
    kind = incoming.content_type
    check_patch(resource, kind)
    call = write_call(
        incoming.query, kind="PatchOptions", user=incoming.user, agent=incoming.agent, apply=kind in APPLY
    )
    call.subresource = target.subresource
    data = await incoming.http.read()
    if kind in APPLY:
        return await _apply(backend, incoming, resource, target, rendering, call)
    backend.get(resource, target.namespace, target.name)
    transform = transformer(resource, kind, data)
    version = await write.change(backend, resource, target.namespace, target.name, transform, call)
    return answer_write(resource, version, rendering, call=call)


def check_patch(resource: Resource, kind: str, *, among: Collection[str] = PATCHES) -> None:
    """ApiError 415 for a kind of patch that is not among those that are taken here, or not for the resource."""
    if kind not in among or (kind == STRATEGIC and resource.custom):
        raise unsupported_media_type(CUSTOM_PATCHES if resource.custom else BUILTIN_PATCHES)


def transformer(resource: Resource, kind: str, data: bytes) -> write.Transform:
    """The function that a patch of a kind other than an apply patch is; ApiError 400 when it is malformed."""
    if kind == OPERATIONS:
        operations = request.from_json(data)
        return lambda obj: strategic.operations(obj, operations)
    change = request.from_json(data)
    if not isinstance(change, dict):
        raise bad_request("json: cannot unmarshal array into Go value of type map[string]interface {}")
    if kind == MERGE:
        return lambda obj: dict(strategic.merge_json(obj, change))
    return lambda obj: strategic.merge(obj, change, resource.codec.shape)


async def _apply(
    backend: Backend, incoming: Incoming, resource: Resource, target: Target, rendering: Rendering, call: Call
) -> web.Response:
    config = request.from_yaml(await incoming.http.read())
    if not isinstance(config, dict) or not config.get("kind") or not config.get("apiVersion"):
        raise bad_request("invalid object type: apiVersion and kind must be set in an apply patch")
    request.require_objects(config, "metadata")
    meta = dict(config.get("metadata") or {})
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
        fresh = transform({"metadata": {}})
        version = await write.create(backend, resource, target.namespace, fresh, call)
        return answer_write(resource, version, rendering, status=201, call=call)
    version = await write.change(backend, resource, target.namespace, target.name, transform, call)
    return answer_write(resource, version, rendering, call=call)


async def remove_object(
    backend: Backend, incoming: Incoming, resource: Resource, target: Target, rendering: Rendering
) -> web.Response:
    """Delete an object."""
    options = delete.delete_options(await request.document(incoming), incoming.query, user=incoming.user)
    version, gone = await delete.delete(backend, resource, target.namespace, target.name, options)
    if gone and not resource.strategy.answers_object:
        meta = version.obj["metadata"]
        about = details(meta["name"], resource.group, resource.plural, uid=meta["uid"])
        return rendering__.respond(rendering__.success(about), rendering=rendering, warnings=options.call.warnings)
    return answer_write(resource, version, rendering, call=options.call)


async def remove_all(
    backend: Backend, incoming: Incoming, resource: Resource, target: Target, rendering: Rendering
) -> web.Response:
    """Delete the objects of a collection that selectors choose."""
    options = delete.delete_options(await request.document(incoming), incoming.query, user=incoming.user)
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
