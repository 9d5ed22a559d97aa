"""Manifests of Kueue rewritten as ours: nothing is lost without a word, and what is written is accepted."""

from __future__ import annotations

import re
from functools import partial

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.migrate.golden import FOLDER, NAMES, migrated, report
from tests.cli.migrate.golden import given as manifest
from tests.drawing import examples
from tutti.api.conventions.topology_annotations import KUEUE_TOPOLOGY, OUR_TOPOLOGY, read_topology_request
from tutti.api.kinds import KINDS, parse_object
from tutti.api.kinds.parsing import UnsupportedField
from tutti.api.model import API_VERSION
from tutti.cli.migrate.editing import Loader
from tutti.cli.migrate.kueue.jobs import Run
from tutti.cli.migrate.kueue.rewriting import rewrite
from tutti.cli.migrate.report import NoteLevel
from tutti.cli.migrate.streams import Migrated, migrate


def kueue(text: str, **run) -> Migrated:
    return migrate(text, "in.yaml", partial(rewrite, run=Run(**run)))


def documents(text: str) -> list[dict]:
    """The objects in a stream that can be read, those in Lists too."""
    found = []
    for chunk in re.split(r"(?m)^---(?=\s|$)", text):
        try:
            one = yaml.load(chunk, Loader=Loader)
        except yaml.YAMLError:
            continue
        found += one["items"] if isinstance(one, dict) and one.get("kind") == "List" else [one]
    return [one for one in found if isinstance(one, dict)]


def of(text: str, kind: str, name: str = "") -> dict:
    """The one object of a kind (and name) in a stream."""
    [one] = [one for one in documents(text) if one["kind"] == kind and name in ("", one["metadata"].get("name"))]
    return one


def job(*, labels: str = "", annotations: str = "", spec: str = "", template: str = "") -> str:
    return f"""apiVersion: batch/v1
kind: Job
metadata:
  name: train
  labels: {{kueue.x-k8s.io/queue-name: q{labels}}}
  annotations: {{{annotations}}}
spec: {{parallelism: 4, {spec}template: {{metadata: {{annotations: {{{template}}}}}, spec: {{containers: []}}}}}}
"""


@pytest.mark.parametrize("name", NAMES)
def test_a_realistic_set_becomes_what_was_read_and_agreed_to(name):
    found = migrated(name)

    assert found.text == (FOLDER / "expected" / f"{name}.yaml").read_text()
    assert report(found) == (FOLDER / "expected" / f"{name}.txt").read_text()


@pytest.mark.parametrize("name", NAMES)
def test_every_object_that_is_written_can_be_read_or_is_told_of(name):
    found = kueue(manifest(name))
    told = {(one.kind, one.name) for one in found.entries if one.note.level is NoteLevel.INVALID}

    ours = [one for one in documents(found.text) if one["apiVersion"] == API_VERSION]
    assert ours
    for one in ours:
        if (one["kind"], one["metadata"]["name"]) not in told:
            parse_object(one["kind"], one)


@pytest.mark.parametrize("name", NAMES)
def test_migrating_again_changes_nothing(name):
    once = kueue(manifest(name)).text

    assert kueue(once).text == once


@pytest.mark.parametrize("name", NAMES)
def test_a_comment_stays_unless_what_it_stands_beside_is_taken_out(name):
    kept = migrated(name).text

    lines = [line.strip() for line in manifest(name).splitlines() if line.strip().startswith("#")]
    assert lines
    assert [line for line in lines if line not in kept] == []


