"""The disruption controller: how many pods of each budget may go right now (pkg/controller/disruption, 1.36)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from tutti_sim.controllers.worker import Place, Tended, Worker
from tutti_sim.kinds.resource import Resource
from tutti_sim.meta import clock, conditions, labels
from tutti_sim.meta.fields import path
from tutti_sim.rest.backend import Backend
from tutti_sim.rest.local import Local
from tutti_sim.store.version import Key, Version

Json = dict[str, Any]

DELETION_TIMEOUT = timedelta(minutes=2)
"""How long an eviction that was granted counts, while the pod is not being deleted yet."""

UNSCALED = "does not implement the scale subresource"


class Uncountable(Exception):  # noqa: N818 - says what the pods are
    """How many pods there should be cannot be told, because of who controls them."""


@dataclass(frozen=True, slots=True)
class Counts:
    """What a budget's status counts."""

    expected: int
    desired: int
    healthy: int

    @property
    def allowed(self) -> int:
        """How many pods may go."""
        return max(self.healthy - self.desired, 0) if self.expected > 0 else 0


def share(value: int | str, total: int) -> int:
    """A count, or a percentage of a total, rounded up."""
    if isinstance(value, int):
        return value
    return -(-int(value.rstrip("%")) * total // 100)


def needs_scale(spec: Json) -> bool:
    """Whether the budget is relative to how many pods there should be, not to how many there are."""
    return "maxUnavailable" in spec or isinstance(spec.get("minAvailable"), str)


def count(spec: Json, *, expected: int, healthy: int) -> Counts:
    """The counts of a budget over so many pods."""
    if "maxUnavailable" in spec:
        desired = max(expected - share(spec["maxUnavailable"], expected), 0)
    else:
        desired = share(spec.get("minAvailable", 0), expected)
    return Counts(expected, desired, healthy)


def still_disrupted(disrupted: Mapping[str, str], pods: Mapping[str, Json]) -> dict[str, str]:
    """The granted evictions that have not shown in their pods yet, and are not too old to be waited for."""
    now = clock.parse(clock.now())
    return {
        name: since
        for name, since in disrupted.items()
        if name in pods
        and not pods[name]["metadata"].get("deletionTimestamp")
        and clock.parse(since) + DELETION_TIMEOUT > now
    }


def healthy_pods(pods: Mapping[str, Json], disrupted: Mapping[str, str]) -> int:
    """How many pods are ready, stay, and are not promised to an eviction."""
    return sum(
        1
        for name, pod in pods.items()
        if name not in disrupted and not pod["metadata"].get("deletionTimestamp") and conditions.holds(pod, "Ready")
    )


class DisruptionController:
    """Keeps the status of PodDisruptionBudgets."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._local = Local(backend, "disruption-controller")
        self._budgets = Tended(backend, "policy", "v1", "poddisruptionbudgets")
        self._pods = Tended(backend, "", "v1", "pods")
        self._by_namespace: dict[str, dict[Key, labels.Predicate]] = {}
        self._worker = Worker("disruption", self._sync)

    def follow(self, resource: Resource, old: Version | None, new: Version | None) -> None:
        """Note which budgets a write concerns."""
        version = new or old
        if version is None:
            return
        namespace = version.key[0]
        if resource.storage == self._budgets.storage:
            held = self._by_namespace.setdefault(namespace, {})
            if new is None:
                held.pop(version.key, None)
            else:
                held[new.key] = labels.from_object(new.obj["spec"].get("selector"))
                self._worker.note((self._budgets.storage, new.key))
        elif not self._by_namespace.get(namespace):
            return
        elif resource.storage == self._pods.storage:
            own = [one.obj["metadata"].get("labels") or {} for one in (old, new) if one is not None]
            self._note(namespace, own)
        elif resource.scale is not None:
            self._note(namespace, None)

    def _note(self, namespace: str, own: list[labels.Labels] | None) -> None:
        """Note the budgets of a namespace, of those that select any of the labels where some are given."""
        for key, selects in self._by_namespace.get(namespace, {}).items():
            if own is None or any(map(selects, own)):
                self._worker.note((self._budgets.storage, key))

    async def run(self) -> None:
        """Work until cancelled."""
        await self._worker.run()

    async def _sync(self, place: Place) -> None:
        current = self._budgets.get(place[1])
        if current is None:
            return
        status = self._status(current.obj)
        if status != current.obj.get("status"):
            self._local.set_status(self._budgets.resource, current, status)
        if status.get("disruptedPods"):
            self._worker.later(DELETION_TIMEOUT.total_seconds(), place)

    def _status(self, budget: Json) -> Json:
        before: Json = budget.get("status", {})
        generation = budget["metadata"].get("generation", 0)
        selects = labels.from_object(budget["spec"].get("selector"))
        pods = {
            version.key[1]: version.obj
            for version in self._pods.scan(budget["metadata"]["namespace"])
            if selects(version.obj["metadata"].get("labels") or {})
        }
        try:
            expected = self._scale(pods.values()) if needs_scale(budget["spec"]) else len(pods)
        except Uncountable as error:
            failed = conditions.put(
                before.get("conditions", ()), "DisruptionAllowed", "False",
                observedGeneration=generation, reason="SyncFailed", message=str(error),
            )  # fmt: skip
            return {**before, "disruptionsAllowed": 0, "conditions": failed}
        disrupted = still_disrupted(before.get("disruptedPods", {}), pods)
        counts = count(budget["spec"], expected=expected, healthy=healthy_pods(pods, disrupted))
        return written(before, counts, disrupted, generation)

    def _scale(self, pods: Iterable[Json]) -> int:
        """How many pods the controllers of these pods want to have together; pods without one do not count."""
        wanted: dict[str, int] = {}
        for pod in pods:
            owner = self._owner(pod)
            if owner is not None:
                resource, obj = owner
                wanted[obj["metadata"]["uid"]] = _replicas(resource, obj)
        return sum(wanted.values())

    def _owner(self, obj: Json) -> tuple[Resource, Json] | None:
        """The controller of an object; of a ReplicaSet that a Deployment controls, the Deployment."""
        for reference in obj["metadata"].get("ownerReferences", ()):
            if not reference.get("controller"):
                continue
            resource = self._backend.registry.of_kind(reference["apiVersion"], reference["kind"])
            if resource is None:
                return None
            found = self._backend.find(resource.storage, obj["metadata"]["namespace"], reference["name"])
            if found is None or found["metadata"]["uid"] != reference["uid"]:
                return None
            above = self._owner(found) if resource.kind == "ReplicaSet" else None
            return above or (resource, found)
        return None


def _replicas(resource: Resource, obj: Json) -> int:
    if resource.scale is None:
        raise Uncountable(f"{resource.qualified} {UNSCALED}")
    return int(path(resource.scale.spec)(obj) or 0)


def written(before: Json, counts: Counts, disrupted: Mapping[str, str], generation: int) -> Json:
    """The status that says these counts."""
    enough = counts.allowed > 0
    status = {key: value for key, value in before.items() if key != "disruptedPods"}
    if disrupted:
        status["disruptedPods"] = dict(disrupted)
    status["conditions"] = conditions.put(
        before.get("conditions", ()),
        "DisruptionAllowed",
        "True" if enough else "False",
        observedGeneration=generation,
        reason="SufficientPods" if enough else "InsufficientPods",
        message="",
    )
    return {
        **status,
        "disruptionsAllowed": counts.allowed,
        "currentHealthy": counts.healthy,
        "desiredHealthy": counts.desired,
        "expectedPods": counts.expected,
        "observedGeneration": generation,
    }
