"""The operator's own pages behind authentication: who is let in, what he is shown, and what he sees of a failover.

A real API server says whose token it is, and what he may list; the embedded one lets everybody in.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
import yaml

from e2e.harness.installing import ROOT, Administrator, own_cluster
from e2e.harness.pages import (
    SOON_SECONDS,
    address_of_pages,
    begin_replica,
    install_by_chart,
    install_by_manifests,
    opened,
    person,
    port_of,
    refused,
    shown,
)
from e2e.harness.replica import Replica
from e2e.harness.story import Story

MINE, OTHERS = "tenant-a", "tenant-b"
Pair = tuple[Story, Administrator, list[Replica]]


@pytest.fixture
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pair]:
    """Two replicas with the account, rights and configuration that the manifests give them; the first leads."""
    kind = request.config.getoption("--cluster")
    if kind == "embedded":
        pytest.skip("the embedded server lets everybody in, so there is nobody to keep out")
    with own_cluster(kind, tmp_path / "cluster") as cluster, ExitStack() as ends:
        administrator = Administrator(cluster)
        install_by_manifests(administrator, tmp_path)
        story = Story(cluster, "people", tmp_path)
        ends.callback(story.api.close)
        replicas = []
        for name, event in (("first", "deciding"), ("second", "waiting_for_lease")):
            replicas.append(begin_replica(story, administrator, tmp_path, name, until=event))
            ends.callback(replicas[-1].stop)
        yield story, administrator, replicas


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
        story.wait(lambda port=port: refused(port, reader) == 200, "the reader to be let in")  # type: ignore[misc]
    story.queue("team", 4)
    story.gang("before", 2, queue="team")
    story.wait(lambda: len(story.where("before")) == 2, "a gang to be bound")
    for port in ports:
        story.wait(lambda port=port: "Scheduled" in shown(port, "/gangs", reader), "it to be shown")  # type: ignore[misc]

    connection, answer = opened(ports[1], "/gangs", reader, SOON_SECONDS)
    with closing(connection):
        first.kill()
        story.wait(lambda: second.said("deciding"), "the standby to take over")
        story.gang("after", 2, queue="team")
        story.wait(lambda: len(story.where("after")) == 2, "a gang to be bound by the standby")
        assert any(b'"after"' in line for line in answer), "the open page tells of it"
    story.wait(lambda: "after" in shown(ports[1], "/decisions", reader), "its decisions to be told of")
    story.wait(lambda: _is_gone(ports[0]), "the pages of who was killed to end with it")
    assert refused(ports[1], "made-up") == 401


def _is_gone(port: int) -> bool:
    try:
        connection, _ = opened(port, "/gangs")
    except ConnectionError:
        return True
    connection.close()
    return False


@pytest.fixture(params=["manifests", "chart"])
def installed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Story, Administrator, int]]:
    """A cluster with the operator on it, installed with its pages in either way, and their port."""
    kind = request.config.getoption("--cluster")
    if kind == "embedded":
        pytest.skip("the embedded server lets everybody in, so there is nobody to keep out")
    with own_cluster(kind, tmp_path / "cluster") as cluster:
        administrator = Administrator(cluster)
        if request.param == "chart":
            install_by_chart(administrator, cluster, tmp_path)
        else:
            install_by_manifests(administrator, tmp_path)
        for name in (MINE, OTHERS):
            administrator.kubectl("create", "namespace", name)
        story = Story(cluster, "people", tmp_path)
        try:
            replica = begin_replica(story, administrator, tmp_path, "operator", until="serving_pages")
            try:
                yield story, administrator, port_of(story, replica)
                assert replica.stop() == 0
                assert not [line for line in replica.lines() if line.get("level") == "error"]
            finally:
                replica.stop()
        finally:
            story.api.close()


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
    front, behind, bound = address_of_pages(administrator)
    assert (front, behind) == (bound, bound), "the Service leads to what the configuration serves pages on"
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
