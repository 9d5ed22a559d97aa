"""Gangs that exist only as labels and annotations, or as objects of other projects: their sizes, and their PodGroups.

How large one is that only annotations describe its members say, as long as they agree. It may be made of several
roles, each a pod group of the workload with a minimum of its own. Members need not know the minimum of a role that is
not theirs; one that nobody has told yet is at least 1. A PodGroup is made for each such gang, so that its status can
be seen like any other's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tutti.api.conventions import GangMembership
from tutti.api.core import OwnerReference
from tutti.api.frameworks import OwnedGang
from tutti.api.kinds import PodGroup
from tutti.engine.core_state import CoreState
from tutti.engine.records.decisions import CreatePodGroup, DeletePodGroup
from tutti.engine.records.explanation import Explanation, Gate
from tutti.engine.records.members import Member, MemberGroup
from tutti.engine.records.observations import PodGroupWritten
from tutti.engine.records.workloads import Workload
from tutti.quota.ordering import backoff_seconds

IMPLICIT_LABEL = "scheduling.tutti.dev/implicit"
"""On PodGroups that were made for gangs which exist only as labels and annotations: these say how large they are."""


def read_sizes(workload: Workload) -> Explanation | None:
    """Take over the minimum of each pod group, and how many members may run at once, from the members that say so.

    Members that have ended, or are being deleted, belong to an earlier run: they are asked where there are no others.

    Returns:
        On what the members do not agree; None where they do.
    """
    claims = _claims(workload)
    roles: dict[str, int] = {}
    said: dict[str, dict[int, str]] = {}
    limits: dict[str, int] = {}
    for claim, who in claims:
        mine = claim.role or claim.group
        if claim.most is not None:
            limits[mine] = max(claim.most, limits.get(mine, 0))
        if claim.min_count is not None:
            said.setdefault(mine, {}).setdefault(claim.min_count, who)
        for role, least in claim.roles:
            roles[role] = max(least, roles.get(role, 0))
            if least:
                said.setdefault(role, {}).setdefault(least, who)
    if workload.placed_singly or not (roles or said):
        _scatter(workload)
    elif roles:
        _take_roles(workload, roles)
    elif workload.key[2] in workload.groups:
        workload.groups[workload.key[2]].min_count = max(*next(iter(said.values())), 0)
    for group in workload.groups.values():
        group.most = limits.get(group.name)
    return _contradiction(said, "sizes") or _contradiction(_timeouts(claims), "timeouts")


def sizes_are_told(workload: Workload) -> bool:
    """Whether somebody has said how many members each pod group must have."""
    known = {role for m in workload.members() for role, least in m.claim.roles if least}
    single = any(m.claim.min_count is not None for m in workload.members())
    return single or (bool(known) and known >= {role for m in workload.members() for role, _ in m.claim.roles})


def _take_roles(workload: Workload, roles: Mapping[str, int]) -> None:
    for role, least in roles.items():
        group = workload.group(role)
        if least or group.count is None:
            group.min_count = max(1, least)
        group.count = group.min_count  # it is looked for though it has no members yet
    for name, group in workload.groups.items():
        if name not in roles:
            group.min_count, group.count = 0, None


def _scatter(workload: Workload) -> None:
    """Have members placed one by one: the first that finds a node starts, and others join it."""
    for index, group in enumerate(sorted(workload.groups.values(), key=_has_ended)):
        group.min_count, group.count, group.promised = int(not index), None, None


def _has_ended(group: MemberGroup) -> bool:
    """Whether a group has no member that runs, may run or has succeeded."""
    tally = group.counts()
    return not (tally.live or tally.succeeded)


def _claims(workload: Workload) -> list[tuple[GangMembership, str]]:
    """Return what members say, each different claim once, with the name of the first that says so."""
    found: dict[tuple[object, ...], tuple[GangMembership, str]] = {}
    ended: dict[tuple[object, ...], tuple[GangMembership, str]] = {}
    for member in workload.members():
        claim, pod = member.claim, member.pod
        kind = (claim.role, claim.min_count, claim.roles, claim.timeout_seconds, claim.most)
        into = ended if pod.terminated or pod.deleting else found
        if kind not in into:
            into[kind] = (claim, pod.name)
    return list((found or ended).values())


def _timeouts(claims: Iterable[tuple[GangMembership, str]]) -> dict[str, dict[int, str]]:
    """Return the timeouts that members say, where they must be the same (pfnet: the spec of the gang)."""
    said: dict[int, str] = {}
    for claim, who in claims:
        if claim.convention == "pfnet" and claim.timeout_seconds is not None:
            said.setdefault(claim.timeout_seconds, who)
    return {"": said}


def _contradiction(said: Mapping[str, Mapping[int, str]], what: str) -> Explanation | None:
    for group, values in said.items():
        if len(values) > 1:
            told = ", ".join(f"{value} ({who})" for value, who in sorted(values.items()))
            of = f" {group}" if group else ""
            text = f"members of gang{of} give different {what}: {told}; give all the same"
            return Explanation(Gate.GATHER, "InvalidGang", text)
    return None


ASK_AGAIN_SECONDS, ASK_AGAIN_AT_MOST = 10.0, 300.0
"""How long after a PodGroup could not be written it is tried again: doubled each time it is refused on end, up to this.

