"""How long pods and gangs wait to be bound, and how far apart the binds of a gang finish."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tutti.api.core import Pod
from tutti.controller.metrics import Metrics
from tutti.engine.records.decisions import Bind

_NEVER: Final = float("inf")


@dataclass(slots=True)
class _Waits:
    """A pod without a node, in Unix seconds.

    Attributes:
        created: When it was made.
        queued: When it was first seen without scheduling gates; None while it has some.
    """

    created: float
    queued: float | None


@dataclass(slots=True)
class _Sent:
    """The binds of one gang that went out together."""

    unanswered: int
    first: float | None = None


class GangTimes:
    """Measures from pods as they are seen and binds as they are decided and answered."""

    def __init__(
        self,
        metrics: Metrics,
        *,
        clock: Callable[[], float] = time.time,
        ticks: Callable[[], float] = time.perf_counter,
    ) -> None:
        # Looked up once: these are moved for every pod that is bound.
        self._observe_wait = metrics.gang_wait_seconds.observe
        self._observe_whole = metrics.pod_scheduling_seconds.observe
        self._observe_spread = metrics.bind_spread_seconds.observe
        self._clock = clock
        self._ticks = ticks
        self._waiting: dict[tuple[str, str], _Waits] = {}
        self._queued: dict[tuple[str, str], float] = {}
        self._sent: dict[str, _Sent] = {}

    def seen(self, pod: Pod) -> None:
        """Note since when a pod waits; one that has a node or has ended waits no longer."""
        key = (pod.metadata.namespace, pod.metadata.name)
        if pod.spec.node_name or pod.terminated:
            self._waiting.pop(key, None)
            return
        known = self._waiting.get(key)
        if known is None or known.created != pod.metadata.created:
            known = self._waiting[key] = _Waits(pod.metadata.created, None)
        if known.queued is None and not pod.spec.scheduling_gates:
            known.queued = self._clock()

    def gone(self, namespace: str, name: str) -> None:
        """Forget a pod."""
        self._waiting.pop((namespace, name), None)

    def decided(self, binds: Sequence[Bind]) -> None:
        """Measure how long each gang among these binds has waited since its first pod was made."""
        first_created: dict[str, float] = {}
        for bind in binds:
            gang, pod = bind.workload, (bind.namespace, bind.name)
            sent = self._sent.get(gang)
            if sent is None:
                sent = self._sent[gang] = _Sent(0)
            sent.unanswered += 1
            waits = self._waiting.get(pod)
            if waits is not None:
                created = waits.created
                self._queued[pod] = created if waits.queued is None else waits.queued
                if created < first_created.get(gang, _NEVER):
                    first_created[gang] = created
        now = self._clock()
        for created in first_created.values():
            self._observe_wait(max(0.0, now - created))

    def answered(self, bind: Bind, *, bound: bool) -> None:
        """Measure the whole way of a pod that is bound, and the spread of its gang's binds once all are answered."""
        queued = self._queued.pop((bind.namespace, bind.name), None)
        if bound and queued is not None:
            self._observe_whole(max(0.0, self._clock() - queued))
        sent = self._sent.get(bind.workload)
        if sent is None:
            return
        sent.unanswered -= 1
        now = self._ticks()
        sent.first = now if sent.first is None else sent.first
        if sent.unanswered == 0:
            self._observe_spread(now - sent.first)
            del self._sent[bind.workload]
