"""What /metrics says of queues, workloads and nodes, against the engine's state counted anew."""

from __future__ import annotations

from collections import Counter
from math import isnan

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client import Counter as Counted

from tests.engine.world import GPU, World
from tutti.controller.gauges.collector import StateGauges
from tutti.controller.object_cache import ObjectCache
from tutti.engine.records.workloads import Phase

ANY = {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"}


class Asked:
    """The metrics of a world, and its objects as the controller knows them."""

    def __init__(self, world, *, leads=True, **options):
        self.catalogue = ObjectCache()
        self.registry = CollectorRegistry()
        self.leads = leads
        for (kind, _, _), raw in world.objects.items():
            self.catalogue.seen(kind, raw)
        self.failures = []
        leads, failed = (lambda: self.leads), self.failures.append
        StateGauges(world.engine, self.catalogue, self.registry, leads=leads, failed=failed, **options)

    def value(self, name, /, **labels):
        return self.registry.get_sample_value(name, labels)

    def samples(self, name):
        return {
            tuple(sample.labels.values()): sample.value
            for family in self.registry.collect()
            for sample in family.samples
            if sample.name == name
        }


@pytest.fixture
def world():
    """Two queues of a cohort on two racks of two nodes, with some of everything."""
    world = World()
    world.flavor("f", topologyName="racks")
    world.object("Topology", "racks", {"levels": [{"nodeLabel": "rack"}, {"nodeLabel": "kubernetes.io/hostname"}]})
    for name in ("a", "b"):
        world.queue(name, 8, cohort="c", local=name, flavors=("f",), preemption=ANY, lend=6, borrow=4)
    for number in range(4):
        world.node(f"n{number}", labels={"rack": f"r{number // 2}"})
    world.gang("runs", 3, queue="a")
    world.gang("too-large", 13, queue="a")
    world.gang("gathers", 2, min_count=4, queue="b")
    world.pod("single")
    world.pod("gated", gated=True)
    world.pod("alien", node="n3", gpus=2, scheduler="other")
    world.run()
    return world


def test_workloads_are_counted_by_queue_as_the_state_has_them(world):
    asked, state = Asked(world), world.engine.state
    found = Counter((w.cluster_queue or "b", w.phase) for w in state.workloads.values() if w.queue)

    assert asked.samples("kueue_pending_workloads") == {
        ("a", "active"): 0, ("a", "inadmissible"): 1, ("b", "active"): 0, ("b", "inadmissible"): 1,
    }  # fmt: skip
    admitted = asked.samples("kueue_admitted_active_workloads")
    assert admitted == {("a",): found["a", Phase.SCHEDULED], ("b",): 0}
    assert asked.samples("kueue_reserving_active_workloads") == admitted
    for name in "ab":
        pending = sum(asked.value("kueue_pending_workloads", cluster_queue=name, status=s) for s in STATUSES)
        assert pending == state.counts.of(name).pending


STATUSES = ("active", "inadmissible")


def test_those_who_are_taken_out_reserve_and_are_not_admitted(world):
    world.hold_evictions = True
    world.object("ClusterQueue", "a", {**world.objects["ClusterQueue", "", "a"]["spec"], "stopPolicy": "HoldAndDrain"})
    world.run()
    asked = Asked(world)

    assert asked.value("kueue_admitted_active_workloads", cluster_queue="a") == 0
    assert asked.value("kueue_reserving_active_workloads", cluster_queue="a") == 1
    quota = {"cohort": "c", "cluster_queue": "a", "flavor": "f", "resource": GPU}
    assert asked.value("kueue_cluster_queue_resource_reservation", **quota) == 3
    assert asked.value("kueue_cluster_queue_resource_usage", **quota) == 0
    assert asked.value("kueue_cluster_queue_status", cluster_queue="a", status="pending") == 1
    assert asked.value("kueue_cluster_queue_status", cluster_queue="b", status="active") == 1


def test_quota_is_told_in_cores_bytes_and_devices(world):
    asked, state = Asked(world), world.engine.state
    for resource, one in ((GPU, 1), ("cpu", 1000), ("memory", 1)):
        labels = {"cohort": "c", "cluster_queue": "a", "flavor": "f", "resource": resource}
        used = sum(m.charge.usage.get(("f", resource), 0) for m in state.members.values() if m.charge)
        assert asked.value("kueue_cluster_queue_resource_usage", **labels) == used / one
    assert asked.value("kueue_cluster_queue_nominal_quota", **{**labels, "resource": "cpu"}) == 10_000
    assert asked.value("kueue_cluster_queue_borrowing_limit", **{**labels, "resource": GPU}) == 4
    assert asked.value("kueue_cluster_queue_lending_limit", **{**labels, "resource": GPU}) == 6
    assert asked.value("kueue_cluster_queue_lending_limit", **labels) is None


def test_who_waits_is_told_by_gate_and_reason(world):
    asked = Asked(world)

    assert asked.samples("tutti_waiting_workloads") == {
        ("a", "Quota", world.reason("PodGroup", "too-large")): 1,
        ("b", "Gather", world.reason("PodGroup", "gathers")): 1,
        ("", "Gather", "SchedulingGated"): 1,
    }
    assert asked.samples("scheduler_pending_pods") == {
        ("active",): 0, ("backoff",): 0, ("unschedulable",): 13, ("gated",): 3,
    }  # fmt: skip


def test_what_nodes_offer_is_split_into_what_becomes_of_it(world):
    world.hold_binds = True
    world.pod("on-its-way", gpus=4)
    world.node("cordoned", gpus=8, cordoned=True)
    world.run()
    shares = {where: n for (resource, where), n in Asked(world).samples("tutti_node_resources").items()
              if resource == GPU}  # fmt: skip

    assert shares == {"bound": 6, "reserved": 4, "free": 22, "closed": 8}
    nodes = world.engine.state.cluster.nodes
    assert sum(shares.values()) == nodes.allocatable[:, nodes.resource_index.column(GPU)].sum()


def test_fragmentation_is_what_is_free_outside_of_whole_domains():
    world = World()
    world.object("Topology", "racks", {"levels": [{"nodeLabel": "rack"}, {"nodeLabel": "kubernetes.io/hostname"}]})
    for number in range(4):
        world.node(f"n{number}", labels={"rack": f"r{number // 2}"})
    world.node("no-rack", gpus=2)
    for name, node, gpus in (("p", "n0", 1), ("q", "n2", 6), ("r", "n3", 2)):
        world.pod(name, node=node, gpus=gpus)
    world.run()
    asked = Asked(world)

    def told(metric, topology, level):
        return asked.value(metric, topology=topology, level=level, resource=GPU)

    # Free: 7 and 8 in one rack, 2 and 6 in the other, 2 in none.
    assert told("tutti_fragmentation", "", "node") == pytest.approx(1 - (8 + 2) / 25)
    assert told("tutti_fragmentation", "racks", "rack") == pytest.approx(1 - 15 / 23)  # 15 of 16 are nine tenths
    assert told("tutti_largest_free", "racks", "rack") == 15
    assert told("tutti_largest_free", "", "node") == 8
    assert told("tutti_fragmentation", "racks", "kubernetes.io/hostname") == pytest.approx(1 - 8 / 23)


def test_a_gang_that_is_bound_in_part_counts_only_after_its_bind_window():
    world = World(bindWindowSeconds=10)
    world.node("n")
    world.outcomes["g-1"] = ["Unknown"] * 50
    world.gang("g", 2)
    world.run()
    asked = Asked(world)
    assert asked.value("tutti_partial_gangs") == 0

    world.now += 11.0
    world.engine.state.now = world.now  # no turn has come that would take it out
    assert asked.value("tutti_partial_gangs") == 1


def test_a_standby_tells_nothing_of_the_cluster(world):
    asked = Asked(world, leads=False)

    assert [sample for family in asked.registry.collect() for sample in family.samples] == []
    asked.leads = True
    assert asked.value("tutti_partial_gangs") == 0


def test_a_queue_that_is_gone_has_no_series(world):
    asked = Asked(world)
    world.remove_object("LocalQueue", "b")
    world.remove_object("ClusterQueue", "b")
    asked.catalogue.gone("ClusterQueue", "", "b")
    world.run()

    queues = {s.labels["cluster_queue"] for f in asked.registry.collect() for s in f.samples if QUEUE in s.labels}
    assert queues == {"a", ""}


QUEUE = "cluster_queue"


def test_tries_are_told_by_result_and_profile(world):
    asked = Asked(world)

    assert asked.samples("scheduler_schedule_attempts_total") == {("scheduled", "tutti"): 1}
    assert asked.samples("scheduler_podgroup_schedule_attempts_total")["scheduled", "tutti"] == 1
    assert asked.value("scheduler_cache_size", type="nodes") == 4
    assert asked.value("scheduler_cache_size", type="pods") == len(world.engine.state.cluster.pods)


def test_local_queues_are_told_where_that_is_asked_for(world):
    for local, size in (("second", 2), ("third", 4)):
        world.object("LocalQueue", local, {"clusterQueue": "b"})
        world.gang(local, size, queue=local)
    world.object("LocalQueue", "held", {"clusterQueue": "b", "stopPolicy": "Hold"})
    world.run()
    asked, state = Asked(world, local_queues=True), world.engine.state
    doors = [("a", "default"), ("b", "default"), ("second", "default"), ("third", "default"), ("held", "default")]

    for metric, counted in (
        ("kueue_local_queue_admitted_active_workloads", lambda one: one.admitted),
        ("kueue_local_queue_reserving_active_workloads", lambda one: one.admitted + one.leaving),
    ):
        assert asked.samples(metric) == {(n, ns): counted(state.counts.of(f"{ns}/{n}")) for n, ns in doors}
    pending = asked.samples("kueue_local_queue_pending_workloads")
    assert {key: n for key, n in pending.items() if n} == {
        ("a", "default", "inadmissible"): 1, ("b", "default", "inadmissible"): 1,
    }  # fmt: skip
    assert len(pending) == 2 * len(doors)
    usage = asked.samples("kueue_local_queue_resource_usage")
    assert {name: n for (name, _, _, resource), n in usage.items() if resource == GPU} == {
        "a": 3, "b": 0, "second": 2, "third": 4, "held": 0,
    }  # fmt: skip
    assert usage == asked.samples("kueue_local_queue_resource_reservation")
    active = {
        name for (name, _, status), n in asked.samples("kueue_local_queue_status").items() if n and status == "True"
    }
    assert active == {"a", "b", "second", "third"}


def test_local_queues_are_not_told_unasked(world):
    assert not [one for one in Asked(world).registry.collect() if one.name.startswith("kueue_local_queue_")]


def test_what_is_taken_out_of_a_local_queue_is_reserved_and_not_used(world):
    world.hold_evictions = True
    world.object("LocalQueue", "a", {"clusterQueue": "a", "stopPolicy": "HoldAndDrain"})
    world.run()
    asked = Asked(world, local_queues=True)

    quota = {"name": "a", "namespace": "default", "flavor": "f", "resource": GPU}
    assert asked.value("kueue_local_queue_resource_reservation", **quota) == 3
    assert asked.value("kueue_local_queue_resource_usage", **quota) == 0
    assert asked.value("kueue_local_queue_reserving_active_workloads", name="a", namespace="default") == 1


def test_cohorts_are_told_with_all_that_is_below_them(world):
    group = {"coveredResources": [GPU], "flavors": [{"name": "f", "resources": [{"name": GPU, "nominalQuota": 5}]}]}
    world.object("Cohort", "c", {"parentName": "top", "resourceGroups": [group]})
    world.gang("more", 2, queue="b")
    world.run()
    asked = Asked(world)

    for name in ("c", "top"):
        quota = {"cohort": name, "flavor": "f", "resource": GPU}
        assert asked.value("kueue_cohort_subtree_quota", **quota) == 5 + 2 * 6  # of 8 each, 6 are lent
        assert asked.value("kueue_cohort_subtree_resource_reservations", **quota) == 3 + 2
        assert asked.value("kueue_cohort_subtree_admitted_active_workloads", cohort=name) == 2
    assert set(asked.samples("kueue_cohort_info")) == {("c", "top", "top"), ("top", "", "top")}
    assert set(asked.samples("kueue_cluster_queue_info")) == {("a", "c", "top"), ("b", "c", "top")}


def test_shares_are_told_where_they_count():
    def borrowing(**configuration):
        world = World(**configuration)
        world.flavor()
        for name, weight in (("a", "2"), ("b", "1"), ("c", "0")):
            world.queue(name, 4, cohort="co", local=name, fairSharing={"weight": weight})
        world.node("n", gpus=16)
        world.gang("g", 7, queue="a")
        world.gang("h", 5, queue="c")
        world.run()
        return Asked(world)

    asked = borrowing(fairSharing={"enable": True})
    share = asked.samples("kueue_cluster_queue_weighted_share")
    assert share["a", "co"] == 125  # 3 of 12, by a weight of 2
    assert share["b", "co"] == 0
    assert isnan(share["c", "co"])
    assert asked.value("kueue_cohort_weighted_share", cohort="co") == 0
    unfair = borrowing()
    assert unfair.samples("kueue_cluster_queue_weighted_share") == unfair.samples("kueue_cohort_weighted_share") == {}


def test_degraded_gangs_are_told_by_queue_with_since_when_the_first_of_them_is(world):
    world.gang("g", 2, queue="a")
    world.gang("alone", 2)
    world.run()
    asked = Asked(world)
    assert asked.samples("tutti_gangs_degraded") == {("a",): 0, ("b",): 0, ("",): 0}
    assert asked.samples("tutti_gang_degraded_since_timestamp_seconds") == {}
    world.delete("runs-0")
    world.run()
    first = world.now
    world.until(60)
    world.delete("g-1", "alone-1")
    world.run()
    assert asked.samples("tutti_gangs_degraded") == {("a",): 2, ("b",): 0, ("",): 1}
    assert asked.samples("tutti_gang_degraded_since_timestamp_seconds") == {("a",): first, ("",): world.now}
    world.pod("runs-3", group="runs")
    world.run()
    assert asked.samples("tutti_gangs_degraded")["a",] == 1
    assert asked.samples("tutti_gang_degraded_since_timestamp_seconds")["a",] == world.now
    asked.leads = False
    assert asked.samples("tutti_gangs_degraded") == {}


def test_a_gang_that_is_taken_out_to_start_again_is_degraded_no_more(world):
    asked = Asked(world)
    world.delete("runs-0")
    world.until(299)
    assert asked.value("tutti_gangs_degraded", cluster_queue="a") == 1
    world.until(2)
    assert asked.value("tutti_gangs_degraded", cluster_queue="a") == 0


def test_how_long_a_gang_is_degraded_is_told_after_a_restart_too(world):
    world.delete("runs-0")
    world.run()
    since = int(world.now)
    world.until(100)
    world.restart()
    world.run()
    asked = Asked(world)
    assert asked.samples("tutti_gang_degraded_since_timestamp_seconds") == {("a",): since}


def test_a_state_that_cannot_be_read_is_told_and_leaves_everything_else_measured(world):
    class Broken:
        objects = world.objects

        @property
        def engine(self):
            return self

        @property
        def state(self):
            raise ValueError("in doubt")

    asked = Asked(Broken())
    Counted("other", "Of somebody else.", registry=asked.registry).inc()
    assert asked.value("other_total") == 1
    assert [str(error) for error in asked.failures] == ["in doubt"]
    assert asked.samples("kueue_pending_workloads") == {}


def test_reservations_are_told_by_what_they_are_for(world):
    """All kinds that outlive a turn, each with the nodes on which room is kept."""
    asked = Asked(world)
    kinds = ("nomination", "backfill", "holdback", "successors", "members", "move")
    assert asked.samples("tutti_reservations") == {(kind,): 0 for kind in kinds}
    world.delete("runs-0")
    world.run()
    assert asked.value("tutti_reservations", kind="successors") == 1
    assert asked.value("tutti_reservation_nodes", kind="successors") == 1
    world.hold_evictions = True
    world.pod("high", gpus=8, priority=10)
    world.run()
    assert asked.value("tutti_reservations", kind="nomination") == 1
    assert asked.value("tutti_reservation_nodes", kind="nomination") == 1
    template = {"spec": {"schedulerName": "tutti", "containers": [{"resources": {"requests": {"cpu": "1"}}}]}}
    world.workload("to-come", {"name": "main", "count": 2, "template": template}, queueName="b")
    world.run()
    assert asked.value("tutti_reservations", kind="members") == 1
    assert asked.value("tutti_reservation_nodes", kind="members") >= 1
    asked.leads = False
    assert asked.samples("tutti_reservations") == asked.samples("tutti_reservation_nodes") == {}


@pytest.mark.parametrize(("options", "kind", "nodes"), [({"backfill": "Reserved"}, "backfill", 1), ({}, "holdback", 0)])
def test_what_is_kept_for_the_head_of_a_queue_is_told(options, kind, nodes):
    world = World()
    world.flavor()
    world.node("n0")
    world.queue("mine", 4, cohort="c", **options)
    world.queue("theirs", 4, cohort="c", local="theirs")
    world.gang("run", 4, queue="theirs")
    world.gang("more", 4, queue="theirs")
    world.run()
    world.gang("head", 4, queue="queue")
    world.run()
    asked = Asked(world)
    assert asked.value("tutti_reservations", kind=kind) == 1
    assert asked.value("tutti_reservation_nodes", kind=kind) == nodes


def test_users_of_a_queue_that_limits_them_are_told_with_what_they_may_have():
    world = World(users={"by": "Annotation", "groups": [{"name": "lab", "users": ["anna"]}]})
    world.node("n1")
    world.flavor()
    limits = [{"users": ["*"], "resources": {GPU: 2, "cpu": "1500m"}}, {"groups": ["lab"], "workloads": 4}]
    world.queue("team", 8, userLimits=limits)
    for name, user in (("a0", "anna"), ("a1", "anna"), ("b0", "bert")):
        world.pod(name, queue="queue", annotations={"scheduling.tutti.dev/user": user})
    world.run()
    asked = Asked(world)
    assert asked.samples("tutti_user_workloads") == {
        ("team", "user", "anna"): 1,
        ("team", "user", "bert"): 1,
        ("team", "group", "lab"): 1,
    }
    assert asked.samples("tutti_user_resource_usage")["team", "user", "anna", "cpu"] == 1
    assert asked.samples("tutti_user_resource_limit")["team", "user", "anna", "cpu"] == 1.5
    assert asked.samples("tutti_user_resource_limit")["team", "user", "bert", GPU] == 2
    assert asked.failures == []


def test_throttles_are_told_under_the_names_that_kube_throttler_has():
    world = World(throttles={"name": "kube-throttler"})
    world.node("n1")
    selector = {"selectorTerms": [{"podSelector": {"matchLabels": {"app": "x"}}}]}
    threshold = {"resourceCounts": {"pod": 3}, "resourceRequests": {"cpu": "2"}}
    spec = {"throttlerName": "kube-throttler", "selector": selector, "threshold": threshold}
    world.throttle("Throttle", {"metadata": {"name": "t", "namespace": "default", "uid": "u"}, "spec": spec})
    for name in ("p0", "p1", "p2"):
        world.pod(name, labels={"app": "x"})
    world.run()
    asked = Asked(world)
    assert asked.samples("throttle_spec_threshold_resourceCounts") == {("default", "t", "pod"): 3}
    assert asked.samples("throttle_status_calculated_threshold_resourceRequests") == {("default", "t", "cpu"): 2}
    assert asked.samples("throttle_status_used_resourceCounts") == {("default", "t", "pod"): 2}
    assert asked.samples("throttle_status_used_resourceRequests")["default", "t", "cpu"] == 2
    assert asked.samples("throttle_status_throttled_resourceRequests") == {("default", "t", "cpu"): 1}
    assert asked.samples("throttle_status_throttled_resourceCounts") == {("default", "t", "pod"): 0}
    assert asked.samples("clusterthrottle_status_used_resourceCounts") == {}
