"""The one rule: which gang a pod is in by what owns it.

The nearest owner decides whose kind has a rule for whole groups, unless what owns it makes such objects as parts of its
own (JobSet its Jobs, LeaderWorkerSet its StatefulSets). Kinds that are unknown or transparent are passed. Rules and
their sources per kind: `tutti.api.frameworks.kinds`. Precedence: a pod that says itself which gang it is in, in
whatever convention, or that is in a native group of policy Basic, is not asked about its owners.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from msgspec import structs

from tutti.api.conventions.membership import (
    MOST_MEMBERS,
    ConventionError,
    annotation_path,
    is_name,
    object_name,
    whole_number,
)
from tutti.api.framework_kind import FrameworkKind, PodRoles, ReplicaGroups
from tutti.api.frameworks.chain import OwnerChain
from tutti.api.frameworks.kinds import GANG_ANNOTATION
from tutti.api.frameworks.records import (
    GangAnswer,
    LaterRole,
    OwnedGang,
    OwnerAwaited,
    OwnerRole,
    PlacedAlone,
    PodMarks,
    ProjectedOwner,
    RolePart,
    SaidByPod,
    StartStage,
    UnusableOwner,
)
from tutti.api.frameworks.sizes import gang_size, later_stages, roles_placed_here
from tutti.api.frameworks.table import KindTable

LONGEST_LIKENESS: Final = 200
"""Characters of a name that is made here, before its hash."""
_DIGEST = 10
_MOST_DIGITS = 10


class _Deciding(NamedTuple):
    """Who decides: `top` names and keys the gang, `numbers` says how many pods there are.

    `child` stands right below `top`, `below` are all that stand below it, and `asked` those who may want no gang.
    """

    top: ProjectedOwner
    kind: FrameworkKind
    numbers: ProjectedOwner
    numbers_kind: FrameworkKind
    child: ProjectedOwner | None
    below: tuple[ProjectedOwner, ...]
    asked: tuple[ProjectedOwner, ...]


def gang_of(pod: PodMarks, chain: OwnerChain, kinds: KindTable, schedulers: Collection[str]) -> GangAnswer:
    """Return the gang that a pod is in by what owns it.

    Args:
        pod: The pod.
        chain: Its owners, nearest first.
        kinds: What is known of kinds.
        schedulers: The names under which pods are placed here; roles of others are left out.
    """
    if pod.says_group:
        return SaidByPod()
    if chain.awaited:
        return OwnerAwaited(chain.awaited)
    deciding = _deciding(chain.owners, kinds)
    if deciding is None:
        return _by_pod(pod, kinds) or PlacedAlone(chain.note)
    refused = _refused(pod, deciding)
    if refused is not None:
        return refused
    return _membership(pod, deciding, chain, frozenset(schedulers))


def _deciding(owners: Sequence[ProjectedOwner], kinds: KindTable) -> _Deciding | None:
    """Return who decides; None where nobody does."""
    for index, owner in enumerate(owners):
        top = index
        while top + 1 < len(owners) and _composes(owners[top + 1], owners[top], kinds):
            top += 1
        if top == index and not owner.together:
            continue
        numbers = top
        while numbers > index and _counts_by(owners[numbers], owners[numbers - 1], kinds):
            numbers -= 1
        kind, numbers_kind = kinds.get(*_of(owners[top])), kinds.get(*_of(owners[numbers]))
        if kind is not None and numbers_kind is not None:
            child = owners[top - 1] if top else None
            return _Deciding(
                owners[top], kind, owners[numbers], numbers_kind, child, tuple(owners[:top]), tuple(owners[numbers:])
            )
    return None


def _of(owner: ProjectedOwner) -> tuple[str, str]:
    return owner.group, owner.kind


def _composes(upper: ProjectedOwner, lower: ProjectedOwner, kinds: KindTable) -> bool:
    kind = kinds.get(*_of(upper))
    return kind is not None and kind.gang != "Transparent" and f"{lower.group}/{lower.kind}" in kind.composes


def _counts_by(upper: ProjectedOwner, lower: ProjectedOwner, kinds: KindTable) -> bool:
    kind = kinds.get(*_of(upper))
    return kind is not None and kind.numbers_of == f"{lower.group}/{lower.kind}"


def _refused(pod: PodMarks, deciding: _Deciding) -> GangAnswer | None:
    """Return what is said of a pod whose owners want no gang, or cannot be one; None where they are one."""
    for title, wish in [
        (f"Pod {pod.name}", pod.labels.get(GANG_ANNOTATION)),
        *((one.title, one.wish) for one in deciding.asked),
    ]:
        if wish == "Apart":
            return PlacedAlone(f"{GANG_ANNOTATION} of {title} is Apart")
        if wish == "Together":
            break
    for owner in (deciding.numbers, deciding.top):
        if owner.problems:
            return UnusableOwner(owner.title, owner.problems)
    if deciding.numbers.one_by_one:
        said = f"{deciding.numbers.title} makes its pods one by one, so they cannot be a gang"
        return PlacedAlone(f"{said}: they are one where {deciding.numbers.one_by_one}")
    return None


def _membership(pod: PodMarks, deciding: _Deciding, chain: OwnerChain, schedulers: frozenset[str]) -> GangAnswer:
    """Return the gang of a pod whose owner makes gangs."""
    if not deciding.numbers.stages:
        return PlacedAlone(f"{deciding.top.title} makes nothing that it could be placed with")
    roles = _roles(pod, deciding)
    if isinstance(roles, UnusableOwner):
        return roles
    part = _part_key(pod, deciding)
    if isinstance(part, OwnerAwaited | PlacedAlone):
        return part
    return _member_of(pod, deciding, chain.note, roles, part=part, schedulers=schedulers)


def _member_of(
    pod: PodMarks, deciding: _Deciding, note: str, roles: Sequence[OwnerRole], *, part: str, schedulers: frozenset[str]
) -> GangAnswer:
    """Return the gang of a pod by the roles of what makes it, and which part of that the pod belongs to."""
    stages = deciding.numbers.stages
    role = _role_of(pod, deciding)
    ours, left_out = roles_placed_here(roles, role, schedulers)
    stage = next((index for index, one in enumerate(stages) if role in one.roles), 0)
    size = gang_size(ours, stages, stage, deciding.numbers)
    # What is kept room for counts as well: all of it is what its PodGroup says is needed.
    needed = max(size.minimum, size.room) + _beside(ours, stages, stage)
    if needed > MOST_MEMBERS:
        problem = f"{needed} pods would have to start at once: at most {MOST_MEMBERS} can be one gang"
        return UnusableOwner(deciding.numbers.title, (problem,))
    workload = "/".join(one for one in (deciding.top.uid, part, _attempt(pod, deciding.numbers_kind)) if one)
    firsts = tuple(one.roles[0] if len(stages) > 1 else "" for one in stages)
    names = _stage_names(deciding.top.kind, deciding.top.name, firsts, workload)
    later = later_stages(ours, stages, stage, [one[1] for one in names])
    sub_group, found = _sub_group(pod, deciding.numbers_kind), ours.get(role)
    shared = deciding.numbers_kind.replica_groups is not None or not sub_group
    return OwnedGang(
        workload=workload,
        workload_name=_name(deciding.top.kind, deciding.top.name, "", workload),
        group=names[stage][0],
        group_name=names[stage][1],
        starts_with=names[_first_beside(stages, stage)][1],
        owner=deciding.top.title,
        minimum=size.minimum,
        count=size.count,
        most=size.most,
        role=role,
        sub_group=sub_group,
        domain=found.domain if found is not None else "",
        domain_key=(names[stage][0] if shared else sub_group) if found is not None and found.domain else "",
        joins_later=_joins_later(pod, found, deciding.numbers_kind),
        parts=size.parts,
        later=(*size.joins, *later),
        room=min(MOST_MEMBERS, size.room + sum([one.count for one in later if one.keeps_room])),
        suspended=deciding.top.suspended or deciding.numbers.suspended,
        notes=tuple(one for one in (*left_out, *size.notes, note) if one),
    )


def _beside(ours: Mapping[str, OwnerRole], stages: Sequence[StartStage], stage: int) -> int:
    """Return how many pods of other stages room is kept for when a stage begins."""
    after = [one for one in stages if stage in one.waits_for and stage not in one.finished]
    return sum([ours[name].replicas * ours[name].size for one in after for name in one.roles if name in ours])


def _roles(pod: PodMarks, deciding: _Deciding) -> tuple[OwnerRole, ...] | UnusableOwner:
    """Return the roles of a gang: of what has the numbers, and what the top makes later; by the size of a replica."""
    roles = deciding.numbers.roles
    if deciding.top is not deciding.numbers:
        known = {one.name for one in roles}
        roles += tuple(one for one in deciding.top.roles if one.later and one.name not in known)
    groups = deciding.numbers_kind.replica_groups
    if groups is None:
        return roles
    size = _replica_size(pod, groups, deciding.numbers.replica_size or 1)
    if isinstance(size, UnusableOwner):
        return size
    others = sum(one.replicas * one.size for one in roles if one.name != groups.sized)
    left = max(0, size - others)
    return tuple(
        structs.replace(one, replicas=left, least=min(left, one.least) if one.later else left, size=1)
        if one.name == groups.sized
        else one
        for one in roles
    )


def _replica_size(pod: PodMarks, groups: ReplicaGroups, default: int) -> int | UnusableOwner:
    """Return how many pods a replica has: as the pod says, whose replica may be of an older generation."""
    key = groups.size_annotation
    if key is None or key not in pod.labels:
        return default
    try:
        return whole_number(pod.labels, key, annotation_path(key), least=1) or default
    except ConventionError as error:
        return UnusableOwner(f"Pod {pod.name}", (str(error),))


def _part_key(pod: PodMarks, deciding: _Deciding) -> str | OwnerAwaited | PlacedAlone:
    """Return which part of the object the pod belongs to, where each part is a gang; "" where the object is one."""
    kind, child = deciding.kind, deciding.child
    if kind.numbers_of is not None:
        if child is not None and f"{child.group}/{child.kind}" == kind.numbers_of:
            return child.name
        if deciding.top.start is not None and deciding.top.suspended:
            return ""  # it makes what has the numbers when it is started
        if not deciding.top.current:
            return OwnerAwaited(f"{deciding.top.title} does not say yet which {kind.numbers_of} is in use")
        return deciding.top.current
    groups = kind.replica_groups
    if groups is None:
        return ""
    replica = pod.labels.get(groups.label)
    if not replica:
        return PlacedAlone(f"without the label {groups.label} nobody knows which replica it is of")
    if groups.led_by is None:
        return replica
    leader = next((one.uid for one in deciding.below if not one.group and one.kind == "Pod"), "")
    return f"{replica}/{leader or pod.uid}"


def _role_of(pod: PodMarks, deciding: _Deciding) -> str:
    """Return the role of a pod; "" where nobody knows it."""
    child = deciding.child
    if child is not None:
        by_owner = deciding.kind.pod_roles.by_owner.get(f"{child.group}/{child.kind}")
        if by_owner:
            return by_owner
    known = {one.name for one in (*deciding.numbers.roles, *deciding.top.roles)}
    role = next((one for one in _labelled_roles(pod, deciding.numbers_kind.pod_roles) if one in known), "")
    if role or any(key in pod.labels for key in deciding.numbers_kind.pod_roles.labels):
        return role
    first = [one.name for one in deciding.numbers.roles if not one.later]
    return first[0] if len(first) == 1 else ""


def _labelled_roles(pod: PodMarks, marks: PodRoles) -> Iterator[str]:
    """Yield the roles that the labels of a pod may mean, in the order in which they count."""
    values = [pod.labels[key].lower() for key in marks.labels if key in pod.labels]
    yield from (marks.names.get(value, value) for value in values)
    if values and marks.rest is not None:
        yield marks.rest


def _joins_later(pod: PodMarks, role: OwnerRole | None, kind: FrameworkKind) -> bool:
    """Whether a pod is made when others of its gang have a node or run."""
    if role is None:
        return False
    first = kind.leader_first
    return role.later or (role.leads and first is not None and pod.labels.get(first.label) != first.value)


def _sub_group(pod: PodMarks, kind: FrameworkKind) -> str:
    """Return which pods a pod is near to by its labels; "" where one of these is missing."""
    values = [pod.labels.get(key, "") for key in kind.sub_group_labels]
    return "-".join(values) if all(values) else ""


def _attempt(pod: PodMarks, kind: FrameworkKind) -> str:
    """Return how often all pods were made anew, as part of a key; "" where they never were, or nobody counts."""
    count = pod.labels.get(kind.attempt_label or "", "")
    return f"attempt-{int(count)}" if count.isdecimal() and len(count) <= _MOST_DIGITS and int(count) else ""


def _by_pod(pod: PodMarks, kinds: KindTable) -> GangAnswer | None:
    """Return the gang of a pod that carries the size of its replica, though the owner that says more is not read.

    Whether that one makes the other pods only when the first is ready is not known: so the first starts alone, and room
    is kept for all of them, which is right in either case.
    """
    for kind in kinds:
        groups = kind.replica_groups
        if groups is None or groups.size_annotation not in pod.labels or not pod.labels.get(groups.label):
            continue
        size = _replica_size(pod, groups, 1)
        if isinstance(size, UnusableOwner):
            return size
        replica = pod.labels[groups.label]
        roles = {one.name for one in kind.roles}
        role = next((one for one in _labelled_roles(pod, kind.pod_roles) if one in roles), "")
        key = f"{pod.namespace}/{kind.id}/{replica}"
        name = _made_name(f"{kind.kind}-{replica}", key)
        first = next((one.name for one in kind.roles if one.name != groups.sized), groups.sized)
        domain = next((pod.labels[one] for one in kind.domain_annotations if one in pod.labels), "")
        return OwnedGang(
            workload=key,
            workload_name=name,
            group=key,
            group_name=name,
            starts_with=name,
            owner=f"{kind.kind} of {replica}",
            minimum=1,
            count=size,
            role=role,
            sub_group=_sub_group(pod, kind),
            domain=domain,
            domain_key=key if domain else "",
            joins_later=role == groups.sized,
            parts=(RolePart(first, 1, 1, 1),),
            later=(LaterRole(groups.sized, size - 1),) if size > 1 else (),
            room=size,
            notes=(f"the {kind.kind} that it belongs to is not read",),
        )
    return None


def _first_beside(stages: Sequence[StartStage], stage: int) -> int:
    """Return which stage begins first of those that still run when a stage begins; stages in a ring are refused."""
    for _ in stages:
        beside = [one for one in stages[stage].waits_for if one not in stages[stage].finished]
        if not beside:
            break
        stage = beside[0]
    return stage


@lru_cache(maxsize=256)  # each pod of an object asks for them
def _stage_names(kind: str, owner: str, firsts: tuple[str, ...], workload: str) -> Sequence[tuple[str, str]]:
    """Return the key of the gang of each stage, and its name; those of the workload where there is one stage."""
    keys = [f"{workload}/{first}" if first else workload for first in firsts]
    return tuple((key, _name(kind, owner, first, key)) for first, key in zip(firsts, keys, strict=True))


def _name(kind: str, owner: str, part: str, key: str) -> str:
    return _made_name("-".join(one for one in (kind, owner, part) if one), key)


def _made_name(likeness: str, key: str) -> str:
    """Return a name that an object can have, like a text, and different for each key."""
    digest = hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest()[:_DIGEST]
    lower = likeness.lower()
    name = (lower if is_name(lower) else object_name(lower))[:LONGEST_LIKENESS].strip("-.")
    return f"{name}-{digest}"
