"""What LocalQueues have used lately, for ClusterQueues that serve first who has used least.

Rules: Kueue's admission fair sharing (`tutti.quota.usage` has the formulas). What is in use changes only when
something is admitted or ends, and decay is exact however it is cut into pieces: the order needs no samples. What has
been consumed is written to the status of the LocalQueue with every change of what is in use, and once in each sampling
interval: an operator that starts anew goes on from there, and forgets at most an interval of what ended while it was
away.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tutti.api import quantity
from tutti.api.conditions import timestamp
from tutti.api.kinds import LocalQueue
from tutti.api.messages import followed_by
from tutti.api.resources import in_bytes, to_milli
from tutti.engine.admission import AdmissionState
from tutti.engine.records.explanation import Explanation, Gate
from tutti.engine.records.members import Charge
from tutti.engine.records.workloads import Workload
from tutti.quota.snapshot import AdmittedWorkload
from tutti.quota.tree import WEIGHT_OF_ONE, FlavorResource, add_to
from tutti.quota.usage import Consumed, UsageHistory, decay, local_usage, penalty

MOST_NAMED = 3
"""How many other LocalQueues are named where somebody waits behind them."""


@dataclass(frozen=True, slots=True)
class _History:
    """A LocalQueue of a ClusterQueue that goes by past use, with what it has used."""

    name: str
    found: LocalQueue
    use: UsageHistory


def local_queue_of(state: AdmissionState, workload: Workload) -> str:
    """Return the LocalQueue (`namespace/name`) of a workload where past use counts; "" where it does not."""
    if not state.catalog.by_past_use or not workload.queue or not _counts(state, workload.key[1], workload.queue):
        return ""
    return f"{workload.key[1]}/{workload.queue}"


def usage_of_local_queue(state: AdmissionState, name: str) -> float:
    """Return what a LocalQueue is ordered by, the least first; 0 where past use does not count."""
    history = _history_of(state, name) if name else None
    return 0.0 if history is None else _weighed(state, history)


def usage_of_holder(state: AdmissionState, holder: AdmittedWorkload) -> float | None:
    """Return what the LocalQueue of a holder is ordered by; None where past use does not count in its ClusterQueue."""
    queue = state.catalog.queues.get(holder.queue)
    history = _history_of(state, holder.local_queue) if queue is not None and queue.by_past_use else None
    return None if history is None else _weighed(state, history)


def count_admission(state: AdmissionState, workload: Workload, charges: Iterable[tuple[Charge, int]]) -> None:
    """Have an admission count at once, before it has run for any time.

    Args:
        state: Where.
        workload: Who is admitted.
        charges: What so many of its pods use each.
    """
    history = _history_of(state, local_queue_of(state, workload))
    if history is None:
        return
    usage: dict[FlavorResource, int] = {}
    for charge, pods in charges:
        add_to(usage, charge.usage, pods)
    said = state.configuration.admission_fair_sharing
    sampling, half_life = said.usage_sampling_interval_seconds, said.usage_half_life_seconds
    more = penalty(_in_whole_units(usage), sampling=sampling, half_life=half_life)
    _count_until_now(state, history.use)
    consumed = history.use.consumed
    consumed.update({name: consumed.get(name, 0.0) + amount for name, amount in more.items()})


def sample_usage(state: AdmissionState, name: str) -> dict[str, Any] | None:
    """Take over what a LocalQueue uses from now on; returns what its status says, None where past use does not count.

    Args:
        state: Where.
        name: Of the LocalQueue, `namespace/name`.
    """
    history = _history_of(state, name)
    if history is None:
        state.past_use.pop(name, None)
        return None
    _count_until_now(state, history.use)
    history.use.in_use = _in_whole_units(state.counts.of(name).reserved)
    said = {one: quantity.format(math.ceil(amount * 1000)) for one, amount in history.use.consumed.items()}
    return {"admissionFairSharingStatus": {"consumedResources": said, "lastUpdate": timestamp(state.now)}}


def explain_usage(state: AdmissionState, workload: Workload, why: Explanation) -> Explanation:
    """Say, of one that lacks quota, what its LocalQueue has used lately, and who has used less and goes first."""
    history = _history_of(state, local_queue_of(state, workload))
    lacking = next((key.split("/", 1)[1] for key in why.details if "/" in key), "")
    if history is None or why.gate is not Gate.QUOTA or not lacking or in_bytes(lacking):
        return why
    mine, queue = _weighed(state, history), history.found.spec.cluster_queue
    histories = [
        other for name in state.past_use if name != history.name and (other := _history_of(state, name)) is not None
    ]
    before = [one for one in histories if one.found.spec.cluster_queue == queue and _weighed(state, one) < mine]
    if not before:
        return why
    before.sort(key=lambda one: _weighed(state, one))
    names = [
        (local_queue_named(one.name, workload.key[1], discreet=state.discreet), one) for one in before[:MOST_NAMED]
    ]
    others = ", ".join(f"{name} {_hours(state, one.use, lacking)}" for name, one in names)
    text = f"{history.name} has used {_hours(state, history.use, lacking)} {lacking} hours lately, {others}"
    message = followed_by(why.message, f"who has used less, by weight, goes first: {text}")
    return Explanation(why.gate, why.reason, message, why.details)


def local_queue_named(local_queue: str, reader: str, *, discreet: bool) -> str:
    """Return how a LocalQueue, by namespace and name, is told of in a namespace."""
    if not discreet or local_queue.partition("/")[0] == reader:
        return local_queue
    return "a LocalQueue of another namespace"


def _counts(state: AdmissionState, namespace: str, local: str) -> bool:
    queue = state.catalog.queues.get(state.leads_to(namespace, local))
    return queue is not None and queue.by_past_use


def _history_of(state: AdmissionState, name: str) -> _History | None:
    if not state.catalog.by_past_use:
        return None
    namespace, _, local = name.partition("/")
    found = state.catalog.get(LocalQueue, namespace, local) if local else None
    if found is None or not _counts(state, namespace, local):
        return None
    use = state.past_use.get(name)
    if use is None or use.uid != found.metadata.uid:
        use = state.past_use[name] = _found(state, name, found)
    return _History(name, found, use)


def _found(state: AdmissionState, name: str, found: LocalQueue) -> UsageHistory:
    """Return what the status of a LocalQueue says; what it uses now, it has used since then."""
    in_use = _in_whole_units(state.counts.of(name).reserved)
    said = found.status.fair_sharing
    told = None if said is None else said.admission_fair_sharing_status
    if told is None or not told.last_update:
        return UsageHistory(found.metadata.uid, {}, in_use, state.now)
    consumed = {one: quantity.parse_quantity(text) / 1000 for one, text in told.consumed_resources.items()}
    since = datetime.fromisoformat(told.last_update).timestamp()
    return UsageHistory(found.metadata.uid, consumed, in_use, min(since, state.now))


def _count_until_now(state: AdmissionState, use: UsageHistory) -> None:
    """Count what was in use until now as consumed."""
    use.consumed, use.since = _consumed(state, use), state.now


def _consumed(state: AdmissionState, use: UsageHistory) -> Consumed:
    half_life = state.configuration.admission_fair_sharing.usage_half_life_seconds
    return decay(use.consumed, use.in_use, elapsed=state.now - use.since, half_life=half_life)


def _weighed(state: AdmissionState, history: _History) -> float:
    sharing = history.found.spec.fair_sharing
    weight = 1.0 if sharing is None else sharing.weight / WEIGHT_OF_ONE
    weights = state.configuration.admission_fair_sharing.resource_weights
    return local_usage(_consumed(state, history.use), {}, weight=weight, resource_weights=weights)


def _hours(state: AdmissionState, use: UsageHistory, resource: str) -> str:
    """Return the decayed sum of use over time: a use of u for ever comes to u * half-life / ln 2."""
    half_life = state.configuration.admission_fair_sharing.usage_half_life_seconds
    return f"{_consumed(state, use).get(resource, 0.0) * half_life / math.log(2) / 3600:.1f}"


def _in_whole_units(usage: Mapping[FlavorResource, int]) -> Consumed:
    out: Consumed = {}
    for (_, resource), amount in usage.items():
        out[resource] = out.get(resource, 0.0) + to_milli(resource, amount) / 1000
    return out
