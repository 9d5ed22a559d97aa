"""What `tutti doctor` says would put a fault right does: each check on a real server, before and after its remedy."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
import yaml

from e2e.harness.guests import serve
from e2e.harness.installing import ROOT, Administrator, own_cluster
from e2e.harness.processes import free_port
from e2e.harness.replica import replica
from e2e.harness.story import Story
from tutti.cli.doctor.command import CHECKS
from tutti.cli.doctor.findings import Finding
from tutti.cli.doctor.reading import Patient
from tutti.kube.client import Client
from tutti.kube.credentials import Credentials

Json = dict[str, Any]
SYSTEM = "tutti-system"
DEFAULT = "manifests/overlays/default"
pytestmark = pytest.mark.xdist_group("doctor remedies")  # they share a cluster
SHARD = "scheduling.tutti.dev/shard"
_WITHIN = {"configuration": "operator", "leader": "operator"}
"""Which check what is found belongs to, where it is called otherwise."""


class Hospital:
    """A cluster on which the manifests were applied, and their operator; here it is made ill, and well again."""

    def __init__(self, story: Story, administrator: Administrator) -> None:
        self.story, self.administrator = story, administrator
        self.kubectl = administrator.kubectl

    def begin(self, **more: Any) -> None:
        """Start the operator as it is configured."""
        metrics = {"metrics": {"bindAddress": "127.0.0.1:0"}}
        self.story.start_operator(**{**self.administrator.configuration(), **metrics, **more})

    def ready(self) -> None:
        """Have the Deployment be ready: its controller says so of a pod that a kubelet runs, or else the story does."""
        if not self.story.cluster.replica_sets:
            status = json.dumps({"status": {"replicas": 1, "readyReplicas": 1}})
            self._patch_deployment("--subresource=status", "--type=merge", "-p", status)
            return
        # A pretended runtime answers no probes, and there is nobody who places pods but the operator.
        container = {"name": "tutti", "readinessProbe": None, "livenessProbe": None}
        change = {"spec": {"template": {"spec": {"containers": [container]}}}}
        self._patch_deployment("--type=strategic", "-p", json.dumps(change))
        self.story.wait(self._placed_and_ready, "the Deployment to be ready")

    def _placed_and_ready(self) -> bool:
        core, node = self.story.core, {"kind": "Node", "name": self.story.cluster.nodes[0]}
        for pod in core.list_namespaced_pod(SYSTEM).items:
            if not pod.spec.node_name and not pod.spec.containers[0].readiness_probe:
                body = {"metadata": {"name": pod.metadata.name}, "target": node}
                core.create_namespaced_binding(SYSTEM, body, _preload_content=False)
        return self._replicas_ready() == 1

    def unready(self) -> None:
        """Have it be so no more, where a kubelet runs its pod."""
        if self.story.cluster.replica_sets:
            for replicas in (0, 1):
                self.kubectl("scale", "deployment", "tutti", "-n", SYSTEM, f"--replicas={replicas}")
                self.story.wait(lambda: self._replicas_ready() == 0, "the Deployment's pod to be gone")

    def _replicas_ready(self) -> int:
        said = self.kubectl("get", "deployment", "tutti", "-n", SYSTEM, "-o", "jsonpath={.status.readyReplicas}")
        return int(said or 0)

    def _patch_deployment(self, *how: str) -> None:
        self.kubectl("patch", "deployment", "tutti", "-n", SYSTEM, *how)

    def configure(self, change: Callable[[Json], object]) -> None:
        """Change the operator's configuration where it stands."""
        deployed = yaml.safe_load(self.kubectl("get", "deployment", "tutti", "-n", SYSTEM, "-o", "yaml"))
        volumes = deployed["spec"]["template"]["spec"]["volumes"]
        (name,) = [volume["configMap"]["name"] for volume in volumes if "configMap" in volume]
        known = yaml.safe_load(self.kubectl("get", "configmap", name, "-n", SYSTEM, "-o", "yaml"))
        document = yaml.safe_load(known["data"]["tutti.yaml"])
        change(document)
        data = json.dumps({"data": {"tutti.yaml": yaml.safe_dump(document)}})
        self.kubectl("patch", "configmap", name, "-n", SYSTEM, "--type=merge", "-p", data)

    def renewed(self, namespace: str, name: str, seconds: float) -> None:
        """Have a lease be renewed so many seconds from now."""
        at = datetime.fromtimestamp(time.time() + seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"holderIdentity": name, "leaseDurationSeconds": 15, "renewTime": at}
        body = {"metadata": {"name": name, "namespace": namespace}, "spec": spec}
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", **body}
        self.kubectl("apply", "--server-side", "--force-conflicts", "-f", self.file(lease))

    def queues(self) -> list[str]:
        """The names of all ClusterQueues."""
        return self.kubectl("get", "clusterqueues", "-o", "jsonpath={.items[*].metadata.name}").split()

    def file(self, *made: Json) -> str:
        """Objects as a file."""
        aside = self.story.folder / "made.yaml"
        aside.write_text(yaml.safe_dump_all(made))
        return str(aside)

    def said(self, check: str, ahead: float = 0.0) -> list[Json]:
        """What a check of the command finds; `ahead` is by how many seconds the clock of whoever asks is."""

        async def asked() -> list[Finding]:
            credentials = await Credentials.load(self.story.cluster.kubeconfig, None)
            async with Client(credentials) as client:
                patient = Patient(client, credentials, clock=lambda: time.time() + ahead)
                return [one async for one in CHECKS[_WITHIN.get(check, check)](patient)]

        return [msgspec.to_builtins(one) for one in asyncio.run(asked()) if one.check == check]

    def is_well(self, check: str) -> bool:
        """Whether nothing is wrong with it."""
        found = self.said(check)
        return bool(found) and all(one["verdict"] == "Good" for one in found)

    def finds(self, check: str, verdict: str, *words: str) -> str:
        """Wait until a fault is found; returns its remedy."""
        remedies: list[str] = []

        def found() -> bool:
            remedies[:] = [
                one["remedy"]
                for one in self.said(check)
                if one["verdict"] == verdict and all(word in one["message"] for word in words)
            ]
            return bool(remedies)

        self.story.wait(found, f"{check} to be {verdict}: {', '.join(words)}")
        return remedies[0]

    def recovers(self, check: str) -> None:
        """Wait until nothing is wrong with it."""
        self.story.wait(lambda: self.is_well(check), f"{check} to be well: {self.said(check)}")

    def does(self, remedy: str) -> None:
        """Do what a remedy says word for word: the kubectl command in it."""
        command = re.search(r"kubectl ([^,;:]+)", remedy)
        assert command is not None, remedy
        self.kubectl(*command[1].split())


