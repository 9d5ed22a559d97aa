"""What is changed in an object at its start, and that all of it is taken back."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.decision_writers import merged
from tutti.api.frameworks import KindTable
from tutti.api.frameworks.projection import projected
from tutti.api.frameworks.roles import placed_roles
from tutti.api.frameworks.starting import (
    MOST_KEPT_BYTES,
    STARTED_ANNOTATION,
    Directives,
    StartError,
    merge_patch,
    restored,
    start_state,
    started,
    suspended,
)

TABLE = KindTable()
JOB, JOBSET = TABLE.get("batch", "Job"), TABLE.get("jobset.x-k8s.io", "JobSet")
TOLERATION = {"key": "gpu", "operator": "Exists"}
ADDED = Directives({"pool": "a"}, (TOLERATION,))


def job(**pod: Any) -> dict[str, Any]:
    meta = {"name": "train", "namespace": "ml", "uid": "u", "resourceVersion": "7", "generation": 3}
    return {"metadata": meta, "spec": {"suspend": True, "parallelism": 2, "template": {"spec": {"a": 1, **pod}}}}


def job_set(*pods: dict[str, Any]) -> dict[str, Any]:
    roles = [
        {"name": f"role-{index}", "template": {"spec": {"parallelism": 1, "template": {"spec": pod}}}}
        for index, pod in enumerate(pods)
    ]
    return {"metadata": job()["metadata"], "spec": {"suspend": True, "replicatedJobs": roles}}


def steps(raw, kind):
    return {one.role.name: one.template for one in placed_roles(raw, kind)[0]}


def start(raw, kind=JOB, added=ADDED):
    return started(raw, kind, steps(raw, kind), dict.fromkeys(steps(raw, kind), added), 100)


def test_a_start_changes_the_template_and_nothing_else():
    patch = start(job(nodeSelector={"zone": "z"}, tolerations=[{"key": "own"}]))

    spec = patch["spec"]
    assert spec.keys() == {"suspend", "template"}
    assert spec["suspend"] is False
    assert spec["template"] == {"spec": {"nodeSelector": {"pool": "a"}, "tolerations": [{"key": "own"}, TOLERATION]}}
    assert patch["metadata"].keys() == {"uid", "resourceVersion", "annotations"}
    assert patch["metadata"]["resourceVersion"] == "7"


def test_what_is_there_already_is_not_added_again():
    patch = start(job(nodeSelector={"pool": "a"}, tolerations=[TOLERATION]))

    assert patch["spec"] == {"suspend": False}
    assert json.loads(patch["metadata"]["annotations"][STARTED_ANNOTATION]) == {"at": 100, "before": {}}


POD = st.fixed_dictionaries(
    {"containers": st.just([{"name": "c"}])},
    optional={
        "nodeSelector": st.dictionaries(st.sampled_from(["zone", "other", "pool"]), st.just("a"), max_size=3),
        "tolerations": st.lists(st.sampled_from([TOLERATION, {"key": "x"}, {"key": "y", "operator": "Exists"}])),
    },
)


@given(st.lists(POD, min_size=1, max_size=3))
def test_whatever_was_started_is_restored_field_by_field(pods):
    for raw, kind in ((job(**pods[0]), JOB), (job_set(*pods), JOBSET)):
        before = copy.deepcopy(raw)
        running = merged(raw, start(raw, kind))
        assert raw == before  # it is read, not written
        halted = merged(running, suspended(running, kind))
        assert merged(halted, restored(halted, kind, steps(halted, kind)))["spec"] == before["spec"]
        assert restored(raw, kind, steps(raw, kind)) is None


def test_a_label_that_says_another_thing_is_no_start():
    with pytest.raises(StartError, match="pool=b"):
        start(job(nodeSelector={"pool": "b"}))


@pytest.mark.parametrize(
    "pod", [{"nodeSelector": ["a"]}, {"nodeSelector": "x"}, {"tolerations": {"a": 1}}, {"tolerations": "all"}]
)
def test_what_no_api_server_takes_in_a_template_is_no_start(pod):
    """A kind of a user's own may take anything there."""
    with pytest.raises(StartError, match="not what the API server takes"):
        start(job(**pod))


@pytest.mark.parametrize("spec", [None, [], "x", 3])
def test_what_is_no_template_is_no_start_and_left_alone_at_the_end(spec):
    raw = job()
    steps_of = steps(raw, JOB)
    raw["spec"]["template"]["spec"] = spec
    with pytest.raises(StartError, match="is no pod template"):
        started(raw, JOB, steps_of, dict.fromkeys(steps_of, ADDED), 100)
    text = json.dumps({"at": 1, "before": {role: {"nodeSelector": {"a": "b"}} for role in steps_of}})
    raw["metadata"]["annotations"] = {STARTED_ANNOTATION: text}
    patch = restored(raw, JOB, steps_of)
    assert patch is not None
    assert "spec" not in patch


