"""How many pods are in a gang: of each role, at once and in all, and who comes later.

What counts is what is placed here. Where a template names another scheduler, or says itself of which gang its pods are,
a minimum that counted them would never be reached.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tutti.api.conventions.membership import MOST_MEMBERS
from tutti.api.frameworks.records import LaterRole, OwnerRole, ProjectedOwner, RolePart, StartStage

MOST_NOTES: Final = 8
"""Sentences about roles that are left out."""


@dataclass(frozen=True, slots=True)
class GangSize:
    """How many there are in a gang.

    Attributes:
        parts: The roles whose members start together.
        joins: The roles whose members join them.
        minimum: How many must be placed at once; at least 1, and not bounded.
        count: How many members there are.
        most: To how many it may grow; None: not beyond `count`.
        room: For how many there must be room when it starts.
        notes: What is to be told of it, in sentences.
    """

    parts: tuple[RolePart, ...]
    joins: tuple[LaterRole, ...]
    minimum: int
    count: int
    most: int | None
    room: int
    notes: tuple[str, ...]


def roles_placed_here(
    roles: Sequence[OwnerRole], role: str, schedulers: frozenset[str]
) -> tuple[dict[str, OwnerRole], tuple[str, ...]]:
    """Return the roles that count, by name, and who is left out, in sentences.

    A pod that is placed here though its template names no scheduler of ours got that from a webhook: then what the
    templates of other roles say counts for these as it does for it.

    Args:
        roles: All roles of an object.
        role: That of the pod that is placed here; "": nobody knows it.
        schedulers: The names under which pods are placed here.
    """
    own = next((one.scheduler for one in roles if one.name == role), None)
    if own is None and not any(one.scheduler in schedulers for one in roles):
        schedulers |= {one.scheduler for one in roles}
    ours: dict[str, OwnerRole] = {}
    notes: list[str] = []
    for one in roles:
        if one.name != role and one.apart:
            notes.append(f"role {one.name} is not counted: {one.apart}")
        elif one.scheduler in schedulers or one.scheduler == own:
            ours[one.name] = one
        else:
            notes.append(f"role {one.name} is not counted: {one.scheduler or 'the default scheduler'} places it")
    return ours, tuple(notes[:MOST_NOTES])


def gang_size(
    ours: Mapping[str, OwnerRole], stages: Sequence[StartStage], stage: int, owner: ProjectedOwner
) -> GangSize:
    """Return how many are in the gang of one stage of an object.

    A stated minimum counts where all pods are made at once: of one that is made in stages nobody can say which pods it
    means. Roles that come later join the first stage.

    Args:
        ours: The roles that count.
        stages: The stages of the object.
        stage: Which of them.
        owner: The object that has the roles.
    """
    here = [ours[name] for name in stages[stage].roles if name in ours]
    leads = any(one.leads for one in here)
    parts = tuple(_part(one) for one in here)
    joining = [one for one in ours.values() if one.later] if stage == 0 else []
    joins = tuple(_joining(one) for one in joining)
    there = sum([one.count for one in parts])
    minimum = sum([one.minimum for one in parts])
    if owner.minimum is not None and len(stages) == 1 and not leads:
        minimum = min(owner.minimum, there)
        parts = tuple(RolePart(one.role, 0, one.count, one.total) for one in parts)
    minimum = max(1, minimum)
    room = (max(there, minimum) if leads else minimum) + sum([one.count for one in joins if one.keeps_room])
    count = max(minimum, min(there + sum([one.count for one in joins]), MOST_MEMBERS))
    most = min(sum([_grown(one) for one in (*here, *joining)]), MOST_MEMBERS)
    notes = _notes(owner, there, in_parts=len(stages) > 1 or leads)
    return GangSize(parts, joins, minimum, count, most if most > count else None, room, notes)


def later_stages(
    ours: Mapping[str, OwnerRole], stages: Sequence[StartStage], stage: int, names: Sequence[str]
) -> tuple[LaterRole, ...]:
    """Return the roles that are made after a stage has begun, as gangs of their own.

    Those that run beside it would never start if there were room for this stage only, and it would wait for them while
    it holds what it has: two such objects can block each other for good. So room is kept for these.

    Args:
        ours: The roles that count.
        stages: The stages of the object.
        stage: Which of them begins.
        names: The name of the gang of each stage.
    """
    found = []
    for index, one in enumerate(stages):
        if index == stage or stage not in one.waits_for:
            continue
        beside = stage not in one.finished
        for role in (ours[name] for name in one.roles if name in ours):
            count = min(role.replicas * role.size, MOST_MEMBERS)
            template = role.template if beside else {}
            found.append(LaterRole(role.name, count, names[index], beside, beside, template))
    return tuple(found)


def _part(role: OwnerRole) -> RolePart:
    count, total = role.replicas * role.size, (role.replicas if role.total is None else role.total) * role.size
    return RolePart(role.name, _at_once(role), count, max(count, total), role.template if role.leads else {})


def _joining(role: OwnerRole) -> LaterRole:
    template = role.template if role.keeps_room else {}
    return LaterRole(role.name, role.replicas * role.size, keeps_room=role.keeps_room, template=template)


def _at_once(role: OwnerRole) -> int:
    """Return how many pods of a role must be placed at once; of one whose leaders are made first, these."""
    return role.least * (min(1, role.size) if role.leads else role.size)


def _grown(role: OwnerRole) -> int:
    return max(role.replicas, role.most or 0) * role.size


def _notes(owner: ProjectedOwner, there: int, *, in_parts: bool) -> tuple[str, ...]:
    """Return what is to be told of a minimum that was stated."""
    if owner.minimum is None:
        return ()
    if in_parts:
        return (f"{owner.minimum_by} is not counted: {owner.title} does not make its pods all at once",)
    if owner.minimum > there:
        return (f"{owner.minimum_by} asks for {owner.minimum} pods, and {there} are made at first: they are enough",)
    return ()
