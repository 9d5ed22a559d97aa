"""The certificate that the operator makes itself: shared by replicas, renewed in time, and trusted throughout."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from datetime import UTC, datetime, timedelta

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from e2e.harness.processes import free_port
from tests.controller.objects import obj
from tests.controller.process import operator, until
from tests.controller.recording import recorded
from tests.manifests.rbac import BASE, asked
from tutti.api.configuration import SelfSigned, TuttiConfiguration, WebhookSettings, load_configuration
from tutti.controller.discovery import OUR_RESOURCES
from tutti.controller.kopf_handlers import settings_for
from tutti.controller.self_signing import CONFIGURATIONS, SECRETS, SelfSigning, own_certificate
from tutti.kube.certificate import Certificate
from tutti.kube.client import Client
from tutti.kube.credentials import Access, Credentials
from tutti.kube.errors import ApiError
from tutti.kube.resources import NAMESPACES

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HOME = "tutti-system"
COMPONENT = BASE.parent / "components" / "self-signed"


def hook(name, port, path, plural):
    return {
        "name": name,
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
        "clientConfig": {"url": f"https://127.0.0.1:{port}{path}"},
        "rules": [
            {
                "apiGroups": ["scheduling.tutti.dev"],
                "apiVersions": ["v1alpha1"],
                "operations": ["CREATE", "UPDATE"],
                "resources": [plural],
            }
        ],
    }


async def prepare(cluster, port=1):
    """What an administrator applies: an empty Secret, and configurations that trust nobody yet."""
    await cluster.create(NAMESPACES, {"kind": "Namespace", "metadata": {"name": HOME}})
    await cluster.create(SECRETS, {"kind": "Secret", "metadata": {"name": "tutti-webhook", "namespace": HOME}})
    validating, mutating = CONFIGURATIONS
    queues = hook("queues.tutti.dev", port, "/validate-clusterqueue", "clusterqueues")
    cohorts = hook("cohorts.tutti.dev", port, "/validate-cohort", "cohorts")
    defaults = hook("default.tutti.dev", port, "/default-workload", "workloads")
    for resource, kind, hooks in (
        (validating, "ValidatingWebhookConfiguration", [queues, cohorts]),
        (mutating, "MutatingWebhookConfiguration", [defaults]),
    ):
        await cluster.create(resource, {"kind": kind, "metadata": {"name": "tutti"}, "webhooks": hooks})


class Clock:
    def __init__(self):
        self.now = NOW

    def __call__(self):
        return self.now


@pytest.fixture
async def replica(cluster, tmp_path):
    """Make a replica that shares the clock and the cluster with the others, in a folder of its own."""
    await prepare(cluster)
    clock, wanted = Clock(), SelfSigned(hosts=["127.0.0.1"])

    def make(name, **changed):
        folder = tmp_path / name
        folder.mkdir()
        made = SelfSigning(cluster.client, wanted.model_copy(update=changed), folder, clock=clock)
        made.clock = clock
        return made

    return make


async def trusted(cluster):
    """What every webhook trusts, in PEM; they must agree."""
    found = set()
    for resource in CONFIGURATIONS:
        for one in (await cluster.get(resource, "tutti"))["webhooks"]:
            found.add(one["clientConfig"].get("caBundle"))
    (bundle,) = found
    return base64.b64decode(bundle or "")


def served(replica):
    """The certificate that a replica serves; its key must fit."""
    text = replica.file.read_bytes()
    begin = text.index(b"-----BEGIN CERTIFICATE")
    certificate = Certificate(text[begin:], text[:begin])
    certificate.context()
    return certificate


async def test_what_is_served_is_for_the_service_and_trusted_by_every_webhook(cluster, replica):
    one = replica("one")
    await one.renew()

    assert served(one).hosts == ("127.0.0.1",)
    assert served(one).ends - NOW == timedelta(days=90)
    assert served(one).pem == await trusted(cluster)
    assert one.file.stat().st_mode & 0o077 == 0, "the key is nobody else's to read"


async def test_replicas_that_start_together_share_one_certificate(cluster, replica):
    replicas = [replica(name) for name in ("one", "two", "three")]

    await asyncio.gather(*(one.renew() for one in replicas))

    assert len({served(one).pem for one in replicas}) == 1
    assert served(replicas[0]).pem == await trusted(cluster)


async def test_it_is_renewed_after_two_thirds_and_what_others_serve_stays_trusted(cluster, replica):
    one, two = replica("one"), replica("two")
    await one.renew()
    await two.renew()
    first = served(one).pem
    one.clock.now = NOW + timedelta(days=59)
    await one.renew()
    assert served(one).pem == first

    one.clock.now = NOW + timedelta(days=60)
    await one.renew()
    second = served(one).pem
    assert second != first
    assert served(two).pem == first
    assert await trusted(cluster) == second + first, "the other has not looked yet"
    await two.renew()
    assert served(two).pem == second

    one.clock.now = NOW + timedelta(days=120)
    await one.renew()
    assert await trusted(cluster) == served(one).pem + second


async def test_what_has_ended_is_trusted_no_longer(cluster, replica):
    one = replica("one")
    await one.renew()
    one.clock.now = NOW + timedelta(days=200)
    await one.renew()

    assert await trusted(cluster) == served(one).pem


async def test_a_change_of_hosts_makes_another(cluster, replica):
    one, other = replica("one"), replica("other", hosts=["127.0.0.1", "tutti.example"])
    await one.renew()
    await other.renew()

    assert set(served(other).hosts) == {"127.0.0.1", "tutti.example"}
    assert served(one).pem in await trusted(cluster)


@pytest.mark.parametrize(
    "data",
    [{}, {"tls.crt": "x"}, {"tls.crt": "eA==", "tls.key": "eA==", "ca.crt": "eA=="}],
    ids=["none", "less", "junk"],
)
async def test_a_secret_that_somebody_has_spoilt_is_mended(cluster, replica, data):
    one = replica("one")
    await one.renew()
    spoilt = {"tls.crt": None, "tls.key": None, "ca.crt": None, **data}
    if "x" not in data.values():
        await cluster.patch(SECRETS, "tutti-webhook", HOME, data=spoilt)
    else:  # the server takes only base64
        with pytest.raises(ApiError):
            await cluster.patch(SECRETS, "tutti-webhook", HOME, data=spoilt)

    await one.renew()

    assert served(one).pem == await trusted(cluster)


async def test_a_certificate_of_somebody_elses_that_is_for_no_name_is_replaced(cluster, replica):
    one = replica("one")
    key = ec.generate_private_key(ec.SECP256R1())
    nobody = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tutti")])
    builder = x509.CertificateBuilder().subject_name(nobody).issuer_name(nobody).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(NOW).not_valid_after(NOW + timedelta(days=300))
    pem = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    data = {"tls.crt": pem, "tls.key": private, "ca.crt": pem}
    data = {name: base64.b64encode(value).decode() for name, value in data.items()}
    await cluster.patch(SECRETS, "tutti-webhook", HOME, data=data)

    await one.renew()

    assert served(one).hosts == ("127.0.0.1",)
    assert served(one).pem == await trusted(cluster)


async def test_a_host_may_be_spelled_in_any_way(cluster, replica):
    one = replica("one", hosts=["FD00:0:0:0:0:0:0:1", "Tutti.Example"])
    await one.renew()
    first = served(one).pem

    await one.renew()

    assert served(one).pem == first


async def test_trust_that_somebody_has_taken_away_is_given_again(cluster, replica):
    one = replica("one")
    await one.renew()
    validating = CONFIGURATIONS[0]
    hooks = (await cluster.get(validating, "tutti"))["webhooks"]
    del hooks[0]["clientConfig"]["caBundle"]
    await cluster.patch(validating, "tutti", webhooks=hooks)

    await one.renew()

    assert served(one).pem == await trusted(cluster)
    left = (await cluster.get(validating, "tutti"))["webhooks"]
    assert [one["name"] for one in left] == ["queues.tutti.dev", "cohorts.tutti.dev"]


async def test_the_server_serves_the_renewed_certificate_without_a_restart(cluster, replica):
    port = free_port()
    one = replica("one")
    one.clock.now = datetime.now(UTC) - timedelta(days=60)
    await one.renew()
    webhook = {"enabled": True, "port": port, "selfSigned": {"hosts": ["127.0.0.1"]}}
    server = settings_for(TuttiConfiguration(webhook=webhook), one.file, serves=True).admission.server
    server.file_check_interval = 0.01

    async def answered(_, **__):
        return {}

    async def serve():
        async for _ in server(answered):
            pass

    async def serves(certificate):
        trust = ssl.create_default_context(cadata=(await trusted(cluster)).decode())
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trust)
        except ConnectionRefusedError:
            return False
        peer = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        return ssl.DER_cert_to_PEM_cert(peer).encode() == certificate.pem

    serving = asyncio.ensure_future(serve())
    try:
        await until(lambda: serves(served(one)))
        first = served(one)
        one.clock.now += timedelta(days=60)
        await one.renew()
        assert served(one).pem != first.pem
        await until(lambda: serves(served(one)))
    finally:
        serving.cancel()
        await asyncio.wait({serving})


async def test_an_api_server_asks_an_operator_with_a_certificate_of_its_own(cluster, kubeconfig, tmp_path):
    port = free_port()
    await prepare(cluster, port)
    webhook = {"enabled": True, "port": port, "selfSigned": {"hosts": ["127.0.0.1"]}}
    async with operator(kubeconfig, tmp_path, webhook=webhook) as running:
        await running.says("certificate_made")
        await running.says("deciding")

        async def refused():
            bad = obj("Cohort", "a", {"parentName": "a"})
            try:
                await cluster.create(OUR_RESOURCES["Cohort"], bad)
            except ApiError as error:
                return error if "connect" not in str(error) else None
            return None

        error = await until(refused)
        assert "admission webhook" in str(error)
        assert "spec.parentName" in str(error)
        await cluster.create(OUR_RESOURCES["Cohort"], obj("Cohort", "b"))
        assert await running.stop() == 0


async def test_without_its_secret_the_operator_schedules_and_says_what_is_missing(cluster, kubeconfig, tmp_path):
    webhook = {"enabled": True, "port": free_port(), "selfSigned": {"hosts": ["127.0.0.1"]}}
    async with operator(kubeconfig, tmp_path, webhook=webhook) as running:
        said = await running.says("certificate_not_looked_after")
        assert said["secret"] == "tutti-system/tutti-webhook"
        assert "not found" in said["error"]
        await running.says("deciding")
        assert await running.stop() == 0


async def test_keys_are_never_logged(cluster, kubeconfig, tmp_path):
    await prepare(cluster)
    webhook = {"enabled": True, "port": free_port(), "selfSigned": {"hosts": ["127.0.0.1"]}}
    async with operator(kubeconfig, tmp_path, logging={"level": "debug"}, webhook=webhook) as running:
        await running.says("certificate_trusted")
        await running.says("deciding")
        await running.stop()
        key = base64.b64decode((await cluster.get(SECRETS, "tutti-webhook", HOME))["data"]["tls.key"]).decode()
        text = json.dumps(running.lines)
        assert "PRIVATE KEY" not in text
        assert key.splitlines()[1] not in text


class Answering:
    """Answers at once with a Secret that is good, and with configurations without webhooks."""

    def __init__(self):
        made = Certificate.make(["127.0.0.1"], name="tutti webhook", lasts=timedelta(days=30), now=datetime.now(UTC))
        data = {"tls.crt": made.pem, "tls.key": made.key, "ca.crt": made.pem}
        self.answer = json.dumps({"data": {name: base64.b64encode(value).decode() for name, value in data.items()}})

    async def request(self, *_, **__):
        return self.answer


@pytest.mark.parametrize("steps", range(12))
async def test_who_is_told_to_stop_while_the_certificate_comes_stops(steps):
    """Python 3.11's `wait_for` forgets a cancellation that comes together with what it waits for."""
    wanted = WebhookSettings(enabled=True, self_signed=SelfSigned(hosts=["127.0.0.1"]))

    async def serve():
        async with own_certificate(wanted, Answering(), asyncio.Event()):
            await asyncio.Event().wait()

    serving = asyncio.create_task(serve())
    for _ in range(steps):
        await asyncio.sleep(0)
    serving.cancel()
    done, _ = await asyncio.wait({serving}, timeout=60)
    assert done
    assert serving.cancelled()


