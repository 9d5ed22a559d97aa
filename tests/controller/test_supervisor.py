"""One fate for the engine and the process."""

from __future__ import annotations

import asyncio

import pytest
import structlog

from tutti.controller.health import Health
from tutti.controller.supervision import Supervisor, first_of
from tutti.kube.fencing import LeadershipLost


async def test_a_crash_stops_the_process_and_is_raised_in_the_end():
    async def work():
        raise ValueError("broken")

    stop, health = asyncio.Event(), Health()
    supervisor = Supervisor(work, stop=stop, health=health)
    supervisor.start()
    await asyncio.wait_for(stop.wait(), 60)
    await supervisor.finished()

    assert not health.alive["engine"]().ok
    assert "broken" in health.alive["engine"]().detail
    with pytest.raises(ValueError, match="broken"):
        supervisor.result()


async def test_what_several_tasks_died_of_is_told_once():
    async def work():
        raise ExceptionGroup("both", [ValueError("broken"), ValueError("broken")])

    health = Health()
    supervisor = Supervisor(work, stop=asyncio.Event(), health=health)
    supervisor.start()
    await supervisor.finished()

    assert health.alive["engine"]().detail.count("broken") == 1
    with pytest.raises(ExceptionGroup):
        supervisor.result()


async def test_a_lost_lease_is_one_line_and_no_crash():
    async def work():
        lost = [LeadershipLost("another has taken it"), LeadershipLost("it does not hold it")]
        raise ExceptionGroup("both", [ExceptionGroup("first", lost[:1]), lost[1]])

    supervisor = Supervisor(work, stop=asyncio.Event(), health=Health())
    with structlog.testing.capture_logs() as said:
        supervisor.start()
        await supervisor.finished()

    assert said == [{"event": "leadership_lost", "log_level": "warning", "why": "another has taken it"}]
    with pytest.raises(ExceptionGroup):
        supervisor.result()


async def test_a_lost_lease_beside_a_fault_is_a_crash():
    async def work():
        raise ExceptionGroup("both", [LeadershipLost("another has taken it"), ValueError("broken")])

    supervisor = Supervisor(work, stop=asyncio.Event(), health=Health())
    with structlog.testing.capture_logs() as said:
        supervisor.start()
        await supervisor.finished()

    assert [line["event"] for line in said] == ["engine_crashed"]
    with pytest.raises(ExceptionGroup):
        supervisor.result()


async def test_work_that_just_ends_is_a_crash_too():
    async def work():
        pass

    supervisor = Supervisor(work, stop=asyncio.Event(), health=Health())
    supervisor.start()
    await supervisor.finished()

    with pytest.raises(RuntimeError, match="nobody asked"):
        supervisor.result()


async def test_work_that_ends_because_it_was_asked_to_is_no_crash():
    stop, health = asyncio.Event(), Health()

    async def work():
        await stop.wait()

    supervisor = Supervisor(work, stop=stop, health=health)
    supervisor.start()
    assert health.alive["engine"]().ok
    stop.set()
    await supervisor.finished()

    supervisor.result()


async def test_it_runs_once():
    async def work():
        await asyncio.Event().wait()

    supervisor = Supervisor(work, stop=asyncio.Event(), health=Health())
    supervisor.start()
    with pytest.raises(RuntimeError, match="twice"):
        supervisor.start()


async def test_without_a_start_there_is_nothing_to_wait_for():
    supervisor = Supervisor(asyncio.Event().wait, stop=asyncio.Event(), health=Health())
    await supervisor.finished()
    supervisor.result()


async def test_whichever_of_events_and_tasks_is_first_ends_the_wait_and_nothing_else():
    async def fail():
        raise ValueError("broken")

    never, event = asyncio.Event(), asyncio.Event()
    running = asyncio.create_task(never.wait())
    failing = asyncio.create_task(fail())
    await asyncio.wait_for(first_of(running, failing, never), 60)
    assert failing.done()
    assert not running.done()

    event.set()
    await asyncio.wait_for(first_of(running, event), 60)
    assert not running.done()

    with pytest.raises(ValueError, match="broken"):
        await failing
    running.cancel()
