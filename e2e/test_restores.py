"""The storage of the API server is put back to a backup: nobody decides by what is no more."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.harness.crds import install_crds
from e2e.harness.installing import own_cluster
from e2e.harness.replica import replica
from e2e.harness.servers import Server
from e2e.harness.story import Story
from e2e.test_failover import ELECTION


@pytest.fixture
def story(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Story]:
    """A story on a cluster of its own: others have no history that could be taken from them."""
    kind = request.config.getoption("--cluster")
    if kind not in {"envtest", "kubelets"}:
        pytest.skip("there is no storage here that a story may put back")
    with own_cluster("envtest", tmp_path / "cluster") as cluster:
        with cluster.connect() as api:
            install_crds(api)
        told = Story(cluster, "story", tmp_path)
        yield told
        told.close()


def back_up(server: Server) -> Path:
    """Keep what is stored as it is now."""
    folder = server.folder / "backup"
    server.etcd.off()
    shutil.copytree(server.folder / "etcd", folder)
    server.etcd.on()
    server.wait_ready()
    return folder


def restore(server: Server, backup: Path) -> None:
    """Put back what was stored then."""
    server.api.off()
    server.etcd.off()
    shutil.rmtree(server.folder / "etcd")
    shutil.copytree(backup, server.folder / "etcd")
    server.etcd.on()
    server.api.on()
    server.wait_ready()


def test_after_a_restore_both_replicas_begin_anew_and_what_is_made_then_is_scheduled(story: Story) -> None:
    """Watches go on at the versions that they had come to, and tell nothing of what is made below those."""
    server = story.cluster.server
    assert server is not None
    story.queue(story.namespace, 2)
    settings = {"leaderElection": {**ELECTION, "leaseName": "story", "leaseNamespace": story.namespace}}
    with replica(story, "first", **settings) as first, replica(story, "second", **settings) as second:
        story.wait(lambda: first.said("deciding") or second.said("deciding"), "one of them to lead")
        story.gang("train", 2, queue=story.namespace)
        story.wait(lambda: len(story.where("train")) == 2, "the gang to be bound")
        backup = back_up(server)
        story.resize_queue(story.namespace, 6)
        story.finish("train")
        story.gang("lost", 2, queue=story.namespace)
        story.wait(lambda: len(story.where("lost")) == 2, "what will be no more to be bound")

        restore(server, backup)

        story.gang("next", 2, queue=story.namespace)
        assert (first.wait(60), second.wait(60)) == (1, 1)
        with replica(story, "started-anew", **settings) as third:
            story.wait(lambda: third.said("deciding"), "a replica to lead that has read everything since")
            story.wait(lambda: story.why("next").get("gate") == "Quota", "it to count as it is now")
            assert "0 free now (0 of its own 2)" in story.why("next")["message"]
            assert len(story.living("train")) == 2
            story.finish("train")
            story.wait(lambda: len(story.where("next")) == 2, "the next gang to be bound")
