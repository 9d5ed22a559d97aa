"""The operator as a process, over real HTTP, on the embedded cluster."""

from __future__ import annotations

import json
import signal
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from tests.controller.objects import cluster_queue, gang, local_queue, obj, pod
from tests.controller.process import CRDS, operator, until
from tutti.controller.discovery import OUR_RESOURCES
from tutti.controller.kopf_handlers import FINALIZER
from tutti.engine.records.pod_admission import ADMISSION_ANNOTATION, ADMITTED_CONDITION
from tutti.kube.fencing import GENERATION_ANNOTATION
from tutti.kube.resources import EVENTS, LEASES, PODS

QUEUES, FLAVORS, GROUPS = OUR_RESOURCES["ClusterQueue"], OUR_RESOURCES["ResourceFlavor"], OUR_RESOURCES["PodGroup"]
DOORS, COHORTS = OUR_RESOURCES["LocalQueue"], OUR_RESOURCES["Cohort"]

LABEL = "scheduling.tutti.dev/queue-name"


@pytest.fixture
async def running(cluster, kubeconfig, tmp_path):
    async with operator(kubeconfig, tmp_path, "--journal", str(tmp_path / "journal")) as found:
        await found.says("deciding")
        yield found


async def open_queue(cluster, **spec):
    await cluster.create(FLAVORS, obj("ResourceFlavor", "f"))
    await cluster.create(QUEUES, cluster_queue(**spec))
    await cluster.create(DOORS, local_queue())


async def start_gang(cluster, name, size, **options):
    group, *members = gang(name, size, **options)
    await cluster.create(GROUPS, group)
    for member in members:
        await cluster.create(PODS, member)


async def bound(cluster, prefix):
    return [
        p for p in await cluster.list(PODS) if p["metadata"]["name"].startswith(prefix) and p["spec"].get("nodeName")
    ]


async def test_without_the_crds_it_waits_and_says_which_are_missing(bare_cluster, kubeconfig, tmp_path):
    async with operator(kubeconfig, tmp_path) as running:
        said = await running.says("crds_not_installed")
        assert said["missing"] == sorted(resource.label for resource in OUR_RESOURCES.values())
        status, text = await running.ask("/readyz")
        assert status == 503
        assert (
            "[-]crds: not installed: admissionchecks.scheduling.tutti.dev, clusterqueues.scheduling.tutti.dev" in text
        )
        assert (await running.ask("/healthz"))[0] == 200

        await bare_cluster.install_crds()
        await running.says("deciding")
        assert (await running.ask("/readyz"))[0] == 200
        assert len(await bare_cluster.list(CRDS)) == len(OUR_RESOURCES)
        assert await running.stop() == 0


async def test_a_gang_is_bound_whole_and_everything_says_so(cluster, running):
    await open_queue(cluster)
    await start_gang(cluster, "trio", 3)

    await until(lambda: all_bound(cluster, "trio", 3))
    await until(lambda: says(cluster.condition(GROUPS, "trio", "default", "Scheduled"), status="True"))
    status, metrics = await running.ask("/metrics")
    assert status == 200
    assert 'tutti_binds_total{outcome="Bound"} 3.0' in metrics
    assert "tutti_gang_wait_seconds_count 1.0" in metrics
    assert 'kueue_admitted_active_workloads{cluster_queue="cq"} 1.0' in metrics
    assert 'kueue_admitted_workloads_total{cluster_queue="cq"} 1.0' in metrics
    assert "scheduler_pod_scheduling_sli_duration_seconds_count 3.0" in metrics
    assert "tutti_partial_gangs 0.0" in metrics
    await running.says("workload_scheduled", name="trio", queue="cq", pods=3)
    await until(lambda: told(cluster, "Scheduled", "trio"))


async def test_what_is_written_records_the_lease_and_its_generation(cluster, running):
    await open_queue(cluster)
    await start_gang(cluster, "trio", 3)
    await until(lambda: all_bound(cluster, "trio", 3))
    await until(lambda: says(cluster.condition(GROUPS, "trio", "default", "Scheduled"), status="True"))
    await until(lambda: says(cluster.condition(QUEUES, "cq"), status="True"))

    lease = await cluster.get(LEASES, "tutti", "kube-system")
    generation = lease["spec"]["leaseTransitions"]
    fence = {"lease": lease["metadata"]["uid"], "generation": generation}
    assert (await cluster.get(GROUPS, "trio", "default"))["status"]["fence"] == fence
    assert (await cluster.get(OUR_RESOURCES["ClusterQueue"], "cq"))["status"]["fence"] == fence
    pod = await cluster.get(PODS, "trio-0", "default")
    assert pod["metadata"]["annotations"][GENERATION_ANNOTATION] == str(generation)


