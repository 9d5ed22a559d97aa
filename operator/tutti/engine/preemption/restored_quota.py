"""The quota that goes with a nomination, found anew after a restart.

A nomination is told by the nodes that pods are nominated for, and these tell the flavors. Whose quota it is that will
be used is told by who is leaving: as much of it is handed over as it is short of, or as it wants where just those are
leaving whom it was told to wait for, whole. Where it is short with all that leaves, more had yet to be asked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from tutti.cluster.pods import PodRecord
from tutti.engine.lifecycle.quota_usage import flavors_of, workload_of
from tutti.engine.preemption import PreemptionState
from tutti.engine.reading.resolution import queue_of
from tutti.engine.records.explanation import Explanation
from tutti.engine.records.members import Charge, Member
from tutti.engine.records.pod_sets import PodSetRequest
from tutti.engine.records.workloads import Phase, Workload, WorkloadKey
from tutti.quota.flavors import Queue, usage_of
from tutti.quota.tree import Usage, add_to

Charges = list[tuple[Charge, int]]


class WaitingQuota(NamedTuple):
    """What a workload that waits for victims uses of quota, and whose that is.

    Attributes:
        charges: What is used for it, and for how many pods each.
        handed: Who is leaving and uses some of that still, by name, and how much.
        pods: Those that leave with it.
        short: Whether it would be short even when these have left.
    """

    charges: Charges
    handed: list[tuple[str, Usage | None]]
    pods: list[PodRecord]
    short: bool = False


class Leaving(NamedTuple):
    """Somebody who is leaving.

    Attributes:
        workload: Who.
        members: Those of it that leave.
        usage: What these use of quota.
    """

    workload: Workload
    members: list[Member]
    usage: Usage


class LeavingTree(NamedTuple):
    """Who is leaving of one tree of queues, in the order of its queues, and what they use together."""

    by_key: dict[WorkloadKey, Leaving]
    usage: Usage


NOBODY_LEAVING = LeavingTree({}, {})


def who_is_leaving(state: PreemptionState) -> dict[str, LeavingTree]:
    """Return who is leaving of those that have quota, by what names their trees: looked for once for all who wait."""
    found: dict[str, LeavingTree] = {}
    for leaf in state.ledger.tree.queues.values():
        for holder in state.ledger.snapshot.holders(leaf.name):
            other = workload_of(state, holder)
            leaving = None if other is None else _leaving_of(other)
            if leaving is not None:
                tree = found.setdefault(state.ledger.root_of(leaf.name), LeavingTree({}, {}))
                if leaving.workload.key not in tree.by_key:
                    tree.by_key[leaving.workload.key] = leaving
                    add_to(tree.usage, leaving.usage)
    return found


def waiting_quota(
    state: PreemptionState,
    workload: Workload,
    needs: Sequence[PodSetRequest],
    victims: Iterable[PodRecord],
    leaving: Mapping[str, LeavingTree],
    by_rule: int | None = None,
) -> WaitingQuota:
    """Work out what a workload uses of quota whose victims are leaving; nothing where it needs none, or holds it.

    Args:
        state: The engine's memory.
        workload: Who waits.
        needs: Its pods.
        victims: Who is leaving where its pods are nominated.
        leaving: Who is leaving in all.
        by_rule: How many workloads it was told to wait for by the rules of queues; None where it was told otherwise.
    """
    queue = queue_of(state.catalog, workload, is_required=state.configuration.require_queue)
    if queue is None or isinstance(queue, Explanation) or workload.held_since is not None:
        return WaitingQuota([], [], [])
    tree = leaving.get(state.ledger.root_of(queue.name), NOBODY_LEAVING)
    mine = {one.workload.key: one for one in map(_leaving_of, _workloads_of(state, victims)) if one is not None}
    node, wanted, free = state.ledger.tree.queues[queue.name], Usage(), dict(tree.usage)
    for key, one in mine.items():
        add_to(free, {} if key in tree.by_key else one.usage)
    found = WaitingQuota(list(_charges(state, workload, queue, needs, free)), [], [])
    for charge, pods in found.charges:
        add_to(wanted, charge.usage, pods)
    missing = {what: amount - max(0, node.available(what)) for what, amount in wanted.items()}
    everybody = {**mine, **tree.by_key}
    are_those = len(everybody) == by_rule  # who has left has handed something over, too
    are_those = are_those and all(_is_whole(one.workload) for one in everybody.values())
    limit = dict(wanted if are_those else missing)
    for name, members, usage in ((one.workload.name, one.members, one.usage) for one in everybody.values()):
        if not any(amount > 0 for amount in limit.values()):
            break
        counted = state.ledger.held_by(name)  # without what it has handed over already
        gives = {what: min(amount, limit.get(what, 0), counted.get(what, 0)) for what, amount in usage.items()}
        gives = {what: amount for what, amount in gives.items() if amount > 0}
        if gives:
            found.handed.append((name, gives))
            found.pods.extend(member.pod for member in members)
            add_to(limit, gives, -1)
            add_to(missing, gives, -1)
    return found._replace(short=any(amount > 0 for amount in missing.values()))


def _charges(
    state: PreemptionState, workload: Workload, queue: Queue, needs: Sequence[PodSetRequest], leaving: Usage
) -> Iterator[tuple[Charge, int]]:
    """Yield what its nominated pods use; where none is, what its required pods do, in flavors that `leaving` tells."""
    nominated = any(member.nominated for need in needs for member in need.members)
    for need in needs:
        charged = need.pod_class.charged
        nodes = [member.nominated for member in need.members if member.nominated] if nominated else [""] * need.required
        for node, pods in Counter(nodes).items():
            if node:
                flavors = flavors_of(state, queue.name, {}, charged, node)
            else:
                total = {name: amount * pods for name, amount in charged.items()}
                flavors = _flavors_with_room(state, queue, total, leaving)
            yield Charge(queue.name, flavors, usage_of(flavors, charged), workload.name), pods


def _flavors_with_room(
    state: PreemptionState, queue: Queue, wanted: Mapping[str, int], leaving: Usage
) -> dict[str, str]:
    """Return the first flavors of a queue in which it has as much, if all has left that is leaving."""
    node, found = state.ledger.tree.queues[queue.name], dict[str, str]()
    for group in queue.groups:
        asked = {name: wanted[name] for name in group.covered if wanted.get(name, 0) > 0}
        for flavor in group.flavors if asked else ():
            room = {name: max(0, node.available((flavor, name))) + leaving.get((flavor, name), 0) for name in asked}
            if all(amount <= room[name] for name, amount in asked.items()):
                found |= dict.fromkeys(asked, flavor)
                break
    return found


def _usage_of(members: Iterable[Member]) -> Usage:
    total: Usage = {}
    for member in members:
        add_to(total, {} if member.charge is None else member.charge.usage)
    return total


def _workloads_of(state: PreemptionState, pods: Iterable[PodRecord]) -> list[Workload]:
    """Return the workloads that some pods are members of."""
    homes = dict.fromkeys(state.pod_group_of[pod.key][0] for pod in pods if pod.key in state.pod_group_of)
    return [state.workloads[key] for key in homes]


def _is_whole(workload: Workload) -> bool:
    """Whether no member has left yet of a workload that is leaving, as far as that is known."""
    tallies = [(group, group.counts().placed) for group in workload.groups.values()]
    return workload.phase is not Phase.LEAVING or all(had >= max(group.had, group.min_count) for group, had in tallies)


def _leaving_of(workload: Workload) -> Leaving | None:
    """Return what leaves of a workload; None where nothing does."""
    members = _leaving(workload)
    return Leaving(workload, members, _usage_of(members)) if members else None


def _leaving(workload: Workload) -> list[Member]:
    """Return the members that are leaving and for which nothing is kept: all of them, or those beyond its need."""
    if workload.phase is Phase.LEAVING:
        return [member for member in workload.members() if member.pod.place]
    tallies = ((group, group.counts()) for group in workload.groups.values())
    enough = all(tally.placed - tally.leaving >= group.min_count for group, tally in tallies)
    if not (enough or workload.key[0] == "Pod"):
        return []
    return [member for member in workload.members() if member.pod.place and member.pod.deleting]