@pytest.mark.parametrize(
    ("field", "before", "after"),
    # Kueue 0.19, apis/kueue/v1beta1/clusterqueue_conversion.go
    [
        ("cohort: all", "cohort", {"cohortName": "all"}),
        ("flavorFungibility: {whenCanBorrow: Borrow}", "", {"flavorFungibility": {"whenCanBorrow": "MayStopSearch"}}),
        (
            "flavorFungibility: {whenCanPreempt: Preempt}",
            "",
            {"flavorFungibility": {"whenCanPreempt": "MayStopSearch"}},
        ),
        (
            "flavorFungibility: {whenCanPreempt: TryNextFlavor}",
            "",
            {"flavorFungibility": {"whenCanPreempt": "TryNextFlavor"}},
        ),
        (
            "admissionChecks: [a, b]",
            "admissionChecks",
            {"admissionChecksStrategy": {"admissionChecks": [{"name": "a"}, {"name": "b"}]}},
        ),
    ],
)
def test_a_field_of_v1beta1_becomes_that_of_v1beta2(field, before, after):
    text = f"apiVersion: kueue.x-k8s.io/v1beta1\nkind: ClusterQueue\nmetadata: {{name: q}}\nspec:\n  {field}\n"

    spec = of(kueue(text, unsupported=()).text, "ClusterQueue")["spec"]

    assert spec == after
    assert before not in spec


@pytest.mark.parametrize(
    ("source", "reference"),
    # Kueue 0.19, apis/kueue/v1beta1/workload_conversion.go
    [
        (
            "kueue.x-k8s.io/workloadpriorityclass",
            {"group": "scheduling.tutti.dev", "kind": "WorkloadPriorityClass", "name": "p"},
        ),
        ("scheduling.k8s.io/priorityclass", {"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": "p"}),
        ("", None),
    ],
)
def test_the_priority_class_of_an_old_workload_says_of_which_kind_it_is(source, reference):
    text = f"""apiVersion: kueue.x-k8s.io/v1beta1
kind: Workload
metadata: {{name: w}}
spec:
  priorityClassName: p
  priorityClassSource: "{source}"
  podSets: [{{name: main, count: 1}}]
"""
    spec = of(kueue(text).text, "Workload")["spec"]

    assert spec.get("priorityClassRef") == reference
    assert not {"priorityClassName", "priorityClassSource"} & spec.keys()


def test_a_field_that_is_not_supported_yet_is_left_out_with_what_it_leaves_empty_and_told_at_its_line():
    text = """apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata:
  name: q
spec:
  cohort: all
  admissionScope:
    admissionMode: UsageBasedAdmissionFairSharing
"""
    table = (
        UnsupportedField("ClusterQueue", "cohortName", (), "cohorts are not supported yet: leave cohortName out"),
        UnsupportedField(
            "ClusterQueue", "admissionScope.admissionMode", (), "scopes are not supported yet: leave it out"
        ),
    )
    found = kueue(text, unsupported=table)

    assert of(found.text, "ClusterQueue")["spec"] == {}
    assert [(one.line, one.note.path, one.note.happens, one.note.do) for one in found.entries] == [
        (6, "spec.cohort", "left out, because cohorts are not supported yet", "leave cohortName out"),
        (8, "spec.admissionScope.admissionMode", "left out, because scopes are not supported yet", "leave it out"),
    ]


@pytest.mark.parametrize(
    "annotations",
    # Kueue 0.20, apis/kueue/v1beta2/topology_types.go
    [
        {"podset-required-topology": "rack"},
        {"podset-preferred-topology": "rack", "podset-group-name": "all"},
        {"podset-unconstrained-topology": "true"},
        {"podset-slice-required-topology": "rack", "podset-slice-size": "2"},
        {
            "podset-slice-required-topology-constraints": '[{"topology": "block", "size": 4}, {"topology": "rack", "size": 2}]'
        },
    ],
    ids="+".join,
)
def test_what_a_template_asks_of_topology_its_pods_ask(annotations):
    before = {f"kueue.x-k8s.io/{key}": text for key, text in annotations.items()}
    found = kueue(job(template=yaml.safe_dump(before, default_flow_style=True, width=1000).strip()[1:-1]))

    template = of(found.text, "Job")["spec"]["template"]
    assert template["metadata"]["annotations"] == {
        f"scheduling.tutti.dev/{key}": text for key, text in annotations.items()
    }
    assert read_topology_request(before, KUEUE_TOPOLOGY) == read_topology_request(
        template["metadata"]["annotations"], OUR_TOPOLOGY
    )
    assert "kueue.x-k8s.io" not in found.text
    assert found.entries == []


