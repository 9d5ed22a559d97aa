"""What is expected of a pod that nobody has measured yet."""

from __future__ import annotations

from typing import Any

import pytest

from tutti.api.core import Container, PodSpec, ResourceRequirements
from tutti.cluster.expected_use import Estimates, FreshColumn, burst_estimate, expected_use, predicted_cpu
from tutti.cluster.requests import pod_limits

MIB = 1 << 20
BY = Estimates()


def container(
    requests: dict[str, Any] | None = None, limits: dict[str, Any] | None = None, policy: str = ""
) -> Container:
    return Container(resources=ResourceRequirements(requests or {}, limits or {}), restart_policy=policy)


def spec(*containers: Container, **more: Any) -> PodSpec:
    return PodSpec(containers=list(containers), **more)


@pytest.mark.parametrize(
    ("limits", "requests", "expected"),
    [
        ({}, {}, 1000),
        ({}, {"cpu": "200m"}, 300),
        ({}, {"cpu": "0"}, 0),
        ({"cpu": "0"}, {"cpu": "2"}, 0),
        ({"memory": "1Gi"}, {}, 1000),
    ],
)
def test_a_container_that_says_nought_is_taken_at_its_word(limits: Any, requests: Any, expected: int):
    assert predicted_cpu(spec(container(requests, limits)), BY) == expected


def test_init_containers_sidecars_and_overhead_are_estimated_with_the_rest():
    said = spec(
        container({"cpu": "1", "memory": "100Mi"}, {"cpu": "2"}),
        init_containers=[
            container({"cpu": "500m"}, {"cpu": "1"}, policy="Always"),
            container({"memory": "600Mi"}, {"cpu": "4"}),
        ],
        overhead={"cpu": "100m", "memory": "10Mi"},
    )

    assert pod_limits(said) == {"cpu": 5100}  # beside the sidecar that has started before it
    found = expected_use(said, BY).fresh
    assert found[FreshColumn.SCALED] == round(5100 * 0.85)
    assert found[FreshColumn.SCALED + 1] == round(610 * MIB * 0.70)
    assert found[FreshColumn.CALM] == round(1600 * 0.70)


def test_only_a_pod_that_asks_for_nothing_at_all_is_best_effort():
    nothing, cards = spec(container()), spec(container({"nvidia.com/gpu": "1"}))

    assert expected_use(nothing, BY).fresh[FreshColumn.CALM] == 250
    assert expected_use(cards, BY).fresh[FreshColumn.CALM] == 0
    assert expected_use(cards, BY).fresh[FreshColumn.SCALED] == 250  # koordinator asks resource by resource


def test_what_has_no_limit_uses_no_more_than_it_asks_for():
    by = Estimates(request_ratio=1.0, burst_ratio=1.0)

    assert burst_estimate(500, 0, by, 1.2) == 500
    assert burst_estimate(500, 400, by, 1.0) == 500
    assert burst_estimate(500, 600, by, 1.2) == 600


def test_risk_never_lowers_an_estimate():
    found = expected_use(spec(container({"cpu": "1"})), Estimates(risk_factor=0.5)).fresh

    assert found[FreshColumn.HOT] == found[FreshColumn.CALM]
