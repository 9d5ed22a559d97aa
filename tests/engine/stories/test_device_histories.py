"""Random histories of devices that are claimed: by single pods, by pods of one claim, by PodGroups of Kubernetes.

Drivers come, go and taint; writes are late, refused or overtaken; claims are deleted meanwhile; operators start anew.
No device is ever two claims', no pod is bound that cannot use its claims, and what nobody uses any more is nobody's.
Whenever the world comes to rest, an engine that is told the same cluster decides nothing else.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, event
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.drawing import TIMES, examples
from tests.engine.devices import DRIVER, asks_for, decoded, device_class, resource_slice
from tests.engine.hami_world import HamiWorld
from tests.engine.histories.draws import RARELY
from tests.engine.histories.watched import Watched
from tests.engine.lifecycle.test_group_claims import group, member, network
from tests.engine.stories.test_native_groups import NATIVE
from tutti.api.core import Namespace, ObjectMeta
from tutti.api.devices import ResourceSlice
from tutti.engine.cycle.engine import Engine
from tutti.engine.records.decisions import AnyDecision, Bind, Evict, WriteDeviceClaim
from tutti.engine.records.observations import NamespaceSeen, Synced

NODES = st.sampled_from([f"n{i}" for i in range(3)])
GANGS = st.sampled_from(["x", "y"])
SHARED = st.sampled_from(["one", "two"])
PRIORITIES = st.sampled_from([0, 0, 0, 5])
ACTS = (Bind, Evict, WriteDeviceClaim)
ROOT = "resource.kubernetes.io/pcieRoot"
ASKED = st.sampled_from([asks_for(1), asks_for(1), asks_for(2), asks_for(2, match=ROOT), asks_for(4)])
TAINT = {"taints": [{"key": "broken", "effect": "NoSchedule"}]}


class Claiming(Watched):
    """A world in which it is looked at who has which devices."""

    def check_bind(self, bind: Bind) -> None:
        super().check_bind(bind)
        record = self.engine.state.cluster.pods[bind.namespace, bind.name]
        for use in record.device_uses:
            assert use.claim is not None
            claim = self.devices.claim(use.claim[1])
            assert claim.status.allocation is not None, f"{bind.name} is bound before {use.claim[1]} has devices"
            users = {one.uid for one in claim.status.reserved_for}
            groups = {raw["metadata"]["uid"] for raw in self.gang_objects.values()}
            assert bind.uid in users or users & groups, f"{use.claim[1]} is not reserved for {bind.name}"
            for one in claim.status.allocation.devices.results:
                assert one.pool in (bind.node, "net"), f"{bind.name} on {bind.node} has {one.pool}/{one.device}"

    def check(self) -> None:
        super().check()
        twice = {one: count for one, count in Counter(self.devices.taken()).items() if count > 1}
        assert not twice, f"several claims have these: {twice}"
        devices = self.engine.state.cluster.nodes.devices
        for key in devices.ledger.pools():
            for name in devices.ledger.held_of(key):
                assert devices.ledger.holders(key, name) <= 1, f"{key}/{name} is promised twice"

    def tidy(self) -> None:
        """Do as the claim controller: who is gone or done uses no claim, and with the last its devices are free."""
        there = {pod.metadata.uid for pod in self.pods.values() if pod.status.phase not in ("Succeeded", "Failed")}
        there |= {raw["metadata"]["uid"] for raw in self.gang_objects.values()}
        for (kind, name), claim in list(self.devices.objects.items()):
            users = claim.status.reserved_for if kind == "ResourceClaim" else ()
            if users and not any(one.uid in there for one in users):
                self.devices.free(name)

    def anew(self) -> list[AnyDecision]:
        """What an engine that starts now would do."""
        engine = Engine(self.configuration)
        for name in self.namespaces:
            engine.observe(NamespaceSeen(Namespace(ObjectMeta(name=name))))
        for one in self.listed():
            engine.observe(one)
        engine.observe(Synced())
        return [one for turn in range(4) for one in engine.decide(self.now + turn) if isinstance(one, ACTS)]


class DeviceHistories(RuleBasedStateMachine):
    """Random steps; rules that do not apply at the moment do nothing."""

    @initialize(counts=st.lists(st.integers(1, 4), min_size=3, max_size=3), net=st.booleans())
    def begin(self, counts: list[int], net: bool) -> None:
        self.world = Claiming(volume_binding_timeout_seconds=15)
        self.world.devices.put(device_class())
        self.serial = 0
        for i, count in enumerate(counts):
            self.world.node(f"n{i}", gpus=4)
            self.publish(f"n{i}", count, taints=False)
        if net:
            self.world.devices.put(network("net", allNodes=True))

    def _name(self, prefix: str) -> str:
        self.serial += 1
        return f"{prefix}-{self.serial}"

    def _claims(self) -> list[str]:
        return sorted(name for kind, name in self.world.devices.objects if kind == "ResourceClaim")

    def _pods(self) -> list[str]:
        return sorted(name for _, name in self.world.pods)

    @rule(name=NODES, count=st.integers(1, 4), taints=RARELY)
    def publish(self, name: str, count: int, taints: bool) -> None:
        """A driver says what a node has; devices in use stay there, whatever becomes of the others."""
        made = resource_slice(name, count, **(TAINT if taints else {}))
        self.world.devices.put(made)

    @rule(name=NODES)
    def unpublish(self, name: str) -> None:
        if ("ResourceSlice", f"{name}-{DRIVER}") in self.world.devices.objects:
            self.world.devices.drop("ResourceSlice", f"{name}-{DRIVER}")

    @rule(name=NODES)
    def contradict(self, name: str) -> None:
        """A slice of the same pool that lists a device again, or makes the pool one that is never complete."""
        pool = {"name": name, "generation": 1, "resourceSliceCount": 2 if self.serial % 2 else 1}
        spec = {"driver": DRIVER, "pool": pool, "nodeName": name, "devices": [{"name": "gpu-0"}]}
        found: ResourceSlice = decoded({"metadata": {"name": f"{name}-more"}, "spec": spec}, ResourceSlice)
        self.world.devices.put(found)

    @rule(name=NODES)
    def mend(self, name: str) -> None:
        if ("ResourceSlice", f"{name}-more") in self.world.devices.objects:
            self.world.devices.drop("ResourceSlice", f"{name}-more")

    @rule(name=GANGS, size=st.integers(1, 3), asked=ASKED, high=PRIORITIES, surplus=RARELY)
    def submit_gang(self, name: str, size: int, asked: dict[str, Any], high: int, surplus: bool) -> None:
        self.world.pod_group(name, max(1, size - surplus))
        for _ in range(size):
            one = self._name(name)
            self.world.devices.make_claim(one, asked)
            self.world.pod(one, group=name, gpus=0, device_claims=(one,), priority=high)

    @rule(name=SHARED, size=st.integers(1, 3), asked=ASKED, high=PRIORITIES)
    def submit_sharers(self, name: str, size: int, asked: dict[str, Any], high: int) -> None:
        """Pods by themselves that use one claim."""
        if ("ResourceClaim", name) not in self.world.devices.objects:
            self.world.devices.make_claim(name, asked)
        for _ in range(size):
            self.world.pod(self._name("s"), gpus=0, device_claims=(name,), priority=high)

    @rule(size=st.integers(1, 3), asked=ASKED, high=PRIORITIES)
    def submit_native(self, size: int, asked: dict[str, Any], high: int) -> None:
        """A PodGroup of Kubernetes with a claim that is the group's."""
        name = self._name("g")
        self.world.devices.make_claim(name, asked)
        group(self.world, name, least=size, claim=name)
        for rank in range(size):
            member(self.world, f"{name}-{rank}", of=name, claim=name, priority=high)

    @rule(data=st.data())
    def remove_native(self, data: st.DataObject) -> None:
        groups = sorted(name for _, kind, _, name in self.world.gang_objects if kind == "PodGroup")
        if groups:
            self.world.remove_gang_object(NATIVE, data.draw(st.sampled_from(groups)))

    @rule(data=st.data())
    def delete_pod(self, data: st.DataObject) -> None:
        if self._pods():
            self.world.delete(data.draw(st.sampled_from(self._pods())))

    @rule(data=st.data())
    def finish_pod(self, data: st.DataObject) -> None:
        bound = [name for name in self._pods() if self.world.pods["default", name].spec.node_name]
        if bound:
            self.world.finish(data.draw(st.sampled_from(bound)))

    @rule(data=st.data())
    def drop_claim(self, data: st.DataObject) -> None:
        """A claim goes that has no devices; one that has is kept by its finalizer."""
        bare = [name for name in self._claims() if self.world.devices.claim(name).status.allocation is None]
        if bare:
            self.world.devices.drop("ResourceClaim", data.draw(st.sampled_from(bare)))

    @rule(held=st.booleans())
    def hold(self, held: bool) -> None:
        self.world.devices.held = held
        if not held:
            self.world.devices.write()

    @rule(data=st.data())
    def conflict(self, data: st.DataObject) -> None:
        self.world.devices.conflicts = set(data.draw(st.lists(st.sampled_from([*self._claims(), "-"]), max_size=2)))

    @rule()
    def tidy(self) -> None:
        self.world.tidy()

    @invariant()
    def go_on(self) -> None:
        if hasattr(self, "world"):
            self.world.run()

    @rule(seconds=st.sampled_from([0.0, 1.0, 20.0]))
    def decide(self, seconds: float) -> None:
        self.world.decide(advance=seconds)

    @rule(backwards=st.booleans(), lands=st.booleans())
    def restart(self, backwards: bool, lands: bool) -> None:
        """A new operator; what the old one was writing lands before that, or is lost."""
        if lands:
            self.world.devices.write()
        self.world.devices.lose_writes()
        self.world.restart(backwards=backwards)

    @rule()
    def rest(self) -> None:
        """Faults stop, and all that is under way comes to its end."""
        world = self.world
        world.devices.held, world.devices.conflicts = False, set()
        world.devices.write()
        for _ in range(6):
            world.tidy()
            world.until(100.0)
        world.tidy()
        world.run()
        event(f"bound: {min(len(world.where()), 4)}")
        promises = world.engine.state.cluster.nodes.devices.promises
        assert not promises
        assert not promises._earmarks
        assert not promises._shared
        there = {pod.metadata.uid for pod in world.pods.values()}
        there |= {raw["metadata"]["uid"] for raw in world.gang_objects.values()}
        for name in self._claims():
            status = world.devices.claim(name).status
            assert status.allocation is None or any(one.uid in there for one in status.reserved_for), (
                f"{name} has {world.devices.results(name)} for nobody"
            )
        assert world.anew() == []

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.rest()