@pytest.fixture(scope="module")
def hospital(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hospital]:
    folder = tmp_path_factory.mktemp("hospital")
    with own_cluster(request.config.getoption("--cluster"), folder / "cluster") as cluster:
        administrator, story = Administrator(cluster), Story(cluster, "tenant", folder)
        made = Hospital(story, administrator)
        try:
            administrator.kubectl("create", "namespace", SYSTEM)
            administrator.apply("-k", DEFAULT)
            made.configure(lambda one: one.update(leaderElection=SOON))
            if not cluster.replica_sets:
                made.ready()
            made.begin()
            story.queue("team", 4)
            yield made
        finally:
            story.stop_operator()
            story.api.close()


SOON = {"leaseDurationSeconds": 8, "renewDeadlineSeconds": 6, "retryPeriodSeconds": 1, "leaseNamespace": SYSTEM}
WORKLOADS = "workloads.scheduling.tutti.dev"


@pytest.mark.parametrize(
    ("patch", "said"),
    [
        (None, ("1 CRD missing", WORKLOADS)),
        ([{"op": "replace", "path": "/spec/versions/0/served", "value": False}], (WORKLOADS, "is not served")),
        (
            [{"op": "remove", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/after"}],
            (f"{WORKLOADS} lacks spec.after",),
        ),
    ],
    ids=["missing", "not served", "older"],
)
def test_kinds_are_put_right_by_the_crds_of_this_release(hospital: Hospital, patch: Any, said: tuple[str, ...]) -> None:
    if patch is None:
        hospital.kubectl("delete", "crd", WORKLOADS, "--wait=true")
    else:
        hospital.kubectl("patch", "crd", WORKLOADS, "--type=json", "-p", json.dumps(patch))
    hospital.does(hospital.finds("kinds", "Bad", *said).partition("this release: ")[2])
    hospital.recovers("kinds")


def test_a_deployment_that_is_gone_comes_back_by_the_manifests(hospital: Hospital) -> None:
    hospital.kubectl("delete", "deployment", "tutti", "-n", SYSTEM)
    hospital.does(hospital.finds("operator", "Bad", f"there is no Deployment {SYSTEM}/tutti"))
    hospital.configure(lambda one: one.update(leaderElection=SOON))
    assert "the log and /readyz" in hospital.finds("operator", "Bad", "none of 1 replica")
    hospital.ready()
    hospital.recovers("operator")


def test_a_replica_that_is_gone_or_hangs_is_told_until_it_is_restarted(hospital: Hospital) -> None:
    hospital.recovers("leader")
    hospital.ready()
    hospital.story.kill_operator()
    assert "restart it" in hospital.finds("leader", "Bad", "was renewed", "and lasts 8 s")
    hospital.kubectl("delete", "lease", "tutti", "-n", SYSTEM)
    assert "its log says what is refused" in hospital.finds("leader", "Bad", f"nobody holds Lease {SYSTEM}/tutti")
    hospital.renewed(SYSTEM, "tutti", 90)
    assert "NTP" in hospital.finds("leader", "Bad", "the clock of tutti is", "ahead of the API server's")
    hospital.kubectl("delete", "lease", "tutti", "-n", SYSTEM)  # of whoever had that clock
    hospital.begin()
    hospital.recovers("leader")
    hospital.unready()


def test_a_configuration_that_cannot_be_read_is_found_by_check_as_well(hospital: Hospital) -> None:
    hospital.configure(lambda one: one.update(requireQueue="perhaps"))
    assert "tutti check FILE" in hospital.finds("configuration", "Warning", "requireQueue")
    file = hospital.file({**hospital.administrator.configuration()})
    checked = hospital.administrator.run(sys.executable, "-m", "tutti", "check", file)
    assert (checked.returncode, "requireQueue" in checked.stdout + checked.stderr) == (2, True), checked
    hospital.configure(lambda one: one.pop("requireQueue"))
    hospital.recovers("configuration")


def test_rights_come_back_by_the_roles_of_this_release(hospital: Hospital) -> None:
    role = json.loads(hospital.kubectl("get", "clusterrole", "tutti", "-o", "json"))
    rules = [rule for rule in role["rules"] if "pods/binding" not in rule.get("resources", ())]
    hospital.kubectl("patch", "clusterrole", "tutti", "--type=merge", "-p", json.dumps({"rules": rules}))
    hospital.does(hospital.finds("rights", "Bad", "may not create pods/binding"))
    hospital.configure(lambda one: one.update(leaderElection=SOON))
    hospital.recovers("rights")


def hooks(change: Callable[[Json], object] = lambda _: None) -> list[Json]:
    """The webhook configurations as the component has them, with something changed of how each is reached."""
    made = list(yaml.safe_load_all((ROOT / "manifests" / "components" / "webhook" / "webhooks.yaml").read_text()))
    for one in made:
        for hook in one["webhooks"]:
            change(hook["clientConfig"])
    return made


def test_webhooks_that_lead_nowhere_are_told_until_they_lead_somewhere_or_are_gone(hospital: Hospital) -> None:
    hospital.kubectl("apply", "-f", hospital.file(*hooks()))
    try:
        assert "caBundle" not in json.dumps(hooks())
        assert "self-signed has the operator write it" in hospital.finds("webhooks", "Bad", "some have no caBundle")
        assert "the operator has to be ready" in hospital.finds("webhooks", "Bad", "has no endpoint that is ready")
        hospital.kubectl("delete", "service", "tutti", "-n", SYSTEM)
        remedy = hospital.finds("webhooks", "Bad", f"Service {SYSTEM}/tutti, which does not exist")
        assert "apply your overlay again" in remedy
        hospital.administrator.apply("-k", DEFAULT)
        hospital.configure(lambda one: one.update(leaderElection=SOON))
        hospital.finds("webhooks", "Bad", "has no endpoint that is ready")
        endpoint = {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {"name": "t", "namespace": SYSTEM, "labels": {"kubernetes.io/service-name": "tutti"}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["10.0.0.9"], "conditions": {"ready": True}}],
        }
        hospital.kubectl("apply", "-f", hospital.file(endpoint))
        hospital.story.wait(
            lambda: "Service tutti-system/tutti has 1 endpoint" in str(hospital.said("webhooks")), "the endpoint"
        )
        assert "delete the webhook configurations" in remedy
    finally:
        hospital.kubectl("delete", "validatingwebhookconfiguration,mutatingwebhookconfiguration", "tutti")
    hospital.recovers("webhooks")


def test_webhooks_that_cannot_be_reached_are_well_once_the_operator_serves_them(hospital: Hospital) -> None:
    port = free_port()

    def here(reached: Json) -> None:
        reached["url"] = f"https://127.0.0.1:{port}{reached.pop('service')['path']}"

    hospital.story.stop_operator()
    hospital.kubectl("apply", "-f", hospital.file(*hooks(here)))
    try:
        assert "port 9443" in hospital.finds("webhooks", "Bad", "the API server cannot reach them")
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "tutti-webhook-certificate", "namespace": SYSTEM},
        }
        hospital.kubectl("apply", "-f", hospital.file(secret))
        own = {
            "secretNamespace": SYSTEM,
            "secretName": "tutti-webhook-certificate",
            "configurationName": "tutti",
            "hosts": ["127.0.0.1"],
        }
        hospital.begin(webhook={"enabled": True, "port": port, "selfSigned": own})
        hospital.recovers("webhooks")
        assert "a write that was not kept went through them" in str(hospital.said("webhooks"))
    finally:
        hospital.kubectl("delete", "validatingwebhookconfiguration,mutatingwebhookconfiguration", "tutti")
        hospital.story.stop_operator()
        hospital.begin()


