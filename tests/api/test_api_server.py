"""What a real API server makes of the CRDs and of the policies. Runs where KUBEBUILDER_ASSETS holds etcd, kube-apiserver and kubectl."""

from __future__ import annotations

import base64
import copy
import json
import os
import secrets
import ssl
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest
import yaml

from e2e.harness.processes import free_port
from tests.api import pod_templates
from tests.api.manifests import RIGHT, manifest
from tests.api.pod_templates import BEYOND, RATCHETS, REFUSED, TAKEN
from tests.api.wrong_manifests import WRONG
from tutti.api.crds import crd_file_name
from tutti.api.kinds import KINDS

ASSETS = Path(os.environ.get("KUBEBUILDER_ASSETS", "/nowhere"))
CRDS = Path(__file__).parents[2] / "crds"
SAMPLES = Path(__file__).parents[2] / "manifests" / "samples"

pytestmark = [
    pytest.mark.envtest,
    pytest.mark.skipif(not (ASSETS / "kube-apiserver").exists(), reason="KUBEBUILDER_ASSETS has no kube-apiserver"),
]


class Cluster:
    """A running API server, and kubectl for it."""

    def __init__(self, port: int, token: str) -> None:
        self.flags = [f"--server=https://127.0.0.1:{port}", f"--token={token}", "--insecure-skip-tls-verify"]

    def kubectl(self, *arguments: str, given: object = None) -> subprocess.CompletedProcess[str]:
        text = None if given is None else json.dumps(given)
        command = [str(ASSETS / "kubectl"), *self.flags, *arguments]
        return subprocess.run(command, input=text, text=True, capture_output=True, check=False)


def wait_until_ready(url: str, token: str, process: subprocess.Popen[bytes]) -> None:
    context = ssl._create_unverified_context()
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    deadline = time.monotonic() + 90
    while True:
        try:
            with opener.open(request, timeout=5):
                return
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise
            time.sleep(0.2)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    directory = tmp_path_factory.mktemp("apiserver")
    etcd, peer, port = free_port(), free_port(), free_port()
    token = base64.urlsafe_b64encode(secrets.token_bytes(16)).decode().strip("=")
    (directory / "tokens.csv").write_text(f"{token},admin,admin,system:masters\n")
    key = directory / "sa.key"
    subprocess.run(["openssl", "genrsa", "-out", str(key), "2048"], check=True, capture_output=True)
    commands = [
        [
            *(str(ASSETS / "etcd"), "--data-dir", str(directory / "etcd"), "--unsafe-no-fsync"),
            *(
                "--listen-client-urls",
                f"http://127.0.0.1:{etcd}",
                "--advertise-client-urls",
                f"http://127.0.0.1:{etcd}",
            ),
            *("--listen-peer-urls", f"http://127.0.0.1:{peer}", "--initial-advertise-peer-urls"),
            *(f"http://127.0.0.1:{peer}", "--initial-cluster", f"default=http://127.0.0.1:{peer}"),
        ],
        [
            *(str(ASSETS / "kube-apiserver"), "--etcd-servers", f"http://127.0.0.1:{etcd}"),
            *("--bind-address", "127.0.0.1", "--advertise-address", "127.0.0.1", "--secure-port", str(port)),
            *("--cert-dir", str(directory / "certs"), "--endpoint-reconciler-type", "none"),
            *("--service-account-issuer", "https://kubernetes.default.svc", "--service-account-key-file", str(key)),
            *("--service-account-signing-key-file", str(key), "--token-auth-file", str(directory / "tokens.csv")),
            *("--authorization-mode", "RBAC", "--disable-admission-plugins", "ServiceAccount"),
            *("--service-cluster-ip-range", "10.0.0.0/24"),
        ],
    ]
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for command in commands:
            with (directory / f"{len(processes)}.log").open("wb") as log:
                processes.append(subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL))
        wait_until_ready(f"https://127.0.0.1:{port}/readyz", token, processes[1])
        running = Cluster(port, token)
        files = [f"--filename={CRDS / crd_file_name(kind)}" for kind in KINDS.values()]
        applied = running.kubectl("apply", *files)
        assert applied.returncode == 0, applied.stderr
        names = [f"crd/{kind.PLURAL}.scheduling.tutti.dev" for kind in KINDS.values()]
        waited = running.kubectl("wait", "--for=condition=Established", "--timeout=30s", *names)
        assert waited.returncode == 0, waited.stderr
        yield running
    finally:
        for process in reversed(processes):
            process.terminate()
            process.wait(timeout=30)


