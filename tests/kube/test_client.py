"""What a request ends with: an answer, a refusal, nothing sent, or nobody knows."""

import asyncio
import json
import ssl

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from tutti.kube.client import MERGE_PATCH, Client
from tutti.kube.credentials import Access, Credentials, CredentialsError
from tutti.kube.errors import ApiError, NotSent, UnknownOutcome
from tutti.kube.fencing import unfenced
from tutti.kube.flow_control import PriorityLevel


async def test_a_request_carries_body_type_and_query(serve):
    async def answer(request):
        return web.json_response({"ok": True})

    server = await serve(answer)
    body = await server.client.request(
        "PATCH", "/api/v1/nodes/n", query={"labelSelector": "a in (b,c),d=e+f"}, body=b"{}", content_type=MERGE_PATCH
    )
    assert json.loads(body) == {"ok": True}
    call = server.calls[0]
    assert call.query == {"labelSelector": "a in (b,c),d=e+f"}
    assert call.headers["Content-Type"] == MERGE_PATCH
    assert call.headers["User-Agent"].startswith("tutti/")


async def test_a_refusal_is_read_from_its_status(serve, kube):
    async def answer(request):
        return kube.status(409, "Conflict", "uid differs", causes=[{"reason": "X", "message": "m"}], kind="pods")

    server = await serve(answer)
    with pytest.raises(ApiError, match="409 Conflict: uid differs") as caught:
        await server.client.request("GET", "/api/v1/pods")
    assert (caught.value.details.kind, caught.value.details.causes[0].reason) == ("pods", "X")
    assert not caught.value.retryable


@pytest.mark.parametrize(
    ("headers", "body", "seconds"),
    [
        ({"Retry-After": "7"}, b"Too many requests, please try again later.", 7.0),
        ({}, b'{"kind":"Status","code":429,"message":"m","details":{"retryAfterSeconds":10}}', 10.0),
        ({"Retry-After": "Fri, 31 Dec 1999 23:59:59 GMT"}, b"\xff", None),
    ],
    ids=["header", "details", "a date is ignored"],
)
async def test_how_long_the_server_asks_to_wait(serve, headers, body, seconds):
    async def answer(request):
        return web.Response(status=429, headers=headers, body=body)

    server = await serve(answer)
    with pytest.raises(ApiError) as caught:
        await server.client.request("POST", "/x", body=b"{}")
    assert caught.value.retry_after == seconds
    assert caught.value.retryable


async def test_without_a_connection_nothing_was_sent(refusing):
    access = Access(f"https://{refusing}", ssl=ssl.create_default_context())
    async with Client(Credentials.fixed(access)) as client:
        with pytest.raises(NotSent, match="POST /x: cannot connect") as caught:
            await client.request("POST", "/x", body=b"{}")
    assert "Connect call failed" in str(caught.value)
    assert "object at" not in str(caught.value)  # it is read by people


async def test_a_connection_lost_after_sending_leaves_the_outcome_unknown(serve, kube):
    async def answer(request):
        return kube.hang_up(request)

    server = await serve(answer)
    with pytest.raises(UnknownOutcome):
        await server.client.request("POST", "/x", body=b"{}")
    assert len(server.calls) == 1  # a write is never repeated behind the caller's back


async def test_an_answer_that_does_not_come_leaves_the_outcome_unknown(serve):
    async def answer(request):
        if request.path == "/silent":
            await asyncio.Event().wait()
        return web.json_response({})

    server = await serve(answer)
    await server.client.request("POST", "/x", body=b"{}")  # so there is a connection, and all the time is the answer's
    with pytest.raises(UnknownOutcome):
        await server.client.request("POST", "/silent", body=b"{}", timeout_seconds=0.5)


async def test_a_redirect_is_a_refusal(serve):
    async def answer(request):
        return web.Response(status=302, headers={"Location": "/elsewhere"})

    server = await serve(answer)
    with pytest.raises(ApiError) as caught:
        await server.client.request("GET", "/x")
    assert caught.value.status == 302


