"""Nodes that are switched off, and what becomes of the pods on them."""

import pytest

from tests.sim.conftest import Client
from tutti_sim.cluster import EmbeddedCluster
from tutti_sim.controllers.roster import ALL, Timing, chosen
from tutti_sim.hollow.fate import PodDefaults
from tutti_sim.hollow.shapes import Deed, Shape, Shapes

NODES = "/api/v1/nodes"
PODS = "/api/v1/namespaces/default/pods"
OFF = {"metadata": {"annotations": {"sim.tutti.dev/power": "off"}}}
ON = {"metadata": {"annotations": {"sim.tutti.dev/power": None}}}
STAY = {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"}


@pytest.fixture
async def cluster():
    async with EmbeddedCluster(nodes=2, gpus=4, seed=1, timing=Timing(node_grace=0, quarantine=0)) as made:
        yield made


def phase(name):
    return lambda obj: obj.get("status", {}).get("phase") == name


def ready(status):
    return lambda obj: any(
        one["type"] == "Ready" and one["status"] == status for one in obj.get("status", {}).get("conditions", ())
    )


def tainted(*keys):
    return lambda obj: (
        {one["key"] for one in obj["spec"].get("taints", ())} == {f"node.kubernetes.io/{k}" for k in keys}
    )


async def run(api, manifest, *tolerations):
    manifest["spec"]["tolerations"] = list(tolerations)
    await api.create(PODS, manifest)
    return await api.until(f"{PODS}/{manifest['metadata']['name']}", phase("Running"))


async def test_a_silent_node_is_unknown_and_unreachable_and_its_pods_are_not_ready(api, pod):
    await run(api, pod(node="node-0000"), STAY)

    await api.call("PATCH", f"{NODES}/node-0000", OFF)

    node = await api.until(f"{NODES}/node-0000", lambda obj: ready("Unknown")(obj) and tainted("unreachable")(obj))
    assert [one["effect"] for one in node["spec"]["taints"]] == ["NoSchedule", "NoExecute"]
    condition = next(one for one in node["status"]["conditions"] if one["type"] == "Ready")
    assert condition["reason"] == "NodeStatusUnknown"
    await api.until(f"{PODS}/p", ready("False"))


async def test_a_node_that_is_back_is_ready_and_untainted(api):
    await api.call("PATCH", f"{NODES}/node-0000", OFF)
    await api.until(f"{NODES}/node-0000", tainted("unreachable"))

    await api.call("PATCH", f"{NODES}/node-0000", ON)

    await api.until(f"{NODES}/node-0000", lambda obj: ready("True")(obj) and tainted()(obj))


async def test_pods_that_do_not_tolerate_it_are_evicted_and_go_when_their_node_is_back(api, pod):
    await run(api, pod("goes", node="node-0000"), {**STAY, "tolerationSeconds": 0})
    await run(api, pod("stays", node="node-0000"), STAY)

    await api.call("PATCH", f"{NODES}/node-0000", OFF)
    evicted = await api.until(f"{PODS}/goes", lambda obj: "deletionTimestamp" in obj["metadata"])

    reasons = {one["type"]: one.get("reason") for one in evicted["status"]["conditions"]}
    assert reasons["DisruptionTarget"] == "DeletionByTaintManager"
    assert "deletionTimestamp" not in (await api.get(f"{PODS}/stays"))["metadata"]
    await api.call("PATCH", f"{NODES}/node-0000", ON)
    await api.gone(f"{PODS}/goes")


async def test_what_ran_on_a_node_that_lost_power_is_dead_when_it_is_back(api, pod):
    await run(api, pod("once", node="node-0000"), STAY)
    always = pod("always", node="node-0000")
    always["spec"]["restartPolicy"] = "Always"
    always["metadata"]["annotations"] = {}
    await run(api, always, STAY)
    await api.call("PATCH", f"{NODES}/node-0000", OFF)
    await api.until(f"{PODS}/once", ready("False"))

    await api.call("PATCH", f"{NODES}/node-0000", ON)

    once = await api.until(f"{PODS}/once", phase("Failed"))
    assert once["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 255
    again = await api.until(f"{PODS}/always", ready("True"))
    assert again["status"]["containerStatuses"][0]["restartCount"] == 1


async def test_nothing_starts_on_a_node_that_is_off_until_it_is_on(api, pod):
    await api.call("PATCH", f"{NODES}/node-0000", OFF)
    waits = pod("waits", node="node-0000")
    waits["spec"]["tolerations"] = [STAY]
    await api.create(PODS, waits)
    await run(api, pod("runs", node="node-0001"))
    assert (await api.get(f"{PODS}/waits"))["status"]["phase"] == "Pending"

    await api.call("PATCH", f"{NODES}/node-0000", ON)

    await api.until(f"{PODS}/waits", phase("Running"))


async def test_a_taint_that_somebody_sets_evicts_too(api, pod):
    await run(api, pod(node="node-0000"))

    taint = {"key": "maintenance", "effect": "NoExecute"}
    await api.call("PATCH", f"{NODES}/node-0000", {"spec": {"taints": [taint]}})

    await api.gone(f"{PODS}/p")


async def test_a_cordoned_node_is_tainted(api):
    await api.call("PATCH", f"{NODES}/node-0000", {"spec": {"unschedulable": True}})

    await api.until(f"{NODES}/node-0000", tainted("unschedulable"))


async def test_pods_of_a_removed_node_are_removed(api, pod):
    await run(api, pod(node="node-0000"))

    await api.call("DELETE", f"{NODES}/node-0000")

    await api.gone(f"{PODS}/p")


async def scheduled(*deeds, pods=None, count=2):
    shape = Shape(name="n", count=count, resources={"cpu": "4", "memory": "8Gi"})
    shapes = Shapes(nodes=[shape], schedule=list(deeds), pods=pods or PodDefaults())
    return EmbeddedCluster(fleet=shapes, seed=1, timing=Timing(node_grace=0))


@pytest.fixture
def session():
    import aiohttp

    def open_session(cluster):
        return aiohttp.ClientSession(headers={"Authorization": f"Bearer {cluster.token}"})

    return open_session


async def test_a_schedule_kills_and_revives(session):
    deeds = (Deed(at=0, do="kill", nodes="n-0000"), Deed(at=0.2, do="revive"))
    async with await scheduled(*deeds) as cluster, session(cluster) as opened:
        api = Client(opened, cluster.url)
        seen = await api.events(
            NODES,
            until=lambda kind, obj: (
                kind == "MODIFIED" and ready("True")(obj) and not obj["metadata"].get("annotations")
            ),
            fieldSelector="metadata.name=n-0000",
            resourceVersion="1",
        )
        assert any(ready("Unknown")(obj) for _, obj in seen)
        assert ready("True")(await api.get(f"{NODES}/n-0001"))


async def test_a_drain_respects_budgets_and_goes_on_when_they_allow(session, pod):
    async with await scheduled(Deed(at=0.3, do="drain", nodes="n-0000")) as cluster, session(cluster) as opened:
        api = Client(opened, cluster.url)
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}
        budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
        await api.create(budgets, {"metadata": {"name": "b"}, "spec": spec})
        for name in "ab":
            await run(api, pod(name, node="n-0000", labels={"app": "x"}))
        await api.until(f"{NODES}/n-0000", tainted("unschedulable"))
        await api.until(f"{budgets}/b", lambda obj: obj["status"]["expectedPods"] == 1)
        assert len((await api.get(PODS))["items"]) == 1

        await run(api, pod("c", node="n-0001", labels={"app": "x"}))

        await api.until(f"{budgets}/b", lambda obj: obj["status"]["expectedPods"] == 1)
        assert [one["metadata"]["name"] for one in (await api.get(PODS))["items"]] == ["c"]


async def test_pods_start_after_their_delay_and_are_restarted_as_their_policy_says(session, pod):
    defaults = PodDefaults(startup_seconds="0.1", run_seconds="0.01", fail_probability=1.0, restart_seconds="0")
    async with await scheduled(pods=defaults) as cluster, session(cluster) as opened:
        api = Client(opened, cluster.url)
        made = pod(node="n-0000")
        made["spec"]["restartPolicy"] = "OnFailure"
        await api.create(PODS, made)

        seen = await api.events(
            PODS, until=lambda _, obj: obj["status"].get("containerStatuses", [{}])[0].get("restartCount") == 2
        )

        waiting = [obj["status"].get("containerStatuses", [{}])[0].get("state", {}).get("waiting") for _, obj in seen]
        assert {"reason": "ContainerCreating"} in waiting


async def test_a_pod_that_hangs_takes_all_of_its_grace(session, pod):
    defaults = PodDefaults(hang_probability=1.0, run_seconds="0")
    async with await scheduled(pods=defaults) as cluster, session(cluster) as opened:
        api = Client(opened, cluster.url)
        await run(api, pod(node="n-0000"))
        await api.call("DELETE", f"{PODS}/p", {"kind": "DeleteOptions", "gracePeriodSeconds": 1})

        seen = await api.events(PODS, until=lambda kind, _: kind == "DELETED")

        assert seen[-1][1]["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 137


def test_controllers_are_chosen_by_name():
    assert chosen() == ALL
    assert chosen(["job", "namespace"], ["namespace"]) == ("job",)
    with pytest.raises(ValueError, match="there is no controller 'jobs'; did you mean 'job'"):
        chosen(["jobs"])


async def test_a_controller_that_is_left_out_does_nothing(session):
    names = chosen(without=["node-lifecycle"])
    async with EmbeddedCluster(nodes=1, controllers=names) as cluster, session(cluster) as opened:
        api = Client(opened, cluster.url)
        await api.call("PATCH", f"{NODES}/node-0000", {"spec": {"unschedulable": True}})
        await api.create("/api/v1/namespaces", {"metadata": {"name": "ns"}})
        await api.call("DELETE", "/api/v1/namespaces/ns")
        await api.gone("/api/v1/namespaces/ns")

        assert tainted()(await api.get(f"{NODES}/node-0000"))


async def test_a_pod_whose_node_comes_back_under_its_name_goes_on(session, pod):
    """Its end was forgotten with the node: it was Running for ever."""
    async with EmbeddedCluster(nodes=1, controllers=False) as cluster, session(cluster) as opened:
        api = Client(opened, cluster.url)
        manifest = pod(node="node-0000", seconds=0.5)
        manifest["spec"]["restartPolicy"] = "OnFailure"
        await run(api, manifest)
        node = await api.get(f"{NODES}/node-0000")

        await api.call("DELETE", f"{NODES}/node-0000")
        await api.create(NODES, {**node, "metadata": {"name": "node-0000", "labels": node["metadata"]["labels"]}})

        await api.until(f"{PODS}/p", phase("Succeeded"))
