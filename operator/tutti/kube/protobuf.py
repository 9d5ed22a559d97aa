"""Bindings in Kubernetes' protobuf encoding: the API server reads one in less time than the same in JSON.

Every pod is bound once, and server and scheduler often share what processors there are. Whatever else is written is
JSON, for its fields are many and it is rare. A server that knows no protobuf answers 415 or 400 (kube-apiserver knows
it of all that is built into it); what is then done about it is up to the caller.

The numbers of fields are those of generated.proto: apimachinery/pkg/runtime (Unknown, TypeMeta), meta/v1 (ObjectMeta)
and api/core/v1 (Binding, ObjectReference), Kubernetes 1.36; they never change once they are released.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
"""The content type."""

_MAGIC: Final = b"k8s\x00"
_LENGTH_DELIMITED: Final = 2
_SEVEN_BITS: Final = 7
_CONTINUED: Final = 0x80
_LONGEST_SHARED: Final = 1024
"""Characters of an annotation that may be kept for other bindings: long ones are of one pod, and would fill memory."""


def binding(namespace: str, name: str, uid: str, node: str, annotations: Mapping[str, str]) -> bytes:
    """Return the binding of a pod to a node (core/v1 Binding); its annotations reach the pod."""
    metadata = [_text(1, name), _shared_text(3, namespace), _text(5, uid)]
    metadata += [_annotation(key, value) for key, value in annotations.items()]
    return _BINDING_BEGINS + _field(2, _field(1, b"".join(metadata)) + _target(node))


def _text(number: int, value: str) -> bytes:
    return _field(number, value.encode())


def _field(number: int, value: bytes) -> bytes:
    """Return a field with a number below 16, whose value says how long it is."""
    tag, length = number << 3 | _LENGTH_DELIMITED, len(value)
    if length < _CONTINUED:
        return bytes((tag, length)) + value
    digits = [tag]
    while length >= _CONTINUED:
        digits.append(length % _CONTINUED | _CONTINUED)
        length >>= _SEVEN_BITS
    return bytes((*digits, length)) + value


# What many bindings have in common is encoded once.
_shared_text = lru_cache(maxsize=1024)(_text)


def _annotation(key: str, value: str) -> bytes:
    return _shared_entry(key, value) if len(value) <= _LONGEST_SHARED else _entry(key, value)


def _entry(key: str, value: str) -> bytes:
    return _field(12, _text(1, key) + _text(2, value))


_shared_entry = lru_cache(maxsize=1024)(_entry)


@lru_cache(maxsize=8192)
def _target(node: str) -> bytes:
    return _field(2, _NODE + _text(3, node))


_BINDING_BEGINS: Final = _MAGIC + _field(1, _text(1, "v1") + _text(2, "Binding"))
_NODE: Final = _text(1, "Node")
