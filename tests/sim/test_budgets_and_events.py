"""Disruption budgets in full, and the life of events."""

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sim.conftest import Client
from tutti_sim.cluster import EmbeddedCluster
from tutti_sim.controllers.disruption import count, share
from tutti_sim.controllers.roster import Timing

BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
PODS = "/api/v1/namespaces/default/pods"
SETS = "/apis/apps/v1/namespaces/default/replicasets"
X = {"matchLabels": {"app": "x"}}


@pytest.mark.parametrize(
    ("spec", "expected", "healthy", "desired", "allowed"),
    [
        ({"minAvailable": 2}, 3, 3, 2, 1),
        ({"minAvailable": 2}, 3, 1, 2, 0),
        ({"minAvailable": "50%"}, 3, 3, 2, 1),
        ({"maxUnavailable": 1}, 3, 3, 2, 1),
        ({"maxUnavailable": "34%"}, 3, 3, 1, 2),
        ({"maxUnavailable": 5}, 3, 3, 0, 3),
        ({"minAvailable": 0}, 0, 0, 0, 0),
        ({}, 3, 3, 0, 3),
    ],
)
def test_a_budget_is_what_is_healthy_beyond_what_is_desired(spec, expected, healthy, desired, allowed):
    counts = count(spec, expected=expected, healthy=healthy)

    assert (counts.desired, counts.allowed) == (desired, allowed)


@given(percent=st.integers(0, 100), total=st.integers(0, 1000))
def test_a_percentage_is_rounded_up(percent, total):
    assert 0 <= share(f"{percent}%", total) * 100 - percent * total < 100


def counted(**wanted):
    return lambda obj: wanted.items() <= obj.get("status", {}).items()


async def test_a_relative_budget_asks_the_pods_controller_how_many_there_should_be(api, pod):
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    owner = await api.create(
        SETS, {"metadata": {"name": "s"}, "spec": {"replicas": 4, "selector": X, "template": template}}
    )
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "s", "uid": owner["metadata"]["uid"]}
    for name in "abc":
        meta = {"labels": {"app": "x"}, "ownerReferences": [{**reference, "controller": True}]}
        await api.create(PODS, pod(name, node="node-0000", **meta))

    await api.create(BUDGETS, {"metadata": {"name": "b"}, "spec": {"maxUnavailable": 2, "selector": X}})

    full = await api.until(f"{BUDGETS}/b", counted(expectedPods=4, currentHealthy=3, desiredHealthy=2))
    assert full["status"]["disruptionsAllowed"] == 1
    assert full["status"]["observedGeneration"] == full["metadata"]["generation"]
    assert full["status"]["conditions"][0]["reason"] == "SufficientPods"
    await api.call("PATCH", f"{SETS}/s", {"spec": {"replicas": 6}})
    await api.until(f"{BUDGETS}/b", counted(expectedPods=6, desiredHealthy=4, disruptionsAllowed=0))


async def test_a_relative_budget_over_a_job_cannot_be_kept_and_allows_nothing(api):
    template = {
        "metadata": {"labels": {"app": "x"}},
        "spec": {"restartPolicy": "Never", "nodeName": "node-0000", "containers": [{"name": "c", "image": "i"}]},
    }
    await api.create(
        "/apis/batch/v1/namespaces/default/jobs", {"metadata": {"name": "j"}, "spec": {"template": template}}
    )
    await api.create(BUDGETS, {"metadata": {"name": "b"}, "spec": {"maxUnavailable": 1, "selector": X}})

    failed = await api.until(
        f"{BUDGETS}/b", lambda obj: any(c["reason"] == "SyncFailed" for c in obj["status"].get("conditions", ()))
    )

    assert failed["status"]["disruptionsAllowed"] == 0
    assert "does not implement the scale subresource" in failed["status"]["conditions"][0]["message"]


async def test_an_unready_pod_is_not_healthy(api, pod):
    await api.create(PODS, pod("a", node="node-0000", labels={"app": "x"}))
    await api.create(PODS, pod("waits", labels={"app": "x"}))
    await api.create(BUDGETS, {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": X}})

    await api.until(f"{BUDGETS}/b", counted(expectedPods=2, currentHealthy=1, disruptionsAllowed=0))


async def test_events_go_when_their_time_is_over():
    token = "t"
    cluster = EmbeddedCluster(nodes=0, token=token, timing=Timing(event_ttl=0.05))
    async with cluster, aiohttp.ClientSession(headers={"Authorization": f"Bearer {token}"}) as session:
        api = Client(session, cluster.url)
        events = "/api/v1/namespaces/default/events"
        subject = {"kind": "Pod", "namespace": "default", "name": "p"}
        for name in "ab":
            await api.create(events, {"metadata": {"name": name}, "involvedObject": subject})

        for name in "ab":
            await api.gone(f"{events}/{name}")