async def all_bound(cluster, prefix, size):
    return len(await bound(cluster, prefix)) == size


async def says(condition, telling="", **fields):
    """The condition, once it has these fields and tells of this; what came before, as of a group not seen yet, passes."""
    found = await condition
    return found if fields.items() <= found.items() and telling in found.get("message", "") else None


async def test_a_gang_above_quota_waits_with_its_reason_and_goes_once_there_is_room(cluster, running):
    await open_queue(cluster, cpu="3")
    await start_gang(cluster, "first", 2)
    await until(lambda: all_bound(cluster, "first", 2))
    await start_gang(cluster, "second", 2)

    of_second = partial(cluster.condition, PODS, "second-0", "default", "PodScheduled")
    await until(lambda: says(of_second(), status="False", telling="cq"))
    assert await bound(cluster, "second") == []
    for rank in range(2):
        await cluster.delete(PODS, f"first-{rank}", "default")
    await until(lambda: all_bound(cluster, "second", 2))


async def test_a_gang_of_annotations_gets_a_pod_group_made(cluster, running):
    prefix = "gang-scheduling.preferred.jp/gang"
    for rank in range(2):
        annotations = {f"{prefix}-name": "pair", f"{prefix}-size": "2"}
        await cluster.create(PODS, pod(f"pair-{rank}", annotations=annotations))

    await until(lambda: all_bound(cluster, "pair", 2))

    async def implicit():
        groups = await cluster.list(GROUPS)
        return [one for one in groups if one["metadata"].get("labels", {}).get("scheduling.tutti.dev/implicit")]

    made = await until(implicit)  # the binds are written first
    assert [group["spec"]["schedulingPolicy"] for group in made] == [{"gang": {"minCount": 2}}]


async def test_conditions_say_what_is_missing_and_heal_by_themselves(cluster, running):
    await cluster.create(DOORS, local_queue())
    missing = await until(lambda: says(cluster.condition(DOORS, "lq", "default"), reason="ClusterQueueDoesNotExist"))
    assert missing["status"] == "False"

    await cluster.create(QUEUES, cluster_queue())
    await until(lambda: says(cluster.condition(QUEUES, "cq"), reason="FlavorNotFound"))
    await until(lambda: says(cluster.condition(DOORS, "lq", "default"), reason="ClusterQueueIsInactive"))

    await cluster.create(FLAVORS, obj("ResourceFlavor", "f"))
    await until(lambda: says(cluster.condition(QUEUES, "cq"), status="True", observedGeneration=1))
    await until(lambda: says(cluster.condition(DOORS, "lq", "default"), status="True"))


async def test_a_queue_is_told_while_more_is_used_than_it_is_given(cluster, running):
    await open_queue(cluster)
    await start_gang(cluster, "trio", 3)
    await until(lambda: all_bound(cluster, "trio", 3))
    await until(lambda: says(cluster.condition(QUEUES, "cq"), status="True"))
    queue = await cluster.get(QUEUES, "cq")
    assert [one["type"] for one in queue["status"]["conditions"]] == ["Active"]
    enough, few = queue["spec"]["resourceGroups"], cluster_queue(cpu="2")["spec"]["resourceGroups"]

    await cluster.patch(QUEUES, "cq", spec={"resourceGroups": few})
    told = await until(lambda: says(cluster.condition(QUEUES, "cq", kind="QuotaExceeded"), status="True"))
    assert told["reason"] == "MoreInUse"
    assert "3 of 2 cpu of flavor f" in told["message"]
    assert (await cluster.condition(QUEUES, "cq"))["status"] == "True"
    assert await until(lambda: said_of(cluster, "QuotaExceeded")) == ["cq"]

    await cluster.patch(QUEUES, "cq", spec={"resourceGroups": enough})
    await until(lambda: says(cluster.condition(QUEUES, "cq", kind="QuotaExceeded"), status="False"))
    assert len(await bound(cluster, "trio")) == 3


