"""What is measured of gangs, with clocks that the test moves."""

from __future__ import annotations

from datetime import UTC, datetime

from tutti.api.core import ObjectMeta, Pod, PodSpec, SchedulingGate
from tutti.controller.metrics import Metrics
from tutti.controller.progress import GangTimes
from tutti.engine.records.decisions import Bind


def pod(name, created, node="", *, gated=False):
    at = datetime.fromtimestamp(created, tz=UTC)
    gates = [SchedulingGate("wait")] if gated else []
    return Pod(
        ObjectMeta(name=name, namespace="n", creation_timestamp=at), PodSpec(node_name=node, scheduling_gates=gates)
    )


def bind(name, gang="g"):
    return Bind("n", name, f"uid-{name}", "node", gang)


def value(metrics, name):
    return metrics.registry.get_sample_value(name)


def test_a_gang_waits_from_its_first_pod_to_its_decision():
    metrics = Metrics()
    times = GangTimes(metrics, clock=lambda: 130.0)
    times.seen(pod("a", 100))
    times.seen(pod("b", 120))
    times.decided([bind("a"), bind("b")])

    assert value(metrics, "tutti_gang_wait_seconds_count") == 1
    assert value(metrics, "tutti_gang_wait_seconds_sum") == 30


def test_pods_with_a_node_and_pods_that_are_gone_wait_no_longer():
    metrics = Metrics()
    times = GangTimes(metrics, clock=lambda: 130.0)
    for name in "ab":
        times.seen(pod(name, 100))
    times.seen(pod("a", 100, node="elsewhere"))
    times.gone("n", "b")
    times.decided([bind("a"), bind("b")])

    assert value(metrics, "tutti_gang_wait_seconds_count") == 0


def test_the_spread_is_measured_once_all_binds_of_a_gang_are_answered():
    metrics, ticks = Metrics(), iter([1.0, 1.5, 4.0])
    times = GangTimes(metrics, ticks=lambda: next(ticks))
    times.decided([bind("a"), bind("b"), bind("x", "other")])

    times.answered(bind("a"), bound=True)
    assert value(metrics, "tutti_bind_spread_seconds_count") == 0
    times.answered(bind("b"), bound=True)
    assert value(metrics, "tutti_bind_spread_seconds_sum") == 0.5
    times.answered(bind("x", "other"), bound=False)
    assert value(metrics, "tutti_bind_spread_seconds_count") == 2


def test_the_way_of_a_pod_begins_when_it_is_first_seen_without_gates_and_ends_with_its_bind():
    metrics, now = Metrics(), [200.0]
    times = GangTimes(metrics, clock=lambda: now[0])
    times.seen(pod("gated", 100, gated=True))
    times.seen(pod("free", 100))
    now[0] = 210.0
    times.seen(pod("gated", 100))
    times.seen(pod("free", 100))
    times.decided([bind("gated"), bind("free", "h")])
    times.seen(pod("gated", 100, node="node"))
    now[0] = 214.0
    times.answered(bind("gated"), bound=True)
    times.answered(bind("free", "h"), bound=False)

    assert value(metrics, "scheduler_pod_scheduling_sli_duration_seconds_count") == 1
    assert value(metrics, "scheduler_pod_scheduling_sli_duration_seconds_sum") == 4
