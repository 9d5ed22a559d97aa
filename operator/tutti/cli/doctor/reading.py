"""What the checks read from a cluster: objects as they are, and what is not there or may not be read."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, Final, TypeAlias

import aiohttp
import msgspec

from tutti.api.frameworks.fields import FieldReader
from tutti.kube.client import Client
from tutti.kube.credentials import Credentials
from tutti.kube.errors import ApiError
from tutti.kube.fetching import ListScope, fetch_all
from tutti.kube.resources import APIResource

Json: TypeAlias = dict[str, Any]
_SECONDS = 10.0
MOST_ENTRIES: Final = 1000
"""Of a list in an object, so many are looked at."""


@dataclass(frozen=True, slots=True)
class Patient:
    """A cluster that is looked at.

    Attributes:
        client: Of whoever asks.
        clock: The time of day here, Unix seconds.
        namespace, deployment: Where the operator is.
    """

    client: Client
    credentials: Credentials
    namespace: str = "tutti-system"
    deployment: str = "tutti"
    clock: Callable[[], float] = field(default=time.time)

    async def get(self, path: str) -> Json | None:
        """Return an object; None where there is none.

        Raises:
            WireError: It may not be read, or the server does not answer.
        """
        try:
            found = msgspec.json.decode(await self.client.request("GET", path))
        except ApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            return None
        return found if isinstance(found, dict) else {}

    async def each(self, resource: APIResource, namespace: str | None = None) -> list[Json]:
        """Return all objects of a kind; none where the server has no such kind.

        Raises:
            WireError: They may not be listed, or the server does not answer.
        """
        try:
            raws = await fetch_all(self.client, ListScope(resource.path(namespace)))
        except ApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            return []
        return [found for raw in raws if isinstance(found := msgspec.json.decode(raw), dict)]

    async def may(self, user: str, groups: list[str], attributes: Mapping[str, str]) -> bool:
        """Return whether somebody may do something, as the server says (SubjectAccessReview).

        Raises:
            WireError: Whoever asks may not ask that, or the server does not answer.
        """
        spec = {"user": user, "groups": groups, "resourceAttributes": dict(attributes)}
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        answer = await self.client.request(
            "POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", body=json.dumps(body).encode()
        )
        return FieldReader(msgspec.json.decode(answer)).flag("status.allowed")

    async def try_write(self, resource: APIResource, made: Json) -> str:
        """Have the server go through a creation without keeping it; returns why it would not, or "".

        Raises:
            WireError: The server does not answer.
        """
        try:
            path = resource.path()
            await self.client.request("POST", path, query={"dryRun": "All"}, body=json.dumps(made).encode())
        except ApiError as error:
            return "" if error.status == HTTPStatus.CONFLICT else error.message
        return ""

    async def server_is_ahead(self) -> float | None:
        """Return by how many seconds the clock of the server is ahead of the one here; None where it tells no time."""
        access = await self.credentials.access()
        limits = aiohttp.ClientTimeout(total=_SECONDS)
        before = self.clock()
        try:
            async with (
                aiohttp.ClientSession(timeout=limits) as session,
                session.get(
                    f"{access.server}/version",
                    headers=dict(access.headers),
                    ssl=access.ssl,
                    proxy=access.proxy,
                    server_hostname=access.server_hostname,
                ) as answer,
            ):
                told = answer.headers.get("Date")
        except (TimeoutError, aiohttp.ClientError):
            return None
        try:
            # It is cut to a second: the middle of that is right within half of one.
            return None if told is None else parsedate_to_datetime(told).timestamp() + 0.5 - (before + self.clock()) / 2
        except ValueError:
            return None
