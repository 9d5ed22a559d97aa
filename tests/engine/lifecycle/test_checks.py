"""Admission checks: quota is held without nodes until all have answered (Kueue 0.20, KEP-993)."""

from __future__ import annotations

import pytest

from tests.engine.checked import ONE, checked, states
from tests.engine.world import World
from tutti.api.selectors import Taint, Toleration
from tutti.engine.records.decisions import Deactivate, ResetChecks


def test_quota_is_held_without_nodes_until_the_check_is_ready():
    world = checked()
    world.run()
    assert world.used("cq") == 2
    assert states(world) == {"budget": "Pending"}
    assert world.condition("Workload", "w", "QuotaReserved")["status"] == "True"
    admitted = world.condition("Workload", "w", "Admitted")
    assert (admitted["status"], admitted["reason"]) == ("False", "ChecksPending")
    said = world.status("Workload", "w")
    assert said["checksRound"] == said["admission"]["round"] == 1
    (part,) = said["admission"]["podGroups"]
    assert (part["count"], part["flavors"]["nvidia.com/gpu"]) == (2, "default")
    assert {"flavor": "default", "resource": "nvidia.com/gpu", "amount": "2"} in part["held"]
    world.node("n1", gpus=8)  # nodes come after quota, and are not taken before the answer
    world.run()
    assert world.where() == {}
    assert world.pod_condition("w-0").reason == "ChecksPending"
    world.answer_check("budget", "Ready")
    world.run()
    assert world.where() == {"w-0": "n1", "w-1": "n1"}
    assert world.used("cq") == 2
    assert world.condition("Workload", "w", "Admitted")["status"] == "True"
    assert not world.replay().differences


def test_a_check_that_does_not_answer_gives_the_quota_back_and_a_new_round_begins():
    world = checked(strategy={**ONE, "pendingTimeoutSeconds": 60})
    world.run()
    world.until(59)
    assert world.used("cq") == 2
    world.decide(advance=1)
    assert world.used("cq") == 0
    assert "AdmissionCheck budget did not answer within 60 s" in world.why("Workload", "w").message
    world.until(30)
    assert world.used("cq") == 2
    assert world.status("Workload", "w")["checksRound"] == 2
    assert states(world) == {"budget": "Pending"}


def test_an_answer_of_an_earlier_round_means_nothing():
    world = checked(strategy={**ONE, "pendingTimeoutSeconds": 60})
    world.run()
    world.decide(advance=60)
    world.answer_check("budget", "Retry", requeueAfterSeconds=10_000)  # written while it was taken out
    world.node("n1", gpus=8)
    world.until(60)
    assert states(world) == {"budget": "Pending"}
    assert world.used("cq") == 2
    world.answer_check("budget", "Ready")
    world.run()
    assert len(world.where()) == 2


def test_retry_gives_the_quota_back_for_as_long_as_the_check_says():
    world = checked()
    world.node("n1", gpus=8)
    world.run()
    world.answer_check("budget", "Retry", requeueAfterSeconds=120, message="no money before noon")
    world.run()
    assert world.used("cq") == 0
    why = world.why("Workload", "w")
    assert (why.gate, why.reason) == ("Checks", "AdmissionCheck")
    assert "no money before noon" in why.message
    assert world.condition("Workload", "w", "Evicted")["reason"] == "AdmissionCheck"
    assert world.condition("Workload", "w", "Requeued")["status"] == "False"
    world.until(119)
    assert world.used("cq") == 0
    assert states(world) == {"budget": "Retry"}
    world.until(1)
    assert world.used("cq") == 2
    (entry,) = world.status("Workload", "w")["admissionChecks"]
    assert (entry["state"], entry["retryCount"]) == ("Pending", 1)
    assert world.condition("Workload", "w", "Requeued")["status"] == "True"


def test_the_latest_of_several_retries_counts_and_none_brings_it_forward():
    world = checked(strategy={"admissionChecks": [{"name": "budget"}, {"name": "data"}]})
    world.admission_check("data")
    world.node("n1", gpus=8)
    world.run()
    world.answer_check("budget", "Retry", requeueAfterSeconds=100)
    world.answer_check("data", "Retry", requeueAfterSeconds=300)
    world.run()
    world.answer_check("budget", "Retry", requeueAfterSeconds=1)
    world.run()
    world.until(299)
    assert world.used("cq") == 0
    world.until(1)
    assert world.used("cq") == 2


