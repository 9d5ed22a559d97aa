"""What became of a binding is always found out."""

import asyncio

import msgspec
import pytest
from aiohttp import web

from tests.kube.conftest import DOCUMENT
from tutti.engine.records.decisions import Bind
from tutti.engine.records.observations import BindAnswer
from tutti.kube.binder import Binder, BindOutcome
from tutti.kube.fencing import GENERATION_ANNOTATION, LeadershipLost, LeaseTerm, unfenced
from tutti.kube.protobuf import PROTOBUF
from tutti.kube.retry import Backoff

ASKED = Bind("default", "p", "uid-p", "n1")


class Pods:
    """Pods that can be bound, as kube-apiserver 1.36 does it; `faults` are what happens to the next bindings.

    A fault ending in `+` strikes after the binding took effect.
    """

    def __init__(self, kube, **pod) -> None:
        self.kube = kube
        self.pods = {"p": {"uid": "uid-p", **pod}}
        self.faults = []
        self.unreadable = 0
        self.refuses_protobuf = 0
        self.in_flight = self.most_in_flight = 0

    async def handle(self, request):
        name = request.path.split("/")[6]
        if request.method == "GET":
            return self.read(request, name)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        await asyncio.sleep(0)
        self.in_flight -= 1
        fault = self.faults.pop(0) if self.faults else ""
        if fault and not fault.endswith("+"):
            return self.fail(request, fault)
        if self.refuses_protobuf and request.content_type == PROTOBUF:
            return self.kube.status(self.refuses_protobuf, "Unread", "application/json is what is read here")
        answer = self.bind(name, request[DOCUMENT])
        return self.fail(request, fault[:-1]) if fault else answer

    def fail(self, request, fault):
        if fault == "hang up":
            return self.kube.hang_up(request)
        return self.kube.status(int(fault), "Fault", "told to fail")

    def read(self, request, name):
        if self.unreadable:
            self.unreadable -= 1
            return self.kube.hang_up(request)
        pod = self.pods.get(name)
        if pod is None:
            return self.kube.status(404, "NotFound")
        meta = {"name": name, "uid": pod["uid"], "deletionTimestamp": pod.get("deleted")}
        spec = {"nodeName": pod.get("node", ""), "schedulingGates": [{"name": g} for g in pod.get("gates", ())]}
        return web.json_response({"metadata": meta, "spec": spec})

    def bind(self, name, body):
        assert body["apiVersion"] == "v1"
        assert body["kind"] == "Binding"
        pod = self.pods.get(name)
        if pod is None:
            return self.kube.status(404, "NotFound", f'pods "{name}" not found')
        if pod["uid"] != body["metadata"]["uid"] or pod.get("deleted") or pod.get("node") or pod.get("gates"):
            return self.kube.status(409, "Conflict", "in words that nobody reads")
        pod["node"] = body["target"]["name"]
        pod["annotations"] = body["metadata"].get("annotations")
        return web.json_response({"kind": "Status", "status": "Success"}, status=201)


def binder(server, **options):
    options.setdefault("fence", unfenced)
    return Binder(server.client, backoff=lambda: Backoff(first=0.001), **options)


