"""What a workload says while it is not there as a whole yet: what each of its pod groups lacks, or its claims.

Pods that are held back by scheduling gates are there, and count only once these are taken off.
"""

from __future__ import annotations

from collections.abc import Sequence

from tutti.api.messages import HAS, IS, agreeing, counted
from tutti.engine.records.explanation import Explanation, Gate
from tutti.engine.records.members import Member, MemberGroup

MOST_GROUPS = 3
"""How many pod groups are told of that have too few members."""


def gathering(groups: Sequence[MemberGroup]) -> Explanation:
    """Say of the pod groups of one workload that have too few members for it to be placed what each of them lacks."""
    least, there = sum(group.min_count for group in groups), str(sum(_ungated(group) for group in groups))
    said = [_absent(group) if _lacks_pods(group) else _gated(group) for group in groups[:MOST_GROUPS]]
    if len(groups) > MOST_GROUPS:
        said.append(f"{counted(len(groups) - MOST_GROUPS, 'more pod group', verb=HAS)} too few")
    text = f"{'; '.join(said)}; it is placed when"
    if any(_lacks_pods(group) for group in groups):
        text += f" {least} {agreeing(least, IS)}" if len(groups) == 1 else " each of them has all that it needs"
        return Explanation(Gate.GATHER, "WaitingForMembers", text, {"members": there, "minCount": str(least)})
    text += f" {least} {agreeing(least, HAS)} no scheduling gates"
    gated = str(sum(group.counts().gated for group in groups))
    return Explanation(Gate.GATHER, "SchedulingGated", text, {"members": there, "gated": gated})


def without_claims(members: Sequence[Member]) -> Explanation:
    """Say that claims of members are not made yet that are made from templates.

    Such a pod stands in nobody's way (kube-scheduler 1.36, plugins/dynamicresources, PreEnqueue).
    """
    first = members[0].pod.pod_class.devices.problem
    text = first if len(members) == 1 else f"claims of {len(members)} of its members are not made yet: {first}"
    return Explanation(Gate.GATHER, "WaitingForClaims", text, {"members": str(len(members))})


def _ungated(group: MemberGroup) -> int:
    """Return how many members count that nothing holds back."""
    tally = group.counts()
    return tally.waiting + tally.reserved + tally.placed


def _lacks_pods(group: MemberGroup) -> bool:
    """Whether there are too few members even if all gates were taken off."""
    return _ungated(group) + group.counts().gated < group.min_count


def _absent(group: MemberGroup) -> str:
    tally, there = group.counts(), _ungated(group)
    said = f"{there} of {counted(group.min_count, 'member')} of pod group {group.name}"
    said += f" {agreeing(there or group.min_count, IS)}"
    apart = [
        f"{count} {word}"
        for count, word in ((tally.gated, "gated"), (tally.leaving, "terminating"), (tally.failed, "failed"))
        if count
    ]
    return f"{said} there" + (f" ({', '.join(apart)} not counted)" if apart else "")


def _gated(group: MemberGroup) -> str:
    gated = group.counts().gated
    there = _ungated(group) + gated
    return f"{counted(there, 'member')} of pod group {group.name} {agreeing(there, IS)} there, {gated} gated"
