"""Who writes next, and that nobody starves or is forgotten."""

import asyncio
import itertools
import random

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from tests.simulation.loop import VirtualLoop
from tutti.kube import flow_control
from tutti.kube.client import Client
from tutti.kube.credentials import Access, Credentials
from tutti.kube.errors import ApiError, UnknownOutcome
from tutti.kube.fencing import LeadershipDoubted, LeadershipLost, unfenced
from tutti.kube.flow_control import ConcurrencyLimiter, PriorityLevel, PriorityLevels


async def settle():
    """Let every task go as far as it can."""
    for _ in range(5):
        await asyncio.sleep(0)


class Crowd:
    """Writes that enter, and stay until they are told to leave."""

    def __init__(self, limit):
        self.lanes = PriorityLevels(ConcurrencyLimiter(limit, first=limit))
        self.inside = []
        self.tasks = []

    async def ask(self, *lanes):
        async def enter(lane):
            await self.lanes.enter(lane)
            self.inside.append(lane)

        started = [asyncio.create_task(enter(lane)) for lane in lanes]
        self.tasks += started
        await settle()
        return started

    async def leave(self, lane):
        self.inside.remove(lane)
        self.lanes.leave(lane)
        await settle()

    async def end(self):
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


async def test_a_bind_overtakes_whatever_else_waits():
    crowd = Crowd(2)
    await crowd.ask(PriorityLevel.EVENT, PriorityLevel.STATUS)
    await crowd.ask(
        PriorityLevel.EVENT, PriorityLevel.STATUS, PriorityLevel.EVICT, PriorityLevel.BIND, PriorityLevel.BIND
    )
    assert crowd.inside == [
        PriorityLevel.EVENT,
        PriorityLevel.STATUS,
        PriorityLevel.EVICT,
        PriorityLevel.BIND,
    ]  # each lane may have one
    await crowd.leave(PriorityLevel.EVICT)
    await crowd.leave(PriorityLevel.STATUS)
    await crowd.leave(PriorityLevel.BIND)
    assert sorted(crowd.inside) == [PriorityLevel.BIND, PriorityLevel.STATUS, PriorityLevel.EVENT]
    await crowd.end()


async def test_what_is_begun_with_a_claim_is_ended_before_others_begin():
    crowd = Crowd(2)
    await crowd.ask(*[PriorityLevel.CLAIM] * 5)
    assert crowd.inside == [PriorityLevel.CLAIM] * 2
    await crowd.ask(PriorityLevel.BIND, PriorityLevel.BIND)
    await crowd.leave(PriorityLevel.CLAIM)
    await crowd.leave(PriorityLevel.CLAIM)
    assert sorted(crowd.inside) == [
        PriorityLevel.BIND,
        PriorityLevel.BIND,
        PriorityLevel.CLAIM,
    ]  # each lane may have one
    await crowd.end()


async def test_a_lane_of_low_rank_trickles_however_much_waits_before_it(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now[0])

    async def passes(seconds):
        now[0] += seconds
        await settle()

    crowd = Crowd(4)
    await crowd.ask(*[PriorityLevel.BIND] * 20, *[PriorityLevel.EVENT] * 3)
    await passes(flow_control._RUSH_SECONDS - 0.01)
    assert crowd.inside == [PriorityLevel.BIND] * 4  # most rushes are over in a moment
    await passes(0.02)
    assert crowd.inside.count(PriorityLevel.EVENT) == 1
    await crowd.leave(PriorityLevel.EVENT)
    await passes(flow_control._TRICKLE_SECONDS - 0.02)
    assert crowd.inside.count(PriorityLevel.EVENT) == 0  # not at once
    await passes(0.03)
    assert crowd.inside.count(PriorityLevel.EVENT) == 1  # nobody leaves, and yet the next one enters
    assert (crowd.lanes.waiting(PriorityLevel.BIND), crowd.lanes.waiting(PriorityLevel.EVENT)) == (16, 1)
    await crowd.end()