async def test_quota_of_a_window_holds_from_its_beginning_and_its_condition_says_so(cluster, running):
    """The window begins while everybody sleeps: nothing is observed then."""
    await open_queue(cluster)
    few = cluster_queue(cpu="2")["spec"]["resourceGroups"]
    quotas = [{"name": "f", "resources": [{"name": "cpu", "nominalQuota": 3}]}]

    async def begins(**after):
        begin = (datetime.now(UTC) + timedelta(**after)).strftime("%Y-%m-%dT%H:%M:%SZ")
        window = {"name": "sale", "begin": begin, "flavors": quotas}
        await cluster.patch(QUEUES, "cq", spec={"resourceGroups": few, "temporaryQuotas": [window]})
        return begin

    far = await begins(hours=1)
    told = await until(lambda: says(cluster.condition(QUEUES, "cq", kind="TemporaryQuotas"), status="False"))
    assert (told["reason"], told["message"]) == ("NoWindowOn", f"window sale begins at {far}")
    await start_gang(cluster, "trio", 3)
    of_trio = partial(cluster.condition, PODS, "trio-0", "default", "PodScheduled")
    await until(lambda: says(of_trio(), status="False", telling="cq"))
    assert await bound(cluster, "trio") == []
    await begins(seconds=3)
    await until(lambda: all_bound(cluster, "trio", 3))
    told = await until(lambda: says(cluster.condition(QUEUES, "cq", kind="TemporaryQuotas"), status="True"))
    assert (told["reason"], told["message"]) == ("WindowOn", "window sale is on")
    assert await until(lambda: said_of(cluster, "QuotaChanged")) == ["cq"]

    await cluster.patch(QUEUES, "cq", spec={"temporaryQuotas": None})
    told = await until(lambda: says(cluster.condition(QUEUES, "cq", kind="TemporaryQuotas"), status="False"))
    assert told["reason"] == "NoWindows"


async def test_a_cohort_with_windows_has_the_condition_as_well(cluster, running):
    quotas = [{"name": "f", "resources": [{"name": "cpu", "nominalQuota": 3}]}]
    windows = [{"name": "sale", "begin": "2020-01-01T00:00:00Z", "flavors": quotas}]
    groups = cluster_queue(cpu="2")["spec"]["resourceGroups"]
    spec = {"resourceGroups": groups, "temporaryQuotas": windows}
    await cluster.create(COHORTS, obj("Cohort", "all", spec))
    told = await until(lambda: says(cluster.condition(COHORTS, "all", kind="TemporaryQuotas"), status="True"))
    assert (told["reason"], told["message"]) == ("WindowOn", "window sale is on")
    await cluster.patch(COHORTS, "all", spec={"temporaryQuotas": None})
    told = await until(lambda: says(cluster.condition(COHORTS, "all", kind="TemporaryQuotas"), status="False"))
    assert told["reason"] == "NoWindows"


async def said_of(cluster, reason):
    return [event["regarding"]["name"] for event in await cluster.list(EVENTS) if event["reason"] == reason]


async def test_a_ring_of_cohorts_is_told_to_all_in_it_and_heals_when_it_is_broken(cluster, running):
    await cluster.create(COHORTS, obj("Cohort", "a", {"parentName": "b"}))
    await cluster.create(COHORTS, obj("Cohort", "b", {"parentName": "a"}))
    for name in "ab":
        found = await until(lambda name=name: says(cluster.condition(COHORTS, name), reason="CohortRing"))
        assert "a -> b -> a" in found["message"]

    await cluster.patch(COHORTS, "b", spec={"parentName": None})
    for name in "ab":
        await until(lambda name=name: says(cluster.condition(COHORTS, name), status="True"))


async def test_a_condition_that_holds_is_not_written_again(cluster, kubeconfig, tmp_path, running):
    await open_queue(cluster)
    await until(lambda: says(cluster.condition(DOORS, "lq", "default"), status="True"))
    assert await running.stop() == 0
    before = await cluster.get(DOORS, "lq", "default")

    async with operator(kubeconfig, tmp_path) as again:
        await again.says("deciding")
        # Something that is written after the first review of conditions shows that nothing else was.
        await cluster.create(COHORTS, obj("Cohort", "later"))
        await until(lambda: says(cluster.condition(COHORTS, "later"), status="True"))
        assert again.said("condition_changed", name="lq") == []
    assert await cluster.get(DOORS, "lq", "default") == before