def rotating(url, tokens):
    """Credentials that hand out the next token at every reading."""
    remaining = iter(tokens)

    def read(from_ground):
        try:
            return Access(url, headers={"Authorization": f"Bearer {next(remaining)}"})
        except StopIteration:
            raise CredentialsError("no token left") from None

    ticks = iter(range(0, 10_000, 2))
    return Credentials(read, source="test", clock=lambda: float(next(ticks)))


async def wants(token, request):
    if request.headers.get("Authorization") == f"Bearer {token}":
        return web.json_response({})
    return web.json_response({"kind": "Status", "code": 401, "reason": "Unauthorized"}, status=401)


async def post(client):
    return await client.request("POST", "/x", body=b"{}")


async def bind(client):
    return await client.write(PriorityLevel.BIND, "POST", "/x", body=b"{}", fence=unfenced)


sent_either_way = pytest.mark.parametrize("send", [post, bind])


@sent_either_way
async def test_after_a_401_credentials_are_read_again(serve, send):
    server = await serve(lambda request: wants("new", request))
    async with Client(rotating(server.url, ["old", "new"])) as client:
        await send(client)
    assert [call.headers["Authorization"] for call in server.calls] == ["Bearer old", "Bearer new"]


@sent_either_way
async def test_credentials_that_stay_refused_are_an_error_and_not_a_loop(serve, send):
    """Nor do they cost a turn: with one at a time the next write still has its own."""
    server = await serve(lambda request: wants("right", request))
    async with Client(rotating(server.url, ["wrong", "wrong too", "right"]), concurrency=1) as client:
        with pytest.raises(ApiError, match="401 Unauthorized"):
            await send(client)
        assert len(server.calls) == 2
        await send(client)


@sent_either_way
async def test_credentials_that_cannot_be_read_again_leave_the_refusal(serve, send):
    server = await serve(lambda request: wants("right", request))
    async with Client(rotating(server.url, ["wrong"])) as client:
        with pytest.raises(ApiError, match="401 Unauthorized"):
            await send(client)


@sent_either_way
async def test_an_outage_of_credentials_is_told_once_however_many_requests_it_costs(serve, send):
    right, now = "no token yet", 0.0
    server = await serve(lambda request: wants(right, request))
    wrong = (f"wrong {number}" for number in range(1000))

    def read(from_ground):
        return Access(server.url, headers={"Authorization": f"Bearer {right if right == 'new' else next(wrong)}"})

    async def send_ten():
        nonlocal now
        now += 5
        answers = await asyncio.gather(*(send(client) for _ in range(10)), return_exceptions=True)
        return {type(one) for one in answers} - {NotSent}  # who waited for a connection as all were closed

    async with Client(Credentials(read, source="test", clock=lambda: now)) as client:
        with capture_logs() as logs:
            for _ in range(3):
                assert await send_ten() == {ApiError}
            assert [one["event"] for one in logs] == ["credentials_refused"]
            right = "new"
            assert await send_ten() == {bytes}
            assert [one["event"] for one in logs] == ["credentials_refused", "credentials_accepted"]
            right = "another"
            assert await send_ten() == {ApiError}
            assert [one["event"] for one in logs][2:] == ["credentials_refused"]


@sent_either_way
async def test_credentials_that_cannot_be_read_are_told_once(serve, send):
    server = await serve(lambda request: wants("right", request))
    async with Client(rotating(server.url, ["wrong"])) as client:
        with capture_logs() as logs:
            for _ in range(3):
                with pytest.raises(ApiError, match="401 Unauthorized"):
                    await send(client)
    assert [one["event"] for one in logs] == ["credentials_refused", "credentials_not_reread"]


@sent_either_way
async def test_a_client_that_is_not_open_says_so(send):
    with pytest.raises(RuntimeError, match="async with"):
        await send(Client(Credentials.fixed(Access("http://127.0.0.1"))))
