"""Namespaces, garbage, Jobs and disruption budgets."""

import asyncio

import pytest

PODS = "/api/v1/namespaces/default/pods"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
MAPS = "/api/v1/namespaces/default/configmaps"


def job(name="j", *, seconds=0.01, code=0, **spec):
    annotations = {"sim.tutti.dev/run-seconds": str(seconds), "sim.tutti.dev/exit-code": str(code)}
    pod = {"restartPolicy": "Never", "nodeName": "node-0000", "containers": [{"name": "c", "image": "i:1"}]}
    return {
        "metadata": {"name": name},
        "spec": {"template": {"metadata": {"annotations": annotations}, "spec": pod}, **spec},
    }


def condition(kind):
    def holds(obj):
        return any(
            one["type"] == kind and one["status"] == "True" for one in obj.get("status", {}).get("conditions", ())
        )

    return holds


async def test_a_namespace_takes_its_content_with_it(api, pod):
    await api.create("/api/v1/namespaces", {"metadata": {"name": "ns"}})
    await api.create("/api/v1/namespaces/ns/configmaps", {"metadata": {"name": "m"}})
    await api.create("/api/v1/namespaces/ns/pods", pod(node="node-0000"))

    await api.call("DELETE", "/api/v1/namespaces/ns")
    await api.gone("/api/v1/namespaces/ns")

    assert (await api.get("/api/v1/namespaces/ns/configmaps"))["items"] == []


async def test_a_namespace_waits_for_finalizers_in_it(api):
    await api.create("/api/v1/namespaces", {"metadata": {"name": "ns"}})
    await api.create("/api/v1/namespaces/ns/configmaps", {"metadata": {"name": "m", "finalizers": ["example.com/x"]}})
    await api.call("DELETE", "/api/v1/namespaces/ns")
    held = await api.until("/api/v1/namespaces/ns/configmaps/m", lambda obj: "deletionTimestamp" in obj["metadata"])
    assert held["metadata"]["finalizers"] == ["example.com/x"]
    assert (await api.get("/api/v1/namespaces/ns"))["status"]["phase"] == "Terminating"

    await api.call("PATCH", "/api/v1/namespaces/ns/configmaps/m", {"metadata": {"finalizers": None}})

    await api.gone("/api/v1/namespaces/ns")


async def test_dependants_follow_their_owner(api):
    owner = await api.create(MAPS, {"metadata": {"name": "owner"}})
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    await api.create(MAPS, {"metadata": {"name": "child", "ownerReferences": [reference]}})

    await api.call("DELETE", f"{MAPS}/owner")

    await api.gone(f"{MAPS}/child")


async def test_an_owner_in_the_foreground_waits_for_its_dependants(api):
    owner = await api.create(MAPS, {"metadata": {"name": "owner"}})
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    meta = {"name": "child", "ownerReferences": [{**reference, "blockOwnerDeletion": True}], "finalizers": ["e.com/x"]}
    await api.create(MAPS, {"metadata": meta})

    await api.call("DELETE", f"{MAPS}/owner", propagationPolicy="Foreground")
    await api.until(f"{MAPS}/child", lambda obj: "deletionTimestamp" in obj["metadata"])
    assert (await api.get(f"{MAPS}/owner"))["metadata"]["finalizers"] == ["foregroundDeletion"]
    await api.call("PATCH", f"{MAPS}/child", {"metadata": {"finalizers": None}})

    await api.gone(f"{MAPS}/owner")


async def test_orphans_stay_and_are_owned_no_more(api):
    owner = await api.create(MAPS, {"metadata": {"name": "owner"}})
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    await api.create(MAPS, {"metadata": {"name": "child", "ownerReferences": [reference]}})

    await api.call("DELETE", f"{MAPS}/owner", propagationPolicy="Orphan")
    await api.gone(f"{MAPS}/owner")

    assert "ownerReferences" not in (await api.get(f"{MAPS}/child"))["metadata"]