async def test_a_queue_and_its_flavor_stay_until_nothing_uses_them(cluster, running):
    await open_queue(cluster)
    await start_gang(cluster, "pair", 2)
    await until(lambda: all_bound(cluster, "pair", 2))
    await until(lambda: held(cluster, QUEUES, "cq"))
    await until(lambda: held(cluster, FLAVORS, "f"))

    await cluster.delete(FLAVORS, "f")
    await cluster.delete(QUEUES, "cq")
    waits = await until(lambda: says(cluster.condition(QUEUES, "cq"), reason="Terminating"))
    assert "PodGroup/default/pair" in waits["message"]
    waits = await until(lambda: says(cluster.condition(FLAVORS, "f"), reason="Terminating"))
    assert "ClusterQueue/cq" in waits["message"]
    await until(lambda: told(cluster, "StillInUse", "cq"))

    for rank in range(2):
        await cluster.delete(PODS, f"pair-{rank}", "default")
    await until(lambda: gone(cluster, QUEUES, "cq"))
    await until(lambda: gone(cluster, FLAVORS, "f"))


async def held(cluster, resource, name):
    return FINALIZER in (await cluster.get(resource, name))["metadata"].get("finalizers", [])


async def gone(cluster, resource, name):
    return await cluster.get(resource, name) is None


async def told(cluster, reason, name):
    return [e for e in await cluster.list(EVENTS) if e["reason"] == reason and e["regarding"]["name"] == name]


async def test_kopf_leaves_no_annotation_on_what_it_holds(cluster, running):
    await cluster.create(FLAVORS, obj("ResourceFlavor", "f"))
    await until(lambda: held(cluster, FLAVORS, "f"))
    await cluster.patch(FLAVORS, "f", spec={"nodeLabels": {"a": "b"}})
    await until(lambda: says(cluster.condition(FLAVORS, "f"), observedGeneration=2))

    assert (await cluster.get(FLAVORS, "f"))["metadata"].get("annotations", {}) == {}


async def test_asked_to_stop_it_ends_well_and_gives_the_lease_back(cluster, running):
    lease = await cluster.get(LEASES, "tutti", "kube-system")
    assert lease["spec"]["holderIdentity"]

    assert await running.stop() == 0
    assert (await cluster.get(LEASES, "tutti", "kube-system"))["spec"]["holderIdentity"] == ""
    assert running.said("stopped")


async def test_asked_to_stop_in_the_middle_of_a_gang_it_finishes_the_gang(cluster, running):
    await cluster.create(FLAVORS, obj("ResourceFlavor", "f"))
    await cluster.create(QUEUES, cluster_queue(cpu="100"))
    await cluster.create(DOORS, local_queue())
    await start_gang(cluster, "many", 100, cpu="1")
    await until(lambda: bound(cluster, "many"))

    assert await running.stop() == 0
    assert len(await bound(cluster, "many")) == 100


async def test_asked_to_stop_while_the_server_hangs_it_ends_well_once_it_leads_no_more(cluster, running):
    await open_queue(cluster, cpu="100")
    await start_gang(cluster, "many", 100, cpu="1")
    await until(lambda: bound(cluster, "many"))

    running.process.send_signal(signal.SIGTERM)
    running.process.block()  # and the server with it
    assert await running.ends() == 0
    assert running.said("lease_lost_while_stopping")


async def test_asked_to_stop_while_it_waits_for_the_crds_it_ends_well(bare_cluster, kubeconfig, tmp_path):
    async with operator(kubeconfig, tmp_path) as running:
        await running.says("crds_not_installed")
        assert await running.stop() == 0


async def test_losing_the_lease_ends_the_process_with_an_error(cluster, running):
    await cluster.patch(LEASES, "tutti", "kube-system", spec={"holderIdentity": "somebody else"})

    assert await running.ends() == 1
    assert ["lost lease" in line["why"] for line in running.said("leadership_lost")] == [True]
    assert [line for line in running.lines if line.get("level") in ("error", "critical")] == []


async def test_a_leader_that_cannot_renew_rests_and_says_so_and_goes_on_when_it_can(cluster, running):
    await open_queue(cluster)
    away = {"name": "away", "match": {"resources": ["leases"]}, "error": {"code": 503}}
    await cluster.client.request("PUT", "/_tutti/faults", body=json.dumps({"rules": [away]}).encode())
    await running.says("leadership_doubted")
    await start_gang(cluster, "pair", 2)
    status, text = await running.ask("/readyz")
    assert status == 503
    assert text.startswith("[-]leadership: the lease could not be renewed for ")
    assert (await running.ask("/healthz"))[0] == 200
    assert running.said("workload_admitted") == []
    assert await bound(cluster, "pair") == []

    await cluster.client.request("PUT", "/_tutti/faults", body=b'{"rules": []}')
    await running.says("lease_renewed_late")
    await until(lambda: all_bound(cluster, "pair", 2))
    assert (await running.ask("/readyz"))[0] == 200
    assert await running.stop() == 0


