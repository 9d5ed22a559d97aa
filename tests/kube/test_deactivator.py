"""What became of setting a Workload inactive."""

import pytest
from aiohttp import web

from tutti.controller.discovery import OUR_RESOURCES
from tutti.engine.records.decisions import Deactivate
from tutti.kube.client import MERGE_PATCH
from tutti.kube.evictor import PAST_ALL_GENERATIONS, Deactivator
from tutti.kube.fencing import LeadershipLost, unfenced

WANTED = Deactivate("default", "w", "uid-w")


def deactivator(server, fence=unfenced):
    return Deactivator(server.client, OUR_RESOURCES["Workload"], fence=fence)


async def test_it_is_told_the_generation_from_which_on_the_object_is_inactive(serve):
    async def handle(_):
        return web.json_response({"metadata": {"name": "w", "generation": 7}})

    server = await serve(handle)
    assert (await deactivator(server).deactivate(WANTED)).generation == 7
    (call,) = server.calls
    assert (call.method, call.headers["Content-Type"]) == ("PATCH", MERGE_PATCH)
    assert call.path.endswith("/namespaces/default/workloads/w")
    assert call.body == {"metadata": {"uid": "uid-w"}, "spec": {"active": False}}


@pytest.mark.parametrize("code", [404, 409])
async def test_an_object_that_is_no_more_needs_nothing(serve, kube, code):
    async def handle(_):
        return kube.status(code, "Gone")

    server = await serve(handle)
    assert (await deactivator(server).deactivate(WANTED)).generation == PAST_ALL_GENERATIONS


async def test_what_the_server_refuses_is_to_be_asked_for_again(serve, kube):
    async def handle(_):
        return kube.status(403, "Forbidden", "no")

    server = await serve(handle)
    assert (await deactivator(server).deactivate(WANTED)).generation == 0


async def test_nothing_is_sent_without_the_lease(serve):
    def lost():
        raise LeadershipLost("taken")

    async def handle(_):
        return web.json_response({})

    server = await serve(handle)
    with pytest.raises(LeadershipLost):
        await deactivator(server, fence=lost).deactivate(WANTED)
    assert server.calls == []


async def test_nothing_is_sent_where_the_server_says_that_another_leads(serve):
    async def confirm():
        raise LeadershipLost("taken")

    server = await serve(lambda _: None)
    one = Deactivator(server.client, OUR_RESOURCES["Workload"], fence=unfenced, confirm=confirm)
    with pytest.raises(LeadershipLost):
        await one.deactivate(WANTED)
    assert server.calls == []
