"""When the heads of a queue will start, by what is known of running work (`tutti.quota.estimate`)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tutti.engine.admission import throttling
from tutti.engine.records.explanation import AFTER_OTHERS, Explanation, Gate
from tutti.engine.records.pod_sets import PodSetRequest, never_admitted, pending_pod_sets
from tutti.engine.records.workloads import Workload, WorkloadKey
from tutti.engine.status import StatusState
from tutti.placement.profile import Profile, static_filter_result
from tutti.quota.estimate import Amounts, EqualPods, ExpectedEnd, FlavorOption, PendingWorkload, estimate_starts
from tutti.quota.flavors import Queue, flavor_assignments, usage_of, where_of
from tutti.quota.tree import Usage, add_to

FORESEEN = 5
"""For how many heads of a queue it is estimated when they start."""

MOST_ENDS = 256
"""How many of the next ends of running work are looked at."""

MOST_PODS = 20_000
"""How many pods these may have in all."""

MOST_WAYS = 4
"""How many ways to count a pod in flavors are looked at."""


def estimated_starts(state: StatusState, queue: Queue, most: int = FORESEEN) -> dict[WorkloadKey, float]:
    """Return when so many heads of a queue start, Unix seconds, of those of whom it is known and lies ahead.

    Whoever could start by this reckoning and still waits does so for reasons that are not in it. A head for which
    something is kept (`backfill/backfill.py`) starts by the time that it is told there.
    """
    if queue.hold or queue.drain or queue.problem is not None:
        return {}
    ends, steps = _known_ends(state), state.quota_steps(queue.name)
    if not (ends or steps or state.throttles):
        return {}
    heads: list[tuple[WorkloadKey, PendingWorkload]] = []
    throttled_until: dict[WorkloadKey, float | None] = {}
    for workload in state.queue_positions.heads(queue.name, most):
        needs = pending_pod_sets(workload)
        if workload.explanation is not None and workload.explanation.reason in AFTER_OTHERS:
            continue  # nobody knows when those will have ended that it starts after
        if workload.explanation is not None and workload.explanation.gate is Gate.USER_LIMIT:
            continue  # it waits for what others of its user do, and is in nobody's way
        if isinstance(needs, Explanation) or never_admitted(queue, needs) is not None:
            continue  # it stands aside, and is in nobody's way
        if workload.explanation is not None and workload.explanation.gate is Gate.THROTTLE:
            throttled_until[workload.key] = throttling.allowed_from(state, needs)
        heads.append((workload.key, _waiting(state, queue, workload, needs)))
    if not (ends or steps or throttled_until):
        return {}
    nodes = state.cluster.nodes
    width = len(nodes.resource_index)  # now that all that is asked for has its column
    free = np.where(nodes.present[:, None], nodes.allocatable - nodes.requested, 0)
    tree = state.ledger.tree
    line = [
        replace(one, pods=[replace(pods, requests=_wide(pods.requests, width)) for pods in one.pods])
        for _, one in heads
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
    found = estimate_starts(state.now, tree, free, known, line, strict=queue.strict, steps=steps)
    expected = {key: at for (key, _), at in zip(heads, found, strict=True)}
    for key, until in throttled_until.items():  # by the clock alone, for who else ends counts as using no less
        at = expected[key]
        expected[key] = None if at is None or until is None else max(at, until)
    reservation = state.backfill_reservations.of.get(queue.name)
    if reservation is not None and reservation.workload in expected:
        expected[reservation.workload] = reservation.starts_at
    return {key: at for key, at in expected.items() if at is not None and at > state.now}


def _waiting(state: StatusState, queue: Queue, workload: Workload, needs: Sequence[PodSetRequest]) -> PendingWorkload:
    profile = state.profiles.get(workload.scheduler) or next(iter(state.profiles.values()))
    pods = [_pods(state, queue, need, profile) for need in needs if need.required]
    seconds = None if workload.limit_seconds is None else workload.limit_seconds - workload.ran
    return PendingWorkload(queue.name, pods, seconds)


def _pods(state: StatusState, queue: Queue, need: PodSetRequest, profile: Profile) -> EqualPods:
    nodes, flavors, pod_class = state.cluster.nodes, state.catalog.flavors, need.pod_class
    ways = [
        FlavorOption(
            usage_of(assignment, pod_class.charged, need.required),
            static_filter_result(pod_class, nodes, where_of(assignment, flavors), profile).mask,
        )
        for assignment in itertools.islice(
            flavor_assignments(queue, flavors, pod_class.charged, pod_class.spec.tolerations), MOST_WAYS
        )
    ]
    return EqualPods(need.required, nodes.vector(pod_class.requests), ways)


def _known_ends(state: StatusState) -> list[ExpectedEnd]:
    """Return the next ends of running work, as far as it must end by a known time, the first one first."""
    ends: list[ExpectedEnd] = []
    pods = 0
    for at, key in state.backfill_reservations.releases.first(2 * MOST_ENDS):
        workload = state.ending.get(key)
        if workload is None:
            continue  # it has been told to leave, and nobody knows how long that takes
        pods += sum(len(group.members) for group in workload.groups.values())
        if pods > MOST_PODS or len(ends) == MOST_ENDS:
            break
        ends.append(_end(state, workload, at))
    return ends


def _end(state: StatusState, workload: Workload, at: float) -> ExpectedEnd:
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
