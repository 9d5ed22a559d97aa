"""What nodes use is read from metrics.k8s.io and from Prometheus, whatever these answer."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tutti.kube.node_metrics import MeasuringError, read_metrics_server, read_prometheus

NOW = 1_800_000_000.0


class Api:
    """The API server as far as it is asked here."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    async def request(self, method: str, path: str) -> bytes:
        assert (method, path) == ("GET", "/apis/metrics.k8s.io/v1beta1/nodes")
        return self.answer if isinstance(self.answer, bytes) else json.dumps(self.answer).encode()


async def test_cores_and_bytes_of_the_metrics_server():
    items = [
        {"metadata": {"name": "a"}, "timestamp": "2027-01-15T07:59:30Z", "usage": {"cpu": "1500m", "memory": "2Gi"}},
        {"metadata": {"name": "b"}, "timestamp": "tomorrow", "usage": {"cpu": "2500000000n", "memory": "much"}},
        {"metadata": {}, "usage": {"cpu": "1"}},
        {"metadata": {"name": "late"}, "timestamp": "2999-01-01T00:00:00Z", "usage": {"cpu": "1", "memory": "1"}},
    ]
    found = await read_metrics_server(Api({"items": items}), NOW)  # type: ignore[arg-type]

    assert found.metrics == ["cpu-used", "memory-used"]
    assert {name: one.values for name, one in found.nodes.items()} == {
        "a": [1500.0, 2.0 * 2**30],
        "b": [2500.0, None],
        "late": [1000.0, 1.0],
    }
    assert found.nodes["a"].at == NOW - 30
    assert found.nodes["b"].at == found.nodes["late"].at == NOW


@pytest.mark.parametrize("answer", [b"<html>", b'{"items": 3}', b'{"items": [{"usage": []}]}'])
async def test_what_is_no_list_of_metrics_is_told(answer: bytes):
    with pytest.raises(MeasuringError, match="no list of node metrics"):
        await read_metrics_server(Api(answer), NOW)  # type: ignore[arg-type]


@asynccontextmanager
async def prometheus(answers: dict[str, Any]) -> AsyncIterator[str]:
    async def query(request: web.Request) -> web.Response:
        answer = answers[request.query["query"]]
        return web.Response(text=answer) if isinstance(answer, str) else web.json_response(answer)

    app = web.Application()
    app.router.add_get("/api/v1/query", query)
    async with TestServer(app) as server:
        yield str(server.make_url("/"))


def vector(*samples: tuple[str, str]) -> dict[str, Any]:
    result = [{"metric": {"instance": name}, "value": [NOW - 10, value]} for name, value in samples]
    return {"status": "success", "data": {"resultType": "vector", "result": result}}


async def test_samples_of_several_queries_are_put_together_by_node():
    answers = {"c": vector(("a:9100", "41.256"), ("b", "NaN"), ("", "3")), "t": vector(("a", "80"), ("c", "+Inf"))}
    async with prometheus(answers) as address, aiohttp.ClientSession() as session:
        found = await read_prometheus(session, address, {"cpu": "c", "temperature": "t"}, "instance", NOW)

    assert found.metrics == ["cpu", "temperature"]
    assert {name: (one.at, one.values) for name, one in found.nodes.items()} == {"a": (NOW - 10, [41.26, 80.0])}


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ("nothing", "answers 200 and what is no result of a query"),
        ({"status": "error", "error": "parse error"}, "parse error"),
        ({"status": "success", "data": {"resultType": "matrix", "result": []}}, "must give a vector"),
        ({"status": "success", "data": {"resultType": "vector", "result": [{"value": 3}]}}, "no result of a query"),
    ],
)
async def test_what_prometheus_does_wrong_is_told_with_the_metric(answer: Any, told: str):
    async with prometheus({"c": answer}) as address, aiohttp.ClientSession() as session:
        with pytest.raises(MeasuringError, match=told) as error:
            await read_prometheus(session, address, {"cpu": "c"}, "instance", NOW)
    assert "asked for cpu" in str(error.value)


@pytest.mark.parametrize("address", ["http://127.0.0.1:9", "http://a..b", f"http://{'x' * 64}.example"])
async def test_nobody_there_is_told(address: str):
    async with aiohttp.ClientSession() as session:
        with pytest.raises(MeasuringError, match="Prometheus at"):
            await read_prometheus(session, address, {"cpu": "c"}, "instance", NOW)


async def test_an_answer_that_sends_one_elsewhere_is_no_answer():
    async def elsewhere(_: web.Request) -> web.Response:
        raise web.HTTPFound("http://a..b/")

    app = web.Application()
    app.router.add_get("/api/v1/query", elsewhere)
    async with TestServer(app) as server, aiohttp.ClientSession() as session:
        with pytest.raises(MeasuringError, match="answers 302"):
            await read_prometheus(session, str(server.make_url("/")), {"cpu": "c"}, "instance", NOW)
