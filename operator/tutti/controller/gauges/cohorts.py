"""Cohorts: what they give and use, who is below whom, and shares where these count. Names are Kueue's (0.20)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import nan

from prometheus_client.core import Metric

from tutti.controller.gauges.families import Row, gauges, in_units
from tutti.engine.state import State
from tutti.quota.fair_sharing import share
from tutti.quota.tree import UNLIMITED, QuotaNode, Usage, add_to

COHORT = ("cohort",)
QUOTA = ("cohort", "flavor", "resource")
ABOVE = ("parent_cohort", "root_cohort")


def of_cohorts(state: State | None) -> Iterator[Metric]:
    """Yield what is below each Cohort; families without values where there is no state."""
    cohorts = [] if state is None else list(state.holdings.tree.cohorts.values())
    yield gauges(
        "kueue_cohort_subtree_quota",
        "Quota of a Cohort and of everything below it, without what is never lent.",
        QUOTA,
        _amounts((cohort.name, cohort.subtree) for cohort in cohorts),
    )
    yield gauges(
        "kueue_cohort_subtree_resource_reservations",
        "Quota that the ClusterQueues below a Cohort hold together.",
        QUOTA,
        _amounts((cohort.name, _held(cohort)) for cohort in cohorts),
    )
    admitted = () if state is None else ((cohort.name, _admitted(state, cohort)) for cohort in cohorts)
    yield gauges(
        "kueue_cohort_subtree_admitted_active_workloads",
        "Workloads in the ClusterQueues below a Cohort that are admitted and have not ended.",
        COHORT,
        (((name,), count) for name, count in admitted),
    )


def of_parents(state: State | None) -> Iterator[Metric]:
    """Yield which cohort each ClusterQueue and Cohort is in; families without values where there is no state."""
    tree = None if state is None else state.holdings.tree
    for name, label, nodes in (
        ("kueue_cluster_queue_info", "cluster_queue", () if tree is None else tree.queues.values()),
        ("kueue_cohort_info", *COHORT, () if tree is None else tree.cohorts.values()),
    ):
        rows = (((node.name, *_above(node)), 1.0) for node in nodes)
        yield gauges(name, "Always 1; the labels say in which cohort it is, and below which.", (label, *ABOVE), rows)


def of_shares(state: State | None) -> Iterator[Metric]:
    """Yield the share of each ClusterQueue and Cohort; families without values unless fair sharing is on."""
    tree = None if state is None or not state.rules.fair else state.holdings.tree
    queues = [] if tree is None else list(tree.queues.values())
    cohorts = [] if tree is None else list(tree.cohorts.values())
    says = "What is borrowed of what could be, in the dominant resource and by weight, in thousandths; NaN: weight 0."
    rows = (((node.name, "" if node.parent is None else node.parent.name), _share(node)) for node in queues)
    yield gauges("kueue_cluster_queue_weighted_share", says, ("cluster_queue", *COHORT), rows)
    yield gauges("kueue_cohort_weighted_share", says, COHORT, (((node.name,), _share(node)) for node in cohorts))


def _share(node: QuotaNode) -> float:
    found = share(node)
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


def _admitted(state: State, cohort: QuotaNode) -> int:
    return sum(state.counts.of(queue.name).admitted for queue in cohort.leaves())


def _amounts(amounts: Iterable[tuple[str, Usage]]) -> Iterator[Row]:
    for name, usage in amounts:
        for what, amount in usage.items():
            if amount < UNLIMITED:
                yield (name, *what), in_units(what[1], amount)
