"""`tutti doctor` where something stands in an object that no schema has there: it says something, and looks at the rest.

A server that checks what it stores has none of these: they are of definitions that check nothing, and of proxies.
"""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from tests.cli.doctor.test_doctor import (
    SPACE,
    Json,
    Ward,
    installed,
    lease,
    with_a_queue_that_is_off,
    with_a_webhook_that_nobody_serves,
    with_devices_taken_beside,
    with_pods_of_a_queue_for_another,
)
from tests.cli.views import scene
from tutti.cli.doctor.command import CHECKS
from tutti.cli.doctor.reading import Patient
from tutti.kube.client import Client
from tutti.kube.credentials import Credentials

PODS, NODES, SLICES = "/api/v1/pods", "/api/v1/nodes", "/endpointslices"
OURS = "/apis/scheduling.tutti.dev/v1alpha1"
CONTAINER = ("spec", "template", "spec", "containers", 0)

PLACES: tuple[tuple[str, str, tuple[tuple[str | int, ...], ...]], ...] = (
    ("server", "/version", ((), ("minor",), ("gitVersion",))),
    (
        "kinds",
        "/customresourcedefinitions/workloads.scheduling.tutti.dev",
        (
            ("spec",),
            ("spec", "versions"),
            ("spec", "versions", 0),
            ("spec", "versions", 0, "schema", "openAPIV3Schema"),
            ("status", "conditions"),
        ),
    ),
    (
        "operator",
        "/deployments",
        (
            ("spec",),
            ("spec", "replicas"),
            ("spec", "template"),
            ("spec", "template", "spec"),
            ("spec", "template", "spec", "volumes"),
            ("spec", "template", "spec", "volumes", 0),
            ("spec", "template", "spec", "volumes", 0, "configMap"),
            CONTAINER[:-1],
            CONTAINER,
            (*CONTAINER, "command"),
            (*CONTAINER, "args"),
            (*CONTAINER, "args", 0),
            (*CONTAINER, "volumeMounts"),
            (*CONTAINER, "volumeMounts", 0),
            (*CONTAINER, "volumeMounts", 0, "mountPath"),
            ("status",),
            ("status", "readyReplicas"),
        ),
    ),
    ("operator", "/configmaps", (("data",), ("data", "tutti.yaml"))),
    (
        "operator",
        "/leases/tutti",
        (("spec",), ("spec", "renewTime"), ("spec", "holderIdentity"), ("spec", "leaseDurationSeconds")),
    ),
    ("rights", "/deployments", (("spec",), ("spec", "template", "spec"), (*CONTAINER[:3], "serviceAccountName"))),
    ("rights", "/subjectaccessreviews", ((), ("status",), ("status", "allowed"))),
    (
        "webhooks",
        "/validatingwebhookconfigurations/tutti",
        (
            ("webhooks",),
            ("webhooks", 0),
            ("webhooks", 0, "clientConfig"),
            ("webhooks", 0, "clientConfig", "service"),
            ("webhooks", 0, "clientConfig", "service", "name"),
            ("webhooks", 0, "clientConfig", "caBundle"),
        ),
    ),
    (
        "webhooks",
        SLICES,
        (("metadata", "labels"), ("endpoints",), ("endpoints", 0), ("endpoints", 0, "conditions")),
    ),
    ("clocks", "/kube-node-lease/leases", (("spec",), ("spec", "renewTime"))),
    (
        "schedulers",
        PODS,
        (
            ("metadata", "labels"),
            ("spec",),
            ("spec", "nodeName"),
            ("spec", "schedulerName"),
            ("spec", "containers"),
            ("spec", "containers", 0),
            ("spec", "containers", 0, "resources"),
            ("spec", "containers", 0, "resources", "requests"),
            ("spec", "containers", 0, "resources", "requests", "nvidia.com/gpu"),
            ("status",),
            ("status", "phase"),
        ),
    ),
    ("schedulers", NODES, (("status",), ("status", "allocatable"))),
    ("labels", PODS, (("spec",), ("spec", "schedulerName"), ("metadata", "labels"), ("metadata", "annotations"))),
    ("queues", f"{OURS}/clusterqueues", (("status",), ("status", "conditions"), ("status", "conditions", 0))),
    ("shards", f"{OURS}/clusterqueues", (("spec",), ("spec", "cohortName"))),
    ("shards", f"{OURS}/cohorts", (("spec",), ("spec", "parentName"))),
)
"""Which check reads what, by how the path ends that it is asked of, and where in it something is put."""
PUT: dict[str, Any] = {"null": None, "a number": 3, "a list": ["text", None]}


