"""Kept connections, against servers that answer byte by byte as they are told: also what no server should say."""

from __future__ import annotations

import asyncio
import datetime as dt
import re
import ssl

import pytest
import uvloop
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.kube.scripted import CUT, OK, Nowhere, scripted, talking
from tutti.kube.client import Client
from tutti.kube.connections import CannotConnect, Connections, Request
from tutti.kube.credentials import Access, Credentials
from tutti.kube.errors import ApiError, NotSent, UnknownOutcome
from tutti.kube.fencing import LeadershipLost
from tutti.kube.flow_control import PriorityLevel
from tutti.kube.http1 import Connection, CutOff, Deadlines


async def test_requests_follow_each_other_on_one_connection():
    async with talking([[OK], [OK], [OK]]) as (server, client):
        for number in range(3):
            assert await client.request("POST", f"/x/{number}", body=b"{}") == b"ok"
    assert server.opened == 1
    assert [request.split(b" ")[1] for request in server.requests] == [b"/x/0", b"/x/1", b"/x/2"]


async def test_requests_that_wait_for_their_answers_have_connections_of_their_own():
    async with talking([[]], [[]], [[]]) as (server, client):
        asked = [asyncio.create_task(client.request("POST", "/x", body=b"{}")) for _ in range(3)]
        for _ in asked:
            await server.asked.acquire()
        for one in asked:
            one.cancel()
    assert server.opened == 3


async def test_who_waits_for_a_connection_takes_the_first_that_is_free(certified):
    many = 40
    async with (
        scripted(*[[[OK]] * many] * many, tls=certified[0]) as server,
        Client(Credentials.fixed(Access(server.url, ssl=False))) as client,
    ):
        await asyncio.gather(*(client.request("POST", "/x", body=b"{}") for _ in range(many)))
    assert len(server.requests) == many
    assert server.opened < many, "none that had answered was used again"


async def test_a_connection_that_cannot_be_opened_ends_the_request_it_was_for():
    async with scripted([[OK]]) as server, Client(Credentials.fixed(Access(server.url))) as client:
        server.listening.close()
        found = await asyncio.gather(*(client.request("GET", "/x") for _ in range(5)), return_exceptions=True)
    assert [type(one) for one in found] == [NotSent] * 5


async def test_what_else_stands_against_a_connection_ends_the_request_too():
    too_long = f"http://{'a' * 70}.test:1"  # a label of a name has 63 characters at most (RFC 1035, 2.3.4)
    connections = Connections(headers={})
    with pytest.raises(UnicodeError):
        await asyncio.wait_for(connections.send(Access(too_long), Request("GET", "/x")), 60)


async def test_a_connection_that_is_closed_when_it_is_given_away_is_not_used():
    async with scripted(*[[[OK]]] * 3) as server:
        connections = Connections(headers={})
        asked = asyncio.create_task(connections.send(Access(server.url), Request("POST", "/x", b"{}")))
        await asyncio.sleep(0)
        connections._wanted[0].set_result(Connection(Deadlines()))
        assert (await asked).body == b"ok"
        connections.close()


async def test_who_waits_no_longer_leaves_the_connection_to_the_next():
    async with talking(*[[[OK]]] * 4) as (server, client):
        impatient = [asyncio.create_task(client.request("POST", "/x", body=b"{}")) for _ in range(3)]
        await asyncio.sleep(0)
        for one in impatient:
            one.cancel()
        assert await client.request("POST", "/x", body=b"{}") == b"ok"
    assert len(server.requests) == 1


async def test_who_waits_when_connections_are_closed_is_told_that_nothing_was_sent():
    async with scripted(*[[[]]] * 4) as server:
        connections = Connections(headers={})
        access, request = Access(server.url), Request("POST", "/x", b"{}")
        asked = [asyncio.create_task(connections.send(access, request)) for _ in range(4)]
        await asyncio.sleep(0)
        connections.close()
        found = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(one) for one in found] == [CannotConnect] * 4
    assert server.requests == []


async def test_a_server_that_says_close_gets_no_second_request():
    closing = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"
    async with talking([[closing]], [[OK]]) as (server, client):
        for _ in range(2):
            assert await client.request("POST", "/x", body=b"{}") == b"ok"
    assert server.opened == 2


