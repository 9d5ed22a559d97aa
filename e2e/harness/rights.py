"""As whom an operator comes, and what it is not shown: a kind that it may not read, or that it hears of late."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes import client

from e2e.harness.story import Story


@contextlib.contextmanager
def unreadable(story: Story, group: str, plural: str) -> Iterator[None]:
    """Have lists and watches of a kind answered with 403, for an operator that is started within."""
    if story.cluster.kind == "embedded":
        match = {"verbs": ["list", "watch"], "groups": [group], "resources": [plural]}
        with _rule(story, {"name": "refused", "match": match, "error": {"code": 403}}):
            yield
        return
    if story.cluster.server is None:
        pytest.skip("nobody here can make out whom a server believes")
    # A name for each kind: a server goes by rights that are no more for a moment.
    name = f"e2e-operator-without-{plural}"
    story.kubeconfig = story.cluster.server.kubeconfig_of(name)
    rights = client.RbacAuthorizationV1Api(story.api)
    with _granted(rights, name, _all_but(story.api, group, plural)):
        try:
            yield
        finally:
            story.stop_operator()
            story.kubeconfig = story.cluster.kubeconfig


@contextlib.contextmanager
def by_rbac(story: Story) -> Iterator[None]:
    """Have an operator that is started within be somebody who may do everything, and may because of roles."""
    if story.cluster.server is None:
        pytest.skip("nobody here can make out whom a server believes")
    name = f"{story.namespace}-operator"
    rights = client.RbacAuthorizationV1Api(story.api)
    every = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
    paths = {"nonResourceURLs": ["*"], "verbs": ["*"]}
    with _granted(rights, name, [every, paths]):
        story.kubeconfig = story.cluster.server.kubeconfig_of(name)
        try:
            yield
        finally:
            story.stop_operator()
            story.kubeconfig = story.cluster.kubeconfig


@contextlib.contextmanager
def _granted(rights: client.RbacAuthorizationV1Api, name: str, rules: list[dict[str, Any]]) -> Iterator[None]:
    """Have a user some rights, by a role of its name."""
    rights.create_cluster_role({"metadata": {"name": name}, "rules": rules})
    subject = {"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"}
    role = {"kind": "ClusterRole", "name": name, "apiGroup": "rbac.authorization.k8s.io"}
    rights.create_cluster_role_binding({"metadata": {"name": name}, "subjects": [subject], "roleRef": role})
    try:
        yield
    finally:
        rights.delete_cluster_role_binding(name)
        rights.delete_cluster_role(name)


def _all_but(api: client.ApiClient, group: str, plural: str) -> list[dict[str, Any]]:
    """Every right but those to one kind."""
    groups = {one.name for one in client.ApisApi(api).get_api_versions().groups} | {""}
    version = (
        next(one for one in client.ApisApi(api).get_api_versions().groups if one.name == group).versions[0].version
    )
    others = [
        one.name for one in client.CustomObjectsApi(api).get_api_resources(group, version).resources
        if one.name.partition("/")[0] != plural
    ]  # fmt: skip
    every = {"apiGroups": sorted(groups - {group}), "resources": ["*"], "verbs": ["*"]}
    paths = {"nonResourceURLs": ["*"], "verbs": ["*"]}
    return [every, paths, *([{"apiGroups": [group], "resources": others, "verbs": ["*"]}] if others else [])]


@contextlib.contextmanager
def late(story: Story, seconds: float, *plurals: str) -> Iterator[None]:
    """Have an operator that is started within hear of objects so much later than of their pods."""
    if story.cluster.kind != "embedded":
        pytest.skip("a real server does not hold back what it has to tell")
    match = {"verbs": ["watch"], "resources": list(plurals)}
    with _rule(story, {"name": "late", "match": match, "watch": {"delay": str(seconds)}}):
        yield


def watches(story: Story, rule: str) -> int:
    """How many requests a rule has struck so far."""
    counts: dict[str, dict[str, int]] = _ask(story, "GET", "counts")
    return counts[rule]["struck"]


@contextlib.contextmanager
def _rule(story: Story, rule: dict[str, Any]) -> Iterator[None]:
    """Have the embedded cluster behave so, until the block ends."""
    _ask(story, "PUT", f"rules/{rule['name']}", rule)
    try:
        yield
    finally:
        _ask(story, "DELETE", f"rules/{rule['name']}")


def _ask(story: Story, verb: str, path: str, body: dict[str, Any] | None = None) -> Any:
    headers = {"Accept": "application/json", "Content-Type": "application/json"}
    asked = story.api.param_serialize(
        verb, f"/_tutti/faults/{path}", header_params=headers, body=body, auth_settings=["BearerToken"]
    )
    answer = story.api.call_api(*asked)
    said = answer.read()
    assert answer.status < 300, said
    return json.loads(said)
