"""The store: one revision for all, snapshots, watches, and what is forgotten."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti_sim.store.collection import Compacted
from tutti_sim.store.store import Exists, Store


def thing(name, namespace="", **more):
    meta = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"metadata": meta, **more}


STEPS = st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from(["put", "remove"]), st.integers(0, 9)), max_size=40)


def play(store, collection, steps):
    """Apply steps; the result is the state after each revision."""
    states = {store.revision: {}}
    for name, action, value in steps:
        current = collection.get("", name)
        if action == "put" and current is None:
            store.create(collection, thing(name, value=value))
        elif action == "put":
            store.replace(collection, current, thing(name, value=value))
        elif current is not None:
            store.remove(collection, current)
        states[store.revision] = {one.key[1]: one.obj["value"] for one in collection.scan()}
    return states


@given(STEPS)
def test_a_snapshot_is_the_state_at_its_revision(steps):
    store = Store()
    collection = store.open("things")

    for revision, state in play(store, collection, steps).items():
        assert {one.key[1]: one.obj["value"] for one in collection.snapshot(revision)} == state


@given(STEPS, st.integers(0, 40))
def test_a_watch_from_any_revision_leads_to_the_present(steps, start):
    store = Store()
    collection = store.open("things")
    states = play(store, collection, steps)
    revision = sorted(states)[start % len(states)]

    async def watched():
        subscription = collection.subscribe(namespace="", predicate=None, after=revision, limit=1000)
        state = dict(states[revision])
        for notice in subscription.take():
            if notice.change == "DELETED":
                del state[notice.version.key[1]]
            else:
                assert (notice.change == "ADDED") == (notice.version.key[1] not in state)
                state[notice.version.key[1]] = notice.version.obj["value"]
        return state

    assert asyncio.run(watched()) == states[store.revision]


@given(STEPS)
def test_a_filtered_watch_keeps_a_filtered_view_exact(steps):
    store = Store()
    collection = store.open("things")

    async def watched():
        subscription = collection.subscribe(
            namespace="", predicate=lambda obj: obj["value"] > 4, after=store.revision, limit=1000
        )
        states = play(store, collection, steps)
        view = {}
        for notice in subscription.take():
            if notice.change == "DELETED":
                del view[notice.version.key[1]]
            else:
                view[notice.version.key[1]] = notice.version.obj["value"]
        return view, states[store.revision]

    view, state = asyncio.run(watched())
    assert view == {name: value for name, value in state.items() if value > 4}


def test_every_write_takes_the_next_revision_of_all_collections():
    store = Store()
    pods, nodes = store.open("pods"), store.open("nodes")

    first = store.create(pods, thing("p", "ns"))
    second = store.create(nodes, thing("n"))

    assert second.rv == first.rv + 1
    assert second.obj["metadata"]["resourceVersion"] == str(second.rv)


def test_a_taken_key_is_refused():
    store = Store()
    collection = store.open("things")
    store.create(collection, thing("a"))

    with pytest.raises(Exists):
        store.create(collection, thing("a"))


def test_a_forgotten_revision_is_compacted():
    store = Store(history=3)
    collection = store.open("things")
    for name in "abcdef":
        store.create(collection, thing(name))

    with pytest.raises(Compacted):
        collection.snapshot(2)
    assert len(collection.snapshot(store.revision - 3)) == 3


async def test_a_watcher_that_reads_too_slowly_overflows():
    store = Store()
    collection = store.open("things")
    subscription = collection.subscribe(namespace="", predicate=None, after=store.revision, limit=2)
    for name in "abc":
        store.create(collection, thing(name))

    assert subscription.overflow
    assert len(subscription.take()) == 2


async def test_a_dropped_collection_ends_its_watches():
    store = Store()
    subscription = store.collection("things").subscribe(namespace="", predicate=None, after=store.revision, limit=9)

    store.drop("things")

    async with asyncio.timeout(60):
        await subscription.wait()
    assert subscription.closed
