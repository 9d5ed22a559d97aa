"""ClusterQueues, Cohorts and, where that is asked for, LocalQueues: who waits and runs there, and what they use.

Names are Kueue's (0.20, pkg/metrics).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import nan

from prometheus_client.core import Metric

from tutti.api.kinds import LocalQueue
from tutti.api.kinds.queues import MOST_USERS_TOLD
from tutti.controller.gauges import Row, gauges, in_units
from tutti.engine.admission.energy import watts_by_queue
from tutti.engine.records.counters import QueueCount, WaitingPlace
from tutti.engine.records.workloads import Phase
from tutti.engine.status import StatusState
from tutti.engine.status.queue_statuses import user_shares
from tutti.quota.fair_sharing import fair_share
from tutti.quota.holder_use import HeldShare
from tutti.quota.tree import UNLIMITED, FlavorResource, QuotaNode, Usage, add_to
from tutti.quota.user_limits import holder_title

Called = Mapping[tuple[str, ...], str]
"""How the engine calls each queue, by the values of the labels that name it."""

_STATUSES = ("active", "inadmissible")


def power_families(state: StatusState | None) -> Iterator[Metric]:
    """Yield what running workloads draw, where a profile has models of power; no values where there is no state."""
    yield gauges(
        "tutti_cluster_queue_watts",
        "What running workloads are estimated to draw, by the power models of their profiles (policy Peaks).",
        ("cluster_queue",),
        () if state is None else (((name,), watts) for name, watts in sorted(watts_by_queue(state).items())),
    )


def workload_families(
    state: StatusState | None,
    prefix: str,
    labels: Sequence[str],
    called: Called,
    *,
    queue_of: Callable[[WaitingPlace], str],
) -> Iterator[Metric]:
    """Yield how many workloads wait and run; families without values where there is no state.

    Args:
        state: The engine's memory; None on a standby.
        prefix: Stands before what is counted in the names.
        labels: Those that name a queue.
        called: The queues.
        queue_of: Returns which of them is waited in at a place, as the engine calls it.
    """
    counts = {} if state is None else {values: state.counts.of(name) for values, name in called.items()}
    yield gauges(
        f"kueue_{prefix}pending_workloads",
        "Workloads that wait for admission: inadmissible once it is known why they must, active before.",
        (*labels, "status"),
        () if state is None else _pending(state, called, queue_of),
    )
    yield gauges(
        f"kueue_{prefix}reserving_active_workloads",
        "Workloads that hold quota, those that are being taken out among them.",
        labels,
        ((values, count.admitted + count.leaving) for values, count in counts.items()),
    )
    yield gauges(
        f"kueue_{prefix}admitted_active_workloads",
        "Workloads that are admitted and have not ended.",
        labels,
        ((values, count.admitted) for values, count in counts.items()),
    )


def _pending(state: StatusState, called: Called, queue_of: Callable[[WaitingPlace], str]) -> Iterator[Row]:
    pending = {(name, status): 0 for name in called.values() for status in _STATUSES}
    for place, crowd in state.waiting_counts.places().items():
        where = queue_of(place), "inadmissible" if place.reason else "active"
        if place.phase is Phase.WAITING and where in pending:
            pending[where] += crowd.workloads
    for values, name in called.items():
        for status in _STATUSES:
            yield (*values, status), pending[name, status]


Amount = Callable[[StatusState, QuotaNode, FlavorResource], int | None]
"""Reads an amount, in scheduling units, or None where there is none."""

QUEUE = ("cluster_queue",)
QUEUE_QUOTA = ("cohort", "cluster_queue", "flavor", "resource")


def cluster_queue_families(state: StatusState | None) -> Iterator[Metric]:
    """Yield how many workloads wait and run, per ClusterQueue; families without values where there is no state."""
    called: Called = {} if state is None else {(name,): name for name in state.catalog.queues}
    yield from workload_families(state, "", QUEUE, called, queue_of=lambda place: place.queue)


def cluster_queue_statuses(statuses: Mapping[str, str]) -> Iterator[Metric]:
    """Yield the status of each ClusterQueue by name: pending, active or terminating."""
    rows = (
        ((name, one), float(one == status))
        for name, status in statuses.items()
        for one in ("pending", "active", "terminating")
    )
    yield gauges(
        "kueue_cluster_queue_status",
        "1 for the status that a ClusterQueue has; pending: it cannot admit anything, and its condition says why.",
        (*QUEUE, "status"),
        rows,
    )


def quota_families(state: StatusState | None) -> Iterator[Metric]:
    """Yield what each ClusterQueue is given and uses, per flavor and resource, one family after the other."""
    yield gauges(
        "kueue_cluster_queue_resource_reservation",
        "Quota that is held, by workloads that are being taken out among others.",
        QUEUE_QUOTA,
        _rows(state, lambda _, node, what: node.usage.get(what, 0)),
    )
    yield gauges(
        "kueue_cluster_queue_resource_usage",
        "Quota that is held by workloads that are admitted.",
        QUEUE_QUOTA,
        _rows(state, _used),
    )
    yield gauges(
        "kueue_cluster_queue_nominal_quota",
        "Nominal quota.",
        QUEUE_QUOTA,
        _rows(state, lambda _, node, what: node.nominal(what)),
    )
    yield gauges(
        "kueue_cluster_queue_borrowing_limit",
        "How much may be borrowed; no series where there is no limit.",
        QUEUE_QUOTA,
        _rows(state, lambda _, node, what: node.quotas[what].borrowing_limit),
    )
    yield gauges(
        "kueue_cluster_queue_lending_limit",
        "How much may be lent; no series where there is no limit.",
        QUEUE_QUOTA,
        _rows(state, lambda _, node, what: node.quotas[what].lending_limit),
    )


def _used(state: StatusState, node: QuotaNode, what: FlavorResource) -> int:
    return node.usage.get(what, 0) - state.counts.of(node.name).yielding.get(what, 0)


def _rows(state: StatusState | None, amount: Amount) -> Iterator[Row]:
    if state is None:
        return
    for name, node in state.ledger.tree.queues.items():
        cohort = "" if node.parent is None else node.parent.name
        for what in node.quotas:
            found = amount(state, node, what)
            if found is not None and found < UNLIMITED:
                yield (cohort, name, *what), in_units(what[1], found)


LocalQueueName = tuple[str, str]
"""The name and the namespace of a LocalQueue."""

LOCAL_QUEUE = ("name", "namespace")
LOCAL_QUEUE_QUOTA = (*LOCAL_QUEUE, "flavor", "resource")


def local_queue_families(state: StatusState | None) -> Iterator[Metric]:
    """Yield what each LocalQueue holds; families without values where there is no state."""
    found = [] if state is None else [one.metadata for one in state.catalog.all(LocalQueue)]
    doors = [(one.name, one.namespace) for one in found]
    called: Called = {door: _name(door) for door in doors}
    yield from workload_families(state, "local_queue_", LOCAL_QUEUE, called, queue_of=lambda place: place.local_queue)
    counts = {} if state is None else {door: state.counts.of(_name(door)) for door in doors}
    yield gauges(
        "kueue_local_queue_resource_reservation",
        "Quota that is held, by workloads that are being taken out among others.",
        LOCAL_QUEUE_QUOTA,
        () if state is None else _local_usage(state, counts, yielding=True),
    )
    yield gauges(
        "kueue_local_queue_resource_usage",
        "Quota that is held by workloads that are admitted.",
        LOCAL_QUEUE_QUOTA,
        () if state is None else _local_usage(state, counts, yielding=False),
    )


def local_queue_statuses(statuses: Mapping[LocalQueueName, bool]) -> Iterator[Metric]:
    """Yield whether each LocalQueue is active."""
    rows = (((*door, one), float(one == str(active))) for door, active in statuses.items() for one in ("True", "False"))
    yield gauges(
        "kueue_local_queue_status",
        "1 for the status of its condition Active, which says why where that is False.",
        (*LOCAL_QUEUE, "active"),
        rows,
    )


def _name(door: LocalQueueName) -> str:
    """Return how the engine calls a LocalQueue."""
    name, namespace = door
    return f"{namespace}/{name}"


def _local_usage(state: StatusState, doors: Mapping[LocalQueueName, QueueCount], *, yielding: bool) -> Iterator[Row]:
    """Yield what is held through each door, of all that its ClusterQueue has quota of."""
    for (name, namespace), count in doors.items():
        node = state.ledger.tree.queues.get(state.leads_to(namespace, name))
        for what in () if node is None else node.quotas:
            amount = count.reserved.get(what, 0) - (0 if yielding else count.yielding.get(what, 0))
            yield (name, namespace, *what), in_units(what[1], amount)


USER = ("cluster_queue", "kind", "name")


def user_families(state: StatusState | None) -> Iterator[Metric]:
    """Yield what users and groups have of the queues that limit them, and may have; of each queue those with most."""
    found = [] if state is None else list(_users(state))
    yield gauges(
        "tutti_user_workloads",
        "Workloads of a user or group that hold quota of a ClusterQueue with userLimits; those with most of each.",
        USER,
        ((labels, len(share.workloads)) for labels, share, _ in found),
    )
    yield gauges(
        "tutti_user_resource_usage",
        "What workloads of a user or group hold of a resource that a ClusterQueue limits for him.",
        (*USER, "resource"),
        (
            ((*labels, name), in_units(name, share.resources.get(name, 0)))
            for labels, share, limits in found
            for name in limits
        ),
    )
    yield gauges(
        "tutti_user_resource_limit",
        "How much of it he may have at once.",
        (*USER, "resource"),
        (((*labels, name), in_units(name, most)) for labels, _, limits in found for name, most in limits.items()),
    )


def _users(state: StatusState) -> Iterator[tuple[tuple[str, str, str], HeldShare, Mapping[str, int]]]:
    for name, queue in state.catalog.queues.items():
        for holder, share in user_shares(state, name)[:MOST_USERS_TOLD] if queue.user_limits else ():
            allowed = queue.user_limits.allowed(holder)
            yield (name, *holder_title(holder)), share, {} if allowed is None else allowed.resources


COHORT = ("cohort",)
COHORT_QUOTA = ("cohort", "flavor", "resource")
ABOVE = ("parent_cohort", "root_cohort")


def cohort_families(state: StatusState | None) -> Iterator[Metric]:
    """Yield what is below each Cohort; families without values where there is no state."""
    cohorts = [] if state is None else list(state.ledger.tree.cohorts.values())
    yield gauges(
        "kueue_cohort_subtree_quota",
        "Quota of a Cohort and of everything below it, without what is never lent.",
        COHORT_QUOTA,
        _amounts((cohort.name, cohort.subtree) for cohort in cohorts),
    )
    yield gauges(
        "kueue_cohort_subtree_resource_reservations",
        "Quota that the ClusterQueues below a Cohort hold together.",
        COHORT_QUOTA,
        _amounts((cohort.name, _held(cohort)) for cohort in cohorts),
    )
    admitted = () if state is None else ((cohort.name, _admitted(state, cohort)) for cohort in cohorts)
    yield gauges(
        "kueue_cohort_subtree_admitted_active_workloads",
        "Workloads in the ClusterQueues below a Cohort that are admitted and have not ended.",
        COHORT,
        (((name,), count) for name, count in admitted),
    )


def parent_families(state: StatusState | None) -> Iterator[Metric]:
    """Yield which cohort each ClusterQueue and Cohort is in; families without values where there is no state."""
    tree = None if state is None else state.ledger.tree
    for name, label, nodes in (
        ("kueue_cluster_queue_info", "cluster_queue", () if tree is None else tree.queues.values()),
        ("kueue_cohort_info", *COHORT, () if tree is None else tree.cohorts.values()),
    ):
        rows = (((node.name, *_above(node)), 1.0) for node in nodes)
        yield gauges(name, "Always 1; the labels say in which cohort it is, and below which.", (label, *ABOVE), rows)


def share_families(state: StatusState | None) -> Iterator[Metric]:
    """Yield the share of each ClusterQueue and Cohort; families without values unless fair sharing is on."""
    tree = None if state is None or not state.rules.fair else state.ledger.tree
    queues = [] if tree is None else list(tree.queues.values())
    cohorts = [] if tree is None else list(tree.cohorts.values())
    says = "What is borrowed of what could be, in the dominant resource and by weight, in thousandths; NaN: weight 0."
    rows = (((node.name, "" if node.parent is None else node.parent.name), _share(node)) for node in queues)
    yield gauges("kueue_cluster_queue_weighted_share", says, ("cluster_queue", *COHORT), rows)
    yield gauges("kueue_cohort_weighted_share", says, COHORT, (((node.name,), _share(node)) for node in cohorts))


def _share(node: QuotaNode) -> float:
    found = fair_share(node)
    return nan if found.infinite else float(found.rounded())


def _above(node: QuotaNode) -> tuple[str, str]:
    """Return the parent and the root of a ClusterQueue or Cohort; the root of a Cohort without a parent is itself."""
    if node.parent is None:
        return "", "" if node.leaf else node.name
    return node.parent.name, node.root().name


def _held(cohort: QuotaNode) -> Usage:
    held: Usage = {}
    for queue in cohort.leaves():
        add_to(held, queue.usage)
    return held


def _admitted(state: StatusState, cohort: QuotaNode) -> int:
    return sum(state.counts.of(queue.name).admitted for queue in cohort.leaves())


def _amounts(amounts: Iterable[tuple[str, Usage]]) -> Iterator[Row]:
    for name, usage in amounts:
        for what, amount in usage.items():
            if amount < UNLIMITED:
                yield (name, *what), in_units(what[1], amount)