@pytest.mark.parametrize("name", RIGHT)
def test_what_the_parser_accepts_the_server_accepts(cluster, name):
    kind, spec = RIGHT[name]
    created = cluster.kubectl("create", "--dry-run=server", "--validate=strict", "-f", "-", given=manifest(kind, spec))
    assert created.returncode == 0, created.stderr


@pytest.mark.parametrize("name", WRONG)
def test_what_the_parser_refuses_the_server_refuses(cluster, name):
    wrong = WRONG[name]
    given = manifest(wrong.kind, wrong.spec)
    created = cluster.kubectl("create", "--dry-run=server", "--validate=strict", "-f", "-", given=given)
    assert (created.returncode != 0) is wrong.server, created.stderr
    if wrong.server and any(words in wrong.message for words in ("not supported", "need", "exactly", "cannot be")):
        assert wrong.message in created.stderr


@pytest.mark.parametrize("name", TAKEN)
def test_a_template_that_pods_are_made_of_is_taken(cluster, name):
    given = pod_templates.workload(TAKEN[name])
    created = cluster.kubectl("create", "--dry-run=server", "--validate=strict", "-f", "-", given=given)
    assert created.returncode == 0, created.stderr


def test_the_template_of_a_job_is_taken_as_the_server_has_it(cluster):
    given = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "job"}}
    spec = {"template": TAKEN["as a server has it in a Job"]}
    made = cluster.kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", given={**given, "spec": spec})
    assert made.returncode == 0, made.stderr
    template = json.loads(made.stdout)["spec"]["template"]
    taken = cluster.kubectl(
        "create", "--dry-run=server", "-o", "json", "-f", "-", given=pod_templates.workload(template)
    )
    assert taken.returncode == 0, taken.stderr
    kept = json.loads(taken.stdout)["spec"]["podGroups"][0]["template"]
    assert kept == template


@pytest.mark.parametrize("name", REFUSED)
def test_a_template_is_refused_where_it_is_wrong(cluster, name):
    template, path, message = REFUSED[name]
    given = pod_templates.workload(template)
    created = cluster.kubectl("create", "--dry-run=server", "--validate=strict", "-f", "-", given=given)
    assert created.returncode != 0
    place = f"{pod_templates.AT}{path}"
    assert f"{place}: " in created.stderr or f'"{place}" {message}' in created.stderr
    assert message in created.stderr


@pytest.mark.parametrize("place", BEYOND, ids=lambda place: f"{place[0].__name__}.{place[1]}")
def test_no_bound_is_tighter_than_that_of_pods(cluster, place):
    for template, path, message in BEYOND[place]:
        given = pod_templates.workload(template)
        created = cluster.kubectl("create", "--dry-run=server", "-f", "-", given=given)
        assert f"{pod_templates.AT}{path}: " in created.stderr
        assert message in created.stderr
        spec = {"containers": [{"name": "c", "image": "x"}], **template.get("spec", {})}
        of_pods = {"template": {**template, "spec": spec}, "metadata": {"name": "sample"}}
        of_pods |= {"apiVersion": "v1", "kind": "PodTemplate"}
        refused = cluster.kubectl("create", "--dry-run=server", "-f", "-", given=of_pods)
        assert refused.returncode != 0
        where = path.removesuffix(".a").replace(".metadata", "")
        last = where.rpartition("[")[0] or where  # some it tells of the whole item, and some without its index
        assert f"template{last}" in refused.stderr, refused.stderr


