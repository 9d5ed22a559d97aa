"""What our kinds say about one another, which of them can be used, and what holds up the deletion of some.

The names are taken from raw objects and tolerant of malformed ones, because a reference can be checked, and a deletion
held, whatever else is wrong with an object. What is wrong with a queue, a cohort or a flavor is the quota room's rule,
the one the engine admits by; here it is put beside what only conditions say: that an object is stopped, or on its way
out and still used. Reasons of LocalQueues and of stopped queues are Kueue's (0.20, pkg/controller/core), so that what
watches for them keeps working.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

from tutti.api.conditions import legible_conditions
from tutti.api.kinds.provisioning import PROVISIONING_CONTROLLER
from tutti.quota.flavors import FlavorGroup, Queue, QuotaProblem
from tutti.quota.references import checks_problem, cohort_problem, flavor_problem, misplaced_cohorts, queue_problem

Raw: TypeAlias = Mapping[str, Any]
KindKey: TypeAlias = tuple[str, str, str]
"""Kind, namespace (empty where there is none) and name."""
K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class FlavorReferences:
    """A ResourceFlavor's reference: the Topology it is spread over, or empty."""

    name: str
    topology: str = ""
    deleting: bool = False


@dataclass(frozen=True, slots=True)
class CohortReferences:
    """A Cohort's references: its parent, or empty, and the flavors it shares."""

    name: str
    parent: str = ""
    flavors: tuple[str, ...] = ()
    deleting: bool = False


@dataclass(frozen=True, slots=True)
class ClusterQueueReferences:
    """A ClusterQueue's references: its cohort, or empty, and its flavors in the order they are tried."""

    name: str
    cohort: str = ""
    flavors: tuple[str, ...] = ()
    stop_policy: str = ""
    deleting: bool = False
    checks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CheckReferences:
    """An AdmissionCheck refers to nothing; whether its controller says that it is Active matters to queues."""

    name: str
    active: bool = False
    ours: bool = False


@dataclass(frozen=True, slots=True)
class LocalQueueReferences:
    """A LocalQueue's reference: the ClusterQueue it leads to."""

    namespace: str
    name: str
    cluster_queue: str = ""
    stop_policy: str = ""
    deleting: bool = False


@dataclass(frozen=True, slots=True)
class TopologyReferences:
    """A Topology refers to nothing; only whether it is going matters."""

    name: str
    deleting: bool = False


