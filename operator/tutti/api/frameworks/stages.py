"""In which stages the roles of an object start, by what each waits for.

A gang of pods of which some are made only when others run would never start. So what is one gang is what is made at the
same moment: roles that wait for the same others. JobSet 08dfbdfd: with InOrder the next replicated job is made when all
replicas of the one before are ready, have failed or succeeded (pkg/controllers/startup_policy.go); `dependsOn` waits
for each role in its list by itself (pkg/controllers/depends_on.go).
"""

from __future__ import annotations

from collections.abc import Sequence

from tutti.api.frameworks.records import After, OwnerRole, StartStage


def start_stages(roles: Sequence[OwnerRole], *, in_order: bool) -> tuple[StartStage, ...]:
    """Return the stages of an object, each role in exactly one, in the order of their first roles.

    Roles are of one stage if they wait for the same roles to be the same: only then are their pods made together
    whatever happens. Two roles that merely might start together could each be what the other waits for.

    Args:
        roles: The roles, each with another name.
        in_order: Whether each of them waits for the one before to be ready, whatever it says itself.
    """
    waits = [frozenset(role.after) for role in roles]
    if in_order:
        before: list[tuple[After, ...]] = [(), *(((role.name, "Ready"),) for role in roles[:-1])]
        waits = [frozenset(one) for one in before[: len(roles)]]
    members: dict[frozenset[After], list[int]] = {}
    for index, wait in enumerate(waits):
        members.setdefault(wait, []).append(index)
    stages = list(members.values())
    masks = [sum(1 << index for index in stage) for stage in stages]
    begun, done = _before(roles, waits)
    return tuple(
        StartStage(
            tuple(roles[index].name for index in stage),
            tuple(other for other, mask in enumerate(masks) if other != mine and mask & begun[stage[0]]),
            tuple(other for other, mask in enumerate(masks) if other != mine and mask & ~done[stage[0]] == 0),
        )
        for mine, stage in enumerate(stages)
    )


def in_a_ring(roles: Sequence[OwnerRole], stages: Sequence[StartStage], *, in_order: bool) -> list[str]:
    """Return the roles that wait for themselves, by way of others or at once: nothing of them can ever start.

    Args:
        roles: The roles.
        stages: Their stages, as `start_stages` returns them.
        in_order: As there; what the roles say themselves counts for nothing then.
    """
    if in_order:
        return []
    alone = {role.name for role in roles if any(name == role.name for name, _ in role.after)}
    return [
        name
        for index, stage in enumerate(stages)
        for name in stage.roles
        if name in alone or any(index in stages[other].waits_for for other in stage.waits_for)
    ]


def _before(roles: Sequence[OwnerRole], waits: Sequence[frozenset[After]]) -> tuple[list[int], list[int]]:
    """Return which roles have begun before each role starts, and which have succeeded, as bits.

    These are what it waits for, and what that waited for. Roles may name one another in a ring (`in_a_ring`), or
    nobody: then the object was refused, or nothing of it starts.
    """
    index_of = {role.name: index for index, role in enumerate(roles)}
    begun, done = [0] * len(roles), [0] * len(roles)
    for _ in roles:
        before = [*begun, *done]
        for index, wait in enumerate(waits):
            for name, status in wait:
                other = index_of.get(name)
                if other is not None:
                    begun[index] |= begun[other] | 1 << other
                    done[index] |= done[other] | (1 << other if status == "Complete" else 0)
        if [*begun, *done] == before:
            break
    return begun, done
