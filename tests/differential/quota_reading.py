"""Turns the records of the quota corpus into what `tutti.quota` works on; the format is described in quota.md."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from tutti.api.quantity import parse
from tutti.api.resources import from_milli
from tutti.quota.ordering import Requeuing, queued_at
from tutti.quota.policy import PreemptionPolicy, Who
from tutti.quota.snapshot import Holder, Snapshot
from tutti.quota.tree import UNLIMITED, FlavorResource, Quota, QuotaTree, Usage

Record = dict[str, Any]


def amount(resource: str, text: str | None) -> int | None:
    """An amount in scheduling units; None where there is none."""
    if text is None:
        return None
    return UNLIMITED if text == "unlimited" else from_milli(resource, parse(text))


def usage(by_flavor: dict[str, dict[str, str]] | None) -> Usage:
    return {
        (flavor, resource): amount(resource, text) or 0
        for flavor, resources in (by_flavor or {}).items()
        for resource, text in resources.items()
    }


def quotas(node: Record) -> dict[FlavorResource, Quota]:
    return {
        (flavor["name"], one["name"]): Quota(
            amount(one["name"], one["nominal"]) or 0,
            amount(one["name"], one.get("borrowingLimit")),
            amount(one["name"], one.get("lendingLimit")),
        )
        for group in node.get("resourceGroups", [])
        for flavor in group["flavors"]
        for one in flavor["resources"]
    }


def weights(nodes: Iterable[Record]) -> dict[str, int]:
    return {node["name"]: parse(node["weight"]) for node in nodes if "weight" in node}


def tree(case: Record) -> QuotaTree:
    queues, cohorts = case["clusterQueues"], case.get("cohorts", [])
    return QuotaTree(
        {queue["name"]: (queue.get("cohort", ""), quotas(queue)) for queue in queues},
        {cohort["name"]: (cohort.get("parent", ""), quotas(cohort)) for cohort in cohorts},
        queue_weights=weights(queues),
        cohort_weights=weights(cohorts),
    )


def policy(queue: Record) -> PreemptionPolicy:
    said = queue.get("preemption", {})
    borrow = said.get("borrowWithinCohort", {})
    return PreemptionPolicy(
        Who(said.get("withinClusterQueue", "Never")),
        Who(said.get("reclaimWithinCohort", "Never")),
        borrow.get("policy", "Never") != "Never",
        borrow.get("maxPriorityThreshold"),
    )


def requeuing(case: Record) -> Requeuing:
    return Requeuing(case.get("options", {}).get("requeuingTimestamp", "Eviction"))


def when(workload: Record, by: Requeuing = Requeuing.EVICTION) -> float:
    """When a workload came into its queue."""
    condition = workload.get("evicted") or {}
    at = condition["at"] if condition.get("status") else None
    reason = condition.get("reason")
    return queued_at(
        workload.get("createdAt", -math.inf),
        by,
        not_ready_at=at if reason == "PodsReadyTimeout" else None,
        check_failed_at=at if reason == "AdmissionCheck" else None,
    )


def count_left(workload: Record, pod_set: Record) -> int:
    """How many pods of a pod set there still are, once those are done that it can be relieved of."""
    done = {one["name"]: one["count"] for one in workload.get("reclaimablePods") or []}
    return max(0, pod_set["count"] - done.get(pod_set["name"], 0))


def held(workload: Record) -> Usage:
    """What a workload holds, over its pod sets; with fewer pods left than were admitted, what so many of them hold.

    Kueue, pkg/workload/workload.go `totalRequestsFromAdmission` (0.20); `pods` is a resource like any other.
    """
    total: Usage = {}
    for pod_set in workload["podSets"]:
        admitted, left = pod_set.get("admittedCount", pod_set["count"]), count_left(workload, pod_set)
        for resource, flavor in pod_set.get("flavors", {}).items():
            what = (flavor, resource)
            given = amount(resource, pod_set.get("usage", {}).get(resource)) or 0
            if resource == "pods" and "pods" not in pod_set.get("usage", {}):
                given = admitted
            total[what] = total.get(what, 0) + (given // admitted * left if left < admitted else given)
    return total


def evicted(workload: Record) -> bool:
    return bool(workload.get("evicted") and workload["evicted"]["status"])


def holder(workload: Record, by: Requeuing = Requeuing.EVICTION) -> Holder:
    return Holder(
        workload["name"],
        workload.get("queue") or "",
        held(workload),
        priority=workload.get("priority", 0),
        queued_at=when(workload, by),
        reserved_at=workload.get("reservedAt", math.inf),
        evicted=evicted(workload),
        uid=workload.get("uid", ""),
        local_queue=workload.get("localQueue", ""),
    )


def snapshot(case: Record, holders: Iterable[Record]) -> Snapshot:
    """The quota tree with these workloads in it."""
    policies = {queue["name"]: policy(queue) for queue in case["clusterQueues"]}
    result = Snapshot(tree(case), policies)
    for one in holders:
        result.add(holder(one, requeuing(case)))
    return result
