"""Pools that nodes share: what is found in the few of them that are looked at is what is found in all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.drawing import examples
from tests.engine.devices import asks_for, decoded, device_class
from tests.placement.scenes import node, pod
from tutti.api.devices import ResourceClaim, ResourceSlice
from tutti.cluster.cluster import Cluster
from tutti.cluster.devices.offers import Offer
from tutti.cluster.devices.search import search
from tutti.placement.gang import Ask, place_ask
from tutti.placement.profile import DEFAULT_PROFILE

DRIVER, ISLAND, ZONE = "gpu.example.com", "gpu.example.com/island", "zone"
SHARED = {"default": "1Gi", "validRange": {"min": "1Gi"}}
COUNTED = {"counterSet": "set", "counters": {"part": {"value": "1"}}}


def devices(count: int, *, island: str = "", shared: bool = False, counted: bool = False) -> list[dict[str, Any]]:
    more: dict[str, Any] = {"attributes": {"island": {"string": island}} if island else {}}
    if shared:
        more |= {"allowMultipleAllocations": True}
        more |= {"capacity": {"memory": {"value": "80Gi", "requestPolicy": SHARED}}}
    if counted:
        more |= {"consumesCounters": [COUNTED]}
    return [{"name": f"d{i}", **more} for i in range(count)]


def selector(zone: str) -> dict[str, Any]:
    expression = {"key": ZONE, "operator": "In", "values": [zone]}
    return {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}


class Scene:
    """Nodes in two zones, with pools of their own, of their zones and of all; claims are fulfilled one after another."""

    def __init__(self, nodes: int, *, tight: bool) -> None:
        self.cluster = Cluster()
        self.cluster.nodes.devices.tight_schedulers = frozenset({"tutti"} if tight else ())
        self.cluster.device_users.put(device_class())
        self._count = 0
        for i in range(nodes):
            self.cluster.put_node(node(f"n{i}", cpu=64, pods=500, labels={ZONE: "ab"[i % 2]}))

    def publish(self, name: str, where: dict[str, Any], listed: Sequence[dict[str, Any]]) -> None:
        counted = any("consumesCounters" in one for one in listed)
        spec = {"driver": DRIVER, "pool": {"name": name, "generation": 1, "resourceSliceCount": 1 + counted}, **where}
        if counted:
            sets = {"sharedCounters": [{"name": "set", "counters": {"part": {"value": "1"}}}]}
            self._slice(f"{name}-counters", spec | sets)
        self._slice(name, spec | {"devices": list(listed)})

    def _slice(self, name: str, spec: dict[str, Any]) -> None:
        self.cluster.device_users.put(decoded({"metadata": {"name": name}, "spec": spec}, ResourceSlice))

    def ask(self, spec: dict[str, Any]) -> Ask:
        """A pod with a claim."""
        self._count += 1
        name = f"p{self._count}"
        meta = {"name": name, "namespace": "default"}
        self.cluster.device_users.put(decoded({"metadata": meta, "spec": spec}, ResourceClaim))
        claims = [{"name": "d", "resourceClaimName": name}]
        self._asking = self.cluster.put_pod(pod(name, schedulerName="tutti", resourceClaims=claims), keep=True)
        assert self._asking is not None
        return Ask(self._asking.pod_class, 1)

    def place(self, ask: Ask) -> None:
        """Give the pod that has asked last what it asks for, if that is there."""
        with self.cluster.transaction() as transaction:
            rows = place_ask(self.cluster.nodes, transaction, ask, DEFAULT_PROFILE)
            transaction.commit()
        if rows is not None:
            self.cluster.assume(self._asking, int(rows[0]))

    def found(self, ask: Ask) -> None:
        """What is found on each row is what a search in everything there finds."""
        state, needs = self.cluster.nodes.devices, ask.pod_class.devices
        columns = state.columns(needs, self.cluster.nodes.device_view(needs))
        ((program, _),) = columns.programs
        whole = state._programs._projection(program.reads, program.compares, 0)
        whole.refresh(state.rows, len(self.cluster.nodes))
        for row in range(len(self.cluster.nodes)):
            offer: Offer = whole.offers[int(whole.situation_of[row])]
            wanted = search(program.claims, offer, program.ways.selects, 1 << 20, tight=needs.tight)
            verdict = program.at(row)
            assert verdict.reason == wanted.reason
            named, pools = whole.pools_at(state.rows, row), program.projection.pools_at(state.rows, row)
            mine = [(pools[one.pool].key, one.device, one.consumed) for one in verdict.picks]
            assert mine == [(named[one.pool].key, one.device, one.consumed) for one in wanted.picks]


KINDS = st.sampled_from(["plain", "alone", "together", "shared", "counted"])
WHERE = st.sampled_from(["all", "a", "b", "n0", "n1", "n2", "device"])
ASKED = st.sampled_from(
    [
        asks_for(1),
        asks_for(3),
        asks_for(2, match=ISLAND),
        asks_for(1, capacity={"requests": {"memory": "40Gi"}}),
        {"devices": {**asks_for(2), "constraints": [{"distinctAttribute": ISLAND}]}},
    ]
)


def drawn(kind: str, name: str, count: int) -> list[dict[str, Any]]:
    if kind == "shared":
        return devices(count, shared=True)
    return devices(count, island={"alone": name, "together": "i"}.get(kind, ""), counted=kind == "counted")


@given(
    pools=st.lists(st.tuples(WHERE, KINDS, st.integers(1, 3)), max_size=14),
    asked=st.lists(ASKED, min_size=1, max_size=8),
    tight=st.booleans(),
    gone=st.integers(0, 20),
)
@examples(60)
def test_the_few_that_are_looked_at_give_what_all_would(pools, asked, tight, gone):
    scene = Scene(3, tight=tight)
    for at, (where, kind, count) in enumerate(pools):
        name, listed = f"pool-{at:02}", drawn(kind, f"pool-{at:02}", count)
        if where == "device":
            spots = [{"nodeName": "n0"}, {"allNodes": True}, selector("b")]
            named = [one | spots[i] for i, one in enumerate(listed)]
            scene.publish(name, {"perDeviceNodeSelection": True}, [one for one in named if kind != "counted"])
        elif where.startswith("n"):
            scene.publish(f"{where}-{at}" if at % 2 else name, {"nodeName": where}, listed)
        else:
            scene.publish(name, {"allNodes": True} if where == "all" else selector(where), listed)
    for number, spec in enumerate(asked):
        ask = scene.ask(spec)
        scene.found(ask)
        scene.place(ask)
        if number == gone % 4:
            scene.cluster.device_users.drop("ResourceSlice", "", f"pool-{gone % 14:02}")
        scene.found(ask)


def test_how_many_pools_a_network_has_does_not_count_for_each_pod():
    """Upstream's dra/consumablecapacity (scheduler_perf 1.36): each pod uses up one pool of many, and sees four."""
    looked_at = {}
    for pools in (20, 200):
        scene = Scene(10, tight=True)
        for i in range(10):
            scene.publish(f"n{i}", {"nodeName": f"n{i}"}, devices(20))
        for i in range(pools):
            scene.publish(f"pool-{i}", {"allNodes": True}, devices(1, shared=True))
        half = {"deviceClassName": "gpu", "capacity": {"requests": {"memory": "40Gi"}}}
        half["selectors"] = [{"cel": {"expression": "device.allowMultipleAllocations"}}]
        spec = {"devices": {"requests": [{"name": f"r{i}", "exactly": half} for i in range(2)]}}
        for _ in range(20):
            ask = scene.ask(spec)
            scene.place(ask)
        ((program, _),) = scene.cluster.nodes.devices.columns(
            ask.pod_class.devices, scene.cluster.nodes.device_view(ask.pod_class.devices)
        ).programs
        offers = program.projection.offers
        looked_at[pools] = len(offers), max(len(one.pools) for one in offers), sum(v.steps for v in program.verdicts)
    assert looked_at[20][1] <= 1 + 2 * 2
    assert looked_at[200] <= looked_at[20]


