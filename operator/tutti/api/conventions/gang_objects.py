"""Objects of other projects that say how large a gang is and what it wants, read as if they were PodGroups of ours.

Each kind is read by the rules of its own project: the native workload API (Kubernetes 1.35 has pod groups inside its
Workloads, 1.36 and 1.37 PodGroups), scheduler-plugins and what came before it, and Volcano. What is asked for and
cannot be given is a problem of the gang, never left out in silence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple

import msgspec
from pydantic import ValidationError

from tutti.api.conditions import legible_conditions
from tutti.api.conventions.membership import MOST_MEMBERS, quoted
from tutti.api.core import OwnerReference, PodResourceClaim
from tutti.api.kinds.parsing import without_nulls
from tutti.api.kinds.pod_group import PodGroupSpec
from tutti.api.messages import join_listed
from tutti.api.problems import problems_of
from tutti.api.resources import AmountError, parse_requests


class GangKind(NamedTuple):
    """A kind of such objects: where it may be served, newest version first, and the convention that names them."""

    group: str
    kind: str
    plural: str
    versions: tuple[str, ...]
    convention: str


GANG_KINDS = (
    GangKind("scheduling.k8s.io", "PodGroup", "podgroups", ("v1beta1", "v1alpha2"), "kubernetes"),
    GangKind("scheduling.k8s.io", "Workload", "workloads", ("v1alpha1",), "kubernetes"),
    GangKind("scheduling.x-k8s.io", "PodGroup", "podgroups", ("v1alpha1",), "scheduler_plugins"),
    GangKind("scheduling.sigs.k8s.io", "PodGroup", "podgroups", ("v1alpha1",), "scheduler_plugins"),
    GangKind("scheduling.volcano.sh", "PodGroup", "podgroups", ("v1beta1",), "volcano"),
)
"""Every kind that is read, by whichever of its versions the server has."""

CONDITIONS: Mapping[str, str] = {
    "scheduling.k8s.io/v1alpha2": "PodGroupScheduled",
    "scheduling.k8s.io/v1beta1": "PodGroupInitiallyScheduled",
}
"""What the condition is called by which a scheduler says that a native pod group has been scheduled."""

MOST_GROUP_CLAIMS = 4
"""So many claims a native pod group may list (Kubernetes 1.36, MaxPodGroupResourceClaims)."""


@dataclass(frozen=True, slots=True)
class GangObject:
    """What one of these objects says of one gang.

    Attributes:
        convention: Pods name it in this convention, by `name`.
        name: Of the object; of a pod group in a Workload of Kubernetes 1.35, `workload/group`.
        document: The spec of a PodGroup of ours that asks for the same.
        spec: The same, read; None where there is a problem.
        roles: The minimum of each role (Volcano: minTaskMember), where it counts.
        min_resources: What must be free in the cluster before any of it is placed, in scheduling units.
        priority: Given as a number, instead of a class.
        condition: The type of the condition that it is to be told by; "" where it has none.
        conditions: Its conditions as they stand.
        problem: What is wrong with it, or "".
        note: What of it is not followed, though it does no harm to the gang by itself, or "".
        claims: The claims on devices that are the group's, one for all members (KEP-5729).
        made_by: The Job of Volcano that it was made for, whose controller goes by its phase; None for none.
        phase: Of such a one, as it stands.
    """

    convention: str
    api_version: str
    namespace: str
    name: str
    uid: str
    generation: int
    document: dict[str, Any]
    spec: PodGroupSpec | None = None
    roles: tuple[tuple[str, int], ...] = ()
    min_resources: Mapping[str, int] = field(default_factory=dict)
    priority: int | None = None
    condition: str = ""
    conditions: tuple[Mapping[str, Any], ...] = ()
    problem: str = ""
    note: str = ""
    claims: tuple[PodResourceClaim, ...] = ()
    made_by: OwnerReference | None = None
    phase: str = ""


def gangs_in(api_version: str, kind: str, raw: Mapping[str, Any]) -> list[GangObject]:
    """Return the gangs that an object describes: one, or each pod group of a Workload of Kubernetes 1.35."""
    group = api_version.partition("/")[0]
    known = next(one for one in GANG_KINDS if (one.group, one.kind) == (group, kind))
    convention = {"scheduler_plugins": "schedulerPlugins"}.get(known.convention, known.convention)
    return [_gang(convention, api_version, raw, one) for one in _said(group, kind, raw)]


class _Gang(msgspec.Struct, frozen=True, rename="camel"):
    min_count: int = 1


class _Policy(msgspec.Struct, frozen=True):
    gang: _Gang | None = None


class _Key(msgspec.Struct, frozen=True):
    key: str


class _Constraints(msgspec.Struct, frozen=True):
    topology: list[_Key] = []


class _Native(msgspec.Struct, frozen=True, rename="camel"):
    """PodGroup `scheduling.k8s.io` (1.36: `disruptionMode` is a word; 1.37: an object with one key)."""

    scheduling_policy: _Policy = _Policy()
    scheduling_constraints: _Constraints | None = None
    disruption_mode: str | dict[str, Any] = ""
    priority_class_name: str = ""
    priority: Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)] | None = None
    parent_composite_pod_group_name: str = ""
    resource_claims: Annotated[list[PodResourceClaim], msgspec.Meta(max_length=MOST_GROUP_CLAIMS)] = []


class _Part(msgspec.Struct, frozen=True):
    name: str
    policy: _Policy = _Policy()


class _Workload135(msgspec.Struct, frozen=True, rename="camel"):
    pod_groups: list[_Part] = []


class _Coscheduling(msgspec.Struct, frozen=True, rename="camel"):
    min_member: int = 0
    min_resources: dict[str, str | int | float] | None = None
    schedule_timeout_seconds: int | None = None


class _Volcano(msgspec.Struct, frozen=True, rename="camel"):
    min_member: int = 0
    min_task_member: dict[str, Annotated[int, msgspec.Meta(ge=0, le=MOST_MEMBERS)]] | None = None
    min_resources: dict[str, str | int | float] | None = None
    queue: str = ""
    priority_class_name: str = ""
    network_topology: dict[str, Any] | None = None
    sub_group_policy: list[Any] | None = None


class _Said(NamedTuple):
    """What an object says of one gang, before it is checked."""

    part: str
    document: dict[str, Any]
    roles: tuple[tuple[str, int], ...] = ()
    min_resources: Mapping[str, str | int | float] = {}
    priority: int | None = None
    problem: str = ""
    note: str = ""
    claims: tuple[PodResourceClaim, ...] = ()


def _said(group: str, kind: str, raw: Mapping[str, Any]) -> Iterator[_Said]:
    spec = without_nulls(raw.get("spec") or {})
    try:
        if kind == "Workload":
            parts = msgspec.convert(spec, _Workload135).pod_groups
            times = Counter(part.name for part in parts)
            for part in {one.name: one for one in parts}.values():
                twice = f"spec.podGroups names {part.name!r} more than once" if times[part.name] > 1 else ""
                yield _Said(part.name, _policy(part.policy.gang.min_count if part.policy.gang else 0), problem=twice)
        elif group == "scheduling.k8s.io":
            yield _native(msgspec.convert(spec, _Native))
        elif group == "scheduling.volcano.sh":
            yield _volcano(msgspec.convert(spec, _Volcano))
        else:
            one = msgspec.convert(spec, _Coscheduling)
            document = _policy(one.min_member)
            if one.schedule_timeout_seconds:
                document["scheduleTimeoutSeconds"] = one.schedule_timeout_seconds
            yield _Said("", document, min_resources=one.min_resources or {})
    except msgspec.ValidationError as error:
        yield _Said("", {}, problem=f"spec cannot be read: {error}")


def _policy(least: int) -> dict[str, Any]:
    """Return the scheduling policy of a minimum; with none, members are placed one by one."""
    return {"schedulingPolicy": {"gang": {"minCount": least}} if least else {"basic": {}}}


def _native(one: _Native) -> _Said:
    document = _policy(one.scheduling_policy.gang.min_count if one.scheduling_policy.gang else 0)
    topology = one.scheduling_constraints.topology if one.scheduling_constraints else []
    if topology:
        document["schedulingConstraints"] = {"topology": [{"key": level.key} for level in topology]}
    mode = one.disruption_mode
    if mode == "PodGroup" or (isinstance(mode, dict) and "all" in mode):
        document["disruptionMode"] = "PodGroup"
    elif mode == "Pod" or (isinstance(mode, dict) and "single" in mode):
        document["disruptionMode"] = "Pod"
    if one.priority_class_name:
        document["priorityClassName"] = one.priority_class_name
    note = _parent(one.parent_composite_pod_group_name)
    return _Said("", document, priority=one.priority, note=note, claims=tuple(one.resource_claims))


def _parent(name: str) -> str:
    """Say that a pod group is placed without the others of its parent (Kubernetes 1.37 alpha: v1beta1 PodGroupSpec)."""
    if not name:
        return ""
    said = f"spec.parentCompositePodGroupName is {quoted(name)}, and Tutti does not read CompositePodGroups"
    return f"{said}: this group starts by itself, whatever becomes of the others below that one"


def _volcano(one: _Volcano) -> _Said:
    document = _policy(one.min_member)
    if one.queue not in ("", "default"):
        document["queueName"] = one.queue
    if one.priority_class_name:
        document["priorityClassName"] = one.priority_class_name
    roles = tuple((one.min_task_member or {}).items())
    if one.min_member < sum(least for _, least in roles):
        roles = ()  # as Volcano has it: the minimum of the whole is what counts then
    near = one.network_topology if one.network_topology and one.network_topology.get("mode") != "soft" else None
    beyond = "networkTopology" if near else "subGroupPolicy" if one.sub_group_policy else ""
    problem = f"spec.{beyond} is not supported: leave it out" if beyond else ""
    return _Said("", document, roles, _of_nodes(one.min_resources or {}), problem=problem)


_OF_QUOTAS = ("count/", "requests.", "limits.")
"""Begin names that ResourceQuotas have; Volcano's controller puts what pods use of these among minResources, too."""


