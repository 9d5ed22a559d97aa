"""What a Job's pods mean, as pkg/controller/job of Kubernetes 1.36 has it."""

import pytest

from tutti_sim.controllers import jobtally
from tutti_sim.controllers.jobtally import Past


def job(**spec):
    status = spec.pop("status", {})
    defaults = {"parallelism": 2, "completions": 4, "backoffLimit": 6, "completionMode": "NonIndexed"}
    return {"metadata": {"name": "j", "namespace": "default"}, "spec": {**defaults, **spec}, "status": status}


def pod(name, phase="Running", *, index=None, code=None, leaving=False, conditions=(), restarts=0):
    meta = {"name": name, "namespace": "default", "uid": name}
    if index is not None:
        meta["annotations"] = {"batch.kubernetes.io/job-completion-index": str(index)}
    if leaving:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    container = {"name": "main", "restartCount": restarts}
    if code is not None:
        container["state"] = {"terminated": {"exitCode": code}}
    listed = [{"type": kind, "status": "True"} for kind in conditions]
    return {
        "metadata": meta,
        "spec": {},
        "status": {"phase": phase, "containerStatuses": [container], "conditions": listed},
    }


def decide(one, pods, past=None):
    past = past or Past()
    found = jobtally.tally(one, pods, past)
    return jobtally.verdict(one, found, past), jobtally.plan(one, found, past), jobtally.counts(one, found, past)


def test_as_many_pods_as_parallelism_are_made():
    _, plan, _ = decide(job(), [])

    assert plan.missing == [None, None]


def test_no_more_pods_are_made_than_completions_are_left():
    _, plan, counts = decide(job(), [pod("a", "Succeeded"), pod("b", "Succeeded"), pod("c", "Succeeded")])

    assert plan.missing == [None]
    assert counts["succeeded"] == 3


def test_a_smaller_parallelism_removes_pods_that_are_not_ready_first():
    _, plan, _ = decide(job(parallelism=1), [pod("a", conditions=["Ready"]), pod("b")])

    assert [one["metadata"]["name"] for one in plan.surplus] == ["b"]


def test_without_completions_one_success_is_enough_once_the_others_have_ended():
    verdict, plan, _ = decide(job(completions=None), [pod("a", "Succeeded"), pod("b")])
    assert verdict is None
    assert plan.missing == []

    verdict, _, _ = decide(job(completions=None), [pod("a", "Succeeded"), pod("b", "Failed", code=1)])
    assert verdict.condition == "Complete"


def test_an_index_is_done_once_even_when_its_pod_is_gone():
    one = job(completionMode="Indexed", status={"completedIndexes": "0,2"})

    _, plan, counts = decide(one, [pod("b", index=1)])

    assert plan.missing == [3]
    assert (counts["succeeded"], counts["completedIndexes"]) == (2, "0,2")


@pytest.mark.parametrize(("failed", "over"), [(2, False), (3, True)])
def test_one_failure_more_than_the_backoff_limit_is_too_much(failed, over):
    verdict, _, _ = decide(job(backoffLimit=2), [pod(str(n), "Failed", code=1) for n in range(failed)])

    assert (verdict == jobtally.EXCEEDED) is over


def test_restarts_of_containers_count_against_the_backoff_limit():
    verdict, _, _ = decide(job(backoffLimit=2), [pod("a", restarts=3)])

    assert verdict == jobtally.EXCEEDED


def test_a_pod_that_is_being_deleted_has_failed_and_is_replaced():
    _, plan, counts = decide(job(), [pod("a", leaving=True), pod("b")])

    assert plan.missing == [None]
    assert (counts["failed"], counts["terminating"]) == (1, 1)


@pytest.mark.parametrize("spec", [{"podReplacementPolicy": "Failed"}, {"podFailurePolicy": {"rules": []}}])
def test_with_a_failure_policy_a_pod_is_replaced_only_when_it_has_ended(spec):
    _, plan, counts = decide(job(**spec), [pod("a", leaving=True), pod("b")])

    assert plan.missing == []
    assert "failed" not in counts


CODES = {"action": "FailJob", "onExitCodes": {"containerName": "main", "operator": "In", "values": [42]}}
OTHER_CODES = {"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [1]}}
DISRUPTED = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}


@pytest.mark.parametrize(
    ("rules", "ended", "action"),
    [
        ([CODES], {"code": 42}, "FailJob"),
        ([CODES], {"code": 1}, "Count"),
        ([OTHER_CODES], {"code": 42}, "FailJob"),
        ([OTHER_CODES], {"code": 1}, "Count"),
        ([OTHER_CODES], {"code": 0}, "Count"),
        ([DISRUPTED, CODES], {"code": 42, "conditions": ["DisruptionTarget"]}, "Ignore"),
        ([DISRUPTED], {"code": 143}, "Count"),
        ([], {"code": 42}, "Count"),
    ],
)
def test_the_first_rule_of_a_failure_policy_that_matches_counts(rules, ended, action):
    one = job(podFailurePolicy={"rules": rules})

    assert jobtally.failure_action(one, pod("a", "Failed", **ended))[0] == action


def test_a_rule_that_fails_the_job_says_why():
    verdict, _, _ = decide(job(podFailurePolicy={"rules": [CODES]}), [pod("a", "Failed", code=42)])

    assert verdict.reason == "PodFailurePolicy"
    assert (
        verdict.message == "Container main for pod default/a failed with exit code 42 matching FailJob rule at index 0"
    )


def test_an_ignored_failure_is_replaced_and_not_counted_against_the_limit():
    one = job(backoffLimit=0, podFailurePolicy={"rules": [DISRUPTED]})

    verdict, plan, _ = decide(one, [pod("a", "Failed", code=143, conditions=["DisruptionTarget"])])

    assert verdict is None
    assert len(plan.missing) == 2


def test_a_verdict_stays_when_what_led_to_it_is_gone():
    past = Past()
    decide(job(backoffLimit=0), [pod("a", "Failed", code=1)], past)

    verdict, _, _ = decide(job(backoffLimit=0), [], past)

    assert verdict == jobtally.EXCEEDED


def test_what_a_job_had_no_use_for_is_no_failure():
    past = Past(dropped={"a"})

    _, _, counts = decide(job(), [pod("a", "Failed", code=143)], past)

    assert "failed" not in counts
