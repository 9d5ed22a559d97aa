"""What users write into labels and annotations is read within bounds, whoever wrote it and however long it is."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.api.annotated_pods import KOORD, SETTINGS, YUNIKORN, annotated, near_by, pfnet
from tutti.api.conventions import ConventionError, GangMembership, membership_keys, membership_of
from tutti.api.conventions.gang_objects import gangs_in
from tutti.api.conventions.membership import DEEPEST, LONGEST_TEXT, MOST_GANGS, MOST_MEMBERS, is_too_deep, whole_seconds
from tutti.api.core import ObjectMeta, Pod
from tutti.api.resources import AmountError, parse_requests
from tutti.engine.records.gang_membership import ParsedMemberships

LAYERS = "slice_required_topology_constraints"


def application(groups: str) -> Pod:
    return annotated(**{f"{YUNIKORN}app-id": "a", f"{YUNIKORN}task-groups": groups})


def task_group(**said: Any) -> Pod:
    group = {"name": "w", "minMember": 2, "minResource": {"cpu": "1"}, **said}
    return application(json.dumps([group]))


def gang(**said: str) -> Pod:
    """A gang of koordinator's."""
    texts = {"name": "g", "min-available": "2", **{key.replace("_", "-"): text for key, text in said.items()}}
    return annotated(**{f"{KOORD}{key}": text for key, text in texts.items()})


def group_of_kueue(total: str) -> Pod:
    return annotated(**{"kueue.x-k8s.io/pod-group-name": "g", "kueue.x-k8s.io/pod-group-total-count": total})


OUT_OF_BOUNDS = {
    "task groups of brackets alone": (application("[" * 2_000), "nested deeper than 32 levels"),
    "task groups nested and closed": (application("[" * 500 + "]" * 500), "nested deeper"),
    "an affinity without an end": (task_group(affinity=json.loads('{"x":' * 40 + "1" + "}" * 40)), "nested deeper"),
    "brackets behind a string that holds a quote": (application('["\\"", ' + "[" * 50), "nested deeper"),
    "task groups as long as an annotation may be": (application(" " * 262_144), "write at most 65536"),
    "a size beyond int64": (task_group(minMember=2**63), "at most 100000"),
    "a size beyond everything": (task_group(minMember=10**30), "this is no JSON|at most 100000"),
    "a size that is a truth": (task_group(minMember=True), "at most 100000"),
    "sizes that are too many together": (
        application(json.dumps([{"name": f"w{at}", "minMember": 60_000} for at in range(2)])),
        "all minMember together must be at most 100000",
    ),
    "too many task groups": (
        application(json.dumps([{"name": f"w{at}", "minMember": 1} for at in range(MOST_GANGS + 1)])),
        "write at most 256",
    ),
    "less than nothing": (task_group(minResource={"nvidia.com/gpu": "-100"}), "'-100' is below zero"),
    "less than nothing as a number": (task_group(minResource={"cpu": -1}), "-1 is below zero"),
    "a resource that clears a terminal": (task_group(minResource={"x\x1b[2J\n": "1"}), "is no name of a resource"),
    "an amount that is none": (task_group(minResource={"cpu": "1e"}), "is not a quantity"),
    "a name of a part that clears a terminal": (task_group(name="\x1b[2J"), r"'\\x1b\[2J' is no name"),
    "no name of a part": (task_group(name=""), "must be a JSON list"),
    "a timeout beyond what a clock counts": (
        annotated(
            **{
                f"{YUNIKORN}app-id": "a",
                f"{YUNIKORN}task-groups": '[{"name": "w", "minMember": 2}]',
                f"{YUNIKORN}schedulingPolicyParameters": f"placeholderTimeoutInSeconds={2**31}",
            }
        ),
        "at most 2147483647",
    ),
    "gangs of brackets alone": (gang(groups="[" * 100_000), "write at most 65536"),
    "gangs nested": (gang(groups="[" * 60_000), "nested deeper"),
    "gangs that are numbers": (gang(groups='["ml/g", 7]'), "must be a JSON list"),
    "too many gangs": (gang(groups=json.dumps(["ml/g", *(f"ml/g{at}" for at in range(MOST_GANGS))])), "at most 256"),
    "a wait that is infinite": (gang(waiting_time="9" * 40 + "h"), "not a duration"),
    "a wait that is infinite as a float": (gang(waiting_time="9" * 400 + "h"), "not a duration"),
    "a wait of centuries": (gang(waiting_time="999999999h"), "at most 2147483647s"),
    "a wait of digits alone": (gang(waiting_time="1" * 60_000), "not a duration"),
    "a minimum beyond int64": (gang(min_available=str(2**70)), "at most 100000"),
    "a minimum of thousands of digits": (gang(min_available="9" * 5_000), "at most 100000"),
    "a total beyond everything": (gang(total_number=str(10**17)), "at most 100000"),
    "a size of pfnet's": (pfnet(name="g", size="100001"), "at most 100000"),
    "a size in digits of another script": (pfnet(name="g", size="٣"), "not a whole number"),
    "a total of Kueue's": (group_of_kueue(str(2**40)), "at most 100000"),
    "a size of Volcano's": (annotated(**{"scheduling.volcano.sh/group-min-member": "1000000"}), "at most 100000"),
    "a slice of Kueue's": (near_by(slice_required_topology="rack", slice_size=str(10**9)), "at most 100000"),
    "a layer of Kueue's": (near_by(**{LAYERS: '[{"topology": "rack", "size": 1000000}]'}), "1 to 3 layers"),
    "layers nested": (near_by(**{LAYERS: "[" * 1_000}), "nested deeper"),
    "the name of a task": (
        annotated(**{"scheduling.k8s.io/group-name": "g", "volcano.sh/task-spec": "x" * 300}),
        "is no name: write at most 253",
    ),
}


