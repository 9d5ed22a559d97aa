"""How long gangs wait to be bound, and how far apart their binds finish."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tutti.api.core import Pod
from tutti.controller.metrics import Metrics
from tutti.engine.decisions import Bind


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
        self._metrics = metrics
        self._clock = clock
        self._ticks = ticks
        self._created: dict[tuple[str, str], float] = {}
        self._sent: dict[str, _Sent] = {}

    def seen(self, pod: Pod) -> None:
        """Note since when a pod waits; one that has a node or has ended waits no longer."""
        key = (pod.metadata.namespace, pod.metadata.name)
        if pod.spec.node_name or pod.terminated:
            self._created.pop(key, None)
        else:
            self._created[key] = pod.metadata.created

    def gone(self, namespace: str, name: str) -> None:
        """Forget a pod."""
        self._created.pop((namespace, name), None)

    def decided(self, binds: Sequence[Bind]) -> None:
        """Measure how long each gang among these binds has waited since its first pod was made."""
        gangs: dict[str, list[Bind]] = {}
        for bind in binds:
            gangs.setdefault(bind.workload, []).append(bind)
        now = self._clock()
        for gang, members in gangs.items():
            waited = [self._created[key] for b in members if (key := (b.namespace, b.name)) in self._created]
            if waited:
                self._metrics.gang_wait_seconds.observe(max(0.0, now - min(waited)))
            known = self._sent.setdefault(gang, _Sent(0))
            known.unanswered += len(members)

    def answered(self, bind: Bind) -> None:
        """Measure the spread of a gang's binds, once the last of them is answered."""
        sent = self._sent.get(bind.workload)
        if sent is None:
            return
        sent.unanswered -= 1
        now = self._ticks()
        sent.first = now if sent.first is None else sent.first
        if sent.unanswered == 0:
            self._metrics.bind_spread_seconds.observe(now - sent.first)
            del self._sent[bind.workload]
