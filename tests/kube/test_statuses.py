"""The latest wish wins, nothing is written twice, and trouble with one object holds up no other."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from tutti.kube.client import MERGE_PATCH, STRATEGIC_MERGE_PATCH
from tutti.kube.fencing import LeadershipLost, LeaseTerm, unfenced
from tutti.kube.resources import APIResource
from tutti.kube.retry import Backoff
from tutti.kube.statuses import PodConditionUpdate, StatusTarget, StatusWriter

WORKLOADS = APIResource("scheduling.tutti.dev", "v1alpha1", "workloads")
TARGET = StatusTarget(WORKLOADS, "team-a", "train", "uid-train")
VERDICT = PodConditionUpdate(
    "PodScheduled", "False", "Unschedulable", "0/3 nodes are available: 3 Insufficient cpu.", 2
)


class Statuses:
    """Takes patches; `answers` come first, and while `hold` is clear nothing is answered."""

    def __init__(self, kube) -> None:
        self.kube = kube
        self.answers = []
        self.arrived = asyncio.Event()
        self.hold = asyncio.Event()
        self.hold.set()

    async def handle(self, request):
        self.arrived.set()
        await self.hold.wait()
        if self.answers:
            answer = self.answers.pop(0)
            return self.kube.hang_up(request) if answer == "hang up" else self.kube.status(answer, "Fault", "told to")
        return web.json_response({})


@asynccontextmanager
async def writing(server, **options):
    options.setdefault("fence", unfenced)
    options.setdefault("spacing_seconds", 0.0)
    writer = StatusWriter(server.client, **options)
    task = asyncio.create_task(writer.run())
    try:
        yield writer
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_a_status_is_a_merge_patch_bound_to_its_object(serve, kube):
    server = await serve(Statuses(kube).handle)
    async with writing(server) as writer:
        writer.put(TARGET, {"pending": {"position": 3}})
        assert await writer.flush(within_seconds=60) == 0
    (call,) = server.calls
    assert call.path == "/apis/scheduling.tutti.dev/v1alpha1/namespaces/team-a/workloads/train/status"
    assert call.headers["Content-Type"] == MERGE_PATCH
    assert call.body == {"metadata": {"uid": "uid-train"}, "status": {"pending": {"position": 3}}}


async def test_a_status_of_ours_records_the_lease_and_its_generation(serve, kube):
    """The status of another project has no field for it, and no rule that would look."""
    foreign = StatusTarget(
        APIResource("scheduling.x-k8s.io", "v1alpha1", "podgroups"), "team-a", "theirs", "uid-theirs"
    )
    server = await serve(Statuses(kube).handle)
    async with writing(server, term=lambda: LeaseTerm("uid-lease", 3)) as writer:
        writer.put(TARGET, {"members": 3})
        writer.put(foreign, {"phase": "Running"})
        await writer.flush(within_seconds=60)
    assert {call.path.split("/")[-2]: call.body["status"] for call in server.calls} == {
        "train": {"members": 3, "fence": {"lease": "uid-lease", "generation": 3}},
        "theirs": {"phase": "Running"},
    }


async def test_a_pod_condition_is_a_strategic_merge_patch(serve, kube):
    server = await serve(Statuses(kube).handle)
    async with writing(server) as writer:
        writer.put_pod_condition("team-a", "p", "uid-p", verdict=VERDICT, nominated_node="n1")
        await writer.flush(within_seconds=60)
        writer.put_pod_condition("team-a", "p", "uid-p", verdict=VERDICT, nominated_node="")
        await writer.flush(within_seconds=60)
    first, second = server.calls
    assert first.path == "/api/v1/namespaces/team-a/pods/p/status"
    assert first.headers["Content-Type"] == STRATEGIC_MERGE_PATCH
    (condition,) = first.body["status"]["conditions"]
    assert condition.pop("lastTransitionTime").endswith("Z")
    assert condition == {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": VERDICT.message,
        "observedGeneration": 2,
    }
    assert first.body["status"]["nominatedNodeName"] == "n1"
    assert second.body["status"]["nominatedNodeName"] is None


async def test_what_is_there_already_is_not_written_again(serve, kube):
    server = await serve(Statuses(kube).handle)
    async with writing(server) as writer:
        writer.put(TARGET, {"a": 1, "b": 2})
        await writer.flush(within_seconds=60)
        writer.put(TARGET, {"b": 2, "a": 1})
        writer.put_pod_condition("team-a", "p", "uid-p", verdict=VERDICT)
        await writer.flush(within_seconds=60)
        writer.put_pod_condition("team-a", "p", "uid-p", verdict=VERDICT)
        await writer.flush(within_seconds=60)
        assert len(server.calls) == 2
        writer.put(TARGET, {"a": 2, "b": 2})
        await writer.flush(within_seconds=60)
    assert len(server.calls) == 3


async def test_what_is_there_already_does_not_even_wait_for_a_writer(serve, kube):
    server = await serve(Statuses(kube).handle)
    async with writing(server) as writer:
        writer.put(TARGET, {"a": 1})
        await writer.flush(within_seconds=60)
    writer.put(TARGET, {"a": 1})  # nobody runs it any more
    assert await writer.flush(within_seconds=0.05) == 0
    writer.put(TARGET, {"a": 2})
    assert await writer.flush(within_seconds=0.05) == 1


async def test_a_flush_spares_the_spacing_after_a_write_under_way(serve, kube):
    statuses = Statuses(kube)
    server = await serve(statuses.handle)
    async with writing(server, spacing_seconds=3600.0) as writer:
        statuses.hold.clear()
        writer.put(TARGET, {"n": 0})
        await statuses.arrived.wait()
        writer.put(TARGET, {"n": 1})
        flushing = asyncio.create_task(writer.flush(within_seconds=60))
        await asyncio.sleep(0)
        statuses.hold.set()
        assert await flushing == 0
    assert [call.body["status"]["n"] for call in server.calls] == [0, 1]


async def test_wishes_that_come_while_one_is_written_become_one_write(serve, kube):
    statuses = Statuses(kube)
    server = await serve(statuses.handle)
    async with writing(server) as writer:
        statuses.hold.clear()
        writer.put(TARGET, {"n": 0})
        await statuses.arrived.wait()
        for n in range(1, 50):
            writer.put(TARGET, {"n": n})
        statuses.hold.set()
        await writer.flush(within_seconds=60)
    assert [call.body["status"]["n"] for call in server.calls] == [0, 49]


async def test_a_wish_that_returns_to_what_is_being_written_adds_no_write(serve, kube):
    statuses = Statuses(kube)
    server = await serve(statuses.handle)
    async with writing(server) as writer:
        statuses.hold.clear()
        writer.put(TARGET, {"n": 0})
        await statuses.arrived.wait()
        writer.put(TARGET, {"n": 1})
        writer.put(TARGET, {"n": 0})
        statuses.hold.set()
        assert await writer.flush(within_seconds=60) == 0
    assert len(server.calls) == 1


async def test_writes_of_one_object_are_spaced_and_a_flush_does_not_wait_for_that(serve, kube):
    server = await serve(Statuses(kube).handle)
    async with writing(server, spacing_seconds=3600.0) as writer:
        writer.put(TARGET, {"n": 0})
        other = StatusTarget(WORKLOADS, "team-a", "other")
        await writer.flush(within_seconds=60)
        writer.put(TARGET, {"n": 1})
        writer.put(TARGET, {"n": 2})
        writer.put(other, {"n": 9})
        assert await writer.flush(within_seconds=60) == 0
    assert [call.body["status"]["n"] for call in server.calls if call.path.endswith("/train/status")] == [0, 2]
    assert len(server.calls) == 3


@pytest.mark.parametrize("answer", [429, 500, 503, "hang up"])
async def test_passing_trouble_is_retried_with_the_latest_wish(serve, kube, answer):
    statuses = Statuses(kube)
    statuses.answers = [answer]
    server = await serve(statuses.handle)
    async with writing(server) as writer:
        statuses.hold.clear()
        writer.put(TARGET, {"n": 0})
        await statuses.arrived.wait()
        writer.put(TARGET, {"n": 1})
        statuses.hold.set()
        assert await writer.flush(within_seconds=60) == 0
    assert [call.body["status"]["n"] for call in server.calls] == [0, 1]


@pytest.mark.parametrize("answer", [401, 403])
async def test_a_refusal_for_want_of_rights_is_tried_again_for_a_while(serve, kube, answer):
    """An API server that has just started knows no rights yet: for a second it refuses everything (measured, 1.36)."""
    statuses = Statuses(kube)
    statuses.answers = [answer] * 3
    server = await serve(statuses.handle)
    async with writing(server, backoff=lambda: Backoff(first=0.001, longest=0.01)) as writer:
        writer.put(TARGET, {"n": 0})
        assert await writer.flush(within_seconds=60) == 0
    assert [call.body["status"]["n"] for call in server.calls][-1] == 0
    assert not statuses.answers


async def test_what_may_not_be_written_at_all_is_dropped_in_the_end(serve, kube):
    statuses = Statuses(kube)
    statuses.answers = [403] * 100
    server = await serve(statuses.handle)
    async with writing(server, backoff=lambda: Backoff(first=0.001, longest=0.01)) as writer:
        writer.put(TARGET, {"n": 0})
        assert await writer.flush(within_seconds=60) == 0
    assert len(server.calls) < 20
    (counted,) = server.client.metrics.writes.collect()
    assert {one.labels["outcome"] for one in counted.samples if one.value} == {"retried", "refused"}


@pytest.mark.parametrize("answer", [404, 422])
async def test_what_cannot_be_written_is_dropped_and_may_be_wished_again(serve, kube, answer):
    statuses = Statuses(kube)
    statuses.answers = [answer]
    server = await serve(statuses.handle)
    async with writing(server) as writer:
        writer.put(TARGET, {"n": 0})
        assert await writer.flush(within_seconds=60) == 0
        assert len(server.calls) == 1
        writer.put(TARGET, {"n": 0})
        await writer.flush(within_seconds=60)
    assert len(server.calls) == 2


async def test_a_conflict_passes_and_is_tried_again_until_it_does(serve, kube):
    """A server that others were faster than answers 409, too: found by the simulation, for a status was lost for good.

    Seed 780: so was one that others were faster than six times.
    """
    statuses = Statuses(kube)
    statuses.answers = [409] * 9
    server = await serve(statuses.handle)
    async with writing(server, backoff=lambda: Backoff(first=0.001, longest=0.01)) as writer:
        writer.put(TARGET, {"n": 0})
        assert await writer.flush(within_seconds=60) == 0
    assert len(server.calls) == 10


@pytest.mark.parametrize("field", ["metadata.uid", "status.nominatedNodeName"])
async def test_what_is_meant_for_another_pod_of_that_name_or_one_that_was_not_bound_is_dropped(serve, kube, field):
    """As the server answers of a pod that was created anew, or bound while that was on its way (422, with a cause)."""

    async def handle(_):
        causes = [{"reason": "FieldValueInvalid", "message": "refused", "field": field}]
        about = {"kind": "Status", "status": "Failure", "reason": "Invalid", "code": 422, "details": {"causes": causes}}
        return web.json_response(about, status=422)

    server = await serve(handle)
    async with writing(server) as writer:
        writer.put_pod_condition("team-a", "p", "uid-p", verdict=VERDICT, nominated_node="node-1")
        assert await writer.flush(within_seconds=60) == 0
    assert len(server.calls) == 1
    (counted,) = server.client.metrics.writes.collect()
    assert {one.labels["outcome"] for one in counted.samples if one.value} == {"gone"}


async def test_one_object_in_trouble_holds_up_no_other(serve, kube):
    statuses = Statuses(kube)
    statuses.answers = [503]
    server = await serve(statuses.handle)
    async with writing(server, concurrency=1) as writer:
        for n in range(5):
            writer.put(StatusTarget(WORKLOADS, "team-a", f"w{n}"), {"n": n})
        assert await writer.flush(within_seconds=60) == 0
    assert [call.path.split("/")[-2] for call in server.calls] == ["w0", "w1", "w2", "w3", "w4", "w0"]


async def test_a_forgotten_object_is_not_written(serve, kube):
    statuses = Statuses(kube)
    server = await serve(statuses.handle)
    async with writing(server) as writer:
        writer.put(TARGET, {"n": 0})
        writer.forget(TARGET)
        assert await writer.flush(within_seconds=60) == 0
        assert server.calls == []
        writer.put(TARGET, {"n": 0})
        await writer.flush(within_seconds=60)
    assert len(server.calls) == 1


async def test_a_flush_that_cannot_finish_says_what_is_left(serve, kube):
    statuses = Statuses(kube)
    server = await serve(statuses.handle)
    async with writing(server) as writer:
        statuses.hold.clear()
        writer.put(TARGET, {"n": 0})
        assert await writer.flush(within_seconds=0.05) == 1
        statuses.hold.set()
        assert await writer.flush(within_seconds=60) == 0


async def test_a_deposed_leader_stops_writing(serve, kube):
    def fence():
        raise LeadershipLost("another leads")

    server = await serve(Statuses(kube).handle)
    writer = StatusWriter(server.client, fence=fence)
    writer.put(TARGET, {"n": 0})
    with pytest.raises(ExceptionGroup) as caught:
        await writer.run()
    assert caught.group_contains(LeadershipLost, match="another leads")
    assert server.calls == []


async def test_the_conditions_of_one_gang_are_written_before_those_of_the_next(serve, kube):
    """Autoscalers act on the pods that they see at one moment: half a gang would get nodes for half a gang."""
    server = await serve(Statuses(kube).handle)
    async with writing(server, concurrency=8) as writer:
        for gang in ("a", "b"):
            for rank in range(200):
                writer.put_pod_condition("team-a", f"{gang}-{rank}", f"uid-{gang}-{rank}", verdict=VERDICT)
            writer.put(StatusTarget(WORKLOADS, "team-a", gang, f"uid-{gang}"), {"members": 200})
        await writer.flush(within_seconds=60)
    order = [call.path.split("/")[-2].partition("-")[0] for call in server.calls]
    last, first = max(i for i, one in enumerate(order) if one == "a"), order.index("b")
    assert len(order) == 402
    assert last - first < 8  # no further apart than what is under way at once
