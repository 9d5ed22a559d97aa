"""What is known of running work and of those who wait, as `tutti.quota.estimate` asks for it.

Work ends by its limit at the latest. Where it is expected to take less in the flavor that it has, it is taken to end
then; one that has taken longer than expected, to need a tenth of that time more.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from tutti.engine.admission import AdmissionState
from tutti.engine.records.pod_sets import PodSetRequest
from tutti.engine.records.workloads import ADMITTED, Workload, WorkloadKey
from tutti.placement.profile import Profile, static_filter_result
from tutti.quota.estimate import Amounts, EqualPods, ExpectedEnd, FlavorOption, PendingWorkload, estimate_starts
from tutti.quota.flavors import FlavorByResource, Queue, flavor_assignments, usage_of, where_of
from tutti.quota.tree import Usage, add_to

MOST_ENDS = 256
"""How many of the next ends of running work are looked at."""

MOST_PODS = 20_000
"""How many pods these may have in all."""

MOST_WAYS = 4
"""How many ways to count a pod in flavors are looked at."""

_OVERTIME = 0.1
"""What part of the expected time one is taken to need more that has taken longer."""

Allows = Callable[[FlavorByResource], bool]
"""Whether a way to count pods in flavors is looked at."""


def finishing_seconds(workload: Workload, flavors: Mapping[str, str]) -> int | None:
    """Return how long a workload takes that has these flavors of resources; None where nobody knows.

    That is with the members that it requires; `seconds_with` tells of more of them.
    """
    seconds = dict(workload.flavor_seconds)
    return max((seconds[one] for one in flavors.values() if one in seconds), default=None)


def seconds_with(workload: Workload, seconds: int, members: int) -> int:
    """Return how long a workload takes with so many members that takes some seconds with those that it requires."""
    if workload.speed is None or workload.speed_learned is not None or members <= 0:  # runs that it is from had more
        return seconds
    return math.ceil(seconds * workload.speed.speed(workload.required) / workload.speed.speed(members))


def expected_end(state: AdmissionState, workload: Workload) -> float | None:
    """Return when a workload that has quota and room is expected to end, Unix seconds; None where nobody knows."""
    charges = [m.charge for group in workload.groups.values() for m in group.members.values() if m.charge is not None]
    taken = [finishing_seconds(workload, charge.flavors) for charge in {id(one): one for one in charges}.values()]
    seconds = max((one for one in taken if one is not None), default=None)
    if seconds is None:
        return None
    seconds = seconds_with(workload, seconds, members_of(workload))
    since = state.now if workload.running_since is None else workload.running_since
    at = since + seconds - workload.ran
    return at if at > state.now else state.now + _OVERTIME * seconds


def members_of(workload: Workload) -> int:
    """Return how many members have a node or are to have one."""
    tally = workload.counts()
    return tally.bound + tally.reserved


def pending_workload(
    state: AdmissionState,
    queue: Queue,
    workload: Workload,
    needs: Sequence[PodSetRequest],
    seconds: float | None,
    allows: Allows = lambda _: True,
) -> PendingWorkload:
    """Return what a workload that waits wants, in the flavors that are looked at."""
    profile = state.profiles.get(workload.scheduler) or next(iter(state.profiles.values()))
    pods = [_equal_pods(state, queue, need, profile, allows) for need in needs if need.required]
    return PendingWorkload(queue.name, pods, seconds)


def _equal_pods(
    state: AdmissionState, queue: Queue, need: PodSetRequest, profile: Profile, allows: Allows
) -> EqualPods:
    nodes, flavors, pod_class = state.cluster.nodes, state.catalog.flavors, need.pod_class
    found = flavor_assignments(queue, flavors, pod_class.charged, pod_class.spec.tolerations)
    ways = [
        FlavorOption(
            usage_of(assignment, pod_class.charged, need.required),
            static_filter_result(pod_class, nodes, where_of(assignment, flavors), profile).mask,
        )
        for assignment in itertools.islice(filter(allows, found), MOST_WAYS)
    ]
    return EqualPods(need.required, nodes.vector(pod_class.requests), ways)


def starts_of(
    state: AdmissionState,
    queue: Queue,
    line: Sequence[PendingWorkload],
    ends: Sequence[ExpectedEnd],
    *,
    strict: bool,
) -> list[float | None]:
    """Return when each of a line in a queue starts, Unix seconds; None where no known end lets it."""
    nodes = state.cluster.nodes
    width = len(nodes.resource_index)  # now that all that is asked for has its column
    free = np.where(nodes.present[:, None], nodes.allocatable - nodes.requested, 0)
    line = [
        replace(one, pods=[replace(pods, requests=_wide(pods.requests, width)) for pods in one.pods]) for one in line
    ]
    mine = state.ledger.root_of(queue.name)
    known = [
        replace(
            end,
            taken=_wide(end.taken, width),
            usage=end.usage if state.ledger.root_of(end.queue) == mine else {},  # of no use to this tree
        )
        for end in ends
    ]
    steps = state.quota_steps(queue.name)
    return estimate_starts(state.now, state.ledger.tree, free, known, line, strict=strict, steps=steps)


def known_ends(state: AdmissionState) -> list[ExpectedEnd]:
    """Return the next ends of running work, as far as it must or is expected to end by a known time."""
    first = state.backfill_reservations.releases.first(2 * MOST_ENDS)
    # Of one that has been told to leave nobody knows how long that takes; others may have been admitted just now.
    due = {key: at for at, key in first if key in state.ending or _has_just_begun(state, key)}
    for key, workload in state.expected.items():
        end = expected_end(state, workload)
        if end is not None:
            due[key] = min(end, due.get(key, end))
    ends: list[ExpectedEnd] = []
    pods = 0
    for key, at in sorted(due.items(), key=lambda one: (one[1], one[0])) if state.expected else due.items():
        workload = state.workloads[key]
        pods += sum(len(group.members) for group in workload.groups.values())
        if pods > MOST_PODS or len(ends) == MOST_ENDS:
            break
        ends.append(_end(state, workload, at))
    return ends


def _has_just_begun(state: AdmissionState, key: WorkloadKey) -> bool:
    workload = state.workloads.get(key)
    return workload is not None and workload.phase in ADMITTED and workload.reserved_at == state.now


def _end(state: AdmissionState, workload: Workload, at: float) -> ExpectedEnd:
    """Return what a workload gives back when it ends."""
    nodes = state.cluster.nodes
    usage: Usage = {}
    taken: dict[int, Amounts] = {}
    for group in workload.groups.values():
        parts = [(m.charge, m.pod.place, m.pod.pod_class) for m in group.members.values()]
        parts += [(hold.charge, hold.node, hold.pod_class) for hold in group.holds]
        for charge, place, pod_class in parts:
            if charge is not None:
                add_to(usage, charge.usage)
            row = nodes.rows.get(place)
            if row is not None:
                vector = nodes.vector(pod_class.requests)
                taken[row] = taken[row] + vector if row in taken else vector
    width = len(nodes.resource_index)
    amounts = np.array([_wide(vector, width) for vector in taken.values()], dtype=np.int64).reshape(len(taken), width)
    return ExpectedEnd(at, workload.cluster_queue, usage, np.array(list(taken), dtype=np.int64), amounts)


def _wide(amounts: Amounts, width: int) -> Amounts:
    """Return amounts with so many columns; resources that were not known yet are not asked for."""
    more = width - amounts.shape[-1]
    return np.pad(amounts, [*[(0, 0)] * (amounts.ndim - 1), (0, more)]) if more else amounts
