"""What people may do: gangs and workloads with a namespace, queues as an administrator, statuses never."""

from __future__ import annotations

from tests.manifests.rbac import documents
from tutti.api.kinds import KINDS
from tutti.api.model import GROUP

ROLES = {one["metadata"]["name"]: one for one in documents("user-roles.yaml")}
WRITES = {"create", "update", "patch", "delete", "deletecollection"}
ALL = {kind.PLURAL for kind in KINDS.values()}


def granted(role):
    """Resources and verbs of a role; all of our group."""
    found = {}
    for rule in ROLES[role]["rules"]:
        assert rule["apiGroups"] == [GROUP]
        for resource in rule["resources"]:
            found.setdefault(resource, set()).update(rule["verbs"])
    return found


def test_whoever_edits_a_namespace_edits_its_gangs_and_workloads_and_no_queue():
    assert granted("tutti-edit") == dict.fromkeys(("podgroups", "workloads"), WRITES)
    assert ROLES["tutti-edit"]["metadata"]["labels"] == {"rbac.authorization.k8s.io/aggregate-to-edit": "true"}


def test_whoever_views_a_namespace_changes_nothing():
    assert granted("tutti-view") == {plural: {"get", "list", "watch"} for plural in ALL}
    assert ROLES["tutti-view"]["metadata"]["labels"] == {"rbac.authorization.k8s.io/aggregate-to-view": "true"}


def test_queues_are_for_whom_an_administrator_names():
    assert granted("tutti-admin").keys() == ALL
    assert "labels" not in ROLES["tutti-admin"]["metadata"]  # part of no role that people have already


def test_nobody_writes_a_status_or_anything_by_a_wildcard():
    for role in ROLES:
        for resource, verbs in granted(role).items():
            assert "/" not in resource
            assert "*" not in resource
            assert "*" not in verbs
