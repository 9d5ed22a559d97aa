"""How an amount is divided among groups that lend each other what they do not need.

Rules: koordinator a7a1b76b, elasticquota/core/runtime_quota_calculator.go. For one resource and one level of groups,
with least = max(min, guarantee):

    request <= least   the request, or `least` where the group does not lend
    otherwise          `least`, and a part by weight of what is left, up to the request; what is above goes round again

Parts are whole units by the largest remainder, the first by name among equals, so that nothing is lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Group:
    """What one group has coming, and wants.

    Attributes:
        weight: Its part of what is left.
        least: What it can count on.
        guarantee: The same, where that is more.
        lends: Whether others may have what it does not ask for.
    """

    name: str
    weight: int
    request: int
    least: int = 0
    guarantee: int = 0
    lends: bool = True


def runtime_quota(total: int, groups: Sequence[Group]) -> dict[str, int]:
    """Divide an amount among groups, by name; where less is left than they can count on, it is exceeded."""
    having: dict[str, int] = {}
    wanting: list[Group] = []
    for group in groups:
        least = max(group.least, group.guarantee)
        having[group.name] = least
        if group.request > least:
            wanting.append(group)
        elif group.lends:
            having[group.name] = group.request
    left = total - sum(having.values())
    while left > 0 and wanting:
        parts = largest_remainder(left, {group.name: group.weight for group in wanting})
        if not parts:
            break
        left = 0
        for group in wanting:
            having[group.name] += parts.get(group.name, 0)
            left += max(0, having[group.name] - group.request)
            having[group.name] = min(having[group.name], group.request)
        wanting = [group for group in wanting if having[group.name] < group.request]
    return having


def largest_remainder(total: int, weights: dict[str, int]) -> dict[str, int]:
    """Divide into whole units by weight; what rounding loses goes to the largest remainders. Empty without weights."""
    whole = sum(weights.values())
    if whole <= 0:
        return {}
    parts = {name: weight * total // whole for name, weight in weights.items() if weight > 0}
    order = sorted(parts, key=lambda name: (-(weights[name] * total % whole), name))
    for name in order[: total - sum(parts.values())]:
        parts[name] += 1
    return parts
