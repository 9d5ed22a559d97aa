"""Gangs that run with fewer members than they need: what they have lost, what is kept for it, and what comes after.

All amounts are in scheduling units: cpu in milli-cores, memory in bytes, everything else in whole units.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping

import msgspec
from msgspec.structs import replace

from tutti.api.messages import IS, agreeing, counted
from tutti.api.resources import format_amount
from tutti.cli.views.drawing import ago
from tutti.engine.lifecycle import LifecycleState
from tutti.engine.lifecycle.losses import losses_of
from tutti.engine.lifecycle.member_loss import restarts_at, short_groups
from tutti.engine.records.explanation import Explanation
from tutti.engine.records.workloads import Workload
from tutti.quota.flavors import VIRTUAL
from tutti.quota.tree import Usage, add_to

_FIT, _WAIT = ("fits", "fit"), ("waits", "wait")


class NodeState(enum.StrEnum):
    """What has become of a node that members were on; only of one that works the room is kept."""

    WORKS = "Works"
    DOWN = "Down"
    GONE = "Gone"
    UNKNOWN = "Unknown"


class LostMembers(msgspec.Struct, frozen=True, rename="camel"):
    """Members that were lost with, or on, one node.

    Attributes:
        group: Their pod group.
        node: "" where nobody has seen where they were.
        count: How many.
        asks: What each of them asked for.
        state: What has become of the node.
    """

    group: str
    node: str
    count: int
    asks: Mapping[str, int]
    state: NodeState


class KeptQuota(msgspec.Struct, frozen=True, rename="camel"):
    """Quota that is in use for successors, though nobody uses it yet."""

    flavor: str
    resource: str
    amount: int


class DegradedGang(msgspec.Struct, frozen=True, rename="camel"):
    """How far a gang is from what it needs.

    Attributes:
        has: How many members have a node that works, or have succeeded; `required` must run together.
        since: Since when it is so, Unix seconds.
        action: Restart or Keep, as its onMemberLoss says.
        restarts_at: When it is taken out to start again whole unless it is whole before, Unix seconds; None: not at
            all.
        waiting: How many successors are there.
        missing: How many have to be created yet.
        waits_for: What it waits for, in words.
        lost: What it has lost, of what it lacks.
        kept: The quota that is kept for that.
    """

    has: int
    required: int
    since: float
    action: str
    restarts_at: float | None
    waiting: int
    missing: int
    waits_for: str
    lost: tuple[LostMembers, ...]
    kept: tuple[KeptQuota, ...]


def degraded_of(state: LifecycleState, workload: Workload) -> DegradedGang | None:
    """Return how far a gang is from what it needs; None where it does not run, or has what it needs."""
    if workload.degraded_since is None:
        return None
    tally, at = workload.counts(), restarts_at(workload)
    lacking = sum(group.lacking for group in short_groups(workload))
    coming = tally.waiting + tally.gated + tally.reserved
    return DegradedGang(
        tally.placed,
        workload.required,
        workload.degraded_since,
        _action(workload),
        at,
        coming,
        max(0, lacking - coming),
        "",
        tuple(_lost(state, workload)),
        tuple(quota_kept_for(state, workload)),
    )


def _action(workload: Workload) -> str:
    """Return what its onMemberLoss says becomes of a gang: Restart where that of any group that lacks members does."""
    said = {group.on_loss.action for group in short_groups(workload) if group.on_loss is not None}
    return "Restart" if "Restart" in said else "Keep"


def waiting_for(found: DegradedGang, why: Explanation | None) -> DegradedGang:
    """Return the same with what it waits for, given what its successors wait for; None where these fit."""
    if found.missing:
        said = f"waits for {counted(found.missing, 'successor')} to be created"
    elif why is not None:
        said = f"its {counted(found.waiting, 'successor', verb=_WAIT)}: {why.plain.removesuffix('.')}"
    else:
        fits = counted(found.waiting, "successor", verb=_FIT)
        said = f"its {fits} now, and {agreeing(found.waiting, IS)} not placed yet"
    return replace(found, waits_for=said)


def degraded_members(found: DegradedGang, now: float) -> str:
    """Say in a few words how many members it has, and for how long."""
    return f"{found.has} of {found.required} for {ago(now - found.since)}"


def degraded_end(found: DegradedGang, now: float) -> str:
    """Say in a few words what becomes of it."""
    if found.restarts_at is None:
        return "runs on (onMemberLoss: Keep)" if found.action == "Keep" else "runs on"
    if found.restarts_at <= now:
        return "restarted whole as soon as it could start again"
    return f"restarted whole in {ago(found.restarts_at - now)}"


def quota_amounts(kept: Iterable[KeptQuota]) -> str:
    """Say how much of which resources in which flavors."""
    return ", ".join(f"{format_amount(one.resource, one.amount)} {one.resource} ({one.flavor})" for one in kept)


def quota_kept_for(state: LifecycleState, workload: Workload) -> Iterator[KeptQuota]:
    """Return the quota that is kept for the successors of what a gang has lost."""
    kept = state.kept_for_successors.get(workload.key)
    usage: Usage = {}
    for charge, pods in () if kept is None else kept.charges:
        add_to(usage, charge.usage, pods)
    return (KeptQuota(*what, units) for what, units in usage.items())


def _lost(state: LifecycleState, workload: Workload) -> Iterator[LostMembers]:
    losses = [loss for group in short_groups(workload) for loss in losses_of(workload, group)[: group.lacking]]
    found: dict[tuple[object, ...], LostMembers] = {}
    for loss in losses:
        asks = {name: units for name, units in loss.amounts.items() if name != VIRTUAL}
        which = (loss.group, loss.node, tuple(asks.items()))
        before = found.get(which)
        count = 1 if before is None else before.count + 1
        found[which] = LostMembers(loss.group, loss.node, count, asks, _state_of(state, loss.node))
    return iter(found.values())


def _state_of(state: LifecycleState, node: str) -> NodeState:
    if not node:
        return NodeState.UNKNOWN
    if node not in state.cluster.nodes.rows:
        return NodeState.GONE
    return NodeState.WORKS if state.cluster.is_working(node) else NodeState.DOWN