def _of_nodes(amounts: Mapping[str, str | int | float]) -> dict[str, str | int | float]:
    """Return what nodes can have of minResources (Volcano ed72c7c8, scheduler/api/resource_info.go, NewResource)."""
    return {name: amount for name, amount in amounts.items() if not name.startswith(_OF_QUOTAS)}


def _gang(convention: str, api_version: str, raw: Mapping[str, Any], said: _Said) -> GangObject:
    meta, problem = raw["metadata"], said.problem
    spec: PodGroupSpec | None = None
    least: Mapping[str, int] = {}
    if not problem:
        try:
            spec, least = PodGroupSpec.model_validate(said.document), parse_requests(said.min_resources)
        except ValidationError as error:
            problem = join_listed(problems_of(error, PodGroupSpec))
        except AmountError as error:
            problem = f"minResources: {error}"
    return GangObject(
        convention=convention,
        api_version=api_version,
        namespace=str(meta.get("namespace", "")),
        name=f"{meta['name']}/{said.part}" if said.part else meta["name"],
        uid=str(meta.get("uid", "")),
        generation=int(meta.get("generation", 0)),
        document=said.document,
        spec=spec if not problem else None,
        roles=said.roles,
        min_resources=least,
        priority=said.priority,
        condition=CONDITIONS.get(api_version, ""),
        conditions=tuple(legible_conditions(raw.get("status"))),
        problem=problem,
        note=said.note,
        claims=said.claims,
        made_by=(made_by := _volcano_job(api_version, meta)),
        phase=_phase(raw.get("status")) if made_by else "",
    )


def _volcano_job(api_version: str, meta: Mapping[str, Any]) -> OwnerReference | None:
    """Return the Job that a PodGroup of Volcano was made for."""
    if not api_version.startswith("scheduling.volcano.sh/"):
        return None
    try:
        owners = msgspec.convert(meta.get("ownerReferences") or [], list[OwnerReference])
    except msgspec.ValidationError:
        return None
    jobs = (one for one in owners if one.controller and one.api_version.startswith("batch.volcano.sh/"))
    return next((one for one in jobs if one.kind == "Job"), None)


def _phase(status: object) -> str:
    phase = status.get("phase") if isinstance(status, dict) else None
    return phase if isinstance(phase, str) else ""
