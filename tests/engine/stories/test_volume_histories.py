"""Random histories with volumes in them: claims come and go, are bound late, elsewhere or not at all."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck
from hypothesis import strategies as st
from hypothesis.stateful import rule

from tests.drawing import TIMES, examples
from tests.engine.histories.draws import GANGS, NODES, RARELY
from tests.engine.histories.watched import Watched
from tests.engine.stories.test_invariants import Histories
from tests.placement.storage import HOSTNAME, at, claim, csi_node, storage_class, volume
from tutti.api.storage import PersistentVolumeClaim
from tutti.cluster.pledges import BindingStage, binding_progress
from tutti.engine.records.decisions import Bind

DRIVER = "csi.example.com"
CLAIMS = st.sampled_from([f"c{i}" for i in range(6)])
VOLUMES = st.sampled_from(["v0", "v1", "v2"])
MODES = {"c4": ("ReadWriteOncePod",), "c5": ("ReadWriteMany",)}


class Stored(Watched):
    """A world in which what volumes allow is checked, too."""

    def check_bind(self, bind: Bind) -> None:
        super().check_bind(bind)
        cluster = self.engine.state.cluster
        record = cluster.pods[bind.namespace, bind.name]
        book = cluster.nodes.volumes.book
        for pledge in cluster.nodes.volumes.pledges.of_pod(record.key):
            labels = cluster.nodes.labels[cluster.nodes.rows[bind.node]]
            assert binding_progress(book, pledge, bind.node, labels).stage is BindingStage.BOUND, (
                f"{bind.name} has no {pledge.claim}"
            )

    def check(self) -> None:
        super().check()
        self.check_attachments()
        self.check_pledges()

    def check_attachments(self) -> None:
        """Volumes are counted where their pods are, and no reservation goes beyond what a node takes."""
        cluster, new = self.engine.state.cluster, {member.pod.key for member in self.newly_reserved()}
        attachments, book = cluster.nodes.volumes.attachments, cluster.nodes.volumes.book
        once: Counter[Any] = Counter()
        for name in cluster.nodes.rows:
            placed = [record for record in cluster.pods.values() if record.place == name]
            attached = {book.volume_of(use.claim) for record in placed for use in record.uses} - {None}
            count = sum(one[0] == DRIVER for one in attached)
            assert attachments.count(name, DRIVER) == count
            used = {use.claim for record in placed if record.key in new for use in record.uses}
            brings = any((v := book.volume_of(key)) is not None and v[0] == DRIVER for key in used)
            assert not brings or count <= attachments.limits(name).get(DRIVER, count), f"{name} takes too many"
            once.update(use.claim for record in placed for use in record.uses)
        for key in new:
            for use in cluster.pods[key].uses:
                found = book.claims.get(use.claim)
                assert found is None or not found.once or once[use.claim] == 1, f"{use.claim} is for one pod"

    def check_pledges(self) -> None:
        """What is promised is promised to pods that are reserved a node, and to one claim only."""
        cluster = self.engine.state.cluster
        pledges = cluster.nodes.volumes.pledges
        promised: Counter[str] = Counter()
        for record in cluster.pods.values():
            for pledge in pledges.of_pod(record.key):
                assert record.assumed
                assert record.key in pledge.pods
                assert pledge is pledges.of(pledge.claim)
        for kind, name in self.storage.objects:
            pledge = pledges.of(("default", name)) if kind == "PersistentVolumeClaim" else None
            if pledge is not None and pledge.volume:
                promised[pledge.volume] += 1
        assert all(count == 1 for count in promised.values())


class VolumeHistories(Histories):
    """The same histories with pods that have claims."""

    world: Stored

    def make_world(self, **configuration: Any) -> Watched:
        world = Stored(volume_binding_timeout_seconds=15, **configuration)
        world.storage.put(storage_class())
        return world

    @rule(name=CLAIMS, now=RARELY)
    def put_claim(self, name: str, now: bool) -> None:
        if ("PersistentVolumeClaim", name) not in self.world.storage.objects:
            modes = MODES.get(name, ("ReadWriteOnce",))
            self.world.storage.put(claim(name, modes=modes, storage_class="now" if now else "late"))

    @rule(name=CLAIMS)
    def drop_claim(self, name: str) -> None:
        if ("PersistentVolumeClaim", name) in self.world.storage.objects:
            self.world.storage.drop("PersistentVolumeClaim", name)

    @rule(name=VOLUMES, node=NODES, everywhere=st.booleans())
    def put_volume(self, name: str, node: str, everywhere: bool) -> None:
        if ("PersistentVolume", name) not in self.world.storage.objects:
            modes = ("ReadWriteOnce", "ReadWriteOncePod", "ReadWriteMany")
            where = None if everywhere else at(HOSTNAME, node)
            self.world.storage.put(volume(name, where=where, modes=modes))

    @rule(name=VOLUMES)
    def drop_volume(self, name: str) -> None:
        if ("PersistentVolume", name) in self.world.storage.objects:
            self.world.storage.drop("PersistentVolume", name)

    @rule(node=NODES, limit=st.sampled_from([None, 0, 1, 2]))
    def limit(self, node: str, limit: int | None) -> None:
        self.world.storage.put(csi_node(node, csi_example_com=limit))

    @rule(name=st.one_of(GANGS, st.just("p")), claims=st.lists(CLAIMS, max_size=2, unique=True))
    def add_member_with_claims(self, name: str, claims: list[str]) -> None:
        for one in claims:
            self.put_claim(one, now=False)
        group = "" if name == "p" else name
        self.world.pod(self._name(name), group=group, gpus=1, claims=tuple(claims))

    @rule(name=GANGS, size=st.integers(1, 3), shared=st.one_of(st.none(), CLAIMS), held=st.booleans())
    def submit_gang_with_claims(self, name: str, size: int, shared: str | None, held: bool) -> None:
        """A gang whose members have a claim each, or share one."""
        self.world.storage.held = held
        self.world.pod_group(name, size, **self._queue(name))
        self._forget_partial(name)
        for _ in range(size):
            member = self._name(name)
            used = shared or f"{member}-data"
            self.put_claim(used, now=False)
            self.world.pod(member, group=name, gpus=1, claims=(used,))
        self.world.decide()

    @rule(held=st.booleans())
    def hold(self, held: bool) -> None:
        self.world.storage.held = held

    @rule(names=st.sets(CLAIMS))
    def refuse_nodes(self, names: set[str]) -> None:
        self.world.storage.refused = names

    @rule(names=st.sets(CLAIMS))
    def conflict(self, names: set[str]) -> None:
        self.world.storage.conflicts = names

    @rule(elsewhere=RARELY)
    def bind_volumes(self, elsewhere: bool) -> None:
        """The binder takes up what was chosen; now and then a volume turns out to be out of reach."""
        for one in list(self.world.storage.objects.values()):
            if isinstance(one, PersistentVolumeClaim) and self.world.storage.is_chosen(one):
                self.world.storage.bind(one.metadata.name, zone="elsewhere" if elsewhere else "")

    def teardown(self) -> None:
        if hasattr(self, "world"):
            storage = self.world.storage
            storage.held, storage.refused, storage.conflicts = False, set(), set()
            self.bind_volumes(elsewhere=False)
        super().teardown()


VolumeHistories.TestCase.settings = examples(40, stateful_step_count=60, suppress_health_check=list(HealthCheck))
TestVolumeHistories = pytest.mark.timeout(900 * TIMES)(VolumeHistories.TestCase)