@pytest.mark.parametrize("name", OUT_OF_BOUNDS)
def test_what_is_out_of_bounds_is_refused_in_a_short_sentence(name):
    pod, message = OUT_OF_BOUNDS[name]
    with pytest.raises(ConventionError, match=message) as caught:
        membership_of(pod, SETTINGS)
    assert len(str(caught.value)) < 500
    assert str(caught.value).isprintable()


def test_what_is_just_within_bounds_is_read():
    assert membership_of(task_group(minMember=MOST_MEMBERS), SETTINGS).roles == (("w", MOST_MEMBERS),)
    assert membership_of(gang(waiting_time=f"{2**31 - 1}s"), SETTINGS).timeout_seconds == 2**31 - 1
    assert membership_of(gang(min_available="100000"), SETTINGS).min_count == MOST_MEMBERS
    most = [{"name": "w", "minMember": 1, "labels": {"x": "y" * 60_000}}]
    assert membership_of(application(json.dumps(most)), SETTINGS).group == "a"


def test_an_annotation_that_nobody_reads_may_be_as_long_as_it_likes():
    pod = annotated(**{"kubectl.kubernetes.io/last-applied-configuration": "[" * 262_000})
    assert membership_of(pod, SETTINGS) == GangMembership(namespace="ml")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30s", 30), ("1h30m", 5400), ("1.5s", 2), (".5m", 30), ("1ns", 1), ("2µs3ms", 1), ("1h1s", 3601)],
)
def test_durations_as_go_writes_them(text, seconds):
    # Go 1.24, time.ParseDuration
    assert whole_seconds(text, "there") == seconds


@pytest.mark.parametrize("text", ["", "s", "1", "1h2", "-1s", "0s", "1 s", "1d", "٣s", "1e3s"])
def test_what_is_no_duration(text):
    with pytest.raises(ConventionError):
        whole_seconds(text, "there")


NESTED = st.recursive(
    st.text() | st.integers(),
    lambda inner: st.lists(inner, max_size=2) | st.builds(list, st.tuples(inner)),
    max_leaves=6,
)


def depth(value: object) -> int:
    return 1 + max(map(depth, value), default=0) if isinstance(value, list) else 0


@given(NESTED, st.integers(0, 40))
def test_the_depth_of_json_is_that_of_its_lists(value, more):
    for _ in range(more):
        value = [value]
    assert is_too_deep(json.dumps(value)) == (depth(value) > DEEPEST)


