"""Events are created once, counted after, and never hold anybody up."""

import asyncio
import re
from contextlib import asynccontextmanager

import msgspec
import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from tutti.engine.records.decisions import EmitEvent
from tutti.kube import events
from tutti.kube.client import MERGE_PATCH
from tutti.kube.events import EventRecorder, RecorderLimits, cut_note
from tutti.kube.fencing import LeadershipLost, unfenced
from tutti.kube.retry import Backoff

POD = ("v1", "Pod", "p", "team-a", "uid-p")


def event(about, reason, note, action, kind="Normal"):
    """An event about an object: apiVersion, kind, name, and what it has of namespace and uid."""
    version, of, name, namespace, uid = (*about, "", "")[:5]
    return EmitEvent(version, of, namespace, name, uid, kind, reason, action, note)


BOUND = event(POD, "Scheduled", "Successfully assigned team-a/p to n1", "Binding")


class Events:
    """Takes events; `answers` come first."""

    def __init__(self, kube) -> None:
        self.kube, self.answers = kube, []

    async def handle(self, request):
        answer = self.answers.pop(0) if self.answers else 201
        if answer == "hang up":
            return self.kube.hang_up(request)
        return web.json_response({}, status=201) if answer == 201 else self.kube.status(answer, "Fault", "told to")


def make(server, **limits):
    return EventRecorder(
        server.client,
        fence=unfenced,
        controller="scheduling.tutti.dev/tutti",
        instance="tutti-0",
        limits=RecorderLimits(**limits),
        backoff=lambda: Backoff(first=0.001),
    )


