"""Who asks for a list gets one that began after that, whatever the informer is at."""

import asyncio

from tests.kube.consumer import Thing, World, anew, informing, metric
from tutti.kube.informer import Informer
from tutti.kube.resources import PODS
from tutti.kube.retry import Backoff


async def test_a_list_asked_for_tells_what_an_open_watch_has_not(serve, collection):
    """A watch that is open and late, as in a server whose cache has fallen behind."""
    collection.put("a", value=1)
    collection.put("b", value=1)
    server, world = await serve(collection.handle), World()
    async with informing(server, world) as informer:
        await informer.synced.wait()
        collection.put("a", value=2)
        await world.until({"a": 2, "b": 1})  # so the watch is open
        collection.objects["default", "a"] |= {
            "metadata": {**collection.objects["default", "a"]["metadata"]},
            "value": 3,
        }
        collection.objects["default", "a"]["metadata"]["resourceVersion"] = "900"
        del collection.objects["default", "b"]
        collection.version = 901
        await anew(informer)
        assert world.values() == {"a": 3}
        collection.put("c", value=1)
        await world.until({"a": 3, "c": 1})
    assert metric(server, "relists") == 2
    assert metric(server, "watch_errors") == 0


async def test_a_list_that_began_before_it_was_asked_for_is_begun_again(serve, kube):
    collection = kube.Collection(streams_lists=False)
    for n in range(4):
        collection.put(f"p{n}", value=n)
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def handle(request):
        answer = await collection.handle(request)
        if "continue" in request.query and not go_on.is_set():
            asked.set()
            await go_on.wait()
        return answer

    server, world = await serve(handle), World()
    async with informing(server, world, page_size=2) as informer:
        await asked.wait()
        collection.put("p0", value=10)  # after the first page was read
        listed = asyncio.create_task(anew(informer))
        await asyncio.sleep(0)
        go_on.set()
        await listed
        assert world.values() == {"p0": 10, "p1": 1, "p2": 2, "p3": 3}
        assert informer.synced.is_set()
    assert metric(server, "relists") == 2


async def test_a_list_asked_for_does_not_wait_for_the_end_of_a_back_off(serve, collection):
    collection.put("a", value=1)
    server, world = await serve(collection.handle), World()
    async with informing(server, world, backoff=Backoff(first=3600.0, longest=3600.0)) as informer:
        await informer.synced.wait()
        collection.faults.append(("watch", "503"))
        collection.end_watches()
        while informer.problem is None:  # noqa: ASYNC110 - the server is in this loop
            await asyncio.sleep(0)
        collection.put("a", value=2)
        await anew(informer)
        assert world.values() == {"a": 2}
        assert informer.problem is None


async def test_a_list_asked_for_that_fails_is_tried_again_and_says_why_until_then(serve, collection):
    collection.put("a", value=1)
    server, world = await serve(collection.handle), World()
    async with informing(server, world) as informer:
        await informer.synced.wait()
        collection.faults.extend([("list", "403")] * 4)
        collection.put("a", value=2)
        listed = asyncio.create_task(anew(informer))
        problems = set()
        while not listed.done():
            problems.add((informer.problem or "")[:3])
            await asyncio.sleep(0)
        await listed
        assert world.values() == {"a": 2}
    assert problems == {"", "403"}


async def test_each_of_two_that_ask_for_a_list_has_one_that_began_after_it_asked(serve, kube):
    collection = kube.Collection(streams_lists=False)
    collection.put("a", value=1)
    read, go_on = asyncio.Event(), asyncio.Event()
    go_on.set()

    async def handle(request):
        answer = await collection.handle(request)
        if "watch" not in request.query:
            read.set()
            await go_on.wait()
        return answer

    server, world = await serve(handle), World()
    async with informing(server, world) as informer:
        await informer.synced.wait()
        go_on.clear()
        read.clear()
        first = [asyncio.create_task(anew(informer)) for _ in range(2)]  # these share one
        await read.wait()
        collection.put("a", value=2)  # after the list of the first two was read
        second = asyncio.create_task(anew(informer))
        await asyncio.sleep(0)
        go_on.set()
        await second
        assert world.values() == {"a": 2}
        await asyncio.gather(*first)
    assert metric(server, "relists") == 3


async def test_before_it_runs_the_first_list_is_the_one_asked_for(serve, collection):
    collection.put("a", value=1)
    server, world = await serve(collection.handle), World()
    informer = Informer(server.client, PODS, view=Thing, deliver=world.deliver, streams=True)
    listed = asyncio.create_task(anew(informer))
    await asyncio.sleep(0)
    running = asyncio.create_task(informer.run())
    await listed
    assert world.values() == {"a": 1}
    assert metric(server, "relists") == 1
    running.cancel()
    await asyncio.wait([running])
