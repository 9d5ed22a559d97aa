"""Asks extenders what the engine wants to know, and observes what they say.

An extender gets the pod, and unless it knows the nodes itself the nodes too, as the API server has them: it may read
fields that scheduling here does not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from http import HTTPStatus
from typing import Final, Self

import msgspec
import structlog

from tutti.api.extensions import Extender
from tutti.controller.metrics import Metrics
from tutti.engine.records.decisions import AskExtender
from tutti.engine.records.observations import AnyObservation, ExtenderAnswered
from tutti.kube.client import Client
from tutti.kube.errors import ApiError, WireError
from tutti.kube.extender import ExtenderArgs, ExtenderClient, ExtenderError
from tutti.kube.resources import NODES, PODS

log = structlog.get_logger(__name__)

_AT_ONCE: Final = 8
"""How many asks are under way: each may hold a copy of all node objects."""


class _Meta(msgspec.Struct, frozen=True):
    name: str = ""
    uid: str = ""


class _Object(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()


class _List(msgspec.Struct, frozen=True):
    items: list[msgspec.Raw] = []


class ExtenderCalls:
    """The way to all extenders; to be used as an async context manager, in one loop.

    Raises:
        ValueError: A tlsConfig cannot be used.
    """

    def __init__(
        self,
        client: Client,
        extenders: Sequence[Extender],
        *,
        observe: Callable[[AnyObservation], None],
        metrics: Metrics,
    ) -> None:
        self._client = client
        self._extenders = {one.url_prefix: ExtenderClient(one) for one in extenders}
        self._observe = observe
        self._metrics = metrics
        self._room = asyncio.Semaphore(_AT_ONCE)
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        for one in self._extenders.values():
            await self._stack.enter_async_context(one)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def ask(self, ask: AskExtender) -> None:
        """Ask, and observe the answer or the failure."""
        async with self._room:
            answer = await self._answer(ask)
        outcome = "gone" if answer.gone else "failed" if answer.error else "answered"
        self._metrics.extender_asks.labels(ask.extender, ask.verb, outcome).inc()
        if answer.error:
            log.warning("extender_failed", extender=ask.extender, verb=ask.verb, error=answer.error)
        self._observe(answer)

    async def _answer(self, ask: AskExtender) -> ExtenderAnswered:
        extender = self._extenders[ask.extender]
        try:
            candidates = await self._candidates(ask, names_only=extender.extender.node_cache_capable)
            if candidates is None:
                return ExtenderAnswered(ask.ask, gone=True)
            if ask.verb == "prioritize":
                return ExtenderAnswered(ask.ask, scores=await extender.prioritize(candidates))
            said = await extender.filter(candidates)
            return ExtenderAnswered(ask.ask, said.nodes, said.failed, said.unresolvable)
        except ExtenderError as error:
            return ExtenderAnswered(ask.ask, error=str(error))
        except WireError as error:
            return ExtenderAnswered(ask.ask, error=f"the pod or the nodes could not be read for it: {error}")

    async def _candidates(self, ask: AskExtender, *, names_only: bool) -> ExtenderArgs | None:
        """Read what is sent; None where the pod is no more.

        Raises:
            WireError: The API server does not say.
        """
        pod = await self._pod(ask)
        if pod is None:
            return None
        if names_only:
            return ExtenderArgs(pod, ask.nodes)
        # Any version will do that the API server has at hand: the engine's own view is no newer.
        listed = msgspec.json.decode(
            await self._client.request("GET", NODES.path(), query={"resourceVersion": "0"}), type=_List
        )
        found = {msgspec.json.decode(one, type=_Object).metadata.name: bytes(one) for one in listed.items}
        names = [name for name in ask.nodes if name in found]
        return ExtenderArgs(pod, names, [found[name] for name in names])

    async def _pod(self, ask: AskExtender) -> bytes | None:
        if ask.stand_in is not None:
            return msgspec.json.encode(ask.stand_in)
        try:
            pod = await self._client.request("GET", PODS.path(ask.namespace, ask.name))
        except ApiError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return None
            raise
        return pod if msgspec.json.decode(pod, type=_Object).metadata.uid == ask.uid else None
