"""Hollow nodes: pods run, end, are refused for lack of room, and leave."""

import pytest

PODS = "/api/v1/namespaces/default/pods"


def phase(name):
    return lambda obj: obj.get("status", {}).get("phase") == name


async def bind(api, name, node):
    body = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
    await api.create(f"{PODS}/{name}/binding", body)


async def test_nodes_offer_room_and_topology(api):
    node = await api.get("/api/v1/nodes/node-0001")

    assert node["status"]["allocatable"]["nvidia.com/gpu"] == "4"
    assert node["metadata"]["labels"]["topology.tutti.dev/rack"] == "rack-000"
    assert node["metadata"]["labels"]["kubernetes.io/hostname"] == "node-0001"


async def test_a_bound_pod_runs_and_is_ready(api, pod):
    await api.create(PODS, pod())
    await bind(api, "p", "node-0000")

    running = await api.until(f"{PODS}/p", phase("Running"))

    ready = {one["type"]: one["status"] for one in running["status"]["conditions"]}
    assert ready["Ready"] == ready["PodScheduled"] == "True"
    assert running["status"]["containerStatuses"][0]["ready"]
    assert running["status"]["startTime"]


async def test_a_pod_whose_readiness_gate_is_shut_runs_and_is_not_ready(api, pod):
    manifest = pod(node="node-0000")
    manifest["spec"]["readinessGates"] = [{"conditionType": "example.org/checked"}]
    await api.create(PODS, manifest)

    running = await api.until(f"{PODS}/p", phase("Running"))

    conditions = {one["type"]: one for one in running["status"]["conditions"]}
    assert conditions["ContainersReady"]["status"] == "True"
    assert conditions["Ready"]["status"] == "False"
    assert conditions["Ready"]["reason"] == "ReadinessGatesNotReady"


async def test_an_unbound_pod_waits(api, pod):
    await api.create(PODS, pod("waits"))
    await api.create(PODS, pod("runs", node="node-0000"))
    await api.until(f"{PODS}/runs", phase("Running"))

    assert (await api.get(f"{PODS}/waits"))["status"]["phase"] == "Pending"


@pytest.mark.parametrize(("code", "outcome"), [("0", "Succeeded"), ("3", "Failed")])
async def test_a_pod_ends_when_its_annotation_says_so(api, pod, code, outcome):
    manifest = pod(node="node-0000", seconds=0.01)
    manifest["metadata"]["annotations"]["sim.tutti.dev/exit-code"] = code
    await api.create(PODS, manifest)

    ended = await api.until(f"{PODS}/p", phase(outcome))

    assert ended["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == int(code)


async def test_a_pod_that_does_not_fit_is_rejected_as_by_a_kubelet(api, pod):
    await api.create(PODS, pod("a", node="node-0000", requests={"nvidia.com/gpu": "3"}))
    await api.create(PODS, pod("b", node="node-0000", requests={"nvidia.com/gpu": "2"}))

    rejected = await api.until(f"{PODS}/b", phase("Failed"))

    assert rejected["status"]["reason"] == "OutOfnvidia.com/gpu"
    assert "requested: 2, used: 3, capacity: 4" in rejected["status"]["message"]


async def test_room_comes_back_when_a_pod_ends(api, pod):
    await api.create(PODS, pod("a", node="node-0000", requests={"nvidia.com/gpu": "4"}, seconds=0.01))
    await api.until(f"{PODS}/a", phase("Succeeded"))
    await api.create(PODS, pod("b", node="node-0000", requests={"nvidia.com/gpu": "4"}))

    await api.until(f"{PODS}/b", phase("Running"))


async def test_a_deleted_pod_leaves_after_a_moment(api, pod):
    await api.create(PODS, pod(node="node-0000"))
    await api.until(f"{PODS}/p", phase("Running"))

    deleted = await api.call("DELETE", f"{PODS}/p")
    assert deleted["metadata"]["deletionGracePeriodSeconds"] == 30

    await api.gone(f"{PODS}/p")


async def test_a_pod_of_the_same_name_starts_afresh(api, pod):
    for _ in range(2):
        await api.create(PODS, pod(node="node-0000", requests={"nvidia.com/gpu": "4"}))
        await api.until(f"{PODS}/p", phase("Running"))
        await api.call("DELETE", f"{PODS}/p")
        await api.gone(f"{PODS}/p")


async def test_nodes_that_nobody_plays_are_left_alone(api, pod):
    await api.create("/api/v1/nodes", {"metadata": {"name": "real"}})
    await api.create(PODS, pod("there", node="real"))
    await api.create(PODS, pod("here", node="node-0000"))
    await api.until(f"{PODS}/here", phase("Running"))

    assert (await api.get(f"{PODS}/there"))["status"]["phase"] == "Pending"