@asynccontextmanager
async def running(recorder):
    task = asyncio.create_task(recorder.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


def dropped(server, reason):
    return server.client.metrics.events_dropped.labels(reason)._value.get()


async def test_an_event_says_all_that_the_server_requires(serve, kube):
    server = await serve(Events(kube).handle)
    recorder = make(server)
    async with running(recorder):
        recorder.record(event(POD, "Preempted", "n" * 2000, "Preempting", "Warning"))
        assert await recorder.flush(within_seconds=60) == 0
    (call,) = server.calls
    assert (call.method, call.path) == ("POST", "/apis/events.k8s.io/v1/namespaces/team-a/events")
    body = call.body
    assert re.fullmatch(r"p\.[0-9a-f]{16}", body["metadata"]["name"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", body["eventTime"])
    assert body["reportingController"] == "scheduling.tutti.dev/tutti"
    assert body["reportingInstance"] == "tutti-0"
    assert (body["reason"], body["action"], body["type"]) == ("Preempted", "Preempting", "Warning")
    assert body["regarding"] == {"apiVersion": "v1", "kind": "Pod", "name": "p", "namespace": "team-a", "uid": "uid-p"}
    assert len(body["note"]) == 1024
    assert "series" not in body


async def test_events_of_cluster_scoped_objects_live_in_the_default_namespace(serve, kube):
    server = await serve(Events(kube).handle)
    recorder = make(server)
    async with running(recorder):
        recorder.record(event(("v1", "Node", "n" * 253), "Full", "no room", "Scheduling"))
        await recorder.flush(within_seconds=60)
    (call,) = server.calls
    assert "/namespaces/default/" in call.path
    assert len(call.body["metadata"]["name"]) == 253


async def test_repeats_become_a_series_of_one_event(serve, kube):
    server = await serve(Events(kube).handle)
    recorder = make(server, series_seconds=3600.0)
    async with running(recorder):
        recorder.record(BOUND)
        await recorder.flush(within_seconds=60)
        for _ in range(9):
            recorder.record(BOUND)
        assert await recorder.flush(within_seconds=60) == 0
        recorder.record(BOUND)
        await recorder.flush(within_seconds=60)
    create, *patches = server.calls
    assert [call.method for call in patches] == ["PATCH", "PATCH"]
    assert [call.body["series"]["count"] for call in patches] == [10, 11]
    assert all(call.headers["Content-Type"] == MERGE_PATCH for call in patches)
    assert all(call.path.endswith("/" + create.body["metadata"]["name"]) for call in patches)


async def test_other_words_are_another_event(serve, kube):
    server = await serve(Events(kube).handle)
    recorder = make(server)
    async with running(recorder):
        for n in range(3):
            recorder.record(event(POD, "FailedScheduling", f"0/{n} nodes", "Scheduling", "Warning"))
        await recorder.flush(within_seconds=60)
    assert [call.method for call in server.calls] == ["POST"] * 3


async def test_a_flood_about_one_object_is_dropped_and_spares_others(serve, kube):
    server = await serve(Events(kube).handle)
    recorder = make(server, burst=5, refill_seconds=1e9)
    async with running(recorder):
        for n in range(20):
            recorder.record(event(POD, "Odd", f"{n}", "Scheduling"))
        recorder.record(event(("v1", "Pod", "q", "team-a"), "Odd", "0", "Scheduling"))
        await recorder.flush(within_seconds=60)
    assert len(server.calls) == 6
    assert dropped(server, "flood") == 15


async def test_a_full_queue_drops_instead_of_blocking(serve, kube):
    server = await serve(Events(kube).handle)
    recorder = make(server, waiting=10)
    for n in range(30):
        recorder.record(event(("v1", "Pod", f"p{n}", "team-a"), "Odd", "", "Scheduling"))
    assert dropped(server, "queue_full") == 20
    async with running(recorder):
        assert await recorder.flush(within_seconds=60) == 0
    assert len(server.calls) == 10


@pytest.mark.parametrize("answers", [[500, 429], ["hang up"], ["hang up", 409]], ids=str)
async def test_passing_trouble_is_retried_under_the_same_name(serve, kube, answers):
    events = Events(kube)
    events.answers = list(answers)
    server = await serve(events.handle)
    recorder = make(server)
    async with running(recorder):
        recorder.record(BOUND)
        await recorder.flush(within_seconds=60)
    assert len({call.body["metadata"]["name"] for call in server.calls}) == 1
    assert dropped(server, "error") == 0


async def test_an_event_that_the_server_refuses_is_dropped_and_the_next_is_written(serve, kube):
    events = Events(kube)
    events.answers = [422]
    server = await serve(events.handle)
    recorder = make(server)
    async with running(recorder):
        recorder.record(BOUND)
        assert await recorder.flush(within_seconds=60) == 0
        recorder.record(BOUND)
        await recorder.flush(within_seconds=60)
    assert [call.method for call in server.calls] == ["POST", "POST"]
    assert dropped(server, "error") == 1


async def test_a_series_whose_event_has_expired_is_created_anew(serve, kube):
    events = Events(kube)
    events.answers = [201, 404]
    server = await serve(events.handle)
    recorder = make(server)
    async with running(recorder):
        recorder.record(BOUND)
        await recorder.flush(within_seconds=60)
        recorder.record(BOUND)
        await recorder.flush(within_seconds=60)
    assert [call.method for call in server.calls] == ["POST", "PATCH", "POST"]
    assert server.calls[-1].body["series"]["count"] == 2


class Stored(Events):
    """Keeps the events that it takes, as a server does."""

    def __init__(self, kube) -> None:
        super().__init__(kube)
        self.kept = {}

    async def handle(self, request):
        body, name = await request.json(), request.path.rpartition("/")[2]
        if request.method == "PATCH":
            return web.json_response(self.kept[name] | body)
        name = body["metadata"]["name"]
        if name in self.kept:
            return self.kube.status(409, "AlreadyExists", "it is there")
        self.kept[name] = body
        answer = await super().handle(request)
        return answer if answer.status == 201 else self.kube.hang_up(request)


LASTING = EmitEvent(
    *("v1", "Pod", "team-a", "p", "uid-p"), "Warning", "DeviceClaimLost", "Scheduling", "n", lasting=True
)


async def told_by(server, *told):
    """One process tells something, and ends; returns what it has sent."""
    recorder, before = make(server), len(server.calls)
    async with running(recorder):
        for one in told:
            recorder.record(one)
            await recorder.flush(within_seconds=60)
    return server.calls[before:]


async def test_what_stays_so_is_one_event_however_many_processes_tell_it(serve, kube):
    events = Stored(kube)
    server = await serve(events.handle)
    await told_by(server, LASTING)
    (name,) = events.kept
    assert [call.method for call in server.calls] == ["POST"]

    *_, last = await told_by(server, LASTING)
    assert (last.method, last.body["series"]["count"]) == ("PATCH", 2)
    events.kept[name]["series"] = last.body["series"]
    *_, last = await told_by(server, LASTING, LASTING)
    assert last.body["series"]["count"] == 4
    assert list(events.kept) == [name]

    await told_by(server, msgspec.structs.replace(LASTING, note="something else"), BOUND)
    await told_by(server, BOUND)
    assert len(events.kept) == 4


async def test_an_answer_that_was_lost_does_not_count_as_told_twice(serve, kube):
    events = Stored(kube)
    events.answers = ["hang up"]
    server = await serve(events.handle)
    await told_by(server, LASTING)
    assert [(call.method, call.body.get("series")) for call in server.calls] == [
        ("POST", None),
        ("POST", None),
        ("PATCH", None),
    ]


async def test_a_deposed_leader_reports_nothing(serve, kube):
    def fence():
        raise LeadershipLost("another leads")

    server = await serve(Events(kube).handle)
    recorder = EventRecorder(server.client, fence=fence, controller="c", instance="i")
    recorder.record(BOUND)
    with pytest.raises(ExceptionGroup):
        await recorder.run()
    assert server.calls == []


@given(st.text(max_size=1500))
def test_a_cut_note_fits_and_keeps_its_beginning(note):
    short = cut_note(note)
    assert len(short.encode()) <= 1024
    assert short == note or (short.endswith("...") and note.startswith(short[:-3]))


async def test_what_was_not_heard_of_for_long_is_forgotten(serve, kube, monkeypatch):
    """Whoever may begin anew by now, with its event and with its bucket, need not be remembered."""
    monkeypatch.setattr(events, "_SERIES_SECONDS", 0.0)
    server = await serve(Events(kube).handle)
    recorder = make(server, refill_seconds=1e-12)
    async with running(recorder):
        for number in range(20):
            recorder.record(event(("v1", "Pod", f"p{number}", "a", "u"), "Scheduled", "text", "Binding"))
            await recorder.flush(within_seconds=60)
        recorder.record(BOUND)
        assert list(recorder._series) == [BOUND]
        assert list(recorder._buckets) == [POD]
        assert await recorder.flush(within_seconds=60) == 0
    assert len(server.calls) == 21
