"""Metrics are given to those alone whom the API server knows, and lets read them."""

from __future__ import annotations

import asyncio
import json

import aiohttp
import pytest
from aiohttp import web

from tests.controller.process import operator
from tests.kube.conftest import serving as api_server
from tests.kube.conftest import status
from tutti.controller.serving import MetricsReaders

OK, UNAUTHORIZED, FORBIDDEN, TOO_MANY, UNAVAILABLE = 200, 401, 403, 429, 503


class Reviews:
    """An API server that knows `reader` and `other`, and lets the first read metrics."""

    def __init__(self) -> None:
        self.asked: list[dict] = []
        self.is_away = False
        self.goes_on = asyncio.Event()
        self.goes_on.set()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        review = await request.json()
        self.asked.append(review)
        await self.goes_on.wait()
        if self.is_away:
            return status(500, "InternalError", "it is away")
        spec = review["spec"]
        if review["kind"] == "TokenReview":
            known = spec["token"] in ("reader", "other")
            user = {"username": spec["token"], "groups": ["g"], "extra": {"scopes": ["s"]}} if known else {}
            return web.json_response({"status": {"authenticated": known, "user": user}})
        return web.json_response({"status": {"allowed": spec["user"] == "reader"}})


@pytest.fixture
async def reviews():
    return Reviews()


@pytest.fixture
async def server(reviews):
    async with api_server(reviews.handle) as server:
        yield server


async def test_who_is_known_and_may_reads_and_nobody_else(reviews, server):
    readers = MetricsReaders(server.client)
    assert await readers.verdict("Bearer reader") == OK
    token, access = reviews.asked
    assert (token["apiVersion"], token["spec"]) == ("authentication.k8s.io/v1", {"token": "reader"})
    assert access["spec"] == {
        "user": "reader",
        "uid": "",
        "groups": ["g"],
        "extra": {"scopes": ["s"]},
        "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
    }
    assert await readers.verdict("bearer other") == FORBIDDEN
    assert await readers.verdict("Bearer nobody") == UNAUTHORIZED


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer ", "Basic cmVhZGVyOg==", "Bearer " + "x" * 20_000])
async def test_what_is_no_token_is_asked_of_nobody(reviews, server, header):
    assert await MetricsReaders(server.client).verdict(header) == UNAUTHORIZED
    assert reviews.asked == []


async def test_what_was_said_of_a_token_holds_for_a_short_time(reviews, server):
    now = [100.0]
    readers = MetricsReaders(server.client, clock=lambda: now[0])
    for token, calls, seconds in (("reader", 2, 60), ("other", 2, 10), ("nobody", 1, 10)):
        reviews.asked.clear()
        first = await readers.verdict(f"Bearer {token}")
        now[0] += seconds - 1
        assert await readers.verdict(f"Bearer {token}") == first
        assert len(reviews.asked) == calls
        now[0] += 1
        assert await readers.verdict(f"Bearer {token}") == first
        assert len(reviews.asked) == 2 * calls


async def test_an_api_server_that_does_not_say_lets_nobody_read_and_is_asked_again(reviews, server):
    readers = MetricsReaders(server.client)
    reviews.is_away = True
    assert await readers.verdict("Bearer reader") == UNAVAILABLE
    reviews.is_away = False
    assert await readers.verdict("Bearer reader") == OK


async def test_a_flood_of_tokens_is_no_flood_of_reviews(reviews, server):
    readers = MetricsReaders(server.client)
    reviews.goes_on.clear()
    flood = [asyncio.create_task(readers.verdict(f"Bearer made-up-{at}")) for at in range(50)]
    refused = 0
    for done in asyncio.as_completed(flood):
        refused += await done == TOO_MANY
        if refused == 42:
            reviews.goes_on.set()
    assert refused == 42
    for at in range(600):
        await readers.verdict(f"Bearer one-by-one-{at}")
    assert len(readers._kept) <= 256


async def test_the_operator_gives_its_metrics_to_readers_only(cluster, bare, kubeconfig, tmp_path):
    settings = {"bindAddress": "127.0.0.1:0", "secureBindAddress": "127.0.0.1:0"}
    async with operator(kubeconfig, tmp_path, metrics=settings) as running:
        await running.says("deciding")
        assert (await running.ask("/metrics"))[0] == 404
        assert (await running.ask("/readyz"))[0] == 200
        port = (await running.says("serving_metrics"))["port"]
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False)) as session:

            async def ask(**headers: str) -> tuple[int, str]:
                async with session.get(f"https://127.0.0.1:{port}/metrics", headers=headers) as answer:
                    return answer.status, await answer.text()

            assert (await ask())[0] == UNAUTHORIZED
            assert await ask(Authorization="Bearer made-up") == (UNAUTHORIZED, "Unauthorized\n")
            found, text = await ask(Authorization=f"Bearer {bare.token}")
            assert found == OK
            assert "tutti_leader 1.0" in text
        with pytest.raises(aiohttp.ClientError):
            async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/metrics"):
                pass
        assert not [line for line in running.lines if bare.token in json.dumps(line)]
        assert await running.stop() == 0
