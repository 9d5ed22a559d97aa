"""Gang conventions: manifests in the shape that each project documents, and the claim they amount to."""

from __future__ import annotations

from contextlib import suppress

import msgspec
import pytest
import yaml
from msgspec.structs import replace

from tests.api.annotated_pods import KOORD, SETTINGS, YUNIKORN, annotated, near_by, pfnet
from tutti.api.configuration import Conventions
from tutti.api.conventions import ConventionError, GangMembership, PodTopologyRequest, membership_keys, membership_of
from tutti.api.conventions.reading import KEYS, READERS
from tutti.api.core import Pod


def pod(text: str) -> Pod:
    return msgspec.convert(yaml.safe_load(text), Pod)


def claim(text: str, settings: Conventions = SETTINGS) -> GangMembership:
    return membership_of(pod(text), settings)


ORDINARY = "metadata: {name: p, namespace: ml}"
CASES = {
    "ordinary pod": (ORDINARY, GangMembership(namespace="ml")),
    "our queue alone": (
        "metadata: {namespace: ml, labels: {scheduling.tutti.dev/queue-name: train}}",
        GangMembership(convention="tutti", namespace="ml", queue="train"),
    ),
    "our pod group in a queue": (
        """
        metadata:
          namespace: ml
          labels:
            scheduling.tutti.dev/queue-name: train
            scheduling.tutti.dev/pod-group: trio
            scheduling.tutti.dev/priority-class: urgent
        """,
        GangMembership(convention="tutti", namespace="ml", queue="train", group="trio", priority_class="urgent"),
    ),
    "our workload with a pod group of it": (
        "metadata: {namespace: ml, labels: {scheduling.tutti.dev/workload: w, scheduling.tutti.dev/pod-group: g}}",
        GangMembership(convention="tutti", namespace="ml", workload="w", group="g"),
    ),
    "Kubernetes 1.36 scheduling group": (
        "{metadata: {namespace: ml}, spec: {schedulingGroup: {podGroupName: g}}}",
        GangMembership(convention="kubernetes", namespace="ml", group="g"),
    ),
    "Kubernetes 1.35 workload reference": (
        "{metadata: {namespace: ml}, spec: {workloadRef: {name: w, podGroup: workers, podGroupReplicaKey: '3'}}}",
        GangMembership(convention="kubernetes", namespace="ml", group="w-workers-3", object="w/workers"),
    ),
    "scheduler-plugins label": (
        "metadata: {namespace: ml, labels: {scheduling.x-k8s.io/pod-group: nginx}}",
        GangMembership(convention="schedulerPlugins", namespace="ml", group="nginx"),
    ),
    "pfnet gang": (
        """
        metadata:
          namespace: ml
          annotations:
            gang-scheduling.preferred.jp/gang-name: Gang_1
            gang-scheduling.preferred.jp/gang-size: "3"
            gang-scheduling.preferred.jp/gang-schedule-timeout-seconds: "90"
        """,
        GangMembership(
            convention="pfnet",
            namespace="ml",
            group="gang-1-949b0684",
            min_count=3,
            count=3,
            most=3,
            timeout_seconds=90,
            timeout_jitter_seconds=30,
            implicit=True,
        ),
    ),
    "Volcano group that exists, and a queue": (
        """
        metadata:
          namespace: ml
          annotations: {scheduling.k8s.io/group-name: job-1, scheduling.volcano.sh/queue-name: q}
        """,
        GangMembership(convention="volcano", namespace="ml", group="job-1", queue="q"),
    ),
    "Volcano size without a group": (
        """
        metadata:
          namespace: ml
          uid: u1
          ownerReferences: [{kind: ReplicaSet, name: rs, uid: rs-uid, controller: true}]
          annotations: {scheduling.volcano.sh/group-min-member: "4"}
        """,
        GangMembership(convention="volcano", namespace="ml", group="podgroup-rs-uid", min_count=4, implicit=True),
    ),
    "koordinator gang": (
        """
        metadata:
          namespace: ml
          annotations:
            gang.scheduling.koordinator.sh/name: gang-a
            gang.scheduling.koordinator.sh/min-available: "2"
            gang.scheduling.koordinator.sh/total-number: "5"
            gang.scheduling.koordinator.sh/waiting-time: 1m30s
            gang.scheduling.koordinator.sh/mode: NonStrict
            gang.scheduling.koordinator.sh/groups: '["ml/gang-a"]'
        """,
        GangMembership(
            convention="koordinator",
            namespace="ml",
            group="gang-a",
            min_count=2,
            count=5,
            timeout_seconds=90,
            implicit=True,
        ),
    ),
    "koordinator gang group": (
        """
        metadata:
          namespace: ml
          annotations:
            gang.scheduling.koordinator.sh/name: b
            gang.scheduling.koordinator.sh/min-available: "2"
            gang.scheduling.koordinator.sh/groups: '["ml/b", "ai/a"]'
        """,
        GangMembership(
            convention="koordinator",
            namespace="ai",
            group="a-and-others-ai-a-ml-b-18c2b85a",
            role="ml/b",
            roles=(("ai/a", 0), ("ml/b", 2)),
            timeout_seconds=600,
            implicit=True,
            shared=True,
        ),
    ),
    "scheduler-plugins label as it was": (
        "metadata: {namespace: ml, labels: {pod-group.scheduling.sigs.k8s.io: nginx}}",
        GangMembership(convention="schedulerPlugins", namespace="ml", group="nginx"),
    ),
    "Volcano task": (
        """
        metadata:
          namespace: ml
          annotations: {scheduling.k8s.io/group-name: job-1, volcano.sh/task-spec: worker}
        """,
        GangMembership(convention="volcano", namespace="ml", group="job-1", task="worker"),
    ),
    "YuniKorn job": (
        """
        metadata:
          namespace: ml
          labels: {applicationId: batch-1, queue: root.sandbox}
          annotations:
            yunikorn.apache.org/task-group-name: sleepers
            yunikorn.apache.org/task-groups: '[{"name": "sleepers", "minMember": 5, "minResource": {"cpu": "1"}}]'
            yunikorn.apache.org/schedulingPolicyParameters: placeholderTimeoutInSeconds=60 gangSchedulingStyle=Hard
        """,
        GangMembership(
            convention="yunikorn",
            namespace="ml",
            group="batch-1",
            queue="sandbox",
            role="sleepers",
            roles=(("sleepers", 5),),
            templates={
                "sleepers": {
                    "metadata": {"labels": {}},
                    "spec": {"containers": [{"name": "member", "resources": {"requests": {"cpu": "1"}}}]},
                }
            },
            style="Hard",
            timeout_seconds=60,
            implicit=True,
        ),
    ),
    "YuniKorn member whose gang is defined elsewhere": (
        """
        metadata:
          namespace: ml
          labels: {applicationId: spark-1, queue: root.sandbox}
          annotations: {yunikorn.apache.org/task-group-name: executors}
        """,
        GangMembership(
            convention="yunikorn", namespace="ml", queue="sandbox", group="spark-1", role="executors", implicit=True
        ),
    ),
    "Kueue queue alone": (
        "metadata: {namespace: ml, labels: {kueue.x-k8s.io/queue-name: q, kueue.x-k8s.io/priority-class: high}}",
        GangMembership(convention="kueue", namespace="ml", queue="q", priority_class="high"),
    ),
    "Kueue pod group": (
        """
        metadata:
          namespace: ml
          labels: {kueue.x-k8s.io/queue-name: q, kueue.x-k8s.io/pod-group-name: g}
          annotations: {kueue.x-k8s.io/pod-group-total-count: "2"}
        """,
        GangMembership(
            convention="kueue", namespace="ml", group="g", queue="q", min_count=2, count=2, most=2, implicit=True
        ),
    ),
    "gang of one convention in a queue of another": (
        "metadata: {namespace: ml, labels: {scheduling.x-k8s.io/pod-group: g, kueue.x-k8s.io/queue-name: q}}",
        GangMembership(convention="schedulerPlugins", namespace="ml", group="g", queue="q"),
    ),
    "gang of one convention, near by annotations of another": (
        """
        metadata:
          namespace: ml
          labels: {scheduling.x-k8s.io/pod-group: g}
          annotations: {kueue.x-k8s.io/podset-required-topology: rack}
        """,
        GangMembership(
            convention="schedulerPlugins", namespace="ml", group="g", topology=PodTopologyRequest("Required", "rack")
        ),
    ),
    "near by annotations of Kueue's, in a queue that its owner names": (
        "metadata: {namespace: ml, annotations: {kueue.x-k8s.io/podset-preferred-topology: rack}}",
        GangMembership(convention="kueue", namespace="ml", topology=PodTopologyRequest("Preferred", "rack")),
    ),
    "near by annotations of ours": (
        "metadata: {namespace: ml, annotations: {scheduling.tutti.dev/podset-required-topology: rack}}",
        GangMembership(convention="tutti", namespace="ml", topology=PodTopologyRequest("Required", "rack")),
    ),
    "near by annotations of ours and of Kueue's": (
        """
        metadata:
          namespace: ml
          labels: {kueue.x-k8s.io/queue-name: q}
          annotations:
            kueue.x-k8s.io/podset-preferred-topology: block
            scheduling.tutti.dev/podset-required-topology: rack
        """,
        GangMembership(convention="tutti", namespace="ml", queue="q", topology=PodTopologyRequest("Required", "rack")),
    ),
    "our labels win over all others": (
        "metadata: {namespace: ml, labels: {scheduling.tutti.dev/pod-group: ours, scheduling.x-k8s.io/pod-group: theirs}}",
        GangMembership(convention="tutti", namespace="ml", group="ours"),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_documented_manifest_gives_its_claim(name):
    text, expected = CASES[name]
    assert claim(text) == expected


@pytest.mark.parametrize("size", ["1", "0", "-4"])
def test_a_pfnet_size_of_one_or_less_is_an_ordinary_pod(size):
    assert membership_of(pfnet(name="g", size=size), SETTINGS) == GangMembership(namespace="ml")


@pytest.mark.parametrize(("timeout", "seconds"), [(None, 30), ("7", 7), ("100", 100), ("101", 100)])
def test_a_pfnet_timeout_is_the_pods_or_the_default_within_the_limit(timeout, seconds):
    suffixes = {"name": "g", "size": "2"} | ({"schedule_timeout_seconds": timeout} if timeout else {})
    assert membership_of(pfnet(**suffixes), SETTINGS).timeout_seconds == seconds


def test_the_pfnet_prefix_is_configurable():
    settings = Conventions(pfnet_prefix="example.com/band")
    member = annotated(**{"example.com/band-name": "g", "example.com/band-size": "2"})
    assert membership_of(member, settings).group == "g"
    assert membership_of(member, SETTINGS).group == ""
    assert membership_of(pfnet(name="g", size="three"), settings).group == ""


BROKEN = {
    "pfnet size": (pfnet(name="g", size="three"), "gang-size", "'three' is not a whole number"),
    "pfnet size missing": (pfnet(name="g"), "gang-size", "must be given"),
    "pfnet name missing": (pfnet(size="2"), "gang-name", "must be given"),
    "pfnet timeout": (pfnet(name="g", size="2", schedule_timeout_seconds="0"), "gang-schedule-timeout", "at least 1"),
    "volcano size": (annotated(**{"scheduling.volcano.sh/group-min-member": "x"}), "group-min-member", "'x'"),
    "volcano name": (annotated(**{"scheduling.k8s.io/group-name": "Job_1"}), "group-name", "cannot be the name"),
    "koordinator size missing": (annotated(**{f"{KOORD}name": "g"}), "min-available", "must be given"),
    "koordinator total": (
        annotated(**{f"{KOORD}name": "g", f"{KOORD}min-available": "3", f"{KOORD}total-number": "2"}),
        "total-number",
        "below",
    ),
    "koordinator waiting time": (
        annotated(**{f"{KOORD}name": "g", f"{KOORD}min-available": "3", f"{KOORD}waiting-time": "30"}),
        "waiting-time",
        "'30' is not a duration",
    ),
    "koordinator mode": (
        annotated(**{f"{KOORD}name": "g", f"{KOORD}min-available": "3", f"{KOORD}mode": "Lax"}),
        "mode",
        "Strict or NonStrict",
    ),
    "koordinator groups without its own": (
        annotated(**{f"{KOORD}name": "g", f"{KOORD}min-available": "3", f"{KOORD}groups": '["ml/h"]'}),
        "groups",
        "must name the pod's own gang, ml/g, too",
    ),
    "koordinator groups of no form": (
        annotated(**{f"{KOORD}name": "g", f"{KOORD}min-available": "3", f"{KOORD}groups": '["h"]'}),
        "groups",
        'JSON list of "namespace/name"',
    ),
    "koordinator match policy": (
        annotated(**{f"{KOORD}name": "g", f"{KOORD}min-available": "3", f"{KOORD}match-policy": "only-waiting"}),
        "match-policy",
        "'only-waiting' is not supported",
    ),
    "yunikorn task groups": (
        annotated(**{f"{YUNIKORN}app-id": "a", f"{YUNIKORN}task-group-name": "t", f"{YUNIKORN}task-groups": "[{"}),
        "task-groups",
        "no JSON",
    ),
    "yunikorn size": (
        annotated(
            **{
                f"{YUNIKORN}app-id": "a",
                f"{YUNIKORN}task-group-name": "t",
                f"{YUNIKORN}task-groups": '[{"name": "t", "minMember": "two"}]',
            }
        ),
        "task-groups",
        "minMember of 't'",
    ),
    "yunikorn style": (
        annotated(
            **{
                f"{YUNIKORN}app-id": "a",
                f"{YUNIKORN}task-groups": '[{"name": "t", "minMember": 2}]',
                f"{YUNIKORN}schedulingPolicyParameters": "gangSchedulingStyle=Firm",
            }
        ),
        "schedulingPolicyParameters",
        "'Firm' is no gangSchedulingStyle: write Soft or Hard",
    ),
    "kueue total count missing": (
        annotated(**{"kueue.x-k8s.io/pod-group-name": "g"}),
        "pod-group-total-count",
        "must be given",
    ),
    "kueue total count missing after all": (
        annotated(**{"kueue.x-k8s.io/pod-group-name": "g", "kueue.x-k8s.io/podset-required-topology": "rack"}),
        "pod-group-total-count",
        "must be given",
    ),
    "kueue near in two ways": (
        near_by(required_topology="rack", preferred_topology="block"),
        "podset-preferred-topology",
        "keep one of the two",
    ),
    "kueue near on no label": (near_by(required_topology="my rack"), "podset-required-topology", "key of a node label"),
    "kueue near perhaps": (near_by(unconstrained_topology="yes"), "podset-unconstrained-topology", "true nor false"),
    "kueue slices without a size": (near_by(slice_required_topology="rack"), "podset-slice-size", "must be given"),
    "kueue slices without a level": (near_by(slice_size="2"), "podset-slice-required-topology", "must be given"),
    "kueue slices of nothing": (
        near_by(slice_required_topology="rack", slice_size="0"),
        "podset-slice-size",
        "at least 1",
    ),
    "kueue slices in two ways": (
        near_by(slice_required_topology_constraints="[]", slice_size="2"),
        "podset-slice-size",
        "keep one of the two",
    ),
    "kueue layers of no form": (
        near_by(slice_required_topology_constraints="{"),
        "podset-slice-required-topology-constraints",
        "no JSON",
    ),
    "kueue no layers": (
        near_by(slice_required_topology_constraints="[]"),
        "podset-slice-required-topology-constraints",
        "1 to 3 layers",
    ),
    "kueue a layer without a size": (
        near_by(slice_required_topology_constraints='[{"topology": "rack"}]'),
        "podset-slice-required-topology-constraints",
        "1 to 3 layers such as",
    ),
    "kueue a group of anywhere": (near_by(group_name="g"), "podset-group-name", "required or a preferred topology"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_cannot_be_read_is_an_error_that_says_where_and_what_is_right(name):
    broken, where, message = BROKEN[name]
    with pytest.raises(ConventionError) as caught:
        membership_of(broken, SETTINGS)

    assert where in caught.value.where
    assert message in caught.value.message
    assert str(caught.value) == f"{caught.value.where}: {caught.value.message}"


@pytest.mark.parametrize(
    "name", ["kubernetes", "scheduler_plugins", "pfnet", "volcano", "koordinator", "yunikorn", "kueue"]
)
def test_a_convention_that_is_off_is_not_read(name):
    off = Conventions(**{name: False})
    convention = {"scheduler_plugins": "schedulerPlugins"}.get(name, name)
    texts = [text for text, expected in CASES.values() if expected.convention == convention]
    assert texts
    assert all(claim(text, off).convention != convention for text in texts)


class Asked(dict[str, str]):
    """Labels or annotations that note for which keys they were asked."""

    def __init__(self, texts: dict[str, str], keys: set[str]) -> None:
        super().__init__(texts)
        self.keys_asked = keys

    def get(self, key, default=None):
        self.keys_asked.add(key)
        return super().get(key, default)

    def __getitem__(self, key):
        self.keys_asked.add(key)
        return super().__getitem__(key)

    def __contains__(self, key):
        self.keys_asked.add(key)
        return super().__contains__(key)


def keys_asked(name: str, asking: Pod, settings: Conventions) -> set[str]:
    """The labels and annotations that a convention looks for on a pod."""
    keys: set[str] = set()
    meta = asking.metadata
    asked = {"labels": Asked(meta.labels, keys), "annotations": Asked(meta.annotations, keys)}
    with suppress(ConventionError):
        READERS[name](replace(asking, metadata=replace(meta, **asked)), settings)
    return keys


@pytest.mark.parametrize("name", READERS)
def test_the_keys_of_a_convention_are_those_that_it_reads(name):
    settings = Conventions(pfnet_prefix="gang-scheduling.preferred.jp/gang")
    pods = [pod(text) for text, _ in CASES.values()]
    pods += [broken for broken, _, _ in BROKEN.values()]
    for project in ("kueue.x-k8s.io", "scheduling.tutti.dev"):
        pods += [near_by(project, slice_required_topology="rack", slice_size="2"), near_by(project, slice_size="2")]
        pods += [near_by(project, slice_required_topology_constraints="[]", slice_size="2")]
    asked = set().union(*(keys_asked(name, one, settings) for one in pods))
    assert asked == set(KEYS[name](settings))


def test_keys_are_read_as_the_conventions_are_set():
    assert "example.com/band-size" in membership_keys(Conventions(pfnet_prefix="example.com/band"))
    assert "example.com/band-size" not in membership_keys(SETTINGS)
    assert "kueue.x-k8s.io/queue-name" not in membership_keys(Conventions(kueue=False))
    assert "scheduling.tutti.dev/queue-name" in membership_keys(Conventions(kueue=False))


def test_names_made_for_gangs_are_valid_and_tell_gangs_apart():
    names = {
        membership_of(pfnet(name=name, size="2"), SETTINGS).group for name in ("A", "a", "a_", "_", "\u97f3", "-" * 300)
    }
    assert len(names) == 6
    assert all(name == name.lower() and name.isascii() and len(name) <= 253 for name in names)
    assert all(name[0].isalnum() and name[-1].isalnum() for name in names)