async def bind_all(one, bindings):
    """Bind at once, as the dispatch does; a binding that fails in a way nobody expects ends the others."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one.bind(binding)) for binding in bindings]
    return [task.result() for task in tasks]


@pytest.mark.parametrize(
    ("pod", "outcome", "message"),
    [
        ({}, BindOutcome.BOUND, ""),
        ({"node": "n1"}, BindOutcome.ALREADY_HERE, "found bound"),
        ({"node": "n2"}, BindOutcome.ELSEWHERE, "on node 'n2'"),
        ({"uid": "another"}, BindOutcome.GONE, "no more"),
        ({"deleted": "2026-01-01T00:00:00Z"}, BindOutcome.GONE, "being deleted"),
        ({"gates": ["hold", "wait"]}, BindOutcome.GATED, "hold, wait"),
    ],
    ids=["free", "here", "elsewhere", "another pod", "being deleted", "gated"],
)
async def test_the_state_of_the_pod_decides(serve, kube, pod, outcome, message):
    pods = Pods(kube, **pod)
    result = await binder(await serve(pods.handle)).bind(ASKED)
    assert result.outcome is outcome
    assert message in result.message
    assert (outcome.answer is BindAnswer.BOUND) == (pods.pods["p"].get("node") == "n1")


async def test_a_pod_that_is_no_more(serve, kube):
    pods = Pods(kube)
    pods.pods.clear()
    assert (await binder(await serve(pods.handle)).bind(ASKED)).outcome is BindOutcome.GONE


@pytest.mark.parametrize(
    ("faults", "outcome"),
    [
        (["500", "503", "429"], BindOutcome.BOUND),
        (["hang up"], BindOutcome.BOUND),
        (["hang up+"], BindOutcome.BOUND),
        (["504+"], BindOutcome.BOUND),
        (["hang up", "409"], BindOutcome.BOUND),
        (["409"], BindOutcome.BOUND),
        (["403"], BindOutcome.REFUSED),
        (["422"], BindOutcome.REFUSED),
        (["hang up+", "403"], BindOutcome.BOUND),
        (["hang up", "403"], BindOutcome.UNKNOWN),
        (["429"] * 5, BindOutcome.FAILED),
        (["409"] * 5, BindOutcome.FAILED),
        (["500"] * 5, BindOutcome.UNKNOWN),
        (["hang up"] * 5, BindOutcome.UNKNOWN),
    ],
    ids=str,
)
async def test_trouble_is_retried_with_the_same_target_or_named(serve, kube, faults, outcome):
    pods = Pods(kube)
    pods.faults = list(faults)
    server = await serve(pods.handle)
    result = await binder(server).bind(ASKED)
    assert result.outcome is outcome
    assert (pods.pods["p"].get("node") == "n1") == (outcome is BindOutcome.BOUND)
    assert {call.body["target"]["name"] for call in server.sent("POST")} == {"n1"}
    assert len(server.sent("POST")) <= 5


@pytest.mark.parametrize("refused", ["401", "403", "422"])
async def test_who_is_refused_after_an_answer_was_lost_may_be_bound_all_the_same(serve, kube, refused):
    """An API server dies with an answer, and the next one knows no rights yet: the bind has been sent once more by then."""
    pods = Pods(kube, node="n1")
    pods.faults = [refused] * 2
    server = await serve(pods.handle)
    result = await binder(server).bind(ASKED)
    assert result.outcome is BindOutcome.ALREADY_HERE


async def test_who_is_refused_and_cannot_be_read_may_be_bound(serve, kube):
    pods = Pods(kube)
    pods.faults, pods.unreadable = ["403"], 10
    server = await serve(pods.handle)
    result = await binder(server).bind(ASKED)
    assert result.outcome is BindOutcome.UNKNOWN


async def test_a_server_that_is_too_busy_is_not_asked_to_explain(serve, kube):
    pods = Pods(kube)
    pods.faults = ["429", "429"]
    server = await serve(pods.handle)
    assert (await binder(server).bind(ASKED)).outcome is BindOutcome.BOUND
    assert server.sent("GET") == []


async def test_a_pod_that_cannot_be_read_back_is_tried_again(serve, kube):
    pods = Pods(kube)
    pods.faults = ["hang up+"]
    pods.unreadable = 4
    assert (await binder(await serve(pods.handle)).bind(ASKED)).outcome is BindOutcome.BOUND


async def test_an_unreachable_server_binds_nothing(refusing):
    from tutti.kube.client import Client
    from tutti.kube.credentials import Access, Credentials

    async with Client(Credentials.fixed(Access(f"http://{refusing}"))) as client:
        one = Binder(client, fence=unfenced, tries=2, backoff=lambda: Backoff(first=0.001))
        result, again = await one.bind(ASKED), await one.bind(msgspec.structs.replace(ASKED, again=True))
    assert result.outcome is BindOutcome.FAILED
    assert "cannot connect" in result.message
    assert again.outcome is BindOutcome.UNKNOWN  # what was sent before may have bound it


@pytest.mark.parametrize("again", [False, True])
async def test_what_was_not_bound_now_may_have_been_before(serve, kube, again):
    """A server that is too busy to explain itself says nothing of a bind that was sent before."""
    pods = Pods(kube)
    pods.faults = ["429"] * 5
    result = await binder(await serve(pods.handle)).bind(msgspec.structs.replace(ASKED, again=again))
    assert result.outcome is (BindOutcome.UNKNOWN if again else BindOutcome.FAILED)


async def test_annotations_go_with_the_binding(serve, kube):
    pods = Pods(kube)
    bound = Bind("default", "p", "uid-p", "n1", annotations={"a": "b"})
    assert (await binder(await serve(pods.handle)).bind(bound)).outcome.answer is BindAnswer.BOUND
    assert pods.pods["p"]["annotations"] == {"a": "b"}


async def test_the_generation_of_the_lease_goes_with_the_binding(serve, kube):
    pods = Pods(kube)
    one = binder(await serve(pods.handle), term=lambda: LeaseTerm("uid-lease", 7))
    assert (await one.bind(Bind("default", "p", "uid-p", "n1", annotations={"a": "b"}))).outcome is BindOutcome.BOUND
    assert pods.pods["p"]["annotations"] == {"a": "b", GENERATION_ANNOTATION: "7"}


async def test_many_bindings_at_once_keep_their_limit(serve, kube):
    pods = Pods(kube)
    pods.pods = {f"p{n}": {"uid": f"u{n}"} for n in range(40)}
    del pods.pods["p7"]
    asked = [Bind("default", f"p{n}", f"u{n}", f"n{n}") for n in range(40)]
    server = await serve(pods.handle, concurrency=6)
    results = await bind_all(binder(server), asked)
    assert [n for n, result in enumerate(results) if result.outcome is not BindOutcome.BOUND] == [7]
    assert pods.most_in_flight <= 6
    assert server.client.metrics.writes.labels("bind", "bound").count == 39


async def test_a_deposed_leader_sends_nothing_more(serve, kube):
    pods = Pods(kube)
    pods.pods = {f"p{n}": {"uid": f"u{n}"} for n in range(20)}
    left = [5]

    def fence():
        left[0] -= 1
        if left[0] < 0:
            raise LeadershipLost("another leads")
        return 30.0

    asked = [Bind("default", f"p{n}", f"u{n}", "n") for n in range(20)]
    server = await serve(pods.handle, concurrency=2)
    with pytest.raises(ExceptionGroup) as crash:
        await bind_all(binder(server, fence=fence), asked)
    assert crash.value.split(LeadershipLost)[1] is None
    assert len(server.sent("POST")) <= 5


async def test_the_fence_is_asked_before_every_try(serve, kube):
    pods = Pods(kube)
    pods.faults = ["500"]
    allowed = iter([True, False])

    def fence():
        if not next(allowed):
            raise LeadershipLost("lost between two tries")
        return 30.0

    server = await serve(pods.handle)
    with pytest.raises(LeadershipLost):
        await binder(server, fence=fence).bind(ASKED)
    assert len(server.sent("POST")) == 1


JSON = "application/json"
UNREAD = pytest.mark.parametrize("status", [400, 415])


def kinds(server):
    return [call.headers["Content-Type"] for call in server.sent("POST")]


@UNREAD
async def test_a_server_that_reads_no_protobuf_gets_json_from_then_on(serve, kube, status):
    pods = Pods(kube)
    pods.pods["q"] = {"uid": "uid-q"}
    pods.refuses_protobuf = status
    server = await serve(pods.handle)
    binds = binder(server, term=lambda: LeaseTerm("uid-lease", 7))
    asked = [Bind("default", name, f"uid-{name}", "n1", annotations={"a": "b"}) for name in "pq"]
    assert [(await binds.bind(one)).outcome for one in asked] == [BindOutcome.BOUND] * 2
    assert pods.pods["p"]["annotations"] == {"a": "b", GENERATION_ANNOTATION: "7"}
    assert kinds(server) == [PROTOBUF, JSON, JSON]


@UNREAD
async def test_whoever_is_under_way_when_protobuf_is_refused_is_bound_in_json(serve, kube, status):
    pods = Pods(kube)
    pods.pods = {f"p{n}": {"uid": f"u{n}"} for n in range(8)}
    pods.refuses_protobuf = status
    together = asyncio.Barrier(8)

    async def handle(request):
        if request.content_type == PROTOBUF:
            await together.wait()
        return await pods.handle(request)

    server = await serve(handle)
    results = await bind_all(binder(server), [Bind("default", f"p{n}", f"u{n}", f"n{n}") for n in range(8)])
    assert [result.outcome for result in results] == [BindOutcome.BOUND] * 8
    assert sorted(kinds(server)) == [JSON] * 8 + [PROTOBUF] * 8


@UNREAD
async def test_what_is_refused_in_json_too_says_nothing_of_protobuf(serve, kube, status):
    pods = Pods(kube)
    pods.faults = [str(status)] * 2
    server = await serve(pods.handle)
    binds = binder(server)
    assert (await binds.bind(ASKED)).outcome is BindOutcome.REFUSED
    assert (await binds.bind(ASKED)).outcome is BindOutcome.BOUND
    assert kinds(server) == [PROTOBUF, JSON, PROTOBUF]


@pytest.mark.parametrize(
    ("faults", "sent"),
    [
        (["415", "415"], [PROTOBUF, JSON]),
        (["500", "415", "503"], [PROTOBUF, PROTOBUF, JSON, JSON]),
        (["500", "400", "hang up+"], [PROTOBUF, PROTOBUF, JSON]),
        (["406"], [PROTOBUF]),  # about answers, which are JSON
        (["413"], [PROTOBUF]),
    ],
    ids=str,
)
async def test_protobuf_that_is_refused_among_other_trouble(serve, kube, faults, sent):
    pods = Pods(kube)
    pods.faults = list(faults)
    server = await serve(pods.handle)
    refused = faults[-1] in ("406", "413", "415")
    assert (await binder(server).bind(ASKED)).outcome is (BindOutcome.REFUSED if refused else BindOutcome.BOUND)
    assert kinds(server) == sent


async def test_what_cannot_be_encoded_costs_its_own_bind(serve, kube):
    pods = Pods(kube)
    pods.pods["q"] = {"uid": "uid-q"}
    server = await serve(pods.handle)
    binds = binder(server)
    with pytest.raises(UnicodeEncodeError):
        await binds.bind(Bind("default", "p", "uid-p", "n1", annotations={"half": "\ud800"}))
    assert (await binds.bind(Bind("default", "q", "uid-q", "n1"))).outcome is BindOutcome.BOUND
    assert [call.path.split("/")[6] for call in server.sent("POST")] == ["q"]
