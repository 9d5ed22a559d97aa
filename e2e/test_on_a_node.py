"""The image and the manifests on one node with real containers: installed, probed, restarted, taken out again."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.harness.clusters import Cluster
from e2e.harness.installing import ROOT, Administrator
from e2e.harness.node import NODE
from e2e.harness.story import Story

pytestmark = pytest.mark.node

OVERLAY = ROOT / "manifests" / "overlays" / "default"
SYSTEM = "tutti-system"
SOON = 180


class Installed:
    """The operator in its pod."""

    def __init__(self, cluster: Cluster) -> None:
        assert cluster.runtime is not None
        self.cluster, self.node = cluster, cluster.runtime
        self.administrator = Administrator(cluster)

    def pod(self) -> dict[str, Any]:
        """Its pod."""
        asked = ["get", "pods", "-n", SYSTEM, "-l", "app.kubernetes.io/name=tutti", "-o", "json"]
        (found,) = json.loads(self.administrator.kubectl(*asked))["items"]
        return dict(found)

    def container(self) -> dict[str, Any]:
        """What the kubelet says of its container."""
        return dict(self.pod()["status"]["containerStatuses"][0])

    def pid(self) -> int:
        """Its process, as this machine counts them."""
        return self.node.pids()[self.container()["containerID"].removeprefix("containerd://")]


@pytest.fixture(scope="module")
def installed(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The default overlay, with what a node without proxy and scheduler needs, and the operator ready."""
    found = Installed(cluster)
    folder = tmp_path_factory.mktemp("overlay")
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(_patched(folder, cluster)))
    found.administrator.apply("-k", str(folder))
    found.administrator.kubectl("rollout", "status", "deployment/tutti", "-n", SYSTEM, f"--timeout={SOON}s")
    return found


def _patched(folder: Path, cluster: Cluster) -> dict[str, Any]:
    """An overlay of our own: the API server by its loopback address, from the host's network, on the only node."""
    server = yaml.safe_load(cluster.kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
    here = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": server.rsplit(":", 1)[1]}
    container = {
        "name": "tutti",
        "env": [{"name": name, "value": value} for name, value in here.items()],
        "livenessProbe": {"httpGet": {"host": "127.0.0.1"}},
        "readinessProbe": {"httpGet": {"host": "127.0.0.1"}},
    }
    pod = {"hostNetwork": True, "nodeName": NODE, "containers": [container]}
    strategy = {"type": "Recreate", "rollingUpdate": None}  # two cannot listen on one port of the host
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "tutti", "namespace": SYSTEM}}
    labels = {"pod-security.kubernetes.io/enforce": "privileged"}  # for the host's network alone
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM, "labels": labels}}
    patches = [{**deployment, "spec": {"strategy": strategy, "template": {"spec": pod}}}, namespace]
    return {
        "resources": [os.path.relpath(OVERLAY, folder)],
        "patches": [{"patch": yaml.safe_dump(patch)} for patch in patches],
    }


def test_the_operator_comes_up_and_answers_its_probes(installed: Installed) -> None:
    conditions = {one["type"]: one["status"] for one in installed.pod()["status"]["conditions"]}
    assert conditions["Ready"] == "True"
    assert installed.container()["restartCount"] == 0


def test_a_gang_of_real_containers_starts_from_its_queue(story: Story, installed: Installed) -> None:
    story.queue(story.namespace, 4)
    story.gang("trio", 3, queue=story.namespace)
    story.wait(lambda: running(story, "trio") == 3, "the gang to run", SOON)
    pids = installed.node.pids()
    assert all(containers(story, "trio")[name] in pids for name in ("trio-0", "trio-1", "trio-2"))
    story.gang("more", 2, queue=story.namespace)
    story.wait(lambda: story.why("more").get("gate") == "Quota", "another gang to wait for quota")

    story.finish("trio")

    story.wait(lambda: running(story, "more") == 2, "the other gang to follow", SOON)


def test_its_process_has_no_more_than_the_restricted_profile_allows(installed: Installed) -> None:
    said = dict(re.findall(r"^(\w+):\s*(.*)$", Path(f"/proc/{installed.pid()}/status").read_text(), re.MULTILINE))
    assert set(said["Uid"].split()) == set(said["Gid"].split()) == {"65532"}
    assert {int(said[name], 16) for name in ("CapEff", "CapPrm", "CapBnd")} == {0}
    assert (said["NoNewPrivs"], said["Seccomp"]) == ("1", "2")  # 2: a filter
    mounts = Path(f"/proc/{installed.pid()}/mounts").read_text().splitlines()
    (options,) = [line.split()[3] for line in mounts if line.split()[1] == "/"]
    assert "ro" in options.split(",")