def test_pools_that_have_an_island_in_common_are_not_taken_for_others():
    scene = Scene(1, tight=False)
    for name, island in (("a", "x"), ("b", "y"), ("c", "y")):
        scene.publish(name, {"allNodes": True}, devices(1, island=island))
    ask = scene.ask(asks_for(2, match=ISLAND))
    scene.found(ask)
    needs = ask.pod_class.devices
    assert scene.cluster.nodes.devices.columns(needs, scene.cluster.nodes.device_view(needs)).fits.all()


def test_pools_that_are_alike_are_taken_one_after_another_and_given_back():
    """With one that the first node has to itself among them, which comes where its name says."""
    scene = Scene(2, tight=False)
    for at in range(6):
        scene.publish(f"pool{at}", {"nodeName": "n0"} if at == 3 else {"allNodes": True}, devices(1))
    for _ in range(7):
        ask = scene.ask(asks_for(1))
        scene.found(ask)
        scene.place(ask)
    placed = [one for one in scene.cluster.pods.values() if one.assumed]
    assert len(placed) == 6

    for one in (placed[4], placed[1]):
        scene.cluster.remove_pod(one.key)
        scene.found(ask)
    for _ in range(3):
        ask = scene.ask(asks_for(1))
        scene.found(ask)
        scene.place(ask)
    assert sum(bool(one.assumed) for one in scene.cluster.pods.values()) == 6
