"""What runs in a loop of its own is awaited, cancelled and held as if it ran here."""

from __future__ import annotations

import asyncio
import io
import threading
from contextlib import asynccontextmanager, suppress

import pytest

from tutti.controller import logs
from tutti.controller.election import Election
from tutti.controller.event_loops import LoopThread
from tutti.kube.fencing import LeadershipDoubted, granted


@pytest.fixture
def own():
    with LoopThread("own") as loop:
        yield loop


async def test_it_runs_in_another_thread_and_returns_or_raises_here(own):
    async def where():
        return threading.current_thread().name

    async def broken():
        raise ValueError("no")

    assert await own.run(where()) == "own"
    with pytest.raises(ValueError, match="no"):
        await own.run(broken())


async def test_it_tells_of_no_error_in_what_uvloop_does_to_a_transport_that_it_has_closed(own):
    out = io.StringIO()
    logs.configure("json", stream=out)

    async def written_to_once_closed():
        loop = asyncio.get_running_loop()
        server = await loop.create_server(asyncio.Protocol, "127.0.0.1", 0)
        transport, _ = await loop.create_connection(asyncio.Protocol, *server.sockets[0].getsockname())
        transport.close()
        loop.call_exception_handler({"message": "no", "exception": RuntimeError("no"), "transport": transport})
        server.close()
        await server.wait_closed()

    await own.run(written_to_once_closed())
    assert out.getvalue() == ""


async def test_it_goes_on_while_this_loop_is_busy(own):
    steps = []
    half, whole = threading.Event(), threading.Event()

    async def going():
        for step in range(20):
            steps.append(step)
            await asyncio.sleep(0)
        half.set()
        whole.wait()

    task = asyncio.ensure_future(own.run(going()))
    await asyncio.sleep(0)
    assert half.wait(60)  # this loop does nothing else meanwhile
    whole.set()
    await task
    assert steps == list(range(20))


async def test_whoever_is_cancelled_goes_on_when_the_other_has_ended(own):
    began, said = threading.Event(), []

    async def stubborn():
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            said.append("ended")

    task = asyncio.ensure_future(own.run(stubborn()))
    await asyncio.to_thread(began.wait)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert said == ["ended"]


async def test_whoever_is_cancelled_goes_on_though_the_other_loop_had_not_come_to_begin(own):
    free, said = threading.Event(), []

    async def late():
        said.append("began")

    own.soon(free.wait)  # that loop does nothing else meanwhile
    task = asyncio.ensure_future(own.run(late()))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.sleep(0)
    free.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert said == []


async def test_whoever_is_cancelled_goes_on_though_the_other_does_not_heed_it(own, monkeypatch):
    monkeypatch.setattr("tutti.controller.event_loops._PATIENCE_SECONDS", 0.01)
    began, over = threading.Event(), asyncio.Event()

    async def heedless():
        began.set()
        while not over.is_set():
            with suppress(asyncio.CancelledError):
                await over.wait()

    task = asyncio.ensure_future(own.run(heedless()))
    await asyncio.to_thread(began.wait)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    own.soon(over.set)


async def test_what_is_held_there_is_let_go_of_there(own):
    threads = []

    @asynccontextmanager
    async def held():
        threads.append(threading.current_thread().name)
        yield "it"
        threads.append(threading.current_thread().name)

    async with own.holding(held) as found:
        assert found == "it"
    assert threads == ["own", "own"]


async def test_a_write_that_is_in_doubt_waits_here_for_what_is_settled_there(own):
    settled = asyncio.Event()

    class Doubtful:
        def check(self):
            if settled.is_set():
                return 7.0
            raise LeadershipDoubted("late", settled=settled.wait)

    async def settle():
        settled.set()

    write = asyncio.ensure_future(granted(Election(Doubtful(), own).check))
    await asyncio.sleep(0)
    await own.run(settle())
    assert await write == 7.0
