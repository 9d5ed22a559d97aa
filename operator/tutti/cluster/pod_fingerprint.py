"""The fingerprint of the pods on a node, by which an agent says which of them its report knows.

Form: podfingerprint v001 (github.com/k8stopologyawareschedwg): of each pod xxhash64 of its name, seeded with that of
its namespace; the fingerprint is xxhash64 of these numbers in order. Algorithm: xxHash specification 0.1.1, XXH64.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

METHOD_EXCLUSIVE: Final = "with-exclusive-resources"
"""Only pods count that have something that is nobody else's; by every other method all count that have not ended."""

_PREFIX: Final = "pfp0v001"
_P1: Final = 0x9E3779B185EBCA87
_P2: Final = 0xC2B2AE3D27D4EB4F
_P3: Final = 0x165667B19E3779F9
_P4: Final = 0x85EBCA77C2B2AE63
_P5: Final = 0x27D4EB2F165667C5
_MASK: Final = (1 << 64) - 1
_STRIPE: Final = 32


def is_fingerprint(text: str) -> bool:
    """Whether a text is a fingerprint of the form that is known here."""
    return text.startswith(_PREFIX)


def fingerprint(pods: Iterable[tuple[str, str]]) -> str:
    """Return the fingerprint of pods, by namespace and name, in whatever order they come."""
    numbers = sorted(_pod_hash(namespace, name) for namespace, name in pods)
    return f"{_PREFIX}{xxhash64(b''.join(number.to_bytes(8, 'little') for number in numbers)):016x}"


@lru_cache(maxsize=1 << 16)  # each pod is looked at whenever one comes to its node or leaves it
def _pod_hash(namespace: str, name: str) -> int:
    return xxhash64(name.encode(), _namespace_hash(namespace))


@lru_cache(maxsize=4096)
def _namespace_hash(namespace: str) -> int:
    return xxhash64(namespace.encode())


def xxhash64(data: bytes, seed: int = 0) -> int:
    """Return the XXH64 of some bytes."""
    at, end = 0, len(data)
    if end >= _STRIPE:
        lanes = [(seed + _P1 + _P2) & _MASK, (seed + _P2) & _MASK, seed, (seed - _P1) & _MASK]
        while at <= end - _STRIPE:
            for lane in range(4):
                lanes[lane] = _round(lanes[lane], int.from_bytes(data[at : at + 8], "little"))
                at += 8
        turns = zip(lanes, (1, 7, 12, 18), strict=True)
        found = sum(_turned(lane, by) for lane, by in turns) & _MASK
        for lane in lanes:
            found = ((found ^ _round(0, lane)) * _P1 + _P4) & _MASK
    else:
        found = (seed + _P5) & _MASK
    found = (found + end) & _MASK
    while at + 8 <= end:
        found ^= _round(0, int.from_bytes(data[at : at + 8], "little"))
        found = (_turned(found, 27) * _P1 + _P4) & _MASK
        at += 8
    if at + 4 <= end:
        found ^= (int.from_bytes(data[at : at + 4], "little") * _P1) & _MASK
        found = (_turned(found, 23) * _P2 + _P3) & _MASK
        at += 4
    for byte in data[at:]:
        found = (_turned(found ^ ((byte * _P5) & _MASK), 11) * _P1) & _MASK
    found = ((found ^ (found >> 33)) * _P2) & _MASK
    found = ((found ^ (found >> 29)) * _P3) & _MASK
    return found ^ (found >> 32)


def _round(lane: int, word: int) -> int:
    return (_turned((lane + word * _P2) & _MASK, 31) * _P1) & _MASK


def _turned(number: int, by: int) -> int:
    return ((number << by) | (number >> (64 - by))) & _MASK
