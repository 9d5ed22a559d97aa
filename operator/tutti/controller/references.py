"""Which objects can be used: the `Active` condition of each, and what holds up the deletion of some.

What is wrong with a queue, a cohort or a flavor is the quota room's rule, the one the engine admits by; here it is put
beside what only conditions say: that an object is stopped, or on its way out and still used. Reasons of LocalQueues
and of stopped queues are Kueue's (0.20, pkg/controller/core), so that what watches for them keeps working.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tutti.controller.specs import ClusterQueueSpec, CohortSpec, FlavorSpec, LocalQueueSpec, ObjectKey, Specs
from tutti.quota.flavors import FlavorGroup, Queue, QuotaProblem
from tutti.quota.references import cohort_problem, flavor_problem, queue_problem, ring_problem, rings


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether an object is active, and why (a condition without its times)."""

    active: bool
    reason: str
    message: str


# How many users a message names; the rest is counted, because messages are read by people and stored at each change.
_NAMED = 5

_READY_TO_ADMIT = Verdict(active=True, reason="Ready", message="Can admit new workloads")
_READY_TO_QUEUE = Verdict(active=True, reason="Ready", message="Can submit new workloads to its ClusterQueue")
_READY = Verdict(active=True, reason="Ready", message="Everything it refers to exists")


def _inactive(reason: str, message: str) -> Verdict:
    return Verdict(active=False, reason=reason, message=message)


def _of(problem: QuotaProblem | None, otherwise: Verdict) -> Verdict:
    return otherwise if problem is None else _inactive(problem.reason, problem.message)


@dataclass(frozen=True, slots=True)
class _World:
    """What verdicts depend on, worked out once for all of them."""

    specs: Specs
    caught: Mapping[str, tuple[str, ...]]
    flavors: frozenset[str]
    topologies: frozenset[str]

    def unreadable(self, kind: str) -> dict[str, str]:
        """Return what is wrong with each object of a cluster-scoped kind that cannot be read."""
        return {name: wrong for (one, _, name), wrong in self.specs.broken.items() if one == kind}


def judge(specs: Specs) -> Iterator[tuple[ObjectKey, Verdict]]:
    """Yield the verdict on every object that has an `Active` condition, by (kind, namespace, name).

    An object that cannot be read counts as absent for those that refer to it, as it does for the engine.
    """
    broken = specs.broken
    world = _World(
        specs,
        caught=caught_cohorts(specs),
        flavors=frozenset(name for name in specs.flavors if ("ResourceFlavor", "", name) not in broken),
        topologies=frozenset(name for name in specs.topologies if ("Topology", "", name) not in broken),
    )
    queues: dict[str, Verdict] = {}
    for key, verdict in _verdicts(world, queues):
        told = _inactive("Invalid", broken[key]) if key in broken else verdict
        if key[0] == "ClusterQueue":
            queues[key[2]] = told
        yield key, told


def _verdicts(world: _World, queues: Mapping[str, Verdict]) -> Iterator[tuple[ObjectKey, Verdict]]:
    """Yield verdicts of readable and unreadable objects alike; `queues` fills up before local queues are judged."""
    specs = world.specs
    for topology in specs.topologies.values():
        used_by = topology_users(topology.name, specs) if topology.deleting else []
        yield ("Topology", "", topology.name), _terminating(used_by) if topology.deleting else _READY
    for flavor in specs.flavors.values():
        yield ("ResourceFlavor", "", flavor.name), _judge_flavor(flavor, world)
    for cohort in specs.cohorts.values():
        yield ("Cohort", "", cohort.name), _judge_cohort(cohort, world)
    for queue in specs.cluster_queues.values():
        yield ("ClusterQueue", "", queue.name), _judge_cluster_queue(queue, world)
    for local in specs.local_queues.values():
        yield ("LocalQueue", local.namespace, local.name), _judge_local_queue(local, queues)


def verdict_on(key: ObjectKey, specs: Specs) -> Verdict | None:
    """Return the verdict on one object, or None where there is none of that name."""
    return dict(judge(specs)).get(key)


