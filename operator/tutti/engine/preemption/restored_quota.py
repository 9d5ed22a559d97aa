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
from tutti.engine.records.workloads import Phase, Workload
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


def waiting_quota(
    state: PreemptionState,
    workload: Workload,
    needs: Sequence[PodSetRequest],
    victims: Iterable[PodRecord],
    by_rule: int | None = None,
) -> WaitingQuota:
    """Work out what a workload uses of quota whose victims are leaving; nothing where it needs none, or holds it.

    Args:
        state: The engine's memory.
        workload: Who waits.
        needs: Its pods.
        victims: Who is leaving where its pods are nominated.
        by_rule: How many workloads it was told to wait for by the rules of queues; None where it was told otherwise.
    """
    queue = queue_of(state.catalog, workload, is_required=state.configuration.require_queue)
    if queue is None or isinstance(queue, Explanation) or workload.held_since is not None:
        return WaitingQuota([], [], [])
    leaves = {one: _leaving(one) for one in [*_workloads_of(state, victims), *_holders(state, queue)]}
    leaves = {one: members for one, members in leaves.items() if members}
    node, wanted, free = state.ledger.tree.queues[queue.name], Usage(), Usage()
    for members in leaves.values():
        add_to(free, _usage_of(members))
    found = WaitingQuota(list(_charges(state, workload, queue, needs, free)), [], [])
    for charge, pods in found.charges:
        add_to(wanted, charge.usage, pods)
    missing = {what: amount - max(0, node.available(what)) for what, amount in wanted.items()}
    are_those = len(leaves) == by_rule and all(map(_is_whole, leaves))  # who has left has handed something over, too
    limit = dict(wanted if are_those else missing)
    for one, leaving in leaves.items():
        gives, counted = _usage_of(leaving), state.ledger.held_by(one.name)  # without what it has handed over already
        gives = {what: min(amount, limit.get(what, 0), counted.get(what, 0)) for what, amount in gives.items()}
        gives = {what: amount for what, amount in gives.items() if amount > 0}
        if gives:
            found.handed.append((one.name, gives))
            found.pods.extend(member.pod for member in leaving)
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


def _holders(state: PreemptionState, queue: Queue) -> Iterator[Workload]:
    """Yield who has quota of the tree of a queue."""
    snapshot = state.ledger.snapshot
    for leaf in snapshot.queue(queue.name).root().leaves():
        for holder in snapshot.holders(leaf.name):
            other = workload_of(state, holder)
            if other is not None:
                yield other


def _is_whole(workload: Workload) -> bool:
    """Whether no member has left yet of a workload that is leaving, as far as that is known."""
    tallies = [(group, group.counts().placed) for group in workload.groups.values()]
    return workload.phase is not Phase.LEAVING or all(had >= max(group.had, group.min_count) for group, had in tallies)


def _leaving(workload: Workload) -> list[Member]:
    """Return the members that are leaving and for which nothing is kept: all of them, or those beyond its need."""
    if workload.phase is Phase.LEAVING:
        return [member for member in workload.members() if member.pod.place]
    tallies = ((group, group.counts()) for group in workload.groups.values())
    enough = all(tally.placed - tally.leaving >= group.min_count for group, tally in tallies)
    if not (enough or workload.key[0] == "Pod"):
        return []
    return [member for member in workload.members() if member.pod.place and member.pod.deleting]