def test_a_node_whose_clock_is_ahead_is_told_until_it_is_set(hospital: Hospital) -> None:
    if "kube-node-lease" not in hospital.kubectl("get", "namespaces", "-o", "name"):
        hospital.kubectl("create", "namespace", "kube-node-lease")
    hospital.recovers("clocks")
    hospital.renewed("kube-node-lease", "node-of-tomorrow", 3600)
    assert "by NTP" in hospital.finds("clocks", "Bad", "1 node", "node-of-tomorrow by 3")
    hospital.renewed("kube-node-lease", "node-of-tomorrow", 0)
    hospital.recovers("clocks")


@pytest.mark.parametrize(("here", "said"), [(605.0, "behind"), (-605.0, "ahead of")])
def test_a_clock_here_that_differs_from_the_servers_is_told_until_it_is_set(
    hospital: Hospital, here: float, said: str
) -> None:
    """By the real server's `Date`; only the clock of whoever asks is another one."""
    [found] = hospital.said("clocks", here)
    assert found["verdict"] == "Warning"
    # By how much differs by half of what it took to ask.
    assert re.fullmatch(rf"the clock of the API server is 60\d s {said} the one here", found["message"])
    [found] = hospital.said("clocks")
    assert (found["verdict"], found["message"]) == ("Good", "they agree within 5 s")


