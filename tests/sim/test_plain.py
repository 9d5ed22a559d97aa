"""Connections to the embedded server: plain requests are answered at once, all others as well as ever by aiohttp."""

import asyncio
import json
import re

import pytest

from tutti_sim.cluster import EmbeddedCluster
from tutti_sim.http import plain

PODS = "/api/v1/namespaces/default/pods"
MARKED = "Connection: keep-alive\r\n"
"""Makes a request one that is not plain, and changes nothing else."""


def pod(name):
    containers = [{"name": "c", "image": "x"}]
    return json.dumps(
        {"metadata": {"name": name}, "spec": {"schedulerName": "tutti", "containers": containers}}
    ).encode()


def asked(method, target, body=b"", more=""):
    head = (
        f"{method} {target} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer t\r\n{more}Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def answer(reader):
    """One answer: its code, its headers, its body."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    first, *lines = head.strip().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return int(first.split()[1]), headers, body


@pytest.fixture
def handed_over(monkeypatch):
    """How many connections aiohttp has been given."""
    given = []
    real = plain.PlainConnection._hand_over
    monkeypatch.setattr(plain.PlainConnection, "_hand_over", lambda self, one: (given.append(1), real(self, one))[1])
    return given


def on_a_connection(talk):
    """Run a conversation over one connection to a cluster."""

    async def run():
        async with asyncio.timeout(60), EmbeddedCluster(nodes=0, token="t", controllers=False) as cluster:
            host, port = cluster.url.removeprefix("http://").split(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            try:
                return await talk(reader, writer)
            finally:
                writer.close()

    return asyncio.run(run())


def test_requests_sent_together_are_answered_in_their_order(handed_over):
    async def talk(reader, writer):
        names = [f"p{number}" for number in range(5)]
        writer.write(b"".join(asked("POST", PODS, pod(name)) for name in names))
        return [json.loads((await answer(reader))[2])["metadata"]["name"] for _ in names]

    assert on_a_connection(talk) == ["p0", "p1", "p2", "p3", "p4"]
    assert not handed_over


def test_a_request_may_come_byte_by_byte(handed_over):
    async def talk(reader, writer):
        for byte in asked("POST", PODS, pod("slow")):
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0)
        return (await answer(reader))[0]

    assert on_a_connection(talk) == 201
    assert not handed_over


@pytest.mark.parametrize(
    ("method", "target", "body"),
    [
        ("POST", PODS, pod("there")),
        ("POST", f"{PODS}?dryRun=All&fieldManager=a%2Bb+c", pod("new")),
        ("POST", PODS, b"{"),
        ("POST", PODS, b""),
        ("POST", f"{PODS}/there/binding?dryRun=All", b'{"target":{"kind":"Node","name":"nowhere"}}'),
        ("GET", f"{PODS}/none", b""),
        ("GET", f"{PODS}/th%65re?pretty=true", b""),
        ("GET", f"{PODS}?limit=1&limit=2", b""),
        ("GET", "/api/v1/pods?labelSelector=a%20in%20(b,c)", b""),
        ("GET", "/healthz?verbose", b""),
        ("GET", "/api", b""),
        ("GET", "/nowhere", b""),
        ("PUT", f"{PODS}/there", b"[]"),
        ("PATCH", f"{PODS}/there", b"{}"),
        ("DELETE", f"{PODS}/there?dryRun=All", b""),
    ],
)
def test_a_plain_request_gets_the_same_answer_as_one_that_is_not(handed_over, method, target, body):
    async def talk(reader, writer):
        writer.write(asked("POST", PODS, pod("there")))
        await answer(reader)
        found = []
        for more in ("", MARKED):
            writer.write(asked(method, target, body, more))
            code, headers, said = await answer(reader)
            headers.pop("date", None)
            headers.pop("server", None)
            headers.pop("cache-control", None)
            said = re.sub(rb'"(uid|creationTimestamp|resourceVersion|time)":"[^"]*"', b"", said)
            found.append((code, headers.get("content-type"), sorted(set(headers) - {"content-length"}), said))
        return found

    first, second = on_a_connection(talk)
    assert first == second
    assert handed_over == [1]


@pytest.mark.parametrize("query", ["watch=true", "%77atch=true", "w%61tch=1&resourceVersion=0"])
def test_a_watch_goes_on_over_a_connection_that_had_plain_requests(handed_over, query):
    async def talk(reader, writer):
        writer.write(asked("POST", PODS, pod("seen")))
        await answer(reader)
        writer.write(asked("GET", f"{PODS}?{query}"))
        return await reader.readuntil(b'"name":"seen"')

    assert b"ADDED" in on_a_connection(talk)
    assert handed_over == [1]


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (asked("POST", PODS, pod("a"), "Content-Length: 3\r\n"), 400),
        (asked("POST", PODS, b"{}", "Expect: 100-continue\r\n"), 422),
        (b"POST " + PODS.encode() + b" HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer t\r\n"
         b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(pod("c")), pod("c")), 201),
        (asked("GET", PODS, b"", "X-Folded: a\r\n b\r\n"), 400),
        (asked("GET", PODS, b"", "X-Bad\x00: a\r\n"), 400),
        (b"GET /healthz HTTP/1.1\n\n", 400),
        (b"GET  / HTTP/1.1\r\n\r\n", 400),
        (b"\xff\xff\xff\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: " + b"a" * 9000 + b"\r\n\r\n", 400),
    ],
)  # fmt: skip
def test_what_is_not_plain_is_left_to_aiohttp(handed_over, data, code):
    async def talk(reader, writer):
        writer.write(data)
        return int((await reader.readuntil(b"\r\n")).split()[1])

    assert on_a_connection(talk) == code
    assert handed_over == [1]


class Pipe(asyncio.Transport):
    """A transport that notes what is done to it."""

    def __init__(self):
        super().__init__()
        self.done = []

    def write(self, data):
        self.done.append("write")

    def pause_reading(self):
        self.done.append("pause")

    def resume_reading(self):
        self.done.append("resume")

    def is_closing(self):
        return False


def test_what_is_sent_while_an_answer_is_worked_on_is_read_no_further_than_a_body_is_long():
    async def run():
        asked_for, go = [], asyncio.Event()

        async def slow(request):
            asked_for.append(request.rel_url.raw_path)
            await go.wait()
            return plain.Answer(b"", status=200, content_type="text/plain")

        pipe, connection = Pipe(), plain.PlainConnection(slow, None, set())
        connection.connection_made(pipe)
        connection.data_received(asked("GET", "/first") + asked("PUT", "/second", b"x" * plain.BODY_LIMIT))
        await asyncio.sleep(0)
        connection.data_received(asked("GET", "/third"))
        connection.data_received(b"")
        assert pipe.done == ["pause"]
        go.set()
        for _ in range(20):
            await asyncio.sleep(0)
        assert asked_for == ["/first", "/second", "/third"]
        assert pipe.done == ["pause", "write", "resume", "write", "write"]

    asyncio.run(asyncio.wait_for(run(), 60))


def test_what_raises_is_told_as_an_error_and_ends_the_connection():
    async def run():
        async def fails(request):
            raise ValueError(request.method)

        open_ = set()
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: plain.PlainConnection(fails, None, open_), "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(asked("GET", "/api"))
        code, headers, _ = await answer(reader)
        assert (code, headers["connection"], await reader.read()) == (500, "close", b"")
        writer.close()
        server.close()

    asyncio.run(asyncio.wait_for(run(), 60))
