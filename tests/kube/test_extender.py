"""The wire to an HTTP extender, against a real one."""

from __future__ import annotations

import asyncio
import base64
import json
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from tutti.api.extensions import Extender
from tutti.kube.certificate import Certificate
from tutti.kube.extender import ExtenderArgs, ExtenderClient, ExtenderError

POD = b'{"metadata":{"name":"p","annotations":{"only":"they read this"}}}'
NODES = [b'{"metadata":{"name":"n1"},"status":{"capacity":{"x":"1"}}}', b'{"metadata":{"name":"n2"}}']
CANDIDATES = ExtenderArgs(POD, ["n1", "n2"], NODES)


class Service:
    """An extender that answers what it is told to, and keeps what it was asked."""

    def __init__(self, answer, *, status=200, hangs=False):
        self.answer, self.status, self.hangs = answer, status, hangs
        self.asked = []

    async def handle(self, request):
        self.asked.append((request.path, request.content_type, await request.json()))
        if self.hangs:
            await asyncio.Event().wait()
        if isinstance(self.answer, str):
            return web.Response(text=self.answer, status=self.status)
        return web.json_response(self.answer, status=self.status)


@asynccontextmanager
async def served(service, tls=None):
    app = web.Application()
    app.router.add_post("/{path:.*}", service.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    port = runner.addresses[0][1]
    try:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{port}/extend/"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def client(service, tls=None, **settings):
    settings = {"filterVerb": "filter", "prioritizeVerb": "rank", "weight": 1, **settings}
    async with served(service, tls) as url, ExtenderClient(Extender(urlPrefix=url, **settings)) as asking:
        yield asking


async def test_a_filter_gets_the_pod_and_nodes_as_they_are_and_answers_with_nodes():
    service = Service({"Nodes": {"items": [json.loads(NODES[1])]}, "FailedNodes": {"n1": "no"}, "Error": ""})
    async with client(service) as asking:
        said = await asking.filter(CANDIDATES)
    ((path, kind, sent),) = service.asked
    assert (path, kind) == ("/extend/filter", "application/json")
    assert sent == {
        "Pod": json.loads(POD),
        "Nodes": {"metadata": {}, "items": [json.loads(one) for one in NODES]},
        "NodeNames": None,
    }
    assert (said.nodes, said.failed, said.unresolvable) == (["n2"], {"n1": "no"}, {})


async def test_one_that_knows_the_nodes_gets_names_and_answers_with_names():
    answer = {"nodenames": ["n1"], "failedAndUnresolvableNodes": {"n2": "never"}, "nodes": None, "failedNodes": None}
    service = Service(answer)
    async with client(service, nodeCacheCapable=True) as asking:
        said = await asking.filter(CANDIDATES)
    assert service.asked[0][2] == {"Pod": json.loads(POD), "Nodes": None, "NodeNames": ["n1", "n2"]}
    assert (said.nodes, said.failed, said.unresolvable) == (["n1"], {}, {"n2": "never"})


async def test_an_answer_without_nodes_lets_none_pass():
    async with client(Service({})) as asking:
        assert (await asking.filter(CANDIDATES)).nodes == []


async def test_scores_are_read_by_host():
    service = Service([{"Host": "n1", "Score": 10}, {"host": "n2"}])
    async with client(service) as asking:
        assert await asking.prioritize(CANDIDATES) == {"n1": 10, "n2": 0}
    assert service.asked[0][0] == "/extend/rank"


@pytest.mark.parametrize(
    ("service", "said"),
    [
        (Service({}, status=500), "answered with code 500"),
        (Service({}, status=302), "answered with code 302"),
        (Service("<html>"), "something else than JSON"),
        (Service([]), "something else than an object"),
        (Service({"Error": "it broke"}), "it broke"),
        (Service({"NodeNames": "n1"}), "answered wrongly"),
        (Service({"Nodes": {"items": [{}]}}), "answered wrongly"),
        (Service({"FailedNodes": ["n1"]}), "answered wrongly"),
    ],
)
async def test_a_filter_without_a_usable_answer_says_what_it_did(service, said):
    async with client(service) as asking:
        with pytest.raises(ExtenderError, match=said):
            await asking.filter(CANDIDATES)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"Host": "n1"}, "answered wrongly"),
        ([{"Score": 1}], "answered wrongly"),
        ([{"Host": "n1", "Score": "much"}], "answered wrongly"),
        ([{"Host": "n1", "Score": 11}], "must be 0 to 10"),
    ],
)
async def test_scores_that_cannot_be_read_are_a_failure(answer, said):
    async with client(Service(answer)) as asking:
        with pytest.raises(ExtenderError, match=said):
            await asking.prioritize(CANDIDATES)


async def test_one_that_does_not_answer_in_time_has_failed():
    async with client(Service({}, hangs=True), httpTimeout="50ms") as asking:
        with pytest.raises(ExtenderError, match="did not answer within 50ms"):
            await asking.filter(CANDIDATES)


async def test_one_that_is_not_there_has_failed():
    async with ExtenderClient(Extender(urlPrefix="http://127.0.0.1:1", filterVerb="filter")) as asking:
        with pytest.raises(ExtenderError, match="cannot be asked"):
            await asking.filter(CANDIDATES)


@pytest.fixture
def identity(tmp_path):
    made = Certificate.make(["127.0.0.1"])
    authority = tmp_path / "ca.pem"
    authority.write_bytes(made.pem)
    return made.context(), authority


async def test_a_certificate_is_trusted_only_by_its_authority(identity):
    context, authority = identity
    good = Service({"NodeNames": ["n1"]})
    data = base64.b64encode(authority.read_bytes()).decode()
    for tls in ({"caFile": str(authority)}, {"caData": data}, {"insecure": True}):
        async with client(good, context, tlsConfig=tls) as asking:
            assert (await asking.filter(CANDIDATES)).nodes == ["n1"]
    async with client(good, context, enableHTTPS=True) as asking:  # as upstream: without an authority, any
        assert (await asking.filter(CANDIDATES)).nodes == ["n1"]
    async with client(good, context) as asking:
        with pytest.raises(ExtenderError, match="cannot be asked"):
            await asking.filter(CANDIDATES)


async def test_tls_that_cannot_be_used_says_so(tmp_path):
    settings = {"urlPrefix": "https://there", "filterVerb": "filter"}
    for tls in ({"caFile": str(tmp_path / "none")}, {"caData": "!"}, {"certFile": str(tmp_path / "none")}):
        with pytest.raises(ValueError, match="tlsConfig of extender https://there cannot be used"):
            ExtenderClient(Extender(**settings, tlsConfig=tls))
