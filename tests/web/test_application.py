"""What a browser, or somebody who pretends to be one, gets over HTTP."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from tests.web.serving import MadeUpMirror
from tutti.controller.connections import Guests
from tutti.controller.serving import serving
from tutti.web import application, standing
from tutti.web import hub as hubs
from tutti.web.access import AddressToken, Doorkeeper
from tutti.web.application import HEADERS, WebSettings, web_application
from tutti.web.home import serving_pages

TOKEN = "a-token-of-this-run"


class Site:
    """Pages of what is made up, and a browser without one."""

    def __init__(self, url: str, session: aiohttp.ClientSession, mirror: MadeUpMirror, hub: hubs.PageHub) -> None:
        self.url, self.session, self.mirror, self.hub = url, session, mirror, hub

    async def get(self, path: str, *, token: str = TOKEN, method: str = "GET", **headers: str):
        cookie = {"Cookie": f"tutti-0={token}"} if token else {}
        sent = {**cookie, **{name.replace("_", "-"): value for name, value in headers.items()}}
        async with self.session.request(method, f"{self.url}{path}", headers=sent, allow_redirects=False) as answer:
            return answer.status, answer.headers, await answer.text()

    @asynccontextmanager
    async def following(self, page: str) -> AsyncIterator[asyncio.Queue[tuple[str, dict]]]:
        told: asyncio.Queue[tuple[str, dict]] = asyncio.Queue()
        sent = {"Cookie": f"tutti-0={TOKEN}"}
        async with self.session.get(f"{self.url}/stream", params={"page": page}, headers=sent) as answer:
            assert answer.status == 200, await answer.text()

            async def read() -> None:
                event = ""
                async for line in answer.content:
                    if line.startswith(b"event: "):
                        event = line[7:].decode().strip()
                    elif line.startswith(b"data: "):
                        told.put_nowait((event, json.loads(line[6:])))

            reading = asyncio.create_task(read())
            try:
                yield told
            finally:
                reading.cancel()
                await asyncio.wait({reading})


@asynccontextmanager
async def site(doorkeeper: Doorkeeper | None = None) -> AsyncIterator[Site]:
    mirror = MadeUpMirror()
    async with serving_pages(mirror) as (hub, _):
        hosts: list[str] = []
        app = web_application(hub, doorkeeper or AddressToken(TOKEN), WebSettings(hosts, "tutti-0", secure=False))
        way = serving(app, host="127.0.0.1", port=0, cancels=True, guests=Guests(application.GUESTS))
        async with way as port, aiohttp.ClientSession() as session:
            hosts.append(f"127.0.0.1:{port}")
            yield Site(f"http://127.0.0.1:{port}", session, mirror, hub)


async def test_the_address_lets_in_and_the_token_does_not_stay_in_it():
    async with site() as one:
        status, headers, _ = await one.get(f"/queue/vision?resources=all&token={TOKEN}", token="")

    assert (status, headers["Location"]) == (303, "/queue/vision?resources=all")
    assert headers["Set-Cookie"] == f"tutti-0={TOKEN}; HttpOnly; Path=/; SameSite=Lax"


@pytest.mark.parametrize(
    "path", ["/", "/nodes", "/stream?page=/", "/try?namespace=vision&name=train-2", "/?token=wrong"]
)
@pytest.mark.parametrize("token", ["", "wrong", "ä"])
async def test_nobody_else_gets_in(path, token):
    async with site() as one:
        status, _, text = await one.get(path, token=token)

    assert status == 401
    assert "open the one that `tutti ui` has printed" in text


@pytest.mark.parametrize(
    "path", ["/", "/static/main.js", "/nothing", "/stream?page=/nothing", "/static/..%2fhub.py", "/login"]
)
async def test_every_answer_says_what_may_run(path):
    async with site() as one:
        _, headers, _ = await one.get(path)

    assert {name: headers[name] for name in HEADERS} == dict(HEADERS)
    assert "unsafe" not in headers["Content-Security-Policy"]


@pytest.mark.parametrize(
    "path", ["/static/..%2fhub.py", "/static/%2e%2e/hub.py", "/static/nothing", "/queue/a/b", "/login"]
)
async def test_there_is_nothing_but_pages_and_files(path):
    async with site() as one:
        assert (await one.get(path))[0] == 404


async def test_another_name_of_this_host_is_refused():
    """A name that somebody else's DNS has point to this machine: his page would read ours (DNS rebinding)."""
    async with site() as one:
        status, _, text = await one.get("/", Host="evil.example")

    assert status == 403
    assert "not served as that host" in text


@pytest.mark.parametrize(
    "headers", [{"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec_Fetch_Site": "cross-site"}]
)
async def test_another_page_may_not_ask(headers):
    async with site() as one:
        assert (await one.get("/stream?page=/", **headers))[0] == 403
        assert (await one.get("/try?namespace=vision&name=train-2", **headers))[0] == 403


