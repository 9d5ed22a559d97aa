"""Requests and answers as they go over the wire, in the rendering that the client wants.

That is JSON or YAML; the object, its metadata, or a table of it. Bodies are objects, lists, tables and metadata.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import Any, Protocol

import msgspec
import yaml
from aiohttp import HttpVersion10, web
from aiohttp.abc import AbstractStreamWriter

from tutti_sim.kinds.resource import Resource
from tutti_sim.meta import Json
from tutti_sim.meta.errors import ApiError, form_of_lists, form_of_objects, no_such_form, not_acceptable
from tutti_sim.store.collection import Version

BODY_LIMIT = 3 * 1024 * 1024
"""Bytes that a request's body may have (kube-apiserver's MaxRequestBodyBytes)."""

JOIN_BELOW = 1 << 16


class RelativeUrl(Protocol):
    """A path and a query as they were written."""

    @property
    def raw_path(self) -> str:
        """The path, still encoded."""

    @property
    def raw_query_string(self) -> str:
        """The query, still encoded."""


class HeaderFields(Protocol):
    """Headers, asked for by their names in any case."""

    def get(self, key: str, default: str, /) -> str:
        """Return the value of a header."""


class HttpRequest(Protocol):
    """What of a request is looked at here: aiohttp's is one, and that of `plain.py`."""

    @property
    def method(self) -> str:
        """Such as `GET`."""

    @property
    def rel_url(self) -> RelativeUrl:
        """Its path and query."""

    @property
    def headers(self) -> HeaderFields:
        """Its headers."""

    @property
    def query(self) -> Mapping[str, str]:
        """Its query, decoded."""

    @property
    def transport(self) -> asyncio.Transport | None:
        """The connection; None where it is no more."""

    async def read(self) -> bytes:
        """Return the body."""

    async def text(self) -> str:
        """Return the body as text."""


def for_aiohttp(http: HttpRequest) -> web.BaseRequest:
    """Return a request that is answered bit by bit, which plain ones are not, as what aiohttp writes to.

    Raises:
        TypeError: It is a plain one.
    """
    if not isinstance(http, web.BaseRequest):
        raise TypeError(f"{http.method} {http.rel_url.raw_path} is answered at once, and not bit by bit")
    return http


def make_request(message: Any, payload: Any, protocol: Any, writer: AbstractStreamWriter, task: Any) -> web.BaseRequest:
    """What `web.Server` calls for each request: the usual, with this server's limit."""
    return web.BaseRequest(message, payload, protocol, writer, task, task.get_loop(), client_max_size=BODY_LIMIT)


class Answer(web.Response):
    """A response whose body and headers are complete. Nothing of the base class but its place in aiohttp is used."""

    def __init__(self, body: bytes, *, status: int, content_type: str, headers: Iterable[tuple[str, str]] = ()) -> None:
        self._content = body
        self._code = status
        self._kind = content_type
        self._extra = headers
        self._request: web.BaseRequest | None = None

    @property
    def status(self) -> int:
        """The status code."""
        return self._code

    @property
    def keep_alive(self) -> bool | None:
        """Whether the connection stays."""
        return self._request is not None and self._request.keep_alive

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        """Note what is answered; nothing is sent yet."""
        self._request = request
        return None

    async def write_eof(self, data: bytes = b"") -> None:
        """Send all of it."""
        del data
        request = self._request
        assert request is not None
        body = self._content
        head = self._head(keep_alive=request.keep_alive, old=request.version == HttpVersion10)
        if request.method == "HEAD":
            body = b""
        if len(body) < JOIN_BELOW:
            await request.writer.write(head + body)
        else:
            await request.writer.write(head)
            await request.writer.write(body)
        await request.writer.write_eof()

    def message(self, *, keep_alive: bool) -> bytes:
        """Return all of it as it is sent to somebody who speaks HTTP/1.1."""
        return self._head(keep_alive=keep_alive, old=False) + self._content

    def _head(self, *, keep_alive: bool, old: bool) -> bytes:
        lines = "".join([f"{name}: {_one_line(value)}\r\n" for name, value in self._extra]) if self._extra else ""
        if not keep_alive:
            lines += "Connection: close\r\n"
        elif old:
            lines += "Connection: keep-alive\r\n"
        start = _start(self._code, self._kind, int(time.time()))
        return f"{start}{lines}Content-Length: {len(self._content)}\r\n\r\n".encode()