@dataclass(slots=True)
class References:
    """All specs of the kinds that refer to one another, by name.

    Attributes:
        admitted: Which ClusterQueue's quota each workload holds; filled in while a ClusterQueue is being deleted.
        broken: What is wrong with each object that cannot be read.
    """

    topologies: dict[str, TopologyReferences] = field(default_factory=dict)
    flavors: dict[str, FlavorReferences] = field(default_factory=dict)
    cohorts: dict[str, CohortReferences] = field(default_factory=dict)
    cluster_queues: dict[str, ClusterQueueReferences] = field(default_factory=dict)
    local_queues: dict[tuple[str, str], LocalQueueReferences] = field(default_factory=dict)
    checks: dict[str, CheckReferences] = field(default_factory=dict)
    admitted: Mapping[KindKey, str] = field(default_factory=dict)
    broken: dict[KindKey, str] = field(default_factory=dict)
    requests_followed: bool = False

    def with_object(self, kind: str, raw: Raw) -> References:
        """Return a copy in which the object is as given and can be read, as if it had been accepted."""
        copy = References(
            dict(self.topologies),
            dict(self.flavors),
            dict(self.cohorts),
            dict(self.cluster_queues),
            dict(self.local_queues),
            dict(self.checks),
            self.admitted,
        )
        copy.add(kind, raw)
        return copy

    def add(self, kind: str, raw: Raw) -> bool:
        """Take in, or replace, an object of any of our kinds, and say whether that changed anything here.

        Kinds that nothing here refers to, and everything but references in the others, change nothing.
        """
        name, namespace = text_at(raw, "metadata", "name"), text_at(raw, "metadata", "namespace")
        deleting = bool(text_at(raw, "metadata", "deletionTimestamp"))
        match kind:
            case "Topology":
                return _put(self.topologies, name, TopologyReferences(name, deleting))
            case "ResourceFlavor":
                return _put(self.flavors, name, FlavorReferences(name, text_at(raw, "spec", "topologyName"), deleting))
            case "Cohort":
                parent = text_at(raw, "spec", "parentName")
                return _put(self.cohorts, name, CohortReferences(name, parent, flavor_names(raw), deleting))
            case "ClusterQueue":
                cohort, stop = text_at(raw, "spec", "cohortName"), text_at(raw, "spec", "stopPolicy")
                return _put(
                    self.cluster_queues,
                    name,
                    ClusterQueueReferences(name, cohort, flavor_names(raw), stop, deleting, check_names(raw)),
                )
            case "AdmissionCheck":
                told = legible_conditions(raw.get("status"))
                active = any(one["type"] == "Active" and one["status"] == "True" for one in told)
                ours = text_at(raw, "spec", "controllerName") == PROVISIONING_CONTROLLER
                return _put(self.checks, name, CheckReferences(name, active or ours, ours))
            case "LocalQueue":
                queue, stop = text_at(raw, "spec", "clusterQueue"), text_at(raw, "spec", "stopPolicy")
                spec = LocalQueueReferences(namespace, name, queue, stop, deleting)
                return _put(self.local_queues, (namespace, name), spec)
            case _:
                return False

    def remove(self, kind: str, namespace: str, name: str) -> bool:
        """Forget an object, and say whether that changed anything here."""
        match kind:
            case "Topology":
                return self.topologies.pop(name, None) is not None
            case "ResourceFlavor":
                return self.flavors.pop(name, None) is not None
            case "Cohort":
                return self.cohorts.pop(name, None) is not None
            case "ClusterQueue":
                return self.cluster_queues.pop(name, None) is not None
            case "AdmissionCheck":
                return self.checks.pop(name, None) is not None
            case "LocalQueue":
                return self.local_queues.pop((namespace, name), None) is not None
            case _:
                return False

    def is_leaving(self, kind: str, name: str) -> bool:
        """Whether a ClusterQueue, ResourceFlavor or Topology is known to be on its way out."""
        spec = self._held()[kind].get(name)
        return spec is not None and spec.deleting

    def leaving(self) -> list[tuple[str, str]]:
        """Return all of these that are, as kind and name."""
        return [(kind, name) for kind, specs in self._held().items() for name, spec in specs.items() if spec.deleting]

    def _held(self) -> Mapping[str, Mapping[str, ClusterQueueReferences | FlavorReferences | TopologyReferences]]:
        return {
            "ClusterQueue": self.cluster_queues,
            "ResourceFlavor": self.flavors,
            "Topology": self.topologies,
        }

    @property
    def queue_is_leaving(self) -> bool:
        """Whether any ClusterQueue is being deleted, which is when it matters who holds quota."""
        return any(queue.deleting for queue in self.cluster_queues.values())


def _put(table: dict[K, V], key: K, value: V) -> bool:
    """Store a value and say whether it differs from what was there."""
    changed = table.get(key) != value
    table[key] = value
    return changed


def text_at(raw: Raw, *path: str) -> str:
    """Return the string at `path`, or empty where there is none."""
    value: Any = raw
    for step in path:
        if not isinstance(value, Mapping):
            return ""
        value = value.get(step)
    return value if isinstance(value, str) else ""


def flavor_names(raw: Raw) -> tuple[str, ...]:
    """Return the names of all flavors in `spec.resourceGroups`, in their order, each once."""
    names: dict[str, None] = {}
    for group in _records(raw.get("spec"), "resourceGroups"):
        for flavor in _records(group, "flavors"):
            name = text_at(flavor, "name")
            if name:
                names[name] = None
    return tuple(names)


def check_names(raw: Raw) -> tuple[str, ...]:
    """Return the names of all checks in `spec.admissionChecksStrategy`, in their order, each once."""
    spec = raw.get("spec")
    strategy = spec.get("admissionChecksStrategy") if isinstance(spec, Mapping) else None
    names = (text_at(check, "name") for check in _records(strategy, "admissionChecks"))
    return tuple(dict.fromkeys(name for name in names if name))


