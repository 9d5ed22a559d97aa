"""What Go says of a value of another type than its field has: `cannot unmarshal array into Go struct field ...`.

Go names the innermost struct, the path of fields to the value (embedded structs among them; indices and keys of maps
are not told), and its own name of the type. Those names are in `gonames.json`, as kube-apiserver 1.36.2 says them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from tutti_sim.kinds import markers
from tutti_sim.meta.errors import GO_NAMES


def _load() -> Mapping[str, str]:
    raw = msgspec.json.decode(Path(__file__).with_name("gonames.json").read_bytes(), type=dict[str, list[str]])
    return {place: name for name, places in raw.items() for place in places}


_NAMED = _load()
_PLAIN = {
    "str": "string",
    "bool": "bool",
    "float": "float64",
    "bytes": "[]uint8",
    "time": "string",
    "micro": "string",
    "any": "int32",
}
_PREFIX = re.compile(
    r"(?:CoreV1|DiscoveryV1|RbacV1|AdmissionregistrationV1|ApiextensionsV1|ResourceV1|EventsV1|AuthenticationV1)(?=[A-Z])"
)
# Fields of these are in a struct that is embedded, but for those named here, or only those where it says so.
_OUTSIDE = {
    "Volume": ("VolumeSource", {"name"}),
    "EphemeralContainer": ("EphemeralContainerCommon", {"targetContainerName"}),
    "PersistentVolumeSpec": (
        "PersistentVolumeSource",
        {
            "accessModes", "capacity", "claimRef", "mountOptions", "nodeAffinity", "persistentVolumeReclaimPolicy",
            "storageClassName", "volumeAttributesClassName", "volumeMode",
        },
    ),
    "RuleWithOperations": ("Rule", {"operations"}),
}  # fmt: skip
_INSIDE = {
    "Probe": ("ProbeHandler", {"exec", "grpc", "httpGet", "tcpSocket"}),
    "IngressRule": ("IngressRuleValue", {"http"}),
    "DeviceClassConfiguration": ("DeviceConfiguration", {"opaque"}),
    "DeviceClaimConfiguration": ("DeviceConfiguration", {"opaque"}),
    "DeviceAllocationConfiguration": ("DeviceConfiguration", {"opaque"}),
    **{
        owner: ("LocalObjectReference", {"name"})
        for owner in (
            "ConfigMapEnvSource", "ConfigMapKeySelector", "ConfigMapProjection", "ConfigMapVolumeSource",
            "SecretEnvSource", "SecretKeySelector", "SecretProjection",
        )
    },
}  # fmt: skip


def struct_name(owner: str) -> str:
    """What Go calls a type of the table, which some groups share a name of."""
    return _PREFIX.sub("", owner)


@cache
def go_type(owner: str, field: str, kind: str) -> str:
    """What Go calls the type of a field."""
    return _NAMED.get(f"{owner}.{field}") or _type(owner, field, kind)


@cache
def go_item(owner: str, field: str, kind: str) -> str:
    """What Go calls the type of what a list or a map holds."""
    whole = _NAMED.get(f"{owner}.{field}", "")
    if whole.startswith("["):
        return whole[2:]
    if whole.startswith("map["):
        return whole.partition("]")[2]
    return _type(owner, field, kind[1:-1])


def _type(owner: str, field: str, kind: str) -> str:
    if kind[0] == "[":
        return "[]" + _type(owner, field, kind[1:-1])
    if kind[0] == "{":
        return "map[string]" + _type(owner, field, kind[1:-1])
    if kind == "int":
        return "int64" if markers.is_long(owner, field) else "int32"
    return _PLAIN.get(kind) or "v1." + struct_name(kind)


def go_path(owner: str, field: str) -> str:
    """A field as Go counts it in a path: after the struct that it is embedded by."""
    outside = _OUTSIDE.get(owner)
    if outside is not None:
        return field if field in outside[1] else f"{outside[0]}.{field}"
    inside = _INSIDE.get(owner)
    return f"{inside[0]}.{field}" if inside is not None and field in inside[1] else field


class DecodeError(Exception):
    """The document cannot be this type; the text is Go's."""


class SavedError(DecodeError):
    """A value that Go reads on after: it tells the first such, where nothing follows that it cannot read on after."""

    def under(self, owner: str, field: str) -> None:
        """Note the struct and the field that the value is in; most say nothing of that."""


class MismatchError(SavedError):
    """A value has another type than its field; whoever holds the field says where that is."""

    def __init__(self, value: Any, expected: str) -> None:
        super().__init__()
        self._value = value
        self._expected = expected
        self._owner = ""
        self._path = ""

    def under(self, owner: str, field: str) -> None:
        """Note the struct and the field that the value is in; the innermost comes first."""
        place = go_path(owner, field)
        self._owner = self._owner or struct_name(owner)
        self._path = f"{place}.{self._path}" if self._path else place

    def __str__(self) -> str:
        have = GO_NAMES.get(type(self._value), "value")
        if have == "number" and self._expected.startswith(("int", "float")):
            have += f" {self._value}"  # a number of the wrong kind, or beyond what the type holds
        where = f"Go struct field {self._owner}.{self._path}" if self._path else "Go value"
        return f"json: cannot unmarshal {have} into {where} of type {self._expected}"
