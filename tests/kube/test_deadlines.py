"""One timer for the ends of many waits: each is told at its own time, on a virtual clock that knows that time exactly."""

import asyncio
import random

from hypothesis import given
from hypothesis import strategies as st

from tests.simulation.loop import VirtualLoop
from tutti.kube.connections import Connections, Request
from tutti.kube.credentials import Access
from tutti.kube.http1 import Deadlines


class Patient:
    """Notes when it was told that its time is over."""

    def __init__(self, then=lambda: None):
        self.told = []
        self._then = then

    def too_late(self):
        self.told.append(asyncio.get_running_loop().time())
        self._then()


def told(story):
    loop = VirtualLoop(random.Random(0))
    try:
        return loop.run_until_complete(story())
    finally:
        loop.close()


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 40), st.none() | st.integers(1, 60)), max_size=20))
def test_each_is_told_once_and_on_time_unless_it_was_dropped_before(waits):
    """Each begins at some second, may wait for so many, and is dropped half a second after so many."""

    async def story():
        deadlines, loop = Deadlines(), asyncio.get_running_loop()
        crowd = []
        for begins, lasts, dropped in waits:
            one = Patient()
            loop.call_at(begins, deadlines.set, one, begins + lasts)
            gone = dropped is not None and dropped + 0.5 < lasts
            if dropped is not None:
                loop.call_at(begins + dropped + 0.5, deadlines.drop, one)
            crowd.append((one, [] if gone else [begins + lasts]))
        await asyncio.sleep(200)
        return [(one.told, wanted) for one, wanted in crowd]

    for found, wanted in told(story):
        assert found == wanted


async def test_who_is_told_may_drop_the_others_and_wait_again():
    deadlines, loop = Deadlines(), asyncio.get_running_loop()
    ended = asyncio.Event()
    second, third = Patient(), Patient(ended.set)

    def then():
        deadlines.drop(second)
        deadlines.set(third, loop.time() + 0.01)

    first = Patient(then)
    for one in (first, second):
        deadlines.set(one, loop.time())
    await ended.wait()
    assert (len(first.told), second.told) == (1, [])


def test_no_timer_stays_behind_where_nobody_waits():
    async def story():
        deadlines, patient = Deadlines(), Patient()
        deadlines.set(patient, 30.0)
        deadlines.rest()
        await asyncio.sleep(40.0)
        deadlines.set(patient, 90.0)
        deadlines.drop(patient)
        deadlines.rest()
        loop = asyncio.get_running_loop()
        return patient.told, [timer for *_, timer in loop._timers if not timer.cancelled()]

    assert told(story) == ([30.0], [])


async def test_each_request_ends_in_its_own_time_however_long_those_before_it_have():
    hold, connected = asyncio.Event(), asyncio.Barrier(4)

    async def silent(reader, writer):
        """Answer one request, when there are four connections, and none that follows."""
        await reader.readuntil(b"\r\n\r\n")
        await connected.wait()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        await hold.wait()
        writer.close()

    async with await asyncio.start_server(silent, "127.0.0.1", 0) as server:
        access = Access(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        connections = Connections(headers={})
        await asyncio.gather(*(connections.send(access, Request("POST", "/first")) for _ in range(4)))
        long = asyncio.ensure_future(connections.send(access, Request("POST", "/long", within_seconds=1000.0)))
        await asyncio.sleep(0)
        short = [connections.send(access, Request("POST", "/short", within_seconds=0.5)) for _ in range(3)]
        ended = await asyncio.gather(*short, return_exceptions=True)
        assert ["nothing within" in str(one) for one in ended] == [True] * 3
        assert not long.done()
        hold.set()
        assert "closed the connection" in str((await asyncio.gather(long, return_exceptions=True))[0])
        connections.close()
