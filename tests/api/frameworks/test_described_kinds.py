"""Kinds that users describe are read by the same rule as those that are known here."""

from __future__ import annotations

import pytest
import yaml

from tests.api.frameworks.owners import Objects, numbers, parts
from tutti.api.configuration import load_configuration
from tutti.api.framework_kind import FrameworkKind
from tutti.api.frameworks import KNOWN_KINDS, KindTable, PlacedAlone
from tutti.api.problems import ConfigurationError

SOLVER = """
group: example.com
kind: Solver
plural: solvers
versions: [v1]
gang: Together
roles:
- {name: coordinator, path: spec.coordinator, templates: [podTemplate]}
- {form: Map, path: spec.pools, replicas: {path: count}, size: {path: hosts}, templates: [podTemplate]}
podRoles: {labels: [example.com/pool], names: {main: coordinator}}
minimum: spec.quorum
queue: spec.queue
subGroupLabels: [example.com/slice]
"""
OBJECT = """
apiVersion: example.com/v1
kind: Solver
metadata: {name: s}
spec:
  queue: team
  coordinator: {podTemplate: {spec: {schedulerName: tutti}}}
  pools:
    Fast: {count: 2, hosts: 3, podTemplate: {spec: {schedulerName: tutti}}}
"""


def described(text: str, **changes: object) -> dict:
    return yaml.safe_load(text) | changes


def kinds_of(*descriptions: dict) -> list[FrameworkKind]:
    """The kinds that an administrator describes in the configuration."""
    return load_configuration(yaml.safe_dump({"frameworks": list(descriptions)})).frameworks


def test_known_kinds_are_written_in_the_words_that_users_have():
    for kind in KNOWN_KINDS:
        written = kind.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        assert FrameworkKind.model_validate(written) == kind


def test_a_kind_of_a_user_makes_gangs():
    kinds = kinds_of(described(SOLVER))
    objects = Objects(OBJECT, table=KindTable(kinds))
    pod = objects.pod("s-0", "Solver/s", labels={"example.com/pool": "fast", "example.com/slice": "1"})
    gang = objects.gang(pod)
    assert numbers(gang) == (7, 7, 7)
    assert parts(gang) == {"coordinator": (1, 1), "fast": (6, 6)}
    assert (gang.role, gang.sub_group) == ("fast", "1")
    assert objects.terms(pod).queue == "team"
    objects.change("Solver/s", "spec.quorum", 4)
    assert numbers(objects.gang(pod)) == (4, 7, 4)


def test_a_kind_of_a_user_goes_before_one_that_is_known():
    text = "{group: batch, kind: Job, plural: jobs, versions: [v1], gang: Alone}"
    kinds = kinds_of(described(text))
    objects = Objects("{apiVersion: batch/v1, kind: Job, metadata: {name: j}}", table=KindTable(kinds))
    assert objects.answer(objects.pod("p", "Job/j")) == PlacedAlone()


def test_roles_that_come_later_join_the_first_stage_of_an_object():
    staged = described(SOLVER, podRoles={"labels": ["example.com/pool"]}, minimum=None)
    staged["roles"][0] |= {"laterWhen": []}
    staged["roles"][1] |= {"after": "waitsFor"}
    kinds = kinds_of(staged)
    objects = Objects(OBJECT, table=KindTable(kinds))
    pool = {"count": 1, "podTemplate": {"spec": {"schedulerName": "tutti"}}}
    objects.raw["Solver/s"]["spec"]["pools"]["Next"] = pool | {"waitsFor": [{"name": "fast", "status": "Ready"}]}
    gangs = [objects.gang(objects.pod("p", "Solver/s", labels={"example.com/pool": name})) for name in ("fast", "next")]
    assert [[one.role for one in gang.later] for gang in gangs] == [["coordinator", "next"], []]
    assert [numbers(gang) for gang in gangs] == [(6, 7, 8), (1, 1, 1)]


def test_labels_that_a_user_names_are_kept_of_pods():
    kinds = kinds_of(described(SOLVER))
    assert {"example.com/pool", "example.com/slice"} <= KindTable(kinds).pod_keys


@pytest.mark.parametrize(
    ("changes", "path", "message"),
    [
        ({"gang": "Sometimes"}, "[1].gang", "must be 'Together', 'Requested', 'Alone' or 'Transparent'"),
        ({"roles": []}, "[1]", "a kind with gang Together needs roles"),
        ({"minimum": "spec..quorum"}, "[1].minimum", "does not have the form"),
        ({"minimum": "spec." + ".".join("x" * 20)}, "[1].minimum", "does not have the form"),
        ({"group": "scheduling.k8s.io"}, "[1]", "cannot be described"),
        ({"group": ""}, "[1]", "cannot be described"),
        ({"numbersOf": "batch/Job"}, "[1]", "must be one of the kinds that it composes"),
        ({"podRoles": {"rest": "nobody"}, "roles": [{"name": "main"}]}, "[1]", "must be that of a role"),
        ({"roles": [{"form": "List"}]}, "[1].roles[0]", "needs a path"),
        ({"togetherWhen": [{}]}, "[1].togetherWhen[0]", "exactly one of path and annotation"),
        ({"replicas": 3}, "[1].replicas", "there is no such field"),
        ({"roles": [{"name": "r"}] * 17}, "[1].roles", "at most 16"),
    ],
    ids=str,
)
def test_what_is_wrong_with_a_description_is_told_by_its_place(changes, path, message):
    with pytest.raises(ConfigurationError) as refused:
        kinds_of(described(SOLVER, kind="Other"), described(SOLVER, **changes))
    assert [one.path for one in refused.value.problems] == [f"frameworks{path}"]
    assert message in refused.value.problems[0].message


def test_one_kind_cannot_be_described_twice():
    with pytest.raises(ConfigurationError, match=r"frameworks: example.com/Solver is described 2 times; keep one"):
        kinds_of(described(SOLVER), described(SOLVER))