def caught_cohorts(specs: Specs) -> dict[str, tuple[str, ...]]:
    """Return each cohort that is in a ring of cohorts, or below one, with that ring."""
    return rings({cohort.name: cohort.parent for cohort in specs.cohorts.values()})


def _judge_flavor(flavor: FlavorSpec, world: _World) -> Verdict:
    if flavor.deleting:
        return _terminating(flavor_users(flavor.name, world.specs))
    return _of(flavor_problem(flavor.topology, world.topologies, unreadable=world.unreadable("Topology")), _READY)


def _judge_cohort(cohort: CohortSpec, world: _World) -> Verdict:
    """A parent without an object is no problem: it is a root without quota of its own."""
    if cohort.name in world.caught:
        return _of(ring_problem(world.caught[cohort.name]), _READY)
    shared = Queue(cohort.name, groups=(FlavorGroup((), cohort.flavors),))
    problem = queue_problem(shared, world.flavors, {}, unreadable=world.unreadable("ResourceFlavor"))
    return _of(problem or _spread(cohort.flavors, world), _READY)


def _judge_cluster_queue(queue: ClusterQueueSpec, world: _World) -> Verdict:
    if queue.deleting:
        return _terminating(queue_users(queue.name, world.specs))
    if queue.stop_policy not in ("", "None"):
        return _inactive("Stopped", f"spec.stopPolicy is {queue.stop_policy}; set it to None to admit workloads")
    admitting = Queue(queue.name, cohort=queue.cohort, groups=(FlavorGroup((), queue.flavors),))
    problem = queue_problem(admitting, world.flavors, world.caught, unreadable=world.unreadable("ResourceFlavor"))
    problem = problem or _spread(queue.flavors, world)
    parents = {cohort.name: cohort.parent for cohort in world.specs.cohorts.values()}
    problem = problem or cohort_problem(queue.cohort, parents, unreadable=world.unreadable("Cohort"))
    return _of(problem, _READY_TO_ADMIT)


def _judge_local_queue(local: LocalQueueSpec, queues: Mapping[str, Verdict]) -> Verdict:
    if local.stop_policy not in ("", "None"):
        return _inactive("Stopped", f"spec.stopPolicy is {local.stop_policy}; set it to None to submit workloads")
    if not local.cluster_queue:
        return _inactive("ClusterQueueDoesNotExist", "spec.clusterQueue is empty: name the ClusterQueue it leads to")
    verdict = queues.get(local.cluster_queue)
    if verdict is None:
        return _inactive("ClusterQueueDoesNotExist", f"ClusterQueue {local.cluster_queue} does not exist; create it")
    if not verdict.active:
        return _inactive("ClusterQueueIsInactive", f"ClusterQueue {local.cluster_queue} is inactive: {verdict.message}")
    return _READY_TO_QUEUE


def queue_users(name: str, specs: Specs) -> list[str]:
    """Return the workloads that hold quota of ClusterQueue `name`, as `Kind/namespace/name`, sorted."""
    return sorted("/".join(key) for key, queue in specs.admitted.items() if queue == name)


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


def _spread(flavors: tuple[str, ...], world: _World) -> QuotaProblem | None:
    """Return the first problem of the flavors listed, all of which exist."""
    for name in flavors:
        topology = world.specs.flavors[name].topology
        problem = flavor_problem(topology, world.topologies, unreadable=world.unreadable("Topology"))
        if problem is not None:
            return QuotaProblem(problem.reason, f"ResourceFlavor {name}: {problem.message}")
    return None


def _terminating(used_by: list[str]) -> Verdict:
    if not used_by:
        return _inactive("Terminating", "It is being deleted; nothing uses it any more")
    return _inactive("Terminating", f"It is being deleted once nothing uses it; still used by {listed(used_by)}")


def listed(used_by: list[str]) -> str:
    """Return the first few of many users in words, and how many more there are."""
    more = len(used_by) - _NAMED
    return ", ".join(used_by[:_NAMED]) + (f" and {more} more" if more > 0 else "")