async def test_it_needs_every_right_that_its_component_grants_and_no_other(bare, cluster, tmp_path):
    await prepare(cluster)
    async with recorded(bare.url) as proxy:
        access = Access(proxy.url, headers={"Authorization": f"Bearer {bare.token}"})
        async with Client(Credentials.fixed(access)) as client:
            await SelfSigning(client, SelfSigned(), tmp_path).renew()

    documents = list(yaml.safe_load_all((COMPONENT / "rights.yaml").read_text()))
    granted = {
        (group, resource, verb, role["metadata"].get("namespace", ""), name)
        for role in documents
        for rule in role.get("rules", ())
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule["resourceNames"]
    }
    assert {asked(*request) for request in proxy.requests} == granted


def test_the_component_says_what_the_operator_takes_for_granted():
    configuration = load_configuration((COMPONENT / "tutti.yaml").read_text())
    own = configuration.webhook.self_signed
    assert configuration.webhook.enabled
    assert own is not None
    (secret,) = yaml.safe_load_all((COMPONENT / "secret.yaml").read_text())
    assert (secret["metadata"]["namespace"], secret["metadata"]["name"]) == (own.secret_namespace, own.secret_name)
    for document in yaml.safe_load_all((COMPONENT.parent / "webhook" / "webhooks.yaml").read_text()):
        assert document["metadata"]["name"] == own.configuration_name
        for one in document["webhooks"]:
            service = one["clientConfig"]["service"]
            assert f"{service['name']}.{service['namespace']}.svc" in own.hosts
