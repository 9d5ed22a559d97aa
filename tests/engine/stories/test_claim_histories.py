"""Random histories of claims that several pods name: in gangs of several shapes, gated, of another scheduler, alone.

Whenever the world comes to rest, an engine that is told the same cluster decides nothing else, and nothing is promised
or earmarked any more.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.drawing import TIMES, examples
from tests.engine.histories.draws import RARELY
from tests.engine.lifecycle.test_volumes import PROVISIONER
from tests.engine.storage import ZONE
from tests.engine.stories.test_volume_histories import Stored
from tests.placement.storage import HOSTNAME, at, capacity, claim, csi_driver, csi_node, storage_class, volume
from tutti.api.core import Namespace, ObjectMeta
from tutti.api.storage import PersistentVolumeClaim
from tutti.engine.cycle.engine import Engine
from tutti.engine.records.decisions import AnyDecision, Bind, Evict, ReserveVolume, SelectNode
from tutti.engine.records.observations import NamespaceSeen, NodeSeen, ObjectSeen, PodSeen, Synced

GANGS = st.sampled_from(["x", "y"])
NODES = st.sampled_from([f"n{i}" for i in range(4)])
ZONES = st.sampled_from(["a", "b"])
VOLUMES = st.sampled_from([f"v{i}" for i in range(4)])
WHERE = st.sampled_from([None, at(ZONE, "a"), at(ZONE, "b"), *(at(HOSTNAME, f"n{i}") for i in range(4))])
MODES = {"one": ("ReadWriteOncePod",), "two": ("ReadWriteOncePod",)}
CLASS = {"made": "late", "more": "late", "one": "late", "two": "local", "free": "local", "any": "local", "now": "now"}
CLAIMS = st.sampled_from(sorted(CLASS))
USED = st.lists(CLAIMS, max_size=2, unique=True).map(tuple)
PRIORITIES = st.sampled_from([0, 0, 0, 5])
ACTS = (Bind, Evict, SelectNode, ReserveVolume)


class Shared(Stored):
    """A world in which whoever stands in line is down for the classes of its pods."""

    def check(self) -> None:
        super().check()
        pledges = self.engine.state.cluster.nodes.volumes.pledges
        assert not pledges._earmarks
        assert not pledges._shared

    def check_lines(self) -> None:
        """Who stands in line is down for what its pods are."""
        for standing in self.engine._cycle.queue._entries.values():
            for need in standing.needs:
                assert all(member.pod.pod_class is need.pod_class for member in need.members), standing.workload.name

    def anew(self) -> list[AnyDecision]:
        """What an engine that starts now would do."""
        engine = Engine(self.configuration)
        for name in self.namespaces:
            engine.observe(NamespaceSeen(Namespace(ObjectMeta(name=name))))
        for key, raw in self.objects.items():
            engine.observe(ObjectSeen(key[0], raw))
        for node in self.nodes.values():
            engine.observe(NodeSeen(node))
        for one in self.storage.all():
            engine.observe(one)
        for pod in self.pods.values():
            engine.observe(PodSeen(pod))
        engine.observe(Synced())
        return [one for turn in range(4) for one in engine.decide(self.now + turn) if isinstance(one, ACTS)]


class ClaimHistories(RuleBasedStateMachine):
    """Random steps; rules that do not apply at the moment do nothing."""

    @initialize(known=st.booleans(), tracks=RARELY, rooms=st.lists(st.integers(1, 4), min_size=4, max_size=4))
    def begin(self, known: bool, tracks: bool, rooms: list[int]) -> None:
        self.world = Shared(volume_binding_timeout_seconds=15)
        self.serial = 0
        self.still = False
        self.known = known
        storage = self.world.storage
        local = storage_class("local", provisioner=PROVISIONER)
        storage.put(storage_class(), local, storage_class("now", late=False))
        for zone in "ab" if tracks else "":
            self.track(zone, "5Gi")
        for i, gpus in enumerate(rooms):
            self.put_node(f"n{i}", gpus, "ab"[i % 2])

    def _name(self, prefix: str) -> str:
        self.serial += 1
        return f"{prefix}-{self.serial}"

    def _put_claims(self, names: tuple[str, ...]) -> None:
        for name in names:
            if ("PersistentVolumeClaim", name) not in self.world.storage.objects:
                modes = MODES.get(name, ("ReadWriteMany",))
                self.world.storage.put(claim(name, modes=modes, storage_class=CLASS[name]))

    def _pods(self) -> list[str]:
        return sorted(name for _, name in self.world.pods)

    @rule(name=NODES, gpus=st.integers(0, 4), zone=ZONES)
    def put_node(self, name: str, gpus: int, zone: str) -> None:
        self.world.node(name, gpus=gpus, labels={ZONE: zone})
        if self.known:
            self.world.storage.put(csi_node(name, keys=(ZONE,), csi_example_com=None))

    @rule(name=NODES)
    def lose_node(self, name: str) -> None:
        if name in self.world.nodes:
            self.world.remove_node(name)

    @rule(name=NODES, limit=st.sampled_from([None, 0, 1, 2]))
    def limit(self, name: str, limit: int | None) -> None:
        """So many volumes of the driver can be attached to a node."""
        self.world.storage.put(csi_node(name, keys=(ZONE,) if self.known else (), csi_example_com=limit))

    @rule(zone=ZONES, room=st.sampled_from(["", "1Gi", "5Gi"]))
    def track(self, zone: str, room: str) -> None:
        """The driver says how much storage is left in a zone."""
        if room:
            topology = {"matchLabels": {ZONE: zone}}
            self.world.storage.put(csi_driver(), capacity(f"room-{zone}", topology=topology, capacity=room))
        elif ("CSIStorageCapacity", f"room-{zone}") in self.world.storage.objects:
            self.world.storage.drop("CSIStorageCapacity", f"room-{zone}")

    @rule(name=CLAIMS)
    def put_claim(self, name: str) -> None:
        self._put_claims((name,))

    @rule(name=CLAIMS)
    def drop_claim(self, name: str) -> None:
        used = any(
            v.persistent_volume_claim.claim_name == name for p in self.world.pods.values() for v in p.spec.volumes
        )
        if ("PersistentVolumeClaim", name) in self.world.storage.objects and not used:
            self.world.storage.drop("PersistentVolumeClaim", name)

    @rule(name=VOLUMES, where=WHERE)
    def put_volume(self, name: str, where: Any) -> None:
        if ("PersistentVolume", name) not in self.world.storage.objects:
            modes = ("ReadWriteOncePod", "ReadWriteMany")
            self.world.storage.put(volume(name, storage_class="local", where=where, modes=modes))

    @rule(name=VOLUMES)
    def drop_volume(self, name: str) -> None:
        if ("PersistentVolume", name) in self.world.storage.objects:
            self.world.storage.drop("PersistentVolume", name)

    @rule(
        name=GANGS,
        shapes=st.lists(st.tuples(st.integers(1, 3), USED), min_size=1, max_size=4),
        surplus=RARELY,
        high=PRIORITIES,
    )
    def submit_gang(self, name: str, shapes: list[tuple[int, tuple[str, ...]]], surplus: bool, high: int) -> None:
        self.world.pod_group(name, max(1, len(shapes) - surplus))
        for gpus, claims in shapes:
            self._put_claims(claims)
            self.world.pod(self._name(name), group=name, gpus=gpus, claims=claims, priority=high)

    @rule(claims=USED, gpus=st.integers(1, 5), gated=RARELY, high=PRIORITIES)
    def submit_pod(self, claims: tuple[str, ...], gpus: int, gated: bool, high: int) -> None:
        self.world.pod(self._name("p"), gpus=gpus, claims=claims, gated=gated, priority=high)

    @rule(claims=USED, node=NODES)
    def run_pod_of_another(self, claims: tuple[str, ...], node: str) -> None:
        self.world.pod(self._name("s"), gpus=0, claims=claims, scheduler="default-scheduler", node=node)

    @rule(data=st.data())
    def ungate(self, data: st.DataObject) -> None:
        gated = [name for name in self._pods() if self.world.pods["default", name].spec.scheduling_gates]
        if gated:
            self.world.ungate(data.draw(st.sampled_from(gated)))

    @rule(data=st.data())
    def delete_pod(self, data: st.DataObject) -> None:
        if self._pods():
            self.world.delete(data.draw(st.sampled_from(self._pods())))

    @rule(data=st.data())
    def finish_pod(self, data: st.DataObject) -> None:
        bound = [name for name in self._pods() if self.world.pods["default", name].spec.node_name]
        if bound:
            self.world.finish(data.draw(st.sampled_from(bound)))

    @rule(held=st.booleans())
    def hold(self, held: bool) -> None:
        self.world.storage.held = held

    @rule(names=st.sets(CLAIMS, max_size=2))
    def refuse(self, names: set[str]) -> None:
        self.world.storage.refused = names

    @rule(names=st.sets(CLAIMS, max_size=2))
    def conflict(self, names: set[str]) -> None:
        self.world.storage.conflicts = names

    @rule(name=st.just("now"), zone=st.sampled_from(["", "a", "b"]))
    def bind_now(self, name: str, zone: str) -> None:
        """A volume is made for a claim that waits for nobody."""
        found = self.world.storage.objects.get(("PersistentVolumeClaim", name))
        if found is not None and not found.fully_bound:
            self.world.storage.bind(name, zone=zone)

    @rule(elsewhere=RARELY)
    def bind_volumes(self, elsewhere: bool) -> None:
        for one in list(self.world.storage.objects.values()):
            if isinstance(one, PersistentVolumeClaim) and self.world.storage.is_chosen(one):
                self.world.storage.bind(one.metadata.name, zone="elsewhere" if elsewhere else "")

    @invariant()
    def go_on(self) -> None:
        """The engine keeps up with what happens, but while it stands still."""
        if hasattr(self, "world") and not self.still:
            self.world.run()
            self.world.check_lines()

    @rule(still=st.booleans())
    def stand_still(self, still: bool) -> None:
        self.still = still

    @rule(seconds=st.sampled_from([0.0, 1.0, 20.0]))
    def decide(self, seconds: float) -> None:
        self.world.decide(advance=seconds)

    @rule(backwards=st.booleans())
    def restart(self, backwards: bool) -> None:
        self.world.restart(backwards=backwards)

    @rule()
    def rest(self) -> None:
        """Faults stop, and all that is under way comes to its end; then a new engine would do nothing else."""
        storage = self.world.storage
        storage.held, storage.refused, storage.conflicts = False, set(), set()
        self.bind_volumes(elsewhere=False)
        self.world.until(200.0)
        self.world.check_lines()
        pledges = self.world.engine.state.cluster.nodes.volumes.pledges
        assert not pledges
        assert not pledges._taken
        assert self.world.anew() == []

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.rest()


ClaimHistories.TestCase.settings = examples(40, stateful_step_count=40, suppress_health_check=list(HealthCheck))
TestClaimHistories = pytest.mark.timeout(900 * TIMES)(ClaimHistories.TestCase)
