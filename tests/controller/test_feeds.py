"""What the operator's streams tell the engine of, over real HTTP."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.controller.objects import obj
from tests.controller.process import until
from tutti.api.labels import LabelSelector, LabelSelectorRequirement
from tutti.cluster.surroundings import Selecting
from tutti.controller.catalogue import Catalogue
from tutti.controller.feeds import Feeds
from tutti.controller.health import Health
from tutti.engine.observations import AnyObservation, BudgetGone, BudgetSeen, SelectingGone, SelectingSeen
from tutti.kube.resources import POD_DISRUPTION_BUDGETS, REPLICA_SETS, REPLICATION_CONTROLLERS, SERVICES, STATEFUL_SETS

LABELS = {"app": "web"}
TEMPLATE = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "c", "image": "pause"}]}}


@pytest.fixture
async def seen(cluster):
    """Everything that is observed while the feeds run."""
    observed: list[AnyObservation] = []
    feeds = Feeds(
        cluster.client,
        observe=observed.append,
        forget=lambda *_: None,
        catalogue=Catalogue(dict),
        health=Health(),
    )
    running = asyncio.create_task(feeds.run())
    await feeds.synced.wait()
    yield observed
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
    await until(lambda: there(seen, SelectingSeen(Selecting(kind, "default", "web", selector))))
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