async def test_what_may_be_repeated_survives_a_kept_connection_that_dies():
    async with talking([[OK], [CUT]], [[OK]]) as (server, client):
        for _ in range(2):
            assert await client.request("GET", "/x") == b"ok"
    assert (server.opened, len(server.requests)) == (2, 3)


@pytest.mark.parametrize(
    ("method", "scripts"),
    [
        ("POST", [[[OK], [CUT]]]),
        ("PATCH", [[[OK], [CUT]]]),
        ("GET", [[[OK], [b"HTTP/1.1 200 OK\r\nContent-", CUT]]]),
        ("GET", [[[OK], [CUT]], [[CUT]]]),
    ],
    ids=["POST", "PATCH", "half an answer", "a second time"],
)
async def test_nothing_else_is_repeated(method, scripts):
    async with talking(*scripts) as (server, client):
        await client.request(method, "/x", body=b"{}")
        with pytest.raises(UnknownOutcome):
            await client.request(method, "/x", body=b"{}")
    assert len(server.requests) == 1 + len(scripts)


@pytest.mark.parametrize("how", ["silence", "gone"])
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
async def test_what_was_sent_once_is_not_said_unsent_for_want_of_a_second_connection(method, how):
    async with talking([[OK], [] if how == "silence" else [CUT]]) as (server, client):
        await client.request(method, "/x", body=b"{}")
        if how == "gone":
            server.listening.close()
        with pytest.raises(UnknownOutcome):
            await client.request(method, "/x", body=b"{}", timeout_seconds=0.5 if how == "silence" else 30.0)
    assert len(server.requests) == 2


async def test_an_answer_too_late_is_not_taken_for_the_next():
    async with talking([[OK], []], [[OK]]) as (server, client):
        await client.request("POST", "/x", body=b"{}")  # so there is a connection, and all the time is the answer's
        with pytest.raises(UnknownOutcome, match=r"nothing within 0.\d+ s"):
            await client.request("POST", "/x", body=b"{}", timeout_seconds=0.5)
        assert await client.request("POST", "/x", body=b"{}") == b"ok"
        await server.closed.wait()
    assert server.opened == 2


async def test_a_request_given_up_takes_its_connection_along():
    async with talking([[]], [[OK]]) as (server, client):
        given_up = asyncio.create_task(client.request("POST", "/x", body=b"{}"))
        await server.asked.acquire()
        given_up.cancel()
        with pytest.raises(asyncio.CancelledError):
            await given_up
        assert await client.request("POST", "/x", body=b"{}") == b"ok"
        await server.closed.wait()
    assert server.opened == 2


async def test_a_connection_that_comes_too_late_is_closed(monkeypatch):
    loop, late = asyncio.get_running_loop(), [0.0]
    clock, connect = loop.time, loop.create_connection

    async def slow(*args, **options):
        made = await connect(*args, **options)
        late[0] = 60.0
        return made

    async with talking([[OK]]) as (server, client):
        monkeypatch.setattr(loop, "time", lambda: clock() + late[0])
        monkeypatch.setattr(loop, "create_connection", slow)
        with pytest.raises(NotSent, match="not for long enough"):
            await client.request("POST", "/x", body=b"{}", timeout_seconds=30.0)
        await asyncio.wait_for(server.closed.wait(), 60)
    assert server.requests == []


async def test_a_server_that_speaks_unasked_is_left():
    timed_out = b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n"
    async with talking([[OK + timed_out]], [[OK]]) as (server, client):
        assert await client.request("POST", "/x", body=b"{}") == b"ok"
        await server.closed.wait()
        assert await client.request("POST", "/x", body=b"{}") == b"ok"
    assert server.opened == 2


async def test_a_new_token_needs_no_new_connection_but_a_new_certificate_does():
    async with scripted([[OK], [OK]], [[OK]]) as server:
        connections = Connections(headers={})
        request = Request("GET", "/x")
        await connections.send(Access(server.url, headers={"Authorization": "Bearer 1"}), request)
        await connections.send(Access(server.url, headers={"Authorization": "Bearer 2"}), request)
        assert server.opened == 1
        await connections.send(Access(server.url, certificate_path="other.pem"), request)
        await server.closed.wait()
        connections.close()
    assert server.opened == 2