def test_a_topology_that_cannot_be_read_is_told():
    [one] = kueue(job(template="kueue.x-k8s.io/podset-slice-size: '2'")).entries

    assert one.note.level is NoteLevel.INVALID
    assert one.note.path.endswith("metadata.annotations[kueue.x-k8s.io/podset-slice-required-topology]")


def test_a_job_that_kueue_does_not_manage_stays_held_back():
    text = (
        job().replace("kueue.x-k8s.io/queue-name: q", "app: other").replace("parallelism", "suspend: true, parallelism")
    )
    found = kueue(text)

    assert found.text == text
    assert found.entries == []
    assert found.passed == ["Job"]


def test_only_a_group_of_pods_gets_a_workload():
    found = migrated("jobs").text

    assert [one["metadata"]["name"] for one in documents(found) if one["kind"] == "Workload"] == ["pair"]
    pods = [one for one in documents(found) if one["kind"] == "Pod" and one["metadata"].get("name") != "alone"]
    assert [one["metadata"]["labels"] for one in pods] == [{"scheduling.tutti.dev/workload": "pair"}] * 2


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["q", "rack", "true", "4", "Borrow", "LowerPriority"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                [
                    "cohort", "admissionChecks", "flavorFungibility", "whenCanBorrow", "preemption", "tolerations",
                    "effect", "podSets", "count", "template", "topologyRequest", "required", "metadata", "labels",
                    "annotations", "spec", "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/job-min-parallelism",
                    "kueue.x-k8s.io/podset-required-topology", "replicatedJobs", "parallelism", "suspend", "finalizers",
                    "podsetSliceRequiredTopologyConstraints", "priorityClassRef", "schedulingGates", "ownerReferences",
                    "components", "podMetadata", "templates", "containers", "driver", "schedulerName", "managedBy",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)  # fmt: skip
WHAT = st.sampled_from(
    [("kueue.x-k8s.io/v1beta1", kind) for kind in [*KINDS, "AdmissionCheck"] if kind != "PodGroup"]
    + [
        ("batch/v1", "Job"),
        ("batch/v1", "CronJob"),
        ("v1", "Pod"),
        ("apps/v1", "Deployment"),
        ("apps/v1", "StatefulSet"),
        ("jobset.x-k8s.io/v1alpha2", "JobSet"),
        ("kubeflow.org/v1", "PyTorchJob"),
        ("ray.io/v1", "RayJob"),
        ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"),
        ("kubeflow.org/v2beta1", "MPIJob"),
        ("trainer.kubeflow.org/v1alpha1", "TrainJob"),
        ("sparkoperator.k8s.io/v1beta2", "SparkApplication"),
        ("workload.codeflare.dev/v1beta2", "AppWrapper"),
        ("argoproj.io/v1alpha1", "Workflow"),
        ("agents.example.com/v1", "Sandbox"),
    ]
)


@given(WHAT, JUNK, JUNK)
@examples(300)
def test_whatever_is_written_in_a_manifest_the_result_can_be_read_or_is_told_of_and_stays(what, metadata, spec):
    version, kind = what
    given = {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}
    found = kueue(yaml.safe_dump(given, sort_keys=False))
    told = any(one.note.level is NoteLevel.INVALID for one in found.entries)

    for one in documents(found.text):
        if one["apiVersion"] == API_VERSION and not told:
            parse_object(one["kind"], one)
    assert kueue(found.text).text == found.text


@pytest.mark.parametrize("word", ["pod-group-pod-index", "pod-group-pod-index-label", "pod-index-offset"])
def test_words_on_ranks_are_left_out_with_what_ranks_go_by_here_and_are_no_loss(word):
    """It used to say that pods are not placed in order of rank; they are, by the numbers in their names."""
    said = report(kueue(job(template=f'kueue.x-k8s.io/{word}: "1"')))
    (line,) = [one for one in said.splitlines() if word in one]
    assert "note: " in line
    assert "pods are placed in the order of the numbers in their names" in line
    assert "0 lost" in said
