"""ProvisioningRequests of cluster-autoscaler: read with bounds into one record, and written as they are asked for.

Kind: `provisioningrequests.autoscaling.x-k8s.io`, v1 (cluster-autoscaler 1.36, apis/provisioningrequest). Its spec
cannot be changed, and holds 1 to 32 pod sets, each a PodTemplate and a count. What came of it stands in conditions:
Accepted, Provisioned, Failed, BookingExpired, CapacityRevoked. Whoever may write there writes whatever he likes, so
only these five are looked at, and their texts are cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, Final

import msgspec

from tutti.api.core import Container, PodSpec, ResourceRequirements, View
from tutti.api.messages import escape_controls, shortened
from tutti.api.model import API_VERSION, GROUP
from tutti.api.resources import AmountError, parse_amounts

AUTOSCALING_GROUP: Final = "autoscaling.x-k8s.io"
REQUEST_VERSION: Final = "v1"
REQUESTS: Final = "provisioningrequests"
REQUEST_KIND: Final = "ProvisioningRequest"
MOST_POD_SETS: Final = 32
"""How many pod sets a request may have."""

ACCEPTED: Final = "Accepted"
PROVISIONED: Final = "Provisioned"
FAILED: Final = "Failed"
BOOKING_EXPIRED: Final = "BookingExpired"
CAPACITY_REVOKED: Final = "CapacityRevoked"
KNOWN_CONDITIONS: Final = (ACCEPTED, PROVISIONED, FAILED, BOOKING_EXPIRED, CAPACITY_REVOKED)

CONSUME_ANNOTATION: Final = "autoscaling.x-k8s.io/consume-provisioning-request"
"""Of a pod: the request whose nodes it is to have; such pods are kept out of ordinary scale-up."""
CLASS_ANNOTATION: Final = "autoscaling.x-k8s.io/provisioning-class-name"
"""Of a pod: the class of that request."""
WORKLOAD_LABEL: Final = f"{GROUP}/provisions-for"
"""Of requests and templates that are made here: the uid of the workload that they are for."""

_OWNERS: Final = ("Workload", "PodGroup")
_MOST_CONDITIONS: Final = 64
_MOST_DETAILS: Final = 64
_LONGEST_DETAIL: Final = 317
_PAUSE: Final = "registry.k8s.io/pause:3.10"
"""The image of containers of which the image is not known: nobody runs them."""


class RequestCondition(View, frozen=True):
    """What a request says of itself: whether it is so, why, and since when, Unix seconds (0 where that is not told)."""

    so: bool
    message: str = ""
    since: float = 0.0


class ProvisioningRequest(View, frozen=True):
    """A request, as far as it is followed.

    Attributes:
        owner: Kind, name and uid of the Workload or PodGroup that it was made for; empty where it is none of ours.
        changed: Whether its spec is not the one that it was made with.
        conditions: By type, those that are known here.
        details: What the class tells besides, by its own keys.
    """

    namespace: str
    name: str
    uid: str
    owner: tuple[str, str, str] | None = None
    changed: bool = False
    deleting: bool = False
    conditions: dict[str, RequestCondition] = {}
    details: dict[str, str] = {}

    def says(self, kind: str) -> RequestCondition | None:
        """Return a condition that is true; None where it is not."""
        found = self.conditions.get(kind)
        return found if found is not None and found.so else None


def read_request(raw: Mapping[str, Any]) -> ProvisioningRequest:
    """Read a request, whoever wrote it; what is not as it should be is as if it were not there."""
    meta, status = _mapping(raw, "metadata"), _mapping(raw, "status")
    conditions: dict[str, RequestCondition] = {}
    listed = status.get("conditions")
    for one in islice(listed if isinstance(listed, list) else [], _MOST_CONDITIONS):
        kind = one.get("type") if isinstance(one, Mapping) else None
        if kind in KNOWN_CONDITIONS:
            message = shortened(escape_controls(_text(one, "message") or _text(one, "reason")))
            conditions[kind] = RequestCondition(one.get("status") == "True", message, _seconds(one))
    told = _mapping(status, "provisioningClassDetails")
    details = {
        key: value
        for key, value in islice(told.items(), _MOST_DETAILS)
        if isinstance(value, str) and len(key) <= _LONGEST_DETAIL and len(value) <= _LONGEST_DETAIL
    }
    return ProvisioningRequest(
        _text(meta, "namespace"),
        _text(meta, "name"),
        _text(meta, "uid"),
        _owner(meta),
        changed=meta.get("generation", 1) not in (0, 1),
        deleting=bool(meta.get("deletionTimestamp")),
        conditions=conditions,
        details=details,
    )


def _owner(meta: Mapping[str, Any]) -> tuple[str, str, str] | None:
    """Return whose it is, where it was made here: its label and its owner say the same."""
    uid, owners = _text(_mapping(meta, "labels"), WORKLOAD_LABEL), meta.get("ownerReferences")
    for one in owners if uid and isinstance(owners, list) else []:
        kind = _text(one, "kind") if isinstance(one, Mapping) else ""
        if kind in _OWNERS and _text(one, "uid") == uid and _text(one, "apiVersion").startswith(f"{GROUP}/"):
            return kind, _text(one, "name"), uid
    return None


def _mapping(holder: Mapping[str, Any], field: str) -> Mapping[str, Any]:
    found = holder.get(field)
    return found if isinstance(found, Mapping) else {}


def _text(holder: Mapping[str, Any], field: str) -> str:
    found = holder.get(field)
    return found if isinstance(found, str) else ""


def _seconds(condition: Mapping[str, Any]) -> float:
    try:
        return max(0.0, datetime.fromisoformat(_text(condition, "lastTransitionTime")).timestamp())
    except (ValueError, OverflowError):
        return 0.0


class ProvisionedPods(msgspec.Struct, frozen=True):
    """Equal pods that nodes are asked for."""

    count: int
    spec: PodSpec
    labels: dict[str, str] = {}


def template_spec(
    spec: PodSpec, node_labels: Sequence[tuple[str, str]], tolerations: Sequence[Any], scheduler: str
) -> PodSpec:
    """Return the spec of a PodTemplate for pods of one class: what of their specs decides where they can go.

    Without the labels of the flavor the autoscaler would answer for another group of nodes. Claims, on volumes and on
    devices, are each pod's own and in no template.
    """
    added = [one for one in tolerations if one not in spec.tolerations]
    return msgspec.structs.replace(
        spec,
        scheduler_name=scheduler,
        node_selector={**dict(node_labels), **spec.node_selector},
        tolerations=[*spec.tolerations, *added],
        containers=_containers(spec.containers, "c"),
        init_containers=_containers(spec.init_containers, "i"),
        volumes=[],
    )


def _containers(given: Sequence[Container], prefix: str) -> list[Container]:
    """Return containers that a server takes: each with a name and an image, and of its ports those of the host.

    Of what cannot be shared out twice, such as devices, as much is the limit as is requested (core validation.go).
    """
    out = []
    for index, one in enumerate(given):
        whole = {name: amount for name, amount in one.resources.requests.items() if _is_never_shared(name)}
        resources = msgspec.structs.replace(one.resources, limits={**one.resources.limits, **whole})
        ports = [port for port in one.ports if port.host_port]
        name, image = one.name or f"{prefix}{index}", one.image or _PAUSE
        out.append(msgspec.structs.replace(one, name=name, image=image, ports=ports, resources=resources))
    return out


def _is_never_shared(resource: str) -> bool:
    domain, slash, _ = resource.rpartition("/")
    return resource.startswith("hugepages-") or (bool(slash) and not domain.endswith("kubernetes.io"))


def same_placement(raw: Mapping[str, Any], wanted: ProvisionedPods) -> bool:
    """Whether a PodTemplate that is there asks for the same nodes as one that is wanted, whoever made it."""
    template = _mapping(raw, "template")
    labels = _mapping(_mapping(template, "metadata"), "labels")
    try:
        found = msgspec.convert(template.get("spec"), PodSpec)
    except msgspec.ValidationError:
        return False
    return _as_placed(found) == _as_placed(wanted.spec) and dict(labels) == wanted.labels


def _as_placed(spec: PodSpec) -> PodSpec:
    """Return a spec without what a server fills in: limits that are not requested are."""
    return msgspec.structs.replace(
        spec,
        priority=None,
        preemption_policy="",
        restart_policy="",
        containers=[_requested(one) for one in spec.containers],
        init_containers=[_requested(one) for one in spec.init_containers],
    )


def _requested(one: Container) -> Container:
    """Return a container with every limit requested that it does not request (core/v1 defaults.go), in numbers."""
    said: dict[str, str | int | float] = {**one.resources.limits, **one.resources.requests}
    try:
        requests: dict[str, str | int | float] = {**parse_amounts(said)}
    except AmountError:
        requests = said
    return msgspec.structs.replace(one, resources=ResourceRequirements(requests))


def template_names(request: str, count: int) -> Iterator[str]:
    """Yield the names of a request's templates, of which there are so many."""
    return (f"{request}-{index}" for index in range(min(count, MOST_POD_SETS)))