def test_what_cannot_be_kept_is_no_start():
    with pytest.raises(StartError, match="bytes"):
        start(job(nodeSelector={f"key-{index}": "v" * 60 for index in range(MOST_KEPT_BYTES // 60)}))


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"before": 3}', '{"at": "x"}', "[" * 5000, "x" * (MOST_KEPT_BYTES + 1)]
)
def test_an_annotation_that_somebody_has_written_over_is_taken_off_alone(text):
    raw = job(nodeSelector={"zone": "z"})
    raw["metadata"]["annotations"] = {STARTED_ANNOTATION: text}

    patch = restored(raw, JOB, steps(raw, JOB))
    assert patch.keys() == {"metadata"}
    assert patch["metadata"]["annotations"] == {STARTED_ANNOTATION: None}
    assert start_state(raw, JOB, "v1").started
    assert projected(raw, JOB, version="v1").is_held


@pytest.mark.parametrize(
    "status",
    [
        None,
        3,
        [],
        {"conditions": 3},
        {"conditions": [None, 3, {"type": ["Complete"], "status": "True"}]},
        {"restarts": -1},
    ],
)
def test_a_status_of_any_shape_is_read(status):
    found = projected(job() | {"status": status}, JOB, version="v1")

    assert found.start is not None
    assert not found.start.finished


@pytest.mark.parametrize("kind", ["Complete", "Failed"])
def test_one_that_has_ended_is_not_held(kind):
    raw = job() | {"status": {"conditions": [{"type": kind, "status": "True"}]}}

    assert not projected(raw, JOB, version="v1").is_held


def test_templates_are_kept_of_what_waits_suspended_alone():
    raw = job_set({"nodeSelector": {"zone": "z"}})
    assert projected(raw, JOBSET, version="v1").roles[0].template
    raw["spec"]["suspend"] = False
    assert not projected(raw, JOBSET, version="v1").roles[0].template


@given(
    st.recursive(st.none() | st.integers(), lambda inner: st.dictionaries(st.sampled_from("abc"), inner), max_leaves=12)
)
def test_a_merge_patch_leads_from_one_object_to_another(after):
    for before in ({}, {"a": 1, "b": {"c": 2, "a": {"b": 3}}}):
        wanted = _without_nulls(after if isinstance(after, dict) else {"a": after})
        assert merged(before, merge_patch(before, wanted)) == wanted


def _without_nulls(value):
    """What a merge patch can say: nothing of it is null."""
    if not isinstance(value, dict):
        return value
    return {key: _without_nulls(one) for key, one in value.items() if one is not None}


TRAIN_JOB = TABLE.get("trainer.kubeflow.org", "TrainJob")
MINE = {"manager": "example.com/mine", "time": "2026-01-01T00:00:00Z"}


def train_job(**spec: Any) -> dict[str, Any]:
    return {"metadata": job()["metadata"], "spec": {"suspend": True, "runtimeRef": {"name": "torch"}, **spec}}


def ours(raw):
    return [one for one in raw["spec"].get("runtimePatches") or [] if one.get("manager", "").startswith("scheduling")]


@pytest.mark.parametrize("patches", [None, [], [MINE]])
def test_a_patch_of_ours_comes_and_goes_and_those_of_others_stay(patches):
    raw = train_job() if patches is None else train_job(runtimePatches=patches)
    begun = merged(raw, started(raw, TRAIN_JOB, {}, {"node": ADDED, "other": Directives()}, 100))

    (patch,) = ours(begun)
    assert patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"] == [
        {
            "name": "node",
            "template": {"spec": {"template": {"spec": {"nodeSelector": {"pool": "a"}, "tolerations": [TOLERATION]}}}},
        }
    ]
    assert [one for one in begun["spec"]["runtimePatches"] if one != patch] == (patches or [])
    again = begun | {"spec": begun["spec"] | {"suspend": True}}
    assert len(ours(merged(again, started(again, TRAIN_JOB, {}, {"node": ADDED}, 200)))) == 1
    ended = merged(begun, restored(begun, TRAIN_JOB, {}))
    assert ended["spec"] == (raw["spec"] if patches else train_job()["spec"])  # an empty list is as good as none
    assert restored(ended, TRAIN_JOB, {}) is None


def test_a_flavor_that_adds_nothing_needs_no_patch():
    patch = started(train_job(), TRAIN_JOB, {}, {"node": Directives()}, 100)

    assert patch["spec"] == {"suspend": False}


@pytest.mark.parametrize("wrong", [3, "x", {"manager": "a"}])
def test_patches_of_another_shape_are_told(wrong):
    with pytest.raises(StartError, match="runtimePatches must be a list"):
        started(train_job(runtimePatches=wrong), TRAIN_JOB, {}, {"node": ADDED}, 100)


@pytest.mark.parametrize("listed", [3, [None], [{"active": "x"}], [{"active": -1}], None])
def test_a_status_without_counts_says_that_nothing_runs(listed):
    assert not start_state(train_job() | {"status": {"jobsStatus": listed}}, TRAIN_JOB, "v1alpha1").active


def test_a_status_that_counts_says_what_runs():
    status = {"jobsStatus": [{"name": "init", "active": 0}, {"name": "node", "active": 2}]}
    assert start_state(train_job() | {"status": status}, TRAIN_JOB, "v1alpha1").active
