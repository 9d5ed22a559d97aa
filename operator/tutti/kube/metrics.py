"""What the wire counts, for /metrics."""

from __future__ import annotations

from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge

from tutti.kube.counter import PlainCounter
from tutti.kube.flow_control import PriorityLevel, PriorityLevels
from tutti.kube.histogram import PlainHistogram

_WRITE_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)


class WireMetrics:
    """The room's metrics, in the registry of whoever makes it (its own, unseen, where none is given)."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        into = registry or CollectorRegistry()
        self.requests = PlainCounter(
            "tutti_kube_requests", "Requests to the API server by method and answer", ["method", "code"], registry=into
        )
        self.watched = Counter(
            "tutti_informer_events", "Objects received by list or watch", ["resource", "type"], registry=into
        )
        self.relists = Counter("tutti_informer_relists", "Full lists begun", ["resource"], registry=into)
        self.watch_errors = Counter(
            "tutti_informer_errors", "Lists and watches that ended with an error", ["resource"], registry=into
        )
        self.decode_errors = Counter(
            "tutti_informer_decode_errors", "Objects that could not be read", ["resource"], registry=into
        )
        self.objects = Gauge("tutti_informer_objects", "Objects known now", ["resource"], registry=into)
        self.synced = Gauge("tutti_informer_synced", "1 once the first list is complete", ["resource"], registry=into)
        self.last_event = Gauge(
            "tutti_informer_last_event_timestamp_seconds",
            "When the stream last said anything, bookmarks included",
            ["resource"],
            registry=into,
        )
        self.writes = PlainCounter(
            "tutti_kube_writes", "Writes by writer and outcome", ["writer", "outcome"], registry=into
        )
        self.bind_seconds = PlainHistogram(
            "tutti_kube_write_seconds", "Duration of a write with its wait and its retries",
            registry=into, buckets=_WRITE_BUCKETS, labels=[("writer", "bind")],
        )  # fmt: skip
        self.events_dropped = Counter(
            "tutti_kube_events_dropped", "Events never written, by reason", ["reason"], registry=into
        )
        self.write_limit = Gauge("tutti_kube_write_limit", "Writes that may be under way at once", registry=into)
        self.writes_waiting = Gauge(
            "tutti_kube_writes_waiting", "Writes that wait for their turn", ["lane"], registry=into
        )
        self.leader = Gauge("tutti_leader", "1 while this process holds the lease", registry=into)

    def follow(self, levels: PriorityLevels) -> None:
        """Show the state of these priority levels whenever somebody asks."""
        self.write_limit.set_function(lambda: levels.limit)
        for level in PriorityLevel:
            self.writes_waiting.labels(level.name.lower()).set_function(partial(levels.waiting, level))
