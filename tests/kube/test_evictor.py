"""What became of an eviction."""

import pytest
from aiohttp import web

from tutti.engine.records.decisions import Evict
from tutti.kube.client import STRATEGIC_MERGE_PATCH
from tutti.kube.errors import NotSent
from tutti.kube.evictor import Evictor, EvictOutcome
from tutti.kube.fencing import LeadershipLost, unfenced
from tutti.kube.retry import Backoff

VICTIM = Evict("default", "p", "uid-p", "PreemptionByScheduler", "preempted by team-a/train")


class Victim:
    """One pod; `answers` are given, in order, to attempts to remove it before it goes."""

    def __init__(self, kube, *answers, uid="uid-p", markable=True) -> None:
        self.kube, self.answers, self.uid, self.markable = kube, list(answers), uid, markable

    async def handle(self, request):
        if request.method == "GET":
            return web.json_response({"metadata": {"name": "p", "uid": self.uid}})
        if request.method == "PATCH":
            return web.json_response({}) if self.markable else self.kube.status(422, "Invalid")
        if self.answers:
            answer = self.answers.pop(0)
            return self.kube.hang_up(request) if answer == "hang up" else answer(self.kube)
        body = await request.json()
        options = body.get("deleteOptions", body)
        if options["preconditions"]["uid"] != self.uid:
            return self.kube.status(409, "Conflict")
        return web.json_response({}, status=201)


def refusing(code, reason="Fault", **details):
    return lambda kube: kube.status(code, reason, "told to", **details)


def evictor(server, fence=unfenced):
    return Evictor(server.client, fence=fence, backoff=lambda: Backoff(first=0.001))


async def test_a_victim_is_marked_and_then_deleted_with_its_uid(serve, kube):
    server = await serve(Victim(kube).handle)
    result = await evictor(server).evict(VICTIM)
    assert result.outcome is EvictOutcome.LEAVING
    mark, removal = server.calls
    assert mark.path.endswith("/pods/p/status")
    assert mark.headers["Content-Type"] == STRATEGIC_MERGE_PATCH
    assert mark.body["metadata"] == {"uid": "uid-p"}
    condition = mark.body["status"]["conditions"][0]
    assert (condition["type"], condition["reason"], condition["message"]) == (
        "DisruptionTarget",
        "PreemptionByScheduler",
        "preempted by team-a/train",
    )
    assert removal.method == "DELETE"
    assert removal.body["preconditions"] == {"uid": "uid-p"}
    assert "gracePeriodSeconds" not in removal.body  # it ends within its own


async def test_who_is_moved_is_evicted_within_its_budgets(serve, kube):
    server = await serve(Victim(kube).handle)
    moved = Evict("default", "p", "uid-p", "MovedByScheduler", "moved for team-a/train", within_budgets=True)
    assert (await evictor(server).evict(moved)).outcome is EvictOutcome.LEAVING
    _, removal = server.calls
    assert (removal.method, removal.path.rpartition("/pods")[2]) == ("POST", "/p/eviction")
    assert removal.body["metadata"] == {"name": "p", "namespace": "default"}
    assert removal.body["deleteOptions"]["preconditions"] == {"uid": "uid-p"}


async def test_a_budget_that_has_no_room_refuses_a_move_at_once(serve, kube):
    server = await serve(Victim(kube, *[refusing(429, "TooManyRequests")] * 5).handle)
    moved = Evict("default", "p", "uid-p", "MovedByScheduler", "moved for team-a/train", within_budgets=True)
    assert (await evictor(server).evict(moved)).outcome is EvictOutcome.REFUSED
    assert len(server.sent("POST")) == 1


@pytest.mark.parametrize(
    ("answers", "outcome", "tries"),
    [
        ([refusing(404, "NotFound")], EvictOutcome.GONE, 1),
        ([refusing(500), refusing(429), "hang up"], EvictOutcome.LEAVING, 4),
        ([refusing(403, "Forbidden")], EvictOutcome.REFUSED, 1),
        ([refusing(409, "Conflict")], EvictOutcome.LEAVING, 2),
        ([refusing(503)] * 5, EvictOutcome.FAILED, 5),
    ],
    ids=["gone", "passing trouble", "forbidden", "a conflict on the same pod", "trouble that stays"],
)
async def test_answers_are_told_apart(serve, kube, answers, outcome, tries):
    server = await serve(Victim(kube, *answers).handle)
    result = await evictor(server).evict(VICTIM)
    assert result.outcome is outcome
    assert len(server.sent("DELETE")) == tries


async def test_another_pod_of_the_same_name_is_left_alone(serve, kube):
    server = await serve(Victim(kube, uid="another").handle)
    assert (await evictor(server).evict(VICTIM)).outcome is EvictOutcome.GONE
    assert len(server.sent("DELETE")) == 1


async def test_a_victim_that_cannot_be_marked_is_evicted_all_the_same(serve, kube):
    server = await serve(Victim(kube, markable=False).handle)
    assert (await evictor(server).evict(VICTIM)).outcome is EvictOutcome.LEAVING


@pytest.mark.parametrize(
    ("said", "outcome"),
    [(NotSent("away"), EvictOutcome.FAILED), (None, EvictOutcome.LEAVING)],
    ids=["nobody can tell", "it leads"],
)
async def test_before_an_eviction_the_server_is_asked_who_leads(serve, kube, said, outcome):
    """A clock that stood still with its machine does not tell that another leads, and nothing refuses an eviction."""
    server, asked = await serve(Victim(kube).handle), []

    async def confirm():
        asked.append(len(server.calls))
        if said is not None:
            raise said

    one = Evictor(server.client, fence=unfenced, confirm=confirm, tries=2, backoff=lambda: Backoff(first=0.001))
    assert (await one.evict(VICTIM)).outcome is outcome
    assert asked == ([0, 0, 0] if said else [0, 1])


async def test_who_finds_that_another_leads_evicts_nobody(serve, kube):
    async def confirm():
        raise LeadershipLost("another leads")

    server = await serve(Victim(kube).handle)
    with pytest.raises(LeadershipLost):
        await Evictor(server.client, fence=unfenced, confirm=confirm).evict(VICTIM)
    assert server.calls == []


async def test_a_deposed_leader_evicts_nobody(serve, kube):
    def fence():
        raise LeadershipLost("another leads")

    server = await serve(Victim(kube).handle)
    with pytest.raises(LeadershipLost):
        await evictor(server, fence).evict(VICTIM)
    assert server.calls == []
