"""An informer's consumer ends up with what the server has, whatever happens in between."""

import asyncio
import json

import pytest
import structlog
from aiohttp import web
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from tests.drawing import examples
from tests.kube.consumer import Named, Thing, World, anew, informing, metric
from tutti.kube.fetching import FIRST_PAGE
from tutti.kube.informer import Informer
from tutti.kube.resources import PODS
from tutti.kube.store import Deletion, ObjectKey, Upsert


async def test_what_is_there_is_listed_and_then_changes_flow(serve, collection):
    for n in range(7):
        collection.put(f"p{n}", value=n)
    server, world = await serve(collection.handle), World()
    async with informing(server, world, page_size=3, label_selector="a=b") as informer:
        await informer.synced.wait()
        assert world.values() == {f"p{n}": n for n in range(7)}
        collection.put("p0", value=10)
        collection.delete("p1")
        collection.put("p7", value=7)
        await world.until({"p0": 10, **{f"p{n}": n for n in range(2, 8)}})
        assert informer.keys == world.things.keys()
    lists = [call.query.get("limit") for call in server.calls if "watch" not in call.query]
    assert lists == ([] if collection.streams_lists else ["3", "3", "3"])
    assert metric(server, "watch_errors") == 0  # not to have streaming lists is no error
    assert all(call.query["labelSelector"] == "a=b" for call in server.calls)
    assert metric(server, "watched", type="LISTED") == 7
    assert metric(server, "objects") == 7
    assert metric(server, "synced") == 1


async def test_a_watch_goes_on_from_the_last_version_bookmarks_included(serve, collection):
    server, world = await serve(collection.handle), World()
    async with informing(server, world) as informer:
        await informer.synced.wait()
        collection.put("a", value=1)
        await world.until({"a": 1})
        collection.bookmark()
        collection.put("b", value=2)
        await world.until({"a": 1, "b": 2})
        collection.bookmark()
        marked = collection.version
        collection.put("c", value=3)
        await world.until({"a": 1, "b": 2, "c": 3})
        collection.end_watches()
        collection.put("d", value=4)
        await world.until({"a": 1, "b": 2, "c": 3, "d": 4})
    assert collection.watch_from[-1] == marked + 1
    assert len(collection.watch_from) == (1 if collection.streams_lists else 2)
    assert metric(server, "relists") == 1
    assert [change.key.name for change in world.history] == ["a", "b", "c", "d"]


EXPIRY = ["watch answers 410", "stream says 410", "history compacted"]


@pytest.mark.parametrize("how", EXPIRY)
async def test_what_vanished_during_a_gap_is_reported_gone(serve, collection, how):
    for name in "abc":
        collection.put(name, value=1)
    server, world = await serve(collection.handle), World()
    async with informing(server, world) as informer:
        await world.until({"a": 1, "b": 1, "c": 1})
        await informer.synced.wait()
        if how == "watch answers 410":
            collection.faults.append(("watch", "410"))
        elif how == "stream says 410":
            collection.faults.append(("watch", "error410"))
        # Nothing of this reaches the watch: it ends first, and its history is gone with it.
        collection.log.clear()
        collection.objects.pop(("default", "a"))
        collection.objects["default", "b"]["metadata"].update(uid="another", resourceVersion="900")
        collection.objects["default", "b"]["value"] = 2
        collection.version = 901
        collection.compact()
        collection.end_watches()
        await world.until({"b": 2, "c": 1})
    assert metric(server, "relists") == 2
    assert metric(server, "watch_errors") == 1
    after = world.history[3:]
    assert [(type(change), change.key.name) for change in after] == [(Deletion, "b"), (Upsert, "b"), (Deletion, "a")]


async def test_an_expired_continue_token_starts_the_list_over_and_then_asks_for_all_at_once(serve, kube):
    collection = kube.Collection(streams_lists=False)
    for n in range(5):
        collection.put(f"p{n}", value=n)
    collection.faults.extend([("continue", "410"), ("continue", "410")])
    server, world = await serve(collection.handle), World()
    async with informing(server, world, page_size=2) as informer:
        await informer.synced.wait()
        assert world.values() == {f"p{n}": n for n in range(5)}
    assert [call.query.get("limit") for call in server.calls if "watch" not in call.query][-1] is None
    assert len(world.history) == 5  # pages that were read again bring nothing new


