"""What people hand to `tutti what-if`: lists as kubectl writes them, several documents, JSON, and mistakes."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from tests.cli.views.scene import GPU, pod
from tests.cli.views.test_forecast import cluster, foretold, job, of
from tests.simulate.small_traces import NODES, written
from tutti.api.frameworks import KindTable
from tutti.cli.views.forecast.changes import (
    AskedChange,
    ChangeError,
    added_nodes,
    drain_change,
    quota_change,
    submission,
)
from tutti.cli.views.forecast.model import Course
from tutti.cli.views.manifests import ManifestError, documents_of

QUEUE = {
    "apiVersion": "scheduling.tutti.dev/v1alpha1",
    "kind": "ClusterQueue",
    "metadata": {"name": "cq", "uid": "u", "resourceVersion": "7", "managedFields": [{"manager": "kubectl"}]},
    "spec": {
        "namespaceSelector": {},
        "resourceGroups": [
            {
                "coveredResources": ["cpu", GPU],
                "flavors": [
                    {"name": "a", "resources": [{"name": "cpu", "nominalQuota": 99}, {"name": GPU, "nominalQuota": 32}]}
                ],
            }
        ],
    },
    "status": {"pendingWorkloads": 4},
}


def as_list(*items: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": list(items)}


def got(one: dict[str, Any]) -> dict[str, Any]:
    """An object as the API server has it, with what it and its controller have written."""
    meta = {**one["metadata"], "uid": "u1", "resourceVersion": "12", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {**one, "metadata": meta, "status": {"active": 2}}


FORMS = {
    "yaml list": lambda *found: yaml.safe_dump(as_list(*found)),
    "documents": lambda *found: "---\n" + yaml.safe_dump_all(found),
    "json list": lambda *found: json.dumps(as_list(*found)),
    "documents of lists": lambda *found: yaml.safe_dump_all([as_list(one) for one in found]),
}


def asked_of(text: str) -> tuple[Any, list[AskedChange]]:
    there = cluster()
    return there, submission(text, "", "vision", KindTable((), ()), there.listed.seen, there.at)


@pytest.mark.parametrize("form", FORMS)
def test_work_and_queues_are_read_in_whatever_form_kubectl_gives_them(form: str):
    there, changes = asked_of(FORMS[form](QUEUE, got(yaml.safe_load(job()))))
    assert [one.what for one in changes] == ["ClusterQueue cq is changed as the manifest says", "Job new is submitted"]
    found = foretold(there, *changes)
    assert of(found, "new").after.course is Course.NOW


def test_a_pod_that_runs_somewhere_is_submitted_as_one_that_has_no_node_yet():
    running = {"apiVersion": "v1", "kind": "Pod", **pod("vision", "old", 8, on="n0", admitted=("cq", "a"))}
    there, changes = asked_of(yaml.safe_dump({**running, "status": {"phase": "Running"}}))
    one = of(foretold(there, *changes), "old")
    assert one.before.course is Course.ABSENT
    assert one.after.course is Course.NOW
    assert set(one.after.nodes) <= {"n0", "n1"}


def test_in_a_list_of_one_kind_items_need_not_name_it():
    text = json.dumps({"apiVersion": "batch/v1", "kind": "JobList", "items": [{"metadata": {"name": "a"}}]})
    assert [(one.place, one.raw["kind"]) for one in documents_of(text)] == [("document 1, item 1", "Job")]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "there is nothing in the manifest"),
        ("---\n---\n", "there is nothing in the manifest"),
        ("a: [", "the manifest cannot be read"),
        ("just text", "document 1: must be an object with apiVersion, kind and metadata, not the text 'just text'"),
        ("kind: Job\n---\n- 1\n", "document 2: must be an object with apiVersion, kind and metadata, not a list"),
        ("metadata: {name: x}", "document 1: has no kind; an object says apiVersion, kind and metadata"),
        ("kind: 3", "document 1: has no kind"),
        (
            "kind: List\nitems: [null]",
            "document 1, item 1: must be an object with apiVersion, kind and metadata, not nothing",
        ),
        ("&a\nkind: List\nitems: [*a]\n", "document 1, item 1: lists stand in lists"),
        ("kind: List\nitems: [{kind: List, items: [{kind: List, items: []}]}]", "item 1: lists stand in lists"),
        ("kind: List\nitems: []", "there is nothing in the manifest"),
        ("x: " + "[" * 5000, "the manifest cannot be read"),
    ],
)
def test_what_is_no_manifest_says_where_and_what_would_be_right(text: str, said: str):
    with pytest.raises(ManifestError) as caught:
        documents_of(text)
    assert said in str(caught.value)
    with pytest.raises(ChangeError) as refused:
        asked_of(text)
    assert said in str(refused.value)


def test_an_absurd_number_of_objects_is_refused():
    with pytest.raises(ManifestError, match="more than 50000 objects"):
        documents_of("kind: List\nitems:\n- &a {kind: Pod}\n" + "- *a\n" * 50_000)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda raw: raw["spec"].update(parallelism="two"), "Job new: spec.parallelism: must be a whole number"),
        (lambda raw: raw["metadata"].pop("name"), "Job has no metadata.name"),
        (lambda raw: raw.update(kind="Jobs"), "nothing that makes pods"),
    ],
)
def test_a_job_that_is_not_right_says_which_field(change: Any, said: str):
    raw = yaml.safe_load(job())
    change(raw)
    with pytest.raises(ChangeError) as caught:
        asked_of(yaml.safe_dump(as_list(raw)))
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda spec: spec.update(namespaceSelektor={}), "did you mean 'namespaceSelector'?"),
        (lambda spec: spec["resourceGroups"][0]["flavors"][0]["resources"][0].update(nominalQuota="lots"),
         "spec.resourceGroups[0].flavors[0].resources[0].nominalQuota: 'lots' is not a quantity"),
    ],
)  # fmt: skip
def test_a_queue_that_is_not_right_says_which_field(change: Any, said: str):
    raw = json.loads(json.dumps(QUEUE))
    change(raw["spec"])
    with pytest.raises(ChangeError) as caught:
        asked_of(json.dumps(as_list(raw)))
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda seen: drain_change("n7", seen), "there is no node n7; there are n0, n1"),
        (lambda seen: added_nodes("n7=2", seen), "new ones could be like; there are n0, n1"),
        (
            lambda seen: quota_change("cq:tpu=2", seen),
            f"ClusterQueue cq has no quota of tpu; it has a:cpu, a:memory, a:{GPU}",
        ),
        (lambda seen: quota_change(f"cq:b:{GPU}=2", seen), f"no quota of {GPU} in b; it has a:cpu, a:memory, a:{GPU}"),
    ],
)
def test_who_names_what_is_not_there_is_told_what_is(make: Any, said: str):
    with pytest.raises(ChangeError) as caught:
        make(cluster().listed.seen)
    assert said in str(caught.value)


def test_a_list_of_nodes_is_a_cluster_to_simulate(tmp_path):
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "8"}}}
    found = written(tmp_path, yaml.safe_dump(as_list(node, QUEUE)), written(tmp_path, NODES))
    assert set(found.nodes) == {"n"}
    assert ("ClusterQueue", "", "cq") in found.objects
