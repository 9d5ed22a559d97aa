"""What is kept for the head of a queue of what throttles allow, from those whom they are about as well.

As with quota: until the head starts, others may have what they are done with in time, and what it will not need. So
they may use what is allowed now, and no more than what is allowed then without the head's part and without what those
use who have gone by then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

import numpy as np

from tutti.engine.admission import throttling
from tutti.engine.admission.throttles_ahead import NOBODY_GONE, CountedPods, Loads, ahead_of
from tutti.engine.backfill import BackfillState
from tutti.engine.records.queue_entries import QueueEntry
from tutti.engine.records.reservations import BackfillReservation
from tutti.engine.records.throttled_pods import ThrottleKey
from tutti.quota.throttles import NOTHING, Limits, Load


def will_let(state: BackfillState, wanted: Loads, at: float) -> bool:
    """Whether throttles will let a workload start at a time, Unix seconds, if nobody starts before.

    Args:
        state: The engine's memory.
        wanted: What the workload is to them; those that are gone by now limit nobody.
        at: What has ended or must have ended by then is not there any more.
    """
    known = {key: load for key, load in wanted.items() if key in state.throttles.throttles}
    ahead = ahead_of(state, known)
    if ahead is None:
        return True
    if any(state.throttles.is_stuck(key) for key in known):
        return False
    gone = _gone_by(state, at) if at > state.now else NOBODY_GONE
    with ahead.then(ahead.limits_at(at), gone):
        return all(throttling.lets_whole(state, key, load) for key, load in known.items())


def keeping(
    state: BackfillState, entry: QueueEntry, reservations: Sequence[BackfillReservation]
) -> AbstractContextManager[None]:
    """Keep from a workload what throttles will have to allow the heads of some reservations."""
    kept = [one for one in reservations if one.throttled]
    if not kept or not state.throttles:
        return nullcontext()
    mine = throttling.concerning(state, entry.needs)
    limits: dict[ThrottleKey, Limits] = {}
    for one in kept:
        for key, left in _left_by(state, one, [key for key in one.throttled if key in mine]):
            limits[key] = _lower(limits.get(key, state.throttles.limits[key]), left)
    return state.throttles.supposing(limits, {}, {})


def _left_by(
    state: BackfillState, reservation: BackfillReservation, keys: Sequence[ThrottleKey]
) -> Iterator[tuple[ThrottleKey, Limits]]:
    """Yield for some throttles how much others may use together until a head has started."""
    keys = [key for key in keys if not state.throttles.is_stuck(key)]
    ahead = ahead_of(state, {key: reservation.throttled[key] for key in keys})
    if ahead is None:
        return
    at = reservation.starts_at
    gone = NOBODY_GONE if at is None else _gone_by(state, at)
    then: Mapping[ThrottleKey, Limits] = {} if at is None else ahead.limits_at(at)
    for key in keys:
        returned = gone[0].get(key, NOTHING) + gone[1].get(key, NOTHING)
        yield key, _without(then.get(key, state.throttles.limits[key]), reservation.throttled[key], returned)


def _without(limits: Limits, head: Load, returned: Load) -> Limits:
    """Return what a head leaves of limits, of what it asks for; what is given back by then is to be had until then."""
    pods = None if limits.pods is None else max(0, limits.pods - (head.pods or 0) + (returned.pods or 0))
    asked = {name: limit for name, limit in limits.requests.items() if head.requests.get(name, 0) > 0}
    requests = {
        name: max(0, limit - head.requests[name] + returned.requests.get(name, 0)) for name, limit in asked.items()
    }
    return Limits(pods, requests)


def _lower(one: Limits, other: Limits) -> Limits:
    """Return limits that hold both."""
    pods = [limits.pods for limits in (one, other) if limits.pods is not None]
    requests = dict(one.requests)
    for name, limit in other.requests.items():
        requests[name] = min(limit, requests.get(name, limit))
    return Limits(min(pods, default=None), requests)


def _gone_by(state: BackfillState, at: float) -> tuple[Loads, Loads]:
    """Return what those are to throttles who have gone by a time, Unix seconds: used, and reserved."""
    columns = state.cluster.pod_columns
    slots = np.flatnonzero((columns.row >= 0) & ((columns.until <= at) | columns.leaving))
    return CountedPods.of(state.throttles, columns.at(slots)).total(np.ones(len(slots), dtype=np.bool_))
