"""Half a surrogate pair is read as Go reads it, and costs neither its object nor those that come with it."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from aiohttp import web

from tutti.api.core import Node
from tutti.kube.decoding import Reader, replace_half_surrogates
from tutti.kube.errors import WireError
from tutti.kube.fetching import ListScope, fetch_page

# encoding/json of Go 1.26: TestUnmarshal, "invalid UTF-16 surrogates".
READ = {
    r"\ud800": "\ufffd",
    r"\udc00\ud800": "\ufffd\ufffd",
    r"\ud800\ud800\udc00": "\ufffd\U00010000",
    r"\uD83D\uDE00": "\U0001f600",
    r"\ud800x\udc00": "\ufffdx\ufffd",
    r"\\ud800": r"\ud800",
    r"\\\ud800": "\\\ufffd",
    r"\u0041\n": "A\n",
}


@pytest.mark.parametrize("written", READ)
def test_half_a_pair_is_the_replacement_character(written):
    assert msgspec.json.decode(replace_half_surrogates(f'"{written}"'.encode())) == READ[written]


def named(name: str, **labels: str) -> str:
    return json.dumps({"metadata": {"name": name, "uid": name, "labels": labels}})


@pytest.mark.parametrize("view", [Node, dict[str, Any]])
def test_an_object_of_a_watch_that_holds_one_is_read(view):
    line = f'{{"type":"ADDED","object":{named("n1", a=chr(0xD800))}}}'.encode()
    reader = Reader(view)
    meta, _ = item = reader.event(line)[1]
    assert meta.name == "n1"
    found = reader.read(item)
    assert (found["metadata"] if view is not Node else msgspec.to_builtins(found.metadata))["labels"] == {"a": "\ufffd"}


async def test_a_page_that_holds_one_is_read(serve):
    async def answer(_: web.Request) -> web.Response:
        return web.Response(text=f'{{"metadata":{{}},"items":[{named("n1", a=chr(0xDFFF))},{named("n2")}]}}')

    server = await serve(answer)
    page = await fetch_page(server.client, ListScope("/api/v1/nodes"), limit=0)
    assert [json.loads(bytes(raw))["metadata"]["name"] for raw in page.items] == ["n1", "n2"]


def test_what_is_no_event_is_still_none():
    with pytest.raises(WireError):
        Reader(Node).event(b'{"type":"ADDED","object":{"a":"\\ud800')
