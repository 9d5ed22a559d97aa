"""What is known of the pods of a benchmark, from one watch: which are there, which have been tried, which are bound."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from tutti.kube.changes import Change, Gone, Seen
from tutti.kube.client import Client
from tutti.kube.informer import Informer
from tutti.kube.resources import PODS


class _Meta(msgspec.Struct, frozen=True):
    labels: dict[str, str] = {}


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str = ""


class _Condition(msgspec.Struct, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class _Status(msgspec.Struct, frozen=True):
    conditions: list[_Condition] | None = None


class _Pod(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()
    spec: _Spec = _Spec()
    status: _Status = _Status()

    @property
    def verdict(self) -> str:
        """What a scheduler has said of it; empty before it has been tried."""
        for one in self.status.conditions or ():
            if one.type == "PodScheduled":
                return f"{one.reason or one.status}: {one.message}".rstrip(": ")
        return ""


@dataclass(slots=True)
class Known:
    """A pod that this benchmark has made, or one that was seen in its namespaces.

    Attributes:
        created_at: When its creation was asked for, in seconds of the loop's clock; None where others made it.
        bound_at: When it was first seen on a node.
        verdict: What a scheduler has last said of it; empty before it has been tried.
    """

    uid: str
    namespace: str
    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    created_at: float | None = None
    bound_at: float | None = None
    verdict: str = ""
    gone: bool = False

    @property
    def is_bound(self) -> bool:
        """Whether it has, or had, a node."""
        return self.bound_at is not None

    @property
    def is_attempted(self) -> bool:
        """Whether a scheduler has at least tried it."""
        return self.is_bound or bool(self.verdict)

    def matches(self, selector: Mapping[str, str]) -> bool:
        """Whether it has all these labels."""
        return selector.items() <= self.labels.items()


class Witness(Protocol):
    """Whoever wants to hear of each pod that gets a node."""

    def bound(self, pod: Known) -> None:
        """Take note of it; called once for each pod."""
        ...


class Stalled(Exception):  # noqa: N818 - reads as what has happened
    """What was waited for has not come in time; the text says what, and why not."""


class PodBook:
    """The pods in the namespaces that are followed, by uid.

    Pods that are gone stay known until their namespace is forgotten: a wait may still be about them.
    """

    def __init__(self, client: Client) -> None:
        self.witnesses: list[Witness] = []
        self._followed: dict[str, dict[str, Known]] = {}
        self._changed = asyncio.Event()
        self._informer = Informer(client, PODS, view=_Pod, deliver=self._take)

    async def run(self) -> None:
        """Watch until cancelled."""
        await self._informer.run()

    async def synced(self) -> None:
        """Return once what is created from now on will be seen."""
        await self._informer.synced.wait()

    def follow(self, namespace: str) -> None:
        """Note the pods of a namespace from now on."""
        self._followed.setdefault(namespace, {})

    @property
    def followed(self) -> list[str]:
        """The namespaces that are followed, in the order in which that began."""
        return list(self._followed)

    def forget(self) -> None:
        """Forget all pods, and which namespaces were followed."""
        self._followed.clear()

    def created(self, namespace: str, name: str, uid: str, labels: Mapping[str, str], at: float) -> Known:
        """Note a pod that has just been created; it may have been seen on a node already."""
        pod = self._followed[namespace].setdefault(uid, Known(uid, namespace, name, labels))
        pod.created_at = at
        return pod

    def pods(self, namespaces: Iterable[str] = (), selector: Mapping[str, str] | None = None) -> list[Known]:
        """Return the pods of some namespaces (of all, where none is named) that are not gone and match."""
        names = list(namespaces) or list(self._followed)
        found = (pod for name in names for pod in self._followed.get(name, {}).values())
        return [pod for pod in found if not pod.gone and pod.matches(selector or {})]

    async def drained(self, namespace: str, *, seconds: float) -> bool:
        """Return whether, after so many seconds at most, all pods of a namespace are gone."""
        try:
            await self.until(self.pods([namespace]), lambda pod: pod.gone, what="gone", seconds=seconds)
        except Stalled:
            return False
        return True

    def _take(self, changes: Sequence[Change[_Pod]]) -> None:
        now = asyncio.get_running_loop().time()
        for change in changes:
            pods = self._followed.get(change.key.namespace)
            if pods is None:
                continue
            if isinstance(change, Gone):
                if change.uid in pods:
                    pods[change.uid].gone = True
            else:
                self._note(pods, change, now)
        self._changed.set()

    def _note(self, pods: dict[str, Known], seen: Seen[_Pod], now: float) -> None:
        pod = pods.get(seen.uid)
        if pod is None:
            pod = pods[seen.uid] = Known(seen.uid, seen.key.namespace, seen.key.name)
        pod.labels = seen.obj.metadata.labels
        pod.verdict = seen.obj.verdict
        if seen.obj.spec.node_name and not pod.is_bound:
            pod.bound_at = now
            for witness in self.witnesses:
                witness.bound(pod)

    async def until(
        self,
        waiting: Iterable[Known],
        holds: Callable[[Known], bool],
        *,
        what: str,
        seconds: float,
        show: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Return once something holds of each of these pods; `show` is told of how many it does not yet.

        Raises:
            Stalled: It does not within so many seconds.
        """
        left = [pod for pod in waiting if not holds(pod)]
        try:
            async with asyncio.timeout(seconds):
                while left:
                    self._changed.clear()
                    await self._changed.wait()
                    left = [pod for pod in left if not holds(pod)]
                    show(len(left))
        except TimeoutError:
            raise Stalled(_why(left, what, seconds)) from None


def _why(left: Sequence[Known], what: str, seconds: float) -> str:
    one = left[0]
    said = f"says {one.verdict}" if one.verdict else "has not been tried by any scheduler"
    return f"{len(left)} pods are not {what} after {seconds:.0f} s; {one.namespace}/{one.name} {said}"
