"""Answers: objects, lists, tables and metadata as bodies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import yaml
from aiohttp import web

from tutti_sim.http.answer import Answer
from tutti_sim.http.negotiate import Rendering
from tutti_sim.kinds.resource import Resource
from tutti_sim.meta.errors import ApiError
from tutti_sim.store.version import Version

Json = dict[str, Any]

encode = msgspec.json.Encoder().encode


def respond(
    body: bytes, *, status: int = 200, rendering: Rendering | None = None, warnings: Sequence[str] = ()
) -> web.Response:
    """A response with a JSON body, turned into YAML where that is wanted."""
    content_type = "application/json"
    if rendering is not None and rendering.media == "yaml":
        body = yaml.safe_dump(msgspec.json.decode(body), sort_keys=True).encode()
        content_type = "application/yaml"
    return Answer(body, status=status, content_type=content_type, headers=[_warning(text) for text in warnings])


def _warning(text: str) -> tuple[str, str]:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return "Warning", f'299 - "{escaped}"'


def failure(error: ApiError) -> web.Response:
    """The response of an error."""
    headers = list(error.headers.items())
    return Answer(encode(error.body()), status=error.code, content_type="application/json", headers=headers)


def success(details: Json | None = None, *, code: int | None = None) -> bytes:
    """A Status object that says that all is well."""
    status: Json = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if details:
        status["details"] = details
    if code:
        status["code"] = code
    return encode(status)


def stored(resource: Resource, version: Version) -> bytes:
    """A version as an object of the resource's API version."""
    if resource.outward is None:
        return version.json
    return version.view(resource.api_version, resource.outward)


def seen(resource: Resource, obj: Json) -> Json:
    """An object as this API version shows it."""
    return obj if resource.outward is None else resource.outward(obj)


def partial(obj: Json) -> Json:
    """The metadata of an object as an object of its own."""
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}


def one(resource: Resource, version: Version, rendering: Rendering, *, include: str = "Metadata") -> bytes:
    """The body of an answer with one object."""
    match rendering.form:
        case "table":
            return encode(table(resource, [version], {}, include=include))
        case "partial":
            return version.view("partial", partial)
        case _:
            return stored(resource, version)


def listing(
    resource: Resource, versions: Sequence[Version], meta: Json, rendering: Rendering, *, include: str = "Metadata"
) -> bytes:
    """The body of an answer with a list. Items of built-in kinds do not repeat their kind."""
    if rendering.form == "table":
        return encode(table(resource, versions, meta, include=include))
    if rendering.form == "partial":
        kind, api_version = "PartialObjectMetadataList", "meta.k8s.io/v1"
        items = [version.view("partial", partial) for version in versions]
    else:
        kind, api_version = resource.list_kind, resource.api_version
        items = [stored(resource, version) for version in versions]
        if not resource.custom:
            prefix = encode({"kind": resource.kind, "apiVersion": resource.api_version})[:-1] + b","
            cut = len(prefix)
            items = [b"{" + item[cut:] if item.startswith(prefix) else item for item in items]
    head = encode({"kind": kind, "apiVersion": api_version, "metadata": meta})[:-1]
    return b"".join((head, b',"items":[', b",".join(items), b"]}"))


def columns(resource: Resource) -> list[Json]:
    """The column definitions of a resource's tables."""
    return [
        {
            "name": column.name,
            "type": column.type,
            "format": column.format,
            "description": column.description,
            "priority": column.priority,
        }
        for column in resource.columns
    ]


def row(resource: Resource, obj: Json, include: str) -> Json:
    """One row of a table, with as much of the object as is asked for."""
    cells = [column.cell(obj) for column in resource.columns]
    carried: Json | None = partial(obj)
    if include == "Object":
        carried = seen(resource, obj)
    elif include == "None":
        carried = None
    return {"cells": cells, "object": carried}


def table(resource: Resource, versions: Sequence[Version], meta: Json, *, include: str, heading: bool = True) -> Json:
    """A Table of objects."""
    if len(versions) == 1 and not meta:
        meta = {"resourceVersion": str(versions[0].rv)}
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": meta,
        "columnDefinitions": columns(resource) if heading else None,
        "rows": [row(resource, version.obj, include) for version in versions],
    }
