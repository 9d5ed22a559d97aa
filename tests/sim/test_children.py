"""Processes: started, watched, killed on request, never left behind."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from tutti_sim.children import Child, ChildDied, Children

FOREVER = "import time; print('up', flush=True); time.sleep(600)"
STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
)


def child(tmp_path: Path, code: str) -> Child:
    return Child("sleeper", (sys.executable, "-c", code), tmp_path / "sleeper.log")


def lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def says_up(one: Child, times: int = 1):
    return lambda: one.log.read_text("utf-8").count("up") >= times


async def test_a_child_that_ends_on_its_own_is_named_with_the_end_of_its_log(tmp_path: Path):
    one = child(tmp_path, "import sys; print('on my way'); sys.exit('no such cluster')")
    await one.start()

    with pytest.raises(ChildDied, match="the sleeper ended with exit code 1") as caught:
        await one.supervise()
    await one.stop()
    assert "no such cluster" in str(caught.value)
    assert "on my way" in one.log.read_text("utf-8")


async def test_a_child_that_is_killed_by_somebody_else_is_reported_with_the_signal(tmp_path: Path):
    one = child(tmp_path, FOREVER)
    await one.start()
    os.kill(one.pid, 9)

    with pytest.raises(ChildDied, match="was ended by SIGKILL"):
        await one.supervise()
    await one.stop()


async def test_waiting_for_a_child_that_dies_ends_with_its_death(tmp_path: Path):
    one = child(tmp_path, "raise SystemExit(3)")
    await one.start()

    with pytest.raises(ChildDied, match="exit code 3"):
        await one.until(lambda: False)


async def test_a_crashed_child_is_started_again_and_watched_on(tmp_path: Path):
    one = child(tmp_path, FOREVER)
    await one.start()
    await one.until(says_up(one))
    first = one.pid
    watching = asyncio.create_task(one.supervise())

    await one.crash()
    assert one.pid != first
    assert not lives(first)
    await one.until(says_up(one, times=2))
    assert not watching.done()

    os.kill(one.pid, 15)
    with pytest.raises(ChildDied, match="SIGTERM"):
        await watching


async def test_children_are_ended_when_the_demo_fails(tmp_path: Path):
    one = child(tmp_path, FOREVER)

    async def fail() -> None:
        async with Children(tmp_path) as children:
            children.adopt(one)
            await one.start()
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await fail()
    assert not lives(one.pid)


async def test_a_child_that_ignores_to_be_asked_is_killed(tmp_path: Path):
    one = child(tmp_path, STUBBORN)
    await one.start()
    await one.until(says_up(one))
    await one.stop(grace_seconds=0.1)

    assert not lives(one.pid)


async def test_children_run_tutti_itself(tmp_path: Path):
    async with Children(tmp_path) as children:
        operator = await children.start("operator", "run", "--kubeconfig", str(tmp_path / "missing"))
        with pytest.raises(ChildDied, match="does not exist"):
            await operator.supervise()
