"""The columns that `kubectl get` shows for volumes, access, networking, devices and registrations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tutti_sim.kinds.columns import AGE, NAME, NONE, UNSET, status
from tutti_sim.kinds.resource import Column
from tutti_sim.meta import Json, selectors

MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
SHOWN = 3


def _at(*steps: str, absent: Any = "") -> Callable[[Json], Any]:
    """A cell that shows a field."""

    def cell(obj: Json) -> Any:
        found: Any = obj
        for step in steps:
            found = found.get(step) if isinstance(found, dict) else None
        return absent if found is None else found

    return cell


def _count(*steps: str) -> Callable[[Json], int]:
    cell = _at(*steps, absent=())
    return lambda obj: len(cell(obj))


def _modes(modes: Iterable[str]) -> str:
    return ",".join(MODES[one] for one in MODES if one in set(modes))


def _phase(obj: Json) -> str:
    return "Terminating" if obj["metadata"].get("deletionTimestamp") else str(status(obj, "phase", ""))


def _bound(cell: Callable[[Json], str]) -> Callable[[Json], str]:
    """A cell that is empty until a claim has its volume."""
    return lambda obj: cell(obj) if obj["spec"].get("volumeName") else ""


def _claim_of(obj: Json) -> str:
    claim = obj["spec"].get("claimRef")
    return f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else ""


_CLASS = Column("VolumeAttributesClass", _at("spec", "volumeAttributesClassName", absent=UNSET))
_MODE = Column("VolumeMode", _at("spec", "volumeMode", absent=UNSET), priority=1)


def _subjects(kind: str) -> Column:
    def cell(obj: Json) -> str:
        named = [one for one in obj.get("subjects") or () if one.get("kind") == kind]
        if kind == "ServiceAccount":
            return ", ".join(f"{one.get('namespace', '')}/{one.get('name', '')}" for one in named)
        return ", ".join(str(one.get("name", "")) for one in named)

    return Column(f"{kind}s", cell, priority=1)


_BINDING = (
    NAME,
    Column("Role", lambda obj: f"{obj.get('roleRef', {}).get('kind', '')}/{obj.get('roleRef', {}).get('name', '')}"),
    AGE,
    *map(_subjects, ("User", "Group", "ServiceAccount")),
)


def _quota(limits: bool) -> Callable[[Json], str]:
    def cell(obj: Json) -> str:
        hard, used = status(obj, "hard", {}), status(obj, "used", {})
        names = [one for one in sorted(hard) if one.startswith("limits.") == limits]
        return ", ".join(f"{one}: {used.get(one, '0')}/{hard[one]}" for one in names)

    return cell


def _few(values: list[str], separator: str = ",") -> str:
    if not values:
        return UNSET
    more = f" + {len(values) - SHOWN} more..." if len(values) > SHOWN else ""
    return separator.join(values[:SHOWN]) + more


def _slice_ports(obj: Json) -> str:
    return _few([str(one.get("port", "*")) for one in obj.get("ports") or ()])


def _slice_addresses(obj: Json) -> str:
    return _few([address for one in obj.get("endpoints") or () for address in one.get("addresses") or ()])


def _endpoints(obj: Json) -> str:
    found = [
        f"{address.get('ip', '')}:{port.get('port', 0)}"
        for subset in obj.get("subsets") or ()
        for port in subset.get("ports") or ()
        for address in subset.get("addresses") or ()
    ]
    return _few(found) if found else NONE


def _hosts(obj: Json) -> str:
    hosts = [one["host"] for one in obj["spec"].get("rules") or () if one.get("host")]
    return _few(hosts) if hosts else "*"


def _claim_state(obj: Json) -> str:
    gone = bool(obj["metadata"].get("deletionTimestamp"))
    states = ["deleted"] if gone else []
    if not status(obj, "allocation", None):
        return ",".join(states or ["pending"])
    return ",".join([*states, "allocated", *(["reserved"] if status(obj, "reservedFor", ()) else [])])


def _param_kind(obj: Json) -> str:
    kind = obj["spec"].get("paramKind")
    return f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}" if kind else UNSET


def _param_ref(obj: Json) -> str:
    given = obj["spec"].get("paramRef")
    if not given:
        return UNSET
    if given.get("name"):
        return f"{given['namespace']}/{given['name']}" if given.get("namespace") else str(given["name"])
    return selectors.selector_text(given.get("selector") or {})


def _audiences(obj: Json) -> str:
    return ",".join(one.get("audience", "") for one in obj["spec"].get("tokenRequests") or ()) or UNSET


COLUMNS: Mapping[str, tuple[Column, ...]] = {
    "PersistentVolumeClaim": (
        NAME,
        Column("Status", _phase),
        Column("Volume", _at("spec", "volumeName")),
        Column("Capacity", _bound(lambda obj: str(status(obj, "capacity", {}).get("storage", "0")))),
        Column("Access Modes", _bound(lambda obj: _modes(status(obj, "accessModes", ())))),
        Column("StorageClass", _at("spec", "storageClassName")),
        _CLASS,
        AGE,
        _MODE,
    ),
    "PersistentVolume": (
        NAME,
        Column("Capacity", _at("spec", "capacity", "storage", absent="0")),
        Column("Access Modes", lambda obj: _modes(obj["spec"].get("accessModes", ()))),
        Column("Reclaim Policy", _at("spec", "persistentVolumeReclaimPolicy")),
        Column("Status", _phase),
        Column("Claim", _claim_of),
        Column("StorageClass", _at("spec", "storageClassName")),
        _CLASS,
        Column("Reason", _at("status", "reason")),
        AGE,
        _MODE,
    ),
    "RoleBinding": _BINDING,
    "ClusterRoleBinding": _BINDING,
    "ResourceQuota": (NAME, Column("Request", _quota(False)), Column("Limit", _quota(True)), AGE),
    "NetworkPolicy": (
        NAME,
        Column("Pod-Selector", lambda obj: selectors.selector_text(obj["spec"].get("podSelector") or {}) or NONE),
        AGE,
    ),
    "ValidatingWebhookConfiguration": (NAME, Column("Webhooks", _count("webhooks"), type="integer"), AGE),
    "MutatingWebhookConfiguration": (NAME, Column("Webhooks", _count("webhooks"), type="integer"), AGE),
    "ValidatingAdmissionPolicy": (
        NAME,
        Column("Validations", _count("spec", "validations"), type="integer"),
        Column("ParamKind", _param_kind),
        AGE,
    ),
    "ValidatingAdmissionPolicyBinding": (
        NAME,
        Column("PolicyName", _at("spec", "policyName")),
        Column("ParamRef", _param_ref),
        AGE,
    ),
    "Endpoints": (NAME, Column("Endpoints", _endpoints), AGE),
    "EndpointSlice": (
        NAME,
        Column("AddressType", _at("addressType")),
        Column("Ports", _slice_ports),
        Column("Endpoints", _slice_addresses),
        AGE,
    ),
    "RuntimeClass": (NAME, Column("Handler", _at("handler")), AGE),
    "Ingress": (
        NAME,
        Column("Class", _at("spec", "ingressClassName", absent=NONE)),
        Column("Hosts", _hosts),
        Column("Address", lambda _: ""),
        Column("Ports", lambda obj: "80, 443" if obj["spec"].get("tls") else "80"),
        AGE,
    ),
    "IngressClass": (
        NAME,
        Column("Controller", _at("spec", "controller")),
        Column("Parameters", lambda obj: NONE if "parameters" not in obj["spec"] else _parameters(obj)),
        AGE,
    ),
    "ResourceClaim": (NAME, Column("State", _claim_state), AGE),
    "ResourceSlice": (
        NAME,
        Column("Node", _at("spec", "nodeName")),
        Column("Driver", _at("spec", "driver")),
        Column("Pool", _at("spec", "pool", "name")),
        AGE,
    ),
    "ResourceClaimTemplate": (NAME, AGE),
    "DeviceClass": (NAME, AGE),
    "DeviceTaintRule": (NAME, AGE),
    "CSINode": (NAME, Column("Drivers", _count("spec", "drivers"), type="integer"), AGE),
    "CSIDriver": (
        NAME,
        Column("AttachRequired", _at("spec", "attachRequired", absent=True), type="boolean"),
        Column("PodInfoOnMount", _at("spec", "podInfoOnMount", absent=False), type="boolean"),
        Column("StorageCapacity", _at("spec", "storageCapacity", absent=False), type="boolean"),
        Column("TokenRequests", _audiences),
        Column("RequiresRepublish", _at("spec", "requiresRepublish", absent=False), type="boolean"),
        Column("Modes", lambda obj: ",".join(obj["spec"].get("volumeLifecycleModes") or ()) or NONE),
        AGE,
    ),
    "VolumeAttachment": (
        NAME,
        Column("Attacher", _at("spec", "attacher"), format="name"),
        Column("PV", _at("spec", "source", "persistentVolumeName")),
        Column("Node", _at("spec", "nodeName")),
        Column("Attached", _at("status", "attached", absent=False), type="boolean"),
        AGE,
    ),
}


def _parameters(obj: Json) -> str:
    given = obj["spec"]["parameters"]
    group = f".{given['apiGroup']}" if given.get("apiGroup") else ""
    return f"{given.get('kind', '')}{group}/{given.get('name', '')}"