async def test_a_list_whose_pages_have_expired_comes_as_a_stream_and_the_next_one_in_pages_again(serve, kube):
    collection = kube.Collection()
    for n in range(5):
        collection.put(f"p{n}", value=n)
    collection.faults.append(("continue", "410"))
    server, world = await serve(collection.handle), World()
    async with informing(server, world, page_size=2, streams=False) as informer:
        await informer.synced.wait()
        assert world.values() == {f"p{n}": n for n in range(5)}
        assert ["sendInitialEvents" in call.query for call in server.calls] == [False, False, True]
        collection.delete("p0")
        collection.compact()
        collection.log.clear()
        collection.faults.append(("watch", "error410"))
        collection.end_watches()
        await world.until({f"p{n}": n for n in range(1, 5)})
    assert [call.query.get("limit") for call in server.calls[4:6]] == ["2", "2"]
    assert len(world.history) == 6  # what was read again brings nothing new


async def test_a_consumer_that_fails_at_one_page_stops_the_informer_though_another_is_under_way(serve, collection):
    for n in range(5):
        collection.put(f"p{n}", value=n)
    server = await serve(collection.handle)

    def deliver(changes):
        raise OSError("the consumer is broken")

    informer = Informer(server.client, PODS, view=Thing, deliver=deliver, page_size=2)
    with pytest.raises(OSError, match="the consumer is broken"):
        await informer.run()


INTERRUPTIONS = [
    ("watch", "error500"),
    ("watch", "error429"),
    ("watch", "500"),
    ("watch", "hang_up"),
    ("watch", "cut"),
    ("watch", "<html>not a watch</html>"),
    ("watch", '{"type":"ERROR","object":7}'),
    ("watch", '{"type":"BOOKMARK","object":7}'),
]


@pytest.mark.parametrize("fault", INTERRUPTIONS, ids=str)
async def test_after_an_interruption_nothing_is_missing_or_repeated(serve, collection, fault):
    collection.put("a", value=1)
    collection.faults.append(fault)
    server, world = await serve(collection.handle), World()
    async with informing(server, world):
        await world.until({"a": 1})
        collection.end_watches()  # the one that began with a list
        collection.put("b", value=2)
        await world.until({"a": 1, "b": 2})
    assert metric(server, "relists") == 1
    # A reading request that dies on a kept connection is sent once more by the HTTP library itself.
    assert metric(server, "watch_errors") == (0 if fault[1] == "hang_up" else 1)
    assert len(world.history) == 2


async def test_one_interruption_is_one_warning_however_many_faces_it_has(serve, collection):
    collection.put("a", value=1)
    collection.faults.extend([("watch", "429"), ("watch", "503"), ("watch", "500")])
    server, world = await serve(collection.handle), World()
    with structlog.testing.capture_logs() as said:
        async with informing(server, world):
            await world.until({"a": 1})
            collection.end_watches()  # the one that began with a list
            collection.put("b", value=2)
            await world.until({"a": 1, "b": 2})
    told = [line["event"] for line in said if line["log_level"] != "debug"]
    assert told == ["informer_synced", "informer_interrupted", "informer_recovered"]


async def test_a_refusal_that_will_not_pass_is_told_even_after_an_interruption(serve, collection):
    collection.put("a", value=1)
    collection.faults.extend([("watch", "503"), ("watch", "403")])
    server, world = await serve(collection.handle), World()
    with structlog.testing.capture_logs() as said:
        async with informing(server, world):
            await world.until({"a": 1})
            collection.end_watches()  # the one that began with a list
            collection.put("b", value=2)
            await world.until({"a": 1, "b": 2})
    told = [line["problem"][:3] for line in said if line["log_level"] == "warning"]
    assert told == ["503", "403"]


async def test_a_stream_that_fails_again_and_again_is_listed_anew(serve, collection):
    collection.put("a", value=1)
    collection.faults.extend([("watch", "error500")] * 7)
    server, world = await serve(collection.handle), World()
    async with informing(server, world):
        await world.until({"a": 1})
        collection.end_watches()  # the one that began with a list
        collection.put("b", value=2)
        await world.until({"a": 1, "b": 2})
        assert metric(server, "relists") > 1


