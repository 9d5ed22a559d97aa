"""The namespaces of a benchmark: made by it, marked as its own, emptied after each workload."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any, Final

import msgspec

from tutti.kube.errors import ApiError, UnknownOutcome
from tutti.kube.resources import NAMESPACES, PODS
from tutti.kube.retry import retrying
from tutti_bench.objects import LEAVE_SECONDS, Objects, Refused
from tutti_bench.pods import PodBook

MARK: Final = "bench.tutti.dev/owned"
"""The label of namespaces that a benchmark made and may empty."""
_AT_ONCE: Final = {"gracePeriodSeconds": "0", "propagationPolicy": "Background"}


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    labels: dict[str, str] = {}
    deletion_timestamp: str | None = None


class _Namespace(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()


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
        """Delete all pods, at once, and return when none is left.

        Raises:
            Refused: Some do not go.
            WireError: The API server refused, or could not be reached.
        """
        for name in self._book.followed:
            await self.empty_one(name)
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