def test_retry_without_a_time_waits_for_the_usual_backoff():
    world = checked()
    world.run()
    for _ in range(3):
        world.answer_check("budget", "Retry", requeueAfterSeconds=0)
        world.run()
        assert world.used("cq") == 0
        world.until(60)
        assert world.used("cq") == 2


def test_rejected_is_looked_at_before_retry_and_sets_the_workload_inactive():
    world = checked(strategy={"admissionChecks": [{"name": "budget"}, {"name": "data"}]})
    world.admission_check("data")
    world.run()
    found = world.objects["Workload", "default", "w"]
    world.objects["Workload", "default", "w"] = found
    world.answer_check("data", "Rejected", message="no such data")
    world.answer_check("budget", "Retry", requeueAfterSeconds=5)
    world.run()
    assert world.used("cq") == 0
    assert [one.name for one in world.log if isinstance(one, Deactivate)] == ["w"]
    assert world.objects["Workload", "default", "w"]["spec"]["active"] is False
    (event,) = world.events("AdmissionCheckRejected")
    assert "AdmissionCheck data rejects it (no such data)" in event.note
    world.until(1000)
    assert world.used("cq") == 0
    spec = {**world.objects["Workload", "default", "w"]["spec"], "active": True}
    world.object("Workload", "w", spec)
    world.run()
    assert states(world) == {"budget": "Pending", "data": "Pending"}
    assert world.used("cq") == 2


@pytest.mark.parametrize("state", ["Retry", "Rejected"])
def test_a_check_may_take_out_what_runs(state: str):
    world = checked()
    world.node("n1", gpus=8)
    world.run()
    world.answer_check("budget", "Ready")
    world.run()
    assert len(world.where()) == 2
    world.answer_check("budget", state)
    world.run()
    assert world.where() == {}
    assert world.condition("Workload", "w", "Evicted")["status"] == "True"
    assert world.used("cq") == 0


def test_a_check_for_a_flavor_that_the_queue_has_not_lets_nobody_past():
    world = World()
    world.flavor()
    world.admission_check("budget")
    strategy = {"admissionChecks": [{"name": "budget", "onFlavors": ["defualt"]}]}
    world.queue("cq", 8, admissionChecksStrategy=strategy)
    world.pod("p", queue="queue")
    world.run()

    why = world.why("Pod", "p")
    assert why.reason == "ClusterQueueInactive"
    assert "onFlavors names defualt, which is no flavor of this queue; it has default" in why.message
    assert world.where() == {}


def test_a_queue_is_inactive_while_a_check_is_missing_or_inactive():
    world = World()
    world.flavor()
    world.queue("cq", 8, admissionChecksStrategy=ONE)
    world.workload("w", {"count": 1}, queueName="queue")
    world.pod("w-0", workload="w")
    world.run()
    why = world.why("Workload", "w")
    assert why.reason == "ClusterQueueInactive"
    assert "AdmissionCheck budget does not exist" in why.message
    world.admission_check("budget", active=False)
    world.run()
    assert "is not active" in world.why("Workload", "w").message
    world.check_active("budget", active=True)
    world.run()
    assert states(world) == {"budget": "Pending"}


def test_a_check_is_asked_only_for_its_flavors():
    world = World()
    world.flavor("fixed", nodeLabels={"pool": "fixed"})
    world.flavor("cloud", nodeLabels={"pool": "cloud"})
    world.admission_check("budget")
    strategy = {"admissionChecks": [{"name": "budget", "onFlavors": ["cloud"]}]}
    world.queue("cq", 2, flavors=("fixed", "cloud"), admissionChecksStrategy=strategy)
    world.node("f1", gpus=2, labels={"pool": "fixed"})
    world.gang("a", 2, queue="")
    for name in ("a", "b"):
        world.workload(name, {"count": 2}, queueName="queue")
        for rank in range(2):
            world.pod(f"{name}{rank}", workload=name)
    world.run()
    bound = {name for name in world.where() if name in ("a0", "a1", "b0", "b1")}
    assert len(bound) in (0, 2)
    asked = [one.name for one in world.log if isinstance(one, ResetChecks)]
    assert len(asked) in (1, 2)


