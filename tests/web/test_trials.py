"""What would help is tried when somebody asks for it, one thing after the other, and for nobody who has gone."""

from __future__ import annotations

import asyncio
import json
import threading

import pytest

from tests.web.test_application import site
from tutti.cli.views.what_if import ObservedCluster
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
    """Engines wait to be asked until this is set; how many have been."""
    go, begun = threading.Event(), []
    stock = ObservedCluster.stock

    def waits(self, seen=None):
        if threading.current_thread().name.startswith("trials"):
            begun.append(self)
            assert go.wait(60)
        return stock(self, seen)

    monkeypatch.setattr(ObservedCluster, "stock", waits)
    yield go, begun
    go.set()


async def until(so):
    while not so():  # noqa: ASYNC110 - what is waited for is in another thread
        await asyncio.sleep(0.01)


async def known(one):
    """What pages are made of is known before anything is tried."""
    assert (await one.hub.picture()).open.decided is not None


async def test_two_who_ask_the_same_share_a_trial_and_another_waits_for_it(held):
    go, begun = held
    async with site() as one:
        await known(one)
        same = [asyncio.create_task(one.get(TRAIN, method="POST")) for _ in range(2)]
        await until(lambda: begun)
        await until(lambda: one.hub.trials._under_way["PodGroup", "vision", "train-2"].watchers == 2)
        other = asyncio.create_task(one.get(LLM, method="POST"))
        await until(lambda: len(one.hub.trials._under_way) == 2)
        assert lines((await one.get(TRAIN))[2])[0]["state"] == "trying"
        assert len(begun) == 1
        go.set()
        first, second, third = [lines(text) for _, _, text in await asyncio.gather(*same, other)]
    assert first[-1] == second[-1]
    assert third[0] == {"state": "waiting", "ahead": 1}
    assert third[-1]["state"] == "done"


async def test_who_leaves_ends_what_nobody_else_waits_for(held):
    go, begun = held
    async with site() as one:
        await known(one)
        asked = asyncio.create_task(one.get(TRAIN, method="POST"))
        await until(lambda: begun)
        asked.cancel()
        await until(lambda: not one.hub.trials._under_way)
        assert begun[0].effort.over
        go.set()
        *_, last = lines((await one.get(LLM, method="POST"))[2])
        assert last["state"] == "done"
        assert lines((await one.get(TRAIN))[2]) == [{"state": "none"}]
        assert begun[0].effort.tried == 0
