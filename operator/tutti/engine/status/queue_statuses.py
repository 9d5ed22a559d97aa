"""What the status of each queue should say now: counts, usage, how much of what is left can be used, and overuse.

Fields are Kueue's, but for `nominal`, `free`, `usable` and `largest` of a ClusterQueue, which are ours: quota that is
free helps nobody while the nodes behind it are full, cordoned, tainted or not there. A queue is told anew when
something happened in it, and all of them at most every `NODES_SECONDS` when pods or nodes have changed, so that a
cluster at work does not write for the sake of these figures.

ClusterQueues and Cohorts that use more quota than there is are told by an event once, and a condition while it lasts;
figures under the same heading are told anew every `REFRESH_SECONDS` at most. All of them are looked at when quota has
been written anew, and those in which something has happened after each turn. The conditions of these kinds are written
by whoever keeps the others of them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from tutti.api.conditions import is_true
from tutti.api.kinds import ClusterQueue, Cohort
from tutti.api.kinds.queues import MOST_USERS_TOLD
from tutti.api.messages import listed
from tutti.api.model import API_VERSION
from tutti.api.resources import format_amount
from tutti.cluster.capacity import FreeCapacity, free_capacity
from tutti.engine.admission import queue_orders, usage_history
from tutti.engine.records.counters import OveruseReport, QueueCount
from tutti.engine.records.decisions import EmitEvent, PatchStatus
from tutti.engine.records.explanation import REFRESH_SECONDS
from tutti.engine.records.faults import Whose
from tutti.engine.records.workloads import ObjectKey
from tutti.engine.status import StatusState
from tutti.engine.status.moves import moves_of
from tutti.engine.status.statuses import as_found, news_of
from tutti.quota.holder_use import HeldShare
from tutti.quota.tree import FlavorResource, QuotaNode, Usage
from tutti.quota.usage import Overuse, overused_quota, usage_report
from tutti.quota.user_limits import LOCAL_QUEUE, holder_title

NODES_SECONDS = 10.0
"""How often, at most, what is free on nodes is looked at for the sake of statuses."""


def next_queues_due(state: StatusState) -> float | None:
    """Return when the figures of nodes should be told anew though nothing is observed, Unix seconds.

    Where that time has passed, what has made them stale was observed just now, and a turn follows anyway.
    """
    due = [state.free_at + NODES_SECONDS] if _is_stale(state) else []
    due += [state.past_use_at + _sampling(state)] if state.past_use else []
    return min((time for time in due if time > state.now), default=None)


def _is_stale(state: StatusState) -> bool:
    return state.tells_rooms and state.free_is_stale and bool(state.catalog.queues)


def _sampling(state: StatusState) -> int:
    return state.configuration.admission_fair_sharing.usage_sampling_interval_seconds


def report_queues(state: StatusState) -> None:
    """Write the statuses of the queues that something happened in, and of all where nodes have other figures."""
    if _is_stale(state) and state.now >= state.free_at + NODES_SECONDS:
        state.attempt_part("looking at what is free", partial(_look_at_nodes, state), None)
    sampled: dict[str, None] = {}
    if state.past_use and state.now >= state.past_use_at + _sampling(state):
        sampled, state.past_use_at = dict.fromkeys(state.past_use), state.now
        moved = (state.leads_to(*name.split("/", 1)) for name in sampled)
        state.queue_positions.moved.update(dict.fromkeys(moved))  # who has used less now may have used more before
    moving, state.moves.changed = state.moves.changed, {}
    if state.catalog.by_run_time or state.catalog.by_speed:
        queue_orders.count_runs(state)
    users, state.ledger.held_for.changed = state.ledger.held_for.changed, {}
    moving |= {name: None for name in users if name in state.catalog.queues and state.catalog.queues[name].user_limits}
    changed, state.changed_queues = {**state.changed_queues, **sampled, **moving}, {}
    for name in changed:
        namespace, _, local = name.rpartition("/")
        key = ("LocalQueue" if namespace else "ClusterQueue", namespace, local)
        uid = state.catalog.uid_of(key)
        act, whose = partial(_report_one, state, key, uid, is_sampled=name in sampled), Whose(*key, API_VERSION, uid)
        if not state.attempt(whose, "telling what is used", act, otherwise=False):
            state.changed_queues[name] = None


def _report_one(state: StatusState, key: ObjectKey, uid: str, *, is_sampled: bool) -> bool:
    """Write what is new of one queue; returns True, for it has been looked at."""
    _, namespace, local = key
    name = f"{namespace}/{local}" if namespace else local
    goes_by = None if is_sampled else _goes_by(state, key, name)
    if goes_by is not None and uid in state.counts.reported and state.counts.told_by.get(uid) == goes_by:
        return True
    state.counts.told_by.pop(uid, None)
    if namespace:
        past = usage_history.sample_usage(state, name) if state.catalog.by_past_use or state.past_use else None
        beside = {} if past is None else {"fairSharing": past}
        usage = _of_local_queue(state, name, namespace, local) | (beside if is_sampled else {})
        usage |= queue_orders.told_run_times(state, name) or {}
        _report_queue(state, key, name, usage, beside)
    else:
        said = _of_cluster_queue(state, name) | _of_users(state, name)
        if name in state.moves.plans or name in state.moves.past or state.moves.heard.get(name):
            said |= {"moves": moves_of(state, name)}
        _report_queue(state, key, name, said)
    if goes_by is not None and uid in state.counts.reported:
        state.counts.told_by[uid] = goes_by
    return True


def _goes_by(state: StatusState, key: ObjectKey, name: str) -> Hashable | None:
    """Return what all that is told of a queue follows from; None where that is more than what is used and counted."""
    (_, namespace, local), known = key, state.catalog
    if namespace:
        if known.by_past_use or state.past_use or known.by_run_time or known.by_speed or name in state.run_times:
            return None
        cluster_queue = state.leads_to(namespace, local)
    else:
        queue, found, moves = known.queues.get(name), known.get(ClusterQueue, "", name), state.moves
        if name in moves.plans or name in moves.past or moves.heard.get(name):
            return None
        if queue is None or queue.user_limits or found is None or found.status.users:
            return None
        cluster_queue = name
    return cluster_queue, state.ledger.changes.version(cluster_queue), state.free_at, state.counts.of(name).figures()


def _look_at_nodes(state: StatusState) -> None:
    nodes, before = state.cluster.nodes, state.free_by_flavor
    state.free_by_flavor = {
        name: free_capacity(nodes, flavor.node_labels, flavor.node_taints, flavor.tolerations)
        for name, flavor in state.catalog.flavors.items()
    }
    state.free_at, state.free_is_stale = state.now, False
    if any(not _same(room, before.get(name)) for name, room in state.free_by_flavor.items()):
        state.changed_queues.update(dict.fromkeys(state.catalog.queues))


def _same(room: FreeCapacity, before: FreeCapacity | None) -> bool:
    if before is None or len(before.total) != len(room.total):
        return False
    return bool((room.total == before.total).all() and (room.most == before.most).all())


def _report_queue(
    state: StatusState, key: ObjectKey, name: str, usage: dict[str, Any], beside: dict[str, Any] | None = None
) -> None:
    """Write what is new of a queue; what is said `beside` that is no reason to write."""
    found = state.catalog.find(key)
    if found is None:
        return
    count = state.counts.of(name)
    wanted = {
        "pendingWorkloads": count.pending,
        "reservingWorkloads": count.checking + count.admitted + count.leaving,
        "admittedWorkloads": count.admitted,
        **usage,
    }
    told = state.counts.reported.get(found.metadata.uid)
    if told is None:
        told = state.counts.reported[found.metadata.uid] = as_found(found)
    news = {field: value for field, value in wanted.items() if told.get(field) != value}
    if news:
        state.counts.reported[found.metadata.uid], news = news_of(told, wanted | (beside or {}))
        state.out.append(PatchStatus(*key, found.metadata.uid, news))


def _of_cluster_queue(state: StatusState, name: str) -> dict[str, Any]:
    """Return what is used of the quota of a ClusterQueue: reserved, and admitted with what is left."""
    node = state.ledger.tree.queues.get(name)
    if node is None:
        return {"flavorsReservation": [], "flavorsUsage": []}
    admitted = _less(node.usage, state.counts.of(name))
    reservation = _used_of(node, node.usage)
    usage = reservation if admitted is node.usage else _used_of(node, admitted)
    return {
        "flavorsReservation": _by_flavor(reservation),
        "flavorsUsage": _by_flavor({what: used | _left(state, what, node) for what, used in usage.items()}),
    }


def _of_users(state: StatusState, name: str) -> dict[str, Any]:
    """Return what users and groups have of a ClusterQueue that limits them; nothing of one that never did."""
    queue, found = state.catalog.queues.get(name), state.catalog.get(ClusterQueue, "", name)
    if queue is None or found is None or not (queue.user_limits or found.status.users):
        return {}
    told = []
    for holder, share in user_shares(state, name)[:MOST_USERS_TOLD] if queue.user_limits else ():
        kind, who = holder_title(holder)
        amounts = {one: format_amount(one, amount) for one, amount in sorted(share.resources.items())}
        told.append({"name": who, "kind": kind.capitalize(), "workloads": len(share.workloads), "resources": amounts})
    return {"users": told}


def user_shares(state: StatusState, queue: str) -> list[tuple[str, HeldShare]]:
    """Return which users and groups have anything of a queue, those with most workloads first."""
    use = state.ledger.held_for
    found = [(holder, use.of(queue, holder)) for holder in use.holders_in(queue)]
    named = [one for one in found if holder_title(one[0])[0] != LOCAL_QUEUE]
    return sorted(named, key=lambda one: (-len(one[1].workloads), one[0]))


def _of_local_queue(state: StatusState, name: str, namespace: str, local: str) -> dict[str, Any]:
    """Return what is used through one LocalQueue, of all that its ClusterQueue has quota of."""
    node = state.ledger.tree.queues.get(state.leads_to(namespace, local))
    if node is None:
        return {"flavorsReservation": [], "flavorsUsage": []}
    count = state.counts.of(name)
    admitted = _less(count.reserved, count)
    reservation = _totals(node, count.reserved)
    return {
        "flavorsReservation": reservation,
        "flavorsUsage": reservation if admitted is count.reserved else _totals(node, admitted),
    }


def _totals(node: QuotaNode, usage: Usage) -> list[dict[str, Any]]:
    """Return as figures what is used of all that a ClusterQueue has quota of."""
    return _by_flavor(
        {what: {"name": what[1], "total": format_amount(what[1], usage.get(what, 0))} for what in node.quotas}
    )


def _less(usage: Usage, count: QueueCount) -> Usage:
    """Return usage without that of workloads that are being taken out, or have no nodes yet."""
    return {what: amount - count.yielding.get(what, 0) for what, amount in usage.items()} if count.yielding else usage


def _used_of(node: QuotaNode, usage: Usage) -> dict[FlavorResource, dict[str, str]]:
    """Return as figures what is used of each quota of a ClusterQueue."""
    return {
        (flavor, resource): {
            "name": resource,
            "total": format_amount(resource, used.total),
            "borrowed": format_amount(resource, used.borrowed),
        }
        for (flavor, resource), used in usage_report(node, [usage]).items()
    }


def _left(state: StatusState, what: FlavorResource, node: QuotaNode) -> dict[str, str]:
    """Return what may still be used of a quota, and how much of that there is room for."""
    flavor, resource = what
    left = max(0, node.available(what))
    said = {"nominal": format_amount(resource, node.nominal(what)), "free": format_amount(resource, left)}
    room, column = state.free_by_flavor.get(flavor), state.cluster.nodes.resource_index.column(resource)
    if room is None:
        return said
    total, most = (int(one[column]) if column < len(one) else 0 for one in room)
    return said | {"usable": format_amount(resource, min(left, total)), "largest": format_amount(resource, most)}


def _by_flavor(figures: dict[FlavorResource, dict[str, str]]) -> list[dict[str, Any]]:
    """Return figures as statuses have them: a list of flavors with a list of resources each."""
    flavors: dict[str, list[dict[str, str]]] = {}
    for (flavor, _), one in figures.items():
        flavors.setdefault(flavor, []).append(one)
    return [{"name": flavor, "resources": resources} for flavor, resources in flavors.items()]


QUOTA_EXCEEDED = "QuotaExceeded"
"""The type of the condition, and the reason of the event."""

_OVERUSES_NAMED = 5
"""How many flavors and resources a message names; the rest is counted."""


def next_overuse_due(state: StatusState) -> float | None:
    """Return when to look for the sake of newer figures though nothing is observed, Unix seconds."""
    return state.overuses.look_at


OVERUSE = "telling who uses too much"
"""The part of the turn that does."""


def report_overuse(state: StatusState, moved: Iterable[str]) -> None:
    """Find who uses more than there is, and who does not any more.

    Args:
        state: The engine's memory.
        moved: The ClusterQueues whose usage may have changed.
    """
    over, tree = state.overuses, state.ledger.tree
    nodes: dict[ObjectKey, QuotaNode] = {}
    if over.tree is not tree:
        over.tree = tree
        nodes = {_key(node): node for node in (*tree.cohorts.values(), *tree.queues.values())}
        moved = ()
        for key in [key for key in over.reported if key not in nodes]:
            _forget(state, key)
    queues = [tree.queues[name] for name in moved if name in tree.queues]
    nodes.update((_key(one), one) for one in _concerned(state, queues))
    if over.look_at is not None and over.look_at <= state.now:
        over.look_at = None
        nodes = {_key(node): node for node in _all_reported(state)} | nodes
    for key, node in nodes.items():
        _look(state, key, overused_quota(node))


def _concerned(state: StatusState, queues: Iterable[QuotaNode]) -> Iterator[QuotaNode]:
    """Yield whose overuse may begin or end with what queues use: their own, and that of those that borrow beside them.

    Whoever borrows from a cohort has nothing left to borrow only where that, or one above it, is used beyond what it
    is given; so nobody else is looked at while no cohort above the queue is, or was.
    """
    seen: set[str] = set()
    for queue in queues:
        yield queue
        for cohort in queue.ancestors():
            if cohort.name in seen:
                break  # and so are those above it
            seen.add(cohort.name)
            yield cohort
            if _key(cohort) in state.overuses.reported or overused_quota(cohort):
                yield from cohort.below()


def _key(node: QuotaNode) -> ObjectKey:
    return (ClusterQueue.KIND if node.leaf else Cohort.KIND, "", node.name)


def _all_reported(state: StatusState) -> Iterable[QuotaNode]:
    tree = state.ledger.tree
    for kind, _, name in state.overuses.reported:
        yield (tree.queues if kind == ClusterQueue.KIND else tree.cohorts)[name]


def _look(state: StatusState, key: ObjectKey, found: Mapping[FlavorResource, Overuse]) -> None:
    over, before = state.overuses, state.overuses.reported.get(key)
    if not found:
        if before is not None:
            _forget(state, key)
        return
    message = _message(found)
    if before is not None and message == before.message:
        return
    if before is not None and state.now < before.at + REFRESH_SECONDS:
        again = before.at + REFRESH_SECONDS
        over.look_at = again if over.look_at is None else min(again, over.look_at)
        return
    over.reported[key] = OveruseReport(message, state.now)
    over.version += 1
    if before is None:
        _announce(state, key, message)


def _forget(state: StatusState, key: ObjectKey) -> None:
    del state.overuses.reported[key]
    state.overuses.version += 1


def _announce(state: StatusState, key: ObjectKey, message: str) -> None:
    """Record an event, unless the object says so already: this process may have started only now."""
    found = state.catalog.find(key)
    if not isinstance(found, ClusterQueue | Cohort):
        return  # a cohort that is only named: its queues are told
    if is_true(found.status.conditions, QUOTA_EXCEEDED):
        return
    about = (API_VERSION, *key, found.metadata.uid)
    state.out.append(EmitEvent(*about, "Warning", QUOTA_EXCEEDED, "Admitting", message))


def _message(found: Mapping[FlavorResource, Overuse]) -> str:
    parts = (_part(what, one) for what, one in sorted(found.items()))  # the same whoever came first
    return (
        f"more is used than there is quota for: {listed(parts, len(found), _OVERUSES_NAMED)}; "
        "nobody is taken out for that alone, "
        "and nobody is given more of it until enough has ended or the quota is raised"
    )


def _part(what: FlavorResource, one: Overuse) -> str:
    flavor, resource = what
    given = f"{format_amount(resource, one.used)} of {format_amount(resource, one.given)} {resource} of flavor {flavor}"
    return (
        given if one.borrowable is None else f"{given} (and {format_amount(resource, one.borrowable)} borrowed at most)"
    )
