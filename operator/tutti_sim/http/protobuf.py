"""Bodies in Kubernetes' protobuf encoding, as `kubectl create` and other typed Go clients send them.

Only reading is supported, and only the kinds that such clients create; answers are JSON, which these clients accept.
A field whose number is not known here is refused rather than dropped.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from tutti_sim.http.protofields import NUMBERS
from tutti_sim.kinds import markers
from tutti_sim.kinds.table import TABLE
from tutti_sim.meta.errors import ApiError, bad_request, unsupported_media_type

Json = dict[str, Any]

MAGIC = b"k8s\x00"
TYPES = {"TokenRequest": "AuthenticationV1TokenRequest"}
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
JSON_MEDIA = "application/json, application/yaml"


def decode(data: bytes) -> Json:
    """The document in an encoded body; ApiError 400 or 415 when it cannot be read."""
    if not data.startswith(MAGIC):
        raise bad_request("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
    try:
        envelope = dict(fields(data[len(MAGIC) :]))
        meta = dict(fields(envelope.get(1, b"")))
        kind = meta.get(2, b"").decode()
        type_name = TYPES.get(kind, kind)
        if type_name not in NUMBERS:
            raise unsupported_media_type(JSON_MEDIA)
        body = message(envelope.get(2, b""), type_name)
    except (IndexError, UnicodeDecodeError, AttributeError) as error:
        raise bad_request(f"the protobuf message is cut short or malformed: {error}") from None
    return {"kind": kind, "apiVersion": meta.get(1, b"").decode(), **body}


def fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """The fields of a message: number, and bytes or an integer."""
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        number, wire = tag >> 3, tag & 7
        if wire == VARINT:
            value, position = _varint(data, position)
            yield number, value
        elif wire == BYTES:
            length, position = _varint(data, position)
            if position + length > len(data):
                raise IndexError(f"field {number} is longer than the message")
            yield number, data[position : position + length]
            position += length
        elif wire in (FIXED64, FIXED32):
            width = 8 if wire == FIXED64 else 4
            yield number, data[position : position + width]
            position += width
        else:
            raise IndexError(f"field {number} has wire type {wire}")


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 - the continuation bit of a varint
            return value, position
        shift += 7


def message(data: bytes, type_name: str) -> Json:
    """A message of a type in the table as JSON."""
    names = NUMBERS.get(type_name)
    if names is None:
        if not data:
            return {}
        raise ApiError(415, "UnsupportedMediaType", f"{type_name} is not understood in protobuf here; send JSON")
    result: Json = {}
    for number, raw in fields(data):
        name = names[number - 1] if number <= len(names) else "-"
        if name == "status":
            continue
        field = TABLE[type_name].get(name)
        if field is None:
            text = f"field {number} of {type_name} is not understood in protobuf here; send JSON"
            raise ApiError(415, "UnsupportedMediaType", text)
        _add(result, type_name, name, field.kind, raw)
    return result


def _add(result: Json, owner: str, name: str, kind: str, raw: Any) -> None:
    if kind[0] == "[":
        result.setdefault(name, []).append(_value(owner, name, kind[1:-1], raw))
    elif kind[0] == "{":
        entry = dict(fields(raw))
        inner = "quantity" if name in markers.QUANTITY_MAPS and kind == "{str}" else kind[1:-1]
        result.setdefault(name, {})[entry.get(1, b"").decode()] = _value(owner, name, inner, entry.get(2, b""))
    else:
        value = _value(owner, name, kind, raw)
        if value is not None:
            result[name] = value


def _value(owner: str, name: str, kind: str, raw: Any) -> Any:
    if f"{owner}.{name}" in markers.INT_OR_STRING:
        either = dict(fields(raw))
        return either.get(3, b"").decode() if either.get(1) else _signed(either.get(2, 0))
    match kind:
        case "str":
            return raw.decode()
        case "int":
            return _signed(raw)
        case "bool":
            return bool(raw)
        case "bytes":
            return base64.b64encode(raw).decode()
        case "time":
            seconds = _signed(dict(fields(raw)).get(1, 0))
            return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if raw and seconds > 0 else None
        case "quantity":
            return dict(fields(raw)).get(1, b"0").decode()
        case _:
            return message(raw, kind)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value
