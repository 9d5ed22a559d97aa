"""Somebody without a token who can reach the pages: thousands of connections, requests without an end, made-up tokens."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Collection
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from urllib.parse import urlsplit

import pytest
from aiohttp import web

from tests.web.roles import RBAC, person
from tests.web.test_application import TOKEN, Site, site
from tests.web.test_rights import SPACES, people
from tutti.controller.connections import Guests
from tutti.controller.serving import serving
from tutti.kube.certificate import Certificate
from tutti.web import application
from tutti.web import hub as hubs
from tutti.web.access import LONGEST_TOKEN, ClusterRights, Refused, Viewer
from tutti.web.application import GUESTS, HEADERS

ASKED = b"GET /healthz HTTP/1.1\r\nHost: %s\r\n\r\n"


async def connected(url: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    address = urlsplit(url)
    return await asyncio.open_connection(address.hostname, address.port)


async def is_ended(reader: asyncio.StreamReader) -> None:
    """Return when the other side has ended a connection, whatever it has said before."""
    try:
        while await reader.read(1 << 16):
            pass
    except ConnectionResetError:
        return


async def ended(url: str, sent: bytes) -> None:
    """Send something, wait for nothing but the end of the connection."""
    reader, writer = await connected(url)
    writer.write(sent)
    async with asyncio.timeout(60):
        await is_ended(reader)
    writer.close()


@pytest.mark.parametrize("said", [b"", b"GET / HTTP/1.1\r\nX: y\r\n", ASKED])
async def test_a_thousand_connections_that_wait_keep_nobody_out(said: bytes) -> None:
    """Those that have waited longest go first; whoever asks for something is answered."""
    async with site() as one, AsyncExitStack() as stack:
        said = said.replace(b"%s", urlsplit(one.url).netloc.encode())
        waiting = []
        for _ in range(1_000):
            reader, writer = await connected(one.url)
            stack.callback(writer.close)
            writer.write(said)
            waiting.append(asyncio.create_task(is_ended(reader)))
            stack.callback(waiting[-1].cancel)
        assert (await one.get("/"))[0] == 200
        async with one.following("/gangs") as told, asyncio.timeout(60):
            assert (await told.get())[0] == "full"
            for gone in asyncio.as_completed(waiting[: 1_000 - GUESTS.most]):
                await gone


async def test_headers_without_an_end_are_cut_off() -> None:
    async with site() as one:
        reader, writer = await connected(one.url)
        writer.write(b"GET / HTTP/1.1\r\n")
        try:
            async with asyncio.timeout(60):
                for number in range(10_000):
                    writer.write(b"X-%d: %s\r\n" % (number, b"x" * 4_000))
                    await writer.drain()
        except ConnectionError:
            pass
        else:
            pytest.fail("forty megabytes of headers were taken")
        await is_ended(reader)
        writer.close()


async def test_who_has_been_answered_and_asks_for_nothing_more_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(application, "GUESTS", replace(GUESTS, seconds=0.3))
    async with site() as one:
        await ended(one.url, ASKED % urlsplit(one.url).netloc.encode())


async def test_who_asks_again_and_again_and_reads_no_answer_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers that nobody reads fill what the system keeps for them, and then would wait for ever."""
    monkeypatch.setattr(application, "GUESTS", replace(GUESTS, seconds=0.5))
    async with site() as one:
        reader, writer = await connected(one.url)
        reader._transport.pause_reading()  # type: ignore[attr-defined] - a client that does not read
        asked = b"GET /static/sections.js HTTP/1.1\r\nHost: %s\r\n\r\n" % urlsplit(one.url).netloc.encode()
        with pytest.raises(ConnectionError):
            await _asks_on(writer, asked)
        writer.close()


async def _asks_on(writer: asyncio.StreamWriter, asked: bytes) -> None:
    async with asyncio.timeout(60):
        while True:
            writer.write(asked * 100)
            await writer.drain()
            await asyncio.sleep(0)


async def test_who_begins_tls_and_does_not_go_on_is_cut_off() -> None:
    context = Certificate.make(["127.0.0.1"], lasts=timedelta(days=1)).context()
    guests = Guests(replace(GUESTS, seconds=3.0))  # within which who goes on has to come to terms
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE

    async def goes_on(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting)
        await is_ended(reader)
        writer.close()

    async with serving(web.Application(), host="127.0.0.1", port=0, context=context, guests=guests) as port:
        begins = [ended(f"https://127.0.0.1:{port}", said) for said in (b"", b"\x16\x03\x01\x02\x00")]
        async with asyncio.timeout(60):
            await asyncio.gather(goes_on(port), *begins)


