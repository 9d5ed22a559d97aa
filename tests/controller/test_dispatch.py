"""Carrying out: several patches of one status become one that loses none of them, and nothing starts without a lease."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kube.conftest import serving, status
from tutti.api.frameworks import KindTable
from tutti.controller.dispatch import Dispatch
from tutti.controller.merging import composed
from tutti.controller.metrics import Metrics
from tutti.controller.progress import GangTimes
from tutti.engine.records.decisions import (
    Bind,
    CreatePodGroup,
    Deactivate,
    DeletePodGroup,
    EmitEvent,
    Evict,
    PatchStatus,
    SetPodCondition,
)
from tutti.engine.records.observations import BindAnswer, BindFinished, Deactivated, EvictFinished, PodGroupWritten
from tutti.kube.client import Client
from tutti.kube.credentials import Access, Credentials
from tutti.kube.fencing import LeadershipLost


def applied(document, patch):
    """RFC 7386, word for word."""
    result = dict(document)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            result[key] = applied(result[key] if isinstance(result.get(key), dict) else {}, value)
        else:
            result[key] = value
    return result


def test_fields_of_earlier_patches_stay_and_later_values_win():
    assert composed({"a": 1, "b": {"x": 1}}, {"b": {"y": 2}, "c": None}) == {"a": 1, "b": {"x": 1, "y": 2}, "c": None}
    assert composed({"a": {"x": 1}}, {"a": None}) == {"a": None}


flat = st.dictionaries(
    st.sampled_from("abc"), st.one_of(st.none(), st.integers(0, 3), st.lists(st.integers(), max_size=2))
)


@given(document=flat, first=flat, then=flat)
def test_the_composition_of_flat_patches_does_what_they_do_one_after_the_other(document, first, then):
    document = applied({}, document)
    assert applied(document, composed(first, then)) == applied(applied(document, first), then)


def dispatch_of(client, fence, observe):
    metrics = Metrics()
    return Dispatch(
        client, fence=fence, observe=observe, metrics=metrics, times=GangTimes(metrics), instance="a", kinds=KindTable()
    )


async def test_a_process_that_has_lost_its_lease_starts_nothing():
    """It used to start writes in a group that was ending already, and to die of that."""

    def fence():
        raise LeadershipLost("another holds the lease")

    observed = []
    dispatch = dispatch_of(Client(Credentials.fixed(Access("http://127.0.0.1:1"))), fence, observed.append)
    with pytest.raises(LeadershipLost):
        dispatch.carry_out([Bind("default", "p", "uid", "node", {})])
    assert observed == []


@pytest.mark.parametrize(
    ("decision", "code", "reason", "done"),
    [
        (CreatePodGroup("default", "g", {}, {}, []), 409, "AlreadyExists", True),
        (CreatePodGroup("default", "g", {}, {}, []), 404, "NotFound", False),  # its namespace is gone
        (DeletePodGroup("default", "g", "uid"), 404, "NotFound", True),
        (DeletePodGroup("default", "g", "uid"), 409, "Conflict", False),
    ],
)
async def test_a_pod_group_that_is_so_already_is_as_good_as_written(decision, code, reason, done):
    """Found by the simulation (seed 344): after any conflict a PodGroup was taken to be deleted, and stayed for ever."""

    async def refuse(_):
        return status(code, reason)

    answer = asyncio.get_running_loop().create_future()
    async with serving(refuse) as server:
        dispatch = dispatch_of(server.client, lambda: 10.0, answer.set_result)
        running = asyncio.ensure_future(dispatch.run())
        await asyncio.sleep(0)  # as the room does it: what carries out is running when the first decision comes
        dispatch.carry_out([decision])
        assert (await answer).done is done
        running.cancel()


async def test_what_a_write_raises_costs_that_write_alone():
    """A bug in one writer, or text that cannot be encoded, used to end the process, and again at each start."""

    def spoilt(path: str) -> None:
        if "odd" in path:
            raise ZeroDivisionError(path)

    class Spoilt(Client):
        async def write(self, lane, method, path, **more):
            spoilt(path)
            return await super().write(lane, method, path, **more)

        async def request(self, method, path, **more):
            spoilt(path)
            return await super().request(method, path, **more)

    written = asyncio.Queue()

    async def take(request):
        await written.put(request.path)
        return status(201, "Created")

    observed, all_answered = [], asyncio.Event()

    def observe(answer):
        observed.append(answer)
        if len(observed) == 5:
            all_answered.set()

    half = "half a pair: \ud800"
    async with serving(take) as server, Spoilt(Credentials.fixed(Access(server.url))) as client:
        dispatch = dispatch_of(client, lambda: 10.0, observe)
        running = asyncio.ensure_future(dispatch.run())
        await asyncio.sleep(0)
        dispatch.carry_out(
            [
                Bind("default", "odd", "u", "n", "Pod/default/odd", {}),
                Evict("default", "odd", "u", "Preempted", "because"),
                Deactivate("default", "odd", "u"),
                CreatePodGroup("odd", "g", {}, {}, []),
                PatchStatus("Workload", "default", "odd", "u", {"phase": "Waiting"}),
                PatchStatus("Workload", "default", "even", "u", {"phase": half}),
                SetPodCondition("default", "even", "u", "Waiting", half, 1),
                EmitEvent("v1", "Pod", "default", "even", "u", "Warning", "Waiting", "Scheduling", half),
                Bind("default", "even", "v", "n", "Pod/default/even", {}),
            ]
        )
        await all_answered.wait()
        assert await written.get() == "/api/v1/namespaces/default/pods/even/binding"
        assert not running.done()
        running.cancel()
    answers = {type(one): one for one in observed if one.name != "even"}
    assert answers[BindFinished].outcome is BindAnswer.UNKNOWN
    assert "ZeroDivisionError" in answers[BindFinished].message
    assert answers[EvictFinished].done is False
    assert answers[Deactivated].generation == 0
    assert answers[PodGroupWritten].done is False
    assert [one.outcome for one in observed if one.name == "even"] == [BindAnswer.BOUND]


async def test_a_pod_that_is_bound_is_not_told_any_more_why_it_waited():
    """Its condition stood in line when its reservation was let go, and would be written over what the bind says."""
    paths, hold = [], asyncio.Event()

    async def answer(request):
        paths.append(request.path.removeprefix("/api/v1/namespaces/default/pods/"))
        await hold.wait()
        return status(201, "Success", "") if request.method == "POST" else status(200, "Success", "")

    async with serving(answer) as server:
        dispatch = dispatch_of(server.client, lambda: 10.0, lambda _: None)
        running = asyncio.ensure_future(dispatch.run())
        await asyncio.sleep(0)
        names = [f"p-{rank}" for rank in range(9)]  # one more than are written at once
        dispatch.carry_out([SetPodCondition("default", name, name, "WaitingForApproval", "held") for name in names])
        dispatch.carry_out([Bind("default", "p-8", "p-8", "node", "Pod/default/p-8", {})])
        hold.set()
        await dispatch.drain(within_seconds=30)
        running.cancel()
    assert "p-8/binding" in paths
    assert "p-8/status" not in paths
    assert "p-7/status" in paths