async def test_a_job_runs_to_its_completions(api):
    await api.create(JOBS, job(parallelism=2, completions=5))

    done = await api.until(f"{JOBS}/j", condition("Complete"))

    assert done["status"]["succeeded"] == 5
    assert done["status"]["completionTime"]


async def test_an_indexed_job_runs_each_index_once(api):
    await api.create(JOBS, job(parallelism=3, completions=4, completionMode="Indexed"))

    done = await api.until(f"{JOBS}/j", condition("Complete"))

    pods = (await api.get(PODS))["items"]
    key = "batch.kubernetes.io/job-completion-index"
    assert done["status"]["completedIndexes"] == "0-3"
    assert sorted(one["metadata"]["annotations"][key] for one in pods) == ["0", "1", "2", "3"]


async def test_a_job_gives_up_after_its_backoff_limit(api):
    await api.create(JOBS, job(code=1, backoffLimit=2))

    failed = await api.until(f"{JOBS}/j", condition("Failed"))

    assert failed["status"]["failed"] == 3
    assert any(one.get("reason") == "BackoffLimitExceeded" for one in failed["status"]["conditions"])


async def test_a_suspended_job_has_no_pods_until_it_is_resumed(api):
    await api.create(JOBS, job(suspend=True))
    await api.until(f"{JOBS}/j", condition("Suspended"))
    assert (await api.get(PODS))["items"] == []

    await api.call("PATCH", f"{JOBS}/j", {"spec": {"suspend": False}})

    await api.until(f"{JOBS}/j", condition("Complete"))


async def test_suspending_a_job_removes_its_pods(api):
    await api.create(JOBS, job(seconds=1000, parallelism=2, completions=2))
    await api.until(f"{JOBS}/j", lambda obj: obj["status"].get("active") == 2)

    await api.call("PATCH", f"{JOBS}/j", {"spec": {"suspend": True}})

    await api.until(f"{JOBS}/j", lambda obj: not obj["status"].get("active") and not obj["status"].get("terminating"))
    assert (await api.get(PODS))["items"] == []


async def test_a_job_takes_its_pods_with_it(api):
    await api.create(JOBS, job(seconds=1000))
    await api.until(f"{JOBS}/j", lambda obj: obj["status"].get("active") == 1)
    name = (await api.get(PODS))["items"][0]["metadata"]["name"]

    await api.call("DELETE", f"{JOBS}/j", propagationPolicy="Background")

    await api.gone(f"{PODS}/{name}")


async def test_a_finished_job_goes_when_its_time_is_over(api):
    await api.create(JOBS, job(ttlSecondsAfterFinished=0))

    await api.gone(f"{JOBS}/j")


async def test_a_budget_is_counted_and_refuses_what_is_too_much(api, pod):
    budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    for name in "ab":
        await api.create(PODS, pod(name, node="node-0000", labels={"app": "x"}))
    await api.create(
        budgets, {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}}
    )
    await api.until(f"{budgets}/b", lambda obj: obj["status"]["disruptionsAllowed"] == 1)

    eviction = {"metadata": {"name": "a"}}
    await api.create(f"{PODS}/a/eviction", eviction)
    await api.gone(f"{PODS}/a")
    await api.until(f"{budgets}/b", lambda obj: obj["status"]["currentHealthy"] == 1)

    refused = await api.call("POST", f"{PODS}/b/eviction", {"metadata": {"name": "b"}}, status=429)
    assert (
        refused["details"]["causes"][0]["message"] == "The disruption budget b needs 1 healthy pods and has 1 currently"
    )


@pytest.mark.parametrize("count", [30])
async def test_many_jobs_at_once_all_finish(api, count):
    for number in range(count):
        await api.create(JOBS, job(f"j{number}"))

    await asyncio.gather(*(api.until(f"{JOBS}/j{number}", condition("Complete")) for number in range(count)))
