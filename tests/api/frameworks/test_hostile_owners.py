"""Whatever an object holds, reading it ends with a bounded answer; and what is said of a gang never contradicts itself."""

from __future__ import annotations

import copy

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.api.frameworks import shapes
from tests.api.frameworks.owners import TUTTI
from tutti.api.conventions.membership import MOST_MEMBERS, is_name
from tutti.api.core import ObjectMeta, OwnerReference
from tutti.api.framework_kind import MOST_ROLES
from tutti.api.frameworks import (
    KNOWN_KINDS,
    KindTable,
    OwnedGang,
    OwnerChain,
    UnusableOwner,
    gang_of,
    inherited_terms,
    marked,
    projected,
)
from tutti.api.frameworks.fields import MOST_PROBLEMS
from tutti.api.templates import MOST_BYTES

TABLE = KindTable()
SHAPES = [
    yaml.safe_load(text)
    for text in (
        shapes.JOB,
        shapes.JOB_SET,
        shapes.TRAIN_JOB_SET,
        shapes.kubeflow(
            "PyTorchJob", "pytorchReplicaSpecs", f"{shapes.replica('Master')}, {shapes.replica('Worker', 3)}"
        ),
        shapes.kubeflow("MPIJob", "mpiReplicaSpecs", f"{shapes.replica('Launcher')}, {shapes.replica('Worker', 3)}"),
        shapes.RAY_CLUSTER,
        shapes.RAY_JOB,
        shapes.LEADER_WORKER_SET,
        shapes.SPARK,
        shapes.STATEFUL_SET,
        shapes.VOLCANO_JOB,
    )
]
LABELS = [
    "jobset.sigs.k8s.io/replicatedjob-name",
    "jobset.sigs.k8s.io/restart-attempt",
    "training.kubeflow.org/replica-type",
    "ray.io/group",
    "leaderworkerset.sigs.k8s.io/group-key",
    "leaderworkerset.sigs.k8s.io/worker-index",
    "batch.kubernetes.io/job-completion-index",
]
NUMBERS = st.sampled_from([0, 1, 2, 3, 7, -1, 100_000, 2**31 - 1, 2**31, 2**63, 10**400])
SCALARS = st.one_of(
    st.none(), st.booleans(), NUMBERS, st.floats(), st.text(max_size=8), st.sampled_from(["Ready", "x" * 300, "\x1b"])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "spec", "metadata", "labels", "replicas", "template", "é"]), inner, max_size=3
        )
    ),
    max_leaves=6,
)


