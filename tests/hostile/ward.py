"""An engine that reads hostile objects as the operator does: from lines of a watch, through mirrors and the catalogue.

Beside them live honest ones, for whom everything has to go on. What goes wrong is a `HarmError`.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any, get_args

from prometheus_client import CollectorRegistry

from tests.engine.world import World
from tests.hostile.cases import Case
from tests.hostile.kinds import targets
from tests.hostile.target import NAMESPACE, QUEUE
from tutti.api import numa
from tutti.api.configuration import Conventions, TuttiConfiguration
from tutti.api.conventions import ConventionError, membership_of
from tutti.api.core import Pod
from tutti.api.selectors import Taint, Toleration
from tutti.controller.object_cache import ObjectCache
from tutti.controller.references import active_conditions
from tutti.controller.watch_list import WATCH_LIST, optional_kinds
from tutti.engine.records.decisions import CreatePodGroup, Deactivate, NoteFault
from tutti.engine.records.observations import (
    AllowanceSeen,
    AnyObservation,
    Deactivated,
    GangObjectSeen,
    NodeSeen,
    NodeTopologySeen,
    ObjectSeen,
    ObjectUnread,
    OwnerSeen,
    PodGroupWritten,
    PodSeen,
    StorageSeen,
)
from tutti.kube.metrics import WireMetrics
from tutti.kube.store import Change, Deletion, ObjectStore, Unreadable, Upsert

_STREAMS = {stream.kind: stream for stream in WATCH_LIST}
PROFILES = [{"schedulerName": "tutti", "nodeResourceTopologyMatch": {}}]
THROTTLES = {"name": "kube-throttler"}
NETWORK = {"bandwidth": True, "namespaces": ["default", NAMESPACE]}
_CONFIGURATION = TuttiConfiguration.model_validate({"profiles": PROFILES, "throttles": THROTTLES, "network": NETWORK})
_SERVED = {one.name: one for one in optional_kinds(_CONFIGURATION)}
_OTHERS = {one.name: (_SERVED[one.resource.label], one.resource) for one in targets() if one.name not in _STREAMS}
TOPOLOGIES = f"{numa.KIND}.{numa.GROUP}"
HONEST = "honest"
"""A node, and a queue, of those for whom everything has to go on."""


class HarmError(AssertionError):
    """What hostile objects have done to others."""


class Ward(World):
    """A cluster of honest people and a vandal.

    Attributes:
        claims: How many pods named a gang in which convention, or could not be read.
        slowest: Seconds of the processor that the longest turn took.
    """

    def __init__(self) -> None:
        super().__init__(namespaces=("default", NAMESPACE), profiles=PROFILES, throttles=THROTTLES, network=NETWORK)
        self.claims: Counter[str] = Counter()
        self.slowest = 0.0
        self._others: dict[tuple[str, str, str], AnyObservation] = {}
        self._honest = 0
        self._catalogue = ObjectCache()
        metrics = WireMetrics(CollectorRegistry())
        self._mirrors: dict[str, ObjectStore[Any]] = {}
        for target in targets():
            stream = _STREAMS.get(target.name)
            self._mirrors[target.name] = ObjectStore(
                target.resource,
                metrics,
                view=stream.view if stream else _OTHERS[target.name][0].view,
                deliver=partial(self._deliver, target.name),
                unread=partial(self._unread, target.name),
            )
        self.follow_owners()
        for name in ("n1", "n2"):
            self.node(name)
        self.node(HONEST, taints=[Taint(key=HONEST, effect="NoSchedule")])
        self.flavor()
        self.queue(HONEST, 64, local=HONEST)
        self.queue(QUEUE, 64, local=QUEUE, namespace=NAMESPACE)
        self.run()

    # What the operator's streams do.

    def show(self, case: Case, change: str = "ADDED") -> None:
        """Have an object seen, as a watch tells of it."""
        began = time.thread_time()
        line = b'{"type":"%s","object":%s}' % (change.encode(), case.text)
        self._mirrors[case.target.name].take_lines([line])
        self.slowest = max(self.slowest, time.thread_time() - began)

    def _deliver(self, name: str, changes: Sequence[Change[Any]]) -> None:
        stream, other = _STREAMS.get(name), _OTHERS.get(name)
        for change in changes:
            if isinstance(change, Deletion):
                self._forget(name, change)
            elif other is not None:
                self._believe(change, other[0].seen(other[1], change.obj))
            elif stream is not None:
                self._believe(change, stream.seen(change.obj))
                if isinstance(change.obj, dict):
                    self._catalogue.seen(stream.kind, change.obj)

    def _unread(self, name: str, found: Unreadable) -> None:
        if name in _STREAMS:
            self.tell(ObjectUnread(_STREAMS[name].kind, *found.key, found.problem))

    def _believe(self, change: Upsert[Any], observation: AnyObservation) -> None:
        """Remember an object, so that it can be listed again, and tell the engine."""
        key, obj = change.key, change.obj
        match observation:
            case PodSeen():
                self._count(obj)
                self.pods[key] = obj
            case NodeSeen():
                self.nodes[key.name] = obj
            case AllowanceSeen():
                self.allowances[key] = obj
            case ObjectSeen():
                obj.setdefault("status", {})
                self.objects[observation.kind, *key] = obj
            case OwnerSeen():
                self.owners[observation.found.uid] = observation.found
            case NodeTopologySeen():
                self.topologies[key.name] = observation.found
            case GangObjectSeen():
                obj.setdefault("status", {})
                self.gang_objects[observation.api_version, observation.kind, *key] = obj
            case _ if isinstance(observation, get_args(StorageSeen)):
                self.storage.objects[type(obj).__name__, key.name] = obj
            case _:
                self._others[type(observation).__name__, *key] = observation
        self.tell(observation)

    def _forget(self, name: str, gone: Deletion) -> None:
        key, stream, other = gone.key, _STREAMS.get(name), _OTHERS.get(name)
        for known in [one for one in self._others if one[1:] == key]:
            del self._others[known]
        if other is not None:
            self.gang_objects.pop((other[1].api_version, name.partition(".")[0], *key), None)
            self.owners.pop(gone.uid, None)
            self.topologies.pop(key.name, None) if name == TOPOLOGIES else None
            self.tell(other[0].gone(other[1], gone))
        if stream is None:
            return
        self.pods.pop(key, None) if name == "Pod" else None
        self.nodes.pop(key.name, None) if name == "Node" else None
        self.allowances.pop(key, None) if name == "ResourceQuota" else None
        self.objects.pop((name, *key), None)
        self.storage.objects.pop((name, key.name), None)
        self.tell(stream.gone(gone))
        self._catalogue.gone(name, *key)

    def _count(self, found: Pod) -> None:
        try:
            self.claims[membership_of(found, Conventions()).convention or "none"] += 1
        except ConventionError:
            self.claims["refused"] += 1

    # What comes of it.

    def restart(self, *, backwards: bool = False) -> None:
        super().restart(backwards=backwards)
        for observation in self._others.values():
            self.tell(observation)

    def _deactivate(self, decision: Deactivate) -> None:
        self.tell(Deactivated(decision.namespace, decision.name, decision.uid, 1_000_000))

    def _carry_out(self, decision: Any) -> None:
        if isinstance(decision, NoteFault):
            raise HarmError(f"{decision.during} {decision.kind} raised {decision.error} at {decision.line}")
        if isinstance(decision, CreatePodGroup) and ("PodGroup", decision.namespace, decision.name) in self.objects:
            self.tell(PodGroupWritten(decision.namespace, decision.name, done=True))
            return
        super()._carry_out(decision)

    def decide(self, advance: float = 0.0) -> list[Any]:
        began = time.thread_time()
        decisions = super().decide(advance)
        self.slowest = max(self.slowest, time.thread_time() - began)
        return decisions

    def check(self) -> None:
        """Hold that an honest pod is placed within five seconds, with a queue and without, now and after a restart."""
        self._place()
        self.restart()
        self._place()

    def _place(self) -> None:
        self._honest += 1
        names = [f"{HONEST}-{self._honest}", f"{HONEST}-queued-{self._honest}"]
        tolerations = [Toleration(key=HONEST, operator="Exists")]
        for name, queue in zip(names, ("", HONEST), strict=True):
            self.pod(name, queue=queue, tolerations=tolerations, gpus=0)
        self.run(turns=200)
        self.until(5.0)
        dict(active_conditions(self._catalogue.specs))
        where = self.where(HONEST)
        if lost := [name for name in names if name not in where]:
            raise HarmError(f"{lost[0]} is not placed: {self.why('Pod', lost[0])}")
        self.delete(*names)
        self.run(turns=200)

    def leave(self) -> None:
        """Have every hostile object go, and hold that nothing of it stays."""
        for mirror in self._mirrors.values():
            mirror.begin_list()
            mirror.end_list("1000000")
        self.until(1.0)
        left = [key for key in self.engine.state.workloads if key[1] == NAMESPACE]
        if left:
            raise HarmError(f"still known after they are gone: {left[:5]}")


def harm(cases: Sequence[Case], *, changes: random.Random | None = None) -> str:
    """What these objects do to an engine that has seen no others; "" for nothing."""
    try:
        ward = Ward()
        treat(ward, cases)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what the objects have done
        return f"{type(error).__name__}: {error}"[:2_000]
    return ""


def treat(ward: Ward, cases: Sequence[Case]) -> None:
    """Show objects to an engine, all at once, and see to the others."""
    for case in cases:
        ward.show(case)
    ward.check()
    ward.leave()