@pytest.mark.parametrize(
    "request_",
    [
        b"GET /?token=%s HTTP/9.9\r\n",
        b"GET /?token=%s" + b"x" * 20_000 + b" HTTP/1.1\r\n",
        b"GET / HTTP/1.1\r\nAuthorization: Bearer %s" + b"x" * 40_000 + b"\r\n",
        b"GET / HTTP/1.1\r\nCookie: tutti-0=%s\r\nCookie\r\n\r\n",
        b"GET / HTTP/1.1\r\nCookie: tutti-0=%s" + b"; a=b" * 9_000 + b"\r\n",
        b"<b>%s /",
    ],
)
async def test_what_is_no_request_is_repeated_to_nobody(
    request_: bytes, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """It may have a token in it: neither the answer nor the log has any of it, and nothing can be made markup of."""
    with caplog.at_level(logging.DEBUG):
        async with site() as one:
            reader, writer = await connected(one.url)
            writer.write(request_.replace(b"%s", TOKEN.encode()) + b"\r\n")
            async with asyncio.timeout(60):
                answer = (await reader.read(1 << 20)).decode()
            writer.close()

    assert " 400 Bad Request\r\n" in answer
    assert all(f"{name}: {value}\r\n" in answer for name, value in HEADERS.items())
    assert TOKEN not in answer + caplog.text + "".join(capfd.readouterr())
    assert "Traceback" not in caplog.text


async def test_nobody_is_told_what_serves_the_pages() -> None:
    async with site() as one:
        for path in ("/", "/nothing", "/healthz", "/stream?page=/nothing"):
            _, headers, _ = await one.get(path, token="")
            assert headers["Server"] == "tutti"


class Heard:
    """Notes which tokens it is asked about."""

    signs_in = True

    def __init__(self) -> None:
        self.tokens: list[str] = []

    async def viewer(self, token: str, namespaces: Collection[str]) -> Viewer:
        del namespaces
        self.tokens.append(token)
        return Viewer(token[:1], namespaces=frozenset({"vision"}))


async def test_a_proxy_may_send_a_token_as_long_as_one_may_be() -> None:
    heard = Heard()
    token = "t" * LONGEST_TOKEN
    async with site(heard) as one:
        assert (await one.get("/gangs", token="", Authorization=f"Bearer {token}"))[0] == 200
    assert heard.tokens == [token]


async def test_only_so_many_forms_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(application, "_MOST_FORMS", 2)
    monkeypatch.setattr(application, "_SLOWEST_SECONDS", 3.0)
    async with site(Heard()) as one, AsyncExitStack() as stack:
        head = f"POST /login HTTP/1.1\r\nHost: {urlsplit(one.url).netloc}\r\nContent-Length: 100\r\n"
        head += "Content-Type: application/x-www-form-urlencoded\r\n\r\n"
        slow = []
        for _ in range(3):
            reader, writer = await connected(one.url)
            stack.callback(writer.close)
            writer.write(head.encode())
            slow.append(reader)
        async with asyncio.timeout(60):
            said = sorted([(await reader.readline()).split()[1] for reader in slow])
        assert said == [b"408", b"408", b"429"]
        async with one.session.post(f"{one.url}/login", data={"token": "t"}, allow_redirects=False) as answer:
            assert answer.status == 303


@asynccontextmanager
async def opened(one: Site, who: str) -> AsyncIterator[int]:
    sent = {"Authorization": f"Bearer {who}"}
    async with one.session.get(f"{one.url}/stream?page=/gangs", headers=sent) as answer:
        yield answer.status


class EverybodyByToken:
    """Lets in whoever has any token, by that name."""

    signs_in = True

    async def viewer(self, token: str, namespaces: Collection[str]) -> Viewer:
        del namespaces
        return Viewer(token, queues=False, nodes=False, namespaces=frozenset({"vision"}))


async def test_who_makes_many_service_accounts_takes_no_place_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """`edit` of one namespace lets him make as many as he likes there, each of which may open pages."""
    monkeypatch.setattr(hubs, "MOST_STREAMS_OF_ACCOUNTS", 3)
    async with site(EverybodyByToken()) as one, AsyncExitStack() as stack:
        for number in range(4):
            status = await stack.enter_async_context(opened(one, f"system:serviceaccount:vision:account-{number}"))
            assert status == (200 if number < 3 else 429)
        for other in ("system:serviceaccount:speech:default", "system:serviceaccount", "somebody"):
            assert (await stack.enter_async_context(opened(one, other))) == 200


async def test_made_up_tokens_by_the_thousand_have_nobody_forgotten_who_is_known() -> None:
    async with people() as (_, client):
        rights = ClusterRights(client, clock=lambda: 0.0)
        token = await person(client, "tenant", in_=("vision",))
        known = await rights.viewer(token, SPACES)
        await client.request("DELETE", f"{RBAC}/namespaces/vision/rolebindings/tenant")
        for number in range(600):
            with pytest.raises(Refused):
                await rights.viewer(f"made-up-{number}", SPACES)

        assert await rights.viewer(token, SPACES) is known
        assert len(rights._refused) <= 512


async def test_a_flood_of_made_up_tokens_is_asked_about_beside_those_who_are_known() -> None:
    """He whose answer has run out does not wait for a place among strangers."""
    now = [0.0]
    async with people() as (_, client):
        rights = ClusterRights(client, clock=lambda: now[0])
        token = await person(client, "tenant", in_=("vision",))
        await rights.viewer(token, SPACES)
        now[0] = 61.0
        strangers = [asyncio.create_task(rights.viewer(f"made-up-{number}", SPACES)) for number in range(50)]
        await asyncio.sleep(0)  # each has asked
        assert (await rights.viewer(token, SPACES)).namespaces == {"vision"}
        statuses = [one.status for one in await asyncio.gather(*strangers, return_exceptions=True)]
    assert (statuses.count(429), statuses.count(401)) == (42, 8)
