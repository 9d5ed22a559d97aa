"""What becomes of the queues themselves: their counts, their deletion, what they refer to."""

from __future__ import annotations

import pytest

from tests.engine.lifecycle.test_permit import TEMPLATE
from tests.engine.lifecycle.workloads_to_evict import stop
from tests.engine.world import GPU, World
from tutti.api.selectors import Taint
from tutti.engine.records.observations import ObjectSeen
from tutti.engine.records.pod_admission import ADMISSION_ANNOTATION


def test_a_queue_that_is_being_deleted_admits_nobody_any_more():
    world = World()
    world.flavor()
    world.node("n1")
    world.queue("cq", 8)
    world.gang("first", 2, queue="queue")
    world.run()
    found = world.objects["ClusterQueue", "", "cq"]
    found["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    world.tell(ObjectSeen("ClusterQueue", found))
    world.gang("second", 2, queue="queue")
    world.run()

    assert len(world.where("first")) == 2  # what runs goes on
    assert world.where("second") == {}
    assert "being deleted" in world.why("PodGroup", "second").message


def test_counts_that_went_stale_while_nobody_looked_are_corrected_at_the_start():
    world = World(synced=False)
    world.flavor()
    world.queue("cq", 8)
    stale = {"pendingWorkloads": 3, "reservingWorkloads": 1, "admittedWorkloads": 1}
    for kind, name in (("ClusterQueue", "cq"), ("LocalQueue", "queue")):
        world.objects[kind, "default" if kind == "LocalQueue" else "", name]["status"] = dict(stale)
    world.restart()
    world.run()

    for kind, name in (("ClusterQueue", "cq"), ("LocalQueue", "queue")):
        status = world.status(kind, name)
        assert {key: status[key] for key in stale} == dict.fromkeys(stale, 0)


def test_the_time_of_the_next_try_is_taken_off_the_status_with_the_try():
    world = World(permitTimeoutSeconds=10)
    world.node("n1")
    world.flavor()
    world.queue("cq", 8)
    template = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}}
    world.workload("w", {"name": "main", "count": 1, "template": template}, queueName="queue")
    world.run()
    world.until(10)
    assert "at" in world.status("Workload", "w")["requeue"]
    world.until(5)

    assert world.status("Workload", "w")["requeue"].get("at") is None


def figures(world: World, kind: str = "ClusterQueue", name: str = "cq", field: str = "flavorsUsage") -> dict[str, str]:
    """What a queue's status says of GPUs in its first flavor."""
    found = next(one for one in world.status(kind, name)[field][0]["resources"] if one["name"] == GPU)
    return {key: value for key, value in found.items() if key != "name"}


# What a status says of quota.


def test_a_local_queue_says_what_is_used_through_it():
    world = World()
    world.flavor()
    world.node("n1")
    world.queue("cq", 8)
    world.object("LocalQueue", "other", {"clusterQueue": "cq"})
    world.gang("g", 2, queue="queue")
    world.gang("h", 3, queue="other")
    world.run()
    assert figures(world, "LocalQueue", "queue") == {"total": "2"}
    assert figures(world, "LocalQueue", "other") == {"total": "3"}
    assert figures(world)["total"] == "5"
    world.finish("h-0")
    world.run()
    assert figures(world, "LocalQueue", "other") == {"total": "2"}  # member by member
    world.finish("h-1", "h-2")
    world.run()
    assert figures(world, "LocalQueue", "other", "flavorsReservation") == {"total": "0"}


@pytest.mark.parametrize(("cohort", "borrowed"), [("", "0"), ("c", "1")])
def test_what_is_above_a_quota_that_has_shrunk_is_borrowed_only_in_a_cohort(cohort, borrowed):
    """Kueue, pkg/cache/scheduler/cache.go `Usage` (0.20): without a cohort there is nobody to borrow from."""
    world = World()
    world.flavor()
    world.node("n1")
    world.queue("cq", 3, cohort=cohort)
    world.gang("g", 3, queue="queue")
    world.run()
    world.queue("cq", 2, cohort=cohort)
    world.run()
    for field in ("flavorsUsage", "flavorsReservation"):
        found = figures(world, field=field)
        assert (found["total"], found["borrowed"]) == ("3", borrowed)


