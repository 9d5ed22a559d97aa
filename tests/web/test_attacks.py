"""Somebody who may look at little, or at nothing, and tries for more: others' names, or that nobody sees anything any more."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Collection
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from urllib.parse import quote, urlsplit

import pytest

from tests.cli.views import scene
from tests.web.test_application import TOKEN, Site, site
from tests.web.test_documents import picture
from tutti.kube.store import Change, ObjectKey, Upsert
from tutti.web import application, told
from tutti.web import hub as hubs
from tutti.web.access import EVERYTHING, Viewer
from tutti.web.addresses import PageAddress, made_page, page_address
from tutti.web.told import EventView, ToldEvents


class EverybodyIsATenant:
    """Lets in whoever has any token, as a tenant of that name."""

    signs_in = True

    async def viewer(self, token: str, namespaces: Collection[str]) -> Viewer:
        del namespaces
        return Viewer(token, queues=False, nodes=False, namespaces=frozenset({"vision"}))


@pytest.mark.parametrize("text", ["//[", "/gangs?" + "&".join(["name=x"] * 40), "/queue/a\r\nb", "/queue/a\tb", "\0"])
def test_what_is_no_address_is_no_page(text: str) -> None:
    assert page_address(text) is None


@pytest.mark.parametrize("page", ["//[", "/gangs?" + "&".join(["name=x"] * 40), "/workload/%ff/%ff", "/queue/%0d%0a"])
async def test_no_address_has_an_answer_fail(page: str) -> None:
    async with site() as one:
        async with one.session.get(
            f"{one.url}/stream?page={quote(page, safe='')}", cookies={"tutti-0": TOKEN}
        ) as answer:
            assert answer.status in (200, 404)
        assert (await one.get(quote(page, safe="/%?&=")))[0] in (200, 404)


@pytest.mark.parametrize("onward", ["/queue/a\r\nSet-Cookie: x=1", "//evil.example", "/\\evil.example", "/queue/ä"])
async def test_where_one_is_sent_after_signing_in_is_a_page_of_ours(onward: str) -> None:
    async with (
        site(EverybodyIsATenant()) as one,
        one.session.post(
            f"{one.url}/login?next={quote(onward, safe='')}", data={"token": "t"}, allow_redirects=False
        ) as answer,
    ):
        where = answer.headers["Location"]
        assert answer.status == 303

    assert where.isascii()
    assert urlsplit(where).netloc == ""
    assert where.startswith("/")
    assert not where.startswith(("//", "/\\"))
    assert where in ("/", "/queue/%C3%A4")


async def test_the_token_is_taken_out_of_any_address() -> None:
    async with site() as one:
        status, headers, _ = await one.get(f"/queue/%C3%A4?token={TOKEN}", token="")
        assert (status, headers["Location"]) == (303, "/queue/%C3%A4")
        assert (await one.get(f"/queue/a%0d%0ab?token={TOKEN}", token=""))[0] == 404


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("application/x-www-form-urlencoded; charset=nothing", b"token=t"),
        ("application/x-www-form-urlencoded", b"\xff\xfe=\xff"),
        ("multipart/form-data", b"no boundary"),
        ("multipart/form-data; boundary=x", b"--x\r\n"),
        ("multipart/form-data; boundary=x", b'--x\r\nContent-Disposition: form-data; name="token"; filename="f"\r\n\r\nt\r\n--x--\r\n'),
        ("application/x-www-form-urlencoded", b"token=" + b"x" * 100_000),
        ("application/json", b"{}"),
    ],
)  # fmt: skip
async def test_no_form_has_signing_in_fail(kind: str, body: bytes) -> None:
    async with (
        site(EverybodyIsATenant()) as one,
        one.session.post(
            f"{one.url}/login", data=body, headers={"Content-Type": kind}, allow_redirects=False
        ) as answer,
    ):
        assert answer.status in (303, 400, 413)
        assert answer.headers["X-Content-Type-Options"] == "nosniff"


async def test_one_who_opens_many_pages_takes_no_place_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hubs, "MOST_STREAMS_OF_ONE", 3)
    async with site(EverybodyIsATenant()) as one, AsyncExitStack() as stack:
        for _ in range(3):
            assert (await stack.enter_async_context(opened(one, "greedy"))) == 200
        assert (await stack.enter_async_context(opened(one, "greedy"))) == 429
        assert (await stack.enter_async_context(opened(one, "modest"))) == 200


@asynccontextmanager
async def opened(one: Site, who: str) -> AsyncIterator[int]:
    sent = {"Authorization": f"Bearer {who}"}
    async with one.session.get(f"{one.url}/stream?page=/gangs", headers=sent) as answer:
        yield answer.status


async def test_who_asks_and_does_not_read_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written to him has nowhere to go: neither his stream nor his connection stays."""
    monkeypatch.setattr(application, "_SLOWEST_SECONDS", 0.2)
    async with site() as one:
        address = urlsplit(one.url)
        slow = socket.create_connection((address.hostname or "", address.port or 0))
        slow.sendall(
            f"GET /stream?page=/gangs HTTP/1.1\r\nHost: {address.netloc}\r\nCookie: tutti-0={TOKEN}\r\n\r\n".encode()
        )
        while not one.hub.streams:  # noqa: ASYNC110 - it comes by the wire
            await asyncio.sleep(0.01)
        (channel,) = one.hub._channels.values()
        (subscription,) = channel.open
        async with asyncio.timeout(60):
            while one.hub.streams:
                subscription.offer_whole(b"data: " + b"x" * 8_000_000 + b"\n\n")
                await asyncio.sleep(0.05)
            await asyncio.to_thread(_read_to_the_end, slow)