ODD = st.text(st.sampled_from('[]{}",:\\0123456789.eE+-hms \x1b\x00aµ٣'), max_size=60)
LONG = st.builds(
    lambda part, times: part * times,
    st.text(st.sampled_from('[{"\\1a:,'), min_size=1, max_size=3),
    st.sampled_from([1, 40, 3_000, 70_000]),
)


@given(
    st.sampled_from(sorted(membership_keys(SETTINGS))),
    st.sampled_from(sorted(membership_keys(SETTINGS))),
    ODD | LONG,
    ODD | LONG,
)
def test_any_text_under_any_key_is_read_or_refused(first, second, one, other):
    base = {
        f"{KOORD}name": "g",
        f"{KOORD}min-available": "2",
        f"{YUNIKORN}app-id": "a",
        f"{YUNIKORN}task-group-name": "w",
        "kueue.x-k8s.io/queue-name": "q",
    }
    for labels, notes in (({}, {**base, first: one, second: other}), ({**base, first: one}, {second: other})):
        pod = Pod(metadata=ObjectMeta(name="p", namespace="ml", labels=labels, annotations=notes))
        claim, wrong = ParsedMemberships(SETTINGS).read((), pod)
        assert len(wrong) < 1_000
        counts = (claim.min_count or 0, claim.count or 0, *(least for _, least in claim.roles))
        assert all(0 <= count <= MOST_MEMBERS for count in counts)
        assert 0 <= (claim.timeout_seconds or 0) < 2**31


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        ("scheduling.volcano.sh/v1beta1", {"minMember": 1, "minTaskMember": {"x": 2**63 - 1, "y": -5}}),
        ("scheduling.volcano.sh/v1beta1", {"minMember": -1}),
        ("scheduling.volcano.sh/v1beta1", {"minMember": 1, "minResources": {"cpu": "-100"}}),
        ("scheduling.x-k8s.io/v1alpha1", {"minMember": 2**40}),
        ("scheduling.x-k8s.io/v1alpha1", {"minMember": 2, "minResources": {"cpu": -1}}),
        ("scheduling.x-k8s.io/v1alpha1", {"minMember": 2, "scheduleTimeoutSeconds": -5}),
        ("scheduling.k8s.io/v1alpha2", {"schedulingPolicy": {"gang": {"minCount": 2**40}}}),
        ("scheduling.k8s.io/v1alpha2", {"schedulingPolicy": {"gang": {"minCount": 2}}, "priority": 2**40}),
    ],
)
def test_numbers_of_other_projects_objects_have_bounds(kind, spec):
    raw = {"apiVersion": kind, "metadata": {"name": "g", "namespace": "ml"}, "spec": spec}
    (found,) = gangs_in(kind, "PodGroup", raw)
    assert found.problem
    assert found.spec is None


def test_pod_groups_of_one_name_in_a_workload_of_kubernetes_are_told_so():
    parts = [{"name": "x", "policy": {"gang": {"minCount": size}}} for size in (2, 3)]
    raw = {"metadata": {"name": "w", "namespace": "ml"}, "spec": {"podGroups": [*parts, {"name": "y"}]}}
    twice, once = gangs_in("scheduling.k8s.io/v1alpha1", "Workload", raw)
    assert (twice.name, twice.problem) == ("w/x", "spec.podGroups names 'x' more than once")
    assert (once.name, once.problem) == ("w/y", "")


def test_nothing_is_asked_for_that_is_less_than_nothing():
    assert parse_requests({"cpu": "0", "x": 2}) == {"cpu": 0, "x": 2}
    with pytest.raises(AmountError, match=r"x: '-1m' is below zero"):
        parse_requests({"cpu": "1", "x": "-1m"})


def test_a_text_of_the_greatest_length_is_measured_before_anything_else():
    with pytest.raises(ConventionError, match=f"it has {LONGEST_TEXT + 1} characters"):
        membership_of(msgspec.structs.replace(annotated(**{f"{YUNIKORN}app-id": "a" * (LONGEST_TEXT + 1)})), SETTINGS)
