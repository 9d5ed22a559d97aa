"""`tutti doctor` on a cluster where all is well, and on clusters in each of which one thing is not."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from tests.cli.views import scene
from tutti.api.crds import crd
from tutti.api.kinds import KINDS
from tutti.cli.doctor.command import CHECKS, examined
from tutti.cli.doctor.findings import Finding
from tutti.cli.doctor.reading import Patient
from tutti.cli.main import cli
from tutti.controller.discovery import CRDS
from tutti.kube.client import JSON, MERGE_PATCH, Client
from tutti.kube.credentials import Access, Credentials
from tutti_sim.cluster import EmbeddedCluster

Json = dict[str, Any]
MANIFESTS = Path(__file__).parents[3] / "manifests"
SPACE = "/api/v1/namespaces/tutti-system"
DEPLOYMENT = "/apis/apps/v1/namespaces/tutti-system/deployments/tutti"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/tutti-system/leases"
ROLE = "/apis/rbac.authorization.k8s.io/v1/clusterroles/tutti"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
PLURALS = {
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/tutti-system/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/tutti-system/rolebindings",
    "ServiceAccount": f"{SPACE}/serviceaccounts",
    "Namespace": "/api/v1/namespaces",
}


class Ward:
    """A cluster that Tutti is installed in, as far as objects say it; and what can happen to it."""

    def __init__(self, client: Client, credentials: Credentials) -> None:
        self.client = client
        self.patient = Patient(client, credentials)

    async def post(self, path: str, made: Json) -> None:
        await self.client.request("POST", path, body=json.dumps(made).encode())

    async def patch(self, path: str, change: Json) -> None:
        await self.client.request("PATCH", path, body=json.dumps(change).encode(), content_type=MERGE_PATCH)

    async def delete(self, path: str) -> None:
        await self.client.request("DELETE", path)

    async def said(self, check: str) -> Finding:
        """What is worst of what one check says."""
        found = [one async for one in CHECKS[check](self.patient)]
        return max(found, key=lambda one: ("Good", "Unknown", "Warning", "Bad").index(one.verdict))


def micro(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def lease(renewed: float) -> Json:
    spec = {"holderIdentity": "tutti-0", "leaseDurationSeconds": 3600, "renewTime": micro(renewed)}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "tutti"}, "spec": spec}


@asynccontextmanager
async def installed() -> AsyncIterator[tuple[EmbeddedCluster, Ward]]:
    async with EmbeddedCluster(nodes=2, controllers=False) as cluster:
        credentials = Credentials.fixed(Access(cluster.url, headers={"Authorization": f"Bearer {cluster.token}"}))
        async with Client(credentials) as client:
            ward = Ward(client, credentials)
            for kind in KINDS.values():
                await ward.post(CRDS.path(), crd(kind))
            for file in ("namespace", "service-account", "cluster-role", "lease-role"):
                for one in yaml.safe_load_all((MANIFESTS / "base" / f"{file}.yaml").read_text()):
                    await ward.post(PLURALS[one["kind"]], one)
            # The rights to devices are a component's, for not every server has them; this one has.
            rules = [
                one["value"] for one in yaml.safe_load((MANIFESTS / "components" / "devices" / "rule.yaml").read_text())
            ]
            role = json.loads(await client.request("GET", ROLE))
            await ward.patch(ROLE, {"rules": role["rules"] + rules})
            for one in yaml.safe_load_all((MANIFESTS / "base" / "deployment.yaml").read_text()):
                await ward.post(DEPLOYMENT.rpartition("/")[0], one)
            await ward.patch(f"{DEPLOYMENT}/status", {"status": {"replicas": 1, "readyReplicas": 1}})
            await configured(ward, {"leaderElection": {"leaseNamespace": "tutti-system"}}, new=True)
            await ward.post(LEASE, lease(time.time()))
            for one in scene.objects():
                if one["kind"] in ("ResourceFlavor", "Topology", "Cohort", "ClusterQueue", "Namespace"):
                    await scene.create(client, one)
            yield cluster, ward


async def configured(ward: Ward, document: Json, *, new: bool = False) -> None:
    text = yaml.safe_dump({"apiVersion": "scheduling.tutti.dev/v1alpha1", "kind": "TuttiConfiguration", **document})
    made = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "tutti-configuration"},
        "data": {"tutti.yaml": text},
    }
    if new:
        await ward.post(f"{SPACE}/configmaps", made)
    else:
        await ward.patch(f"{SPACE}/configmaps/tutti-configuration", {"data": {"tutti.yaml": text}})


async def test_where_all_is_well_nothing_is_said_to_be_done():
    async with installed() as (_, ward):
        found = await examined(ward.patient)

    assert [(one.check, one.message) for one in found.findings if one.verdict != "Good"] == []
    assert {one.check for one in found.findings} >= set(CHECKS) - {"operator"}
    assert found.ok
    assert [one.remedy for one in found.findings if one.remedy] == []


Fault = Callable[[Ward], Any]
CRD = f"{CRDS.path()}/workloads.scheduling.tutti.dev"


async def without_a_kind(ward: Ward) -> None:
    await ward.delete(CRD)


async def with_an_older_kind(ward: Ward) -> None:
    made = crd(KINDS["Workload"])
    del made["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["after"]
    now = json.loads(await ward.client.request("GET", CRD))
    now["spec"]["versions"] = made["spec"]["versions"]
    await ward.client.request("PUT", CRD, body=json.dumps(now).encode(), content_type=JSON)


async def without_an_operator(ward: Ward) -> None:
    await ward.delete(DEPLOYMENT)


async def with_nobody_ready(ward: Ward) -> None:
    await ward.patch(f"{DEPLOYMENT}/status", {"status": {"readyReplicas": 0}})


async def without_a_leader(ward: Ward) -> None:
    await ward.delete(f"{LEASE}/tutti")


async def with_a_leader_that_hangs(ward: Ward) -> None:
    await ward.patch(f"{LEASE}/tutti", {"spec": {"renewTime": micro(time.time() - 9000)}})


async def with_a_leader_of_tomorrow(ward: Ward) -> None:
    await ward.patch(f"{LEASE}/tutti", {"spec": {"renewTime": micro(time.time() + 3600)}})


async def with_an_unreadable_configuration(ward: Ward) -> None:
    await configured(ward, {"requireQueue": "perhaps"})


async def without_the_right_to_bind(ward: Ward) -> None:
    role = json.loads(await ward.client.request("GET", ROLE))
    rules = [rule for rule in role["rules"] if "pods/binding" not in rule.get("resources", ())]
    await ward.patch(ROLE, {"rules": rules})


async def with_a_webhook_that_leads_nowhere(ward: Ward) -> None:
    hooks = [
        one
        for one in yaml.safe_load_all((MANIFESTS / "components" / "webhook" / "webhooks.yaml").read_text())
        if one["kind"] == "ValidatingWebhookConfiguration"
    ]
    await ward.post(WEBHOOKS, hooks[0])


async def with_a_webhook_that_nobody_serves(ward: Ward) -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "tutti"}, "spec": {"ports": [{"port": 443}]}}
    await ward.post(f"{SPACE}/services", service)
    await with_a_webhook_that_leads_nowhere(ward)


async def with_a_node_of_tomorrow(ward: Ward) -> None:
    made = lease(time.time() + 3600)
    made["metadata"] = {"name": "node-of-tomorrow", "namespace": "kube-node-lease"}
    await ward.post("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases", made)


async def with_pods_of_a_queue_for_another(ward: Ward) -> None:
    made = scene.pod("vision", "lost", 1, scheduler="default-scheduler", labels={"kueue.x-k8s.io/queue-name": "main"})
    await scene.create(ward.client, made)


async def with_a_mistyped_label(ward: Ward) -> None:
    for rank in range(2):
        made = scene.pod("vision", f"rank-{rank}", 1, labels={"scheduling.tutti.dev/podgroup": "train"})
        await scene.create(ward.client, made)


async def with_devices_taken_beside(ward: Ward) -> None:
    nodes = json.loads(await ward.client.request("GET", "/api/v1/nodes"))["items"]
    on = nodes[0]["metadata"]["name"]
    await scene.create(ward.client, scene.pod("vision", "notebook", 4, on=on, scheduler="default-scheduler"))


async def without_figures(ward: Ward) -> None:
    profile = {"schedulerName": "tutti", "load": {"policy": "LeastUsed", "weight": 2}}
    await configured(ward, {"measurements": {"source": "MetricsServer"}, "profiles": [profile]})


async def with_a_queue_that_is_off(ward: Ward) -> None:
    condition = {
        "type": "Active", "status": "False", "reason": "FlavorNotFound", "message": "there is no ResourceFlavor b200",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    path = "/apis/scheduling.tutti.dev/v1alpha1/clusterqueues/vision/status"
    await ward.patch(path, {"status": {"conditions": [condition]}})


SHARDED = {"leaderElection": {"leaseNamespace": "tutti-system"}}


def shard(name: str, **more: Any) -> Json:
    return {**SHARDED, "shards": [{"name": name, **more}]}


async def with_a_shard_that_nobody_leads(ward: Ward) -> None:
    await configured(ward, shard("gpu", cohorts=["company"]))


async def with_nodes_of_a_shard_that_is_gone(ward: Ward) -> None:
    nodes = json.loads(await ward.client.request("GET", "/api/v1/nodes"))["items"]
    owned = {"metadata": {"annotations": {"scheduling.tutti.dev/shard": "gpu"}}}
    await ward.patch(f"/api/v1/nodes/{nodes[0]['metadata']['name']}", owned)


async def with_nodes_of_a_shard_that_is_gone_and_still_runs(ward: Ward) -> None:
    await with_nodes_of_a_shard_that_is_gone(ward)
    await led(ward, "gpu")


async def led(ward: Ward, name: str) -> None:
    made = lease(time.time())
    made["metadata"] = {"name": f"tutti-{name}"}
    await ward.post(LEASE, made)


async def with_a_node_that_two_shards_select(ward: Ward) -> None:
    selected = {"nodes": {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "Exists"}]}}
    await led(ward, "one")
    await led(ward, "two")
    both = [{"name": "one", **selected}, {"name": "two", **selected}]
    await configured(ward, {**SHARDED, "shards": both})


async def with_a_queue_that_leads_out_of_its_shard(ward: Ward) -> None:
    await led(ward, "gpu")
    await configured(ward, shard("gpu", cohorts=["company"]))
    await ward.patch("/api/v1/namespaces/vision", {"metadata": {"annotations": {"scheduling.tutti.dev/shard": "gpu"}}})
    for name, to in (("main", "vision"), ("other", "alone")):
        await scene.create(ward.client, scene.ours("LocalQueue", name, {"clusterQueue": to}, "vision"))
    await scene.create(ward.client, scene.queue("alone", "", "a100", 8))


async def with_shards_and_no_right_to_them(ward: Ward) -> None:
    await configured(ward, shard("gpu", cohorts=["company"]))


FAULTS = [
    (with_a_shard_that_nobody_leads, "shards", "Bad", "nobody holds Lease tutti-system/tutti-gpu", "run --shard gpu"),
    (
        with_nodes_of_a_shard_that_is_gone,
        "shards",
        "Warning",
        "1 object of shard gpu",
        "kubectl annotate nodes --all scheduling.tutti.dev/shard-",
    ),
    (with_nodes_of_a_shard_that_is_gone_and_still_runs, "shards", "Bad", "its process runs", "end its processes"),
    (with_a_node_that_two_shards_select, "shards", "Warning", "one and two", "select different labels"),
    (with_a_queue_that_leads_out_of_its_shard, "shards", "Warning", "vision/other (to alone of default)", "in others"),
    (with_shards_and_no_right_to_them, "rights", "Bad", "patch nodes", "docs/rbac.md"),
    (
        without_a_kind,
        "kinds",
        "Bad",
        "1 CRD missing: workloads.scheduling.tutti.dev",
        "kubectl apply --server-side --force-conflicts -k crds",
    ),
    (
        with_an_older_kind,
        "kinds",
        "Bad",
        "workloads.scheduling.tutti.dev lacks spec.after",
        "apply the CRDs of this release",
    ),
    (without_an_operator, "operator", "Bad", "there is no Deployment tutti-system/tutti", "--namespace and --name"),
    (with_nobody_ready, "operator", "Bad", "none of 1 replica", "/readyz"),
    (
        without_a_leader,
        "operator",
        "Bad",
        "nobody holds Lease tutti-system/tutti",
        "needs get, create and update of leases",
    ),
    (with_a_leader_that_hangs, "operator", "Bad", "was renewed 9", "hangs or is gone"),
    (with_a_leader_of_tomorrow, "operator", "Bad", "ahead of the API server's", "NTP"),
    (with_an_unreadable_configuration, "operator", "Warning", "requireQueue", "tutti check FILE"),
    (without_the_right_to_bind, "rights", "Bad", "may not create pods/binding", "apply the roles of this release"),
    (
        with_a_webhook_that_leads_nowhere,
        "webhooks",
        "Bad",
        "Service tutti-system/tutti, which does not exist",
        "apply your overlay again",
    ),
    (
        with_a_webhook_that_nobody_serves,
        "webhooks",
        "Bad",
        "has no endpoint that is ready",
        "the operator has to be ready",
    ),
    (with_a_node_of_tomorrow, "clocks", "Bad", "node-of-tomorrow by 3", "NTP"),
    (with_pods_of_a_queue_for_another, "schedulers", "Bad", "vision/lost", "write schedulerName: tutti"),
    (with_devices_taken_beside, "schedulers", "Warning", "4 nvidia.com/gpu by 1 pod of default-scheduler", "taint"),
    (
        with_a_mistyped_label,
        "labels",
        "Warning",
        "nobody reads label scheduling.tutti.dev/podgroup of 2 pods, as vision/rank-0",
        "write the label scheduling.tutti.dev/pod-group where",
    ),
    (without_figures, "metrics", "Bad", "nobody tells", "install metrics-server"),
    (
        with_a_queue_that_is_off,
        "queues",
        "Bad",
        "vision: there is no ResourceFlavor b200",
        "kubectl describe clusterqueue",
    ),
]


@pytest.mark.parametrize(
    ("fault", "check", "verdict", "message", "remedy"), FAULTS, ids=lambda one: getattr(one, "__name__", "")
)
async def test_each_fault_is_found_with_its_remedy(fault, check, verdict, message, remedy):
    async with installed() as (_, ward):
        await fault(ward)
        found = await ward.said(check)

    assert (found.verdict, message in found.message, remedy in found.remedy) == (verdict, True, True), found


async def test_where_nothing_is_installed_rights_are_not_told_one_by_one(tmp_path):
    async with EmbeddedCluster(nodes=1, controllers=False) as cluster:
        credentials = Credentials.fixed(Access(cluster.url, headers={"Authorization": f"Bearer {cluster.token}"}))
        async with Client(credentials) as client:
            found = {one.check: one for one in (await examined(Patient(client, credentials))).findings}

    assert (found["kinds"].verdict, found["kinds"].message) == ("Bad", "9 CRDs missing: all of them")
    assert (found["operator"].verdict, found["rights"].verdict) == ("Bad", "Unknown")
    assert "there is no ServiceAccount tutti-system/tutti" in found["rights"].message


async def test_an_operator_without_a_deployment_is_known_by_its_lease():
    async with installed() as (_, ward):
        await without_an_operator(ward)
        await ward.post("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases", lease(time.time()))
        found = await ward.said("operator")
        await ward.patch(
            "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/tutti",
            {"spec": {"renewTime": micro(time.time() - 9000)}},
        )
        later = await ward.said("operator")

    assert (found.verdict, "tutti-0 renews Lease kube-system/tutti" in found.message) == ("Warning", True)
    assert (later.verdict, "nobody schedules here" in later.message) == ("Bad", True)


async def test_rights_are_told_by_what_may_not_be_done_to_which():
    async with installed() as (_, ward):
        await ward.patch(ROLE, {"rules": []})
        found = await ward.said("rights")

    assert re.search(r"may not list and watch nodes, .* and \d+ more; .*list, watch and delete pods;", found.message)
    assert "; create pods/binding, pods/eviction, events.events.k8s.io;" in found.message


async def test_a_clock_that_is_off_here_is_told_from_one_that_is_off_there():
    async with installed() as (_, ward):
        ward.patient = Patient(ward.client, ward.patient.credentials, clock=lambda: time.time() - 600)
        found = await ward.said("clocks")

    assert found.verdict == "Warning"
    # By how much differs by half of what it took to ask.
    assert re.fullmatch(r"the clock of the API server is (59\d|60\d) s ahead of the one here", found.message)


async def test_what_may_not_be_read_is_unknown_and_the_rest_is_told():
    async with installed() as (_, ward):
        rule = {"name": "rbac", "match": {"resources": ["leases"]}, "error": {"code": 403, "message": "you may not"}}
        await ward.client.request("PUT", "/_tutti/faults", body=json.dumps({"rules": [rule]}).encode())
        found = await examined(ward.patient)

    unknown = [one for one in found.findings if one.verdict == "Unknown"]
    assert {one.check for one in unknown} == {"operator", "clocks"}
    assert all("you may not" in one.message for one in unknown)
    assert found.ok


def called(tmp_path: Path, fault: Fault | None, *arguments: str) -> tuple[int, str]:
    """Call the command, as somebody does, where a fault was made."""

    async def call() -> tuple[int, str]:
        async with installed() as (cluster, ward):
            if fault is not None:
                await fault(ward)
            cluster.write_kubeconfig(tmp_path / "kubeconfig")
            line = ["doctor", "--kubeconfig", str(tmp_path / "kubeconfig"), *arguments]
            answer = await asyncio.to_thread(CliRunner().invoke, cli, line, prog_name="tutti")
            return answer.exit_code, answer.output

    return asyncio.run(call())


def test_the_command_says_it_in_lines_and_by_its_exit_code(tmp_path):
    code, told = called(tmp_path, without_the_right_to_bind)

    assert code == 1
    assert "✗ rights        system:serviceaccount:tutti-system:tutti may not create pods/binding\n" in told
    assert "\n                → apply the roles of this release" in told
    assert "✓ kinds         all 9 are served as v1alpha1, and know every field of this release\n" in told


def test_long_findings_are_broken_and_what_is_said_stays_in_its_column(tmp_path):
    async def bare(ward: Ward) -> None:
        await ward.patch(ROLE, {"rules": []})

    _, told = called(tmp_path, bare)
    lines = told.splitlines()

    assert max(map(len, lines)) <= 120
    rights = next(number for number, line in enumerate(lines) if line.startswith("✗ rights"))
    assert re.match(r" {16}[^ ]", lines[rights + 1])


def test_the_same_as_json(tmp_path):
    code, told = called(tmp_path, None, "-o", "json")
    found = json.loads(told)

    assert (code, found["ok"]) == (0, True)
    assert {"check": "clocks", "verdict": "Good", "message": "they agree within 5 s", "remedy": ""} in found["findings"]


def test_a_cluster_that_cannot_be_asked(tmp_path):
    answer = CliRunner().invoke(cli, ["doctor", "--kubeconfig", str(tmp_path / "none")], prog_name="tutti")

    assert answer.exit_code == 2
    assert answer.output.startswith("tutti doctor: ")
