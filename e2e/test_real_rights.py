"""With RBAC as a real API server enforces it: the operator as its service account, and people by the roles for them."""

from __future__ import annotations

import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from kubernetes import client

from e2e.harness.installing import ROOT, Administrator, own_cluster
from e2e.harness.replica import Replica, launched
from e2e.harness.servers import write_kubeconfig
from e2e.harness.story import GROUP, Story

OVERLAY = ROOT / "manifests" / "overlays" / "default"


@pytest.fixture
def installed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Story, Administrator]]:
    with own_cluster(request.config.getoption("--cluster"), tmp_path / "cluster") as cluster:
        administrator = Administrator(cluster)
        administrator.kubectl("create", "namespace", "tutti-system")
        administrator.apply("-k", str(OVERLAY))
        story = Story(cluster, "tenant", tmp_path)
        yield story, administrator
        story.api.close()


@pytest.fixture
def replica(installed: tuple[Story, Administrator], tmp_path: Path) -> Iterator[Replica]:
    """The operator with the token of its service account, and the installed configuration."""
    story, administrator = installed
    asked = {"spec": {"expirationSeconds": 3600, "audiences": ["https://kubernetes.default.svc"]}}
    token = story.core.create_namespaced_service_account_token("tutti", "tutti-system", asked).status.token
    admin = yaml.safe_load(story.cluster.kubeconfig.read_text())["clusters"][0]["cluster"]
    kubeconfig = tmp_path / "service-account"
    write_kubeconfig(kubeconfig, admin["server"], token, Path(admin["certificate-authority"]))
    folder = tmp_path / "operator"
    folder.mkdir()
    metrics = {"bindAddress": "127.0.0.1:0", "secureBindAddress": "127.0.0.1:0"}
    settings = {**administrator.configuration(), "metrics": metrics}
    running = Replica(launched(kubeconfig, folder, settings), folder)
    yield running
    running.stop()


def test_the_operator_does_its_work_with_the_rights_of_the_manifests_and_is_refused_nothing(
    installed: tuple[Story, Administrator], replica: Replica, tmp_path: Path
) -> None:
    story, _ = installed
    high = story.priority_class("high", 1000)
    story.wait(lambda: replica.said("deciding"), "the operator to lead")
    story.queue("team", 4, preemption={"withinClusterQueue": "LowerPriority"})
    story.gang("low", 4, queue="team")
    story.wait(lambda: len(story.where("low")) == 4, "a gang to be bound")
    story.gang("high", 2, queue="team", priority_class=high)
    story.wait(
        lambda: len([pod for pod in story.pods("low") if not pod.metadata.deletion_timestamp]) < 4, "others to leave"
    )
    story.let_leave("low")
    story.wait(lambda: len(story.where("high")) == 2, "it to be bound")
    story.wait(lambda: story.events("high"), "an event")
    story.custom.delete_cluster_custom_object("scheduling.tutti.dev", "v1alpha1", "clusterqueues", "team")
    story.wait(lambda: story.get("ClusterQueue", "team")["metadata"]["finalizers"], "the queue to be held")

    assert replica.stop() == 0
    log = (tmp_path / "operator" / "operator.log").read_text()
    assert "403" not in log
    assert "orbidden" not in log


def test_metrics_are_for_whom_the_api_server_lets_read_them(
    installed: tuple[Story, Administrator], replica: Replica
) -> None:
    story, administrator = installed
    story.wait(lambda: replica.said("serving_metrics"), "metrics to be served")
    port = next(line["port"] for line in replica.lines() if line.get("event") == "serving_metrics")
    administrator.kubectl("create", "serviceaccount", "scraper", "-n", "default")
    token = administrator.kubectl("create", "token", "scraper", "-n", "default").strip()
    anybody = ssl.create_default_context()
    anybody.check_hostname, anybody.verify_mode = False, ssl.CERT_NONE  # its certificate is its own

    def asked(token: str) -> tuple[int, str]:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        request = urllib.request.Request(f"https://127.0.0.1:{port}/metrics", headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=30, context=anybody) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, ""

    assert [asked(one)[0] for one in ("", "made-up", token)] == [401, 401, 403]
    administrator.kubectl("apply", "-f", str(ROOT / "manifests" / "overlays" / "monitoring" / "reader.yaml"))
    binding = ["tutti-metrics-reader", "--clusterrole=tutti-metrics-reader", "--serviceaccount=default:scraper"]
    administrator.kubectl("create", "clusterrolebinding", *binding)
    story.wait(lambda: asked(token)[0] == 200, "the scraper to be let in")
    assert "tutti_leader" in asked(token)[1]
    assert replica.stop() == 0


@pytest.mark.parametrize(
    ("role", "verb", "resource", "allowed"),
    [
        ("tutti-edit", "create", "workloads", True),
        ("tutti-edit", "delete", "podgroups", True),
        ("tutti-edit", "create", "localqueues", False),
        ("tutti-edit", "patch", "workloads/status", False),
        ("tutti-edit", "patch", "clusterqueues", False),
        ("tutti-view", "list", "workloads", True),
        ("tutti-view", "patch", "workloads", False),
    ],
)
def test_people_may_do_what_their_role_says(
    people: client.ApiClient, role: str, verb: str, resource: str, *, allowed: bool
) -> None:
    plural, _, sub = resource.partition("/")
    asked = {"namespace": "default", "verb": verb, "group": GROUP, "resource": plural, "subresource": sub}
    review = {"spec": {"user": f"{role}-user", "resourceAttributes": asked}}
    answer = client.AuthorizationV1Api(people).create_subject_access_review(review)
    assert answer.status.allowed == allowed, answer.status


@pytest.fixture(scope="module")
def people(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[client.ApiClient]:
    """A cluster in which somebody has each of the roles for people, in one namespace."""
    with own_cluster(request.config.getoption("--cluster"), tmp_path_factory.mktemp("people") / "cluster") as cluster:
        administrator = Administrator(cluster)
        administrator.kubectl("create", "namespace", "tutti-system")
        administrator.apply("-k", str(OVERLAY))
        for role in ("tutti-edit", "tutti-view"):
            bound = [role, f"--clusterrole={role}", f"--user={role}-user", "-n", "default"]
            administrator.kubectl("create", "rolebinding", *bound)
        with cluster.connect() as api:
            yield api