def _records(raw: Any, key: str) -> list[Raw]:
    values = raw.get(key) if isinstance(raw, Mapping) else None
    return [value for value in values if isinstance(value, Mapping)] if isinstance(values, list) else []


@dataclass(frozen=True, slots=True)
class ActiveCondition:
    """Whether an object is active, and why (a condition without its times)."""

    active: bool
    reason: str
    message: str


# How many users a message names; the rest is counted, because messages are read by people and stored at each change.
_NAMED = 5

_READY_TO_ADMIT = ActiveCondition(active=True, reason="Ready", message="Can admit new workloads")
_READY_TO_ASK = ActiveCondition(active=True, reason="Ready", message="Nodes are asked for by ProvisioningRequests")
_NOT_SERVED = ActiveCondition(
    active=False,
    reason="NotServed",
    message="The server does not serve provisioningrequests.autoscaling.x-k8s.io v1, or the operator may not read them "
    "(component provisioning-requests); meanwhile workloads wait for nodes that are there",
)
_READY_TO_QUEUE = ActiveCondition(active=True, reason="Ready", message="Can submit new workloads to its ClusterQueue")
_READY = ActiveCondition(active=True, reason="Ready", message="Everything it refers to exists")


def _inactive(reason: str, message: str) -> ActiveCondition:
    return ActiveCondition(active=False, reason=reason, message=message)


def _unless(problem: QuotaProblem | None, otherwise: ActiveCondition) -> ActiveCondition:
    return otherwise if problem is None else _inactive(problem.reason, problem.message)


@dataclass(frozen=True, slots=True)
class _World:
    """What verdicts depend on, worked out once for all of them."""

    specs: References
    parents: Mapping[str, str]
    misplaced: Mapping[str, QuotaProblem]
    flavors: frozenset[str]
    topologies: frozenset[str]

    def unreadable(self, kind: str) -> dict[str, str]:
        """Return what is wrong with each object of a cluster-scoped kind that cannot be read."""
        return {name: wrong for (one, _, name), wrong in self.specs.broken.items() if one == kind}


def active_conditions(specs: References) -> Iterator[tuple[KindKey, ActiveCondition]]:
    """Yield the verdict on every object that has an `Active` condition, by (kind, namespace, name).

    Of AdmissionChecks these are the ones that the operator answers itself.
    An object that cannot be read counts as absent for those that refer to it, as it does for the engine.
    """
    broken, parents = specs.broken, parents_of_cohorts(specs)
    world = _World(
        specs,
        parents=parents,
        misplaced=misplaced_cohorts(parents),
        flavors=frozenset(name for name in specs.flavors if ("ResourceFlavor", "", name) not in broken),
        topologies=frozenset(name for name in specs.topologies if ("Topology", "", name) not in broken),
    )
    queues: dict[str, ActiveCondition] = {}
    for key, verdict in _conditions(world, queues):
        told = _inactive("Invalid", broken[key]) if key in broken else verdict
        if key[0] == "ClusterQueue":
            queues[key[2]] = told
        yield key, told


def _conditions(world: _World, queues: Mapping[str, ActiveCondition]) -> Iterator[tuple[KindKey, ActiveCondition]]:
    """Yield verdicts of readable and unreadable objects alike; `queues` fills up before local queues are judged."""
    specs = world.specs
    for topology in specs.topologies.values():
        used_by = topology_users(topology.name, specs) if topology.deleting else []
        yield ("Topology", "", topology.name), _terminating(used_by) if topology.deleting else _READY
    for flavor in specs.flavors.values():
        yield ("ResourceFlavor", "", flavor.name), _judge_flavor(flavor, world)
    for cohort in specs.cohorts.values():
        yield ("Cohort", "", cohort.name), _judge_cohort(cohort, world)
    for check in specs.checks.values():
        if check.ours:
            yield ("AdmissionCheck", "", check.name), _READY_TO_ASK if specs.requests_followed else _NOT_SERVED
    for queue in specs.cluster_queues.values():
        yield ("ClusterQueue", "", queue.name), _judge_cluster_queue(queue, world)
    for local in specs.local_queues.values():
        yield ("LocalQueue", local.namespace, local.name), _judge_local_queue(local, queues)