def test_pods_of_other_schedulers_are_told_until_they_are_ours(hospital: Hospital) -> None:
    core, space = hospital.story.core, hospital.story.namespace

    def make(name: str, scheduler: str, **more: Any) -> None:
        resources = {"requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "1"}}
        spec = {"schedulerName": scheduler, "containers": [{"name": "c", "image": "x", "resources": resources}], **more}
        labels = {"scheduling.tutti.dev/queue-name": "team"}
        meta = {"name": name, **({"labels": labels} if not more else {})}
        core.create_namespaced_pod(space, {"metadata": meta, "spec": spec})

    make("lost", "default-scheduler")
    assert "write schedulerName: tutti" in hospital.finds("schedulers", "Bad", f"{space}/lost")
    core.delete_namespaced_pod("lost", space, grace_period_seconds=0)
    make("lost", "tutti")
    make("beside", "default-scheduler", nodeName=hospital.story.cluster.nodes[0])
    remedy = hospital.finds("schedulers", "Warning", "1 nvidia.com/gpu by 1 pod of default-scheduler")
    assert "bring these pods to a queue" in remedy
    core.delete_namespaced_pod("beside", space, grace_period_seconds=0)
    make("beside", "tutti")
    hospital.recovers("schedulers")
    hospital.story.wait(lambda: len(hospital.story.where("")) == 2, "both to be placed by the queue")


def test_load_that_nobody_measures_is_told_until_somebody_does(hospital: Hospital) -> None:
    profile = {"schedulerName": "tutti", "load": {"policy": "LeastUsed"}}
    measured = {"measurements": {"source": "MetricsServer"}, "profiles": [profile]}
    hospital.configure(lambda one: one.update(measured))
    try:
        remedy = hospital.finds("metrics", "Bad", "a profile goes by what nodes use, and nobody tells")
        assert remedy.startswith("install metrics-server")
        group, version = "metrics.k8s.io", "v1beta1"
        serve(hospital.story.api, group, version, "NodeMetrics", plural="nodes", scope="Cluster")
        for node in hospital.story.cluster.nodes:
            figures = {"timestamp": datetime.now(UTC).isoformat(), "usage": {"cpu": "1", "memory": "1Gi"}}
            made = {"apiVersion": f"{group}/{version}", "kind": "NodeMetrics", "metadata": {"name": node}, **figures}
            hospital.story.custom.create_cluster_custom_object(group, version, "nodes", made)
        hospital.recovers("metrics")
    finally:
        hospital.configure(lambda one: [one.pop(name) for name in measured])


def test_a_queue_that_is_off_is_told_until_what_it_lacks_is_there(hospital: Hospital) -> None:
    resources = [{"name": "nvidia.com/gpu", "nominalQuota": 1}]
    groups = [{"coveredResources": ["nvidia.com/gpu"], "flavors": [{"name": "b200", "resources": resources}]}]
    hospital.story.object("ClusterQueue", "new", {"namespaceSelector": {}, "resourceGroups": groups})
    remedy = hospital.finds("queues", "Bad", "1 queue inactive: new:", "b200")
    assert "b200" in hospital.kubectl(*remedy.partition("kubectl ")[2].replace("NAME", "new").split())
    hospital.story.object("ResourceFlavor", "b200", {})
    hospital.recovers("queues")


def test_a_label_that_nobody_reads_is_told_until_it_is_the_right_one(hospital: Hospital) -> None:
    space = hospital.story.namespace
    hospital.story.pod("rank-0", labels={"scheduling.tutti.dev/podgroup": "train"})
    remedy = hospital.finds("labels", "Warning", "scheduling.tutti.dev/podgroup of 1 pod", f"{space}/rank-0")
    assert "write the label scheduling.tutti.dev/pod-group" in remedy
    hospital.story.core.delete_namespaced_pod("rank-0", space, grace_period_seconds=0)
    hospital.story.gang("rank", 1, gpus=0)
    hospital.recovers("labels")


def test_a_shard_that_nobody_leads_is_told_until_a_process_is_run_for_it(hospital: Hospital) -> None:
    shards = [{"name": "gpu", "cohorts": ["all"]}]
    hospital.configure(lambda one: one.update(shards=shards))
    remedy = hospital.finds("shards", "Bad", "shard gpu", f"nobody holds Lease {SYSTEM}/tutti-gpu")
    assert "tutti run --shard gpu" in remedy
    with ExitStack() as stack:
        configuration = {**hospital.administrator.configuration(), "metrics": {"bindAddress": "127.0.0.1:0"}}
        stack.enter_context(replica(hospital.story, "of-gpu", "--shard", "gpu", **configuration))
        hospital.recovers("shards")
    hospital.configure(lambda one: one.pop("shards"))


def test_what_is_left_of_a_shard_that_is_no_more_is_told_until_its_annotation_is_gone(hospital: Hospital) -> None:
    node = hospital.story.cluster.nodes[0]
    hospital.kubectl("annotate", "node", node, f"{SHARD}=old")
    remedy = hospital.finds("shards", "Warning", "1 object of shard old")
    assert f"kubectl annotate nodes --all {SHARD}-" in remedy
    hospital.does(remedy)
    hospital.recovers("shards")


def test_a_cluster_without_queues_is_told_what_to_begin_with(hospital: Hospital) -> None:
    for name in hospital.queues():
        hospital.story.remove("ClusterQueue", name)
    assert "docs/tutorial.md" in hospital.finds("queues", "Warning", "there are no ClusterQueues")
    assert "kind: ClusterQueue" in (ROOT / "docs" / "tutorial.md").read_text()
    resources = [{"name": "nvidia.com/gpu", "nominalQuota": 1}]
    groups = [{"coveredResources": ["nvidia.com/gpu"], "flavors": [{"name": "team", "resources": resources}]}]
    hospital.story.object("ClusterQueue", "team", {"namespaceSelector": {}, "resourceGroups": groups})
    hospital.recovers("queues")
