"""ClusterQueues: who waits and runs in them, and what of their quota is used. Names are Kueue's (0.20, pkg/metrics)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import Metric

from tutti.controller.gauges import workloads
from tutti.controller.gauges.families import Row, gauges, in_units
from tutti.engine.state import State
from tutti.quota.tree import UNLIMITED, FlavorResource, QuotaNode

Amount = Callable[[State, QuotaNode, FlavorResource], int | None]
"""Reads an amount, in scheduling units, or None where there is none."""

QUEUE = ("cluster_queue",)
QUOTA = ("cohort", "cluster_queue", "flavor", "resource")


def of_workloads(state: State | None) -> Iterator[Metric]:
    """Yield how many workloads wait and run, per ClusterQueue; families without values where there is no state."""
    called: workloads.Called = {} if state is None else {(name,): name for name in state.catalog.queues}
    yield from workloads.of_workloads(state, "", QUEUE, called, queue_of=lambda place: place.queue)


def of_statuses(statuses: Mapping[str, str]) -> Iterator[Metric]:
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


def of_quota(state: State | None) -> Iterator[Metric]:
    """Yield what each ClusterQueue is given and uses, per flavor and resource, one family after the other."""
    yield gauges(
        "kueue_cluster_queue_resource_reservation",
        "Quota that is held, by workloads that are being taken out among others.",
        QUOTA,
        _rows(state, lambda _, node, what: node.usage.get(what, 0)),
    )
    yield gauges(
        "kueue_cluster_queue_resource_usage",
        "Quota that is held by workloads that are admitted.",
        QUOTA,
        _rows(state, _used),
    )
    yield gauges(
        "kueue_cluster_queue_nominal_quota",
        "Nominal quota.",
        QUOTA,
        _rows(state, lambda _, node, what: node.nominal(what)),
    )
    yield gauges(
        "kueue_cluster_queue_borrowing_limit",
        "How much may be borrowed; no series where there is no limit.",
        QUOTA,
        _rows(state, lambda _, node, what: node.quotas[what].borrowing_limit),
    )
    yield gauges(
        "kueue_cluster_queue_lending_limit",
        "How much may be lent; no series where there is no limit.",
        QUOTA,
        _rows(state, lambda _, node, what: node.quotas[what].lending_limit),
    )


def _used(state: State, node: QuotaNode, what: FlavorResource) -> int:
    return node.usage.get(what, 0) - state.counts.of(node.name).yielding.get(what, 0)


def _rows(state: State | None, amount: Amount) -> Iterator[Row]:
    if state is None:
        return
    for name, node in state.ledger.tree.queues.items():
        cohort = "" if node.parent is None else node.parent.name
        for what in node.quotas:
            found = amount(state, node, what)
            if found is not None and found < UNLIMITED:
                yield (cohort, name, *what), in_units(what[1], found)
