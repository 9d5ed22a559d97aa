"""Measures the pods of some namespaces while they are scheduled, and tells it as data items."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final

from tutti_bench.dataitems import DataItem, item, with_label
from tutti_bench.pods import Known, PodBook
from tutti_bench.process import ELSEWHERE, Process
from tutti_bench.throughput import Sampler, summary

INTERVAL_SECONDS: Final = 1.0
"""How often throughput is sampled, as in scheduler_perf."""
THROUGHPUT: Final = "SchedulingThroughput"
DURATION: Final = "SchedulingDuration"
OVERALL: Final = "OverallThroughput"
LATENCY: Final = "BindLatency"
CPU: Final = "SchedulerCPU"
MEMORY: Final = "SchedulerMemory"
DRAIN: Final = "Drain"
"""The label of items of pods that were all there before the scheduler was let go."""
PODS_PER_SECOND: Final = "pods/s"


class Measurement:
    """One measurement, from `start` to `stop`.

    Besides scheduler_perf's samples it tells the throughput over all the time, which short runs have as well; how long
    it took from asking for a pod's creation to seeing it on a node; and, where that is known, what the scheduler has
    used for each pod. How long pods have waited says nothing where the scheduler was held back meanwhile.
    """

    def __init__(
        self,
        book: PodBook,
        name: str,
        namespaces: Sequence[str],
        selector: Mapping[str, str] | None = None,
        *,
        process: Process = ELSEWHERE,
    ) -> None:
        self._book = book
        self._name = name
        self._namespaces = frozenset(namespaces)
        self._selector = selector or {}
        self._sampler = Sampler()
        self._count = 0
        self._last_at = 0.0
        self._clock = asyncio.get_running_loop().time
        self._begun = self._clock()
        self._ticking: asyncio.Task[None] | None = None
        self._process = process
        self._usage = process.usage()

    def start(self) -> None:
        """Begin."""
        self._book.witnesses.append(self)
        self._begun = self._clock()
        self._ticking = asyncio.create_task(self._tick(), name=f"sampling of {self._name}")

    def bound(self, pod: Known) -> None:
        """Count a pod that got a node, if it is one of those that are measured."""
        if pod.namespace not in self._namespaces or not pod.matches(self._selector):
            return
        self._count += 1
        self._last_at = self._clock()

    async def _tick(self) -> None:
        at = self._begun
        while True:
            at += INTERVAL_SECONDS
            await asyncio.sleep(at - self._clock())
            self._sampler.tick(self._count, self._clock())

    async def cancel(self) -> None:
        """End without a result."""
        if self._ticking is None:
            return
        self._book.witnesses.remove(self)
        self._ticking.cancel()
        with suppress(asyncio.CancelledError):
            await self._ticking
        self._ticking = None

    async def stop(self) -> list[DataItem]:
        """End, and return what was found; the last interval, which is not a whole one, is no sample."""
        now = self._clock()
        await self.cancel()
        found = [item(self._name, THROUGHPUT, PODS_PER_SECOND, summary(self._sampler.samples))]
        found.append(item(self._name, DURATION, "s", {"Duration": now - self._begun}))
        if self._count:
            took = self._last_at - self._begun
            found.append(item(self._name, OVERALL, PODS_PER_SECOND, {"Average": self._count / took}))
        latencies = [] if self._process.drains else self._waits()
        if latencies:
            found.append(item(self._name, LATENCY, "ms", summary(latencies)))
        found += self._used()
        return [with_label(one, DRAIN, "true") for one in found] if self._process.drains else found

    def _used(self) -> Iterator[DataItem]:
        """Tell the processor time for each pod, and the memory at the end."""
        before, after = self._usage, self._process.usage()
        if before is None or after is None or not self._count:
            return
        cpu = (after.cpu_seconds - before.cpu_seconds) * 1e3 / self._count
        yield item(self._name, CPU, "ms/pod", {"Average": cpu})
        yield item(self._name, MEMORY, "MB", {"Average": after.memory_bytes / 1e6})

    def _waits(self) -> list[float]:
        """Return how long each measured pod has waited from its creation to its node, in milliseconds."""
        pods = self._book.pods(self._namespaces, self._selector)
        return [
            (pod.bound_at - pod.created_at) * 1e3
            for pod in pods
            if pod.bound_at is not None and pod.created_at is not None and pod.bound_at >= self._begun
        ]
