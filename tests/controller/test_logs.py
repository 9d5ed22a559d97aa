"""One format for every line, whoever logged it."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import re
from pathlib import Path

import pytest
import structlog

from tutti.controller import logs
from tutti.engine.records.decisions import AskExtender, Bind


def test_json_lines_carry_event_level_time_and_fields_from_both_worlds():
    out = io.StringIO()
    logs.configure("json", stream=out)

    structlog.get_logger().info("queue_active", queue="a")
    logging.getLogger("kopf.something").warning("from the %s", "library")

    ours, theirs = (json.loads(line) for line in out.getvalue().splitlines())
    assert (ours["event"], ours["level"], ours["queue"]) == ("queue_active", "info", "a")
    assert (theirs["event"], theirs["level"], theirs["logger"]) == ("from the library", "warning", "kopf.something")
    assert ours["timestamp"].endswith("Z")


def test_an_exception_stays_one_json_line():
    out = io.StringIO()
    logs.configure("json", stream=out)
    try:
        int("broken")
    except ValueError:
        structlog.get_logger().exception("engine_crashed")

    (line,) = out.getvalue().splitlines()
    assert json.loads(line)["exception"][0]["exc_type"] == "ValueError"


@pytest.mark.parametrize("style", ["json", "console"])
def test_an_exception_tells_nothing_of_the_values_at_hand_where_a_token_may_be_one(style):
    out = io.StringIO()
    logs.configure(style, stream=out)
    token = "s" * 40
    try:
        {}[len(token)]
    except KeyError:
        structlog.get_logger().exception("engine_crashed")

    assert "KeyError" in out.getvalue()
    assert token not in out.getvalue()


def test_the_level_holds_for_our_lines_and_for_the_libraries():
    out = io.StringIO()
    logs.configure("console", level="warning", stream=out)

    structlog.get_logger().info("quiet")
    logging.getLogger("somewhere").info("quiet")
    structlog.get_logger().warning("loud", queue="a")

    assert "quiet" not in out.getvalue()
    assert "loud" in out.getvalue()


BIND = Bind("default", "p", "u", "node", "PodGroup/default/g")


def test_a_decision_is_one_line_with_its_own_fields_at_debug():
    out = io.StringIO()
    logs.configure("json", level="debug", stream=out)

    logs.tell_decisions([BIND, AskExtender(1, "http://x", "filter", "default", "p", "u", ["n1", "n2"])])

    bind, ask = (json.loads(line) for line in out.getvalue().splitlines())
    assert bind.items() >= {"event": "decided", "level": "debug", "do": "bind", "name": "p", "node": "node"}.items()
    assert ask["nodes"] == 2, "the names of all nodes are in the journal, not in the log"


@pytest.mark.parametrize("style", ["json", "console"])
@pytest.mark.parametrize(
    "name",
    ["b\n\x1b", "\u202eb", "\ud800", 40_000 * "b", Path("b"), {1: {"b"}}, 10**30],
    ids=["control", "beyond ASCII", "half a pair", "long", "repr", "no JSON", "large"],
)
def test_lines_that_are_told_together_are_those_told_one_by_one(style, name):
    told = [{"name": "a", "event": "bound"}, {"name": name, "event": "bound"}]
    together, apart = io.StringIO(), io.StringIO()
    with structlog.contextvars.bound_contextvars(shard="a"):
        logs.configure(style, stream=together)
        logs.tell_together(dict(one) for one in told)
        logs.tell_together([{"event": "bound"}], level="debug")
        logs.configure(style, stream=apart)
        for one in told:
            structlog.get_logger().info(**one)

    def timeless(out: io.StringIO) -> list[str]:
        return [re.sub(r"\d{4}-\S+Z", "", line) for line in out.getvalue().splitlines()]

    assert timeless(together) == timeless(apart)
    assert len(timeless(together)) == len(told)


def test_decisions_cost_nothing_where_nobody_reads_them():
    class Unread:
        def __iter__(self):
            raise AssertionError("looked at")

    logs.configure("json", level="info", stream=io.StringIO())

    logs.tell_decisions(Unread())


KEY = "ClientConnectorError(ConnectionKey(host='10.0.0.1', port=443, is_ssl=True, ssl=True), OSError(111, 'Refused'))"


@pytest.mark.parametrize("level", ["info", "debug"])
def test_an_outage_is_one_warning_for_each_of_kopfs_streams(level):
    out = io.StringIO()
    logs.configure("json", level=level, stream=out)
    kopf = logging.getLogger("kopf._cogs.clients.watching")
    for attempt in range(1, 6):
        kopf.error(f"Request attempt #{attempt}/9 failed; will retry: GET https://a/apis/b/queues?watch=true -> {KEY}")
    kopf.error(f"Request attempt #9/9 failed; escalating: GET https://a/apis/b/queues?watch=true -> {KEY}")

    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [line["level"] for line in lines] == ["warning"] * (5 if level == "debug" else 1) + ["error"]
    said = "GET https://a/apis/b/queues failed, and is tried again: ClientConnectorError"
    assert {line["event"] for line in lines[:-1]} == {said}


@pytest.mark.parametrize("closed", [True, False])
async def test_what_a_loop_does_to_a_transport_that_it_has_closed_is_no_error(closed):
    out = io.StringIO()
    logs.configure("json", stream=out)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(asyncio.Protocol, "127.0.0.1", 0)
    transport, _ = await loop.create_connection(asyncio.Protocol, *server.sockets[0].getsockname())
    if closed:
        transport.close()
    context = {"message": "Fatal error on SSL protocol", "exception": RuntimeError("no"), "transport": transport}

    logs.tell_loop_error(loop, context)
    logs.tell_loop_error(loop, {**context, "exception": ValueError("no")})

    transport.close()
    server.close()
    await server.wait_closed()
    errors = [json.loads(line)["exception"][0]["exc_type"] for line in out.getvalue().splitlines()]
    assert errors == (["ValueError"] if closed else ["RuntimeError", "ValueError"])


class GivenUp:
    """A transport of uvloop's whose opening was cancelled."""

    def is_closing(self):
        return False


async def test_data_for_a_connection_whose_opening_was_given_up_is_no_error():
    out = io.StringIO()
    logs.configure("json", stream=out)
    said = "unable to perform operation on <TCPTransport closed=True reading=False 0x55da>; the handler is closed"
    context = {"message": "Fatal error on SSL protocol", "exception": RuntimeError(said), "transport": GivenUp()}

    logs.tell_loop_error(asyncio.get_running_loop(), context)

    assert not out.getvalue()


class Shown:
    def __repr__(self):
        return "shown"


@pytest.mark.parametrize(
    ("value", "told"), [("half \ud800", "half \ud800"), (Shown(), "shown"), ({(1, 2): "a"}, {"(1, 2)": "a"}), (2**80, 2**80)]
)  # fmt: skip
def test_a_json_line_is_one_whatever_is_told(value, told):
    out = io.StringIO()
    logs.configure("json", stream=out)
    structlog.get_logger().info("told", value=value)
    (line,) = out.getvalue().splitlines()
    assert json.loads(line)["value"] == told


@pytest.mark.parametrize("value", ["x" * 1_000_000, ["x" * 100] * 100_000, {"a": {"b": "\u202e" * 1_000_000}}])
def test_a_line_is_bounded_whatever_is_told(value):
    out = io.StringIO()
    logs.configure("json", stream=out)
    structlog.get_logger().error("told", value=value)
    (line,) = out.getvalue().splitlines()
    assert len(line) < 40_000
    assert json.loads(line)["event"] == "told"
