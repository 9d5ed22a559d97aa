"""Which kinds the server serves, and in which version: by their definitions, and by what it says itself (discovery).

Whether a kind is built into the server is asked until it answers, where whoever serves that is away.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Protocol

import msgspec

from tutti.api.kinds import KINDS
from tutti.api.model import GROUP, VERSION
from tutti.kube.client import Client
from tutti.kube.errors import ApiError, WireError, retry_after
from tutti.kube.resources import APIResource
from tutti.kube.retry import Backoff

OUR_RESOURCES: Mapping[str, APIResource] = MappingProxyType(
    {name: APIResource(GROUP, VERSION, kind.PLURAL, namespaced=kind.NAMESPACED) for name, kind in KINDS.items()}
)
"""Where each of our kinds is served."""

CRDS = APIResource("apiextensions.k8s.io", "v1", "customresourcedefinitions", namespaced=False)
"""Where definitions of kinds are."""


class _Condition(msgspec.Struct, frozen=True):
    type: str = ""
    status: str = ""


class _Version(msgspec.Struct, frozen=True):
    name: str = ""
    served: bool = False


class _Spec(msgspec.Struct, frozen=True):
    versions: list[_Version] = []


class _Status(msgspec.Struct, frozen=True):
    conditions: list[_Condition] = []


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    deletion_timestamp: str | None = None


class Definition(msgspec.Struct, frozen=True):
    """As much of a CustomResourceDefinition as says what is served."""

    metadata: _Metadata = _Metadata()
    spec: _Spec = _Spec()
    status: _Status = _Status()

    def serves(self, version: str) -> bool:
        """Whether the server serves a version of the kind now."""
        established = any(c.type == "Established" and c.status == "True" for c in self.status.conditions)
        return established and any(v.name == version and v.served for v in self.spec.versions)

    @property
    def is_leaving(self) -> bool:
        """Whether it is being deleted: its objects can be read and deleted, and soon not even that."""
        return self.metadata.deletion_timestamp is not None


class ServedKind(Protocol):
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


class _Offered(msgspec.Struct, frozen=True):
    name: str = ""
    verbs: list[str] = []


class _Resources(msgspec.Struct, frozen=True):
    """What a group and version has (meta/v1 APIResourceList)."""

    resources: list[_Offered] = []


async def version_of(client: Client, kind: ServedKind, *, tell: Callable[[str], None]) -> str:
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
    client: Client, kind: ServedKind, *, absent: Collection[HTTPStatus] = (HTTPStatus.NOT_FOUND,)
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


async def offered_verbs(client: Client, group: str, version: str) -> Mapping[str, Collection[str]]:
    """Return the verbs that the server offers for each resource, by its plural; none where there is no such version.

    Raises:
        WireError: The server cannot be asked.
    """
    try:
        answer = await client.request("GET", f"/apis/{group}/{version}")
    except ApiError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        return {}
    return {one.name: one.verbs for one in msgspec.json.decode(answer, type=_Resources).resources}
