"""Credentials age under an operator that runs for months: a token is replaced, and the server's certificate."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client

from e2e.harness.servers import Server
from e2e.harness.story import GROUP, PLURALS, VERSION, Story

SOON = 90
"""Seconds within which work goes on: what is embedded in an operator looks once a minute who it is."""
LATE = 5
"""Seconds by which what is to replace something comes later than it is needed."""


def token(story: Story, holder: str) -> str:
    """A token of the story's service account that counts for as long as a Secret is there."""
    secret: Any = story.core.create_namespaced_secret(story.namespace, {"metadata": {"name": holder}})
    bound = {"apiVersion": "v1", "kind": "Secret", "name": holder, "uid": secret.metadata.uid}
    body = {"spec": {"boundObjectRef": bound, "expirationSeconds": 3600}}
    return str(story.core.create_namespaced_service_account_token("operator", story.namespace, body).status.token)


def by_token_file(story: Story, file: Path) -> Path:
    """A kubeconfig of whoever has the token in a file."""
    document = yaml.safe_load(story.cluster.kubeconfig.read_text())
    document["users"][0]["user"] = {"tokenFile": str(file)}
    kubeconfig = story.folder / "by-token-file"
    kubeconfig.write_text(yaml.safe_dump(document))
    return kubeconfig


def goes_on(story: Story, name: str) -> float:
    """Have a gang come, and a queue come and go, and wait for all of it; returns how many seconds that took."""
    began = time.monotonic()
    queue = f"{story.namespace}-{name}"
    story.object("ClusterQueue", queue, {"namespaceSelector": {}})
    story.gang(name, 2, gpus=0)
    story.wait(lambda: len(story.where(name)) == 2, f"{name} to run", seconds=SOON)
    story.wait(lambda: story.get("ClusterQueue", queue)["metadata"].get("finalizers"), "a finalizer", seconds=SOON)
    story.custom.delete_cluster_custom_object(GROUP, VERSION, PLURALS["ClusterQueue"], queue)
    story.wait(lambda: queue not in queues(story), "the queue to be gone", seconds=SOON)
    return round(time.monotonic() - began, 1)


def queues(story: Story) -> list[str]:
    """The names of all ClusterQueues."""
    found = story.custom.list_cluster_custom_object(GROUP, VERSION, PLURALS["ClusterQueue"])["items"]
    return [one["metadata"]["name"] for one in found]


@pytest.mark.parametrize("late", [0, LATE])
def test_a_token_is_replaced(
    story: Story, server: Server, record_property: Callable[[str, object], None], late: int
) -> None:
    """The old one is refused, for some seconds before the new one is there."""
    story.core.create_namespaced_service_account(story.namespace, {"metadata": {"name": "operator"}})
    roles = client.RbacAuthorizationV1Api(story.api)
    subject = {"kind": "ServiceAccount", "name": "operator", "namespace": story.namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    roles.create_cluster_role_binding({"metadata": {"name": story.namespace}, "roleRef": role, "subjects": [subject]})
    file = story.folder / "token"
    file.write_text(token(story, "first"))
    story.kubeconfig = by_token_file(story, file)
    story.start_operator()
    goes_on(story, "before")
    following = token(story, "second")
    story.core.delete_namespaced_secret("first", story.namespace)
    story.wait(lambda: story.log.read_text().count("credentials_refused"), "the old token to be refused", seconds=60)
    time.sleep(late)
    file.write_text(following)
    record_property("seconds", goes_on(story, "after"))
    roles.delete_cluster_role_binding(story.namespace)


@pytest.mark.parametrize("late", [0, LATE])
def test_the_certificate_of_the_server_is_replaced(
    story: Story, server: Server, record_property: Callable[[str, object], None], late: int
) -> None:
    """The file that says whom to believe is replaced some seconds later."""
    if story.cluster.kubelets:
        pytest.skip("nobody would tell the kubelets whom to believe")
    document = yaml.safe_load(story.cluster.kubeconfig.read_text())
    believed = story.folder / "ca.crt"
    shutil.copy(server.certificate, believed)
    document["clusters"][0]["cluster"]["certificate-authority"] = str(believed)
    story.kubeconfig = story.folder / "by-ca-file"
    story.kubeconfig.write_text(yaml.safe_dump(document))
    story.start_operator()
    goes_on(story, "before")
    server.api.off()
    for one in (server.certificate, server.certificate.with_suffix(".key")):
        one.unlink()
    server.api.on()
    server.wait_ready()
    time.sleep(late)
    shutil.copy(server.certificate, believed)
    story.api.close()
    story.connect()
    record_property("seconds", goes_on(story, "after"))
    assert story.operator is not None
    assert story.operator.poll() is None