async def test_a_stalled_watch_is_noticed(serve, collection):
    collection.put("a", value=1)
    collection.faults.append(("watch", "stall"))
    server, world = await serve(collection.handle), World()
    async with informing(server, world, stall_seconds=0.1):
        await world.until({"a": 1})
        collection.end_watches()  # the one that began with a list
        collection.put("b", value=2)
        await world.until({"a": 1, "b": 2})


BROKEN_LISTS = ["cut", "unmarked", "stall", "error500", "503", "hang_up", "<html>not a list</html>"]


@pytest.mark.parametrize("fault", BROKEN_LISTS)
async def test_after_a_streaming_list_that_breaks_pages_are_asked_for_and_next_time_a_stream_again(serve, kube, fault):
    collection = kube.Collection()
    collection.put("a", value=1)
    collection.put("b", value=1)
    # A reading request that dies on a kept connection is sent once more by the HTTP library itself.
    collection.faults.extend([("list", fault)] * (2 if fault == "hang_up" else 1))
    server, world = await serve(collection.handle), World()
    async with informing(server, world, **({"stall_seconds": 0.1} if fault == "stall" else {})) as informer:
        await informer.synced.wait()
        assert world.values() == {"a": 1, "b": 1}
        first = [*server.calls]
        collection.put("a", value=2)
        collection.delete("b")
        collection.compact()
        collection.log.clear()
        collection.faults.append(("watch", "error410"))
        collection.end_watches()
        await world.until({"a": 2})
    assert "sendInitialEvents" in first[0].query
    assert [call.query.get("limit") for call in first if "watch" not in call.query] == [str(FIRST_PAGE)]
    assert "sendInitialEvents" in [call for call in server.calls if "resourceVersion" not in call.query][-1].query


async def test_what_happens_during_a_streaming_list_is_told_in_its_order(serve):
    def line(kind, name, version, **fields):
        meta = {"name": name, "namespace": "default", "uid": f"uid-{name}", "resourceVersion": str(version)}
        return json.dumps({"type": kind, "object": {"metadata": meta, **fields}}).encode() + b"\n"

    mark = {"resourceVersion": "9", "annotations": {"k8s.io/initial-events-end": "true"}}
    told = [
        line("ADDED", "a", 7, value=1),
        line("ADDED", "b", 3, value=1),
        line("DELETED", "b", 8),
        line("MODIFIED", "a", 9, value=2),
        json.dumps({"type": "BOOKMARK", "object": {"metadata": mark}}).encode() + b"\n",
        line("ADDED", "c", 10, value=3),
    ]
    asked = []

    async def handle(request):
        asked.append(dict(request.query))
        response = web.StreamResponse()
        await response.prepare(request)
        for one in told if len(asked) == 1 else ():
            await response.write(one)
        if len(asked) > 1:
            await asyncio.Event().wait()
        return response

    server, world = await serve(handle), World()
    async with informing(server, world):
        await world.until({"a": 2, "c": 3})
        while len(asked) == 1:  # noqa: ASYNC110 - the server is in this loop
            await asyncio.sleep(0)
    assert [(type(change), change.key.name) for change in world.history] == [
        (Upsert, "a"),
        (Upsert, "b"),
        (Deletion, "b"),
        (Upsert, "a"),
        (Upsert, "c"),
    ]
    assert asked[1]["resourceVersion"] == "10"


@pytest.mark.parametrize("answer", ["404", "403", "401"])
async def test_a_kind_that_is_not_served_yet_is_waited_for_visibly(serve, collection, answer):
    collection.faults.extend([("list", answer)] * 6)
    collection.put("a", value=1)
    server, world = await serve(collection.handle), World()
    problems = set()
    async with informing(server, world) as informer:
        while not informer.synced.is_set():
            problems.add(informer.problem)
            await asyncio.sleep(0)
        assert informer.problem is None
    assert any(problem and problem.startswith(answer) for problem in problems)
    assert world.values() == {"a": 1}


