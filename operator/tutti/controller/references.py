"""Which objects can be used, judged by what they refer to: the rules behind every `Active` condition.

Reasons are Kueue's where it has them (v0.20, pkg/cache/scheduler/clusterqueue.go and pkg/controller/core), so that
what watches for them keeps working; messages name the missing thing and what would mend it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tutti.controller.specs import ClusterQueueSpec, CohortSpec, FlavorSpec, LocalQueueSpec, Specs, TopologySpec


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether an object is active, and why (a condition without its times)."""

    active: bool
    reason: str
    message: str


# How many users a message names; the rest is counted, because messages are read by people and stored for each change.
_NAMED = 5

_READY_TO_ADMIT = Verdict(active=True, reason="Ready", message="Can admit new workloads")
_READY_TO_QUEUE = Verdict(active=True, reason="Ready", message="Can submit new workloads to its ClusterQueue")
_READY = Verdict(active=True, reason="Ready", message="Everything it refers to exists")


def _inactive(reason: str, message: str) -> Verdict:
    return Verdict(active=False, reason=reason, message=message)


def judge(specs: Specs) -> Iterator[tuple[tuple[str, str, str], Verdict]]:
    """Yield the verdict on every object that has an `Active` condition, by (kind, namespace, name)."""
    for topology in specs.topologies.values():
        yield ("Topology", "", topology.name), judge_topology(topology, specs)
    for flavor in specs.flavors.values():
        yield ("ResourceFlavor", "", flavor.name), judge_flavor(flavor, specs)
    for cohort in specs.cohorts.values():
        yield ("Cohort", "", cohort.name), judge_cohort(cohort, specs)
    for queue in specs.cluster_queues.values():
        yield ("ClusterQueue", "", queue.name), judge_cluster_queue(queue, specs)
    for local in specs.local_queues.values():
        yield ("LocalQueue", local.namespace, local.name), judge_local_queue(local, specs)


def judge_topology(topology: TopologySpec, specs: Specs) -> Verdict:
    """A topology needs nothing; while it is being deleted it says what still uses it."""
    return _terminating(topology_users(topology.name, specs)) if topology.deleting else _READY


def judge_flavor(flavor: FlavorSpec, specs: Specs) -> Verdict:
    """A flavor needs the topology it names; while it is being deleted it says what still uses it."""
    if flavor.deleting:
        return _terminating(flavor_users(flavor.name, specs))
    if flavor.topology and flavor.topology not in specs.topologies:
        return _inactive(
            "TopologyNotFound", f"Topology {flavor.topology!r} does not exist; create it or clear spec.topologyName"
        )
    return _READY


def judge_cohort(cohort: CohortSpec, specs: Specs) -> Verdict:
    """A cohort needs its flavors, and ancestors that do not lead back to it; a parent without an object is a root."""
    ring = cohort_ring(cohort.name, specs)
    if ring:
        return _inactive("CohortCycle", _ring_message(ring))
    return _missing_flavors(cohort.flavors, specs) or _READY


def judge_cluster_queue(queue: ClusterQueueSpec, specs: Specs) -> Verdict:
    """A ClusterQueue needs its flavors with their topologies, a cohort tree without a ring, and not to be stopped."""
    if queue.deleting:
        return _terminating(queue_users(queue.name, specs))
    if queue.stop_policy not in ("", "None"):
        return _inactive("Stopped", f"spec.stopPolicy is {queue.stop_policy}; set it to None to admit workloads")
    ring = cohort_ring(queue.cohort, specs) if queue.cohort else ()
    if ring:
        return _inactive("CohortCycle", _ring_message(ring))
    return _missing_flavors(queue.flavors, specs) or _READY_TO_ADMIT


def judge_local_queue(local: LocalQueueSpec, specs: Specs) -> Verdict:
    """A LocalQueue needs an active ClusterQueue and not to be stopped."""
    if local.stop_policy not in ("", "None"):
        return _inactive("Stopped", f"spec.stopPolicy is {local.stop_policy}; set it to None to submit workloads")
    queue = specs.cluster_queues.get(local.cluster_queue)
    if queue is None:
        return _inactive("ClusterQueueDoesNotExist", f"ClusterQueue {local.cluster_queue!r} does not exist; create it")
    verdict = judge_cluster_queue(queue, specs)
    if not verdict.active:
        return _inactive("ClusterQueueIsInactive", f"ClusterQueue {queue.name!r} is inactive: {verdict.message}")
    return _READY_TO_QUEUE


def cohort_ring(start: str, specs: Specs) -> tuple[str, ...]:
    """Return the ring that the ancestors of cohort `start` run into, first name repeated at the end; empty if none."""
    path: dict[str, int] = {}
    name = start
    while name and name not in path:
        path[name] = len(path)
        cohort = specs.cohorts.get(name)
        name = cohort.parent if cohort else ""
    return (*list(path)[path[name] :], name) if name else ()


def queue_users(name: str, specs: Specs) -> list[str]:
    """Return the Workloads that hold quota of ClusterQueue `name`, as `Kind/namespace/name`, sorted."""
    return sorted(f"Workload/{ns}/{workload}" for (ns, workload), queue in specs.admitted.items() if queue == name)


def flavor_users(name: str, specs: Specs) -> list[str]:
    """Return the ClusterQueues and Cohorts that list flavor `name`, as `Kind/name`, sorted."""
    queues = [f"ClusterQueue/{queue.name}" for queue in specs.cluster_queues.values() if name in queue.flavors]
    cohorts = [f"Cohort/{cohort.name}" for cohort in specs.cohorts.values() if name in cohort.flavors]
    return sorted(queues + cohorts)


def topology_users(name: str, specs: Specs) -> list[str]:
    """Return the ResourceFlavors spread over topology `name`, as `Kind/name`, sorted."""
    return sorted(f"ResourceFlavor/{flavor.name}" for flavor in specs.flavors.values() if flavor.topology == name)


def users(kind: str, name: str, specs: Specs) -> list[str]:
    """Return what still uses a ClusterQueue, ResourceFlavor or Topology and so holds up its deletion."""
    find = {"ClusterQueue": queue_users, "ResourceFlavor": flavor_users, "Topology": topology_users}[kind]
    return find(name, specs)


def _terminating(used_by: list[str]) -> Verdict:
    if not used_by:
        return _inactive("Terminating", "It is being deleted; nothing uses it any more")
    shown = ", ".join(used_by[:_NAMED]) + (f" and {len(used_by) - _NAMED} more" if len(used_by) > _NAMED else "")
    return _inactive("Terminating", f"It is being deleted once nothing uses it; still used by {shown}")


def _missing_flavors(names: tuple[str, ...], specs: Specs) -> Verdict | None:
    missing = sorted(name for name in names if name not in specs.flavors)
    if missing:
        listed = ", ".join(repr(name) for name in missing)
        return _inactive(
            "FlavorNotFound", f"ResourceFlavor {listed} does not exist; create it or remove it from the spec"
        )
    for name in names:
        flavor = specs.flavors[name]
        verdict = _READY if flavor.deleting else judge_flavor(flavor, specs)
        if not verdict.active:
            return _inactive(verdict.reason, f"ResourceFlavor {name!r}: {verdict.message}")
    return None


def _ring_message(ring: tuple[str, ...]) -> str:
    return f"The cohorts form a ring: {' -> '.join(ring)}; change spec.parentName of one of them"
