"""What rows offer is followed as nodes and slices come and go, and before anybody asks."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.cluster.devices.test_common_pools import ZONE, Scene, devices, selector
from tests.drawing import examples
from tests.engine.devices import asks_for, device_class
from tests.placement.scenes import node
from tutti.cluster.devices.ledger import LocalUse
from tutti.cluster.devices.rows import DeviceRows

SLICES = st.sampled_from(["n0", "n1", "n2", "n3", "a", "b"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), SLICES, st.integers(1, 3)),
        st.tuples(st.just("withdraw"), SLICES, st.just(0)),
        st.tuples(st.just("label"), st.sampled_from(["n0", "n1"]), st.integers(0, 1)),
        st.tuples(st.just("take"), st.just(""), st.integers(1, 2)),
        st.tuples(st.just("node"), st.sampled_from(["n2", "n3"]), st.integers(0, 1)),
    ),
    max_size=12,
)


def where(name: str) -> dict[str, object]:
    return {"nodeName": name} if name.startswith("n") else selector(name)


def step(scene: Scene, act: str, name: str, number: int) -> None:
    match act:
        case "publish":
            scene.publish(name, where(name), devices(number))
        case "withdraw":
            scene.cluster.device_users.drop("ResourceSlice", "", name)
        case "label":
            scene.cluster.put_node(node(name, cpu=64, pods=500, labels={ZONE: "ab"[number]}))
        case "take":
            scene.place(scene.ask(asks_for(count=number)))
        case "node" if number:
            scene.cluster.put_node(node(name, cpu=64, pods=500, labels={ZONE: "a"}))
        case _:
            scene.cluster.remove_node(name)


def as_looked_at_anew(scene: Scene) -> None:
    """What is known to be taken on each row is what somebody finds who looks at all that is held."""
    nodes = scene.cluster.nodes
    state, rows = nodes.devices, nodes.devices.rows
    rows.refresh(nodes.names, nodes.labels, nodes.version)
    used: dict[int, tuple[LocalUse, ...]] = {}
    for row in range(len(rows.own)):
        held = tuple(state.ledger.use(pool) for pool in rows.own[row])
        assert rows.own_uses[row] == held == used.setdefault(int(rows.used[row]), held)
    for projection in state._programs._projections.values():
        projection.refresh(rows, len(nodes))
        for row, own in enumerate(rows.own):
            if not rows.shared[row].pools.pools:
                offer = projection.offers[int(projection.situation_of[row])]
                assert offer.uses == rows.own_uses[row]
                assert [len(one.kinds) for one in offer.pools] == [len(one.listed) for one in own]


@examples(60)
@given(steps=STEPS, classed=st.booleans())
def test_rows_offer_what_they_offer_when_all_are_looked_at(steps, classed):
    scene = Scene(2, tight=False)
    if not classed:
        scene.cluster.device_users.drop("DeviceClass", "", device_class().metadata.name)
    nodes = scene.cluster.nodes
    rows, catalog = nodes.devices.rows, nodes.devices.catalog
    for one in steps:
        step(scene, *one)
        nodes.follow_devices()
    as_looked_at_anew(scene)
    anew = DeviceRows(catalog, nodes.devices.ledger)
    anew.refresh(nodes.names, nodes.labels, nodes.version)
    for row in range(len(nodes)):
        assert [one.key for one in rows.own[row]] == [one.key for one in anew.own[row]]
        assert [len(one.devices) for one in rows.own[row]] == [len(one.devices) for one in anew.own[row]]
        assert rows.own_uses[row] == anew.own_uses[row]
        assert [one.key for one in rows.shared[row].pools.pools] == [one.key for one in anew.shared[row].pools.pools]


@examples(60)
@given(
    there=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    puts=st.lists(st.tuples(st.lists(st.integers(0, 3), min_size=4, max_size=4), st.booleans()), max_size=6),
    count=st.integers(1, 2),
    shared=st.booleans(),
    common=st.booleans(),
)
def test_what_pods_take_is_what_is_found_to_be_held(there, puts, count, shared, common):
    scene = Scene(len(there), tight=False)
    for at, number in enumerate(there):
        scene.publish(f"n{at}", where(f"n{at}"), devices(number, shared=shared))
    if common:
        scene.publish("a", where("a"), devices(2))
    asked = scene.ask(asks_for(count=count))
    nodes, pod_class = scene.cluster.nodes, asked.pod_class
    for counts, stays in puts:
        room = nodes.devices.room(pod_class.devices, nodes.device_view(pod_class.devices), 4)
        pods = np.minimum(np.array(counts[: len(there)], dtype=np.int64), room)
        with scene.cluster.transaction() as transaction:
            transaction.put(np.flatnonzero(pods), pods[pods > 0], pod_class)
            as_looked_at_anew(scene)
            if stays:
                transaction.commit()
        as_looked_at_anew(scene)


def test_what_drivers_publish_of_nodes_is_looked_at_before_anybody_asks():
    scene = Scene(2, tight=False)
    scene.publish("n0", where("n0"), devices(2))
    nodes = scene.cluster.nodes
    nodes.follow_devices()
    assert [len(pools) for pools in nodes.devices.rows.own] == [1, 0]
    first = nodes.devices.rows.stamps.copy()
    scene.publish("n1", where("n1"), devices(2))
    nodes.follow_devices()
    changed = nodes.devices.rows.stamps != first
    assert changed.tolist()[:2] == [False, True]


def test_where_nobody_can_ask_nothing_is_looked_at():
    scene = Scene(1, tight=False)
    scene.cluster.device_users.drop("DeviceClass", "", device_class().metadata.name)
    scene.publish("n0", where("n0"), devices(2))
    scene.cluster.nodes.follow_devices()
    assert not scene.cluster.nodes.devices.rows.own