async def test_what_trickled_flows_again_when_nothing_more_important_waits():
    crowd = Crowd(4)
    await crowd.ask(*[PriorityLevel.BIND] * 5, *[PriorityLevel.EVENT] * 3)
    assert crowd.inside == [PriorityLevel.BIND] * 4
    await crowd.leave(PriorityLevel.BIND)
    assert sorted(crowd.inside) == [PriorityLevel.BIND] * 4 + [PriorityLevel.EVENT]
    await crowd.end()


async def test_one_event_at_a_time_is_written_while_a_bind_is_under_way():
    crowd = Crowd(8)
    await crowd.ask(PriorityLevel.BIND, *[PriorityLevel.EVENT] * 3)
    assert crowd.inside == [PriorityLevel.BIND, PriorityLevel.EVENT]
    await crowd.leave(PriorityLevel.BIND)
    assert crowd.inside == [PriorityLevel.EVENT] * 3
    await crowd.end()


async def test_evictions_need_not_wait_for_binds_that_are_under_way():
    crowd = Crowd(8)
    await crowd.ask(PriorityLevel.BIND, *[PriorityLevel.EVICT] * 3)
    assert crowd.inside == [PriorityLevel.BIND, *[PriorityLevel.EVICT] * 3]
    await crowd.end()


async def test_events_use_the_whole_limit_once_nothing_more_important_waits():
    crowd = Crowd(4)
    await crowd.ask(*[PriorityLevel.EVENT] * 10)
    assert len(crowd.inside) == 4
    await crowd.end()


async def test_a_write_given_up_while_it_waits_costs_nobody_a_turn():
    crowd = Crowd(1)
    await crowd.ask(PriorityLevel.BIND)
    (given_up,) = await crowd.ask(PriorityLevel.BIND)
    await crowd.ask(PriorityLevel.BIND)
    given_up.cancel()
    await settle()
    await crowd.leave(PriorityLevel.BIND)
    assert crowd.inside == [PriorityLevel.BIND]
    await crowd.end()


async def test_writes_given_up_in_the_moment_of_their_turn_pass_it_on():
    crowd = Crowd(1)
    await crowd.ask(PriorityLevel.BIND)
    given_up = await crowd.ask(*[PriorityLevel.BIND] * 3)
    await crowd.ask(PriorityLevel.BIND)
    for task in given_up:
        task.cancel()
    crowd.lanes.leave(crowd.inside.pop())  # before any of them has heard of it
    await settle()
    assert crowd.inside == [PriorityLevel.BIND]
    assert crowd.lanes.waiting(PriorityLevel.BIND) == 0
    await crowd.end()


async def test_a_turn_that_comes_together_with_the_cancellation_is_given_on():
    crowd = Crowd(1)
    await crowd.ask(PriorityLevel.BIND)
    (unlucky,) = await crowd.ask(PriorityLevel.BIND)
    await crowd.ask(PriorityLevel.BIND)
    crowd.lanes.leave(crowd.inside.pop())  # its turn comes
    unlucky.cancel()  # before it could take it
    await settle()
    assert crowd.inside == [PriorityLevel.BIND]
    await crowd.end()


@given(st.integers(1, 8), st.lists(st.tuples(st.sampled_from(list(PriorityLevel)), st.integers(0, 3)), max_size=60))
async def test_the_limit_holds_and_everybody_has_a_turn(limit, asked):
    crowd = Crowd(limit)
    for lane, leaving in asked:
        await crowd.ask(lane)
        assert len(crowd.inside) <= limit + len(PriorityLevel)
        for _ in range(min(leaving, len(crowd.inside))):
            await crowd.leave(crowd.inside[0])
    while crowd.inside:
        await crowd.leave(crowd.inside[0])
    assert all(task.done() and task.exception() is None for task in crowd.tasks)


class Busy:
    """A server that refuses what goes beyond so many at once, as API priority and fairness does."""

    def __init__(self, kube, width):
        self.kube, self.width = kube, width
        self.within = self.refused = 0

    async def handle(self, request):
        if self.within >= self.width:
            self.refused += 1
            return self.kube.status(429, "TooManyRequests", "too many requests, please try again")
        self.within += 1
        await asyncio.sleep(0.001)
        self.within -= 1
        return web.json_response({})


