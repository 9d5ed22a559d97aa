"""What the orders of ClusterQueues go by: whose a workload is, how large, how long it runs, and what others have.

How long workloads have run is kept in the statuses of LocalQueues, so that a process that starts anew goes on from
there; tenants do not write these. Nothing is kept where no order asks for it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tutti.api.conventions.flavor_seconds import FlavorSeconds
from tutti.api.kinds import LocalQueue
from tutti.api.kinds.queues import MOST_KINDS_TOLD
from tutti.engine.admission import AdmissionState
from tutti.engine.records.explanation import LifecycleStep
from tutti.engine.records.line_order import WHOLE, Traits
from tutti.engine.records.pod_admission import read_admission
from tutti.engine.records.pod_sets import PodSetRequest, requested_by
from tutti.engine.records.workloads import Phase, Workload
from tutti.quota.backfill import rounded_runtime
from tutti.quota.flavors import Queue
from tutti.quota.holder_use import Holders
from tutti.quota.learned_speeds import LearnedSpeed, learned_speed
from tutti.quota.run_times import Expected, RunHistory, history_of, kind_of
from tutti.quota.user_limits import (
    GROUP,
    LOCAL_QUEUE,
    SERVICE_ACCOUNTS,
    USER,
    holder_named,
    service_account_namespace,
)


def holders_of(state: AdmissionState, workload: Workload) -> Holders:
    """Return for whom a workload holds what it does: its user and his groups where users are told apart."""
    if state.configuration.users is None:
        return (holder_named(LOCAL_QUEUE, f"{workload.key[1]}/{workload.queue}"),)
    groups = state.groups_of_users.get(workload.user, ())
    return (holder_named(USER, _counted_as(state, workload)), *(holder_named(GROUP, one) for one in groups))


def _counted_as(state: AdmissionState, workload: Workload) -> str:
    """Return as which user a workload counts: the service accounts of a namespace as one, but for those a limit names.

    Whoever edits a namespace makes there as many as he likes, and may act as each of them.
    """
    namespace = service_account_namespace(workload.user)
    queue = state.catalog.queues.get(state.leads_to(workload.key[1], workload.queue)) if namespace else None
    if not namespace or (queue is not None and holder_named(USER, workload.user) in queue.user_limits.of):
        return workload.user
    return f"{SERVICE_ACCOUNTS}{namespace}"


def name_holders(state: AdmissionState, workload: Workload) -> None:
    """Have what a workload holds counted for whom it is; those who wait for a limit are tried again if that changes."""
    if state.ledger.held_for.on and state.ledger.held_for.name(workload.name, holders_of(state, workload)):
        for queue, _ in state.ledger.used_by(workload.name):
            state.ledger.changes.retry(queue)


def traits_of(
    state: AdmissionState, workload: Workload, queue: Queue | None, needs: Sequence[PodSetRequest]
) -> Traits | None:
    """Return what the order of a queue goes by of a workload; None where there is none, or it does not stand in it."""
    if queue is None or queue.order is None or workload.phase is not Phase.WAITING or workload.held_since is not None:
        return None
    whole: dict[str, int] = {}
    for (_, resource), quota in queue.quotas.items():
        whole[resource] = whole.get(resource, 0) + quota.nominal
    asks = tuple(
        (resource, min(WHOLE, amount * WHOLE // whole[resource]) if whole[resource] > 0 else WHOLE)
        for resource, amount in sorted(requested_by(needs).items())
        if amount > 0 and resource in whole
    )
    limit = 0.0 if workload.limit_seconds is None else rounded_runtime(max(1.0, workload.limit_seconds - workload.ran))
    return Traits(
        holder=holders_of(state, workload)[0],
        local_queue=_local_queue(workload),
        kind=kind_of_run(workload) if state.catalog.by_run_time else "",
        said=rounded_runtime(float(workload.said_seconds)),
        limit=limit,
        size=max((part for _, part in asks), default=0) / WHOLE,
        progress=workload.progress,
        asks=asks,
    )


def kind_of_run(workload: Workload) -> str:
    """Return the kind of a workload by which its run time is told: of whose top object, how large, of which user."""
    maker = workload.maker
    return kind_of(workload.user, workload.key[2] if maker is None else maker.name, workload.required)


class StateFacts:
    """What orders go by, as the engine knows it now."""

    def __init__(self, state: AdmissionState) -> None:
        self._state = state

    def now(self) -> float:
        """Return the time, Unix seconds."""
        return self._state.now

    def expected(self, local_queue: str, kind: str) -> Expected | None:
        """Return what is known of how long a kind of workload runs."""
        history = run_history(self._state, local_queue)
        return None if history is None else history.expected(kind)

    def share(self, queue: str, holder: str) -> float:
        """Return which part of a queue somebody has, in his dominant resource, 0 to 1."""
        found = self._state.catalog.queues.get(queue)
        has = self._state.ledger.held_for.of(queue, holder).resources
        if found is None or not has:
            return 0.0
        whole: dict[str, int] = {}
        for (_, resource), quota in found.quotas.items():
            whole[resource] = whole.get(resource, 0) + quota.nominal
        parts = [has[one] / total if total > 0 else 1.0 for one, total in whole.items() if has.get(one, 0) > 0]
        return min(1.0, max(parts, default=0.0))


def run_history(state: AdmissionState, local_queue: str) -> RunHistory | None:
    """Return how long workloads of a LocalQueue (`namespace/name`) have run; None where there is no such queue."""
    namespace, _, name = local_queue.partition("/")
    found = state.catalog.get(LocalQueue, namespace, name) if name else None
    if found is None:
        return None
    known = state.run_times.get(local_queue)
    if known is None or known.uid != found.metadata.uid:
        said = {one.of: one.seconds for one in found.status.run_times}
        known = state.run_times[local_queue] = history_of(found.metadata.uid, said)
    return known


def learns_from(queue: Queue) -> bool:
    """Whether a queue goes by how long work has run: in its order, by flavor, or in whose members are next."""
    return bool(queue.order or queue.fungibility.earliest_finish or queue.by_speed)


def count_runs(state: AdmissionState) -> None:
    """Count how long those have run that have succeeded in this turn, where an order goes by that."""
    for event in state.lifecycle_events:
        if event.step is not LifecycleStep.FINISHED or event.reason != "Succeeded" or event.seconds <= 0:
            continue
        workload, queue = state.workloads.get(event.workload), state.catalog.queues.get(event.queue)
        if workload is None or queue is None or not learns_from(queue):
            continue
        history = run_history(state, _local_queue(workload))
        if history is not None:
            flavor = "" if workload.ran else _flavor_it_had(workload, queue)  # it may have begun in another
            members = 0 if workload.ran or not queue.by_speed else _members_it_had(state, workload, event.seconds)
            history.ended(kind_of_run(workload), event.seconds + workload.ran, flavor, members)
            state.changed_queues[_local_queue(workload)] = None


def _flavor_it_had(workload: Workload, queue: Queue) -> str:
    """Return in which flavor all members were of those among which a queue chooses; "" in none, or in several."""
    among = {flavor for group in queue.groups if len(group.flavors) > 1 for flavor in group.flavors}
    kept = (read_admission(text) for text in {m.kept for m in workload.members()})  # what has ended uses no quota
    had = {flavor for one in kept if one is not None for flavor in one.flavors.values() if flavor in among}
    return had.pop() if len(had) == 1 else ""


def _members_it_had(state: AdmissionState, workload: Workload, ran: float) -> int:
    """Return with how many members a workload has run that has just ended, in the mean; 0 where nobody knows."""
    started = [m.pod.started for m in workload.members() if m.pod.node]
    if not started or any(one is None for one in started):
        return 0
    return round(sum(min(ran, max(0.0, state.now - one)) for one in started if one is not None) / ran)


def speed_of_kind(state: AdmissionState, workload: Workload) -> LearnedSpeed | None:
    """Return how fast others of its kind were with how many members, where its queue goes by that."""
    queue = state.catalog.queues.get(state.leads_to(workload.key[1], workload.queue)) if workload.queue else None
    if queue is None or not queue.by_speed:
        return None
    history = run_history(state, _local_queue(workload))
    return None if history is None else learned_speed(history.by_members(kind_of_run(workload)))


def seconds_by_flavor(state: AdmissionState, workload: Workload, said: FlavorSeconds) -> FlavorSeconds:
    """Return how long a workload is expected to take in which flavor, where its queue goes by that.

    What it says itself counts, but for no less than a quarter of its kind's last runs in that flavor took; of other
    flavors the median of those runs is taken, once there are some.
    """
    queue = state.catalog.queues.get(state.leads_to(workload.key[1], workload.queue)) if workload.queue else None
    if queue is None or not queue.fungibility.earliest_finish:
        return said
    history = run_history(state, _local_queue(workload))
    if history is None:
        return said
    flavors = [flavor for group in queue.groups if len(group.flavors) > 1 for flavor in group.flavors]
    known = history.by_flavor(kind_of_run(workload), flavors)
    if not known:
        return said
    told = dict(said)
    learned = {
        flavor: math.ceil(max(told[flavor], one.least) if flavor in told else one.seconds)
        for flavor, one in known.items()
    }
    return tuple(sorted({**told, **learned}.items()))


def told_run_times(state: AdmissionState, local_queue: str) -> dict[str, Any] | None:
    """Return what the status of a LocalQueue keeps of run times; None where none are known here."""
    history = state.run_times.get(local_queue)
    if history is None or not history.runs:
        return None
    kept = list(history.runs.items())[-MOST_KINDS_TOLD:]
    return {"runTimes": [{"of": kind, "seconds": list(seconds)} for kind, seconds in kept]}


def _local_queue(workload: Workload) -> str:
    return f"{workload.key[1]}/{workload.queue}"
