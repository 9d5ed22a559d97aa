"""The operator's own pages, as a real API server lets people in: whose token it is, and what he may list."""

from __future__ import annotations

import http.client
import json
import os
import ssl
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import yaml

from e2e.harness.installing import ROOT, Administrator, own_cluster
from e2e.harness.replica import Replica, launched
from e2e.harness.servers import write_kubeconfig
from e2e.harness.story import Story

MINE, OTHERS = "tenant-a", "tenant-b"
# A stream asks once a minute whether it may go on, when a message or a beat (15 s) comes.
SOON_SECONDS = 90


@pytest.fixture
def installed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Story, Administrator, int]]:
    """A cluster with the operator on it as its manifests have it with the pages, and their port."""
    with own_cluster(request.config.getoption("--cluster"), tmp_path / "cluster") as cluster:
        administrator = Administrator(cluster)
        for name in ("tutti-system", MINE, OTHERS):
            administrator.kubectl("create", "namespace", name)
        folder = tmp_path / "installed"
        folder.mkdir()
        manifests = os.path.relpath(ROOT / "manifests", folder.resolve())
        parts = {"resources": [f"{manifests}/overlays/default"], "components": [f"{manifests}/components/web-view"]}
        (folder / "kustomization.yaml").write_text(yaml.safe_dump(parts))
        administrator.apply("-k", str(folder))
        story = Story(cluster, "people", tmp_path)
        asked = {"spec": {"expirationSeconds": 3600, "audiences": ["https://kubernetes.default.svc"]}}
        token = story.core.create_namespaced_service_account_token("tutti", "tutti-system", asked).status.token
        admin = yaml.safe_load(cluster.kubeconfig.read_text())["clusters"][0]["cluster"]
        write_kubeconfig(tmp_path / "account", admin["server"], token, Path(admin["certificate-authority"]))
        log = tmp_path / "operator"
        log.mkdir()
        ours = {"bindAddress": "127.0.0.1:0", "secureBindAddress": "127.0.0.1:0"}
        settings = {**administrator.configuration(), "metrics": ours, "ui": {"bindAddress": "127.0.0.1:0"}}
        replica = Replica(launched(tmp_path / "account", log, settings), log)
        try:
            story.wait(lambda: replica.said("serving_pages"), "pages to be served")
            (port,) = [line["port"] for line in replica.lines() if line.get("event") == "serving_pages"]
            yield story, administrator, port
            assert replica.stop() == 0
            assert not [line for line in replica.lines() if line.get("level") == "error"]
        finally:
            replica.stop()
            story.api.close()


def opened(port: int, page: str, token: str = "", seconds: float = 30) -> tuple[http.client.HTTPSConnection, Any]:
    """Open the stream of a page; the connection is the caller's to close."""
    anybody = ssl.create_default_context()
    anybody.check_hostname, anybody.verify_mode = False, ssl.CERT_NONE  # its certificate is its own
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=seconds, context=anybody)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    connection.request("GET", f"/stream?page={quote(page, safe='')}", headers=headers)
    return connection, connection.getresponse()


def shown(port: int, page: str, token: str) -> str:
    """The whole page, as somebody is sent it."""
    connection, answer = opened(port, page, token)
    with closing(connection):
        assert answer.status == 200, answer.read()
        for line in answer:
            if line.startswith(b"data: "):
                return json.dumps(json.loads(line[6:]))
    raise AssertionError("the stream has ended")


def refused(port: int, token: str) -> int:
    connection, answer = opened(port, "/gangs", token)
    with closing(connection):
        return answer.status


def person(administrator: Administrator, name: str) -> str:
    administrator.kubectl("create", "serviceaccount", name, "-n", "default")
    return administrator.kubectl("create", "token", name, "-n", "default").strip()


def gang(administrator: Administrator, folder: Path, namespace: str, name: str) -> None:
    made = {
        "apiVersion": "scheduling.tutti.dev/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
    }
    queue = {**made, "kind": "LocalQueue", "spec": {"clusterQueue": "all"}}
    (folder / f"{name}.yaml").write_text(yaml.safe_dump_all([made, queue]))
    administrator.kubectl("apply", "-f", str(folder / f"{name}.yaml"))


def test_pages_show_each_what_he_may_list_until_he_may_not(
    installed: tuple[Story, Administrator, int], tmp_path: Path
) -> None:
    story, administrator, port = installed
    gang(administrator, tmp_path, MINE, "mine")
    gang(administrator, tmp_path, OTHERS, "of-others")
    tenant, reader = person(administrator, "tenant"), person(administrator, "reader")
    assert [refused(port, one) for one in ("", "made-up", tenant)] == [401, 401, 403]

    # What the role `view` is made of, by controllers that are not here.
    for number, role in enumerate(("system:aggregate-to-view", "tutti-view")):
        bound = ("rolebinding", f"tenant-{number}", f"--clusterrole={role}", "--serviceaccount=default:tenant")
        administrator.kubectl("create", *bound, "-n", MINE)
    administrator.kubectl("apply", "-f", str(ROOT / "manifests" / "viewer.yaml"))
    administrator.kubectl(
        "create", "clusterrolebinding", "reader", "--clusterrole=tutti-viewer", "--serviceaccount=default:reader"
    )
    story.wait(lambda: refused(port, tenant) == 200, "the tenant to be let in")
    story.wait(lambda: "mine" in shown(port, "/gangs", tenant), "the gang to be shown")

    for page in ("/", "/gangs", "/decisions", "/nodes", f"/workload/{MINE}/mine", f"/workload/{OTHERS}/of-others"):
        text = shown(port, page, tenant).replace(f"workload {OTHERS}/of-others", "").replace(f"{OTHERS}/of-others", "")
        assert OTHERS not in text, page
        assert "of-others" not in text, page
        assert "node-0" not in text, page
    everything = shown(port, "/gangs", reader)
    assert "mine" in everything
    assert "of-others" in everything
    assert "node-0" in shown(port, "/nodes", reader)

    connection, answer = opened(port, "/gangs", tenant, SOON_SECONDS)
    with closing(connection):
        administrator.kubectl("delete", "serviceaccount", "tenant", "-n", "default")
        assert any(line == b"event: over\n" for line in answer), "the stream is ended with a word"
    assert refused(port, tenant) == 401
    assert refused(port, reader) == 200