DeviceHistories.TestCase.settings = examples(40, stateful_step_count=25, suppress_health_check=list(HealthCheck))
TestDeviceHistories = pytest.mark.timeout(900 * TIMES)(DeviceHistories.TestCase)


class CardHistories(RuleBasedStateMachine):
    """Pods and gangs that share cards, whose victims leave late: no card is ever given away twice."""

    @initialize(cards=st.lists(st.integers(1, 2), min_size=2, max_size=2))
    def begin(self, cards: list[int]) -> None:
        self.world = HamiWorld()
        self.world.hold_evictions = True
        self.serial = 0
        for i, count in enumerate(cards):
            self.world.machine(f"n{i}", count)

    @rule(
        size=st.integers(1, 3), memory=st.sampled_from([3000, 8000, 12000, 16000]), high=st.sampled_from([0, 0, 5, 9])
    )
    def submit(self, size: int, memory: int, high: int) -> None:
        self.serial += 1
        self.world.sharing_gang(f"g{self.serial}", size, memory, priority=high)

    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        """One that was told to end has ended."""
        ending = [name for (_, name), pod in self.world.pods.items() if pod.metadata.deletion_timestamp is not None]
        if ending:
            self.world.delete(data.draw(st.sampled_from(sorted(ending))))

    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        bound = sorted(self.world.where())
        if bound:
            self.world.finish(data.draw(st.sampled_from(bound)))

    @rule(backwards=st.booleans())
    def restart(self, backwards: bool) -> None:
        self.world.restart(backwards=backwards)

    @rule(seconds=st.sampled_from([1.0, 30.0]))
    def decide(self, seconds: float) -> None:
        self.world.decide(advance=seconds)

    @invariant()
    def no_card_has_more_than_it_holds(self) -> None:
        if not hasattr(self, "world"):
            return
        self.world.run()
        for node in self.world.nodes:
            assert all(used <= 16000 and slots <= 10 for used, _, slots in self.world.taken(node))
        self._kept_for_whom_they_leave()

    def _kept_for_whom_they_leave(self) -> None:
        """Whoever is bound while another waits for victims is no less important than he, or in nobody's way."""
        nominations = self.world.engine.state.nominations.ours
        for key, one in nominations.items():
            waiting = self.world.engine.state.workloads[key]
            for victim in one.victims:
                record = self.world.engine.state.cluster.pods.get(victim)
                assert record is None or record.priority <= waiting.priority

    def teardown(self) -> None:
        if hasattr(self, "world"):
            for _ in range(20):
                for (_, name), pod in list(self.world.pods.items()):
                    if pod.metadata.deletion_timestamp is not None:
                        self.world.delete(name)
                self.world.until(40.0)
            self.no_card_has_more_than_it_holds()
            assert not self.world.engine.state.cluster.nodes.card_holders._earmarks


CardHistories.TestCase.settings = examples(40, stateful_step_count=20, suppress_health_check=list(HealthCheck))
TestCardHistories = pytest.mark.timeout(900 * TIMES)(CardHistories.TestCase)