@pytest.fixture(scope="module")
def before(cluster):
    """Our Workloads by another name, first as if templates had no schema, so that one can be stored, then with it."""
    strict = yaml.safe_load((CRDS / crd_file_name(KINDS["Workload"])).read_text())
    strict["spec"]["group"], strict["metadata"]["name"] = "old.tutti.dev", "oldworkloads.old.tutti.dev"
    names = {"kind": "OldWorkload", "listKind": "OldWorkloadList", "plural": "oldworkloads", "singular": "oldworkload"}
    strict["spec"]["names"] = names
    loose = copy.deepcopy(strict)
    schema = loose["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    groups = schema["properties"]["spec"]["properties"]["podGroups"]["items"]["properties"]
    groups["template"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    assert cluster.kubectl("apply", "-f", "-", given=loose).returncode == 0
    given = pod_templates.stored() | {"apiVersion": "old.tutti.dev/v1alpha1", "kind": "OldWorkload"}
    deadline = time.monotonic() + 60
    while (said := cluster.kubectl("create", "-f", "-", given=given)).returncode != 0:
        assert time.monotonic() < deadline, said.stderr
    assert cluster.kubectl("apply", "-f", "-", given=strict).returncode == 0
    given["metadata"]["name"] = "other"
    while cluster.kubectl("create", "--dry-run=server", "-f", "-", given=given).returncode == 0:
        assert time.monotonic() < deadline
    yield cluster
    cluster.kubectl("delete", "crd/oldworkloads.old.tutti.dev")


@pytest.mark.parametrize("name", RATCHETS)
def test_what_was_stored_before_templates_had_a_schema_can_be_written(before, name):
    changes, place = RATCHETS[name]
    part = ["--subresource=status"] if changes[0]["path"] == "/status" else []
    flags = (*part, "--dry-run=server", "--type=json", "-p", json.dumps(changes))
    patched = before.kubectl("patch", "oldworkload/sample", *flags)
    assert (patched.returncode == 0) is not bool(place), patched.stderr
    assert not place or f"{place}: " in patched.stderr


TRANSITIONS = [
    ("LocalQueue", "clusterQueue: a", "clusterQueue: b", "clusterQueue cannot be changed"),
    ("LocalQueue", "clusterQueue: a", "stopPolicy: Hold", "clusterQueue cannot be changed"),
    ("LocalQueue", "{}", "clusterQueue: a", None),
    ("LocalQueue", "clusterQueue: a", "{clusterQueue: a, stopPolicy: Hold}", None),
    ("Topology", "levels: [{nodeLabel: a}]", "levels: [{nodeLabel: b}]", "levels cannot be changed"),
    ("AdmissionCheck", "controllerName: a", "controllerName: b", "controllerName cannot be changed"),
    ("AdmissionCheck", "controllerName: a", "{controllerName: a, parameters: {apiGroup: g, kind: K, name: n}}", None),
    ("Workload", "podGroups: [{count: 1}]", "podGroups: [{count: 2}]", "podGroups cannot be changed"),
    ("Workload", "podGroups: [{count: 1}]", "{podGroups: [{count: 1}], active: false}", None),
    ("PodGroup", "schedulingPolicy: {gang: {minCount: 2}}", "schedulingPolicy: {basic: {}}", "cannot change between"),
    ("PodGroup", "schedulingPolicy: {gang: {minCount: 2}}", "schedulingPolicy: {gang: {minCount: 3}}", None),
]


@pytest.mark.parametrize(("kind", "before", "after", "message"), TRANSITIONS)
def test_what_cannot_change_stays(cluster, kind, before, after, message):
    cluster.kubectl("delete", "--ignore-not-found", "-f", "-", given=manifest(kind, before))
    created = cluster.kubectl("create", "-f", "-", given=manifest(kind, before))
    assert created.returncode == 0, created.stderr
    replaced = cluster.kubectl("replace", "-f", "-", given=manifest(kind, after))
    assert (replaced.returncode == 0) is (message is None), replaced.stderr
    assert message is None or message in replaced.stderr


FENCES = [
    ({"lease": "a", "generation": 3}, {"lease": "a", "generation": 3}, True),
    ({"lease": "a", "generation": 3}, {"lease": "a", "generation": 4}, True),
    ({"lease": "a", "generation": 3}, {"lease": "b", "generation": 0}, True),
    ({"lease": "a", "generation": 3}, {"lease": "a", "generation": 2}, False),
    (None, {"lease": "a", "generation": 3}, True),
    ({"lease": "a", "generation": 3}, None, True),
]


@pytest.mark.parametrize(("before", "after", "taken"), FENCES)
def test_a_status_of_an_earlier_generation_of_the_lease_is_refused(cluster, before, after, taken):
    """None is what a process writes that needs no lease: it says nothing of one."""
    given = manifest("PodGroup", "schedulingPolicy: {gang: {minCount: 4}}")
    cluster.kubectl("delete", "--ignore-not-found", "podgroup/sample")
    assert cluster.kubectl("create", "-f", "-", given=given).returncode == 0

    def write(fence, bound):
        status = {"bound": bound} if fence is None else {"bound": bound, "fence": fence}
        patch = json.dumps({"status": status})
        return cluster.kubectl("patch", "podgroup/sample", "--subresource=status", "--type=merge", "-p", patch)

    assert write(before, 1).returncode == 0
    second = write(after, 2)
    assert (second.returncode == 0) is taken
    assert taken or "written by a former leader" in second.stderr
    assert cluster.kubectl("get", "pg/sample", "-o", "jsonpath={.status.bound}").stdout == ("2" if taken else "1")


def test_the_samples_are_accepted_in_any_order_after_the_queues(cluster):
    for name in ("two-queues.yaml", "gang.yaml", "job-gang.yaml", "pfnet-gang.yaml", "topology.yaml"):
        applied = cluster.kubectl("apply", "--validate=strict", "-f", str(SAMPLES / name))
        assert applied.returncode == 0, applied.stderr


def test_get_says_what_a_pod_group_is_doing_and_why_not(cluster):
    cluster.kubectl("delete", "--ignore-not-found", "podgroup/sample")
    cluster.kubectl("create", "-f", "-", given=manifest("PodGroup", "schedulingPolicy: {gang: {minCount: 4}}"))
    reason = {"gate": "Gather", "reason": "MembersMissing", "message": "3 of 4 members exist"}
    condition = {"type": "Scheduled", "status": "False", "reason": "Gather", "message": ""}
    condition["lastTransitionTime"] = "2026-01-01T00:00:00Z"
    status = {"members": 3, "bound": 0, "phase": "Gathering", "conditions": [condition]}
    status["pendingReason"] = {"since": "2026-01-01T00:00:00Z", "reasons": [reason]}
    patch = json.dumps({"status": status})
    patched = cluster.kubectl("patch", "podgroup/sample", "--subresource=status", "--type=merge", "-p", patch)
    assert patched.returncode == 0, patched.stderr

    heading, row = cluster.kubectl("get", "pg", "sample").stdout.splitlines()
    assert heading.split() == ["NAME", "QUEUE", "POSITION", "MIN", "MEMBERS", "BOUND", "PHASE", "WHY", "AGE"]
    assert row.split()[:5] == ["sample", "4", "3", "0", "Gathering"]
    assert "3 of 4 members exist" in row


# What the policies of the manifests refuse of a tenant, who may edit his namespace.

POLICIES = Path(__file__).parents[2] / "manifests" / "components" / "policies" / "policies.yaml"
ADMISSION = "scheduling.tutti.dev/admission"
TENANT = "--as=tenant"


def a_pod(name, *, labels=None, annotations=None):
    spec = {"containers": [{"name": "c", "image": "x"}], "schedulerName": "tutti"}
    meta = {"name": name, "namespace": "default", "labels": labels or {}, "annotations": annotations or {}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def bind(cluster, name, annotations):
    target = {"apiVersion": "v1", "kind": "Node", "name": "n"}
    meta = {"name": name, "annotations": annotations}
    given = {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": target}
    done = cluster.kubectl("create", "--raw", f"/api/v1/namespaces/default/pods/{name}/binding", "-f", "-", given=given)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def policed(cluster):
    """A server with the policies at work, and a tenant who may edit the namespace `default`."""
    applied = cluster.kubectl("apply", "--validate=strict", "-f", str(POLICIES))
    assert applied.returncode == 0, applied.stderr
    roles = CRDS.parent / "manifests" / "base" / "user-roles.yaml"
    assert cluster.kubectl("apply", "-f", str(roles)).returncode == 0
    for role in (
        "system:aggregate-to-edit",
        "system:aggregate-to-view",
        "tutti-edit",
        "tutti-view",
    ):  # of what `edit` is put together
        rights = (f"--clusterrole={role}", "--user=tenant", "--namespace=default")
        bound = cluster.kubectl("create", "rolebinding", f"tenant-{role.replace(':', '-')}", *rights)
        assert bound.returncode == 0, bound.stderr
    deadline = time.monotonic() + 60
    forged = a_pod("forged", annotations={ADMISSION: "{}"})
    jumping = manifest("PodGroup", JUMP)
    for given in (forged, jumping):
        while (
            "tutti-"
            not in (said := cluster.kubectl("create", "--dry-run=server", TENANT, "-f", "-", given=given)).stderr
        ):
            assert time.monotonic() < deadline, said.stderr
    yield cluster
    cluster.kubectl("delete", "-f", str(POLICIES))
    cluster.kubectl("delete", "--all", "pods", "--namespace=default", "--grace-period=0", "--force")


OF_PODS = "group: scheduling.k8s.io, kind: PriorityClass"
JUMP = "{schedulingPolicy: {gang: {minCount: 1}}, priorityClassName: system-node-critical}"


def test_a_tenant_cannot_write_an_admission_whoever_places_pods_can(policed):
    forged = a_pod("forged", annotations={ADMISSION: "{}"})
    refused = policed.kubectl("create", TENANT, "-f", "-", given=forged)
    assert refused.returncode != 0
    assert "written by who places pods" in refused.stderr
    created = policed.kubectl("create", TENANT, "-f", "-", given=a_pod("honest"))
    assert created.returncode == 0, created.stderr
    bind(policed, "honest", {ADMISSION: "said by a Binding"})
    for change in (f"{ADMISSION}-", f"{ADMISSION}=x"):
        written = policed.kubectl("annotate", "--overwrite", TENANT, "pod/honest", change)
        assert written.returncode != 0
        assert "written by who places pods" in written.stderr
    for change in ("mine=1", "mine-"):
        written = policed.kubectl("annotate", TENANT, "pod/honest", change)
        assert written.returncode == 0, written.stderr
    told = policed.kubectl("annotate", "--overwrite", "pod/honest", f"{ADMISSION}=y")
    assert told.returncode == 0, told.stderr


@pytest.mark.parametrize("key", ["scheduling.tutti.dev/queue-name", "kueue.x-k8s.io/queue-name"])
def test_a_pod_that_has_a_node_stays_in_its_queue(policed, key):
    name = key.partition(".")[0]
    given = a_pod(name, labels={key: "one"})
    assert policed.kubectl("create", TENANT, "-f", "-", given=given).returncode == 0
    moved = policed.kubectl("label", "--overwrite", TENANT, f"pod/{name}", f"{key}=two")
    assert moved.returncode == 0, moved.stderr  # it waits, and may wait elsewhere
    bind(policed, name, {})
    for change in (f"{key}-", f"{key}=one"):
        refused = policed.kubectl("label", "--overwrite", TENANT, f"pod/{name}", change)
        assert refused.returncode != 0
        assert "stays in its queue" in refused.stderr
    assert policed.kubectl("label", TENANT, f"pod/{name}", "mine=1").returncode == 0


def test_a_tenant_leaves_it_to_the_scheduler_that_he_names_where_his_pod_goes(policed):
    given = a_pod("self-placed")
    given["spec"]["nodeName"] = "n"
    refused = policed.kubectl("create", TENANT, "-f", "-", given=given)
    assert refused.returncode != 0
    assert "spec.nodeName passes by the scheduler" in refused.stderr
    kept = policed.kubectl("create", "-f", "-", given=given)  # who may bind pods
    assert kept.returncode == 0, kept.stderr
    labelled = policed.kubectl("label", TENANT, "pod/self-placed", "mine=1")
    assert labelled.returncode == 0, labelled.stderr


def test_what_names_no_scheduler_may_name_its_node(policed):
    given = a_pod("of-no-queue")
    given["spec"] = given["spec"] | {"nodeName": "n", "schedulerName": "default-scheduler"}
    created = policed.kubectl("create", TENANT, "-f", "-", given=given)
    assert created.returncode == 0, created.stderr


@pytest.mark.parametrize("taken", [True, False])
@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        ("PodGroup", "{{schedulingPolicy: {{gang: {{minCount: 1}}}}, priorityClassName: {0}}}"),
        ("Workload", f"{{{{podGroups: [{{{{count: 1}}}}], priorityClassRef: {{{{{OF_PODS}, name: {{0}}}}}}}}}}"),
    ],
)
def test_system_classes_are_of_no_gang(policed, kind, spec, taken):
    given = manifest(kind, spec.format("high" if taken else "system-cluster-critical"))
    policed.kubectl("delete", "--ignore-not-found", "-f", "-", given=given)
    created = policed.kubectl("create", TENANT, "-f", "-", given=given)
    assert (created.returncode == 0) is taken, created.stderr
    assert taken or "system classes" in created.stderr
    if taken:
        assert policed.kubectl("label", TENANT, kind, "sample", "mine=1").returncode == 0


USERS = POLICIES.parents[1] / "users" / "policy.yaml"
USER = "scheduling.tutti.dev/user"


def test_nobody_writes_another_as_the_user_of_his_work_but_who_may_act_for_him(policed):
    assert policed.kubectl("apply", "--validate=strict", "-f", str(USERS)).returncode == 0
    other, mine = (a_pod(f"of-{name}", annotations={USER: name}) for name in ("another", "tenant"))
    deadline = time.monotonic() + 60
    while (
        "must be your own name"
        not in (said := policed.kubectl("create", "--dry-run=server", TENANT, "-f", "-", given=other)).stderr
    ):
        assert time.monotonic() < deadline, said.stderr
    group = manifest("PodGroup", "{schedulingPolicy: {gang: {minCount: 1}}}")
    group["metadata"] = {"name": "of-another", "namespace": "default", "annotations": {USER: "another"}}
    assert "must be your own name" in policed.kubectl("create", TENANT, "-f", "-", given=group).stderr
    assert policed.kubectl("create", TENANT, "-f", "-", given=mine).returncode == 0
    for change in (f"{USER}=another", f"{USER}-"):
        refused = policed.kubectl("annotate", "--overwrite", TENANT, "pod/of-tenant", change)
        assert "cannot be changed" in refused.stderr
    assert policed.kubectl("annotate", TENANT, "pod/of-tenant", "mine=1").returncode == 0
    assert policed.kubectl("create", "-f", "-", given=other).returncode == 0  # an administrator may impersonate anybody
    account = (
        "system:serviceaccount:default:made-up"  # whoever may edit makes these and acts as them: they are one user
    )
    for verb, what in (("create", "serviceaccounts"), ("impersonate", "serviceaccounts")):
        said = policed.kubectl("auth", "can-i", verb, what, TENANT, "--namespace=default")
        assert said.stdout.strip() == "yes", said.stderr
    given = a_pod("of-account", annotations={USER: account})
    assert "must be your own name" in policed.kubectl("create", TENANT, "-f", "-", given=given).stderr
    policed.kubectl("delete", "-f", str(USERS))