def places(value, path=()):
    """Every place in an object where something stands."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places(inner, (*path, key))


def put(value, path, new):
    if not path:
        return new
    changed = copy.copy(value)
    changed[path[0]] = put(value[path[0]], path[1:], new)
    return changed


@st.composite
def objects(draw):
    """An object in the shape of one that users submit, with something else in some places."""
    raw = draw(st.sampled_from(SHAPES))
    kind = (raw["apiVersion"].rpartition("/")[0], raw["kind"])
    for _ in range(draw(st.integers(0, 4))):
        raw = put(raw, draw(st.sampled_from(list(places(raw)))), draw(VALUES))
    if isinstance(raw, dict) and isinstance(raw.get("metadata"), dict):
        raw = raw | {"metadata": {"uid": "u", **raw["metadata"]}}
    return kind, raw


def member(draw_labels, kind) -> object:
    owner = OwnerReference(f"{kind[0]}/v1", kind[1], "o", "u", controller=True)
    meta = ObjectMeta("p", "ml", "pod", labels=draw_labels, owner_references=[owner])
    return marked(meta, "tutti", TABLE.pod_keys, says_group=False)


MARKS = st.dictionaries(
    st.sampled_from(LABELS), st.sampled_from(["0", "1", "driver", "workers", "worker", "small", "node", "9" * 40, "²"])
)


@given(kind=st.sampled_from(KNOWN_KINDS), raw=VALUES)
def test_anything_can_be_read_as_an_object_of_any_kind(kind, raw):
    found = projected(raw, kind)
    assert len(found.problems) <= MOST_PROBLEMS


@given(made=objects(), labels=MARKS)
def test_an_object_with_anything_in_it_gives_a_bounded_answer(made, labels):
    (group, name), raw = made
    kind = TABLE.get(group, name)
    found = projected(raw, kind)
    assert len(found.roles) <= MOST_ROLES
    assert len(msgspec.json.encode(found)) < MOST_BYTES + 64 * 1024
    assert msgspec.json.decode(msgspec.json.encode(found), type=type(found)) == found
    pod, chain = member(labels, (group, name)), OwnerChain((found,))
    answer = gang_of(pod, chain, TABLE, TUTTI)
    assert gang_of(pod, chain, TABLE, TUTTI) == answer
    assert len(msgspec.json.encode(answer)) < MOST_BYTES + 64 * 1024
    if isinstance(answer, UnusableOwner):
        assert answer.problems
        assert all(problem.isprintable() and len(problem) < 1_000 for problem in answer.problems)
    inherited_terms(chain)


COUNTS = st.integers(0, 6)
EXTRAS = {
    "Job": [
        (
            "metadata.annotations",
            st.fixed_dictionaries({"scheduling.tutti.dev/min-member": st.sampled_from(["1", "3", "9"])}),
        )
    ],
    "JobSet": [
        ("metadata.annotations", st.just({"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"})),
        ("metadata.annotations", st.just({"scheduling.tutti.dev/min-member": "2"})),
        ("spec.startupPolicy", st.just({"startupPolicyOrder": "InOrder"})),
        (
            "status.replicatedJobsStatus",
            st.lists(st.fixed_dictionaries({"name": st.just("workers"), "succeeded": COUNTS})),
        ),
    ],
    "PyTorchJob": [
        ("spec.runPolicy.schedulingPolicy.minAvailable", COUNTS),
        ("spec.elasticPolicy", st.fixed_dictionaries({}, optional={"minReplicas": COUNTS, "maxReplicas": COUNTS})),
    ],
    "MPIJob": [
        ("spec.runPolicy.schedulingPolicy.minAvailable", COUNTS),
        ("spec.launcherCreationPolicy", st.just("WaitForWorkersReady")),
    ],
    "RayCluster": [("spec.enableInTreeAutoscaling", st.booleans())],
    "RayJob": [("spec.rayClusterSpec.enableInTreeAutoscaling", st.booleans())],
    "LeaderWorkerSet": [("spec.startupPolicy", st.just("LeaderReady"))],
    "SparkApplication": [
        ("spec.dynamicAllocation", st.fixed_dictionaries({"minExecutors": COUNTS, "maxExecutors": COUNTS}))
    ],
    "StatefulSet": [("metadata.annotations", st.just({"scheduling.tutti.dev/gang": "Together"}))],
}
"""What users add to such an object that changes its numbers."""


@st.composite
def counted(draw):
    """An object that is as it should be, with other numbers in it."""
    raw = copy.deepcopy(draw(st.sampled_from(SHAPES)))
    for path, values in EXTRAS.get(raw["kind"], []):
        if draw(st.booleans()):
            *steps, last = path.split(".")
            part = raw
            for step in steps:
                part = part.setdefault(step, {})
            part[last] = part.get(last, {}) | value if isinstance(value := draw(values), dict) else value
    for path in [path for path in places(raw) if path]:
        found = raw
        for step in path:
            found = found[step]
        if isinstance(found, int) and not isinstance(found, bool):
            raw = put(raw, path, draw(COUNTS))
    raw["metadata"]["uid"] = "u"
    return (raw["apiVersion"].rpartition("/")[0], raw["kind"]), raw


@given(made=counted(), labels=MARKS)
def test_the_numbers_of_a_gang_agree(made, labels):
    (group, name), raw = made
    answer = gang_of(member(labels, (group, name)), OwnerChain((projected(raw, TABLE.get(group, name)),)), TABLE, TUTTI)
    if not isinstance(answer, OwnedGang):
        return
    joins = sum(one.count for one in answer.later if not one.group)
    there = sum(one.count for one in answer.parts)
    assert 1 <= answer.minimum <= answer.count <= MOST_MEMBERS
    assert answer.count == max(answer.minimum, there + joins)
    assert sum(one.minimum for one in answer.parts) <= answer.minimum <= max(1, there)
    assert all(0 <= one.minimum <= one.count for one in answer.parts)
    kept = sum(one.count for one in answer.later if one.keeps_room)
    assert answer.minimum <= answer.room <= max(1, there) + kept
    assert answer.most is None or answer.most > answer.count
    assert is_name(answer.group_name)
    assert is_name(answer.workload_name)


@given(made=counted())
def test_all_members_of_a_gang_are_told_the_same_numbers(made):
    """Else what the gang needs would hang on whose pod is looked at."""
    (group, name), raw = made
    chain = OwnerChain((projected(raw, TABLE.get(group, name)),))
    roles = [role.name for role in chain.owners[0].roles]
    seen: dict[str, OwnedGang] = {}
    for role in roles:
        labels = {key: "0" if key == LABELS[4] else role for key in LABELS if key not in (LABELS[1], LABELS[6])}
        answer = gang_of(member(labels, (group, name)), chain, TABLE, TUTTI)
        if isinstance(answer, OwnedGang):
            alike = msgspec.structs.replace(answer, role="", sub_group="", domain="", domain_key="", joins_later=False)
            assert seen.setdefault(answer.group, alike) == alike


@given(made=counted())
def test_stages_hold_every_role_that_does_not_join_once(made):
    (group, name), raw = made
    found = projected(raw, TABLE.get(group, name))
    staged = [role for stage in found.stages for role in stage.roles]
    assert sorted(staged) == sorted(role.name for role in found.roles if not role.later)


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        ("parallelism", "4", "spec.parallelism: must be a whole number from 0 to 2147483647, not '4'"),
        ("parallelism", -1, "spec.parallelism: must be a whole number from 0 to 2147483647, not -1"),
        (
            "parallelism",
            2**31,
            "spec.parallelism: must be a whole number from 0 to 2147483647, not one beyond all bounds",
        ),
        (
            "parallelism",
            10**5_000,
            "spec.parallelism: must be a whole number from 0 to 2147483647, not one beyond all bounds",
        ),
        ("parallelism", True, "spec.parallelism: must be a whole number from 0 to 2147483647, not true"),
        ("parallelism", 4.5, "spec.parallelism: must be a whole number from 0 to 2147483647, not 4.5"),
        ("parallelism", [], "spec.parallelism: must be a whole number from 0 to 2147483647, not a list"),
        ("suspend", "yes", "spec.suspend: must be true or false, not 'yes'"),
        ("template", [], "spec.template: must be a mapping, not a list"),
    ],
    ids=range(9),
)
def test_a_problem_says_where_it_is_and_what_would_be_right(path, value, problem):
    raw = yaml.safe_load(shapes.JOB)
    raw["spec"][path] = value
    assert projected(raw, TABLE.get("batch", "Job")).problems == (problem,)


def test_what_is_kept_of_an_object_without_a_gang_does_not_change_with_its_pods():
    """Else each pod of each Job that ends would be news."""
    raw = yaml.safe_load(shapes.JOB)
    raw["spec"]["completionMode"] = "NonIndexed"
    before = projected(raw, TABLE.get("batch", "Job"))
    assert not before.roles
    assert projected(raw | {"status": {"active": 1, "succeeded": 3}}, TABLE.get("batch", "Job")) == before
    raw["spec"]["completionMode"] = "Indexed"
    gang = projected(raw, TABLE.get("batch", "Job"))
    assert projected(raw | {"status": {"active": 3, "ready": 1}}, TABLE.get("batch", "Job")) == gang


def test_roles_of_one_name_and_roles_without_one_are_problems():
    raw = yaml.safe_load(shapes.JOB_SET)
    raw["spec"]["replicatedJobs"] += [{"name": "Driver"}, {"name": None}, "none"]
    assert projected(raw, TABLE.get("jobset.x-k8s.io", "JobSet")).problems == (
        "spec.replicatedJobs[2]: there is a role 'driver' already",
        "spec.replicatedJobs[3].name: must be given: pods tell their role by it",
        "spec.replicatedJobs[4]: must be a mapping, not 'none'",
    )


def test_more_roles_than_are_read_are_a_problem():
    raw = yaml.safe_load(shapes.JOB_SET)
    raw["spec"]["replicatedJobs"] = [{"name": f"r{index}"} for index in range(MOST_ROLES + 1)]
    found = projected(raw, TABLE.get("jobset.x-k8s.io", "JobSet"))
    assert len(found.roles) == MOST_ROLES
    assert found.problems == (f"spec.replicatedJobs: has {MOST_ROLES + 1} entries: at most {MOST_ROLES} are read",)


RINGS = {
    "of two": ({"a": ["b"], "b": ["a"]}, "'a', 'b'"),
    "with itself": ({"a": ["a"]}, "'a'"),
    "of three, with others": ({"x": [], "a": ["x", "c"], "b": ["a"], "c": ["b"], "d": ["x"]}, "'a', 'b', 'c'"),
}


@pytest.mark.parametrize("case", RINGS)
def test_roles_that_wait_for_one_another_are_a_problem_and_end_nothing(case):
    after, named = RINGS[case]
    jobs = [
        {"name": name, "dependsOn": [{"name": one, "status": "Ready"} for one in waits]}
        for name, waits in after.items()
    ]
    raw = {"metadata": {"name": "js", "namespace": "ml", "uid": "u"}, "spec": {"replicatedJobs": jobs}}
    found = projected(raw, TABLE.get("jobset.x-k8s.io", "JobSet"))
    (problem,) = found.problems
    assert problem.startswith("roles wait for themselves")
    assert named in problem
    pod = member({"jobset.sigs.k8s.io/replicatedjob-name": "a"}, ("jobset.x-k8s.io", "JobSet"))
    assert isinstance(gang_of(pod, OwnerChain((found,)), TABLE, TUTTI), UnusableOwner)


def test_a_ring_that_the_order_of_a_jobset_overrides_is_none():
    raw = yaml.safe_load(shapes.JOB_SET)
    raw["spec"]["startupPolicy"] = {"startupPolicyOrder": "InOrder"}
    raw["spec"]["replicatedJobs"][0]["dependsOn"] = [{"name": "driver", "status": "Ready"}]
    assert projected(raw, TABLE.get("jobset.x-k8s.io", "JobSet")).problems == ()


@pytest.mark.parametrize("in_order", [False, True])
def test_a_gang_that_keeps_room_for_more_than_can_be_one_is_refused(in_order):
    """Its PodGroup says how many it needs in all, and the API server refuses more."""
    raw = yaml.safe_load(shapes.JOB_SET)
    workers = raw["spec"]["replicatedJobs"][1]
    workers["template"]["spec"] |= {"parallelism": 50_001, "completions": 50_001}
    if in_order:
        raw["spec"]["startupPolicy"] = {"startupPolicyOrder": "InOrder"}
    else:
        raw["metadata"]["annotations"] = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"}
    found = projected(raw, TABLE.get("jobset.x-k8s.io", "JobSet"))
    pod = member({"jobset.sigs.k8s.io/replicatedjob-name": "driver"}, ("jobset.x-k8s.io", "JobSet"))
    answer = gang_of(pod, OwnerChain((found,)), TABLE, TUTTI)
    assert isinstance(answer, UnusableOwner)
    assert "100003 pods would have to start at once: at most 100000" in answer.problems[0]