def test_what_is_being_taken_out_holds_quota_and_is_not_admitted():
    """Kueue counts as reserving what holds quota, and as admitted what may keep it."""
    world = World()
    world.flavor()
    world.node("n1")
    world.queue("cq", 8)
    world.gang("g", 2, queue="queue")
    world.run()
    world.hold_evictions = True
    stop(world, "ClusterQueue", "cq", "HoldAndDrain")
    world.run()
    for kind, name in (("ClusterQueue", "cq"), ("LocalQueue", "queue")):
        status = world.status(kind, name)
        assert (status["reservingWorkloads"], status["admittedWorkloads"]) == (1, 0)
        assert figures(world, kind, name, "flavorsReservation")["total"] == "2"
        assert figures(world, kind, name)["total"] == "0"
    world.delete("g-0", "g-1")
    world.run()
    assert world.status("ClusterQueue", "cq")["reservingWorkloads"] == 0
    assert figures(world, field="flavorsReservation")["total"] == "0"


def test_a_reservation_for_members_that_are_promised_is_counted():
    world = World()
    world.flavor()
    world.node("n1")
    world.queue("cq", 8)
    world.workload("w", {"name": "main", "count": 3, "template": TEMPLATE}, queueName="queue")
    world.run()
    assert figures(world, "LocalQueue", "queue")["total"] == "3"


def test_free_quota_that_is_of_no_use_is_shown_as_such():
    """Ten GPUs are free by quota: drained, tainted and fragmented nodes offer fewer, and to no pod more than two."""
    world = World()
    world.flavor()
    world.queue("cq", 10)
    world.node("drained", gpus=8, cordoned=True)
    world.node("tainted", gpus=8, taints=[Taint("dedicated", "other", "NoSchedule")])
    world.node("not-ready", gpus=8, taints=[Taint("node.kubernetes.io/not-ready", "", "NoExecute")])
    for name in ("a", "b", "c"):
        world.node(name, gpus=8)
        world.pod(f"foreign-{name}", gpus=6, node=name, scheduler="default-scheduler")
    world.run()
    assert figures(world) == {
        "total": "0",
        "borrowed": "0",
        "nominal": "10",
        "free": "10",
        "usable": "6",
        "largest": "2",
    }


def test_a_flavor_that_tolerates_a_taint_can_use_the_nodes_that_have_it():
    world = World()
    world.flavor(
        nodeTaints=[{"key": "gpu", "value": "yes", "effect": "NoSchedule"}],
        tolerations=[{"key": "rented", "operator": "Exists"}],
    )
    world.queue("cq", 100)
    taints = [Taint("gpu", "yes", "NoSchedule"), Taint("rented", "", "NoSchedule")]
    world.node("n1", gpus=8, taints=taints)
    world.run()
    assert figures(world)["usable"] == "8"


def test_a_drained_node_is_shown_soon_and_costs_few_writes():
    world = World()
    world.flavor()
    world.queue("cq", 10)
    world.node("n1", gpus=8)
    world.run()
    assert figures(world)["usable"] == "8"
    world.log.clear()
    for gpus in (7, 6, 5, 4):
        world.node("n1", gpus=gpus)
        world.run()
    world.node("n1", gpus=4, cordoned=True)
    world.until(10)
    assert figures(world)["usable"] == "0"
    assert len(world.log) == 1
    assert world.engine.wakeup() is None


# Quota that is a part of what nodes offer.


def test_a_percentage_follows_the_nodes_of_its_flavor_as_they_come_and_go():
    world = World()
    world.flavor("a", nodeLabels={"kind": "a"})
    world.queue("cq", "75%", flavors=("a",))
    world.run()
    assert figures(world)["nominal"] == "0"
    world.node("a1", gpus=8, labels={"kind": "a"})
    world.node("b1", gpus=8, labels={"kind": "b"})
    world.run()
    assert figures(world)["nominal"] == "6"
    world.gang("g", 8, queue="queue")
    world.run()
    assert world.reason("PodGroup", "g") == "ExceedsMaxQuota"
    world.node("a2", gpus=4, labels={"kind": "a"})  # 75% of 12 are 9
    world.run()
    assert len(world.where("g")) == 8
    world.node("a2", gpus=4, labels={"kind": "a"}, cordoned=True)
    world.run()
    assert figures(world)["nominal"] == "6"
    assert len(world.where("g")) == 8  # what runs goes on
    assert figures(world)["free"] == "0"