@lru_cache(maxsize=64)
def _start(status: int, content_type: str, moment: int) -> str:
    reason = HTTPStatus(status).phrase
    return (
        f"HTTP/1.1 {status} {reason}\r\nContent-Type: {content_type}\r\nCache-Control: no-cache, private\r\n"
        f"Date: {formatdate(moment, usegmt=True)}\r\n"
    )


def _one_line(text: str) -> str:
    """A header's value cannot end its line."""
    return text.replace("\r", " ").replace("\n", " ")


OFFERED = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
STREAMS = ", application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"
META = "meta.k8s.io"


@dataclass(frozen=True, slots=True)
class Rendering:
    """A rendering: media is `json` or `yaml`, form `object`, `table`, `partial` or `partials` (a list of it)."""

    media: str = "json"
    form: str = "object"
    version: str = "v1"

    @property
    def content_type(self) -> str:
        """The Content-Type of a body in this rendering."""
        return f"application/{self.media}"


PLAIN = Rendering()
FORMS = {"Table": "table", "PartialObjectMetadata": "partial", "PartialObjectMetadataList": "partials"}


@dataclass(frozen=True, slots=True)
class Range:
    """One entry of an Accept header."""

    media: str
    params: dict[str, str]


@lru_cache(maxsize=256)
def ranges(accept: str) -> tuple[Range, ...]:
    """The entries of an Accept header in the order given; weights are not looked at, as clients order them."""
    found = []
    for entry in accept.split(","):
        media, *rest = (part.strip() for part in entry.split(";"))
        if media:
            params = {key.strip(): value.strip() for key, _, value in (part.partition("=") for part in rest)}
            found.append(Range(media.lower(), params))
    return tuple(found)


@lru_cache(maxsize=256)
def rendering(accept: str, *, watched: bool = False, custom: bool = False) -> Rendering:
    """The first rendering of an Accept header that can be had; ApiError 406 when none can.

    `watched` says that it is of what can be watched, where a refusal offers the forms of streams too; `custom` that
    it is of a custom resource, where the refusal is in other words.
    """
    entries = ranges(accept)
    if not entries:
        return PLAIN
    formless = False
    for entry in entries:
        media = {"application/json": "json", "*/*": "json", "application/*": "json", "application/yaml": "yaml"}.get(
            entry.media
        )
        if media is None:
            continue
        form = entry.params.get("as")
        if form is None:
            return Rendering(media)
        known = entry.params.get("g") == META and entry.params.get("v") in ("v1", "v1beta1")
        if known and form in FORMS:
            return Rendering(media, FORMS[form], entry.params["v"])
        formless = True
    raise no_such_form(OFFERED) if formless or custom else not_acceptable(OFFERED + STREAMS if watched else OFFERED)


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


def failure(error: ApiError, accept: str = "", warnings: Sequence[str] = ()) -> web.Response:
    """The response of an error, as YAML for those who asked for that."""
    headers = [*error.headers.items(), *map(_warning, warnings)]
    body, content_type = encode(error.body()), "application/json"
    if "yaml" in accept and _media(accept) == "yaml":
        body, content_type = yaml.safe_dump(error.body(), sort_keys=True).encode(), "application/yaml"
    return Answer(body, status=error.code, content_type=content_type, headers=headers)


def _media(accept: str) -> str:
    try:
        return rendering(accept).media
    except ApiError:
        return PLAIN.media


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
        case "partials":
            raise form_of_lists(resource.go_name)
        case _:
            return stored(resource, version)


def listing(
    resource: Resource, versions: Sequence[Version], meta: Json, rendering: Rendering, *, include: str = "Metadata"
) -> bytes:
    """The body of an answer with a list. Items of built-in kinds do not repeat their kind."""
    if rendering.form == "table":
        return encode(table(resource, versions, meta, include=include))
    if rendering.form == "partial":
        raise form_of_objects(resource.go_name)
    if rendering.form == "partials":
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