async def test_connections_are_open_before_they_are_needed():
    async with talking([[OK], [OK]], [[OK], [OK]], [[OK], [OK]]) as (server, client):
        await client.request("GET", "/x")
        client.keep_ready(3)
        for _ in range(3):
            await server.came.acquire()
        await asyncio.gather(*[client.request("POST", "/x", body=b"{}") for _ in range(3)])
    assert server.opened == 3


async def test_what_is_kept_ready_is_opened_anew_when_it_has_idled_for_long(monkeypatch):
    monkeypatch.setattr("tutti.kube.connections._IDLE_SECONDS", 0.05)
    async with talking([[OK]], *[[[OK]]] * 100) as (server, client):
        await client.request("GET", "/x")
        client.keep_ready(2)
        for _ in range(6):
            await server.came.acquire()
        await server.closed.wait()
        assert await client.request("POST", "/x", body=b"{}") == b"ok"


class _Away:
    """Lets nobody connect until it is told to."""

    def __init__(self, monkeypatch):
        loop = asyncio.get_running_loop()
        self.connect, self.tried, self.back = loop.create_connection, asyncio.Semaphore(0), False
        monkeypatch.setattr(loop, "create_connection", self)

    async def __call__(self, *args, **options):
        self.tried.release()
        if not self.back:
            raise ConnectionRefusedError("away")
        return await self.connect(*args, **options)


async def test_a_server_that_is_away_is_not_tried_again_at_once_for_what_nobody_waits_for(monkeypatch):
    async with talking([[OK]]) as (_, client):
        await client.request("GET", "/x")
        away = _Away(monkeypatch)
        client.keep_ready(20)
        for _ in range(100):
            await asyncio.sleep(0)
        tries = 0
        while not away.tried.locked():
            await away.tried.acquire()
            tries += 1
    assert tries == 1  # one after the other


async def test_who_waits_has_a_connection_opened_for_himself_whatever_is_opened_ahead(monkeypatch):
    """What is opened ahead hangs; a request is answered on another connection, and hears nothing of that."""
    async with talking([[OK]]) as (_, client):
        hanging, connect = asyncio.Event(), asyncio.get_running_loop().create_connection

        async def create(*args, **options):
            if not hanging.is_set():
                hanging.set()
                await asyncio.Event().wait()
            return await connect(*args, **options)

        monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", create)
        client.keep_ready(2)
        assert await client.request("GET", "/x") == b"ok"
        assert hanging.is_set()


async def test_connections_that_the_server_has_closed_are_opened_anew():
    async with talking([[OK, CUT]], *[[[OK]]] * 10) as (server, client):
        await client.request("GET", "/x")
        await server.came.acquire()
        client.keep_ready(2)
        await server.came.acquire()
        assert await client.request("POST", "/x", body=b"{}") == b"ok"


async def test_a_server_that_was_away_is_tried_again_when_what_is_kept_would_have_idled_for_long(monkeypatch):
    monkeypatch.setattr("tutti.kube.connections._IDLE_SECONDS", 0.05)
    async with talking([[OK]], *[[[OK]]] * 100) as (server, client):
        await client.request("GET", "/x")
        away = _Away(monkeypatch)
        client.keep_ready(3)
        for _ in range(5):
            await away.tried.acquire()
        away.back = True
        for _ in range(4):
            await server.came.acquire()


@pytest.mark.parametrize("url", ["127.0.0.1:6443", "ftp://127.0.0.1", "https://"])
async def test_an_address_that_is_none_says_so(url):
    with pytest.raises(ValueError, match="no address of a server"):
        await Connections(headers={}).send(Access(url), Request("GET", "/x"))


async def test_a_connection_takes_one_request_at_a_time():
    connection = Connection(Deadlines())
    with pytest.raises(RuntimeError, match="closed, or has a request"):
        connection.exchange(b"", within_seconds=1)
    connection.connection_made(Nowhere())
    waiting = connection.exchange(b"", within_seconds=1)
    with pytest.raises(RuntimeError, match="closed, or has a request"):
        connection.exchange(b"", within_seconds=1)
    connection.close()
    with pytest.raises(CutOff, match="closed here"):
        await waiting


