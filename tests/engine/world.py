"""A cluster for engine tests: it tells the engine what exists and carries out what the engine decides.

Here is the engine's side: what it is told, when it decides, and what tests look at. What there is can be found in
`nodes_and_pods.py`, `written_objects.py`, `storage.py`, `devices.py` and `autoscaler.py`; how decisions are carried out, in
`decision_writers.py`.

Nothing here schedules. Binds and evictions succeed and are seen at once, unless a test holds them back or names
another outcome. What the engine is told and decides is journalled, so that every test can replay itself.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any, ClassVar

from tests.engine.autoscaler import Autoscaler
from tests.engine.decision_writers import DecisionWriters
from tests.engine.devices import Devices
from tests.engine.nodes_and_pods import GPU, NodesAndPods, replaced
from tests.engine.storage import Storage
from tests.engine.written_objects import NAMESPACED, WrittenObjects
from tutti.api.configuration import TuttiConfiguration
from tutti.api.core import Namespace, ObjectMeta, PodCondition
from tutti.engine.cycle.engine import Engine
from tutti.engine.journal import JournalWriter, Replay, Share, replay
from tutti.engine.records.decisions import AnyDecision, Bind, EmitEvent
from tutti.engine.records.explanation import Explanation
from tutti.engine.records.observations import (
    AllowanceSeen,
    AnyObservation,
    GangObjectSeen,
    NamespaceSeen,
    NetworkObjectSeen,
    NodeSeen,
    NodeTopologySeen,
    ObjectSeen,
    OwnerKindFollowed,
    OwnerSeen,
    PodSeen,
    Synced,
    ThrottleSeen,
)
from tutti.engine.records.plugins import Plugins, checksums
from tutti.engine.records.provisioning import ProvisioningFollowed

START = 1_000_000.0

__all__ = ["GPU", "START", "World", "replaced"]  # what tests make of a World needs these, too


class World(NodesAndPods, WrittenObjects, DecisionWriters):
    """A cluster and the engine that schedules it.

    What there is, and what befalls it, is in `NodesAndPods` and `WrittenObjects`; how decisions are carried out, and how that
    is held back or refused, in `DecisionWriters`. `opened` gives what the journal of each engine is written to.
    """

    opened: ClassVar[Callable[[], io.BytesIO]] = io.BytesIO

    def __init__(
        self,
        *,
        namespaces: tuple[str, ...] = ("default",),
        synced: bool = True,
        plugins: Plugins | None = None,
        **configuration: Any,
    ) -> None:
        super().__init__()
        self.configuration = TuttiConfiguration(**configuration)
        self.plugins = plugins or {}
        self.now = START
        self.namespaces = namespaces
        self.most: int | None = None  # how many are tried in one turn
        self.share: int | None = None  # at which question a turn is told that its share of time is over
        self.log: list[AnyDecision] = []
        self.storage = Storage(self)
        self.devices = Devices(self)
        self.autoscaler = Autoscaler(self)
        self._start(synced=synced)

    def _start(self, *, synced: bool) -> None:
        self.engine = Engine(self.configuration, self.plugins)
        self.journal = type(self).opened()
        self._writer = JournalWriter(self.journal, self.configuration, policies=checksums(self.plugins))
        for name in self.namespaces:
            self.tell(NamespaceSeen(Namespace(ObjectMeta(name=name, labels={"kubernetes.io/metadata.name": name}))))
        for kind in self.followed:
            self.tell(OwnerKindFollowed(*kind, followed=True))
        if self.autoscaler.served:
            self.tell(ProvisioningFollowed(followed=True))
        if synced:
            self.tell(Synced())

    def restart(self, *, backwards: bool = False, synced: bool = True) -> None:
        """Start a new engine and list everything to it; answers that are still out are lost with the old one.

        Without `synced` it stands by until it is told `Synced`.
        """
        self.pending_binds.clear()
        self._start(synced=False)
        seen = self.listed()
        for observation in reversed(seen) if backwards else seen:
            self.tell(observation)
        if synced:
            self.tell(Synced())

    def listed(self) -> list[AnyObservation]:
        """Everything that there is, as a new engine is told of it."""
        return [
            *(ObjectSeen(key[0], raw) for key, raw in self.objects.items()),
            *(GangObjectSeen(key[0], key[1], raw) for key, raw in self.gang_objects.items()),
            *(NodeSeen(node) for node in self.nodes.values()),
            *(AllowanceSeen(quota) for quota in self.allowances.values()),
            *(NodeTopologySeen(report) for report in self.topologies.values()),
            *(ThrottleSeen(key[0], raw) for key, raw in self.throttles.items()),
            *(NetworkObjectSeen(key[0], raw) for key, raw in self.network_objects.items()),
            *(OwnerSeen(owner) for owner in self.owners.values()),
            *self.storage.all(),
            *self.devices.all(),
            *self.autoscaler.all(),
            *(PodSeen(pod) for pod in self.pods.values()),
        ]

    # The engine.

    def tell(self, observation: AnyObservation) -> None:
        self._writer.saw(observation)
        self.engine.observe(observation)

    def decide(self, advance: float = 0.0) -> list[AnyDecision]:
        """Let the engine decide once, and carry it out."""
        self.now += advance
        share = Share(lambda asked: asked == self.share)
        decisions = self.engine.decide(self.now, most=self.most, enough=share)
        self._writer.decided(self.now, decisions, most=self.most, ended=share.ended)
        self.log.extend(decisions)
        self._carry_out_all(decisions)
        return decisions

    def run(self, turns: int = 30) -> list[AnyDecision]:
        """Decide until nothing more comes of it."""
        out: list[AnyDecision] = []
        for _ in range(turns):
            decisions = self.decide()
            out += decisions
            due = self.engine.wakeup()
            if not decisions and (due is None or due > self.now):
                return out
        raise AssertionError(f"no rest after {turns} turns; last: {decisions}, next at {due}, now {self.now}")

    def until(self, seconds: float) -> list[AnyDecision]:
        """Run on, following the engine's wake-ups, for so many seconds."""
        end, out = self.now + seconds, self.run()
        while (due := self.engine.wakeup()) is not None and due <= end:
            self.now = max(self.now, due)
            out += self.run()
        self.now = end
        return out + self.run()

    def replay(self) -> Replay:
        """Replay the journal of the engine that runs now."""
        return replay(self.journal.getvalue().splitlines(), lambda _: self.plugins)

    # What tests look at.

    def where(self, prefix: str = "", namespace: str = "default") -> dict[str, str]:
        """Bound pods and their nodes."""
        return {
            name: pod.spec.node_name
            for (ns, name), pod in sorted(self.pods.items())
            if ns == namespace and name.startswith(prefix) and pod.spec.node_name
        }

    def why(self, kind: str, name: str, namespace: str = "default") -> Explanation | None:
        workload = self.engine.state.workloads.get((kind, namespace, name))
        return workload.explanation if workload else None

    def reason(self, kind: str, name: str) -> str:
        why = self.why(kind, name)
        return why.reason if why else ""

    def events(self, reason: str = "", name: str = "") -> list[EmitEvent]:
        return [
            d
            for d in self.log
            if isinstance(d, EmitEvent) and (not reason or d.reason == reason) and (not name or d.name == name)
        ]

    def binds(self) -> list[Bind]:
        return [d for d in self.log if isinstance(d, Bind)]

    def status(self, kind: str, name: str) -> dict[str, Any]:
        status: dict[str, Any] = self.objects[kind, "default" if kind in NAMESPACED else "", name]["status"]
        return status

    def condition(self, kind: str, name: str, type_: str) -> dict[str, Any]:
        found: dict[str, Any] = next(c for c in self.status(kind, name)["conditions"] if c["type"] == type_)
        return found

    def pod_condition(self, name: str) -> PodCondition | None:
        conditions = self.pods["default", name].status.conditions
        return next((c for c in conditions if c.type == "PodScheduled"), None)

    def used(self, queue: str, flavor: str = "default", resource: str = GPU) -> int:
        return self.engine.state.ledger.used(queue).get((flavor, resource), 0)