What refuses it is a quota, or a policy, as a rule, which stays for hours, and may refuse those of many gangs.
"""


def keep_pod_group(state: CoreState, workload: Workload) -> None:
    """Have the PodGroup of an annotated gang made with its first pod, and removed with its last.

    None is made for pods that are all being deleted: what owns them is, too, as a rule, and whoever collects what
    belongs to nobody would delete it at once, and once more, for as long as they take.
    """
    kind, namespace, name = workload.key
    if kind != "PodGroup":
        return
    found = state.catalog.get(PodGroup, namespace, name)
    members = list(workload.members())
    managed = workload.managed
    owned = managed is not None or (bool(members) and isinstance(members[0].owned.gang, OwnedGang))
    declared = owned or (bool(members) and (workload.gang is not None or members[0].claim.implicit))
    is_wrong = workload.problem is not None and workload.problem.gate is not Gate.PERMIT
    stays = [member for member in members if not member.pod.deleting]
    if state.now < workload.write_at:
        state.set_alarm(workload, workload.write_at)
    elif found is None and declared and not is_wrong and (stays or not members):
        if workload.asked_for != "made" and (workload.gang is not None or owned or sizes_are_told(workload)):
            workload.asked_for = "made"
            made_for = {IMPLICIT_LABEL: "owner" if owned else members[0].claim.convention}
            owners = [managed.ref] if managed is not None else _owners(stays, namespace)
            state.out.append(CreatePodGroup(namespace, name, _spec(workload), made_for, owners))
    elif found is not None and not members and managed is None and IMPLICIT_LABEL in found.metadata.labels:
        if workload.asked_for == "deleted" or workload.given_up:
            return  # what is given up must stay so for other pods of the same owner, which takes its PodGroup along
        workload.asked_for = "deleted"
        state.out.append(DeletePodGroup(namespace, name, found.metadata.uid))
    else:
        workload.asked_for, workload.writes_refused = "", 0


def tell_note(state: CoreState, workload: Workload) -> None:
    """Tell once what of the object that describes a gang is not followed."""
    if workload.gang is None:
        return
    notes = (workload.gang.note,) if workload.gang.note else ()
    if notes and notes != workload.notes:
        state.announce(workload, "Warning", "ParentNotRead", workload.gang.note)
    workload.notes = notes


def _owners(members: Sequence[Member], namespace: str) -> list[OwnerReference]:
    """Return what makes the gang, or what controls its members; none for bare pods, and none across namespaces."""
    owners = [m.owned.top or m.marks.owner for m in members if m.pod.namespace == namespace]
    return list({one.uid: one for one in owners if one is not None}.values())


def _spec(workload: Workload) -> dict[str, Any]:
    """Return the spec of a PodGroup that asks for what a gang asks for."""
    spec: dict[str, Any] = {"schedulingPolicy": {"gang": {"minCount": workload.required}}}
    if workload.gang is not None:
        spec = dict(workload.gang.document)
    if workload.permit_seconds is not None:
        spec["scheduleTimeoutSeconds"] = workload.permit_seconds
    if workload.queue:
        spec["queueName"] = workload.queue
    return spec


def pod_group_written(state: CoreState, result: PodGroupWritten) -> None:
    """Take in what became of the request; one that failed is made again after a while."""
    workload = state.workloads.get(("PodGroup", result.namespace, result.name))
    if workload is None or result.done:
        return
    workload.asked_for = ""
    workload.writes_refused += 1
    base, most = ASK_AGAIN_SECONDS, ASK_AGAIN_AT_MOST
    workload.write_at = state.now + backoff_seconds(workload.writes_refused, state.random, base=base, most=most)
    state.set_alarm(workload, workload.write_at)
