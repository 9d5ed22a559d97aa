"""TrainJobs that wait suspended: what they are made of stands in their JobSets, and is changed by a patch of ours."""

from __future__ import annotations

import copy

import pytest

from tests.engine.train_world import TrainWorld, nodes
from tutti.engine.records.decisions import Evict, StartOwner, SuspendOwner
from tutti.engine.records.workloads import Phase

LABELS = {"pool": "a"}
TAINT = {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}
OWN = {"key": "own", "operator": "Exists"}
OTHERS = [
    {
        "manager": "example.com/mine",
        "trainingRuntimeSpec": {
            "template": {
                "spec": {
                    "replicatedJobs": [
                        {
                            "name": "node",
                            "template": {"spec": {"template": {"spec": {"nodeSelector": {"disk": "ssd"}}}}},
                        }
                    ]
                }
            }
        },
    }
]


@pytest.fixture
def world():
    found = TrainWorld()
    found.flavor(nodeLabels=LABELS, tolerations=[TAINT])
    found.queue("team", 100, manage="Suspend", preemption={"withinClusterQueue": "LowerPriority"})
    found.node("n0", gpus=4, labels=LABELS | {"disk": "ssd"})
    found.runtime(nodes(4, tolerations=[OWN]))
    return found


def only(world):
    (found,) = [one for one in world.engine.state.workloads.values() if one.managed is not None]
    return found


def asked(world, kind):
    return [one for one in world.log if isinstance(one, kind)]


def told(world, uid):
    return [one.note for one in world.events(name=world.raws[uid]["metadata"]["name"])]


