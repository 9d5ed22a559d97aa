"""Starting and suspending a Job and a JobSet, write by write, also after somebody was killed between any two."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from aiohttp import web

from tests.engine.decision_writers import merged
from tutti.api.frameworks import KindTable
from tutti.api.frameworks.starting import STARTED_ANNOTATION, Directives
from tutti.engine.records.decisions import StartOwner, SuspendOwner
from tutti.kube.fencing import LeadershipLost, unfenced
from tutti.kube.owner_writer import OwnerWriter

ABOUT = {
    "Job": ("batch", "Job", "v1", "jobs", "ml", "train", "u"),
    "JobSet": ("jobset.x-k8s.io", "JobSet", "v1alpha2", "jobsets", "ml", "train", "u"),
}
POD = {"nodeSelector": {"zone": "z"}}
SPECS = {
    "Job": {"suspend": True, "parallelism": 2, "template": {"spec": POD}},
    "JobSet": {
        "suspend": True,
        "replicatedJobs": [{"name": "main", "template": {"spec": {"parallelism": 2, "template": {"spec": POD}}}}],
    },
}
ROLE = {"Job": "main", "JobSet": "main"}


class Stored:
    """One object as the API server keeps it: a Job's template is immutable while it has a start time or runs."""

    def __init__(self, kind: str, kube: Any) -> None:
        meta = {"name": "train", "namespace": "ml", "uid": "u", "resourceVersion": "1", "generation": 1}
        self.kind, self.kube = kind, kube
        self.raw: dict[str, Any] = {"metadata": meta, "spec": copy.deepcopy(SPECS[kind])}
        self.writes = 0
        self.most: int | None = None  # writes before everything else is refused
        self.conflicts = 0

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if request.method == "GET":
            return web.json_response(self.raw)
        if self.conflicts:
            self.conflicts -= 1
            return self.kube.status(409, "Conflict")
        patch = await request.json()
        assert patch["metadata"]["resourceVersion"] == self.raw["metadata"]["resourceVersion"]
        if self.most is not None and self.writes >= self.most:
            return self.kube.status(403, "Forbidden", "no")
        after = merged(self.raw, patch)
        if self.kind == "Job" and after["spec"]["template"] != self.raw["spec"]["template"]:
            assert self.raw["spec"]["suspend"], "the template of a Job that runs is immutable"
            assert "startTime" not in self.raw.get("status", {}), "nor is that of one that has started"
        if request.path.endswith("/status"):
            assert after["spec"] == self.raw["spec"]
        self.writes += 1
        after["metadata"]["resourceVersion"] = str(self.writes + 1)
        after["metadata"]["generation"] += after["spec"] != self.raw["spec"]
        self.raw = after
        if self.kind == "Job" and not after["spec"]["suspend"]:
            self.raw["status"] = {"startTime": "2026-01-01T00:00:00Z"}
        return web.json_response(self.raw)


def writer(server, fence=unfenced):
    return OwnerWriter(server.client, KindTable(), fence=fence)


def start(kind, generation=1):
    return StartOwner(*ABOUT[kind], generation, 100, {ROLE[kind]: Directives({"pool": "a"})})


@pytest.fixture(params=["Job", "JobSet"])
def stored(request, kube):
    return Stored(request.param, kube)


async def test_it_is_started_in_one_write_and_comes_back_as_it_was(serve, stored):
    server = await serve(stored.handle)

    assert (await writer(server).write(start(stored.kind))).problem == ""
    assert stored.writes == 1
    assert stored.raw["spec"]["suspend"] is False
    assert "pool" in str(stored.raw["spec"])

    assert (await writer(server).write(SuspendOwner(*ABOUT[stored.kind]))).problem == ""
    assert stored.raw["spec"] == SPECS[stored.kind]
    assert STARTED_ANNOTATION not in stored.raw["metadata"]["annotations"]
    assert stored.writes == (4 if stored.kind == "Job" else 2)


@pytest.mark.parametrize("killed", range(1, 4))
async def test_a_suspension_that_was_cut_short_is_ended_by_the_next(serve, stored, killed):
    server = await serve(stored.handle)
    await writer(server).write(start(stored.kind))
    stored.most = killed
    await writer(server).write(SuspendOwner(*ABOUT[stored.kind]))
    stored.most = None

    assert (await writer(server).write(SuspendOwner(*ABOUT[stored.kind]))).problem == ""
    assert stored.raw["spec"] == SPECS[stored.kind]
    assert STARTED_ANNOTATION not in stored.raw["metadata"]["annotations"]


async def test_each_write_that_is_done_already_is_not_made_again(serve, stored):
    server = await serve(stored.handle)
    await writer(server).write(start(stored.kind))
    assert (await writer(server).write(start(stored.kind))).problem == ""
    assert stored.writes == 1
    for _ in range(2):
        assert (await writer(server).write(SuspendOwner(*ABOUT[stored.kind]))).problem == ""
    writes = stored.writes
    await writer(server).write(SuspendOwner(*ABOUT[stored.kind]))
    assert stored.writes == writes