def _read_to_the_end(connection: socket.socket) -> None:
    connection.settimeout(60)
    with connection:
        try:
            while connection.recv(1 << 20):
                pass
        except ConnectionResetError:
            return


async def test_who_never_ends_his_request_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(application, "GUESTS", replace(application.GUESTS, seconds=0.3))
    async with site() as one:
        address = urlsplit(one.url)
        slow = socket.create_connection((address.hostname or "", address.port or 0))
        slow.sendall(b"GET / HTTP/1.1\r\n")
        await asyncio.to_thread(_read_to_the_end, slow)


def upsert(namespace: str, number: int, **parts: object) -> Change[EventView]:
    meta = {"name": f"e{number}", "namespace": namespace, "creationTimestamp": datetime.fromtimestamp(scene.AT, UTC)}
    made = {"metadata": meta, "involvedObject": {"kind": "PodGroup", "namespace": namespace, "name": "gang"}, **parts}
    return Upsert(ObjectKey(namespace, f"e{number}"), "", told.msgspec.convert(made, EventView))


def test_what_one_tells_in_the_operators_name_does_not_push_out_what_is_told_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever may write events in a namespace may write there whom he likes as their reporter."""
    monkeypatch.setattr(told, "_MOST", 100)
    events = ToldEvents(lambda: scene.AT)
    events.take([upsert("speech", number, reason="Bound") for number in range(20)])
    events.take([upsert("vision", number, reason=f"Forged{number}") for number in range(1_000)])

    found = events.latest()
    assert len(found) == 100
    assert sum(one.namespace == "speech" for one in found) == 20


def test_an_event_takes_as_much_room_as_one_of_ours() -> None:
    long = "x" * 1_000_000
    events = ToldEvents(lambda: scene.AT)
    about = {"kind": long, "namespace": "vision", "name": long}
    events.take([upsert("vision", 1, reason=long, message=long, involvedObject=about)])
    (found,) = events.latest()
    assert len(told.msgspec.json.encode(found)) < 5_000


def test_made_up_events_make_no_page_long() -> None:
    events = ToldEvents(lambda: scene.AT)
    events.take(
        [
            upsert("vision", number, reason=f"Forged{number}", message=f"{number}",
                   involvedObject={"kind": "PodGroup", "namespace": "vision", "name": "train-1"})
            for number in range(2_000)
        ]
    )  # fmt: skip
    now = picture(events.latest())
    for path in ("/decisions", "/workload/vision/train-1"):
        found = made_page(now, PageAddress(path), EVERYTHING)
        assert max(len(one.rows) for one in found.sections) <= 300
        assert all(len(one.choices) <= 300 for one in found.filters)
