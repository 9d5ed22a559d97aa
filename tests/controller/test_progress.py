"""What becomes of workloads, in metrics and in the log."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from tests.engine.world import World
from tutti.controller.metrics import Metrics
from tutti.controller.progress import _EVENTS, ProgressReporter
from tutti.engine.records.explanation import LifecycleStep


class Told(World):
    """A world whose turns are told as the operator's are."""

    def __init__(self, **configuration):
        self.metrics, self.progress = Metrics(local_queues=True, clock=lambda: self.now), None
        super().__init__(**configuration)

    def _start(self, *, synced):
        super()._start(synced=synced)
        self.progress = ProgressReporter(self.engine, self.metrics)

    def decide(self, advance=0.0):
        decisions = super().decide(advance)
        self.progress.turned(0.001)
        return decisions

    def value(self, name, /, **labels):
        return self.metrics.registry.get_sample_value(name, labels)


@pytest.fixture
def world():
    world = Told()
    world.flavor()
    for name in ("a", "b"):
        rules = {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"}
        world.queue(name, 4, cohort="c", local=name, preemption=rules)
    world.node("n", gpus=8)
    return world


def test_admissions_are_counted_and_timed_per_queue(world):
    world.gang("g", 2, queue="a")
    world.now += 4.0
    world.run()
    world.finish("g-0", "g-1")
    world.run()

    assert world.value("kueue_admitted_workloads_total", cluster_queue="a") == 1
    assert world.value("kueue_admission_wait_time_seconds_sum", cluster_queue="a") == 4
    assert world.value("kueue_finished_workloads_total", cluster_queue="a") == 1
    assert world.value("kueue_admission_attempts_total", result="success") == 1
    assert world.value("kueue_admission_attempt_duration_seconds_count", result="success") == 1


def test_the_same_is_counted_per_local_queue_and_for_the_cohorts_above(world):
    world.object("Cohort", "c", {"parentName": "top"})
    world.object("LocalQueue", "other", {"clusterQueue": "a"})
    world.gang("g", 2, queue="a")
    world.gang("h", 1, queue="other")
    world.gang("i", 1, queue="b")
    world.now += 4.0
    world.run()
    world.finish("g-0", "g-1")
    world.run()

    door = {"name": "a", "namespace": "default"}
    assert world.value("kueue_local_queue_admitted_workloads_total", **door) == 1
    assert world.value("kueue_local_queue_admission_wait_time_seconds_sum", **door) == 4
    assert world.value("kueue_local_queue_finished_workloads_total", **door) == 1
    assert world.value("kueue_local_queue_admitted_workloads_total", name="other", namespace="default") == 1
    assert world.value("kueue_admitted_workloads_total", cluster_queue="a") == 2
    for cohort in ("c", "top"):
        assert world.value("kueue_cohort_subtree_admitted_workloads_total", cohort=cohort) == 3


def test_series_of_local_queues_and_cohorts_end_with_them(world):
    world.gang("g", 2, queue="a")
    world.run()
    assert world.value("kueue_local_queue_admitted_workloads_total", name="a", namespace="default") == 1
    world.queue("a", 4, local="")
    world.queue("b", 4, local="")
    world.remove_object("LocalQueue", "a")
    world.run()

    assert world.value("kueue_local_queue_admitted_workloads_total", name="a", namespace="default") is None
    assert world.value("kueue_cohort_subtree_admitted_workloads_total", cohort="c") is None
    assert world.value("kueue_admitted_workloads_total", cluster_queue="a") == 1


def test_turns_in_which_nobody_is_admitted_are_attempts_too(world):
    world.gang("holds", 8, queue="a")
    world.run()
    world.gang("waits", 5, queue="a")
    world.run()

    assert world.value("kueue_admission_attempts_total", result="inadmissible") >= 1


def test_victims_are_counted_by_reason_rule_and_queue(world):
    world.gang("lent", 8, queue="b")
    world.run()
    world.gang("own", 4, queue="a")
    world.run()

    assert world.value(
        "kueue_evicted_workloads_total", cluster_queue="b", reason="Preempted", underlying_cause=""
    ) == 1  # fmt: skip
    rule = {"preempting_cluster_queue": "a", "reason": "InCohortReclamation"}
    assert world.value("kueue_preempted_workloads_total", **rule) == 1
    assert world.value("scheduler_preemption_attempts_total") == 1
    assert world.value("scheduler_preemption_victims_sum") == 8


def test_being_set_inactive_has_a_cause_beside_its_reason(world):
    world.workload("w", {"name": "main", "count": 1}, queueName="a", maximumExecutionTimeSeconds=60)
    world.pod("w-0", workload="w")
    world.run()
    world.until(61)

    labels = {"cluster_queue": "a", "reason": "Deactivated", "underlying_cause": "MaximumExecutionTimeExceeded"}
    assert world.value("kueue_evicted_workloads_total", **labels) == 1


def test_series_of_a_queue_end_with_it(world):
    world.pod("p", queue="a")
    world.pod("q", queue="b")
    world.run()
    world.delete("p", "q")
    world.remove_object("LocalQueue", "a")
    world.remove_object("ClusterQueue", "a")
    world.run()

    families = [family for family in world.metrics.registry.collect() if family.name.startswith("kueue_admi")]
    queues = {s.labels["cluster_queue"] for family in families for s in family.samples if "cluster_queue" in s.labels}
    assert queues == {"b"}


def test_each_change_of_state_is_one_line_with_the_same_fields(world):
    with capture_logs() as lines:
        world.gang("lent", 8, queue="b")
        world.run()
        world.gang("own", 4, queue="a")
        world.run()
        world.finish(*(f"own-{rank}" for rank in range(4)))
        world.run()

    told = [(line["event"], line["name"]) for line in lines]
    assert told == [
        ("workload_admitted", "lent"),
        ("workload_scheduled", "lent"),
        ("eviction_begun", "lent"),
        ("victims_chosen", "own"),
        ("workload_admitted", "own"),
        ("workload_scheduled", "own"),
        ("workload_finished", "own"),
    ]
    for line in lines:
        assert line["log_level"] == "info"
        assert {"kind", "namespace", "name", "queue", "pods", "seconds"} <= line.keys()
    assert (lines[2]["reason"], lines[2]["rule"], lines[2]["for_queue"]) == ("Preempted", "InCohortReclamation", "a")


def test_a_single_pod_without_a_queue_is_one_line(world):
    with capture_logs() as lines:
        world.pod("p")
        world.run()
        world.finish("p")
        world.run()

    assert [line["event"] for line in lines if line["log_level"] == "info"] == ["workload_scheduled"]


SECONDS = "tutti_gang_degraded_seconds_total"


def test_the_time_that_gangs_are_degraded_is_counted_per_queue_as_it_passes(world):
    world.gang("g", 2, queue="a")
    world.gang("h", 2, queue="a")
    world.gang("other", 2, queue="b")
    world.gang("alone", 2)
    world.run()
    assert world.value(SECONDS, cluster_queue="a") is None
    world.delete("g-1", "alone-0")
    world.run()
    world.now += 100  # nothing happens, and somebody asks
    assert world.value(SECONDS, cluster_queue="a") == world.value(SECONDS, cluster_queue="") == 100
    world.delete("h-1")
    world.run()
    world.now += 50
    assert world.value(SECONDS, cluster_queue="a") == 200
    world.pod("g-2", group="g")
    world.pod("h-2", group="h")
    world.pod("alone-2", group="alone")
    world.run()
    world.now += 1000
    assert world.value(SECONDS, cluster_queue="a") == 200
    assert world.value(SECONDS, cluster_queue="") == 150
    assert world.value(SECONDS, cluster_queue="b") is None


def test_the_time_that_a_gang_was_degraded_stays_counted_when_it_is_deleted(world):
    world.gang("g", 2, queue="a")
    world.run()
    world.delete("g-1")
    world.run()
    world.now += 30
    world.remove_object("PodGroup", "g")
    world.delete("g-0")
    world.run()
    world.now += 30
    assert ("PodGroup", "default", "g") not in world.engine.state.workloads
    assert world.value(SECONDS, cluster_queue="a") == 30


def test_a_clock_that_is_set_back_takes_no_degraded_time_away(world):
    world.gang("g", 2, queue="a")
    world.run()
    world.delete("g-1")
    world.run()
    world.now += 30
    assert world.value(SECONDS, cluster_queue="a") == 30
    world.now -= 20
    assert world.value(SECONDS, cluster_queue="a") == 30
    world.now += 5
    assert world.value(SECONDS, cluster_queue="a") == 35


def test_degraded_time_is_counted_no_more_for_a_queue_that_is_gone(world):
    world.gang("g", 2, queue="a")
    world.run()
    world.delete("g-1")
    world.run()
    world.until(10)
    world.remove_object("LocalQueue", "a")
    world.remove_object("ClusterQueue", "a")
    world.delete("g-0")
    world.remove_object("PodGroup", "g")
    world.run()
    assert world.value(SECONDS, cluster_queue="a") is None


def test_a_gang_that_is_degraded_is_one_line_and_when_it_is_whole_again_another(world):
    world.gang("g", 2, queue="a")
    world.run()
    with capture_logs() as lines:
        world.delete("g-1")
        world.run()
        world.until(20)
        world.pod("g-2", group="g")
        world.run()

    assert [(line["event"], line["log_level"]) for line in lines] == [
        ("workload_degraded", "info"), ("workload_recovered", "info"),
    ]  # fmt: skip
    assert [(line["pods"], line["seconds"]) for line in lines] == [(1, 0), (0, 20)]
    assert lines[1]["reason"] == "Scheduled"


def test_a_gang_that_starts_again_is_counted_among_those_taken_out_by_reason(world):
    world.gang("g", 2, queue="a")
    world.run()
    world.delete("g-1")
    with capture_logs() as lines:
        world.until(301)

    assert world.value(
        "kueue_evicted_workloads_total", cluster_queue="a", reason="MemberLost", underlying_cause=""
    ) == 1  # fmt: skip
    said = {"workload_degraded": None, "eviction_begun": "MemberLost", "workload_recovered": "Leaving"}
    assert {line["event"]: line.get("reason") for line in lines} == said


def test_every_step_has_a_line(world):
    assert set(_EVENTS) == set(LifecycleStep)


def test_checks_are_timed_per_queue():
    world = World()
    metrics = Metrics()
    world.flavor()
    world.admission_check("budget")
    world.queue("cq", 8, admissionChecksStrategy={"admissionChecks": [{"name": "budget"}]})
    world.workload("w", {"count": 1}, queueName="queue")
    world.pod("w-0", workload="w")
    told = ProgressReporter(world.engine, metrics)
    with capture_logs() as lines:
        for _ in range(3):
            world.decide(advance=5)
            told.turned(0.0)
        world.answer_check("budget", "Ready")
        world.decide()
        told.turned(0.0)
    said = [line["event"] for line in lines]
    assert said == ["quota_reserved", "checks_passed"]
    found = metrics.registry.get_sample_value("kueue_admission_checks_wait_time_seconds_sum", {"cluster_queue": "cq"})
    assert found == 10