@pytest.fixture(scope="module")
def certified(tmp_path_factory):
    """A certificate for 127.0.0.1, and the context of a server that shows it."""
    folder = tmp_path_factory.mktemp("tls")
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("api.test")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    shown, secret = folder / "cert.pem", folder / "key.pem"
    shown.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    secret.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(shown, secret)
    return context, str(shown)


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_a_server_is_trusted_by_its_certificate_and_name(certified, run):
    tls, authority = certified

    async def story():
        known = ssl.create_default_context(cafile=authority)
        async with scripted([[OK], [OK]], [[OK]], tls=tls) as server:

            async def ask(access):
                async with Client(Credentials.fixed(access)) as client:
                    return [await client.request("POST", "/x", body=b"{}") for _ in range(2)]

            assert await ask(Access(server.url, ssl=known, server_hostname="api.test")) == [b"ok", b"ok"]
            with pytest.raises(NotSent, match=r"POST /x: cannot connect: 127.0.0.1:\d+: .*127.0.0.1"):
                await ask(Access(server.url, ssl=known))
            with pytest.raises(NotSent, match="self-signed"):
                await ask(Access(server.url, server_hostname="api.test"))
            async with Client(Credentials.fixed(Access(server.url, ssl=False))) as client:
                assert await client.request("GET", "/x") == b"ok"

    run(story())


async def test_a_proxy_is_gone_through():
    refusal = b"HTTP/1.1 409 Conflict\r\nRetry-After: 3\r\nContent-Length: 0\r\n\r\n"
    async with (
        scripted([[OK], [refusal]]) as server,
        Client(Credentials.fixed(Access("http://api.test", proxy=server.url))) as client,
    ):
        assert await client.request("POST", "/x", body=b"{}") == b"ok"
        with pytest.raises(ApiError) as caught:
            await client.write(PriorityLevel.BIND, "POST", "/x", body=b"{}", fence=lambda: 7.0)
    assert (caught.value.status, caught.value.retry_after) == (409, 3.0)
    assert [request.split(b" ")[1] for request in server.requests] == [
        b"http://api.test/x",
        b"http://api.test/x?timeout=7000ms",
    ]


async def test_the_server_hears_how_long_a_write_may_take():
    async with talking([[OK], [OK]]) as (server, client):
        for seconds in (5.0, 99.0):
            await client.write(PriorityLevel.BIND, "POST", "/x", body=b"{}", fence=lambda: seconds)  # noqa: B023 - called at once
    told = [int(re.search(rb"\?timeout=(\d+)ms ", request)[1]) for request in server.requests]
    assert 4000 < told[0] <= 5000 < told[1] <= 30_000


@pytest.mark.parametrize("refused", [False, True], ids=["before the first try", "between two"])
async def test_time_that_credentials_take_is_not_time_to_write_in(refused):
    left, refusal = [9.0], b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"
    async with scripted(*[[[refusal]]] * refused, [[OK]]) as server:

        def slow(_from_ground):
            if not refused or server.requests:
                left[0] = 4.0
            return Access(server.url)

        async with Client(Credentials(slow, source="a plugin", clock=iter(range(0, 10_000, 100)).__next__)) as client:
            await client.write(PriorityLevel.BIND, "POST", "/x", body=b"{}", fence=lambda: left[0])
    assert int(re.search(rb"\?timeout=(\d+)ms ", server.requests[-1])[1]) <= 4000


async def test_nothing_is_written_where_the_lease_is_lost_while_credentials_are_read():
    led = [True]

    def fence():
        if not led[0]:
            raise LeadershipLost("over")
        return 9.0

    async with scripted() as server:

        def slow(_from_ground):
            led[0] = False
            return Access(server.url)

        async with Client(Credentials(slow, source="a plugin")) as client:
            with pytest.raises(LeadershipLost):
                await client.write(PriorityLevel.BIND, "POST", "/x", body=b"{}", fence=fence)
    assert server.opened == 0


def test_there_is_no_bound_of_zero():
    assert Request("POST", "/x", bounded=True).target_with(0.0001) == "/x?timeout=1ms"


@pytest.mark.parametrize("seconds", [float("inf"), float("nan")])
def test_a_request_that_might_never_end_is_refused(seconds):
    with pytest.raises(ValueError, match="has no end"):
        Request("POST", "/x", within_seconds=seconds, bounded=True)