def limit_of(server):
    return server.client.metrics.write_limit.collect()[0].samples[0].value


async def write(server, fence=unfenced):
    await server.client.write(PriorityLevel.BIND, "POST", "/x", body=b"{}", fence=fence)


async def test_a_server_that_refuses_is_asked_for_less(serve, kube):
    busy = Busy(kube, 5)
    server = await serve(busy.handle, concurrency=64)
    assert limit_of(server) == 32
    for _ in range(4):
        answers = await asyncio.gather(*(write(server) for _ in range(64)), return_exceptions=True)
        assert all(answer is None or isinstance(answer, ApiError) for answer in answers)
    assert busy.refused
    assert limit_of(server) < 32


class Clockwork(Client):
    """A client whose server answers each request within ten milliseconds of a virtual clock."""

    async def _ask(self, access, request):
        await asyncio.sleep(0.01)
        return b"{}"


class Slow(Credentials):
    """Credentials that take a second, as those of a plugin, one time in so many."""

    def __init__(self, times):
        super().__init__(lambda _: Access("http://nowhere"), source="a plugin")
        self._times = itertools.cycle([*[False] * (times - 1), True])

    async def access(self):
        await asyncio.sleep(1.0 if next(self._times) else 0.0)
        return Access("http://nowhere")


def doubting(times):
    """A fence that knows only after a second whether this process still leads, one time in so many."""
    doubts = itertools.cycle([*[False] * (times - 1), True])

    def fence():
        if next(doubts):
            raise LeadershipDoubted("not renewed in time", settled=lambda: asyncio.sleep(1.0))
        return 30.0

    return fence


@pytest.mark.parametrize(("credentials", "fence"), [(10_000, 10_000), (8, 10_000), (10_000, 8)])
def test_what_a_write_waits_for_beside_the_server_is_no_sign_of_a_slow_one(credentials, fence):
    async def story():
        async with Clockwork(Slow(credentials), concurrency=64) as client:
            asked = doubting(fence)
            for _ in range(10):
                writes = (client.write(PriorityLevel.BIND, "POST", "/x", body=b"{}", fence=asked) for _ in range(96))
                await asyncio.gather(*writes)
            return client._levels.limit

    loop = VirtualLoop(random.Random(0))
    assert loop.run_until_complete(story()) == 64  # all that may be, for the server is as quick as ever
    loop.close()


async def test_a_budget_that_refuses_an_eviction_is_no_sign_of_a_busy_server(serve, kube):
    async def refuse(_):
        return kube.status(429, "TooManyRequests", causes=[{"reason": "DisruptionBudget"}])

    server = await serve(refuse)
    with pytest.raises(ApiError):
        await write(server)
    assert limit_of(server) == 32


async def test_the_fence_is_asked_when_the_turn_has_come_and_not_before(serve):
    hold, arrived, asked = asyncio.Event(), asyncio.Event(), []

    async def answer(_):
        arrived.set()
        await hold.wait()
        return web.json_response({})

    def fence():
        asked.append(hold.is_set())
        if hold.is_set():
            raise LeadershipLost("another leads")
        return 30.0

    server = await serve(answer, concurrency=1)
    first, second = (asyncio.create_task(write(server, fence)) for _ in range(2))
    await arrived.wait()
    hold.set()
    await first
    with pytest.raises(LeadershipLost):
        await second
    assert asked == [False, True]
    assert len(server.calls) == 1


async def test_a_write_is_given_up_by_both_sides_when_somebody_else_may_act(serve):
    """The server is told how long it may work on it, for it goes on when its client sleeps."""
    hold = asyncio.Event()

    async def answer(_):
        await hold.wait()
        return web.json_response({})

    server = await serve(answer)
    hold.set()
    await write(server)  # so there is a connection, and all the time is the answer's
    hold.clear()
    with pytest.raises(UnknownOutcome):
        await write(server, lambda: 0.05)
    hold.set()
    await write(server)
    told = [int(call.query["timeout"].removesuffix("ms")) for call in server.calls]
    assert 0 < told[1] <= 50 < min(told[0], told[2])
    assert max(told) <= 30_000
