"""Who of those that claim devices is tried where a pod has left a node, and where devices are free or others by now."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.engine.devices import DRIVER, asks_for, decoded, device_class, replaced, resource_slice
from tests.engine.lifecycle.test_group_claims import group, member, network
from tests.engine.queue.full_nodes import BOTH, LOWER, RECLAIM, nobody_could_start, tried
from tests.engine.queue.full_nodes import tidy_claims as tidy
from tests.engine.world import World
from tutti.api.device_taints import DeviceTaintRule
from tutti.engine.records.decisions import Bind

HOST = "kubernetes.io/hostname"
RESOURCE = "example.com/gpu"
GATE = "scheduling.tutti.dev/admission-gate"


def claiming(world: World, name: str, count: int = 1, **pod: Any) -> None:
    """A pod with a claim of its own."""
    world.devices.make_claim(name, asks_for(count))
    world.pod(name, gpus=0, device_claims=(name,), **pod)


def nodes_of(count: int, *, devices: int = 2, **spec: Any) -> World:
    """Nodes with devices, and room for more pods than these."""
    world = World()
    world.devices.put(device_class(**spec))
    for number in range(count):
        world.node(f"n{number}", cpu=16)
        world.devices.put(resource_slice(f"n{number}", devices))
    return world


def all_taken(count: int = 3) -> World:
    """Nodes of whose devices a pod has all."""
    world = nodes_of(count)
    for number in range(count):
        claiming(world, f"runs-{number}", 2)
    world.run()
    assert len(world.where()) == count
    return world


def test_of_many_that_claim_devices_only_those_are_tried_who_find_some():
    world = all_taken()
    for count in (1, 2, 3):
        for cpu in range(1, 5):
            claiming(world, f"waits-{count}-{cpu}", count, cpu=str(cpu))
    world.run()
    world.finish("runs-1")
    assert tried(world) == 0, "its claim has its devices still"
    tidy(world)
    assert tried(world) == 2
    assert sorted(world.where("waits")) == ["waits-1-1", "waits-1-2"]


def test_of_many_that_claim_devices_only_those_are_tried_who_fit_where_these_are_free():
    world = all_taken()
    world.pod("fills", gpus=0, cpu="14", node="n1")
    for cpu in range(3, 8):
        claiming(world, f"waits-{cpu}", 1, cpu=str(cpu))
    world.run()
    world.finish("runs-1")
    tidy(world)
    assert tried(world) == 0, "2 are left of the node"
    assert world.where("waits") == {}


def test_who_lacks_room_beside_free_devices_is_tried_when_there_is_room():
    world = nodes_of(1)
    world.pod("fills", gpus=0, cpu="14", node="n0")
    claiming(world, "waits", 1, cpu="3")
    world.run()
    assert world.where("waits") == {}
    world.finish("fills")
    world.run()
    assert world.where("waits") == {"waits": "n0"}


@pytest.mark.parametrize("change", ["slice", "class", "rule"])
def test_who_claims_devices_is_tried_when_there_are_others(change):
    world = nodes_of(2, devices=1)
    taint = {"effect": "NoSchedule", "key": "broken"}
    raw = {"metadata": {"name": "rule"}, "spec": {"deviceSelector": {"driver": DRIVER}, "taint": taint}}
    if change == "rule":
        world.devices.put(decoded_rule(raw))
    if change == "class":
        world.devices.put(device_class(expression='device.driver == "of.another"'))
    claiming(world, "waits", 2 if change == "slice" else 1)
    world.run()
    assert world.where("waits") == {}
    match change:
        case "slice":
            world.devices.put(resource_slice("n1", 2))
        case "class":
            world.devices.put(device_class())
        case "rule":
            world.devices.drop("DeviceTaintRule", "rule")
    world.run()
    assert len(world.where("waits")) == 1


def decoded_rule(raw: dict[str, Any]) -> DeviceTaintRule:
    found: DeviceTaintRule = decoded(raw, DeviceTaintRule)
    return found


def test_who_waits_for_a_device_of_a_network_is_tried_wherever_it_was_used():
    world = nodes_of(2, devices=0)
    world.devices.put(network("net", allNodes=True))
    claiming(world, "has", 1, selector={HOST: "n0"})
    world.run()
    claiming(world, "waits", 1, selector={HOST: "n1"})
    world.run()
    assert world.where() == {"has": "n0"}
    world.finish("has")
    world.run()
    assert world.where("waits") == {}
    tidy(world)
    world.run()
    assert world.where("waits") == {"waits": "n1"}


def test_who_shares_a_claim_may_go_elsewhere_when_it_is_not_promised_there_any_more():
    world = nodes_of(2, devices=1)
    world.pod("fills", gpus=0, cpu="14", node="n0")
    world.devices.make_claim("both", asks_for(1))
    world.pod("first", gpus=0, device_claims=("both",), selector={HOST: "n0"}, annotations={GATE: "finance"})
    world.run()
    assert world.reason("Pod", "first") == "WaitingForApproval"
    for name in ("waits", "waits-too"):
        world.pod(name, gpus=0, cpu="8", device_claims=("both",))
    world.run()
    assert world.where() == {"fills": "n0"}
    world.delete("first")
    world.run()
    assert world.where("waits") == {"waits": "n1", "waits-too": "n1"}


def test_devices_of_victims_count_for_whom_these_leave():
    world = all_taken(1)
    claiming(world, "waits", 2, priority=5, cpu="15")
    world.pod("fills", gpus=0, cpu="8", node="n0", priority=10)
    world.run()
    assert world.where("waits") == {}
    world.finish("fills")
    world.run()
    tidy(world)
    world.run()
    assert world.where("waits") == {"waits": "n0"}


def of_hosts(*names: str) -> dict[str, Any]:
    return {"nodeSelectorTerms": [{"matchExpressions": [{"key": HOST, "operator": "In", "values": list(names)}]}]}


@pytest.mark.parametrize("shared", ["all", "selector", "per-device", "mixed"])
def test_devices_of_victims_count_wherever_these_are_if_several_nodes_may_use_them(shared):
    """Whoever has the device is on the other node, and what is free of the nodes is enough on one of them."""
    world, both = nodes_of(2, devices=0), of_hosts("n0", "n1")
    pool = {"name": "net", "generation": 1, "resourceSliceCount": 2}
    match shared:
        case "all":
            world.devices.put(network("net", allNodes=True))
        case "selector":
            world.devices.put(network("net", nodeSelector=both))
        case "per-device":
            devices = [{"name": "channel", "nodeSelector": both}]
            world.devices.put(network("net", perDeviceNodeSelection=True, devices=devices))
        case "mixed":
            world.devices.put(network("net", allNodes=True, pool=pool))
            world.devices.put(network("net-of-n0", nodeName="n0", pool=pool, devices=[]))
    claiming(world, "victim", 1, priority=-5, selector={HOST: "n1"})
    world.run()
    for node in ("n0", "n1"):
        world.pod(f"fills-{node}", gpus=0, cpu="14", node=node, priority=9)
    world.pod("ends", gpus=0, cpu="100m", node="n1", priority=9)
    claiming(world, "waits", 1, priority=5, cpu="3")
    world.run()
    world.finish("ends")
    world.run()
    assert "waits" not in world.where()
    assert "victim" in world.where()
    world.finish("fills-n0")
    for _ in range(2):
        world.run()
        tidy(world)
    world.run()
    assert world.where("waits") == {"waits": "n0"}


def test_who_hopes_for_devices_that_somebody_else_has_then_is_tried_where_others_would_leave():
    world = nodes_of(2, devices=1)
    claiming(world, "low", 1, priority=-5, selector={HOST: "n0"})
    claiming(world, "ends", 1, priority=9, selector={HOST: "n1"})
    world.run()
    world.finish("ends")
    world.run()
    claiming(world, "first", 1, priority=9, selector={HOST: "n1"})
    claiming(world, "waits", 1, priority=5)
    world.run()
    assert world.where("waits") == {}, "what is on its way back would do for it, too"
    tidy(world)
    world.run()
    assert world.where("first") == {"first": "n1"}
    tidy(world)
    world.run()
    assert world.where("waits") == {"waits": "n0"}


def test_who_asks_for_a_resource_that_devices_stand_in_for_is_tried_when_these_are_free():
    world = nodes_of(2, extendedResourceName=RESOURCE)
    for name in ("has-0", "has-1"):
        world.pod(name, gpus=0, extended={RESOURCE: "2"})
    world.run()
    assert len(world.where()) == 2
    for cpu in range(1, 5):
        world.pod(f"waits-{cpu}", gpus=0, cpu=str(cpu), extended={RESOURCE: "2"})
    world.run()
    world.finish("has-0")
    world.run()
    tidy(world)
    assert tried(world) == 1
    assert len(world.where("waits")) == 1


def test_devices_stand_in_for_a_resource_once_a_node_offers_it_no_more():
    world = nodes_of(1, extendedResourceName=RESOURCE)
    world.node("n0", cpu=16, extra={RESOURCE: "1"})
    world.pod("waits", gpus=0, extended={RESOURCE: "2"})
    world.run()
    assert world.where() == {}
    world.node("n0", cpu=16, extra={RESOURCE: "0"})
    world.run()
    assert world.where() == {"waits": "n0"}


def test_however_many_ask_for_different_devices_each_is_tried():
    world = all_taken(1)
    for number in range(70):
        ask = asks_for(1, selectors=[{"cel": {"expression": f'device.attributes["{DRIVER}"].index < {number + 1}'}}])
        world.devices.make_claim(f"waits-{number}", ask)
        world.pod(f"waits-{number}", gpus=0, cpu="100m", device_claims=(f"waits-{number}",))
    world.run()
    world.finish("runs-0")
    tidy(world)
    world.run()
    assert len(world.where("waits")) == 2


def test_who_shares_a_claim_that_is_promised_is_looked_at_on_any_node():
    world = nodes_of(2, devices=1)
    claiming(world, "waits", 2)
    world.devices.make_claim("both", asks_for(1))
    world.devices.held = True
    world.run()
    cluster = world.engine.state.cluster
    cluster.freed.take()
    for name in ("first", "second"):
        world.pod(name, gpus=0, device_claims=("both",))
    world.decide()
    exits = cluster.freed.take()
    assert exits is not None
    assert exits.all_devices


@pytest.mark.parametrize("ended", ["alone", "shared"])
def test_devices_are_told_of_where_a_pod_has_ended_and_again_when_its_claim_is_free(ended):
    world = nodes_of(3, devices=1)
    for name in ("alone", "shared"):
        claiming(world, name, 1)
    world.pod("too", gpus=0, device_claims=("shared",))
    claiming(world, "waits", 2)
    world.run()
    cluster, where = world.engine.state.cluster, world.where()[ended]
    cluster.freed.take()
    world.finish(ended)
    exits = cluster.freed.take()
    assert exits is not None
    assert [cluster.nodes.names[row] for row in exits.devices] == [where]
    assert not exits.all_devices
    world.devices.free(ended)
    exits = cluster.freed.take()
    assert exits is not None
    assert [cluster.nodes.names[row] for row in exits.devices] == [where]
    assert not exits.rows


def drawn(draw: random.Random) -> tuple[World, list[str]]:
    """Nodes with devices, of which some belong to none, and a queue."""
    world = World(volume_binding_timeout_seconds=15)
    world.flavor()
    world.queue("one", draw.choice([6, 100]), local="one", **draw.choice([{}, LOWER, RECLAIM, BOTH]))
    world.devices.put(device_class(**draw.choice([{}, {"extendedResourceName": RESOURCE}])))
    nodes = [f"n{number}" for number in range(draw.randint(2, 4))]
    for name in nodes:
        world.node(name, gpus=8, cpu=draw.choice([4, 8, 16]))
        world.devices.put(resource_slice(name, draw.randint(1, 4)))
    if draw.random() < 0.4:
        world.devices.put(network("net", allNodes=True))
    return world, nodes


def befall(draw: random.Random, world: World, nodes: list[str], number: int) -> None:  # noqa: PLR0912 - one per kind
    """One thing that befalls pods, claims, drivers or nodes."""
    more: dict[str, Any] = {"queue": draw.choice(["one", ""]), "priority": draw.choice([0, 0, 0, -5, 5])}
    cpu, name, count = str(draw.randint(1, 6)), f"p{number}", draw.choice([1, 1, 2, 3])
    if draw.random() < 0.2:
        more["selector"] = {HOST: draw.choice(nodes)}
    here, bare = sorted(world.where()), sorted(name for kind, name in world.devices.objects if kind == "ResourceClaim")
    match draw.randrange(20):
        case 0 | 1 | 2 | 3:
            claiming(world, name, count, cpu=cpu, **more)
        case 4:
            world.pod(name, gpus=0, cpu=cpu, **more)
        case 5:
            world.pod(name, gpus=0, cpu=cpu, extended={RESOURCE: str(count)}, **more)
        case 6 | 7:
            shared = draw.choice(["x", "y"])
            if ("ResourceClaim", shared) not in world.devices.objects:
                world.devices.make_claim(shared, asks_for(count))
            world.pod(name, gpus=0, cpu=cpu, device_claims=(shared,), **more)
        case 8:
            world.pod_group(name, 2, queueName="one")
            for rank in range(2):
                claiming(world, f"{name}-{rank}", count, group=name, cpu=cpu)
        case 9:
            world.devices.make_claim(name, asks_for(count))
            group(world, name, least=2, claim=name)
            for rank in range(2):
                member(world, f"{name}-{rank}", of=name, claim=name, cpu=cpu)
        case 10 | 11 | 12 if here:
            world.finish(*draw.sample(here, min(len(here), draw.randint(1, 2))))
        case 13 if here:
            world.delete(draw.choice(here))
        case 14 | 15:
            tidy(world)
        case 16:
            taint = {"taints": [{"key": "broken", "effect": "NoSchedule"}]} if draw.random() < 0.2 else {}
            world.devices.put(resource_slice(draw.choice(nodes), draw.randint(1, 4), **taint))
        case 17 if bare:
            lost = draw.choice(bare)
            if world.devices.claim(lost).status.allocation is None:
                world.devices.drop("ResourceClaim", lost)
                if draw.random() < 0.8:
                    world.devices.make_claim(lost, asks_for(draw.choice([1, 1, 2])))
                    made = world.devices.claim(lost)
                    world.devices.put(replaced(made, metadata=replaced(made.metadata, uid=f"again-{number}")))
        case 18:
            offered = draw.choice([{}, {}, {RESOURCE: "1"}])
            world.node(draw.choice(nodes), gpus=8, cpu=draw.choice([4, 8, 16]), extra=offered)
        case 19:
            world.devices.held = draw.random() < 0.5
            world.devices.conflicts = set(draw.sample(bare, 1)) if bare and draw.random() < 0.3 else set()
            if not world.devices.held:
                world.devices.write()


@pytest.mark.parametrize("seed", range(12))
def test_nobody_who_waits_could_start(seed):
    """Whatever came and went, looking at everybody anew, which any change of a flavor does, starts nobody more."""
    draw = random.Random(seed)
    world, nodes = drawn(draw)
    world.hold_evictions = draw.random() < 0.3
    for number in range(80):
        befall(draw, world, nodes, number)
        if world.hold_evictions or world.devices.conflicts:
            world.decide(1.0)  # who is refused tries again
        elif draw.random() < 0.7:
            world.run(300)
        if draw.random() < 0.1:
            settle(world)
            nobody_could_start(world)
    settle(world)
    nobody_could_start(world)
    assert any(isinstance(one, Bind) for one in world.log)


def settle(world: World) -> None:
    """Faults stop, and what is under way comes to its end."""
    held, world.hold_evictions = world.hold_evictions, False
    leaving = [name for (_, name), pod in world.pods.items() if pod.metadata.deletion_timestamp is not None]
    world.delete(*leaving)
    world.devices.held, world.devices.conflicts = False, set()
    world.devices.write()
    for _ in range(3):
        tidy(world)  # until then devices of who has ended count as free where others would have to leave beside them
        world.run(300)
        world.until(100)
    world.hold_evictions = held