def grafted(document: Any, path: tuple[str | int, ...], value: Any) -> Any:
    """A document with something else at a place; as it is where it has no such place."""
    if not path:
        return value
    at, (*above, last) = copy.deepcopy(document), path
    found = at
    for step in above:
        found = found[step] if _has(found, step) else None
    if _has(found, last) or (isinstance(found, dict) and isinstance(last, str)):
        found[last] = value
    return at


def _has(found: Any, step: str | int) -> bool:
    return (
        step in found if isinstance(found, dict) else isinstance(found, list) and isinstance(step, int) and bool(found)
    )


class Proxy(Client):
    """What lies between a cluster and who asks, and puts something into the answers to one path.

    It keeps what it was answered: nothing changes there meanwhile.
    """

    ending = ""
    place: tuple[str | int, ...] = ()
    value: Any = None
    hits = 0

    def __init__(self, credentials: Credentials) -> None:
        super().__init__(credentials)
        self._answers: dict[str, bytes] = {}

    async def request(self, method: str, path: str, **more: Any) -> bytes:
        asked = f"{method} {path} {more}"
        if asked not in self._answers:
            self._answers[asked] = await super().request(method, path, **more)
        answer = self._answers[asked]
        if not path.endswith(self.ending):
            return answer
        self.hits += 1
        found = msgspec.json.decode(answer)
        if isinstance(found.get("items"), list):
            found = {**found, "items": [grafted(one, self.place, self.value) for one in found["items"]]}
        else:
            found = grafted(found, self.place, self.value)
        return json.dumps(found).encode()


async def furnish(ward: Ward) -> None:
    """Have something of all that is looked at."""
    for fault in (
        with_a_webhook_that_nobody_serves,
        with_devices_taken_beside,
        with_pods_of_a_queue_for_another,
        with_a_queue_that_is_off,
    ):
        await fault(ward)
    await scene.create(ward.client, scene.pod("vision", "ours", 1, labels={"scheduling.tutti.dev/podgroup": "train"}))
    await ward.post(
        f"/apis/discovery.k8s.io/v1/namespaces/{SPACE.rpartition('/')[2]}/endpointslices",
        {
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"name": "tutti-1", "labels": {"kubernetes.io/service-name": "tutti"}},
            "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": True}}],
        },
    )  # fmt: skip
    made: Json = lease(time.time())
    made["metadata"] = {"name": "node-1", "namespace": "kube-node-lease"}
    await ward.post("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases", made)


def cases() -> Iterator[tuple[str, str, tuple[str | int, ...]]]:
    for check, ending, places in PLACES:
        for place in places:
            yield check, ending, place


@pytest.mark.parametrize("called", PUT)
async def test_what_is_no_object_where_one_belongs_is_looked_over(called: str) -> None:
    raised: list[str] = []
    async with installed() as (_, ward):
        await furnish(ward)
        async with Proxy(ward.patient.credentials) as proxy:
            patient = Patient(proxy, ward.patient.credentials)
            for check, ending, place in cases():
                proxy.ending, proxy.place, proxy.value, proxy.hits = ending, place, PUT[called], 0
                where = f"{check} of {ending} {'.'.join(map(str, place))}"
                try:
                    found = [one async for one in CHECKS[check](patient)]
                except Exception as error:  # noqa: BLE001 - all that is raised is told together
                    raised.append(f"{where}: {error!r}")
                    continue
                assert proxy.hits, where
                assert found, where

    assert raised == []