def active_condition(key: KindKey, specs: References) -> ActiveCondition | None:
    """Return the verdict on one object, or None where there is none of that name."""
    return dict(active_conditions(specs)).get(key)


def parents_of_cohorts(specs: References) -> dict[str, str]:
    """Return the parent of each cohort, "" for none."""
    return {cohort.name: cohort.parent for cohort in specs.cohorts.values()}


def _judge_flavor(flavor: FlavorReferences, world: _World) -> ActiveCondition:
    if flavor.deleting:
        return _terminating(flavor_users(flavor.name, world.specs))
    return _unless(flavor_problem(flavor.topology, world.topologies, unreadable=world.unreadable("Topology")), _READY)


def _judge_cohort(cohort: CohortReferences, world: _World) -> ActiveCondition:
    """A parent without an object is no problem: it is a root without quota of its own."""
    shared = Queue(cohort.name, groups=(FlavorGroup((), cohort.flavors),))
    problem = world.misplaced.get(cohort.name)
    problem = problem or queue_problem(shared, world.flavors, {}, unreadable=world.unreadable("ResourceFlavor"))
    return _unless(problem or _spread(cohort.flavors, world), _READY)


def _judge_cluster_queue(queue: ClusterQueueReferences, world: _World) -> ActiveCondition:
    if queue.deleting:
        return _terminating(queue_users(queue.name, world.specs))
    if queue.stop_policy not in ("", "None"):
        return _inactive("Stopped", f"spec.stopPolicy is {queue.stop_policy}; set it to None to admit workloads")
    admitting = Queue(queue.name, cohort=queue.cohort, groups=(FlavorGroup((), queue.flavors),))
    problem = queue_problem(admitting, world.flavors, world.misplaced, unreadable=world.unreadable("ResourceFlavor"))
    problem = problem or _spread(queue.flavors, world) or _checked(queue.checks, world)
    problem = problem or cohort_problem(queue.cohort, world.parents, unreadable=world.unreadable("Cohort"))
    return _unless(problem, _READY_TO_ADMIT)


def _judge_local_queue(local: LocalQueueReferences, queues: Mapping[str, ActiveCondition]) -> ActiveCondition:
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


def queue_users(name: str, specs: References) -> list[str]:
    """Return the workloads that hold quota of ClusterQueue `name`, as `Kind/namespace/name`, sorted."""
    return sorted("/".join(key) for key, queue in specs.admitted.items() if queue == name)


def flavor_users(name: str, specs: References) -> list[str]:
    """Return the ClusterQueues and Cohorts that list flavor `name`, as `Kind/name`, sorted."""
    queues = [f"ClusterQueue/{queue.name}" for queue in specs.cluster_queues.values() if name in queue.flavors]
    cohorts = [f"Cohort/{cohort.name}" for cohort in specs.cohorts.values() if name in cohort.flavors]
    return sorted(queues + cohorts)


def topology_users(name: str, specs: References) -> list[str]:
    """Return the ResourceFlavors spread over topology `name`, as `Kind/name`, sorted."""
    return sorted(f"ResourceFlavor/{flavor.name}" for flavor in specs.flavors.values() if flavor.topology == name)


def users(kind: str, name: str, specs: References) -> list[str]:
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


def _checked(checks: tuple[str, ...], world: _World) -> QuotaProblem | None:
    """Return the first problem of the checks that a queue asks for."""
    wrong = world.unreadable("AdmissionCheck")
    active = {one.name: one.active for one in world.specs.checks.values() if one.name not in wrong}
    return checks_problem(checks, active, unreadable=wrong)


def _terminating(used_by: list[str]) -> ActiveCondition:
    if not used_by:
        return _inactive("Terminating", "It is being deleted; nothing uses it any more")
    return _inactive("Terminating", f"It is being deleted once nothing uses it; still used by {listed_users(used_by)}")


def listed_users(used_by: list[str]) -> str:
    """Return the first few of many users in words, and how many more there are."""
    more = len(used_by) - _NAMED
    return ", ".join(used_by[:_NAMED]) + (f" and {more} more" if more > 0 else "")
