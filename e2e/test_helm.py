"""By Helm: what is installed runs work, an upgrade and an uninstall leave work and queues alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kubernetes import client

from e2e.harness.helm import NAMESPACE, PREVIOUS, Helm, begin_test, chart_of_before
from e2e.harness.installing import ROOT, Administrator, own_cluster
from e2e.harness.kubelets import has_account
from e2e.harness.processes import PATIENCE, wait_for
from e2e.harness.story import Story
from tests.manifests.helm import sdk

KINDS_SINCE = ("admissionchecks",)
"""Those that there were not in 0.1.0: the operator is the one of today, and waits until it has all of its kinds."""


@pytest.fixture
def bare(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Story, Administrator, Helm]]:
    """A cluster without anything of ours, and somebody with Helm."""
    with own_cluster(request.config.getoption("--cluster"), tmp_path / "cluster") as cluster:
        story, helm = Story(cluster, "tenant", tmp_path), Helm(cluster, tmp_path)
        try:
            yield story, Administrator(cluster), helm
        finally:
            story.stop_operator()
            story.api.close()
            helm.close()


def start(story: Story, administrator: Administrator) -> None:
    """Start the operator with what the chart has configured, at an address of this machine."""
    administrator.wait_established()
    story.start_operator(**{**administrator.configuration(), "metrics": {"bindAddress": "127.0.0.1:0"}})


def a_gang_runs_and_another_waits(story: Story) -> dict[str, str]:
    """Where the members of the first are."""
    story.queue("team", 4)
    story.gang("running", 3, queue="team")
    story.wait(lambda: len(story.where("running")) == 3, "a gang to be bound")
    story.gang("waiting", 2, queue="team")
    story.wait(lambda: story.why("waiting").get("gate") == "Quota", "another to wait for quota")
    return story.where("running")


def it_goes_on(story: Story, places: dict[str, str]) -> None:
    """The first gang has stayed where it is and counts; the other follows when it ends."""
    story.wait(lambda: story.get("ClusterQueue", "team")["status"].get("admittedWorkloads") == 1, "the queue to count")
    assert story.where("running") == places
    assert story.why("waiting")["gate"] == "Quota"
    story.finish("running")
    story.wait(lambda: len(story.where("waiting")) == 2, "the other to follow")


def its_test_passes(story: Story) -> None:
    """`helm test` says so when its pod was placed, and has ended well."""
    test = begin_test(story.cluster, PATIENCE)
    here, story.namespace = story.namespace, NAMESPACE
    story.wait(lambda: bool(story.where("tutti-test")), "the pod of the test to be bound")
    story.finish("tutti-test")
    story.namespace = here
    said, _ = test.communicate(timeout=PATIENCE)
    assert test.returncode == 0, said


def test_what_runs_lives_through_an_upgrade_of_the_release_and_of_its_definitions(
    bare: tuple[Story, Administrator, Helm],
) -> None:
    story, administrator, helm = bare
    helm.install(chart_of_before(helm.chart))
    for name in KINDS_SINCE:
        administrator.apply("-f", str(ROOT / "crds" / f"scheduling.tutti.dev_{name}.yaml"))
    start(story, administrator)
    places = a_gang_runs_and_another_waits(story)
    known = client.ApiextensionsV1Api(story.api)

    def degraded_is_told() -> bool:
        found = known.read_custom_resource_definition("podgroups.scheduling.tutti.dev")
        return "onMemberLoss" in found.spec.versions[0].schema.open_apiv3_schema.properties["spec"].properties

    assert not degraded_is_told()
    for name in KINDS_SINCE:  # a release takes over what is its own only
        administrator.kubectl(
            "annotate", "crd", f"{name}.scheduling.tutti.dev", "meta.helm.sh/release-name=tutti",
            f"meta.helm.sh/release-namespace={NAMESPACE}",
        )  # fmt: skip
        administrator.kubectl(
            "label", "crd", f"{name}.scheduling.tutti.dev", "app.kubernetes.io/managed-by=Helm", "--overwrite"
        )

    helm.upgrade(highAvailability={"enabled": True})
    assert story.stop_operator() == 0
    start(story, administrator)

    assert degraded_is_told()
    replicas = administrator.kubectl("get", "deployment", "tutti", "-n", NAMESPACE, "-o=jsonpath={.spec.replicas}")
    assert replicas == "2"
    it_goes_on(story, places)


def test_installed_tested_uninstalled_and_installed_again_nothing_of_the_users_is_lost(
    bare: tuple[Story, Administrator, Helm],
) -> None:
    story, administrator, helm = bare
    helm.install()
    wait_for(lambda: not story.cluster.replica_sets or has_account(story.core, NAMESPACE), "a service account")
    with pytest.raises(sdk().HelmError, match=r"(?i)time|deadline"):
        helm.test(1)  # nobody places its pod
    start(story, administrator)
    its_test_passes(story)
    places = a_gang_runs_and_another_waits(story)

    assert story.stop_operator() == 0
    kept = helm.uninstall()

    assert "clusterqueues.scheduling.tutti.dev" in kept
    assert story.where("running") == places
    left = administrator.kubectl(
        "get", "deployments,services,configmaps,roles,clusterroles,validatingadmissionpolicies", "-A", "-o", "name",
        "-l", "app.kubernetes.io/part-of=tutti",
    )  # fmt: skip
    assert left == ""
    helm.install()
    start(story, administrator)
    it_goes_on(story, places)


def test_from_kustomize_to_a_release_with_work_running(bare: tuple[Story, Administrator, Helm]) -> None:
    story, administrator, helm = bare
    administrator.kubectl("create", "namespace", NAMESPACE)
    administrator.apply("-f", str(PREVIOUS))
    administrator.apply("-k", str(ROOT / "manifests" / "overlays" / "default"))
    start(story, administrator)
    places = a_gang_runs_and_another_waits(story)

    assert story.stop_operator() == 0
    everything_but_definitions = (
        "deployments,services,serviceaccounts,configmaps,roles,rolebindings,networkpolicies,poddisruptionbudgets",
        (
            "clusterroles,clusterrolebindings,validatingadmissionpolicies,validatingadmissionpolicybindings,"
            "validatingwebhookconfigurations,mutatingwebhookconfigurations"
        ),
    )
    for kinds, where in zip(everything_but_definitions, (["-n", NAMESPACE], []), strict=True):
        administrator.kubectl("delete", kinds, *where, "-l", "app.kubernetes.io/part-of=tutti")
    helm.install(crds={"install": False})
    start(story, administrator)

    it_goes_on(story, places)