def test_a_percentage_is_rounded_down_and_may_be_lent():
    world = World()
    world.flavor()
    world.queue("lender", "33%", cohort="c", local="")
    world.queue("cq", 0, cohort="c")
    world.node("n1", gpus=8)
    world.gang("g", 2, queue="queue")
    world.run()
    assert len(world.where("g")) == 2
    assert figures(world, name="lender")["nominal"] == "2"  # 2.64


def test_an_amount_is_what_it_says_whatever_nodes_there_are():
    world = World()
    world.flavor()
    world.queue("cq", 5)
    world.run()
    assert figures(world)["nominal"] == "5"


# The queue of those that name none.


def test_who_names_no_queue_waits_in_the_default_one_of_the_namespace():
    world = World()
    world.flavor()
    world.node("n1")
    world.queue("cq", 2, local="default")
    world.gang("g", 2)
    world.run()
    world.pod("p")
    world.run()
    assert sorted(world.where()) == ["g-0", "g-1"]
    assert world.used("cq") == 2
    assert world.status("LocalQueue", "default")["pendingWorkloads"] == 1


PFNET = "gang-scheduling.preferred.jp/gang"


@pytest.mark.parametrize("labelled", [False, True], ids=["annotated alone", "with a PodGroup that says so"])
@pytest.mark.parametrize("required", [False, True], ids=["default queue", "required queue"])
def test_a_gang_of_annotations_goes_round_no_queue(required, labelled):
    """Webhooks fill in nothing where a PodGroup says that it was made for such a gang; that says so is anybody's."""
    world = World(requireQueue=required)
    world.flavor()
    world.node("n1")
    world.queue("cq", 1, local="other" if required else "default")
    if labelled:
        spec = {"schedulingPolicy": {"gang": {"minCount": 2}}}
        world.object("PodGroup", "job", spec, labels={"scheduling.tutti.dev/implicit": "pfnet"})
    for rank in range(2):
        world.pod(f"job-{rank}", annotations={f"{PFNET}-name": "job", f"{PFNET}-size": "2"})
    world.pod("alone", gpus=2)
    world.until(60.0)
    assert world.where() == {}
    assert world.why("PodGroup", "job").gate == world.why("Pod", "alone").gate == ("Queue" if required else "Quota")


def test_a_default_queue_is_not_for_those_that_were_there_before_it():
    """They would use quota from one moment to the next; Kueue labels a job when it is made, and never later."""
    world = World()
    world.flavor()
    world.node("n1")
    world.pod("p")
    world.run()
    world.now += 10
    world.queue("cq", 2, local="default")
    world.run()
    assert world.used("cq") == 0
    world.restart()
    world.run()
    assert world.used("cq") == 0


def test_there_is_no_default_queue_where_it_is_switched_off():
    world = World(defaultLocalQueue="")
    world.flavor()
    world.node("n1")
    world.queue("cq", 2, local="default")
    world.pod("p")
    world.run()
    assert world.used("cq") == 0
    assert world.where("p")


def test_the_default_queue_may_have_another_name():
    world = World(defaultLocalQueue="team")
    world.flavor()
    world.node("n1")
    world.queue("cq", 2, local="team")
    world.pod("p")
    world.run()
    assert world.used("cq") == 1


# Queues that go.


def test_usage_outlives_its_local_queue_and_a_restart():
    world = World()
    world.flavor()
    world.node("n1")
    world.queue("cq", 2)
    world.gang("g", 2, queue="queue")
    world.run()
    world.remove_object("LocalQueue", "queue")
    world.run()
    assert world.used("cq") == 2
    world.restart()
    world.run()
    assert world.used("cq") == 2
    world.object("LocalQueue", "next", {"clusterQueue": "cq"})
    world.pod("p", queue="next")
    world.run()
    assert not world.where("p")
    world.finish("g-0", "g-1")
    world.run()
    assert world.where("p")


