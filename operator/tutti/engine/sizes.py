"""How large a gang is that exists only as labels and annotations: what its members say, as long as they agree.

A gang may be made of several roles, each a pod group of the workload with a minimum of its own. Members need not know
the minimum of a role that is not theirs; one that nobody has told yet is at least 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tutti.engine.explanation import Explanation, Gate
from tutti.engine.workloads import Group, Member, Workload

IMPLICIT_LABEL = "scheduling.tutti.dev/implicit"
"""On PodGroups that were made for gangs which exist only as labels and annotations: these say how large they are."""


def read(workload: Workload) -> Explanation | None:
    """Take over the minimum of each pod group, and how many members may run at once, from the members that say so.

    Members that have ended, or are being deleted, belong to an earlier run: they are asked where there are no others.

    Returns:
        On what the members do not agree; None where they do.
    """
    members = [m for m in workload.members() if not (m.pod.terminated or m.pod.deleting)] or list(workload.members())
    roles: dict[str, int] = {}
    said: dict[str, dict[int, str]] = {}
    for member in members:
        claim = member.claim
        if claim.min_count is not None:
            said.setdefault(claim.role or claim.group, {}).setdefault(claim.min_count, member.pod.name)
        for role, least in claim.roles:
            roles[role] = max(least, roles.get(role, 0))
            if least:
                said.setdefault(role, {}).setdefault(least, member.pod.name)
    if workload.scattered or not (roles or said):
        _scatter(workload)
    elif roles:
        _take_roles(workload, roles)
    elif workload.key[2] in workload.groups:
        workload.groups[workload.key[2]].min_count = max(*next(iter(said.values())), 0)
    for group in workload.groups.values():
        _limit(group)
    return _contradiction(said, "sizes") or _contradiction(_timeouts(members), "timeouts")


def are_told(workload: Workload) -> bool:
    """Whether somebody has said how many members each pod group must have."""
    known = {role for m in workload.members() for role, least in m.claim.roles if least}
    single = any(m.claim.min_count is not None for m in workload.members())
    return single or (bool(known) and known >= {role for m in workload.members() for role, _ in m.claim.roles})


def _take_roles(workload: Workload, roles: Mapping[str, int]) -> None:
    for role, least in roles.items():
        group = workload.groups.setdefault(role, Group(role))
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


def _has_ended(group: Group) -> bool:
    """Whether a group has no member that runs, may run or has succeeded."""
    tally = group.tally()
    return not (tally.live or tally.succeeded)


def _limit(group: Group) -> None:
    limits = [m.claim.most for m in group.members.values() if m.claim.most is not None]
    group.most = max(limits, default=None)


def _timeouts(members: Iterable[Member]) -> dict[str, dict[int, str]]:
    """Return the timeouts that members say, where they must be the same (pfnet: the spec of the gang)."""
    said: dict[int, str] = {}
    for member in members:
        claim = member.claim
        if claim.convention == "pfnet" and claim.timeout_seconds is not None:
            said.setdefault(claim.timeout_seconds, member.pod.name)
    return {"": said}


def _contradiction(said: Mapping[str, Mapping[int, str]], what: str) -> Explanation | None:
    for group, values in said.items():
        if len(values) > 1:
            told = ", ".join(f"{value} ({who})" for value, who in sorted(values.items()))
            of = f" {group}" if group else ""
            text = f"members of gang{of} give different {what}: {told}; give all the same"
            return Explanation(Gate.GATHER, "InvalidGang", text)
    return None