@pytest.mark.parametrize("view", [Thing, Named])
async def test_an_object_that_cannot_be_decoded_stops_no_other(serve, collection, view):
    collection.put("bad", value="text")
    collection.put("good", value=1)
    server, world = await serve(collection.handle), World()
    async with informing(server, world, view) as informer:
        await informer.synced.wait()
        assert world.values() == {"good": 1}
        assert informer.keys == {ObjectKey("default", "bad"), ObjectKey("default", "good")}
        collection.put("worse", value={})
        collection.put("better", value=2)
        await world.until({"good": 1, "better": 2})
        assert metric(server, "decode_errors") == 2
        collection.put("bad", value=3)
        await world.until({"good": 1, "better": 2, "bad": 3})
        collection.delete("worse")
        collection.delete("good")
        await world.until({"better": 2, "bad": 3})
    assert Deletion in {type(change) for change in world.history if change.key.name == "worse"}


async def test_an_object_without_a_name_is_counted_and_left_out(serve, collection):
    collection.objects["", ""] = {"metadata": {}}
    collection.put("a", value=1)
    server, world = await serve(collection.handle), World()
    async with informing(server, world) as informer:
        await informer.synced.wait()
    assert world.values() == {"a": 1}
    assert metric(server, "decode_errors") == 1


async def test_a_server_restored_from_a_backup_is_listed_anew(serve, collection):
    collection.put("a", value=1)
    collection.put("b", value=2)
    server, world = await serve(collection.handle), World()
    async with informing(server, world, watch_seconds=1):
        await world.until({"a": 1, "b": 2})
        collection.put("a", value=3)
        await world.until({"a": 3, "b": 2})  # so the watch is open
        collection.log.clear()
        del collection.objects["default", "b"]
        collection.objects["default", "a"]["metadata"]["resourceVersion"] = "49"
        collection.version = 50
        collection.end_watches()
        await world.until({"a": 3})


async def test_a_consumer_that_fails_stops_the_informer_loudly(serve, collection):
    collection.put("a", value=1)
    server = await serve(collection.handle)

    def deliver(changes):
        raise OSError("the consumer is broken")

    informer = Informer(server.client, PODS, view=Thing, deliver=deliver)
    with pytest.raises(OSError, match="the consumer is broken"):
        await informer.run()


steps = st.one_of(
    st.tuples(st.just("put"), st.sampled_from("abcd"), st.integers(0, 3)),
    st.tuples(st.just("replace"), st.sampled_from("abcd"), st.integers(0, 3)),
    st.tuples(st.just("delete"), st.sampled_from("abcd")),
    st.tuples(st.just("compact")),
    st.tuples(st.just("end")),
    st.tuples(
        st.just("fault"),
        st.sampled_from(
            [
                *INTERRUPTIONS,
                ("list", "500"),
                ("list", "cut"),
                ("list", "unmarked"),
                ("continue", "410"),
                ("watch", "410"),
            ]
        ),
    ),
    st.tuples(st.just("wait")),
    st.tuples(st.just("anew")),
)


@given(st.lists(steps, max_size=25), st.integers(1, 3), st.booleans(), st.sampled_from([Thing, Named]))
@examples(40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_happens_the_consumer_ends_with_what_the_server_has(kube, script, page_size, streams_lists, view):
    asyncio.run(follow(kube, script, page_size, streams_lists, view))


async def follow(kube, script, page_size, streams_lists, view):
    collection, world = kube.Collection(streams_lists=streams_lists), World()
    async with (
        kube.serving(collection.handle) as server,
        informing(server, world, view, page_size=page_size, stall_seconds=0.2) as informer,
        asyncio.TaskGroup() as asking,
    ):
        for n, step in enumerate(script):
            match step:
                case "put", name, value:
                    collection.put(name, value=value)
                case "replace", name, value:
                    collection.put(name, uid=f"new-{n}", value=value)
                case "delete", name if ("default", name) in collection.objects:
                    collection.delete(name)
                case ("compact",):
                    collection.compact()
                case ("end",):
                    collection.end_watches()
                case "fault", fault:
                    collection.faults.append(fault)
                case ("wait",):
                    await asyncio.sleep(0.005)
                case ("anew",):
                    asking.create_task(anew(informer))
        collection.faults.clear()
        collection.end_watches()
        await world.until({name: obj["value"] for (_, name), obj in collection.objects.items()})
