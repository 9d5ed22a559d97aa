"""The webhooks as an API server calls them: over HTTPS, with reviews in and verdicts out."""

from __future__ import annotations

import base64
import json
import ssl

import aiohttp
import pytest

from e2e.harness.processes import free_port
from tests.controller.objects import local_queue, obj
from tests.controller.process import API, CRDS, operator, until
from tutti.controller.discovery import OUR_RESOURCES
from tutti.kube.certificate import Certificate
from tutti.kube.errors import ApiError


@pytest.fixture
async def reviews(cluster, kubeconfig, tmp_path):
    """Ask the webhook of that name about an object."""
    certificate = Certificate.make(["127.0.0.1"])
    (tmp_path / "tls.crt").write_bytes(certificate.pem)
    (tmp_path / "tls.key").write_bytes(certificate.key)
    port = free_port()
    trust = ssl.create_default_context(cadata=certificate.pem.decode())
    webhook = {"enabled": True, "port": port, "certDir": str(tmp_path)}
    async with operator(kubeconfig, tmp_path, webhook=webhook) as running, aiohttp.ClientSession() as session:
        await running.says("deciding")

        async def ask(hook, plural, document, *, old=None):
            request = {
                "uid": "1",
                "resource": {"group": "scheduling.tutti.dev", "version": "v1alpha1", "resource": plural},
                "operation": "UPDATE" if old else "CREATE",
                "userInfo": {"username": "somebody"},
                "object": {"apiVersion": API, **document},
                "oldObject": old and {"apiVersion": API, **old},
            }
            body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
            async with session.post(f"https://127.0.0.1:{port}/{hook}", json=body, ssl=trust) as answer:
                return (await answer.json())["response"]

        async def listening():
            try:
                await ask("validate-cohort", "cohorts", obj("Cohort", "a"))
            except aiohttp.ClientConnectorError:
                return False
            return True

        await until(listening)
        yield ask


async def test_a_refusal_names_the_field_and_what_would_be_right(reviews):
    answer = await reviews("validate-clusterqueue", "clusterqueues", obj("ClusterQueue", "a", {"cohort": "x"}))

    assert not answer["allowed"]
    assert answer["status"]["code"] == 422
    assert answer["status"]["message"] == "spec.cohort: there is no such field; did you mean 'cohortName'?"


async def test_a_ring_is_refused_with_the_cohorts_that_exist(reviews, cluster):
    await cluster.create(OUR_RESOURCES["Cohort"], obj("Cohort", "b", {"parentName": "a"}))

    async def refused():
        answer = await reviews("validate-cohort", "cohorts", obj("Cohort", "a", {"parentName": "b"}))
        return None if answer["allowed"] else answer["status"]["message"]

    assert "a -> b -> a" in await until(refused)


async def test_a_missing_name_is_a_warning_and_a_default_queue_is_filled_in(reviews, cluster):
    workload = obj("Workload", "w", {"podGroups": [{"name": "main", "count": 1}]}, namespace="default")
    named = {**workload, "spec": {**workload["spec"], "queueName": "nowhere"}}
    answer = await reviews("validate-workload", "workloads", named)
    assert answer["allowed"]
    assert "LocalQueue default/nowhere does not exist" in answer["warnings"][0]

    assert "patch" not in await reviews("default-workload", "workloads", workload)
    await cluster.create(OUR_RESOURCES["LocalQueue"], local_queue("default"))

    async def filled():
        patch = (await reviews("default-workload", "workloads", workload)).get("patch")
        return json.loads(base64.b64decode(patch)) if patch else None

    assert await until(filled) == [{"op": "add", "path": "/spec/queueName", "value": "default"}]


async def test_a_change_beside_the_spec_of_a_bad_object_is_let_through(reviews):
    bad = obj("ClusterQueue", "a", {"cohort": "x"})
    labelled = obj("ClusterQueue", "a", {"cohort": "x"}, labels={"l": "1"})

    assert (await reviews("validate-clusterqueue", "clusterqueues", labelled, old=bad))["allowed"]


async def test_a_kind_that_is_discovered_late_is_reviewed_once_it_is(reviews, cluster):
    """Only for what it has discovered does kopf answer, and it looks once for each event of a definition."""
    name = OUR_RESOURCES["Topology"].label

    async def reviewed():
        try:
            answer = await reviews("validate-topology", "topologies", obj("Topology", "a", {"levels": []}))
        except aiohttp.ClientError:
            return False
        return not answer["allowed"]

    async def not_reviewed():
        return not await reviewed()

    definition = await cluster.get(CRDS, name)
    assert await reviewed()
    await cluster.delete(CRDS, name)
    await until(not_reviewed)
    await cluster.client.request("PUT", "/_tutti/faults", body=json.dumps({"undiscovered": [name]}).encode())
    metadata = {"name": name}
    await cluster.create(CRDS, {"kind": definition["kind"], "metadata": metadata, "spec": definition["spec"]})
    await until(lambda: served(cluster))
    assert not await reviewed()
    await cluster.client.request("DELETE", "/_tutti/faults")
    await until(reviewed)


async def served(cluster):
    """Whether the server serves topologies again."""
    try:
        await cluster.create(OUR_RESOURCES["Topology"], obj("Topology", "racks", {"levels": [{"nodeLabel": "zone"}]}))
    except ApiError:
        return False
    return True
