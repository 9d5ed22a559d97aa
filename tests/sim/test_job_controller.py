"""Jobs in a cluster, beyond the plain ones."""

from tutti_sim.hollow.fate import FAIL_PROBABILITY, RUN_SECONDS

JOBS = "/apis/batch/v1/namespaces/default/jobs"
PODS = "/api/v1/namespaces/default/pods"


def job(name="j", *, notes=None, policy="Never", **spec):
    pod = {"restartPolicy": policy, "nodeName": "node-0000", "containers": [{"name": "c", "image": "i:1"}]}
    template = {"metadata": {"annotations": notes or {}}, "spec": pod}
    return {"metadata": {"name": name}, "spec": {"template": template, **spec}}


def condition(kind):
    return lambda obj: any(
        one["type"] == kind and one["status"] == "True" for one in obj.get("status", {}).get("conditions", ())
    )


def active(number):
    return lambda obj: obj.get("status", {}).get("active", 0) == number


async def test_an_evicted_pod_has_failed_and_another_takes_its_place(api):
    await api.create(JOBS, job())
    await api.until(f"{JOBS}/j", active(1))
    first = (await api.get(PODS))["items"][0]["metadata"]["name"]

    await api.create(f"{PODS}/{first}/eviction", {"metadata": {"name": first}})
    await api.gone(f"{PODS}/{first}")

    again = await api.until(f"{JOBS}/j", lambda obj: obj["status"].get("failed") == 1 and active(1)(obj))
    assert "succeeded" not in again["status"]


async def test_a_policy_can_ignore_evictions(api):
    rules = [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]
    await api.create(JOBS, job(backoffLimit=0, podFailurePolicy={"rules": rules}))
    await api.until(f"{JOBS}/j", active(1))
    first = (await api.get(PODS))["items"][0]["metadata"]["name"]

    await api.create(f"{PODS}/{first}/eviction", {"metadata": {"name": first}})
    await api.gone(f"{PODS}/{first}")

    again = await api.until(f"{JOBS}/j", lambda obj: active(1)(obj) and not obj["status"].get("terminating"))
    assert not condition("FailureTarget")(again)
    assert "failed" not in again["status"]


async def test_a_failed_job_says_so_only_when_its_pods_are_gone(api):
    await api.create(JOBS, job(parallelism=3, completions=3, activeDeadlineSeconds=1))

    seen = await api.events(JOBS, until=lambda _, obj: condition("Failed")(obj))

    ended = seen[-1][1]
    assert [one["type"] for one in ended["status"]["conditions"]] == ["FailureTarget", "Failed"]
    assert ended["status"]["conditions"][-1]["reason"] == "DeadlineExceeded"
    assert "active" not in ended["status"]
    assert any(condition("FailureTarget")(obj) and not condition("Failed")(obj) for _, obj in seen)


async def test_less_parallelism_removes_pods_and_more_adds_them(api):
    await api.create(JOBS, job(parallelism=3, completions=9))
    await api.until(f"{JOBS}/j", active(3))

    await api.call("PATCH", f"{JOBS}/j", {"spec": {"parallelism": 1}})
    less = await api.until(f"{JOBS}/j", lambda obj: active(1)(obj) and not obj["status"].get("terminating"))
    assert "failed" not in less["status"]

    await api.call("PATCH", f"{JOBS}/j", {"spec": {"parallelism": 2}})
    await api.until(f"{JOBS}/j", active(2))


async def test_a_resumed_job_starts_anew(api):
    await api.create(JOBS, job(parallelism=2, completions=2, backoffLimit=0))
    await api.until(f"{JOBS}/j", active(2))

    await api.call("PATCH", f"{JOBS}/j", {"spec": {"suspend": True}})
    idle = await api.until(
        f"{JOBS}/j", lambda obj: condition("Suspended")(obj) and active(0)(obj) and not obj["status"].get("terminating")
    )
    assert "startTime" not in idle["status"]
    await api.call("PATCH", f"{JOBS}/j", {"spec": {"suspend": False}})

    resumed = await api.until(f"{JOBS}/j", active(2))
    assert resumed["status"]["startTime"]
    assert "failed" not in resumed["status"]


async def test_an_index_whose_pod_was_removed_stays_done(api):
    notes = {RUN_SECONDS: "0.01"}
    await api.create(JOBS, job(notes=notes, parallelism=1, completions=3, completionMode="Indexed"))
    done = await api.until(f"{JOBS}/j", lambda obj: obj["status"].get("completedIndexes", "").startswith("0"))
    for pod in (await api.get(PODS))["items"]:
        if pod["status"]["phase"] == "Succeeded":
            await api.call("DELETE", f"{PODS}/{pod['metadata']['name']}")
    assert done["status"]["succeeded"] >= 1

    ended = await api.until(f"{JOBS}/j", condition("Complete"))

    assert ended["status"]["completedIndexes"] == "0-2"


async def test_containers_that_fail_are_restarted_until_the_limit(api):
    notes = {RUN_SECONDS: "0.01", FAIL_PROBABILITY: "1"}
    await api.create(JOBS, job(notes=notes, policy="OnFailure", backoffLimit=0))

    failed = await api.until(f"{JOBS}/j", condition("Failed"))

    assert failed["status"]["conditions"][-1]["reason"] == "BackoffLimitExceeded"
