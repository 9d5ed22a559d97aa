"""What would help is tried when somebody asks for it, one thing after the other, and for nobody who has gone."""

from __future__ import annotations

import asyncio
import json
import threading
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from tests.web.test_application import TOKEN, site
from tutti.cli.views.what_if import Effort, ObservedCluster
from tutti.web import trials

TRAIN = "/try?namespace=vision&name=train-2&kind=PodGroup"
LLM = "/try?namespace=serving&name=llm&kind=PodGroup"


def lines(text: str) -> list[dict]:
    return [json.loads(line) for line in text.splitlines()]


async def test_a_click_has_it_tried_and_says_how_far_it_is():
    async with site() as one:
        status, headers, text = await one.get(TRAIN, method="POST")
    first, *_, last = lines(text)
    assert (status, headers["Content-Type"]) == (200, "application/x-ndjson")
    assert first["state"] == "trying"
    assert (last["state"], last["document"]["summary"]) == ("done", "4 changes tried, of which 4 would do")
    assert last["tried"] >= 4
    rows = last["document"]["sections"][0]["rows"]
    assert rows[0]["cells"][1][0]["text"] == "if vision/train-1 (8 nvidia.com/gpu) ends"


async def test_opening_an_address_tries_nothing_and_reads_what_was_found_of_late(monkeypatch):
    now = 1_000.0
    async with site() as one:
        one.hub.trials._clock = lambda: now
        asked = []
        monkeypatch.setattr(
            trials, "remedies_document", lambda of: asked.append(of) or trials.PageDocument("", "found")
        )
        assert lines((await one.get(TRAIN))[2]) == [{"state": "none"}]
        assert asked == []
        await one.get(TRAIN, method="POST")
        found = lines((await one.get(TRAIN))[2])[0]
        assert (found["state"], found["document"]["summary"], len(asked)) == ("done", "found", 1)
        now += trials.KEPT_SECONDS
        assert lines((await one.get(TRAIN))[2]) == [{"state": "none"}]
    assert len(asked) == 1


async def test_another_page_cannot_have_it_tried():
    async with site() as one:
        for header in ({"Origin": "http://elsewhere.example"}, {"Sec_Fetch_Site": "cross-site"}):
            assert (await one.get(TRAIN, method="POST", **header))[0] == 403
        assert one.hub.trials._under_way == {}


async def test_what_is_not_there_is_told():
    async with site() as one:
        *_, last = lines((await one.get("/try?namespace=vision&name=nothing", method="POST"))[2])
    assert last["state"] == "over"
    assert "there is no Workload, pod group or pod vision/nothing" in last["problem"]


async def test_only_so_much_is_tried_at_once(monkeypatch):
    monkeypatch.setattr(trials, "MOST_TRIED", 0)
    async with site() as one:
        assert (await one.get(TRAIN, method="POST"))[0] == 429


@pytest.fixture
def held(monkeypatch):
    """Engines wait to be asked until this is set; which have been, and the first of them as an event."""
    go, asked, begun = threading.Event(), threading.Event(), []
    stock = ObservedCluster.stock

    def waits(self, seen=None):
        if threading.current_thread().name.startswith("trials"):
            begun.append(self)
            asked.set()
            assert go.wait(60)
        return stock(self, seen)

    monkeypatch.setattr(ObservedCluster, "stock", waits)
    yield go, asked, begun
    go.set()


@pytest.fixture
def given_up(monkeypatch):
    """Set when a trial is given up."""
    said = threading.Event()

    class Told(Effort):
        def __setattr__(self, name, value):
            super().__setattr__(name, value)
            if name == "over" and value:
                said.set()

    monkeypatch.setattr(trials, "Effort", Told)
    return said


@asynccontextmanager
async def clicked(one, path):
    """What is told of a trial, as it comes; who leaves the block has gone."""
    async with one.session.post(f"{one.url}{path}", headers={"Cookie": f"tutti-0={TOKEN}"}) as answer:
        assert answer.status == 200
        yield answer.content


async def known(one):
    """What pages are made of is known before anything is tried."""
    assert (await one.hub.picture()).open.decided is not None


async def test_two_who_ask_the_same_share_a_trial_and_another_waits_for_it(held):
    go, _, begun = held
    async with site() as one, AsyncExitStack() as stack:
        await known(one)
        told = [await stack.enter_async_context(clicked(one, path)) for path in (TRAIN, TRAIN, LLM)]
        heads = [json.loads(await answer.readline()) for answer in told]  # each is followed by now
        assert lines((await one.get(TRAIN))[2])[0]["state"] == "trying"
        assert len(begun) <= 1
        go.set()
        first, second, third = [lines((await answer.read()).decode())[-1] for answer in told]
    assert [head["state"] for head in heads] == ["trying", "trying", "waiting"]
    assert heads[2] == {"state": "waiting", "ahead": 1}
    assert first == second
    assert third["state"] == "done"


async def test_who_leaves_ends_what_nobody_else_waits_for(held, given_up):
    go, asked, begun = held
    async with site() as one:
        await known(one)
        async with clicked(one, TRAIN) as answer:
            await answer.readline()
            assert await asyncio.to_thread(asked.wait, 60)
        assert await asyncio.to_thread(given_up.wait, 60)
        assert begun[0].effort.over
        go.set()
        *_, last = lines((await one.get(LLM, method="POST"))[2])
        assert last["state"] == "done"
        assert lines((await one.get(TRAIN))[2]) == [{"state": "none"}]
        assert begun[0].effort.tried == 0
