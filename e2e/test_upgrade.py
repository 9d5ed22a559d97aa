"""From the manifests of before to those of now: what runs goes on, what is stored stays, what was known is known."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.harness.installing import ROOT, Administrator, own_cluster
from e2e.harness.story import Story

PREVIOUS = ROOT / "e2e" / "previous" / "0.1.0.yaml"
OVERLAY = ROOT / "manifests" / "overlays" / "ha"


KINDS_SINCE = ("admissionchecks",)
"""Those that there were not then: the operator is the one of today, and waits until it has all of its kinds."""


@pytest.fixture
def before(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Story, Administrator]]:
    """A cluster with what was installed before, and the operator with the configuration of then."""
    with own_cluster(request.config.getoption("--cluster"), tmp_path / "cluster") as cluster:
        administrator = Administrator(cluster)
        administrator.kubectl("create", "namespace", "tutti-system")
        administrator.apply("-f", str(PREVIOUS))
        for name in KINDS_SINCE:
            administrator.apply("-f", str(ROOT / "crds" / f"scheduling.tutti.dev_{name}.yaml"))
        story = Story(cluster, "upgrade", tmp_path)
        try:
            yield story, administrator
        finally:
            story.stop_operator()
            story.api.close()


def settings(administrator: Administrator) -> dict[str, object]:
    """The installed configuration, at an address of this machine."""
    return {**administrator.configuration(), "metrics": {"bindAddress": "127.0.0.1:0"}}


def test_what_runs_and_what_waits_lives_through_an_upgrade(before: tuple[Story, Administrator]) -> None:
    story, administrator = before
    story.start_operator(**settings(administrator))
    story.queue("team", 4)
    story.gang("running", 3, queue="team")
    story.wait(lambda: len(story.where("running")) == 3, "a gang to be bound")
    story.gang("waiting", 2, queue="team")
    story.wait(lambda: story.why("waiting").get("gate") == "Quota", "another to wait for quota")
    places, specs = (
        story.where("running"),
        {name: story.get("PodGroup", name)["spec"] for name in ("running", "waiting")},
    )

    administrator.apply("-k", str(OVERLAY))
    assert story.stop_operator() == 0
    story.start_operator(**settings(administrator))

    story.wait(lambda: story.get("ClusterQueue", "team")["status"].get("admittedWorkloads") == 1, "the queue to count")
    assert story.where("running") == places
    assert {name: story.get("PodGroup", name)["spec"] for name in specs} == specs
    assert story.why("waiting")["gate"] == "Quota"
    story.finish("running")
    story.wait(lambda: len(story.where("waiting")) == 2, "the other to follow")


def test_everything_of_the_new_manifests_is_there_and_takes_the_place_of_the_old(
    before: tuple[Story, Administrator],
) -> None:
    _, administrator = before
    named = "-o=jsonpath={range .items[*]}{.metadata.name}{'\\n'}{end}"
    roles = administrator.kubectl("get", "clusterroles", "-l", "app.kubernetes.io/part-of=tutti", named).split()
    assert roles == ["tutti"]

    administrator.apply("-k", str(OVERLAY))

    roles = administrator.kubectl("get", "clusterroles", "-l", "app.kubernetes.io/part-of=tutti", named).split()
    assert roles == ["tutti", "tutti-admin", "tutti-edit", "tutti-view"]
    budget = administrator.kubectl("get", "poddisruptionbudget", "tutti", "-n", "tutti-system", "-o", "name")
    assert budget.strip() == "poddisruptionbudget.policy/tutti"
    replicas = "-o=jsonpath={.spec.replicas}"
    assert administrator.kubectl("get", "deployment", "tutti", "-n", "tutti-system", replicas) == "2"
    # Nothing is left to be changed, so that whoever applies them again changes nothing.
    assert (
        administrator.run("kubectl", "diff", "--server-side", "--force-conflicts", "-k", str(OVERLAY)).returncode == 0
    )