async def test_who_writes_in_between_is_heard(serve, stored):
    server = await serve(stored.handle)
    stored.conflicts = 2
    assert (await writer(server).write(start(stored.kind))).problem == ""
    stored.conflicts = 100
    assert "all the time" in (await writer(server).write(SuspendOwner(*ABOUT[stored.kind]))).problem


async def test_what_asks_for_something_else_by_now_is_not_started(serve, stored):
    server = await serve(stored.handle)

    assert "changed" in (await writer(server).write(start(stored.kind, generation=7))).problem
    assert stored.writes == 0
    stored.raw["spec"]["suspend"] = False
    assert "somebody else" in (await writer(server).write(start(stored.kind))).problem


async def test_what_may_not_be_written_says_which_component_is_missing(serve, stored):
    server = await serve(stored.handle)
    stored.most = 0

    assert "component suspend" in (await writer(server).write(start(stored.kind))).problem


@pytest.mark.parametrize("another", [True, False])
async def test_what_is_gone_cannot_be_started_and_need_not_be_suspended(serve, kube, stored, another):
    async def handle(_):
        return web.json_response({"metadata": {"uid": "other"}}) if another else kube.status(404, "NotFound")

    server = await serve(handle)
    assert "not exist" in (await writer(server).write(start(stored.kind))).problem
    assert (await writer(server).write(SuspendOwner(*ABOUT[stored.kind]))).problem == ""


async def test_nothing_is_written_without_the_lease(serve, stored):
    def lost():
        raise LeadershipLost("taken")

    server = await serve(stored.handle)
    with pytest.raises(LeadershipLost):
        await writer(server, fence=lost).write(start(stored.kind))
    assert stored.writes == 0


async def test_nothing_is_written_where_the_server_says_that_another_leads(serve, stored):
    async def confirm():
        raise LeadershipLost("taken")

    server = await serve(stored.handle)
    one = OwnerWriter(server.client, KindTable(), fence=unfenced, confirm=confirm)
    with pytest.raises(LeadershipLost):
        await one.write(start(stored.kind))
    assert stored.writes == 0


# ---- TrainJob, whose templates stand in its runtime

TRAIN_JOB = ("trainer.kubeflow.org", "TrainJob", "v1alpha1", "trainjobs", "ml", "train", "u")
MINE = {"manager": "example.com/mine", "trainingRuntimeSpec": {"template": {"metadata": {"labels": {"a": "b"}}}}}


class StoredTrainJob(Stored):
    """A TrainJob with the rules of Trainer's webhook (8c0f5059, checkRuntimePatchesImmutability)."""

    def __init__(self, kube: Any, *, known: bool = True) -> None:
        super().__init__("JobSet", kube)
        self.kind, self.known = "TrainJob", known
        self.raw["spec"] = {"suspend": True, "runtimeRef": {"name": "torch"}, "runtimePatches": [MINE]}

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if request.method != "GET":
            spec = (await request.json()).get("spec", {})
            if "runtimePatches" in spec:
                if not self.known and request.query.get("fieldValidation") == "Strict":
                    return self.kube.status(
                        400, "BadRequest", 'strict decoding error: unknown field "spec.runtimePatches"'
                    )
                assert self.raw["spec"]["suspend"], "its patches may change while it is suspended"
                assert not self.active, "and nothing of it runs"
        return await super().handle(request)

    @property
    def active(self) -> bool:
        return any(one["active"] for one in self.raw.get("status", {}).get("jobsStatus", []))

    def runs(self, *, active: int) -> None:
        self.raw["status"] = {"jobsStatus": [{"name": "node", "active": active}]}


def start_train_job(generation=1):
    return StartOwner(*TRAIN_JOB, generation, 100, {"node": Directives({"pool": "a"})})


async def test_a_trainjob_is_started_in_one_write_and_restored_when_nothing_of_it_runs(serve, kube):
    stored = StoredTrainJob(kube)
    before = copy.deepcopy(stored.raw["spec"])
    server = await serve(stored.handle)
    write = writer(server).write

    assert (await write(start_train_job())).problem == ""
    assert stored.writes == 1
    assert [one["manager"] for one in stored.raw["spec"]["runtimePatches"]] == [
        "example.com/mine",
        "scheduling.tutti.dev/operator",
    ]
    stored.runs(active=1)
    for _ in range(2):
        assert (await write(SuspendOwner(*TRAIN_JOB))).problem == ""
        assert stored.raw["spec"]["suspend"]
        assert stored.writes == 2  # nothing is tried that would be refused

    stored.runs(active=0)
    assert (await write(SuspendOwner(*TRAIN_JOB))).problem == ""
    assert stored.raw["spec"] == before
    assert STARTED_ANNOTATION not in stored.raw["metadata"]["annotations"]
    assert (await write(SuspendOwner(*TRAIN_JOB))).problem == ""
    assert stored.writes == 3


async def test_a_server_that_knows_no_patches_starts_nothing(serve, kube):
    stored = StoredTrainJob(kube, known=False)
    before = copy.deepcopy(stored.raw["spec"])
    server = await serve(stored.handle)

    assert "spec.runtimePatches" in (await writer(server).write(start_train_job())).problem
    assert stored.raw["spec"] == before