def test_the_manifests_as_they_are_pass_the_restricted_profile_and_the_hosts_network_does_not(
    story: Story, installed: Installed
) -> None:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    story.core.patch_namespace(story.namespace, {"metadata": {"labels": labels}})
    made = yaml.safe_load_all(installed.administrator.kubectl("kustomize", str(OVERLAY)))
    (pod,) = [one["spec"]["template"] for one in made if one["kind"] == "Deployment"]
    pod["spec"].pop("serviceAccountName")
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "asked"}, "spec": pod["spec"]}
    story.core.create_namespaced_pod(story.namespace, body, dry_run="All")

    body["spec"]["hostNetwork"] = True
    with pytest.raises(Exception, match="violates PodSecurity"):
        story.core.create_namespaced_pod(story.namespace, body, dry_run="All")


def test_its_own_token_has_the_rights_it_needs_and_no_others(installed: Installed) -> None:
    # /run, since /var/run is a link there, and would lead to what this machine has under that name.
    token = Path(f"/proc/{installed.pid()}/root/run/secrets/kubernetes.io/serviceaccount/token").read_text()

    def may(verb: str, what: str, part: str = "") -> bool:
        asked = ["auth", "can-i", verb, what, f"--subresource={part}", "--all-namespaces"]
        asked += [f"--token={token}", "--kubeconfig=/dev/null"]
        server = yaml.safe_load(installed.cluster.kubeconfig.read_text())["clusters"][0]["cluster"]
        asked += [f"--server={server['server']}", f"--certificate-authority={server['certificate-authority']}"]
        return installed.administrator.run("kubectl", *asked).stdout.strip() == "yes"

    assert may("create", "pods", "binding")
    assert may("patch", "podgroups.scheduling.tutti.dev", "status")
    assert not may("create", "pods")
    assert not may("list", "secrets")
    assert not may("patch", "nodes")
    log = installed.node.logs()
    assert '"deciding"' in log
    assert "403" not in re.findall(r'"status": ?(\d+)', log)
    assert "orbidden" not in log


def test_an_operator_that_hangs_is_started_anew_by_its_probe_and_goes_on_with_what_it_had(
    story: Story, installed: Installed
) -> None:
    story.queue(story.namespace, 4)
    story.gang("trio", 3, queue=story.namespace)
    story.wait(lambda: running(story, "trio") == 3, "the gang to run", SOON)
    before, restarts = containers(story, "trio"), installed.container()["restartCount"]

    os.kill(installed.pid(), signal.SIGSTOP)

    story.wait(lambda: installed.container()["restartCount"] == restarts + 1, "the kubelet to start it anew", SOON)
    story.wait(lambda: installed.container()["ready"], "it to be ready", SOON)
    story.gang("more", 2, queue=story.namespace)
    story.wait(lambda: story.why("more").get("gate") == "Quota", "another gang to wait for what is in use", SOON)
    assert containers(story, "trio") == before
    assert set(before.values()) <= set(installed.node.pids())


def test_taking_it_out_leaves_nothing_and_stops_no_container(story: Story, installed: Installed) -> None:
    story.pod("service")
    story.wait(lambda: running(story, "service") == 1, "a pod to run", SOON)
    before = containers(story, "service")

    done = installed.administrator.run(str(ROOT / "manifests" / "uninstall.sh"))

    assert done.returncode == 0, done.stdout + done.stderr
    assert "nothing is left" in done.stderr
    assert set(before.values()) <= set(installed.node.pids())
    assert containers(story, "service") == before


def running(story: Story, prefix: str) -> int:
    """How many pods run."""
    return sum(pod.status.phase == "Running" and not pod.metadata.deletion_timestamp for pod in story.pods(prefix))


def containers(story: Story, prefix: str) -> dict[str, str]:
    """The id of the container of each pod."""
    return {
        pod.metadata.name: pod.status.container_statuses[0].container_id.removeprefix("containerd://")
        for pod in story.pods(prefix)
    }