def test_a_flavor_with_checks_comes_after_one_that_has_nodes():
    world = World()
    world.flavor("fixed", nodeLabels={"pool": "fixed"})
    world.flavor("cloud", nodeLabels={"pool": "cloud"})
    world.admission_check("budget")
    strategy = {"admissionChecks": [{"name": "budget", "onFlavors": ["cloud"]}]}
    world.queue("cq", 8, flavors=("fixed", "cloud"), admissionChecksStrategy=strategy)
    world.node("f1", gpus=2, labels={"pool": "fixed"})
    for name in ("a", "b"):
        world.workload(name, {"count": 2}, queueName="queue")
        for rank in range(2):
            world.pod(f"{name}-{rank}", workload=name)
    world.run()
    assert set(world.where()) == {"a-0", "a-1"}
    assert (world.used("cq", "fixed"), world.used("cq", "cloud")) == (2, 2)
    assert states(world, name="b") == {"budget": "Pending"}
    world.node("c1", gpus=2, labels={"pool": "cloud"})
    world.answer_check("budget", "Ready", of="b")
    world.run()
    assert world.where("b") == {"b-0": "c1", "b-1": "c1"}


def test_a_gang_that_can_start_does_not_wait_for_a_check_to_have_more_members():
    world = World()
    world.flavor("fixed", nodeLabels={"pool": "fixed"})
    world.flavor("cloud", nodeLabels={"pool": "cloud"})
    world.admission_check("budget")
    strategy = {"admissionChecks": [{"name": "budget", "onFlavors": ["cloud"]}]}
    world.queue("cq", 8, flavors=("fixed", "cloud"), admissionChecksStrategy=strategy)
    world.node("f1", gpus=2, labels={"pool": "fixed"})
    world.workload("a", {"count": 4, "minCount": 2}, queueName="queue")
    for rank in range(4):
        world.pod(f"a-{rank}", workload="a")
    world.run()
    assert world.where() == {"a-0": "f1", "a-1": "f1"}
    assert (world.used("cq", "fixed"), world.used("cq", "cloud")) == (2, 0)
    assert states(world, name="a") == {}


def test_a_gang_without_a_workload_is_asked_about_on_its_pod_group():
    world = World()
    world.flavor()
    world.admission_check("budget")
    world.queue("cq", 8, admissionChecksStrategy=ONE)
    world.object("PodGroup", "g", {"schedulingPolicy": {"gang": {"minCount": 2}}, "queueName": "queue"})
    world.pod("g-0", group="g")
    world.pod("g-1", group="g")
    world.node("n1", gpus=8)
    world.run()
    assert states(world, "PodGroup", "g") == {"budget": "Pending"}
    assert world.condition("PodGroup", "g", "QuotaReserved")["status"] == "True"
    world.restart()
    world.run()
    assert world.used("cq") == 2
    assert world.status("PodGroup", "g")["checksRound"] == 1
    world.answer_check("budget", "Ready", kind="PodGroup", of="g")
    world.run()
    assert len(world.where()) == 2
    assert "held" not in str(world.status("PodGroup", "g")["admission"])
    world.restart()
    world.run()
    world.answer_check("budget", "Retry", kind="PodGroup", of="g")
    world.run()
    assert world.where() == {}


def test_a_single_pod_is_told_that_nothing_can_answer_for_it():
    world = World()
    world.flavor()
    world.admission_check("budget")
    world.queue("cq", 8, admissionChecksStrategy=ONE)
    world.pod("p", queue="queue")
    world.node("n1", gpus=8)
    world.run()
    why = world.why("Pod", "p")
    assert (why.gate, why.reason) == ("Checks", "NoObjectForChecks")
    assert world.used("cq") == 0


@pytest.mark.parametrize("answer", ["", "Ready"], ids=["holds quota", "runs"])
def test_nobody_leaves_for_a_single_pod_that_nothing_can_answer_for(answer):
    """Its quota would be no use to it: who has left gets it again, and would have to leave again at once."""
    world = checked(gpus=2, preemption={"withinClusterQueue": "LowerPriority"})
    world.node("n1", gpus=8)
    world.run()
    if answer:
        world.answer_check("budget", answer)
        world.run()
    had = world.where()
    world.pod("p", queue="queue", gpus=2, priority=10)
    world.run()
    assert world.events("Preempted") == []
    assert (world.used("cq"), world.where()) == (2, had)
    assert world.reason("Pod", "p") == "NoObjectForChecks"


def test_a_single_pod_takes_others_out_in_a_flavor_that_asks_nobody():
    world = World()
    world.admission_check("budget")
    for name in "ab":
        world.flavor(name, nodeLabels={"kind": name})
        world.node(name, gpus=8, labels={"kind": name})
    strategy = {"admissionChecks": [{"name": "budget", "onFlavors": ["a"]}]}
    within = {"withinClusterQueue": "LowerPriority"}
    world.queue("cq", 2, flavors=("a", "b"), admissionChecksStrategy=strategy, preemption=within)
    for name in "ab":
        world.pod_group(name, 1, queueName="queue")
        world.pod(f"{name}-0", group=name, gpus=2, selector={"kind": name})
    world.run()
    world.answer_check("budget", "Ready", kind="PodGroup", of="a")
    world.run()
    world.pod("p", queue="queue", gpus=2, priority=10)
    world.run()
    assert world.where() == {"a-0": "a", "p": "b"}


