"""What was asked while the server was away costs no time once it is back."""

import asyncio

import structlog

from tests.kube.consumer import World, informing
from tutti.kube.resources import NODES
from tutti.kube.retry import Backoff


class Drawn(Backoff):
    """A backoff that knows how many waits it was asked for."""

    def __init__(self) -> None:
        super().__init__(first=0.001, longest=0.01)
        self.waits = 0

    def next(self, *args, **options):
        self.waits += 1
        return super().next(*args, **options)


async def fails(informer) -> None:
    """Return once an informer has been interrupted."""
    async with asyncio.timeout(60):
        while informer.problem is None:  # noqa: ASYNC110 - the informer has no event for it
            await asyncio.sleep(0)  # it may be over in a moment


def expire(collection) -> None:
    """Have what was known expire while nobody is told: a server that starts anew knows no history."""
    collection.put("b", value=2)
    collection.compact()
    collection.log.clear()


async def away(server, collection, backoff) -> None:
    """Have the server be away until it was tried in vain several times."""
    await server.go_away()
    async with asyncio.timeout(60):
        while backoff.waits < 5:  # noqa: ASYNC110 - the backoff has no event for it
            await asyncio.sleep(0.001)
    expire(collection)


async def test_the_first_410_after_an_outage_lists_at_once(serve, collection):
    collection.put("a", value=1)
    server, world, backoff = await serve(collection.handle), World(), Drawn()
    waits = []

    async def back(request):
        waits.append(backoff.waits)
        return await collection.handle(request)

    async with informing(server, world, backoff=backoff) as informer:
        await informer.synced.wait()
        await away(server, collection, backoff)
        await server.come_back(back)
        await world.until({"a": 1, "b": 2})
    assert backoff.waits == waits[0]


async def test_a_server_that_answers_is_asked_as_often_as_one_that_was_never_away(serve, kube):
    collection = kube.Collection(streams_lists=False)
    collection.put("a", value=1)
    server, world, backoff = await serve(collection.handle), World(), Drawn()
    failures = []

    async def back(request):
        failures.append(backoff.failures)
        return await collection.handle(request)

    async with informing(server, world, backoff=backoff) as informer:
        await informer.synced.wait()
        await away(server, collection, backoff)
        collection.faults.append(("watch", "503"))
        await server.come_back(back)
        await world.until({"a": 1, "b": 2})
    assert failures[0] >= 5
    assert failures[1] == 1


async def test_a_watch_that_is_opened_only_to_say_that_it_is_too_old_is_no_recovery(serve, collection):
    collection.put("a", value=1)
    server, world, backoff = await serve(collection.handle), World(), Drawn()
    with structlog.testing.capture_logs() as said:
        async with informing(server, world, backoff=backoff) as informer:
            await informer.synced.wait()
            await away(server, collection, backoff)
            await server.come_back(collection.handle)
            await world.until({"a": 1, "b": 2})
            async with asyncio.timeout(60):
                while informer.problem is not None:  # noqa: ASYNC110 - the informer has no event for it
                    await asyncio.sleep(0.001)
    told = [line["event"] for line in said if line["log_level"] != "debug"]
    assert told == ["informer_synced", "informer_interrupted", "informer_recovered"]


async def test_a_watch_on_which_nothing_is_told_is_a_recovery_all_the_same(serve, collection):
    collection.put("a", value=1)
    collection.faults.append(("watch", "503"))
    server, world = await serve(collection.handle), World()
    async with informing(server, world) as informer:
        await informer.synced.wait()
        collection.end_watches()
        await fails(informer)
        async with asyncio.timeout(60):
            while informer.problem is not None:  # noqa: ASYNC110 - the informer has no event for it
                await asyncio.sleep(0.001)
    assert len(world.history) == 1


async def test_what_one_informer_has_found_to_be_back_another_need_not_wait_for(serve, kube):
    """One waits for an hour after an error of the server; the other one shows that it was the server's, and is over."""
    pods, nodes = kube.Collection(), kube.Collection()
    pods.faults.append(("watch", "503"))
    nodes.faults.append(("watch", "503"))

    async def handle(request):
        return await (nodes if request.path.endswith("nodes") else pods).handle(request)

    server, world, others = await serve(handle), World(), World()
    patient = Backoff(first=3600, longest=3600)
    async with asyncio.timeout(60), informing(server, world, backoff=patient, streams=False) as informer:
        await fails(informer)
        pods.put("a", value=1)
        async with informing(server, others, resource=NODES, streams=False) as other:
            await fails(other)
            nodes.put("n", value=1)
            await world.until({"a": 1})


async def test_what_a_server_asks_to_wait_for_is_waited_for_though_it_is_back(serve, kube):
    pods, nodes = kube.Collection(), kube.Collection()
    nodes.faults.append(("list", "503"))

    async def handle(request):
        if request.path.endswith("nodes"):
            return await nodes.handle(request)
        if "watch" in request.query:
            return kube.status(429, "TooManyRequests", retryAfterSeconds=60)
        return await pods.handle(request)

    server, world, others = await serve(handle), World(), World()
    async with informing(server, world, streams=False) as informer:
        await fails(informer)
        before = len(server.sent("GET", "pods"))
        async with informing(server, others, resource=NODES) as other:
            await other.synced.wait()
            nodes.put("n", value=1)
            await others.until({"n": 1})
        assert len(server.sent("GET", "pods")) == before


async def test_nobody_waits_for_long_for_a_server_that_cannot_be_connected_to(serve, collection):
    collection.put("a", value=1)
    server, world = await serve(collection.handle), World()
    await server.go_away()
    async with asyncio.timeout(60), informing(server, world, backoff=Backoff(first=3600, longest=3600)) as informer:
        await fails(informer)
        await server.come_back(collection.handle)
        await informer.synced.wait()
