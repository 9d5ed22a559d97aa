"""A flood of reviews, over real HTTP: so many are worked on at once, of so many bytes, and who decides goes on."""

from __future__ import annotations

import asyncio
import io
import json
from collections import Counter
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from tutti.controller import webhook_server
from tutti.controller.event_loops import LoopThread, OtherLoop
from tutti.controller.webhook_server import MOST_AT_ONCE, MOST_BYTES, BoundedWebhookServer

ANSWER = {"response": {"allowed": True}}


@asynccontextmanager
async def served(fn):
    """The address of a server whose reviews `fn` answers."""
    server = BoundedWebhookServer(insecure=True, addr="127.0.0.1")
    told = server(fn)
    try:
        yield (await anext(told))["url"]
    finally:
        await told.aclose()


async def post(session: aiohttp.ClientSession, url: str, size: int = 100) -> int:
    body = json.dumps({"kind": "AdmissionReview", "padding": "x" * size}).encode()
    async with session.post(f"{url}/validate", data=io.BytesIO(body)) as answer:
        await answer.read()
        return answer.status


async def flood(url: str, count: int, size: int = 100) -> Counter[int]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        return Counter(await asyncio.gather(*(post(session, url, size) for _ in range(count))))


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """No body comes too late because this machine is slow."""
    monkeypatch.setattr(webhook_server, "MOST_SECONDS", 60.0)


async def test_of_many_reviews_so_many_are_worked_on_at_once_and_all_are_answered():
    working, most, together = 0, 0, asyncio.Barrier(MOST_AT_ONCE)

    async def answer(review: Any, **_: Any) -> dict[str, Any]:
        nonlocal working, most
        working += 1
        most = max(most, working)
        await together.wait()
        working -= 1
        return ANSWER

    async with served(answer) as url:
        assert await flood(url, 200, 20_000) == {200: 200}
    assert most == MOST_AT_ONCE


async def test_who_comes_when_too_many_wait_is_told_at_once_to_come_again(monkeypatch):
    monkeypatch.setattr(webhook_server, "MOST_WAITING", 10)
    free = asyncio.Event()

    async def answer(review: Any, **_: Any) -> dict[str, Any]:
        await free.wait()
        return ANSWER

    async with served(answer) as url:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
            asked = [asyncio.create_task(post(session, url)) for _ in range(100)]
            (first, *_), _ = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
            assert first.result() == 429
            free.set()
            statuses = Counter(await asyncio.gather(*asked))
        assert set(statuses) == {200, 429}
        assert statuses[200] <= MOST_AT_ONCE + 10
        assert await flood(url, 5) == {200: 5}


@pytest.mark.parametrize(("size", "status"), [(3_500_000, 200), (MOST_BYTES + 1, 413)])
async def test_what_an_api_server_takes_is_reviewed_and_what_is_larger_is_not(size, status):
    sizes = []

    async def answer(review: Any, **_: Any) -> dict[str, Any]:
        sizes.append(len(review["padding"]))
        return ANSWER

    async with served(answer) as url:
        assert await flood(url, 2, size) == {status: 2}
    assert sizes == ([size] * 2 if status == 200 else [])


async def test_who_sends_no_body_does_not_keep_others_from_their_turn(monkeypatch):
    monkeypatch.setattr(webhook_server, "MOST_SECONDS", 0.1)

    async def answer(review: Any, **_: Any) -> dict[str, Any]:
        return ANSWER

    head, body = b"POST /validate HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n", b'{"kind": "AdmissionReview"}'
    async with served(answer) as url:
        port = int(url.rpartition(":")[2].partition("/")[0])
        asking = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2 * MOST_AT_ONCE + 5)]
        for number, (_, writer) in enumerate(asking):  # a body comes with its head: it is there when its turn comes
            writer.write(head + (b"{" if number < 2 * MOST_AT_ONCE else body.ljust(100)))
            await writer.drain()
        async with asyncio.timeout(60):
            said = [(await reader.readline()).split()[1] for reader, _ in asking]
        assert said == [b"408"] * 2 * MOST_AT_ONCE + [b"200"] * 5
        for _, writer in asking:
            writer.close()


async def test_the_loop_that_decides_comes_round_between_a_few_reviews():
    """Each is looked at in that loop, as those of objects of ours are."""
    here, turns, looked_at = OtherLoop(asyncio.get_running_loop()), 0, Counter[int]()

    async def decide() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def look() -> dict[str, Any]:
        looked_at[turns] += 1
        return ANSWER

    async def answer(review: Any, **_: Any) -> dict[str, Any]:
        return await here.run(look())

    deciding = asyncio.create_task(decide())
    with LoopThread("webhooks", asyncio.new_event_loop) as there:
        async with there.holding(lambda: served(answer)) as url:
            with LoopThread("clients", asyncio.new_event_loop) as clients:
                assert await clients.run(flood(url, 200, 20_000)) == {200: 200}
    deciding.cancel()
    assert sum(looked_at.values()) == 200
    assert max(looked_at.values()) <= MOST_AT_ONCE
