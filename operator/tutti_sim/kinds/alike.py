"""Pod specifications that are alike: what is found out about one of them holds for all.

The pods of a gang differ in their names, and in what their environment says about their rank. Neither decides which
fields a pod sets, which it is given by default, or whether it is valid. So what does not decide is blotted out, and the
rest, as bytes, is what the findings are kept by: a pod like one that was seen is neither read field by field nor
checked again.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import msgspec

from tutti_sim.kinds.decode import Notes, decoder
from tutti_sim.kinds.mismatch import DecodeError
from tutti_sim.kinds.poddefaults import default_pod
from tutti_sim.kinds.podrules import check_spec
from tutti_sim.kinds.podwarnings import warn_of_spec
from tutti_sim.kinds.resource import BuiltinCodec
from tutti_sim.meta import Json

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
_read = decoder("PodSpec")

_BLOT: Final = "x"
_OF_ONE_POD: Final = ("nodeName", "hostname")
_CONTAINERS: Final = ("containers", "initContainers")
_LONGEST: Final = 1 << 14
_KEPT: Final = 512


def pattern(spec: Any) -> bytes:
    """What a pod's specification has in common with those that are alike; empty where it is long, or no JSON object.

    Blotted out are texts that nobody looks at: the values of environment variables, the host name, and the node.
    """
    if not isinstance(spec, dict):
        return b""
    blotted = dict(spec)
    for name in _OF_ONE_POD:
        if _is_text(spec.get(name)):
            blotted[name] = _BLOT
    for field in _CONTAINERS:
        containers = spec.get(field)
        if isinstance(containers, list):
            blotted[field] = [_without_values(one) for one in containers]
    try:
        found = _encode(blotted)
    except (TypeError, ValueError, OverflowError, RecursionError):  # YAML has more than JSON
        return b""
    return found if len(found) < _LONGEST else b""


def is_sound(known: bytes) -> bool:
    """Whether there is nothing wrong with a specification of that pattern; False as well where there is no pattern."""
    return bool(known) and _is_sound(known)


def warnings(spec: Json, known: bytes) -> list[str]:
    """What the writer of a specification of that pattern is warned of; empty where there is no pattern."""
    return [] if known and not _is_odd(known) else warn_of_spec(spec, "spec")


class PodCodec(BuiltinCodec):
    """Reads pods, with their defaults; the specification from the pattern, where that has been read before."""

    def __init__(self) -> None:
        super().__init__("Pod")

    def decode(self, body: Json, notes: Notes) -> Json:
        """A fresh pod with the fields that the type knows, and those that a pod is given."""
        spec = body.get("spec")
        known = pattern(spec)
        read = _as_read(known) if known else b""
        if not read or spec is None:
            pod = super().decode(body, notes)
            default_pod(pod.setdefault("spec", {}))
            return pod
        pod = super().decode({**body, "spec": {}}, notes)
        pod["spec"] = _with_values(_decode(read), spec)
        notes.pattern = read
        return pod


@lru_cache(maxsize=_KEPT)
def _as_read(known: bytes) -> bytes:
    """A pattern as it is read, with its defaults; empty where it has unknown fields, or cannot be read."""
    notes = Notes()
    try:
        spec = _read(_decode(known), "spec", notes)
    except DecodeError:
        return b""
    if notes.unknown:
        return b""
    default_pod(spec)
    return _encode(spec)


@lru_cache(maxsize=_KEPT)
def _is_sound(known: bytes) -> bool:
    return not check_spec(_decode(known), "spec")


@lru_cache(maxsize=_KEPT)
def _is_odd(known: bytes) -> bool:
    """Whether there may be something to warn of; values that were blotted out may say more than the blot."""
    return bool(warn_of_spec(_decode(known), "spec"))


def _is_text(value: Any) -> bool:
    return value.__class__ is str and value != ""


def _without_values(container: Any) -> Any:
    """A container with the values of its variables blotted out; what is none stays as it is."""
    variables = container.get("env") if isinstance(container, dict) else None
    if not isinstance(variables, list):
        return container
    blotted = [{**one, "value": _BLOT} if _has_value(one) else one for one in variables]
    return {**container, "env": blotted}


def _has_value(variable: Any) -> bool:
    return isinstance(variable, dict) and _is_text(variable.get("value"))


def _with_values(spec: Json, given: Json) -> Json:
    """The specification with the texts that were blotted out; reading keeps containers and variables in their order."""
    for name in _OF_ONE_POD:
        if _is_text(given.get(name)):
            spec[name] = given[name]
    for field in _CONTAINERS:
        for container, theirs in zip(spec.get(field, ()), given.get(field) or (), strict=True):
            if theirs and theirs.get("env"):
                for variable, one in zip(container["env"], theirs["env"], strict=True):
                    if _has_value(one):
                        variable["value"] = one["value"]
    return spec
