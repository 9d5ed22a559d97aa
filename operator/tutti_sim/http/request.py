"""What a request is about: the parts of its path, and its body as a document."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec
import yaml

from tutti_sim.http import protobuf
from tutti_sim.http.rendering import HttpRequest
from tutti_sim.meta import gojson
from tutti_sim.meta.errors import ApiError, bad_request, not_an_object, unsupported_media_type
from tutti_sim.rest.metadata import User

JSON_TYPES = ("application/json", "")
PROTOBUF = "application/vnd.kubernetes.protobuf"
YAML_TYPES = ("application/yaml", "application/x-yaml", "text/yaml")
ACCEPTED = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
CLUSTER_PREFIXES = ("status", "finalize")

SHOWN = 30

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


class Target(msgspec.Struct):
    """A resource path taken apart.

    Attributes:
        parts: what follows the subresource's name (`proxy/...`), empty otherwise.
        watch_path: whether the old `/watch/` prefix was used.
    """

    group: str
    version: str
    plural: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    parts: tuple[str, ...] = ()
    watch_path: bool = False


class Incoming(msgspec.Struct):
    """A request with what has been found out about it.

    Attributes:
        warnings: what the client is warned of, also where it is refused.
    """

    http: HttpRequest
    user: User
    query: Mapping[str, str]
    warnings: list[str] = msgspec.field(default_factory=list)

    @property
    def agent(self) -> str:
        """The client's User-Agent."""
        return self.http.headers.get("User-Agent", "")

    @property
    def accept(self) -> str:
        """What content types the client accepts."""
        return self.http.headers.get("Accept", "")

    @property
    def content_type(self) -> str:
        """The body's media type without parameters."""
        return self.http.headers.get("Content-Type", "").partition(";")[0].strip().lower()


def target(segments: list[str]) -> Target | None:
    """The resource that path segments name; None where they name a group version or less."""
    if segments[0] == "api":
        group, rest = "", segments[1:]
    else:
        group, rest = segments[1] if len(segments) > 1 else "", segments[2:]
    if len(rest) < 2:  # noqa: PLR2004 - a version and a resource
        return None
    version, rest = rest[0], rest[1:]
    watching = rest[0] == "watch"
    if watching:
        rest = rest[1:]
    if not rest:
        return None
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in CLUSTER_PREFIXES:  # noqa: PLR2004 - a place below it
        namespace, rest = rest[1], rest[2:]
    return Target(
        group=group,
        version=version,
        plural=rest[0],
        namespace=namespace,
        name=rest[1] if len(rest) > 1 else "",
        subresource=rest[2] if len(rest) > 2 else "",  # noqa: PLR2004 - the part after the name
        parts=tuple(rest[3:]),
        watch_path=watching,
    )


async def document(request: Incoming) -> Any:
    """The body as a document; None where there is none; ApiError 400 or 415 when it cannot be read."""
    data = await request.http.read()
    kind = request.content_type
    if kind in YAML_TYPES:
        return from_yaml(data)
    if kind == PROTOBUF:
        return protobuf.decode_protobuf(data)
    if kind not in JSON_TYPES:
        raise unsupported_media_type(ACCEPTED)
    if not data:
        return None
    return from_json(data)


async def sent(request: Incoming, kind: str) -> Any:
    """The body as a document of a kind; ApiError 400 in the words that a built-in kind is refused with."""
    try:
        body = await document(request)
    except ApiError as error:
        if error.code != 400:  # noqa: PLR2004 - it could not be read
            raise
        raise unrecognized(kind, error.message, await request.http.read()) from None
    if body is None and not (await request.http.read()).strip():
        raise unrecognized(kind, f"couldn't get version/kind; json parse error: {gojson.END}", b"")
    if body is not None and not isinstance(body, dict):
        raise unrecognized(kind, not_an_object(body), await request.http.read())
    return {} if body is None else body


def unrecognized(kind: str, fault: str, data: bytes) -> ApiError:
    """400: a body of no kind; its beginning is shown, in figures where it is no object."""
    shown, more = data[:SHOWN], " ..." if len(data) > SHOWN else ""
    text = shown.decode("utf-8", "replace") if data[:1] == b"{" else shown.hex()
    told = f"{text}{more}" if data else "<empty>"
    return bad_request(f"the object provided is unrecognized (must be of type {kind}): {fault} ({told})")


def doubled(data: bytes, body: Any, kind: str) -> list[str]:
    """What a body says of keys that it gives twice, as strict decoding words it; only the last of them was read.

    A document that says nothing twice has as many keys as what was read from it, which is cheap to see.
    """
    if kind in YAML_TYPES or data.lstrip()[:1] != b"{":
        return _doubled_lines(data) if kind in YAML_TYPES else []
    if data.count(b'":') == _encode(body).count(b'":'):
        return []
    return [f'duplicate field "{path}"' for path in duplicates(data)]


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


def _doubled_lines(data: bytes) -> list[str]:
    """The keys that a YAML document gives twice in one map."""
    found: list[str] = []
    waiting = [yaml.compose(data, Loader=_Loader)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, yaml.SequenceNode):
            waiting.extend(reversed(node.value))
        if not isinstance(node, yaml.MappingNode):
            continue
        seen: set[str] = set()
        for key, value in node.value:
            waiting.append(value)
            if key.value in seen:
                found.append(f'line {key.start_mark.line + 1}: key "{key.value}" already set in map')
            seen.add(key.value)
    return found


def from_json(data: bytes) -> Any:
    """A document from JSON."""
    try:
        return _decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        fault = gojson.fault(data) if isinstance(error, msgspec.DecodeError) else "exceeded max depth"
        raise bad_request(f"couldn't get version/kind; json parse error: {fault}") from None


def from_patch(data: bytes) -> Any:
    """The document of a patch, which is JSON."""
    try:
        return _decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        fault = gojson.fault(data) if isinstance(error, msgspec.DecodeError) else "exceeded max depth"
        raise bad_request(f"error decoding patch: {fault}") from None


def from_yaml(data: bytes) -> Any:
    """A document from YAML, with the booleans of YAML 1.1, and JSON as a part of it."""
    try:
        return _decode(data)
    except msgspec.DecodeError:
        pass
    try:
        return yaml.load(data, Loader=_Loader)  # noqa: S506 - a SafeLoader without timestamps
    except yaml.YAMLError as error:
        raise bad_request(f"error converting YAML to JSON: {error}") from None


class _Loader(yaml.SafeLoader):
    """Safe YAML whose timestamps stay text, as JSON has none."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
