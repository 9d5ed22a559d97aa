"""Requests and answers of HTTP/1.1, byte by byte: what is written, what is read however it is cut, and what no server should say."""

from __future__ import annotations

import asyncio
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kube.scripted import CUT, OK, Nowhere, scripted, talking
from tutti.kube.client import Client
from tutti.kube.credentials import Access, Credentials
from tutti.kube.errors import ApiError, UnknownOutcome
from tutti.kube.http1 import Connection, Deadlines


async def test_what_is_written_is_one_whole_request():
    async with scripted([[OK]]) as server:
        access = Access(server.url + "/clusters/c/", headers={"Authorization": "Bearer t"})
        async with Client(Credentials.fixed(access), user_agent="me/1") as client:
            await client.request("PUT", "/api/v1/x", query={"a": "b c,d=e+f"}, body=b'{"a":1}')
        host = server.url.removeprefix("http://")
        assert server.requests == [
            b"PUT /clusters/c/api/v1/x?a=b%20c%2Cd%3De%2Bf HTTP/1.1\r\n"
            + f"Host: {host}\r\n".encode()
            + b"User-Agent: me/1\r\nAccept: application/json\r\nAccept-Encoding: identity\r\nAuthorization: Bearer t\r\n"
            + b'Content-Type: application/json\r\nContent-Length: 7\r\n\r\n{"a":1}'
        ]


@pytest.mark.parametrize(
    ("path", "headers"),
    [("/x\r\nEvil: 1", {}), ("/x y", {}), ("x", {}), ("/x", {"Authorization": "Bearer a\r\nEvil: 1"})],
    ids=["line end in the path", "space in the path", "no path", "line end in a header"],
)
async def test_nothing_can_be_smuggled_into_a_request(path, headers):
    async with scripted() as server, Client(Credentials.fixed(Access(server.url, headers=headers))) as client:
        with pytest.raises(ValueError, match=r"no encoded path|no header can have"):
            await client.request("GET", path)
    assert server.opened == 0


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n4;x=y\r\ndefg\r\n0\r\nTrailer: t\r\n\r\n"


ANSWERS = {
    "length": (b"HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\nabcdefg", b"abcdefg"),
    "chunks": (CHUNKED, b"abcdefg"),
    "nothing": (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
    "empty": (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b""),
    "announced": (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n\r\n" + CHUNKED, b"abcdefg"),
}


@given(st.sampled_from(sorted(ANSWERS)), st.lists(st.integers(1, 160), max_size=12))
def test_an_answer_is_the_same_however_it_is_cut(kind, cuts):
    async def story():
        whole, body = ANSWERS[kind]
        edges = [0, *sorted({cut for cut in cuts if cut < len(whole)}), len(whole)]
        parts = [whole[start:end] for start, end in itertools.pairwise(edges)]
        connection = Connection(Deadlines())
        connection.connection_made(Nowhere())
        for _ in range(2):  # the connection is as good for the next
            answer = connection.exchange(b"", within_seconds=60)
            for part in parts:
                assert not answer.done()
                connection.data_received(part)
            assert answer.result().body == body
            assert connection.usable

    asyncio.run(story())


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ([b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort", CUT], "closed the connection"),
        ([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab", CUT], "closed the connection"),
        ([b"HTTP/1.1 200 O", CUT], "closed the connection"),
        ([CUT], "closed the connection"),
        ([b"SSH-2.0-OpenSSH_9.6\r\n"], "is no HTTP"),
        ([b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"], "is no HTTP"),
        ([b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n"], "goes on in another"),
    ],
    ids=["half a body", "half a chunk", "half a head", "nothing", "another protocol", "two lengths", "an upgrade"],
)
async def test_half_an_answer_leaves_the_outcome_unknown(answer, why):
    async with talking([answer]) as (server, client):
        with pytest.raises(UnknownOutcome, match=why):
            await client.request("POST", "/x", body=b"{}")
    assert len(server.requests) == 1


async def test_a_refusal_is_definite_as_soon_as_its_code_is_known():
    head = b"HTTP/1.1 409 Conflict\r\nContent-Length: 90\r\n\r\nhalf a sent"
    async with talking([[head, CUT]]) as (_, client):
        with pytest.raises(ApiError, match="409: half a sent"):
            await client.request("POST", "/x", body=b"{}")


@pytest.mark.parametrize(
    ("head", "seconds"),
    [
        (b"HTTP/1.1 503 X\r\nretry-AFTER: 5\r\n", 5.0),
        (b"HTTP/1.1 103 X\r\nRetry-After: 9\r\n\r\nHTTP/1.1 503 X\r\n", None),
    ],
    ids=["however it is spelt", "not of what only announces the answer"],
)
async def test_how_long_to_wait_is_read_of_the_refusal(head, seconds):
    """And never of one that came before it on the same connection."""
    plain = b"HTTP/1.1 503 X\r\nContent-Length: 0\r\n\r\n"
    async with talking([[head + b"Content-Length: 0\r\n\r\n"], [plain]]) as (server, client):
        for expected in (seconds, None):
            with pytest.raises(ApiError, match="503") as caught:
                await client.request("POST", "/x", body=b"{}")
            assert caught.value.retry_after == expected
    assert server.opened == 1


async def test_a_body_may_end_with_its_connection():
    async with talking([[b"HTTP/1.0 200 OK\r\n\r\nall ", b"of it", CUT]], [[OK]]) as (server, client):
        assert await client.request("POST", "/x", body=b"{}") == b"all of it"
        assert await client.request("POST", "/x", body=b"{}") == b"ok"
    assert server.opened == 2