async def test_a_link_from_elsewhere_may_be_followed():
    async with site() as one:
        assert (await one.get("/queue/vision", Sec_Fetch_Site="cross-site"))[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
async def test_nothing_can_be_changed(method):
    async with site() as one:
        assert (await one.get("/queue/vision", method=method))[0] == 405


async def test_files_are_small_packed_and_not_sent_twice():
    async with site() as one:
        _, headers, page = await one.get("/")
        status, first, _ = await one.get("/static/sections.js", Accept_Encoding="gzip")
        again, _, _ = await one.get("/static/sections.js", If_None_Match=first["ETag"])

    assert (status, again, first["Content-Encoding"]) == (200, 304, "gzip")
    assert "style=" not in page
    assert "<script>" not in page
    assert headers["Content-Type"] == "text/html; charset=utf-8"


async def test_a_stream_tells_all_and_then_what_has_changed():
    async with site() as one, one.following("/gangs") as told:
        event, whole = await told.get()
        assert event == "full"
        assert [row["key"] for row in whole["sections"][0]["rows"]][-1] == "PodGroup/vision/warmup"

        gone = ("PodGroup", "vision", "warmup")
        one.mirror.seen = [seen for seen in one.mirror.seen if _name(seen) != gone and "warmup" not in str(seen)]
        one.mirror.changed.set()
        event, change = await told.get()

    assert event == "change"
    assert change["rows"]["gangs"]["gone"] == ["PodGroup/vision/warmup"]
    assert change["head"]["summary"] == "5 gangs, 3 of them waiting"


def _name(seen) -> tuple[str, str, str] | None:
    raw = getattr(seen, "raw", None)
    return None if raw is None else (seen.kind, raw["metadata"].get("namespace", ""), raw["metadata"]["name"])


async def test_what_is_found_out_is_told_though_nothing_has_changed(monkeypatch):
    """On a large cluster everybody is tried beside: what that comes to is on the page when it is known."""
    monkeypatch.setattr(standing, "QUICK_SECONDS", 0.0)
    async with site() as one, one.following("/gangs") as told:
        event, whole = await told.get()
        rows = {row["key"]: row["cells"] for row in whole["sections"][0]["rows"]}
        assert (event, rows["PodGroup/vision/train-2"][8][0]["text"]) == ("full", "Queue")

        event, change = await asyncio.wait_for(told.get(), 60)
        rows = {row["key"]: row["cells"] for row in change["rows"]["gangs"]["set"]}

    assert (event, rows["PodGroup/vision/train-2"][8][0]["text"]) == ("change", "Quota")


async def test_many_who_look_at_one_page_cost_one():
    """However many look, a page is made once, and one message goes to all."""
    async with site() as one, one.following("/gangs") as first:
        await first.get()
        async with one.following("/gangs?state=") as second, one.following("/gangs") as third:
            assert (await second.get())[0] == (await third.get())[0] == "full"
            assert one.hub.streams == 3
            assert len(one.hub._channels) == 1
    async with asyncio.timeout(60):
        while one.hub.streams:  # noqa: ASYNC110 - the server finds out by itself
            await asyncio.sleep(0.01)


async def test_who_comes_when_too_many_look_is_told_so(monkeypatch):
    monkeypatch.setattr(hubs, "MOST_STREAMS", 1)
    async with site() as one, one.following("/") as told:
        await told.get()
        status, _, text = await one.get("/stream?page=/nodes")

    assert status == 503
    assert "1 pages are open, and that is the most" in text


async def test_who_is_behind_is_sent_the_whole():
    one = hubs.Subscription()
    for _ in range(5):
        one.offer(b"change")
    assert one.behind
    one.offer_whole(b"full")

    messages = one.messages()
    assert await anext(messages) == b"full"
    assert not one.behind
    await messages.aclose()


async def test_a_page_that_cannot_be_made_says_so_and_the_others_are(monkeypatch, caplog):
    def broken(*_: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(
        "tutti.web.addresses._PAGES", [(p, broken if p.pattern == "/gangs" else make) for p, make in _pages()]
    )
    async with site() as one, one.following("/gangs") as told, one.following("/nodes") as others:
        _, page = await told.get()
        _, nodes = await others.get()

    assert page["problems"] == ["this page cannot be made: RuntimeError; the log says more"]
    assert nodes["title"] == "Nodes"


def _pages():
    from tutti.web import addresses

    return addresses._PAGES


async def test_no_log_line_has_the_token(caplog, capfd):
    with caplog.at_level(logging.DEBUG):
        async with site() as one:
            await one.get(f"/?token={TOKEN}", token="")
            await one.get("/?token=wrong-token", token="")
            async with one.following("/") as told:
                await told.get()

    written = caplog.text + "".join(capfd.readouterr())
    assert TOKEN not in written
    assert "wrong-token" not in written