def test_a_reset_that_fails_is_asked_for_again():
    world = checked()
    world.refuse_resets = True
    world.run()
    assert states(world) == {}
    world.refuse_resets = False
    world.until(10)
    assert states(world) == {"budget": "Pending"}


def test_a_check_that_was_ready_and_is_pending_again_is_waited_for():
    world = checked(gpus=2)
    world.run()
    world.answer_check("budget", "Ready")
    world.run()
    assert world.why("Workload", "w").gate == "Placement"
    world.answer_check("budget", "Pending")
    world.node("n1", gpus=8)
    world.run()
    assert world.where() == {}
    assert world.reason("Workload", "w") == "ChecksPending"
    world.answer_check("budget", "Ready")
    world.run()
    assert len(world.where()) == 2


def test_a_check_that_the_queue_asks_for_later_is_asked_as_well():
    world = checked()
    world.admission_check("data")
    world.run()
    world.answer_check("budget", "Ready", message="fine")
    spec = world.objects["ClusterQueue", "", "cq"]["spec"]
    both = {"admissionChecks": [{"name": "budget"}, {"name": "data"}]}
    world.object("ClusterQueue", "cq", {**spec, "admissionChecksStrategy": both})
    world.node("n1", gpus=8)
    world.run()
    assert states(world) == {"budget": "Ready", "data": "Pending"}
    assert world.where() == {}
    world.answer_check("data", "Ready")
    world.run()
    assert len(world.where()) == 2


def test_in_a_strict_queue_those_behind_are_tried_while_one_waits_for_its_checks():
    world = checked(gpus=4, queueingStrategy="StrictFIFO")
    world.workload("v", {"count": 2}, queueName="queue")
    world.pod("v-0", workload="v")
    world.pod("v-1", workload="v")
    world.node("n1", gpus=2)
    world.run()
    assert world.used("cq") == 4
    world.answer_check("budget", "Ready", of="v")
    world.run()
    assert set(world.where()) == {"v-0", "v-1"}
    world.answer_check("budget", "Ready")
    world.run()
    assert world.why("Workload", "w").gate == "Placement"


def test_an_approval_comes_after_the_checks():
    world = checked()
    found = world.objects["Workload", "default", "w"]
    gate = {"scheduling.tutti.dev/admission-gate": "finance"}
    world.put_object("Workload", {**found, "metadata": {**found["metadata"], "annotations": gate}})
    world.node("n1", gpus=8)
    world.run()
    assert world.reason("Workload", "w") == "ChecksPending"
    world.answer_check("budget", "Ready")
    world.run()
    assert world.reason("Workload", "w") == "WaitingForApproval"
    found = world.objects["Workload", "default", "w"]
    world.put_object("Workload", {**found, "metadata": {**found["metadata"], "annotations": {}}})
    world.run()
    assert len(world.where()) == 2
    assert world.used("cq") == 2


def test_checks_add_annotations_and_where_pods_may_go():
    world = checked()
    world.node("n1", gpus=8)
    world.node("n2", gpus=8, labels={"zone": "b"}, taints=[Taint("spot", "NoSchedule")])
    world.run()
    update = {
        "name": "main",
        "annotations": {"example.com/ticket": "7"},
        "labels": {"example.com/paid": "yes"},
        "nodeSelector": {"zone": "b"},
        "tolerations": [{"key": "spot", "operator": "Exists"}],
    }
    world.answer_check("budget", "Ready", podSetUpdates=[update])
    world.run()
    assert world.where() == {"w-0": "n2", "w-1": "n2"}
    meta = world.pods["default", "w-0"].metadata
    assert (meta.annotations["example.com/ticket"], meta.labels["example.com/paid"]) == ("7", "yes")
    assert world.pods["default", "w-0"].spec.tolerations == [Toleration("spot", "Exists")]


def test_a_check_that_would_change_something_is_as_good_as_one_that_rejects():
    world = checked(selector={"zone": "a"})
    world.node("n1", gpus=8)
    world.run()
    update = {"name": "main", "nodeSelector": {"zone": "b"}}
    world.answer_check("budget", "Ready", podSetUpdates=[update])
    world.run()
    assert world.where() == {}
    assert "would change nodeSelector zone of its pods" in world.condition("Workload", "w", "Evicted")["message"]
