"""Jobs and JobSets that wait suspended: started when quota and room are there, suspended again when they must leave."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.engine.held_owners import QUEUE, HeldWorld, template
from tests.engine.suspended_jobs import LABELS, TAINT, a_world, asked, only
from tutti.engine.ingest.managed_owners import is_to_wait
from tutti.engine.records.decisions import Evict, StartOwner, SuspendOwner
from tutti.engine.records.workloads import Phase

SUSPENDED = {"parallelism": 2, "completions": 2, "suspend": True}


def test_a_job_is_started_on_nodes_of_its_flavor_and_bound_where_room_was_held():
    world = a_world()
    uid = world.job("train", 4)
    before = copy.deepcopy(world.spec(uid))
    world.run()

    assert len(world.placed(uid)) == 4
    assert world.used("team") == 4
    spec = world.spec(uid)["template"]["spec"]
    assert (spec["nodeSelector"], spec["tolerations"]) == (LABELS, [TAINT])
    assert before != world.spec(uid)
    assert only(world).phase is Phase.SCHEDULED
    assert len(asked(world, StartOwner)) == 1


@pytest.mark.parametrize(("gpus", "quota"), [(3, 100), (8, 3)], ids=["room for one less", "quota for one less"])
def test_it_stays_suspended_where_one_pod_has_no_place(gpus, quota):
    world = a_world(gpus, quota=quota)
    uid = world.job("train", 4)
    world.run()

    assert world.waits(uid)
    assert not asked(world, StartOwner)
    assert world.used("team") == 0
    assert "4" in only(world).explanation.message
    assert only(world).key[0] == "PodGroup"

    world.node("more", gpus=4, labels=LABELS)
    world.queue("team", 100, manage="Suspend")
    world.run()
    assert len(world.placed(uid)) == 4


def apart(**labels: str) -> dict[str, Any]:
    """The template of pods of which no two of those with these labels are on one node."""
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": labels}}
    return template(affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}})


@pytest.mark.parametrize("kind", ["Job", "JobSet"])
def test_it_stays_suspended_where_its_pods_keep_apart_by_a_label_that_its_controller_gives_them(kind):
    """It was started, found no room and was suspended again, over and over."""
    world = a_world(4)
    if kind == "Job":
        uid = world.job("train", 2, template=apart(**{"job-name": "train"}))
    else:
        keep = apart(**{"jobset.sigs.k8s.io/jobset-name": "train", "jobset.sigs.k8s.io/replicatedjob-name": "workers"})
        role = {"parallelism": 2, "completions": 2, "template": keep}
        roles = [{"name": "workers", "replicas": 1, "template": {"spec": role}}]
        uid = world.held("JobSet", "train", {"suspend": True, "replicatedJobs": roles})
    world.until(1000)
    assert world.waits(uid)
    assert not asked(world, StartOwner)

    world.node("more", gpus=4, labels=LABELS)
    world.run()
    assert len(set(world.placed(uid).values())) == 2
    assert len(asked(world, StartOwner)) == 1
    assert world.events("WaitingForMembers") == []


@pytest.mark.parametrize("manage", ["Pods", None])
def test_in_other_queues_what_is_suspended_is_left_alone(manage):
    world = a_world(manage=manage) if manage else a_world(manage="Pods")
    uid = world.job("train", 2)
    world.run()

    assert world.waits(uid)
    assert not world.engine.state.workloads


def test_the_local_queue_says_otherwise():
    world = a_world(manage="Pods")
    uid = world.job("train", 2)
    world.object("LocalQueue", "queue", {"clusterQueue": "team", "manage": "Suspend"})
    world.run()

    assert len(world.placed(uid)) == 2


def test_quota_and_room_are_held_until_the_pods_come_and_no_longer_than_the_window():
    world = a_world(4, scheduleTimeoutSeconds=60)
    world.makes_pods = False
    uid = world.job("train", 4)
    other = world.job("other", 1)
    world.run()
    assert world.used("team") == 4
    assert not world.spec(uid)["suspend"]
    assert world.waits(other)

    world.until(30)
    world.makes_pods = True
    world.make_pods(uid)
    world.run()
    assert len(world.placed(uid)) == 4


def test_one_whose_pods_do_not_come_is_suspended_again_and_tried_later():
    world = a_world(4, scheduleTimeoutSeconds=60)
    world.makes_pods = False
    uid = world.job("train", 4)
    before = copy.deepcopy(world.spec(uid))
    world.run()
    world.now += 61
    world.run()

    assert asked(world, SuspendOwner)
    assert world.spec(uid) == before
    assert world.used("team") == 0
    assert [one.reason for one in world.events(name="train")].count("StartTimedOut") == 1

    world.makes_pods = True
    world.until(60)
    assert len(world.placed(uid)) == 4


def test_who_is_preempted_is_suspended_with_the_template_as_it_was_and_comes_back():
    world = a_world(4, preemption={"withinClusterQueue": "LowerPriority"})
    uid = world.job("train", 4)
    before = copy.deepcopy(world.spec(uid))
    world.run()
    world.pod("urgent", gpus=1, priority=100, queue="queue")
    world.run()

    assert world.where("urgent")
    assert world.spec(uid) == before
    assert world.waits(uid)
    assert not world.placed(uid)
    assert not asked(world, Evict)  # its pods went with it
    assert world.used("team") == 1

    world.delete("urgent")
    world.until(60)
    assert len(world.placed(uid)) == 4


def test_pods_are_evicted_one_by_one_where_the_object_cannot_be_suspended():
    world = a_world(4, preemption={"withinClusterQueue": "LowerPriority"})
    uid = world.job("train", 4)
    world.run()
    world.refuses = "jobs.batch is forbidden"
    world.pod("urgent", gpus=1, priority=100, queue="queue")
    world.run()

    assert len(asked(world, Evict)) == 4
    assert world.where("urgent")
    assert "forbidden" in only_of(world, "PodGroup").explanation.message
    assert "NotWritten" in [one.reason for one in world.events(name="train")]

    world.refuses = ""
    world.until(60)
    assert world.waits(uid)


def only_of(world, kind):
    (found,) = [one for one in world.engine.state.workloads.values() if one.key[0] == kind]
    return found


def test_without_the_right_to_start_it_nothing_is_held():
    world = a_world(4)
    world.refuses = "jobs.batch is forbidden"
    uid = world.job("train", 4)
    world.run()

    assert world.waits(uid)
    assert world.used("team") == 0
    assert only(world).explanation.reason == "StartRefused"

    world.refuses = ""
    world.until(60)
    assert len(world.placed(uid)) == 4


def test_a_user_who_edits_it_while_it_waits_is_heard():
    world = a_world(4)
    uid = world.job("train", 5)
    world.run()
    assert world.waits(uid)

    world.change(uid, parallelism=3, completions=3)
    world.until(20)
    assert len(world.placed(uid)) == 3
    assert world.used("team") == 3


def test_a_user_who_starts_it_by_hand_has_its_pods_wait_by_themselves():
    world = a_world(4)
    uid = world.job("train", 5)
    world.run()
    world.change(uid, suspend=False)
    world.run()

    assert len(world.placed(uid)) == 4  # each by itself: such a Job is no gang
    assert world.used("team") == 4
    assert not asked(world, SuspendOwner)


def test_a_user_who_suspends_what_runs_has_it_restored_and_queued_again():
    world = a_world(4)
    uid = world.job("train", 4)
    before = copy.deepcopy(world.spec(uid))
    world.run()
    world.makes_pods = False
    world.change(uid, suspend=True)
    world.decide()

    assert world.spec(uid)["template"] == before["template"]


def test_one_that_is_deleted_leaves_nothing_behind():
    world = a_world(4)
    world.makes_pods = False
    uid = world.job("train", 4)
    world.run()
    world.remove(uid)
    world.run()

    state = world.engine.state
    assert world.used("team") == 0
    assert not state.workloads
    assert not {**state.held_owners, **state.managed_owners}
    assert not [key for key in world.objects if key[0] == "PodGroup"]


def test_a_job_set_is_started_whole_with_the_labels_in_every_role():
    world = a_world(8)
    role = {"parallelism": 2, "completions": 2, "template": template()}
    roles = [
        {"name": "driver", "replicas": 1, "template": {"spec": copy.deepcopy(role)}},
        {"name": "workers", "replicas": 2, "template": {"spec": copy.deepcopy(role)}},
    ]
    uid = world.held("JobSet", "set", {"suspend": True, "replicatedJobs": roles})
    before = copy.deepcopy(world.spec(uid))
    world.run()

    assert len(world.placed(uid)) == 6
    for one in world.spec(uid)["replicatedJobs"]:
        assert one["template"]["spec"]["template"]["spec"]["nodeSelector"] == LABELS
    assert only(world).phase is Phase.SCHEDULED

    world.change(uid, suspend=True)
    world.decide()
    assert world.spec(uid) == before


def test_what_cannot_be_started_says_so_once():
    world = a_world(8)
    role = {"parallelism": 2, "completions": 2, "template": template()}
    spec = {"suspend": True, "replicatedJobs": [{"name": "a", "template": {"spec": role}}]}
    exclusive = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"}
    uid = world.held("JobSet", "set", spec)
    world.raws[uid]["metadata"]["annotations"] = exclusive
    world.raws[uid]["spec"]["suspend"] = True
    other = HeldWorld()
    other.flavor()
    other.queue("team", 10, manage="Suspend")
    other.raws[uid] = world.raws[uid]
    other.show(uid)
    other.run()
    other.show(uid)
    other.run()

    (event,) = other.events("InvalidGang")
    assert "stays suspended" in event.note
    assert not other.engine.state.workloads


def test_one_that_is_not_a_gang_is_not_missed_when_a_pod_has_done_its_part():
    world = a_world(4)
    uid = world.job("many", 3, completions=9)
    world.run()
    first, *_ = sorted(world.placed(uid))
    world.raws[uid] = world.raws[uid] | {"status": {"succeeded": 1}}
    world.show(uid)
    world.finish(first)
    world.run()

    assert only(world).degraded_since is None
    assert not asked(world, SuspendOwner)


@pytest.mark.parametrize("restarted", [False, True])
def test_one_that_is_suspended_after_some_of_its_pods_have_done_their_part_comes_back_for_the_rest(restarted):
    """What has succeeded had a node, and is not waited for: the rest is started when its queue lets it again."""
    world = a_world()
    uid = world.job("train", 4, completionMode="Indexed")
    world.run()
    done = sorted(world.placed(uid))[:2]
    world.raws[uid] = world.raws[uid] | {"status": {"succeeded": 2, "completedIndexes": "0,1"}}
    world.show(uid)
    world.finish(*done)
    world.run()
    world.queue("team", 100, manage="Suspend", stopPolicy="HoldAndDrain")
    world.until(5)
    assert world.spec(uid)["suspend"]
    if restarted:
        world.restart()
    world.queue("team", 100, manage="Suspend")
    world.until(300)

    assert not world.spec(uid)["suspend"]
    assert len(world.placed(uid)) == 4
    assert only(world).phase is Phase.SCHEDULED
    assert not world.replay().differences


@pytest.mark.parametrize("writes", range(14))
def test_killed_after_any_write_it_comes_to_the_same_end(writes):
    world = a_world(4, preemption={"withinClusterQueue": "LowerPriority"})
    uid = world.job("train", 4)
    before = copy.deepcopy(world.spec(uid))
    world.stops_at = writes
    for _ in range(6):
        world.decide()
    world.stops_at = None
    world.restart()
    world.until(400)
    assert len(world.placed(uid)) == 4
    assert world.used("team") == 4

    world.pod("urgent", gpus=1, priority=100, queue="queue")
    world.stops_at = writes
    for _ in range(6):
        world.decide()
    world.stops_at = None
    world.restart()
    world.until(400)
    assert world.where("urgent")
    assert world.spec(uid) == before
    assert not world.placed(uid)
    assert world.used("team") == 1


def test_a_restart_finds_it_running_and_lets_it_run():
    world = a_world(4)
    uid = world.job("train", 4)
    world.run()
    world.restart()
    world.until(1000)

    assert len(world.placed(uid)) == 4
    assert not asked(world, SuspendOwner)
    assert world.used("team") == 4


def test_one_whose_time_is_over_stays_suspended_after_a_restart_too():
    world = a_world(4)
    uid = world.job("train", 4)
    world.raws[uid]["metadata"]["labels"] = QUEUE | {"scheduling.tutti.dev/max-exec-time-seconds": "60"}
    world.show(uid)
    world.until(61)
    assert world.waits(uid)

    world.until(600)
    world.restart()
    world.until(600)
    assert world.waits(uid)
    assert world.used("team") == 0


def test_a_job_without_pods_says_so():
    world = a_world(4)
    uid = world.job("none", 0)
    world.run()

    assert world.waits(uid)
    assert "asks for no pods" in world.events("InvalidGang")[0].note


def test_a_queue_that_changes_its_mind_lets_go_of_what_waits():
    world = a_world(4)
    uid = world.job("train", 5)
    world.run()
    world.queue("team", 100, manage="Pods")
    world.run()

    assert world.waits(uid)
    assert not world.engine.state.workloads
    world.queue("team", 100, manage="Suspend")
    world.node("more", gpus=4, labels=LABELS)
    world.run()
    assert len(world.placed(uid)) == 5


def test_what_was_decided_is_decided_again_by_a_replay():
    world = a_world(4, preemption={"withinClusterQueue": "LowerPriority"})
    world.job("train", 4)
    world.run()
    world.pod("urgent", gpus=1, priority=100, queue="queue")
    world.run()

    assert world.replay().differences == []


def test_pods_with_claims_are_started_by_room_and_bound_by_their_volumes():
    world = a_world(4)
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    uid = world.job("train", 2, template=template(volumes=[claim]))
    world.run()

    assert not world.spec(uid)["suspend"]
    assert not world.placed(uid)  # the claim does not exist
    world.until(301)
    assert world.spec(uid)["suspend"]  # and its pods wait no longer than the window


def test_a_job_set_that_restarts_is_followed():
    world = a_world(4)
    role = {"parallelism": 2, "completions": 2, "template": template()}
    uid = world.held("JobSet", "set", {"suspend": True, "replicatedJobs": [{"name": "a", "template": {"spec": role}}]})
    world.run()
    assert len(world.placed(uid)) == 2
    before = only(world).key
    world.delete(*world.placed(uid))
    world.raws[uid]["status"] = {"restarts": 1}
    world.attempt = "1"
    world.show(uid)
    world.make_pods(uid)
    world.run()

    assert len(world.placed(uid)) == 2
    managed = [one for one in world.engine.state.workloads.values() if one.managed is not None]
    assert [one.key for one in managed] != [before]
    assert managed[0].phase is Phase.SCHEDULED


def test_what_it_waits_for_is_told_to_the_job_before_and_after_it_has_a_pod_group():
    world = a_world(3)
    uid = world.job("train", 4)
    world.run()

    told = world.events("FailedScheduling")
    assert {(one.api_version, one.kind, one.namespace, one.name, one.uid) for one in told} == {
        ("batch/v1", "Job", "default", "train", uid)
    }
    assert only(world).uid, "its PodGroup has been made by now"
    world.queue("team", 3, manage="Suspend")
    world.run()
    assert {one.kind for one in world.events("FailedScheduling")} == {"Job"}
    assert len(world.events("FailedScheduling")) > len(told)


@pytest.mark.parametrize("missing", ["LocalQueue", "ClusterQueue"])
def test_a_job_whose_queue_leads_nowhere_is_told_so_and_goes_on_when_there_is_one(missing):
    world = a_world()
    if missing == "ClusterQueue":
        world.queue("lost", 8, manage="Suspend", local="training")
        world.remove_object("ClusterQueue", "lost")
    name = "trainng" if missing == "LocalQueue" else "training"
    uid = world.held("Job", "train", SUSPENDED | {"template": template()}, **{next(iter(QUEUE)): name})
    world.until(2.0)

    assert world.waits(uid)
    assert only(world).explanation.reason == f"{missing}NotFound"
    (event,) = world.events("FailedScheduling")
    assert (event.kind, event.uid) == ("Job", uid)
    assert "does not exist" in event.note
    (group,) = [raw for key, raw in world.objects.items() if key[0] == "PodGroup"]
    assert group["status"]["pendingReason"]["reasons"][0]["message"] == event.note
    assert not is_to_wait(world.engine.state, world.owners[uid]), "the webhook suspends for queues that are there"

    world.queue("found", 8, manage="Suspend", local=name)
    world.run()
    assert len(world.placed(uid)) == 2


def test_a_job_whose_queue_turns_out_to_keep_pods_is_left_alone():
    world = a_world()
    uid = world.held("Job", "train", SUSPENDED | {"template": template()}, **{next(iter(QUEUE)): "later"})
    world.run()
    world.queue("found", 8, manage="Pods", local="later")
    world.run()

    assert world.waits(uid)
    assert not world.engine.state.workloads
