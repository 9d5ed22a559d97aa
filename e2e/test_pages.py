"""Pages behind authentication beside two replicas: who looks at those of the standby sees it take over."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
import yaml

from e2e.harness.installing import ROOT, Administrator, own_cluster
from e2e.harness.replica import Replica, launched
from e2e.harness.servers import write_kubeconfig
from e2e.harness.story import Story
from e2e.test_real_pages import SOON_SECONDS, opened, person, refused, shown

Pair = tuple[Story, Administrator, list[Replica]]


@pytest.fixture
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pair]:
    """Two replicas with the account, rights and configuration that the manifests give them; the first leads."""
    kind = request.config.getoption("--cluster")
    if kind == "embedded":
        pytest.skip("the embedded server lets everybody in, so there is nobody to keep out")
    with own_cluster(kind, tmp_path / "cluster") as cluster, ExitStack() as ends:
        administrator = Administrator(cluster)
        administrator.kubectl("create", "namespace", "tutti-system")
        folder = tmp_path / "installed"
        folder.mkdir()
        manifests = os.path.relpath(ROOT / "manifests", folder.resolve())
        parts = {"resources": [f"{manifests}/overlays/default"], "components": [f"{manifests}/components/web-view"]}
        (folder / "kustomization.yaml").write_text(yaml.safe_dump(parts))
        administrator.apply("-k", str(folder))
        story = Story(cluster, "people", tmp_path)
        ends.callback(story.api.close)
        token = administrator.kubectl("create", "token", "tutti", "-n", "tutti-system", "--duration=1h").strip()
        admin = yaml.safe_load(cluster.kubeconfig.read_text())["clusters"][0]["cluster"]
        write_kubeconfig(tmp_path / "account", admin["server"], token, Path(admin["certificate-authority"]))
        metrics = {"bindAddress": "127.0.0.1:0", "secureBindAddress": "127.0.0.1:0"}
        settings = {**administrator.configuration(), "metrics": metrics, "ui": {"bindAddress": "127.0.0.1:0"}}
        replicas = []
        for name, event in (("first", "deciding"), ("second", "waiting_for_lease")):
            log = tmp_path / name
            log.mkdir()
            one = Replica(launched(tmp_path / "account", log, settings), log)
            ends.callback(one.stop)
            story.wait(lambda one=one, event=event: one.said(event), f"the {name} replica to say {event}", seconds=60)  # type: ignore[misc]
            replicas.append(one)
        yield story, administrator, replicas


def port_of(story: Story, replica: Replica) -> int:
    story.wait(lambda: replica.said("serving_pages"), "pages to be served", seconds=60)
    return int(next(line["port"] for line in replica.lines() if line.get("event") == "serving_pages"))


@pytest.mark.timeout(600)
def test_who_looks_at_the_standby_goes_on_looking_when_the_leader_dies(pair: Pair) -> None:
    story, administrator, (first, second) = pair
    ports = [port_of(story, one) for one in (first, second)]
    administrator.kubectl("apply", "-f", str(ROOT / "manifests" / "viewer.yaml"))
    nobody, reader = person(administrator, "nobody"), person(administrator, "reader")
    administrator.kubectl(
        "create", "clusterrolebinding", "reader", "--clusterrole=tutti-viewer", "--serviceaccount=default:reader"
    )
    for port in ports:
        assert [refused(port, one) for one in ("", "made-up", nobody)] == [401, 401, 403]
        story.wait(lambda port=port: refused(port, reader) == 200, "the reader to be let in", seconds=60)  # type: ignore[misc]
    story.queue("team", 4)
    story.gang("before", 2, queue="team")
    story.wait(lambda: len(story.where("before")) == 2, "a gang to be bound", seconds=60)
    for port in ports:
        story.wait(lambda port=port: "Scheduled" in shown(port, "/gangs", reader), "it to be shown", seconds=60)  # type: ignore[misc]

    connection, answer = opened(ports[1], "/gangs", reader, SOON_SECONDS)
    with closing(connection):
        first.kill()
        story.wait(lambda: second.said("deciding"), "the standby to take over", seconds=60)
        story.gang("after", 2, queue="team")
        story.wait(lambda: len(story.where("after")) == 2, "a gang to be bound by the standby", seconds=60)
        assert any(b'"after"' in line for line in answer), "the open page tells of it"
    assert "after" in shown(ports[1], "/decisions", reader)
    story.wait(lambda: _is_gone(ports[0]), "the pages of who was killed to end with it", seconds=60)
    assert refused(ports[1], "made-up") == 401


def _is_gone(port: int) -> bool:
    try:
        connection, _ = opened(port, "/gangs")
    except ConnectionError:
        return True
    connection.close()
    return False
