"""What pods say is read once for all that say the same, and never otherwise than it would be read alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.engine.world import World
from tutti.api.configuration import Conventions
from tutti.api.conventions import ConventionError, GangMembership, membership_keys, membership_of
from tutti.api.core import ObjectMeta, OwnerReference, Pod, PodSpec, SchedulingGroup
from tutti.engine.records.gang_membership import GATE_ANNOTATION, ParsedMemberships
from tutti.engine.records.pod_admission import ADMISSION_ANNOTATION

SETTINGS = Conventions()
JOB = OwnerReference(api_version="batch/v1", kind="Job", name="job", uid="u-job", controller=True)
LABELS = st.dictionaries(
    st.sampled_from(
        [
            "scheduling.tutti.dev/pod-group",
            "scheduling.tutti.dev/queue-name",
            "kueue.x-k8s.io/pod-group-name",
            "scheduling.x-k8s.io/pod-group",
            "app",
        ]
    ),
    st.sampled_from(["a", "b", "Not A Name", ""]),
)
ANNOTATIONS = st.dictionaries(
    st.sampled_from(
        [
            "gang-scheduling.preferred.jp/gang-name",
            "gang-scheduling.preferred.jp/gang-size",
            "scheduling.volcano.sh/group-min-member",
            "scheduling.volcano.sh/queue-name",
            "scheduling.tutti.dev/lease-generation",
        ]
    ),
    st.sampled_from(["1", "2", "a", "-1"]),
)
PODS = st.builds(
    lambda uid, labels, annotations, group, owned: Pod(
        metadata=ObjectMeta(
            name=f"p-{uid}",
            namespace="default",
            uid=f"uid-of-{uid}",
            labels=labels,
            annotations=annotations,
            owner_references=[JOB] if owned else [],
        ),
        spec=PodSpec(scheduling_group=SchedulingGroup(pod_group_name=group) if group else None),
    ),
    st.integers(0, 3),
    LABELS,
    ANNOTATIONS,
    st.sampled_from(["", "a", "b"]),
    st.booleans(),
)


def alone(pod: Pod) -> tuple[GangMembership, str]:
    try:
        return membership_of(pod, SETTINGS), ""
    except ConventionError as error:
        return GangMembership(namespace=pod.metadata.namespace), str(error)


def saying(pod: str, *, uid: str = "u", **annotations: str) -> Pod:
    texts = {f"gang-scheduling.preferred.jp/gang-{key}": value for key, value in annotations.items()}
    return Pod(metadata=ObjectMeta(name=pod, namespace="default", uid=uid, annotations=texts))


@given(st.lists(PODS, max_size=12))
def test_what_is_remembered_is_what_would_be_read_from_the_pod_alone(pods):
    memberships = ParsedMemberships(SETTINGS)
    for pod in pods:
        assert memberships.read(memberships.of(pod), pod) == alone(pod)


def test_members_that_say_the_same_share_one_claim():
    memberships = ParsedMemberships(SETTINGS)
    first, second = (saying(f"g-{rank}", uid=f"u-{rank}", name="g", size="2") for rank in range(2))
    one, other = (memberships.read(memberships.of(pod), pod)[0] for pod in (first, second))
    assert one is other
    assert len(memberships) == 1


def test_what_nobody_reads_is_not_said():
    memberships = ParsedMemberships(SETTINGS, ["example.com/noted"])
    pod = saying("g-0", name="g", size="2")
    said = memberships.of(pod)
    pod.metadata.labels["app"] = "mine"
    pod.metadata.annotations["example.com/other"] = "1"
    assert memberships.of(pod) == said


@pytest.mark.parametrize(
    "key", [*sorted(membership_keys(SETTINGS)), ADMISSION_ANNOTATION, GATE_ANNOTATION, "example.com/noted"]
)
def test_whatever_anybody_reads_is_said(key):
    memberships = ParsedMemberships(SETTINGS, ["example.com/noted"])
    for where in ("labels", "annotations"):
        pod = saying("g-0", name="g", size="2")
        said = memberships.of(pod)
        getattr(pod.metadata, where)[key] = "1"
        assert memberships.of(pod) != said


def test_nothing_is_remembered_of_what_nobody_says_any_more():
    memberships = ParsedMemberships(SETTINGS)
    pod = saying("g-0", name="g", size="2")
    claim, _ = memberships.read(memberships.of(pod), pod)
    assert (claim.group, len(memberships)) == ("g", 1)
    del claim
    assert len(memberships) == 0


def test_a_pod_that_is_bound_says_something_else_and_claims_the_same():
    """The API server labels it with its node's zone, and the bind annotates it; its members share that claim, too."""
    world = World()
    world.node("n1")
    for rank in range(2):
        world.pod(f"g-{rank}", group="g")
    world.pod_group("g", 2)
    world.run()
    before = world.engine.state.members["default", "g-0"].claim
    for name in ("g-0", "g-1"):
        pod = world.pods["default", name]
        labels = {**pod.metadata.labels, "topology.kubernetes.io/zone": "a"}
        annotations = {**pod.metadata.annotations, "scheduling.tutti.dev/lease-generation": "1"}
        world.put(replace(pod, metadata=replace(pod.metadata, labels=labels, annotations=annotations)))
    first, second = (world.engine.state.members["default", f"g-{rank}"].claim for rank in range(2))
    assert first is second
    assert first == before
    assert set(world.engine.state.members_by_reference["default", "g"]) == {("default", "g-0"), ("default", "g-1")}
