"""What the operator measures about itself, as Prometheus metrics in a registry of its own.

A registry per process part, not the library's global one: two operators in one test process do not mix.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

# kube-scheduler's own spacing (1.36, pkg/scheduler/metrics): doubling from a millisecond, here from a quarter of one.
_DECIDE_BUCKETS = tuple(0.00025 * 2**i for i in range(16))
_SPREAD_BUCKETS = tuple(0.001 * 2**i for i in range(16))
_WAIT_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 14400, 86400)
_LAG_BUCKETS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)


class Metrics:
    """The metric objects; each is moved by the one part of the shell that knows its value."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.observations = Counter(
            "tutti_observations", "What the engine was told, by kind of observation.",
            ["kind"], registry=self.registry,
        )  # fmt: skip
        self.decisions = Counter(
            "tutti_decisions", "What the engine decided, by kind of decision.",
            ["kind"], registry=self.registry,
        )  # fmt: skip
        self.decide_seconds = Histogram(
            "tutti_decide_duration_seconds", "Time one call of the engine took.",
            registry=self.registry, buckets=_DECIDE_BUCKETS,
        )  # fmt: skip
        self.binds = Counter(
            "tutti_binds", "What became of bind requests, by outcome.",
            ["outcome"], registry=self.registry,
        )  # fmt: skip
        self.evictions = Counter(
            "tutti_evictions", "What became of evictions, by whether they were done.",
            ["done"], registry=self.registry,
        )  # fmt: skip
        self.extender_asks = Counter(
            "tutti_extender_asks", "Calls of HTTP extenders, by what came of them.",
            ["extender", "verb", "outcome"], registry=self.registry,
        )  # fmt: skip
        self.plugin_faults = Counter(
            "tutti_plugin_faults", "Failures of users' plugins, each told once a minute.",
            ["plugin", "point"], registry=self.registry,
        )  # fmt: skip
        self.gang_wait_seconds = Histogram(
            "tutti_gang_wait_seconds", "From the creation of a gang's first pod to the decision to bind it.",
            registry=self.registry, buckets=_WAIT_BUCKETS,
        )  # fmt: skip
        self.bind_spread_seconds = Histogram(
            "tutti_bind_spread_seconds", "From the first to the last finished bind of one gang.",
            registry=self.registry, buckets=_SPREAD_BUCKETS,
        )  # fmt: skip
        self.loop_lag_seconds = Histogram(
            "tutti_event_loop_lag_seconds", "How late the event loop ran a timer.",
            registry=self.registry, buckets=_LAG_BUCKETS,
        )  # fmt: skip
        self.loop_longest_stall_seconds = Gauge(
            "tutti_event_loop_longest_stall_seconds", "Its longest stall in the last minute or two.",
            registry=self.registry,
        )  # fmt: skip
