"""Binds are tried in the order in which they were decided, and one that takes long holds up none of the others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from tests.controller.test_dispatch import dispatch_of
from tests.kube.conftest import serving, status
from tutti.controller import bind_line
from tutti.controller.dispatch import Dispatch
from tutti.engine.records.decisions import Bind
from tutti.engine.records.observations import BindAnswer
from tutti.kube import binder
from tutti.kube.client import Client

CARRIERS = 2 + 8
"""Of a client that may have two writes under way (`controller/bind_line.py`)."""


def binds(*names: str) -> list[Bind]:
    return [Bind("default", name, name, "node", f"Pod/default/{name}") for name in names]


def bound(request) -> str:
    """The pod that a request binds; nothing where it does something else."""
    return request.path.split("/")[-2] if request.path.endswith("/binding") else ""


@asynccontextmanager
async def dispatching(client: Client, observe) -> AsyncIterator[Dispatch]:
    dispatch = dispatch_of(client, lambda: 10.0, observe)
    running = asyncio.ensure_future(dispatch.run())
    await asyncio.sleep(0)
    yield dispatch
    running.cancel()
    await asyncio.wait({running})


async def test_binds_are_tried_in_the_order_in_which_they_were_decided():
    tried = []

    async def take(request):
        tried.append(bound(request))
        return status(201, "Created")

    names = [f"p-{number}" for number in range(5 * CARRIERS)]
    async with serving(take, concurrency=1) as server, dispatching(server.client, lambda _: None) as dispatch:
        dispatch.carry_out(binds(*names[:20]))
        dispatch.carry_out(binds(*names[20:]))
        drained = await dispatch.drain(within_seconds=30)
    assert tried == names
    assert drained.writes


async def test_binds_that_have_to_go_on_hold_up_none_that_come_after_them():
    """What a refused bind has come to is read from its pod, which may take as long as the server likes."""
    read, answers, all_plain = asyncio.Event(), {}, asyncio.Event()
    unclear = [f"unclear-{number}" for number in range(2 * CARRIERS)]
    plain = [f"plain-{number}" for number in range(2 * CARRIERS)]

    async def answer(request):
        name = bound(request)
        if not name:
            await read.wait()
            pod = request.path.split("/")[-1]
            return web.json_response({"metadata": {"name": pod, "uid": pod}, "spec": {"nodeName": "node"}})
        return status(409, "Conflict") if name in unclear else status(201, "Created")

    def observe(finished) -> None:
        answers[finished.name] = finished.outcome
        if all(name in answers for name in plain):
            all_plain.set()

    async with serving(answer, concurrency=2) as server, dispatching(server.client, observe) as dispatch:
        dispatch.carry_out(binds(*unclear, *plain))
        async with asyncio.timeout(60):
            await all_plain.wait()
        assert not set(unclear) & set(answers)
        read.set()
        drained = await dispatch.drain(within_seconds=30)
    assert drained.writes
    assert answers == dict.fromkeys((*plain, *unclear), BindAnswer.BOUND)


async def test_binds_that_stand_in_line_are_counted_as_waiting():
    under_way, hold = asyncio.Semaphore(0), asyncio.Event()

    async def answer(_):
        under_way.release()
        await hold.wait()
        return status(201, "Created")

    async with serving(answer, concurrency=2) as server, dispatching(server.client, lambda _: None) as dispatch:
        dispatch.carry_out(binds(*(f"p-{number}" for number in range(5 * CARRIERS))))
        await under_way.acquire()
        await under_way.acquire()
        waiting = {
            sample.labels["lane"]: sample.value
            for metric in server.client.metrics.writes_waiting.collect()
            for sample in metric.samples
        }
        hold.set()
        await dispatch.drain(within_seconds=30)
    assert waiting["bind"] == 5 * CARRIERS - 2


async def test_binds_in_line_to_a_node_that_is_gone_are_not_written_and_are_known_to_have_failed():
    """The server takes a binding to any name of a node, and the pod would have to be found and deleted there."""
    under_way, hold, answers = asyncio.Semaphore(0), asyncio.Event(), {}
    tried = set()

    async def answer(request):
        tried.add(bound(request))
        under_way.release()
        await hold.wait()
        return status(201, "Created")

    def observe(finished) -> None:
        answers[finished.name] = (finished.outcome, finished.message)

    stay = [Bind("default", f"stay-{number}", "", "other", "Pod/default/stay") for number in range(CARRIERS)]
    async with serving(answer, concurrency=2) as server, dispatching(server.client, observe) as dispatch:
        dispatch.carry_out([*binds(*(f"p-{number}" for number in range(2 * CARRIERS))), *stay])
        await under_way.acquire()
        await under_way.acquire()
        dispatch.node_gone("node")
        dispatch.node_gone("unknown")
        hold.set()
        drained = await dispatch.drain(within_seconds=30)
    taken = {f"p-{number}" for number in range(CARRIERS)}
    kept = taken | {bind.name for bind in stay}
    assert drained.writes
    assert tried == kept
    assert {name for name, told in answers.items() if told == (BindAnswer.BOUND, "")} == kept
    withdrawn = {name: told for name, told in answers.items() if name not in kept}
    failed = (BindAnswer.FAILED, "the node is gone")
    assert withdrawn == {f"p-{number}": failed for number in range(CARRIERS, 2 * CARRIERS)}


async def test_the_seconds_of_a_bind_begin_when_it_comes_into_line(monkeypatch):
    clock = 0.0

    def now() -> float:
        return clock

    async def take(_):
        nonlocal clock
        clock += 1.0
        return status(201, "Created")

    monkeypatch.setattr(bind_line, "perf_counter", now)
    monkeypatch.setattr(binder, "perf_counter", now)
    async with serving(take, concurrency=1) as server, dispatching(server.client, lambda _: None) as dispatch:
        dispatch.carry_out(binds(*(f"p-{number}" for number in range(20))))
        await dispatch.drain(within_seconds=30)
        samples = {
            sample.name: sample.value
            for metric in server.client.metrics.bind_seconds.collect()
            for sample in metric.samples
        }
    (total,) = (value for name, value in samples.items() if name.endswith("_sum"))
    assert total == sum(range(1, 21))