def request_documents(
    namespace: str,
    name: str,
    owner: tuple[str, str, str],
    *,
    class_name: str,
    parameters: Mapping[str, str],
    pods: Sequence[ProvisionedPods],
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the PodTemplates of a request, and the request itself, as they are written.

    Args:
        namespace: That of the workload.
        name: Of the request; those of the templates follow from it.
        owner: Kind, name and uid of the Workload or PodGroup with which they go.
        class_name: The provisioning class.
        parameters: What that is given.
        pods: One template each.
    """
    kind, owner_name, uid = owner
    reference = {"apiVersion": API_VERSION, "kind": kind, "name": owner_name, "uid": uid, "controller": False}
    shared: dict[str, Any] = {"namespace": namespace, "labels": {WORKLOAD_LABEL: uid}, "ownerReferences": [reference]}
    templates: list[dict[str, Any]] = [
        {
            "apiVersion": "v1",
            "kind": "PodTemplate",
            "metadata": {**shared, "name": called},
            "template": {"metadata": {"labels": one.labels}, "spec": msgspec.to_builtins(one.spec)},
        }
        for called, one in zip(template_names(name, len(pods)), pods, strict=True)
    ]
    spec: dict[str, Any] = {
        "provisioningClassName": class_name,
        "podSets": [
            {"podTemplateRef": {"name": one["metadata"]["name"]}, "count": part.count}
            for one, part in zip(templates, pods, strict=True)
        ],
    }
    spec |= {"parameters": dict(parameters)} if parameters else {}
    api_version = f"{AUTOSCALING_GROUP}/{REQUEST_VERSION}"
    meta = {**shared, "name": name}
    return templates, {"apiVersion": api_version, "kind": REQUEST_KIND, "metadata": meta, "spec": spec}


def is_the_same(raw: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether a request that is there is the one that is wanted: for the same workload, of the same spec."""
    meta, expected = _mapping(raw, "metadata"), wanted["metadata"]
    owner = _owner(meta)
    if owner is None or owner[2] != expected["labels"][WORKLOAD_LABEL] or meta.get("deletionTimestamp"):
        return False
    found = {key: value for key, value in _mapping(raw, "spec").items() if value not in (None, {})}
    return found == dict(wanted["spec"])
