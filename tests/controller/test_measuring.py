"""Whoever measures nodes may fail in any way: the engine is told what could be read, and goes on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tutti.api.configuration import TuttiConfiguration
from tutti.controller.measuring import NodeMeasuring
from tutti.controller.metrics import Metrics
from tutti.engine.records.measurements import Measured
from tutti.kube.errors import NotSent

SETTINGS: dict[str, Any] = {
    "measurements": {"intervalSeconds": 5},
    "profiles": [{"load": {"policy": "LeastUsed"}}],
}


class Api:
    """An API server that answers one thing after another; `done` is set when it has nothing more to say."""

    def __init__(self, *answers: bytes | Exception) -> None:
        self.answers = list(answers)
        self.done = asyncio.Event()

    async def request(self, *_: str) -> bytes:
        if not self.answers:
            self.done.set()
            await asyncio.Event().wait()
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


GOOD = b'{"items":[{"metadata":{"name":"n"},"usage":{"cpu":"1","memory":"1Gi"}}]}'


@pytest.mark.parametrize("first", [NotSent("nobody there"), b"<html>", RecursionError("deep")], ids=str)
async def test_the_next_reading_is_taken_in_after_one_that_failed(monkeypatch: pytest.MonkeyPatch, first: Any):
    async def at_once(_: float) -> None:
        return None

    api, told = Api(first, GOOD), list[Any]()
    measuring = NodeMeasuring(
        api,  # type: ignore[arg-type]
        TuttiConfiguration.model_validate(SETTINGS),
        observe=told.append,
        metrics=Metrics(),
        clock=lambda: 1000.0,
    )
    monkeypatch.setattr("tutti.controller.measuring.asyncio.sleep", at_once)
    task = asyncio.ensure_future(measuring.run())
    await api.done.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert isinstance(told[0], Measured)
    assert told[0].nodes["n"].values == [1000.0, 2.0**30]


async def test_nothing_is_read_where_no_profile_goes_by_it():
    measuring = NodeMeasuring(
        Api(),  # type: ignore[arg-type]
        TuttiConfiguration(),
        observe=lambda _: None,
        metrics=Metrics(),
        clock=lambda: 0.0,
    )
    await measuring.run()