async def test_a_second_replica_waits_ready_and_takes_over_what_the_first_has_begun(
    cluster, kubeconfig, tmp_path, running
):
    await open_queue(cluster, cpu="3")
    await start_gang(cluster, "first", 2)
    await until(lambda: all_bound(cluster, "first", 2))
    (tmp_path / "second").mkdir()
    async with operator(kubeconfig, tmp_path / "second") as second:
        await second.says("waiting_for_lease")
        assert (await second.ask("/readyz"))[0] == 200
        assert second.said("deciding") == []

        running.process.kill()
        await second.says("deciding")
        await start_gang(cluster, "second", 2)
        await until(lambda: says(cluster.condition(PODS, "second-0", "default", "PodScheduled"), status="False"))
        assert await bound(cluster, "second") == []
        assert await second.stop() == 0


async def test_what_runs_is_charged_by_the_next_process_whatever_its_tenant_took_off_meanwhile(
    cluster, kubeconfig, tmp_path, running
):
    await open_queue(cluster, cpu="2")
    await start_gang(cluster, "first", 2)
    for rank in range(2):
        await until(lambda rank=rank: cluster.condition(PODS, f"first-{rank}", "default", ADMITTED_CONDITION))
    assert await running.stop() == 0
    for rank in range(2):
        bare = {"labels": {LABEL: None}, "annotations": {ADMISSION_ANNOTATION: None}}
        await cluster.patch(PODS, f"first-{rank}", "default", metadata=bare)
    await cluster.delete(GROUPS, "first", "default")

    (tmp_path / "next").mkdir()
    async with operator(kubeconfig, tmp_path / "next") as following:
        await following.says("deciding")
        await start_gang(cluster, "second", 1)
        of_second = partial(cluster.condition, PODS, "second-0", "default", "PodScheduled")
        await until(lambda: says(of_second(), status="False", telling="cpu"))
        assert await bound(cluster, "second") == []
        assert await following.stop() == 0


async def test_a_leader_that_was_stopped_and_goes_on_after_its_lease_was_taken_ends_and_has_written_nothing(
    cluster, kubeconfig, tmp_path, running
):
    """SIGSTOP, as a machine that is suspended or a cgroup that is frozen has it."""
    await open_queue(cluster)
    (tmp_path / "second").mkdir()
    async with operator(kubeconfig, tmp_path / "second") as second:
        await second.says("waiting_for_lease")
        running.process.send_signal(signal.SIGSTOP)
        await second.says("deciding")
        await start_gang(cluster, "pair", 2)
        await until(lambda: all_bound(cluster, "pair", 2))
        await until(lambda: says(cluster.condition(GROUPS, "pair", "default", "Scheduled"), status="True"))
        await until(lambda: fenced(cluster, QUEUES, "cq", generation=1))
        running.process.send_signal(signal.SIGCONT)
        assert await running.ends() == 1
        assert ["lease" in line["why"] for line in running.said("leadership_lost")] == [True]
        assert [line for line in running.lines if line.get("level") in ("error", "critical")] == []
        transitions = (await cluster.get(LEASES, "tutti", "kube-system"))["spec"]["leaseTransitions"]
        assert transitions == 1
        for kind, name, namespace in (("PodGroup", "pair", "default"), ("ClusterQueue", "cq", "")):
            status = (await cluster.get(OUR_RESOURCES[kind], name, namespace))["status"]
            assert status["fence"]["generation"] == transitions
        assert await second.stop() == 0


async def fenced(cluster, resource, name, *, generation):
    return (await cluster.get(resource, name))["status"].get("fence", {}).get("generation") == generation


async def test_what_it_saw_and_decided_can_be_replayed(cluster, tmp_path, running):
    from tutti.engine.journal import replay

    await open_queue(cluster)
    await start_gang(cluster, "pair", 2)
    await until(lambda: all_bound(cluster, "pair", 2))
    assert await running.stop() == 0

    with (tmp_path / "journal").open("rb") as lines:
        found = replay(lines)
    assert found.decisions > 2
    assert found.differences == []