def test_it_is_started_on_nodes_of_its_flavor_by_a_patch_behind_those_of_others(world):
    uid = world.train_job("train", patches=OTHERS)
    world.run()

    assert len(world.placed(uid)) == 4
    assert world.used("team") == 4
    assert [one["manager"] for one in world.spec(uid)["runtimePatches"]] == [
        "example.com/mine",
        "scheduling.tutti.dev/operator",
    ]
    (role,) = world.made(uid)["spec"]["replicatedJobs"]
    pod = role["template"]["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == LABELS | {"disk": "ssd"}
    assert [one["key"] for one in pod["tolerations"]] == ["own", "gpu"]  # those of a patch take the place of others
    assert only(world).phase is Phase.SCHEDULED
    assert len(asked(world, StartOwner)) == 1
    assert [one.kind for one in asked(world, StartOwner)] == ["TrainJob"]


@pytest.mark.parametrize("room", [3, 8], ids=["room for one less", "quota for one less"])
def test_it_stays_suspended_where_one_pod_has_no_place(world, room):
    if room == 8:
        world.queue("team", 3, manage="Suspend")
    else:
        world.node("n0", gpus=3, labels=LABELS)
    uid = world.train_job("train")
    world.run()

    assert world.waits(uid)
    assert world.used("team") == 0
    assert "4" in only(world).explanation.message

    world.node("n0", gpus=4, labels=LABELS)
    world.queue("team", 100, manage="Suspend")
    world.run()
    assert len(world.placed(uid)) == 4


@pytest.mark.parametrize("patches", [None, OTHERS])
def test_who_is_preempted_is_what_its_user_wrote_again_once_nothing_of_it_is_active(world, patches):
    uid = world.train_job("train", patches=patches)
    before = copy.deepcopy(world.spec(uid))
    world.run()
    world.drains = False
    world.pod("urgent", gpus=1, priority=100, queue="queue")
    world.run()

    assert world.where("urgent")
    assert world.spec(uid)["suspend"]
    assert world.spec(uid) != before  # the webhook would refuse to have the patches changed
    assert not asked(world, Evict)
    assert not [one for one in told(world, uid) if "could not be" in one]
    written = len(asked(world, SuspendOwner))
    world.until(60)
    assert len(asked(world, SuspendOwner)) == written  # nobody asks again and again
    assert "is being suspended" in only(world).explanation.message

    world.drained(uid)
    world.run()
    assert world.spec(uid) == before
    assert world.waits(uid)

    world.drains = True
    world.delete("urgent")
    world.until(60)
    assert len(world.placed(uid)) == 4


def test_one_whose_runtime_comes_late_is_told_so_and_starts_then(world):
    uid = world.train_job("train", "missing")
    world.decide()
    assert not told(world, uid)
    world.until(11)

    assert world.waits(uid)
    assert told(world, uid) == [
        "it stays suspended: the JobSet that is made of it is not there: its controller must run, and find what it names"
    ]
    world.until(100)
    assert len(told(world, uid)) == 1
    due = world.engine.wakeup()
    assert due is None or due > world.now

    world.runtime(nodes(2), name="missing")
    world.run()
    assert len(world.placed(uid)) == 2
    assert not world.engine.state.unmade_owners


def test_a_start_of_the_operator_tells_nobody_what_the_next_object_of_the_list_says(world):
    world.queue("team", 1, manage="Suspend")
    uid = world.train_job("train")
    world.run()
    world.restart()
    world.run()

    assert world.waits(uid)
    assert not [one for one in told(world, uid) if "not there" in one]
    assert only(world).explanation.reason == "ExceedsMaxQuota"


def test_a_jobset_that_is_made_anew_of_an_edited_runtime_is_what_is_started(world):
    world.queue("team", 3, manage="Suspend")
    uid = world.train_job("train")
    world.run()
    assert world.waits(uid)

    del world.kept[uid]
    world.runtime(nodes(3))
    world.run()
    assert len(world.placed(uid)) == 3


def test_a_jobset_that_is_deleted_takes_nothing_with_it(world):
    world.queue("team", 3, manage="Suspend")
    uid = world.train_job("train")
    world.run()
    world.remove_set(uid)
    world.run()
    assert not [one for one in world.engine.state.workloads.values() if one.managed is not None]

    world.queue("team", 4, manage="Suspend")
    world._sync(uid)
    world.run()
    assert len(world.placed(uid)) == 4


def test_templates_that_name_another_scheduler_are_told_and_not_started(world):
    world.runtime(nodes(2, schedulerName="default-scheduler"), name="other")
    uid = world.train_job("train", "other")
    world.run()

    assert world.waits(uid)
    (note,) = told(world, uid)
    assert "default-scheduler" in note
    world.runtime(nodes(2), name="other")
    del world.kept[uid]
    world._sync(uid)
    world.run()
    assert len(world.placed(uid)) == 2


def test_one_that_another_cluster_runs_is_left_alone(world):
    uid = world.train_job("train")
    world.run()
    away = world.held(
        "TrainJob",
        "away",
        {"suspend": True, "runtimeRef": {"name": "torch"}, "managedBy": "kueue.x-k8s.io/multikueue"},
    )
    world._sync(away)
    world.run()
    assert len(world.placed(uid)) == 4
    assert world.waits(away)
    assert "spec.managedBy" in told(world, away)[0]


def test_where_trainjobs_are_not_read_its_jobset_is_not_started_behind_their_back(world):
    world.queue("team", 100, manage="Suspend")
    uid = world.train_job("train")
    made = world.made(uid)["metadata"]["uid"]
    other = TrainWorld()
    other.flavor(nodeLabels=LABELS)
    other.queue("team", 100, manage="Suspend")
    other.node("n0", gpus=4, labels=LABELS)
    other.raws[made] = copy.deepcopy(world.raws[made])
    other.raws[made]["metadata"]["labels"] = {"scheduling.tutti.dev/queue-name": "queue"}
    other.unread("TrainJob")
    other.show(made)
    other.run()

    assert other.raws[made]["spec"]["suspend"]
    (event,) = other.events("InvalidGang")
    assert "TrainJob train, which makes JobSet train and would start it, is not read" in event.note


def test_it_starts_with_the_first_stage_where_others_come_later(world):
    init = nodes(1) | {"name": "initializer"}
    later = nodes(3) | {"dependsOn": [{"name": "initializer", "status": "Complete"}]}
    world.runtime(init, later, name="staged")
    uid = world.train_job("train", "staged")
    world.run()

    assert list(world.placed(uid)) == [f"{uid}-initializer-0"]
    assert not world.spec(uid)["suspend"]


@pytest.mark.parametrize("writes", range(12))
def test_killed_after_any_write_it_comes_to_the_same_end(world, writes):
    uid = world.train_job("train", patches=OTHERS)
    before = copy.deepcopy(world.spec(uid))
    world.stops_at = writes
    for _ in range(6):
        world.decide()
    world.stops_at = None
    world.restart()
    world.until(400)
    assert len(world.placed(uid)) == 4
    assert world.used("team") == 4

    world.drains = False
    world.pod("urgent", gpus=1, priority=100, queue="queue")
    world.stops_at = writes
    for _ in range(6):
        world.decide()
    world.stops_at = None
    world.restart()
    world.until(200)
    world.drained(uid)
    world.until(200)
    assert world.where("urgent")
    assert world.spec(uid) == before
    assert not world.placed(uid)
    assert world.used("team") == 1


def test_a_restart_before_its_pods_are_there_keeps_what_it_was_started_for(world):
    world.makes_pods = False
    uid = world.train_job("train")
    world.run()
    assert not world.spec(uid)["suspend"]
    world.restart()
    world.run()
    assert world.used("team") == 4  # quota and room are held for them again

    world.makes_pods = True
    world.make_pods(uid)
    world.run()
    assert len(world.placed(uid)) == 4


def test_one_that_is_deleted_leaves_nothing_behind(world):
    world.makes_pods = False
    uid = world.train_job("train")
    late = world.train_job("late", "missing")
    world.run()
    world.remove(uid)
    world.remove(late)
    world.run()

    state = world.engine.state
    assert world.used("team") == 0
    assert not state.workloads
    assert not {**state.held_owners, **state.managed_owners, **state.unmade_owners, **state.told_owners}


def test_what_was_decided_is_decided_again_by_a_replay(world):
    world.train_job("train", patches=OTHERS)
    world.train_job("late", "missing")
    world.run()
    world.pod("urgent", gpus=1, priority=100, queue="queue")
    world.until(60)

    assert world.replay().differences == []
