"""The namespaces of a benchmark, and what is known of the pods in them.

Namespaces are made by the benchmark, marked as its own, and emptied after each workload. One watch tells of pods: which
are there, which have been tried, which are bound.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final, Protocol

import msgspec

from tutti.kube.client import Client
from tutti.kube.errors import ApiError, UnknownOutcome
from tutti.kube.informer import Informer
from tutti.kube.resources import NAMESPACES, PODS, RESOURCE_CLAIMS
from tutti.kube.retry import retrying
from tutti.kube.store import Change, Deletion, Upsert
from tutti_bench.objects import LEAVE_SECONDS, Objects, Refused


class _Meta(msgspec.Struct, frozen=True):
    labels: dict[str, str] = {}


class _ClaimUse(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    resource_claim_template_name: str | None = None


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str = ""
    resource_claims: list[_ClaimUse] | None = None


class _Condition(msgspec.Struct, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    conditions: list[_Condition] | None = None
    resource_claim_statuses: list[_ClaimUse] | None = None


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

    @property
    def has_claims(self) -> bool:
        """Whether the claims are made that are made for it from templates."""
        made = {one.name for one in self.status.resource_claim_statuses or ()}
        return all(
            one.name in made for one in self.spec.resource_claims or () if one.resource_claim_template_name is not None
        )


@dataclass(slots=True)
class Known:
    """A pod that this benchmark has made, or one that was seen in its namespaces.

    Attributes:
        created_at: When its creation was asked for, in seconds of the loop's clock; None where others made it.
        bound_at: When it was first seen on a node.
        verdict: What a scheduler has last said of it; empty before it has been tried.
        has_claims: Whether it was seen with all claims that are made for it from templates.
    """

    uid: str
    namespace: str
    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    created_at: float | None = None
    bound_at: float | None = None
    verdict: str = ""
    has_claims: bool = False
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
            if isinstance(change, Deletion):
                if change.uid in pods:
                    pods[change.uid].gone = True
            else:
                self._note(pods, change, now)
        self._changed.set()

    def _note(self, pods: dict[str, Known], seen: Upsert[_Pod], now: float) -> None:
        pod = pods.get(seen.uid)
        if pod is None:
            pod = pods[seen.uid] = Known(seen.uid, seen.key.namespace, seen.key.name)
        pod.labels = seen.obj.metadata.labels
        pod.verdict = seen.obj.verdict
        pod.has_claims = seen.obj.has_claims
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


MARK: Final = "bench.tutti.dev/owned"
"""The label of namespaces that a benchmark made and may empty."""
_AT_ONCE: Final = {"gracePeriodSeconds": "0", "propagationPolicy": "Background"}


class _NamespaceMeta(msgspec.Struct, frozen=True, rename="camel"):
    labels: dict[str, str] = {}
    deletion_timestamp: str | None = None


class _Namespace(msgspec.Struct, frozen=True):
    metadata: _NamespaceMeta = _NamespaceMeta()


class Namespaces:
    """Namespaces by name.

    They outlive a workload, because where nobody finalizes them (an API server without its controllers) a deleted
    namespace never goes, and the next workload needs it again.
    """

    def __init__(self, objects: Objects, book: PodBook) -> None:
        self._objects = objects
        self._book = book
        self._ours: set[str] = set()
        self._made: set[str] = set()

    async def ensure(self, name: str, document: dict[str, Any] | None = None) -> None:
        """Have a namespace, made after `document` where it is not there, and follow its pods.

        Raises:
            Refused: It is there and not ours: what a workload deletes would be somebody else's.
            WireError: The API server could not be reached.
        """
        if name not in self._ours:
            await self._make(name, document or {})
            self._ours.add(name)
        self._book.follow(name)

    async def _make(self, name: str, document: dict[str, Any]) -> None:
        meta = document.get("metadata") or {}
        labels = {**(meta.get("labels") or {}), MARK: "true"}
        body = {
            **document,
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {**meta, "name": name, "labels": labels},
        }
        try:
            await self._objects.create(body, remember=False)
            self._made.add(name)
        except Refused:
            await self._check(name)

    async def _check(self, name: str) -> None:
        """Hold that a namespace that is there already was made by a benchmark, and stays."""
        client = self._objects.client
        answer = await retrying(lambda: client.request("GET", NAMESPACES.path(name=name)))
        found = msgspec.json.decode(answer, type=_Namespace).metadata
        if MARK not in found.labels:
            raise Refused(
                f"namespace {name} was not made by tutti bench, which deletes all pods of the namespaces it uses; "
                "name another one, or delete this one"
            )
        if found.deletion_timestamp:
            raise Refused(f"namespace {name} is being deleted; try again when it is gone")

    async def empty(self) -> None:
        """Delete all pods, at once, and the claims that were made for them, and return when none is left.

        Where nobody collects garbage (an API server with the claim controller alone) the claims would stay, and be in
        the way of the next workload. A namespace that was only measured keeps what it has.

        Raises:
            Refused: Some do not go.
            WireError: The API server refused, or could not be reached.
        """
        for name in [one for one in self._book.followed if one in self._ours]:
            await self.empty_one(name)
            await self._objects.clear(RESOURCE_CLAIMS, name)
        self._book.forget()

    async def empty_one(self, name: str) -> None:
        """Delete all pods of a namespace, at once, and return when none is left.

        Raises:
            Refused: Some do not go.
            WireError: The API server refused, or could not be reached.
        """
        clock = asyncio.get_running_loop().time
        end = clock() + LEAVE_SECONDS
        while clock() < end:
            try:
                await self._objects.delete_all(PODS, name, _AT_ONCE)
            except UnknownOutcome:
                continue  # a long deletion that was cut off has deleted some, and goes on with the rest
            except ApiError as error:
                if error.status != HTTPStatus.GATEWAY_TIMEOUT:
                    raise
                continue
            if await self._book.drained(name, seconds=self._objects.settle_seconds):
                return
            for one in await self._objects.names(PODS, name):
                await self._objects.release(PODS, one, name)
        raise Refused(f"{len(self._book.pods([name]))} pods of namespace {name} do not go away")

    async def delete(self) -> None:
        """Delete the namespaces that were made here; nobody waits until they are gone.

        Raises:
            WireError: The API server refused, or could not be reached.
        """
        for name in sorted(self._made):
            await self._objects.delete(NAMESPACES, name)
        self._ours.clear()
        self._made.clear()
