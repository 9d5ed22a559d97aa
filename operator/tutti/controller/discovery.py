"""Asking the server in which version it has a kind: once, or until it answers, where whoever serves that is away."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from http import HTTPStatus
from typing import Protocol

import msgspec

from tutti.kube.backoff import Backoff
from tutti.kube.client import Client
from tutti.kube.errors import ApiError, WireError, retry_after


class Kind(Protocol):
    """Where a kind may be served."""

    @property
    def group(self) -> str:
        """Its API group."""

    @property
    def plural(self) -> str:
        """Its name in the API."""

    @property
    def versions(self) -> tuple[str, ...]:
        """In which it can be read, the newest first."""


class _Named(msgspec.Struct, frozen=True):
    name: str = ""


class _Resources(msgspec.Struct, frozen=True):
    """What a group and version has (meta/v1 APIResourceList)."""

    resources: list[_Named] = []


async def version_of(client: Client, kind: Kind, *, tell: Callable[[str], None]) -> str:
    """Return the newest version in which the server has a kind built in; "" where it has none.

    Args:
        client: Asks again after every error, with growing pauses.
        kind: What is asked about.
        tell: Is given each error.
    """
    backoff = Backoff()
    while True:
        try:
            return await served_version(client, kind)
        except WireError as error:
            tell(str(error))
            await asyncio.sleep(backoff.next(retry_after(error)))


async def served_version(
    client: Client, kind: Kind, *, absent: Collection[HTTPStatus] = (HTTPStatus.NOT_FOUND,)
) -> str:
    """Ask once, and return the newest version in which the server has a kind; "" where it has none.

    Args:
        client: Asks.
        kind: What is asked about.
        absent: Refusals of a version that mean that there is nothing for us in it.

    Raises:
        WireError: The server cannot be asked.
    """
    for version in kind.versions:
        try:
            answer = await client.request("GET", f"/apis/{kind.group}/{version}")
        except ApiError as error:
            if error.status not in absent:
                raise
            continue
        found = msgspec.json.decode(answer, type=_Resources)
        if any(one.name == kind.plural for one in found.resources):
            return version
    return ""
