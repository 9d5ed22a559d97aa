"""Creates objects of any kind, remembers them, and takes them away again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any, Final

import msgspec

from tutti.kube.client import MERGE_PATCH, Client
from tutti.kube.decoding import Head
from tutti.kube.errors import ApiError, WireError, is_retryable
from tutti.kube.resources import PRIORITY_CLASSES, APIResource
from tutti.kube.retry import Backoff, retrying, settling
from tutti_bench.templates import Object

CREATORS: Final = 30
"""How many requests are in flight at once, as in scheduler_perf."""
_TRIES: Final = 6
LEAVE_SECONDS: Final = 120.0
"""After so long, what was deleted should be gone."""


class Refused(Exception):  # noqa: N818 - reads as what has happened
    """An object that the API server does not take; the text says which and why."""


class _Kind(msgspec.Struct, frozen=True):
    name: str
    kind: str
    namespaced: bool = False


class _Kinds(msgspec.Struct, frozen=True):
    resources: list[_Kind] = []


class Remains(msgspec.Struct, frozen=True):
    """What a list shows of an object that is on its way out."""

    name: str
    namespace: str = ""
    finalizers: list[str] = []


class _Entry(msgspec.Struct, frozen=True):
    metadata: Remains


class _Entries(msgspec.Struct, frozen=True):
    items: list[_Entry] | None = None


class Created(msgspec.Struct, frozen=True):
    """What the API server has made of an object: its name, also where it was generated, and its uid."""

    name: str
    uid: str


_SAME_IN: Final = {
    "resource.k8s.io/v1beta2": ["resource.k8s.io/v1"],
    "scheduling.k8s.io/v1alpha3": ["scheduling.k8s.io/v1beta1", "scheduling.k8s.io/v1alpha2"],
    "scheduling.k8s.io/v1beta1": ["scheduling.k8s.io/v1alpha3", "scheduling.k8s.io/v1alpha2"],
}
"""Versions whose objects look the same in others, which are taken where the API server does not serve the first."""


class Objects:
    """The objects of a benchmark, by the collection they are in, in the order in which they were made.

    Args:
        client: To the API server.
        settle_seconds: After so long without being gone, finalizers are taken off what was deleted: whoever put them
            there may not be running.
    """

    def __init__(self, client: Client, settle_seconds: float) -> None:
        self.client = client
        self.settle_seconds = settle_seconds
        self._kinds: dict[str, dict[str, APIResource]] = {}
        self._made: dict[tuple[APIResource, str], list[str]] = {}
        self._room = asyncio.Semaphore(CREATORS)
        self._ranking = asyncio.Lock()

    async def resource(self, document: Object) -> APIResource:
        """Return where objects of this kind live.

        Raises:
            Refused: It says no kind, or the API server does not serve it.
            WireError: The API server could not be asked.
        """
        version, kind = str(document.get("apiVersion", "")), str(document.get("kind", ""))
        if not version or not kind:
            raise Refused("an object needs apiVersion and kind")
        for same in (version, *_SAME_IN.get(version, ())):
            known = self._kinds.get(same, {})
            if kind not in known:
                known = self._kinds[same] = await self._discover(same)
            if kind in known:
                return known[kind]
        raise Refused(f"the API server serves no {kind} in {version}")

    async def _place(self, document: Object, namespace: str) -> tuple[APIResource, str]:
        """Return where an object lives, and in which namespace, which is empty for kinds that have none."""
        resource = await self.resource(document)
        if resource.namespaced and not namespace:
            raise Refused(f"{document['kind']} needs a namespace")
        return resource, namespace if resource.namespaced else ""

    async def _discover(self, version: str) -> dict[str, APIResource]:
        group, _, short = version.rpartition("/")
        try:
            body = await retrying(
                lambda: self.client.request("GET", f"/apis/{version}" if group else f"/api/{version}")
            )
        except ApiError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return {}
            raise
        served = msgspec.json.decode(body, type=_Kinds).resources
        return {
            one.kind: APIResource(group, short, one.name, namespaced=one.namespaced)
            for one in served
            if "/" not in one.name
        }

    async def create(
        self, document: Object, namespace: str = "", *, strict: bool = False, remember: bool = True
    ) -> Created:
        """Create an object and remember it; where its kind has namespaces, in this one.

        Args:
            document: The object; what it says of its namespace is replaced.
            namespace: Where it is created.
            strict: Whether unknown fields are refused.
            remember: Whether `sweep` deletes it.

        Raises:
            Refused: The API server does not take it.
            WireError: It could not be reached.
        """
        made, _ = await self.create_at(document, namespace, strict=strict, remember=remember)
        return made

    async def create_at(
        self, document: Object, namespace: str = "", *, strict: bool = False, remember: bool = False
    ) -> tuple[Created, float]:
        """Create an object as `create` does, and tell when the request was sent, by the loop's clock in seconds.

        Raises:
            Refused: The API server does not take it.
            WireError: It could not be reached.
        """
        resource, where = await self._place(document, namespace)
        document = await self._ranked(document)
        meta = {key: value for key, value in document.get("metadata", {}).items() if key != "namespace"}
        body = msgspec.json.encode({**document, "apiVersion": resource.api_version, "metadata": meta})
        query = {"fieldValidation": "Strict"} if strict else None
        path, name = resource.path(where or None), str(meta.get("name") or "")
        kept = self._made.setdefault((resource, where), []) if remember else []
        if name:  # before it is asked for: whoever is cancelled meanwhile does not hear that it was made
            kept.append(name)
        try:
            async with self._room:
                at = asyncio.get_running_loop().time()
                answer = await settling(
                    lambda: self.client.request("POST", path, query=query, body=body),
                    _unless_new_class,
                    tries=_TRIES,
                    backoff=Backoff(),
                )
        except ApiError as error:
            if error.retryable:
                raise
            if name:
                kept.remove(name)  # one that was there already is not ours
            raise Refused(f"{document['kind']} {name or meta.get('generateName', '')}: {error}") from None
        made = msgspec.json.decode(answer, type=Head).metadata
        if not name:
            kept.append(made.name)
        return Created(made.name, made.uid), at

    async def _ranked(self, document: Object) -> Object:
        """Return a pod that says its priority as a number with a PriorityClass of it, made where it is not there.

        The priority admission of an API server refuses a number alone.
        """
        spec = document.get("spec") or {}
        value = spec.get("priority")
        if document.get("kind") != "Pod" or not value or spec.get("priorityClassName"):
            return document
        name = f"tutti-bench-{value}".replace("--", "-minus-")
        async with self._ranking:
            if name not in self._made.get((PRIORITY_CLASSES, ""), ()):
                head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
                await retrying(lambda: self._make_class(msgspec.json.encode({**head, "value": value})))
                self._made.setdefault((PRIORITY_CLASSES, ""), []).append(name)
        return {**document, "spec": {**spec, "priorityClassName": name}}

    async def _make_class(self, body: bytes) -> None:
        try:
            await self.client.request("POST", PRIORITY_CLASSES.path(), body=body)
        except ApiError as error:
            if error.status != HTTPStatus.CONFLICT:
                raise

    async def replace(self, document: Object, namespace: str, subresource: str = "") -> None:
        """Put an object in the place of the one that has its name, or of its status and the like.

        Raises:
            Refused: The API server does not take it.
            WireError: It could not be reached.
        """
        resource, where = await self._place(document, namespace)
        name = document.get("metadata", {}).get("name", "")
        if not name:
            raise Refused(f"{document['kind']}: to be updated, it needs a name")
        path, target = resource.path(where or None, name), resource.path(where or None, name, subresource or None)
        whole = await self._ranked(document)

        async def put() -> bytes:
            """Replace what is there now."""
            head = await self.client.request("GET", path)
            found = msgspec.json.decode(head, type=Head).metadata
            meta = {**document["metadata"], "resourceVersion": found.resource_version}
            return await self.client.request("PUT", target, body=msgspec.json.encode({**whole, "metadata": meta}))

        try:
            async with self._room:
                await settling(put, _unless_written_meanwhile, tries=_TRIES, backoff=Backoff(first=0.01))
        except ApiError as error:
            raise Refused(f"{document['kind']} {name}: {error}") from None

    async def patch(
        self, resource: APIResource, name: str, change: Mapping[str, Any], namespace: str = "", subresource: str = ""
    ) -> None:
        """Merge a change into an object.

        Raises:
            WireError: The API server does not take it, or could not be reached.
        """
        path = resource.path(namespace or None, name, subresource or None)
        body = msgspec.json.encode(change)
        async with self._room:
            await retrying(lambda: self.client.request("PATCH", path, body=body, content_type=MERGE_PATCH))

    async def delete(
        self, resource: APIResource, name: str, namespace: str = "", query: dict[str, str] | None = None
    ) -> None:
        """Delete an object; that it is gone already is as good.

        Raises:
            WireError: The API server refused, or could not be reached.
        """
        path = resource.path(namespace or None, name)
        async with self._room:
            await _unless_gone(lambda: self.client.request("DELETE", path, query=query))

    async def delete_all(self, resource: APIResource, namespace: str, query: dict[str, str]) -> None:
        """Delete what is in a collection.

        Raises:
            WireError: The API server refused, or could not be reached.
        """
        path = resource.path(namespace)
        await _unless_gone(lambda: self.client.request("DELETE", path, query=query, timeout_seconds=LEAVE_SECONDS))

    async def clear(self, resource: APIResource, namespace: str) -> None:
        """Delete what is in a collection that may not be served, and return once it is gone.

        Raises:
            Refused: Something does not go.
            WireError: The API server refused, or could not be reached.
        """
        names = frozenset(one.name for one in await self.names(resource, namespace))
        if names:
            await self.delete_all(resource, namespace, {})
            await self._until_gone(resource, namespace, names)

    async def names(self, resource: APIResource, namespace: str = "") -> list[Remains]:
        """Return what is in a collection.

        Raises:
            WireError: The API server refused, or could not be reached.
        """
        body = await _unless_gone(lambda: self.client.request("GET", resource.path(namespace or None)))
        return [one.metadata for one in msgspec.json.decode(body, type=_Entries).items or ()] if body else []

    def collection(self, plural: str, namespace: str) -> APIResource | None:
        """Return where objects of this plural were last created in a namespace; None where none were."""
        found = [resource for resource, where in self._made if resource.plural == plural and where == namespace]
        return found[-1] if found else None

    async def sweep(self) -> None:
        """Delete all that was made, the last kind first, and return once it is gone.

        Raises:
            Refused: Something does not go.
            WireError: The API server refused, or could not be reached.
        """
        while self._made:
            (resource, namespace), names = next(reversed(self._made.items()))
            async with asyncio.TaskGroup() as group:
                for name in names:
                    group.create_task(self.delete(resource, name, namespace, {"gracePeriodSeconds": "0"}))
            await self._until_gone(resource, namespace, frozenset(names))
            del self._made[resource, namespace]

    async def _until_gone(self, resource: APIResource, namespace: str, names: frozenset[str]) -> None:
        clock = asyncio.get_running_loop().time
        begun, backoff = clock(), Backoff(0.05, 1.0)
        while left := [one for one in await self.names(resource, namespace) if one.name in names]:
            waited = clock() - begun
            if waited > LEAVE_SECONDS:
                raise Refused(f"{len(left)} {resource.label}, such as {left[0].name}, do not go away")
            if waited > self.settle_seconds:
                for one in left:
                    await self.release(resource, one, namespace)
            await asyncio.sleep(backoff.next())

    async def release(self, resource: APIResource, one: Remains, namespace: str = "") -> None:
        """Take the finalizers off an object, if it has any and still is there.

        Raises:
            WireError: The API server refused, or could not be reached.
        """
        if not one.finalizers:
            return
        try:
            await self.patch(resource, one.name, {"metadata": {"finalizers": None}}, namespace)
        except ApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise


async def _unless_new_class(error: WireError) -> None:
    """Have what may pass tried again, as which counts that admission does not know a PriorityClass made just now."""
    is_new = isinstance(error, ApiError) and error.status == HTTPStatus.FORBIDDEN and "no PriorityClass" in str(error)
    if not is_new and not is_retryable(error):
        raise error


async def _unless_written_meanwhile(error: WireError) -> None:
    """Have what may pass tried again, as which counts that a scheduler wrote on the object since it was read."""
    if not is_retryable(error) and not (isinstance(error, ApiError) and error.status == HTTPStatus.CONFLICT):
        raise error


async def _unless_gone(attempt: Callable[[], Awaitable[bytes]]) -> bytes:
    """Return what a request returns, or nothing where what it is about is not there."""
    try:
        return await retrying(attempt)
    except ApiError as error:
        if error.status == HTTPStatus.NOT_FOUND:
            return b""
        raise
