"""What the operator's streams tell the engine of, over real HTTP."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import msgspec
import pytest

from tests.controller.objects import obj
from tests.controller.process import until
from tutti.api.selectors import LabelSelector, LabelSelectorRequirement
from tutti.cluster.label_index import PodSelecting
from tutti.controller.health import Check
from tutti.controller.informers import Informers
from tutti.controller.object_cache import ObjectCache
from tutti.engine.records.observations import AnyObservation, BudgetGone, BudgetSeen, SelectingGone, SelectingSeen
from tutti.kube.fencing import LeadershipLost
from tutti.kube.resources import POD_DISRUPTION_BUDGETS, REPLICA_SETS, REPLICATION_CONTROLLERS, SERVICES, STATEFUL_SETS

LABELS = {"app": "web"}
TEMPLATE = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "c", "image": "pause"}]}}


@pytest.fixture
def seen() -> list[AnyObservation]:
    """Everything that is observed while the feeds run."""
    return []


@pytest.fixture(autouse=True)
async def feeds(cluster, seen):
    feeds = Informers(
        cluster.client,
        observe=seen.append,
        forget=lambda *_: None,
        catalogue=ObjectCache(dict),
    )
    running = asyncio.create_task(feeds.run())
    await feeds.synced.wait()
    yield feeds
    running.cancel()
    await asyncio.wait({running})


def named(kind: str, spec: dict[str, Any], name: str = "web") -> dict[str, Any]:
    return obj(kind, name, spec, namespace="default")


@pytest.mark.parametrize(
    ("resource", "kind", "spec", "selector"),
    [
        (SERVICES, "Service", {"selector": LABELS, "ports": [{"port": 80}]}, LabelSelector(LABELS)),
        (
            REPLICATION_CONTROLLERS,
            "ReplicationController",
            {"replicas": 0, "selector": LABELS, "template": TEMPLATE},
            LabelSelector(LABELS),
        ),
        (
            REPLICA_SETS,
            "ReplicaSet",
            {
                "replicas": 0,
                "selector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]},
                "template": TEMPLATE,
            },
            LabelSelector(match_expressions=[LabelSelectorRequirement("app", "In", ["web"])]),
        ),
        (
            STATEFUL_SETS,
            "StatefulSet",
            {"replicas": 0, "serviceName": "web", "selector": {"matchLabels": LABELS}, "template": TEMPLATE},
            LabelSelector(LABELS),
        ),
    ],
)
async def test_whatever_selects_pods_is_seen_and_seen_to_go(cluster, seen, resource, kind, spec, selector):
    await cluster.create(resource, named(kind, spec))
    await until(lambda: there(seen, SelectingSeen(PodSelecting(kind, "default", "web", selector))))
    await cluster.delete(resource, "web", "default")
    await until(lambda: there(seen, SelectingGone(kind, "default", "web")))


async def test_a_service_without_selector_selects_nothing(cluster, seen):
    await cluster.create(SERVICES, named("Service", {"ports": [{"port": 80}]}, "external"))
    await until(lambda: there(seen, SelectingGone("Service", "default", "external")))
    assert not [one for one in seen if isinstance(one, SelectingSeen) and one.found.name == "external"]


async def test_a_disruption_budget_is_seen_with_what_it_allows_and_seen_to_go(cluster, seen):
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": LABELS}}
    await cluster.create(POD_DISRUPTION_BUDGETS, named("PodDisruptionBudget", spec))

    async def told() -> bool:
        budgets = [one.budget for one in seen if isinstance(one, BudgetSeen)]
        return any(one.spec.selector == LabelSelector(LABELS) for one in budgets)

    await until(told)
    await cluster.delete(POD_DISRUPTION_BUDGETS, "web", "default")
    await until(lambda: there(seen, BudgetGone("default", "web")))


async def there(seen: list[AnyObservation], observation: AnyObservation) -> bool:
    return observation in seen


async def refuse(cluster, resource: str, times: int | None = None) -> None:
    """Have lists of a kind refused, all or so many."""
    match = {"verbs": ["list", "watch"], "resources": [resource]}  # a list that has failed comes as a watch
    rule = {"name": "refused", "match": match, "error": {"code": 403}, **({"times": times} if times else {})}
    await cluster.client.request("PUT", "/_tutti/faults", body=msgspec.json.encode({"rules": [rule]}))


async def test_lists_that_take_longer_than_anybody_has_patience_and_do_not_fail_are_waited_for(feeds):
    await feeds.list_anew(patience_seconds=0.0001)


async def test_lists_that_fail_for_a_while_are_tried_again(cluster, feeds):
    await refuse(cluster, "nodes", times=2)
    await feeds.list_anew(patience_seconds=60.0)


@pytest.mark.parametrize("resource", ["nodes", "pods"])
async def test_lists_that_fail_for_too_long_cost_the_lease(cluster, feeds, resource):
    await refuse(cluster, resource)
    with pytest.raises(ExceptionGroup) as caught:
        await feeds.list_anew(patience_seconds=0.2)
    (lost,) = caught.value.exceptions
    assert isinstance(lost, LeadershipLost)
    assert f"could not be listed: {resource}: 403" in str(lost)


async def test_what_happens_to_a_list_that_has_come_does_not_cost_the_lease_while_another_is_long(cluster, feeds):
    rules = [
        {"name": "cut-off", "match": {"verbs": ["watch"], "resources": ["nodes"]}, "error": {"code": 403}},
        {"name": "long", "match": {"verbs": ["list"], "resources": ["pods"]}, "latency": "0.6"},
    ]
    await cluster.client.request("PUT", "/_tutti/faults", body=msgspec.json.encode({"rules": rules}))
    await feeds.list_anew(patience_seconds=0.2)


async def test_a_stream_that_is_interrupted_for_long_is_not_ready_and_says_for_how_long(cluster, seen, monkeypatch):
    feeds = Informers(cluster.client, observe=seen.append, forget=lambda *_: None, catalogue=ObjectCache(dict))
    task = asyncio.create_task(feeds.run())
    await feeds.synced.wait()
    probe = feeds.probes["informer/nodes"]
    assert probe() == Check(ok=True)
    await refuse(cluster, "nodes")
    listing = asyncio.create_task(feeds.list_anew(patience_seconds=60.0))

    async def interrupted() -> bool:
        return probe().detail != "ok"

    await until(interrupted)
    assert probe().ok
    assert re.match(r"interrupted for \d+ s: 403", probe().detail)
    monkeypatch.setattr("tutti.controller.informers.LONGEST_INTERRUPTION_SECONDS", -1.0)
    assert not probe().ok
    monkeypatch.undo()
    await cluster.client.request("PUT", "/_tutti/faults", body=b'{"rules": []}')
    await listing
    assert probe() == Check(ok=True)
    task.cancel()
    await asyncio.wait({task})
