"""Objects of other projects are followed from when their kind is served until it no longer is, over real HTTP."""

from __future__ import annotations

import asyncio
import json

import pytest
from structlog.testing import capture_logs

from tests.controller.objects import obj
from tests.controller.process import PATIENCE, until
from tutti.api.configuration import Conventions, TuttiConfiguration
from tutti.controller.discovery import CRDS
from tutti.controller.health import Check
from tutti.controller.informers import PATIENCE_SECONDS, OptionalInformers
from tutti.engine.records.observations import (
    AnyObservation,
    GangObjectGone,
    GangObjectSeen,
    OwnerGone,
    OwnerKindFollowed,
    OwnerSeen,
)
from tutti.kube.resources import APIResource

GROUP = "scheduling.x-k8s.io"
POD_GROUPS = APIResource(GROUP, "v1alpha1", "podgroups")
NAME = f"podgroups.{GROUP}"
SCHEMA = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
DEFINITION = {
    "kind": "CustomResourceDefinition",
    "metadata": {"name": NAME, "annotations": {"api-approved.kubernetes.io": "https://example.com"}},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"plural": "podgroups", "singular": "podgroup", "kind": "PodGroup", "listKind": "PodGroupList"},
        "versions": [{"name": "v1alpha1", "served": True, "storage": True, "schema": SCHEMA}],
    },
}


@pytest.fixture
async def following(bare_cluster):
    """Starts feeds, and stops them in the end."""
    started: list[asyncio.Task[None]] = []

    async def follow(
        patience: float = PATIENCE_SECONDS,
        checks: list[Check] | None = None,
        *,
        owners: bool = False,
        **conventions: bool,
    ) -> list[AnyObservation]:
        observed: list[AnyObservation] = []

        def observe(one: AnyObservation) -> None:
            if owners is isinstance(one, OwnerSeen | OwnerGone | OwnerKindFollowed):
                observed.append(one)

        feeds = OptionalInformers(
            bare_cluster.client,
            TuttiConfiguration(conventions=Conventions(**conventions)),
            observe=observe,
            forget=lambda *_: None,
            patience_seconds=patience,
        )
        started.append(asyncio.create_task(feeds.run()))
        if checks is not None:
            checks.append(feeds.check())
        await feeds.synced.wait()
        if checks is not None:
            checks.append(feeds.check())
        return observed

    yield follow
    for task in started:
        task.cancel()
    await asyncio.wait(started)


def group(name: str):
    return obj("PodGroup", name, {"minMember": 2}, namespace="default")


async def _serve(cluster):
    await cluster.create(CRDS, DEFINITION)

    async def served():
        found = await cluster.get(CRDS, NAME)
        return any(c["type"] == "Established" for c in found.get("status", {}).get("conditions", []))

    await until(served)


def names(observed, kind):
    return [
        one.raw["metadata"]["name"] if kind is GangObjectSeen else one.name for one in observed if type(one) is kind
    ]


async def test_what_is_there_at_the_start_is_listed_before_anything_is_decided(bare_cluster, following):
    await _serve(bare_cluster)
    await bare_cluster.create(POD_GROUPS, group("a"))
    observed = await following()
    (seen,) = observed
    assert (seen.api_version, seen.kind, seen.raw["spec"]) == (f"{GROUP}/v1alpha1", "PodGroup", {"minMember": 2})


async def test_what_is_there_at_the_start_is_followed_no_longer_than_it_is_served(bare_cluster, following):
    await _serve(bare_cluster)
    with capture_logs() as logs:
        await following()
        await bare_cluster.delete(CRDS, NAME)
        await until(lambda: there([one for one in logs if one["event"] == "kind_no_longer_served"]))


async def test_a_kind_that_comes_to_be_served_is_followed_until_it_is_gone(bare_cluster, following):
    observed = await following()
    assert observed == []
    await _serve(bare_cluster)
    await bare_cluster.create(POD_GROUPS, group("a"))
    await bare_cluster.create(POD_GROUPS, group("b"))
    await until(lambda: there(len(names(observed, GangObjectSeen)) == 2))
    await bare_cluster.delete(POD_GROUPS, "a", "default")
    await until(lambda: there(names(observed, GangObjectGone) == ["a"]))
    await bare_cluster.delete(CRDS, NAME)
    await until(lambda: there(names(observed, GangObjectGone)[-1] == "b"))
    await _serve(bare_cluster)
    await bare_cluster.create(POD_GROUPS, group("c"))
    await until(lambda: there(names(observed, GangObjectSeen)[-1] == "c"))


