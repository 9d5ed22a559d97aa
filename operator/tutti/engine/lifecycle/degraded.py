"""Whether a gang runs with fewer members than it needs: what it lacks, since and until when, and how that is said."""

from __future__ import annotations

from tutti.api.conditions import timestamp
from tutti.api.messages import HAS, IS, agreeing, counted
from tutti.engine.records.members import Group, Loss
from tutti.engine.records.reasons import Reason
from tutti.engine.records.workloads import Phase, Workload

_WAITS = ("waits", "wait")


def is_restarting(workload: Workload) -> bool:
    """Whether a gang was taken out because it had lost members, and has not been tried as a whole since."""
    if workload.phase not in (Phase.LEAVING, Phase.WAITING) or workload.had_turn:
        return False
    return workload.evicted is not None and workload.evicted.reason == Reason.MEMBER_LOST


def short_groups(workload: Workload) -> list[Group]:
    """Return the pod groups of a gang that runs, or starts again, that lack members whose successors are waited for."""
    if workload.key[0] == "Pod" or workload.problem is not None:
        return []
    if workload.phase is not Phase.SCHEDULED and not is_restarting(workload):
        return []
    return [group for group in workload.groups.values() if group.on_loss is not None and group.lacking]


def awaits_successors(workload: Workload) -> bool:
    """Whether a gang of which nothing runs any more is waited for all the same: it lost all of it, and others come."""
    if workload.key[0] == "Pod":
        return workload.tally().lost > 0
    return _has_some_to_come(workload) and bool(short_groups(workload))


def is_found_so(workload: Workload) -> bool:
    """Whether its status says of a gang that has just been found, and of which nothing runs, that it is degraded."""
    if workload.key[0] == "Pod":
        return workload.tally().lost > 0
    return workload.was_scheduled and workload.degraded_since is not None and _has_some_to_come(workload)


def _has_some_to_come(workload: Workload) -> bool:
    tally = workload.tally()
    return bool(tally.waiting or tally.gated or tally.lost or tally.reserved)


def restarts_at(workload: Workload) -> float | None:
    """Return when a degraded gang is taken out to start again whole, Unix seconds; None: not at all.

    One of which nothing runs does not run on with what is left, whatever it says (Keep): it would keep what it had for
    as long as one that waits exists.
    """
    if workload.degraded_since is None:
        return None
    said = [group.on_loss for group in short_groups(workload) if group.on_loss is not None]
    runs = workload.tally().bound > 0
    seconds = [one.window_seconds for one in said if one.action == "Restart" or not runs]
    return workload.degraded_since + min(seconds) if seconds else None


def describe(workload: Workload) -> str:
    """Say how many members a degraded gang has of how many it needs, what it waits for, and what will become of it."""
    tally, required = workload.tally(), workload.required
    have = tally.placed
    since = "" if workload.degraded_since is None else f" since {timestamp(workload.degraded_since)}"
    text = f"{have} of {counted(required, 'required member')} {agreeing(have, HAS)} a node that works{since}; "
    waiting, missing = tally.waiting + tally.reserved, required - have
    why = workload.shown
    if waiting < missing:
        text += f"waits for {counted(missing - waiting, 'successor')} to be created"
    elif why is not None:
        text += f"its {counted(waiting, 'successor', verb=_WAITS)} at the {why.gate} gate ({why.reason})"
    else:
        text += f"its {counted(waiting, 'successor', verb=IS)} being placed"
    at = restarts_at(workload)
    end = "it runs on as it is (onMemberLoss: Keep)" if at is None else f"it is restarted whole at {timestamp(at)}"
    return f"{text}; unless it is whole before, {end}" if at is not None else f"{text}; {end}"


def losses_of(workload: Workload, group: Group) -> list[Loss]:
    """Return what a group has lost, and the like of what it has for what nobody has seen it lose.

    No more than it has had in this run: that it needs more by now is no loss, and what it never had is not kept for it.
    """
    seen = [loss for loss in workload.losses if loss.group == group.name]
    like = next((m for m in group.members.values() if m.charge is not None), None)
    if like is None or like.charge is None:
        return seen
    unseen = min(group.lacking, group.had - group.tally().placed) - len(seen)
    return seen + [Loss(group.name, "", like.pod.klass.requests, like.charge.flavors, like.charge.queue)] * unseen
