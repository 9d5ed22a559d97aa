"""Owners that change while their pods run: what was kept and charged for them follows, and a restart agrees."""

from __future__ import annotations

import pytest

from tests.engine.ingest.owners import IN_QUEUE, a_world, held, template
from tutti.api.core import OwnerReference
from tutti.engine.records.workloads import Phase

LWS = "leaderworkerset.sigs.k8s.io/"


def test_room_for_a_launcher_is_given_back_when_it_is_not_waited_for_any_more():
    def job(policy: str, gpus: int) -> OwnerReference:
        roles = {"Launcher": {"template": template(gpus)}, "Worker": {"template": template(0)}}
        return world.owner("MPIJob", "m", spec={"launcherCreationPolicy": policy, "mpiReplicaSpecs": roles})

    world = a_world(4)
    role = "training.kubeflow.org/replica-type"
    world.pod("worker", owner=job("WaitForWorkersReady", 4), gpus=0, labels={role: "worker"})
    world.run()
    assert held(world) == 1
    changed = job("AtStartup", 0)
    world.run()
    assert held(world) == 0
    world.pod("launcher", owner=changed, gpus=0, labels={role: "launcher"})
    world.pod("other", gpus=4)
    world.run()
    assert len(world.where()) == 3
    assert {one.phase for one in world.engine.state.workloads.values()} == {Phase.SCHEDULED}
    assert not world.replay().differences


@pytest.mark.parametrize("restarts", [False, True], ids=["", "operator restarts"])
def test_no_room_is_kept_where_the_owner_cannot_be_read_any_more_and_what_runs_goes_on(restarts):
    world = a_world(8, quota=8)
    spec = {
        "startupPolicy": "LeaderReady",
        "leaderWorkerTemplate": {"size": 8, "leaderTemplate": template(), "workerTemplate": template()},
    }
    top = world.owner("LeaderWorkerSet", "lws", labels=IN_QUEUE, spec=spec)
    marks = {f"{LWS}group-key": "k", f"{LWS}worker-index": "0"}
    world.pod("lws-0", owner=top, labels=marks, annotations={f"{LWS}size": "8"})
    world.run()
    assert (world.used("team"), held(world)) == (8, 7)
    world.owner("LeaderWorkerSet", "lws", labels=IN_QUEUE, spec=spec | {"leaderWorkerTemplate": {"size": -8}})
    world.run()
    if restarts:
        world.restart()
    world.until(3600)
    assert (world.used("team"), held(world), list(world.where())) == (1, 0, ["lws-0"])
    if not restarts:
        world.owner("LeaderWorkerSet", "lws", labels=IN_QUEUE, spec=spec)
        world.run()
        assert (world.used("team"), held(world)) == (8, 7)
        assert not world.replay().differences


def test_gangs_of_one_namespace_hold_together_no_more_than_its_resource_quota_leaves():
    world = a_world(16)
    world.allowance("eight", **{"requests_nvidia.com/gpu": 4})
    spec = {
        "startupPolicy": "LeaderReady",
        "leaderWorkerTemplate": {"size": 4, "leaderTemplate": template(0), "workerTemplate": template()},
    }
    for index in range(4):
        top = world.owner("LeaderWorkerSet", f"lws{index}", spec=spec)
        marks = {f"{LWS}group-key": f"k{index}", f"{LWS}worker-index": "0"}
        world.pod(f"lws{index}-0", owner=top, gpus=0, labels=marks, annotations={f"{LWS}size": "4"})
    world.run()
    assert (held(world), len(world.where())) == (3, 4)
    world.restart()
    world.run()
    assert (held(world), len(world.where())) == (3, 4)
    assert not world.replay().differences
