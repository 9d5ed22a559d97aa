"""What the status of each queue should say now: counts, usage, and how much of what is left can be used.

Fields are Kueue's, but for `nominal`, `free`, `usable` and `largest` of a ClusterQueue, which are ours: quota that is
free helps nobody while the nodes behind it are full, cordoned, tainted or not there. A queue is told anew when
something happened in it, and all of them at most every `LOOK_SECONDS` when pods or nodes have changed, so that a
cluster at work does not write for the sake of these figures.
"""

from __future__ import annotations

from typing import Any

from tutti.api.resources import format_amount
from tutti.cluster.supply import Room, free
from tutti.engine.admission import past_use
from tutti.engine.records.counting import Count
from tutti.engine.records.decisions import PatchStatus
from tutti.engine.records.spoilt import ObjectKey
from tutti.engine.state import State
from tutti.engine.status.statuses import as_found, news_of
from tutti.quota.tree import FlavorResource, QuotaNode, Usage
from tutti.quota.usage_report import Used, usage_report

LOOK_SECONDS = 10.0
"""How often, at most, what is free on nodes is looked at for the sake of statuses."""


def next_due(state: State) -> float | None:
    """Return when the figures of nodes should be told anew though nothing is observed, Unix seconds.

    Where that time has passed, what has made them stale was observed just now, and a turn follows anyway.
    """
    due = [state.rooms_at + LOOK_SECONDS] if state.rooms_stale and state.catalog.queues else []
    due += [state.past_use_at + _sampling(state)] if state.past_use else []
    return min((time for time in due if time > state.now), default=None)


def _sampling(state: State) -> int:
    return state.configuration.admission_fair_sharing.usage_sampling_interval_seconds


def tell(state: State) -> None:
    """Write the statuses of the queues that something happened in, and of all where nodes have other figures."""
    if state.rooms_stale and state.catalog.queues and state.now >= state.rooms_at + LOOK_SECONDS:
        _look(state)
    sampled: dict[str, None] = {}
    if state.past_use and state.now >= state.past_use_at + _sampling(state):
        sampled, state.past_use_at = dict.fromkeys(state.past_use), state.now
        moved = (state.leads_to(*name.split("/", 1)) for name in sampled)
        state.places.moved.update(dict.fromkeys(moved))  # who has used less now may have used more before
    changed, state.changed_queues = {**state.changed_queues, **sampled}, {}
    for name in changed:
        if "/" in name:
            namespace, local = name.split("/", 1)
            past = past_use.follow(state, name)
            beside = {} if past is None else {"fairSharing": past}
            usage = _of_local_queue(state, name, namespace, local) | (beside if name in sampled else {})
            _tell(state, ("LocalQueue", namespace, local), name, usage, beside)
        else:
            _tell(state, ("ClusterQueue", "", name), name, _of_cluster_queue(state, name))


def _look(state: State) -> None:
    nodes, before = state.cluster.nodes, state.rooms
    state.rooms = {
        name: free(nodes, flavor.node_labels, flavor.node_taints, flavor.tolerations)
        for name, flavor in state.catalog.flavors.items()
    }
    state.rooms_at, state.rooms_stale = state.now, False
    if any(not _same(room, before.get(name)) for name, room in state.rooms.items()):
        state.changed_queues.update(dict.fromkeys(state.catalog.queues))


def _same(room: Room, before: Room | None) -> bool:
    if before is None or len(before.total) != len(room.total):
        return False
    return bool((room.total == before.total).all() and (room.most == before.most).all())


def _tell(state: State, key: ObjectKey, name: str, usage: dict[str, Any], beside: dict[str, Any] | None = None) -> None:
    """Write what is new of a queue; what is said `beside` that is no reason to write."""
    found = state.catalog.find(key)
    if found is None:
        return
    count = state.counts.of(name)
    wanted = {
        "pendingWorkloads": count.pending,
        "reservingWorkloads": count.admitted + count.leaving,
        "admittedWorkloads": count.admitted,
        **usage,
    }
    told = state.counts.told.get(found.metadata.uid)
    if told is None:
        told = state.counts.told[found.metadata.uid] = as_found(found)
    news = {field: value for field, value in wanted.items() if told.get(field) != value}
    if news:
        state.counts.told[found.metadata.uid], news = news_of(told, wanted | (beside or {}))
        state.out.append(PatchStatus(*key, found.metadata.uid, news))


def _of_cluster_queue(state: State, name: str) -> dict[str, Any]:
    node = state.holdings.tree.queues.get(name)
    if node is None:
        return {"flavorsReservation": [], "flavorsUsage": []}
    admitted = _less(node.usage, state.counts.of(name))
    reservation = {what: _used(what, used) for what, used in usage_report(node, [node.usage]).items()}
    usage = {
        what: {**_used(what, used), **_left(state, what, node)} for what, used in usage_report(node, [admitted]).items()
    }
    return {"flavorsReservation": _by_flavor(reservation), "flavorsUsage": _by_flavor(usage)}


def _of_local_queue(state: State, name: str, namespace: str, local: str) -> dict[str, Any]:
    """Return what is used through one LocalQueue, of all that its ClusterQueue has quota of."""
    node = state.holdings.tree.queues.get(state.leads_to(namespace, local))
    if node is None:
        return {"flavorsReservation": [], "flavorsUsage": []}
    count = state.counts.of(name)
    admitted = _less(count.reserved, count)
    return {
        "flavorsReservation": _by_flavor({what: _total(what, count.reserved.get(what, 0)) for what in node.quotas}),
        "flavorsUsage": _by_flavor({what: _total(what, admitted.get(what, 0)) for what in node.quotas}),
    }


def _less(usage: Usage, count: Count) -> Usage:
    """Return usage without that of workloads that are being taken out."""
    return {what: amount - count.yielding.get(what, 0) for what, amount in usage.items()}


def _total(what: FlavorResource, amount: int) -> dict[str, str]:
    return {"name": what[1], "total": format_amount(what[1], amount)}


def _used(what: FlavorResource, used: Used) -> dict[str, str]:
    return {**_total(what, used.total), "borrowed": format_amount(what[1], used.borrowed)}


def _left(state: State, what: FlavorResource, node: QuotaNode) -> dict[str, str]:
    """Return what may still be used of a quota, and how much of that there is room for."""
    flavor, resource = what
    left = max(0, node.available(what))
    said = {"nominal": format_amount(resource, node.nominal(what)), "free": format_amount(resource, left)}
    room, column = state.rooms.get(flavor), state.cluster.nodes.axis.column(resource)
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
