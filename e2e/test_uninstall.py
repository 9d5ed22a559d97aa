"""Taking Tutti out again leaves nothing of it, and goes on with nobody's pods."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.harness.installing import ROOT, Administrator, own_cluster
from e2e.harness.story import Story

SCRIPT = str(ROOT / "manifests" / "uninstall.sh")
OVERLAY = ROOT / "manifests" / "overlays" / "ha"
WITH_WEBHOOKS = ROOT / "manifests" / "overlays" / "webhook" / "self-signed"


@pytest.fixture
def installed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Story, Administrator]]:
    """A cluster with everything installed, and the operator running."""
    kind = request.config.getoption("--cluster")
    with own_cluster(kind, tmp_path / "cluster") as cluster:
        administrator = Administrator(cluster)
        if kind == "envtest":
            pytest.skip("no controller empties namespaces there, so the operator's own never goes")
        administrator.kubectl("create", "namespace", "tutti-system")
        administrator.apply("-k", str(OVERLAY))
        story = Story(cluster, "tenant", tmp_path)
        story.start_operator(leaderElection={"leaseNamespace": "tutti-system"})
        try:
            yield story, administrator
        finally:
            story.stop_operator()
            story.api.close()


def traces(administrator: Administrator) -> list[str]:
    """Everything in the cluster that is ours: kinds, objects by name or label, finalizers, and subjects of bindings."""
    kinds = [
        kind
        for kind in administrator.kubectl("api-resources", "--verbs=list", "-o", "name").split()
        if not kind.startswith("events")  # which expire by themselves
    ]
    listed = json.loads(administrator.kubectl("get", ",".join(kinds), "-A", "-o", "json"))["items"]
    objects = [f"{one['kind']} {one['metadata']['name']}" for one in listed if _is_ours(one)]
    return [kind for kind in kinds if kind.endswith(".tutti.dev")] + objects


def _is_ours(one: dict[str, Any]) -> bool:
    meta = one["metadata"]
    return (
        meta["name"].startswith("tutti")
        or meta.get("namespace") == "tutti-system"
        or meta.get("labels", {}).get("app.kubernetes.io/part-of") == "tutti"
        or any("tutti.dev" in finalizer for finalizer in meta.get("finalizers", ()))
        or any(subject.get("namespace") == "tutti-system" for subject in one.get("subjects", ()))
    )


def test_nothing_is_left_once_queues_are_empty_and_pods_go_on(installed: tuple[Story, Administrator]) -> None:
    story, administrator = installed
    story.queue("team", 4)
    story.gang("done", 2, queue="team")
    story.pod("service", gpus=1)
    story.wait(lambda: len(story.where("done")) == 2 and story.where("service"), "everything to be bound")
    assert traces(administrator)
    place = story.where("service")
    story.finish("done")
    story.wait(
        lambda: not story.get("ClusterQueue", "team")["status"].get("admittedWorkloads"), "the queue to be empty"
    )

    done = administrator.run(SCRIPT)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "nothing is left" in done.stderr
    assert traces(administrator) == []
    assert story.where("service") == place


def test_what_still_runs_in_a_queue_holds_it_up_and_is_named(installed: tuple[Story, Administrator]) -> None:
    story, administrator = installed
    story.queue("team", 4)
    story.gang("long", 2, queue="team")
    story.wait(lambda: len(story.where("long")) == 2, "the gang to be bound")

    done = administrator.run(SCRIPT, TIMEOUT="3s")

    assert done.returncode == 1
    assert "something still runs in these queues" in done.stderr
    assert "long" in done.stderr
    assert len(story.where("long")) == 2


def test_with_the_operator_gone_it_goes_by_force(installed: tuple[Story, Administrator]) -> None:
    story, administrator = installed
    story.queue("team", 4)
    story.gang("long", 2, queue="team")
    story.wait(lambda: len(story.where("long")) == 2, "the gang to be bound")
    place = story.where("long")
    story.kill_operator()
    administrator.apply("-k", str(WITH_WEBHOOKS))  # which nobody serves, and which fail closed

    done = administrator.run(SCRIPT, FORCE="1")

    assert done.returncode == 0, done.stdout + done.stderr
    assert traces(administrator) == []
    assert story.where("long") == place
