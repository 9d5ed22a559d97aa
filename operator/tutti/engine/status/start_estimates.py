"""When the heads of a queue will start, by what is known of running work (`tutti.quota.estimate`)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tutti.engine.admission import patience, throttling
from tutti.engine.admission.expected_starts import known_ends, pending_workload, starts_of
from tutti.engine.admission.throttles_ahead import Start, allowed_from
from tutti.engine.records.explanation import AFTER_OTHERS, Explanation, Gate
from tutti.engine.records.never_admitted import never_admitted
from tutti.engine.records.pod_sets import PodSetRequest, pending_pod_sets
from tutti.engine.records.workloads import WorkloadKey
from tutti.engine.status import StatusState
from tutti.quota.estimate import PendingWorkload
from tutti.quota.flavors import Queue

FORESEEN = 5
"""For how many heads of a queue it is estimated when they start."""


def estimated_starts(state: StatusState, queue: Queue, most: int = FORESEEN) -> dict[WorkloadKey, float]:
    """Return when so many heads of a queue start, Unix seconds, of those of whom it is known and lies ahead.

    Whoever could start by this reckoning and still waits does so for reasons that are not in it. A head for which
    something is kept (`backfill/backfill.py`) starts by the time that it is told there.
    """
    if queue.hold or queue.drain or queue.problem is not None:
        return {}
    ends, steps = known_ends(state), state.quota_steps(queue.name)
    if not (ends or steps or state.throttles or state.looks_for_better):
        return {}
    heads: list[tuple[WorkloadKey, PendingWorkload, Sequence[PodSetRequest]]] = []
    patient_until: dict[WorkloadKey, float] = {}
    for workload in state.queue_positions.heads(queue.name, most):
        needs = pending_pod_sets(workload)
        if workload.explanation is not None and workload.explanation.reason in AFTER_OTHERS:
            continue  # nobody knows when those will have ended that it starts after
        if workload.explanation is not None and workload.explanation.gate is Gate.USER_LIMIT:
            continue  # it waits for what others of its user do, and is in nobody's way
        if isinstance(needs, Explanation) or never_admitted(queue, needs) is not None:
            continue  # it stands aside, and is in nobody's way
        latest = patience.patient_until(state, workload) if state.looks_for_better else None
        if latest is not None:
            patient_until[workload.key] = latest
        seconds = None if workload.limit_seconds is None else workload.limit_seconds - workload.ran
        heads.append((workload.key, pending_workload(state, queue, workload, needs, seconds), needs))
    is_throttled = bool(state.throttles) and any(throttling.concerning(state, needs) for _, _, needs in heads)
    if not (ends or steps or patient_until or is_throttled):
        return {}
    found = starts_of(state, queue, [one for _, one, _ in heads], ends, strict=queue.strict)
    if is_throttled:
        found = _as_throttles_let(state, heads, found, strict=queue.strict)
    expected = {key: at for (key, _, _), at in zip(heads, found, strict=True)}
    expected.update(patient_until)  # by then it takes what it could have now
    reservation = state.backfill_reservations.of.get(queue.name)
    if reservation is not None and reservation.workload in expected:
        expected[reservation.workload] = reservation.starts_at
    return {key: at for key, at in expected.items() if at is not None and at > state.now}


def _as_throttles_let(
    state: StatusState,
    heads: Sequence[tuple[WorkloadKey, PendingWorkload, Sequence[PodSetRequest]]],
    found: Sequence[float | None],
    *,
    strict: bool,
) -> list[float | None]:
    """Return when heads start, where throttles are to let them that have quota and room at the times `found`."""
    out: list[float | None] = []
    before: list[Start] = []
    last: float | None = state.now
    for (_, pending, needs), by_room in zip(heads, found, strict=True):
        at = None if by_room is None or last is None else allowed_from(state, needs, max(by_room, last), before)
        out.append(at)
        if at is not None:
            end = math.inf if pending.seconds is None else at + pending.seconds
            before.append(Start(at, end, throttling.wanted_of(state, needs)))
        last = at if strict else state.now
    return out