@pytest.mark.parametrize("selector", [None, {"matchLabels": {"kubernetes.io/metadata.name": "elsewhere"}}])
def test_a_queue_that_does_not_let_a_namespace_in_is_not_charged_for_what_its_pods_say(selector):
    world = World()
    world.flavor()
    world.node("n1")
    world.queue("cq", 2, namespaceSelector=selector)
    said = '{"clusterQueue": "cq", "flavors": {"nvidia.com/gpu": "default"}}'
    world.pod("thief", queue="gone", node="n1", annotations={ADMISSION_ANNOTATION: said})
    world.run()
    assert world.used("cq") == 0


def test_a_cluster_queue_that_goes_is_used_until_its_last_pod_has_ended():
    world = World()
    world.flavor()
    world.node("n1")
    world.queue("cq", 8)
    world.gang("g", 2, queue="queue")
    world.run()
    found = world.objects["ClusterQueue", "", "cq"]
    found["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    world.tell(ObjectSeen("ClusterQueue", found))
    world.run()
    assert world.used("cq") == 2
    world.restart()
    world.run()
    assert world.used("cq") == 2
    world.finish("g-0")
    world.run()
    assert world.used("cq") == 1
    world.finish("g-1")
    world.run()
    assert world.used("cq") == 0


def test_a_workload_that_is_set_inactive_is_not_pending():
    """It waits for nothing until it is set active again (Kueue, pkg/cache/queue: only active workloads are queued)."""
    world = World()
    world.queue("cq", 4)
    world.workload("w", {"name": "main", "count": 1}, queueName="queue", active=False)
    world.pod("w-0", workload="w")
    world.run()
    assert world.status("ClusterQueue", "cq")["pendingWorkloads"] == 0
    world.workload("w", {"name": "main", "count": 1}, queueName="queue", active=True)
    world.run()
    assert world.status("ClusterQueue", "cq")["pendingWorkloads"] == 1


def test_nothing_is_remembered_of_queues_that_are_gone():
    """Neither what they held nor what their objects were told, readable to the last or not."""
    world = World()
    world.node("n1")
    world.flavor()
    world.queue("stays", 8, local="stays")
    world.pod("p", queue="stays")
    world.run()
    counts = world.engine.state.counts
    before = (set(counts.reported), set(counts._counts))
    for number, spec in enumerate(({}, {"stopPolicy": "Perhaps"})):
        world.queue(f"c{number}", 2, local=f"l{number}")
        world.pod(f"q{number}", queue=f"l{number}")
        world.run()
        assert (set(counts.reported), set(counts._counts)) != before
        world.object("LocalQueue", f"l{number}", {"clusterQueue": f"c{number}", **spec})
        world.delete(f"q{number}")
        world.run()
        world.remove_object("LocalQueue", f"l{number}")
        world.remove_object("ClusterQueue", f"c{number}")
        world.run()
        assert (set(counts.reported), set(counts._counts)) == before


@pytest.mark.parametrize("gone_first", [True, False])
def test_who_waits_for_victims_stands_nowhere_once_its_local_queue_is_gone(gone_first):
    world = World()
    world.flavor()
    world.node("n1", gpus=8)
    world.queue("cq", 8, preemption={"withinClusterQueue": "LowerPriority"})
    world.gang("old", 2, queue="queue", gpus=4)
    world.run()
    world.hold_evictions = True
    world.gang("urgent", 2, queue="queue", gpus=4, priority=5)
    world.run()
    assert world.status("PodGroup", "urgent")["pendingReason"]["position"] == 1
    assert world.status("ClusterQueue", "cq")["pendingWorkloads"] == 1
    if gone_first:
        world.delete("old-0", "old-1")
    world.remove_object("LocalQueue", "queue")
    world.run()
    pending = world.status("PodGroup", "urgent")["pendingReason"]
    assert pending["reasons"][0]["reason"] == "LocalQueueNotFound"
    assert not pending.get("position")
    assert world.status("ClusterQueue", "cq")["pendingWorkloads"] == 0