async def test_a_kind_that_goes_before_it_could_be_listed_is_not_waited_for(bare_cluster, following):
    rule = {"name": "away", "match": {"groups": [GROUP], "verbs": ["list", "watch"]}, "error": {"code": 503}}
    await bare_cluster.client.request("PUT", "/_tutti/faults", body=json.dumps({"rules": [rule]}).encode())
    await _serve(bare_cluster)
    start = asyncio.create_task(following())

    async def asked():
        counts = json.loads(await bare_cluster.client.request("GET", "/_tutti/faults/counts"))
        return counts["away"]["struck"]

    await until(asked)
    assert not start.done()
    await bare_cluster.delete(CRDS, NAME)
    async with asyncio.timeout(PATIENCE):
        assert await start == []


async def spoil(cluster, **match):
    """Have requests for the gang's kind fail; without any, mend it."""
    rules = [{"name": "away", "match": {"groups": [GROUP], **match}, "error": {"code": 403}}] if match else []
    await cluster.client.request("PUT", "/_tutti/faults", body=json.dumps({"rules": rules}).encode())


async def test_a_kind_that_may_not_be_listed_holds_up_the_start_for_a_while_only(bare_cluster, following):
    """It used to be waited for for ever. What is there is told as soon as it may be listed."""
    await spoil(bare_cluster, verbs=["list", "watch"])
    await _serve(bare_cluster)
    await bare_cluster.create(POD_GROUPS, group("a"))
    checks: list[Check] = []
    with capture_logs() as logs:
        observed = await following(patience=0.2, checks=checks)
        (warning,) = [one for one in logs if one["event"] == "kind_not_listed"]
    assert (warning["resource"], warning["log_level"]) == (NAME, "warning")
    assert "403" in warning["problem"]
    assert [check.ok for check in checks] == [False, True]
    assert checks[1].detail.startswith(f"gangs of some kinds wait: {NAME}: 403")
    assert observed == []
    await spoil(bare_cluster)
    await until(lambda: there(names(observed, GangObjectSeen) == ["a"]))


async def test_a_convention_that_is_off_is_not_followed(bare_cluster, following):
    await _serve(bare_cluster)
    await bare_cluster.create(POD_GROUPS, group("a"))
    assert await following(scheduler_plugins=False) == []


JOBS = APIResource("batch", "v1", "jobs")
QUEUE = {"kueue.x-k8s.io/queue-name": "team", "app": "train"}


def job(name: str):
    containers = [{"name": "c", "image": "i"}]
    spec = {"template": {"spec": {"restartPolicy": "Never", "containers": containers}}}
    made = obj("Job", name, spec, namespace="default")
    made["metadata"]["labels"] = QUEUE
    return {**made, "apiVersion": "batch/v1"}


async def test_owners_are_told_by_what_names_their_queue_until_they_are_gone(bare_cluster, following):
    await bare_cluster.create(JOBS, job("train"))
    observed = await following(owners=True)
    (seen,) = [one.found for one in observed if isinstance(one, OwnerSeen)]
    followed = OwnerKindFollowed("batch", "Job", followed=True)
    assert observed.index(followed) < observed.index(OwnerSeen(seen))
    assert (seen.group, seen.kind, seen.namespace, seen.name) == ("batch", "Job", "default", "train")
    assert seen.labels == {"kueue.x-k8s.io/queue-name": "team"}
    await bare_cluster.delete(JOBS, "train", "default")
    await until(lambda: there(OwnerGone(seen.uid) in observed))


async def test_owners_that_may_not_be_read_hold_up_nothing_until_they_may(bare_cluster, following):
    refused = {"name": "rbac", "match": {"groups": ["batch"], "verbs": ["list", "watch"]}, "error": {"code": 403}}
    await bare_cluster.client.request("PUT", "/_tutti/faults", body=json.dumps({"rules": [refused]}).encode())
    await bare_cluster.create(JOBS, job("train"))
    checks: list[Check] = []
    observed = await following(owners=True, checks=checks)
    told = [one.followed for one in observed if isinstance(one, OwnerKindFollowed) and one.kind == "Job"]
    assert told == [True, False]
    assert checks[1].ok
    assert "queues that owners name are not known: " in checks[1].detail
    assert "jobs.batch: 403" in checks[1].detail
    await bare_cluster.client.request("PUT", "/_tutti/faults", body=json.dumps({"rules": []}).encode())
    await until(lambda: there(any(isinstance(one, OwnerSeen) for one in observed)))
    await until(lambda: there(OwnerKindFollowed("batch", "Job", followed=True) in observed[-3:]))


async def there(so):
    return so
