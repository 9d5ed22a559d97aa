"""What is filled into new pods, and into what makes pods: their scheduler, and that they are to wait suspended.

The scheduler of pods that are in a queue is filled in where their namespace has opted in.

Whether a pod is in a queue is told by itself, by its owners as the engine knows them (`api/frameworks`), or by the
default LocalQueue of its namespace. A controller makes pods within milliseconds of the object that they come from, so
that one may not have been seen yet: it is waited for, for a moment. One that does not come is no reason to have its
pods run past their quota: they are ours then, and the engine holds them until it knows (`OwnerNotSeen`).
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final, Protocol

import msgspec
from msgspec import structs

from tutti.api.configuration import TuttiConfiguration
from tutti.api.core import OwnerReference, Pod
from tutti.api.frameworks import (
    FrameworkKind,
    MissingOwner,
    OwnerChain,
    ProjectedOwner,
    inherited_terms,
    marked,
    owner_chain,
    projected,
    projected_pod,
)
from tutti.api.frameworks.marks import OWNER_QUEUE_LABELS
from tutti.api.frameworks.records import PodMarks
from tutti.api.frameworks.starting import as_suspended
from tutti.api.frameworks.table import ignored_keys
from tutti.api.pod_scheduler import may_be_named, opted_in
from tutti.engine.ingest import IngestState
from tutti.engine.ingest.managed_owners import is_to_wait
from tutti.engine.reading.catalog import Catalog

OWNER_PATIENCE_SECONDS: Final = 2.0
"""How long an owner that has not been seen is waited for; the API server waits for longer."""


_REMEMBERED: Final = 4096
"""How many of the owners seen last are kept for those who ask before the engine was told; it holds the same records."""


class OwnerArrivals:
    """Tells who waits for an owner that it was seen.

    What was seen is told to the engine between its turns. Whoever asks before that finds it here.
    """

    def __init__(self) -> None:
        self._awaited: dict[str, asyncio.Future[ProjectedOwner]] = {}
        self._waiting: Counter[str] = Counter()
        self._last: OrderedDict[str, ProjectedOwner] = OrderedDict()

    def seen(self, found: ProjectedOwner) -> None:
        """Hand an owner that was seen to those who wait for it, and to those who will before the engine knows it."""
        self._last[found.uid] = found
        self._last.move_to_end(found.uid)
        if len(self._last) > _REMEMBERED:
            self._last.popitem(last=False)
        awaited = self._awaited.pop(found.uid, None)
        if awaited is not None and not awaited.done():
            awaited.set_result(found)

    async def wait(self, uid: str) -> ProjectedOwner:
        """Return an owner once it is seen."""
        if (seen := self._last.get(uid)) is not None:
            return seen
        awaited = self._awaited.get(uid)
        if awaited is None:
            awaited = self._awaited[uid] = asyncio.get_running_loop().create_future()
        self._waiting[uid] += 1
        try:
            return await asyncio.shield(awaited)
        finally:
            self._waiting[uid] -= 1
            if not self._waiting[uid]:  # others go on waiting though this one has no more time
                del self._waiting[uid]
                self._awaited.pop(uid, None)


class Knowledge(Protocol):
    """Who knows namespaces, queues, and what owns pods.

    Attributes:
        arrivals: Told of each owner that is seen.
    """

    arrivals: OwnerArrivals

    def catalog(self) -> Catalog:
        """Return queues and namespaces as they were known last."""

    def known(self) -> IngestState | None:
        """Return what the engine knows; None while one lists."""


class PodDefaults:
    """Fills in the scheduler of pods; to be asked in the loop in which owners are observed.

    Args:
        configuration: What an administrator has set.
        knowledge: Who knows what it goes by.
        clock: The time of day, Unix seconds.
    """

    def __init__(
        self,
        configuration: TuttiConfiguration,
        knowledge: Knowledge,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._configuration = configuration
        self._knowledge = knowledge
        self._clock = clock
        self._ignored = frozenset(ignored_keys(configuration.conventions))

    async def scheduler_of(self, raw: Mapping[str, Any], namespace: str) -> str:
        """Return the scheduler to fill into a new pod; "" where it is left as it is."""
        catalog = self._knowledge.catalog()
        chosen = opted_in(namespace, catalog.namespace_labels(namespace), self._configuration.scheduler_names)
        if not chosen:
            return ""
        try:
            pod = msgspec.convert(raw, Pod, strict=False)
        except msgspec.ValidationError:
            return ""  # what cannot be read is the API server's to refuse
        if not may_be_named(pod):
            return ""
        if any(pod.metadata.labels.get(key) for key in OWNER_QUEUE_LABELS if key not in self._ignored):
            return chosen
        if catalog.default_queue(namespace, self._configuration.default_local_queue, self._clock()):
            return chosen
        return chosen if await self._is_queued_by_owners(pod, namespace) else ""

    async def suspends(self, raw: Mapping[str, Any], kind: FrameworkKind, namespace: str) -> bool:
        """Return whether a new object that makes pods is to be suspended, because its queue keeps so what waits in it.

        Args:
            raw: The object.
            kind: The description of its kind.
            namespace: Where it is made.
        """
        state = self._knowledge.known()
        if state is None:
            return False  # its pods wait then
        if projected(raw, kind, self._ignored).suspended:
            return False
        found = projected(as_suspended(raw, kind), kind, self._ignored)
        if found.start is None:
            return False
        now = datetime.fromtimestamp(self._clock(), UTC).isoformat()
        start = structs.replace(found.start, created=now, started=False)
        return is_to_wait(state, structs.replace(found, namespace=namespace, start=start))

    async def _is_queued_by_owners(self, pod: Pod, namespace: str) -> bool:
        """Whether an owner names a queue, or may: one that has not come in time, or that nobody can look up now."""
        state = self._knowledge.known()
        if state is None:
            return bool(pod.metadata.owner_references)
        marks = marked(pod.metadata, pod.spec.scheduler_name, state.kinds.pod_keys, says_group=False)
        chain = await self._chain(structs.replace(marks, namespace=namespace), state)
        return bool(chain.awaited or inherited_terms(chain, self._ignored).queue)

    async def _chain(self, marks: PodMarks, state: IngestState) -> OwnerChain:
        """Return the owners of a pod, after a moment's wait for one that is to come."""
        arrived: dict[str, ProjectedOwner] = {}
        missing = ""

        def look_up(ref: OwnerReference, namespace: str) -> ProjectedOwner | MissingOwner:
            nonlocal missing
            leader = state.members.get((namespace, ref.name)) if ref.kind == "Pod" else None
            if leader is not None and leader.pod.uid == ref.uid:
                return projected_pod(leader.marks)
            found = state.owner_graph.look_up(ref, namespace)
            if found is MissingOwner.AWAITED:
                missing = ref.uid
                return arrived.get(ref.uid, found)
            return found

        chain = owner_chain(marks, look_up)
        with suppress(TimeoutError):
            async with asyncio.timeout(OWNER_PATIENCE_SECONDS):
                while chain.awaited:
                    arrived[missing] = await self._knowledge.arrivals.wait(missing)
                    chain = owner_chain(marks, look_up)
        return chain
