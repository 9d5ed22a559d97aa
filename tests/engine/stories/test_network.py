"""Stories of applications whose pods talk to one another, by what the network between them costs and has room for."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.differential.network import app_group, labelled, network_topology
from tests.engine.world import World
from tutti.api.network import APP_GROUP, GROUP_LABEL, REGION, TOPOLOGY, WORKLOAD_LABEL, ZONE
from tutti.engine.records.decisions import Bind, EmitEvent
from tutti.placement.least_network_cost import MOST_PARTS
from tutti.placement.plugins.network_overhead import places_of

COSTS = [
    {"key": REGION, "origin": "west", "destination": "east", "networkCost": 20},
    {"key": REGION, "origin": "east", "destination": "west", "networkCost": 20},
    {"key": ZONE, "origin": "z1", "destination": "z2", "networkCost": 5},
    {"key": ZONE, "origin": "z2", "destination": "z1", "networkCost": 5},
]
PLACES = {"z1": "west", "z2": "west", "z3": "east"}


def network_world(costs: list[dict[str, Any]] | None = None, **network: Any) -> World:
    world = World(network=network)
    world.network_object(TOPOLOGY, network_topology(COSTS if costs is None else costs))
    return world


def put_node(world: World, name: str, zone: str, gpus: int = 2) -> None:
    world.node(name, gpus=gpus, labels={REGION: PLACES[zone], ZONE: zone})


def depends(world: World, **needs: Any) -> None:
    """Make the AppGroup; each workload with those that it needs, and at what cost at most."""
    found = {
        one: [{"workload": of, "maxNetworkCost": most, **more} for of, most, more in needed]
        for one, needed in needs.items()
    }
    world.network_object(APP_GROUP, app_group(found))


def gang(world: World, name: str, **members: int) -> None:
    world.pod_group(name, sum(members.values()))
    for workload, many in members.items():
        for number in range(many):
            world.pod(f"{name}-{workload}-{number}", group=name, labels=labelled(workload))


def where(world: World) -> dict[str, str]:
    return {name: pod.spec.node_name for (_, name), pod in world.pods.items() if pod.spec.node_name}


def why(world: World, name: str) -> str:
    found = world.engine.state.workloads["Pod", "default", name].explanation
    assert found is not None
    return found.message


def test_a_pod_goes_where_what_it_depends_on_is_near():
    world = network_world(weight=100)
    for zone in PLACES:
        put_node(world, f"n-{zone}", zone)
    depends(world, web=[("db", 10, {})])
    world.pod("db", labels=labelled("db"), node="n-z2", gpus=2)
    world.run()
    world.pod("web", labels=labelled("web"))
    world.run()
    assert where(world)["web"] == "n-z1"


def test_a_pod_waits_where_all_that_is_left_costs_too_much_and_says_so():
    world = network_world()
    put_node(world, "n-z2", "z2")
    put_node(world, "n-z3", "z3")
    depends(world, web=[("db", 10, {})])
    world.pod("db", labels=labelled("db"), node="n-z2", gpus=2)
    world.pod("web", labels=labelled("web"))
    world.run()
    assert "1 network to most of those it depends on costs more than maxNetworkCost" in why(world, "web")
    put_node(world, "n-z1", "z1")
    world.run()
    assert where(world)["web"] == "n-z1"


def test_a_pod_waits_for_an_app_group_that_is_missing_or_cannot_be_read():
    world = network_world()
    put_node(world, "n-z1", "z1")
    world.pod("web", labels=labelled("web"))
    world.run()
    assert "AppGroup basic does not exist in namespace default" in why(world, "web")
    broken = app_group({"web": []})
    broken["spec"]["workloads"][0]["dependencies"] = [{"workload": {"selector": "db"}, "maxNetworkCost": -1}]
    world.network_object(APP_GROUP, broken)
    world.run()
    assert "AppGroup default/basic: it cannot be read" in why(world, "web")
    assert [one.reason for one in world.log if isinstance(one, EmitEvent) and one.kind == APP_GROUP] == [
        "InvalidAppGroup"
    ]
    depends(world, web=[("db", 10, {})])
    world.run()
    assert where(world) == {"web": "n-z1"}


def test_without_a_network_topology_pods_are_placed_and_the_app_group_is_told():
    world = World(network={})
    put_node(world, "n-z1", "z1")
    put_node(world, "n-z3", "z3", gpus=8)
    depends(world, web=[("db", 10, {})])
    world.pod("db", labels=labelled("db"), node="n-z1")
    world.pod("web", labels=labelled("web"))
    world.run()
    assert where(world)["web"]
    world.network_object(TOPOLOGY, network_topology(COSTS))
    world.run()
    told = [one for one in world.log if isinstance(one, EmitEvent) and one.kind == APP_GROUP]
    assert [one.reason for one in told] == ["NoNetworkTopology"]
    assert "make it, or set network.networkTopologyName" in told[0].note


def test_pods_of_a_strangers_namespace_do_not_count():
    world = World(network={"weight": 100}, namespaces=("default", "other"))
    world.network_object(TOPOLOGY, network_topology(COSTS))
    put_node(world, "n-z2", "z2")
    put_node(world, "n-z3", "z3")
    depends(world, web=[("db", 10, {})])
    for number in range(3):
        world.pod(f"db-{number}", labels=labelled("db"), node="n-z3", gpus=0, namespace="other")
    world.pod("db", labels=labelled("db"), node="n-z2", gpus=0)
    world.pod("web", labels=labelled("web"))
    world.run()
    assert where(world)["web"] == "n-z2"


def test_an_app_group_with_too_many_dependencies_is_told_so():
    world = network_world()
    put_node(world, "n-z1", "z1")
    depends(world, web=[(f"db{number}", 1, {}) for number in range(100)], api=[("web", 1, {})] * 200)
    world.pod("web", labels=labelled("web"))
    world.pod("other")
    world.run()
    assert set(where(world)) == {"other"}
    assert "more than 256 dependencies together: write fewer" in why(world, "web")


def test_a_gang_of_more_roles_than_are_planned_is_placed_one_after_another():
    world = network_world()
    roles = {f"r{number}": 1 for number in range(MOST_PARTS + 1)}
    for number in range(len(roles)):
        put_node(world, f"n{number}", "z1", gpus=1)
    depends(world, **{one: [("r0", 10, {})] for one in roles if one != "r0"})
    gang(world, "app", **roles)
    world.run()
    assert len(where(world)) == len(roles)


def test_a_large_gang_is_shared_out_over_zones_where_their_costs_are_least():
    """Too many ways to weigh all; 40 pods need two of three zones, and the two that are near each other are taken."""
    world = network_world()
    for zone in PLACES:
        for number in range(5):
            put_node(world, f"{zone}-{number}", zone, gpus=4)
    depends(world, web=[("db", 100, {}), ("web", 100, {})], db=[("web", 100, {})])
    gang(world, "app", web=25, db=10)
    world.run()
    assert Counter(one.split("-")[0] for one in where(world).values()) in (
        Counter(z1=20, z2=15),
        Counter(z1=15, z2=20),
    )


def test_a_replay_decides_the_same_and_a_restart_knows_who_is_where():
    world = network_world(limited("1G"), bandwidth=True)
    for zone in PLACES:
        put_node(world, f"n-{zone}", zone, gpus=4)
    depends(world, web=[("db", 30, {"minBandwidth": "100M"})])
    gang(world, "app", web=4, db=2)
    world.run()
    before = where(world)
    assert not world.replay().differences
    world.restart()
    world.run()
    assert where(world) == before


def test_nothing_is_kept_where_the_network_is_not_configured():
    world = World()
    put_node(world, "n-z1", "z1")
    world.pod("web", labels=labelled("web"))
    world.run()
    state = world.engine.state
    assert where(world) == {"web": "n-z1"}
    assert not state.cluster.nodes.network
    assert not state.cluster.classes.watched & {GROUP_LABEL, WORKLOAD_LABEL}
    assert state.profiles["tutti"].network is None


def test_what_gangs_depend_on_comes_along_instead_of_herding():
    """One after the other the first workload takes all of the zone that is emptiest, and the second is left out."""
    world = network_world()
    for zone in PLACES:
        for number in range(2):
            put_node(world, f"{zone}-{number}", zone, gpus=3)
    depends(world, web=[("db", 100, {})], db=[("web", 100, {})])
    gang(world, "app", web=4, db=2)
    world.run()
    assert len({one.split("-")[0] for one in where(world).values()}) == 1
    assert len(where(world)) == 6


def test_strict_dependencies_hold_in_both_directions():
    world = network_world(strict=True)
    put_node(world, "n-z1", "z1", gpus=1)
    put_node(world, "n-z3", "z3", gpus=1)
    depends(world, web=[("db", 10, {})])
    world.pod("web", labels=labelled("web"), node="n-z1")
    world.pod("db", labels=labelled("db"))
    world.run()
    assert "is not known to cost at most maxNetworkCost" in why(world, "db")
    put_node(world, "n-z2", "z2", gpus=1)
    world.run()
    assert where(world)["db"] == "n-z2"


def limited(capacity: str) -> list[dict[str, Any]]:
    return [{**one, "bandwidthCapacity": capacity} for one in COSTS]


def test_bandwidth_of_links_is_taken_and_given_back():
    world = network_world(limited("1G"), bandwidth=True)
    put_node(world, "n-z1", "z1", gpus=1)
    put_node(world, "n-z2", "z2", gpus=8)
    depends(world, web=[("db", 10, {"minBandwidth": "400M"})])
    world.pod("db", labels=labelled("db"), node="n-z1")
    for number in range(3):
        world.pod(f"web-{number}", labels=labelled("web"))
    world.run()
    assert sorted(where(world)) == ["db", "web-0", "web-1"]
    assert "too little bandwidth left from z2 to z1: 200M of 1G where 400M is needed" in why(world, "web-2")
    world.restart()
    world.run()
    assert sorted(where(world)) == ["db", "web-0", "web-1"]
    world.delete("web-0")
    world.run()
    assert sorted(where(world)) == ["db", "web-1", "web-2"]


def test_an_app_group_that_changes_takes_other_bandwidth_and_nobody_looks_again_at_what_lies_between():
    world = network_world(limited("1G"), bandwidth=True)
    put_node(world, "n-z1", "z1", gpus=1)
    put_node(world, "n-z2", "z2", gpus=8)
    depends(world, web=[("db", 10, {"minBandwidth": "400M"})])
    world.pod("db", labels=labelled("db"), node="n-z1")
    for number in range(3):
        world.pod(f"web-{number}", labels=labelled("web"))
    world.run()
    nodes = world.engine.state.cluster.nodes
    before = places_of(nodes)
    assert len(where(world)) == 3
    depends(world, web=[("db", 10, {"minBandwidth": "300M"})])
    world.run()
    assert len(where(world)) == 4
    assert places_of(nodes) is before
    world.network_object(TOPOLOGY, network_topology(limited("2G")))
    world.run()
    assert places_of(nodes) is not before


def test_a_gang_is_not_spread_over_a_link_that_is_too_narrow_for_it():
    world = network_world(limited("1G"), bandwidth=True)
    put_node(world, "a", "z1", gpus=2)
    put_node(world, "b", "z2", gpus=2)
    depends(world, web=[("db", 100, {"minBandwidth": "400M"})])
    world.pod("full", node="a", gpus=1)
    gang(world, "app", web=2, db=1)
    world.run()
    # one pod on the other side of either web takes 400M; both webs together with the database elsewhere 800M
    assert len(where(world)) == 4
    world = network_world(limited("300M"), bandwidth=True)
    put_node(world, "a", "z1", gpus=2)
    put_node(world, "b", "z2", gpus=2)
    depends(world, web=[("db", 100, {"minBandwidth": "400M"})])
    gang(world, "app", web=2, db=1)
    world.run()
    assert where(world) == {}
    put_node(world, "c", "z2", gpus=1)
    world.run()
    assert set(where(world).values()) == {"b", "c"}


def test_rdma_interfaces_are_counted_like_any_other_device():
    world = network_world()
    nic = "rdma/hca"
    for name in ("a", "b"):
        world.node(name, gpus=8, labels={REGION: "west", ZONE: "z1"}, extra={nic: "2"})
    depends(world, worker=[("worker", 10, {})])
    world.pod_group("ring", 3)
    for number in range(3):
        world.pod(f"w-{number}", group="ring", labels=labelled("worker"), extended={nic: "1"})
    world.run()
    assert sorted(Counter(where(world).values()).values()) == [1, 2]
    world.pod("late", extended={nic: "2"})
    world.run()
    assert "Insufficient rdma/hca" in why(world, "late")


def test_the_parts_of_an_application_stand_in_its_order_and_in_nobodys_way():
    world = network_world()
    order = {"db": 1, "web": 2}
    world.network_object(APP_GROUP, app_group({"db": [], "web": []}, order=order))
    world.pod("a-web", labels=labelled("web"), gpus=8, preempts=False)
    world.pod("b-other", gpus=8, priority=-1, preempts=False)
    world.pod("c-db", labels=labelled("db"), gpus=8, priority=-2, preempts=False)
    world.run()
    bound = []
    for number in range(3):
        world.node(f"n-{number}", gpus=8, labels={REGION: "west", ZONE: "z1"})
        bound += [one.name for one in world.run() if isinstance(one, Bind)]
    assert bound == ["c-db", "b-other", "a-web"]


@st.composite
def tiny(draw: st.DrawFn) -> tuple[Any, ...]:
    """A tiny cluster with its costs, and an application of two or three workloads."""
    zones = draw(st.lists(st.sampled_from(["z1", "z2", "z3"]), min_size=2, max_size=4))
    gpus = [draw(st.integers(1, 3)) for _ in zones]
    pairs = [("z1", "z2"), ("z2", "z1")]
    costs = [
        {"key": ZONE, "origin": one, "destination": to, "networkCost": draw(st.integers(0, 30))} for one, to in pairs
    ]
    costs += [
        {"key": REGION, "origin": one, "destination": to, "networkCost": draw(st.integers(0, 60))}
        for one, to in (("west", "east"), ("east", "west"))
    ]
    names = ["a", "b", "c"][: draw(st.integers(2, 3))]
    members = {name: draw(st.integers(1, 2)) for name in names}
    talks = draw(st.sets(st.tuples(st.sampled_from(names), st.sampled_from(names)), min_size=1, max_size=4))
    return zones, gpus, costs, members, sorted(talks)


def lies(costs: list[dict[str, Any]], zones: list[str], one: int, to: int) -> int:
    if one == to:
        return 0
    if zones[one] == zones[to]:
        return 1
    key, at, by = (ZONE, zones[one], zones[to])
    if PLACES[at] != PLACES[by]:
        key, at, by = REGION, PLACES[at], PLACES[by]
    return next((c["networkCost"] for c in costs if (c["key"], c["origin"], c["destination"]) == (key, at, by)), 100)


@settings(max_examples=40, deadline=None)
@given(tiny())
def test_no_arrangement_of_a_gang_costs_less_than_the_one_that_is_chosen(drawn: tuple[Any, ...]):
    zones, gpus, costs, members, talks = drawn
    world = network_world(costs)
    for number, zone in enumerate(zones):
        put_node(world, f"n{number}", zone, gpus=gpus[number])
    needs: dict[str, Any] = {name: [] for name in members}
    for one, to in talks:
        needs[one].append((to, 1000, {}))
    depends(world, **needs)
    gang(world, "app", **members)
    world.run()

    pods = [name for name, many in members.items() for _ in range(many)]

    def total(nodes: tuple[int, ...]) -> int:
        return sum(
            lies(costs, zones, nodes[one], nodes[to])
            for one, to in itertools.permutations(range(len(pods)), 2)
            if (pods[one], pods[to]) in talks
        )

    fits = [
        nodes
        for nodes in itertools.product(range(len(zones)), repeat=len(pods))
        if all(many <= gpus[node] for node, many in Counter(nodes).items())
    ]
    placed = where(world)
    assert bool(placed) is bool(fits)
    if placed:
        chosen = tuple(int(placed[f"app-{name}-{n}"][1:]) for name, many in members.items() for n in range(many))
        assert total(chosen) == min(map(total, fits))


def test_who_takes_the_bandwidth_of_more_important_work_leaves():
    """The link has room for two; there are nodes enough, so only bandwidth is what the third lacks."""
    world = network_world(limited("1G"), bandwidth=True)
    put_node(world, "n-z1", "z1", gpus=1)
    put_node(world, "n-z2", "z2", gpus=8)
    depends(world, web=[("db", 10, {"minBandwidth": "400M"})])
    world.pod("db", labels=labelled("db"), node="n-z1", priority=100)
    for number in range(2):
        world.pod(f"low-{number}", labels=labelled("web"))
    world.pod("other", priority=0)
    world.run()
    assert sorted(where(world)) == ["db", "low-0", "low-1", "other"]
    world.pod("high", labels=labelled("web"), priority=10)
    world.run()
    assert "high" in where(world)
    assert "other" in where(world)
    assert len([name for name in where(world) if name.startswith("low")]) == 1
    assert world.replay().differences == []


def test_nobody_leaves_where_the_link_would_be_too_narrow_all_the_same():
    world = network_world(limited("300M"), bandwidth=True)
    put_node(world, "n-z1", "z1", gpus=1)
    put_node(world, "n-z2", "z2", gpus=8)
    depends(world, web=[("db", 10, {"minBandwidth": "400M"})], log=[("db", 10, {"minBandwidth": "100M"})])
    world.pod("db", labels=labelled("db"), node="n-z1", priority=100)
    for number in range(2):
        world.pod(f"low-{number}", labels=labelled("log"))
    world.run()
    world.pod("high", labels=labelled("web"), priority=10)
    world.run()
    assert sorted(where(world)) == ["db", "low-0", "low-1"]


def test_a_gang_takes_out_no_more_of_a_link_than_it_needs():
    world = network_world(limited("1G"), bandwidth=True)
    put_node(world, "n-z1", "z1", gpus=1)
    put_node(world, "n-z2", "z2", gpus=16)
    depends(world, web=[("db", 10, {"minBandwidth": "200M"})])
    world.pod("db", labels=labelled("db"), node="n-z1", priority=100)
    for number in range(5):
        world.pod(f"low-{number}", labels=labelled("web"))
    world.run()
    assert len(where(world)) == 6
    world.pod_group("high", 3)
    for number in range(3):
        world.pod(f"high-{number}", group="high", labels=labelled("web"), priority=10)
    world.run()
    assert {f"high-{number}" for number in range(3)} <= set(where(world))
    assert len([name for name in where(world) if name.startswith("low")]) == 2


def test_who_leaves_for_room_and_who_for_bandwidth_leave_together():
    """The node is full and so is its link: one without a part in the application has the device, another the link."""
    world = network_world(limited("400M"), bandwidth=True)
    put_node(world, "n-z1", "z1", gpus=1)
    put_node(world, "n-z2", "z2", gpus=1)
    depends(world, web=[("db", 10, {"minBandwidth": "400M"})])
    world.pod("db", labels=labelled("db"), node="n-z1", priority=100)
    world.pod("talks", labels=labelled("web"), gpus=0, priority=5, node="n-z2")
    world.pod("computes", gpus=1)
    world.run()
    assert sorted(where(world)) == ["computes", "db", "talks"]
    world.hold_evictions = True
    world.pod("high", labels=labelled("web"), priority=10)
    world.decide()
    leaving = [name for (_, name), pod in world.pods.items() if pod.metadata.deletion_timestamp]
    assert sorted(leaving) == ["computes", "talks"]


def test_victims_of_a_gang_on_other_nodes_of_the_place_are_found_as_well():
    world = network_world(limited("400M"), bandwidth=True)
    put_node(world, "n-z1", "z1", gpus=1)
    put_node(world, "a", "z2", gpus=1)
    put_node(world, "b", "z2", gpus=1)
    depends(world, web=[("db", 10, {"minBandwidth": "400M"})])
    world.pod("db", labels=labelled("db"), node="n-z1", priority=100)
    world.pod("low", labels=labelled("web"), node="a")
    world.run()
    world.pod("high", labels=labelled("web"), priority=10)
    world.run()
    assert sorted(where(world)) == ["db", "high"]
