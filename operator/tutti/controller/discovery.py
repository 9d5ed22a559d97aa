"""Which kinds the server serves, and in which version: ours, waited for visibly, and those of other projects.

An operator installed before its CRDs must not crash-loop. Whether a kind is built into the server is asked until it
answers, where whoever serves that is away.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from http import HTTPStatus
from types import MappingProxyType
from typing import Protocol

import msgspec
import structlog

from tutti.api.kinds import KINDS
from tutti.api.model import GROUP, VERSION
from tutti.controller.health import Check, Health
from tutti.controller.supervision import first_of
from tutti.kube.client import Client
from tutti.kube.errors import ApiError, WireError, retry_after
from tutti.kube.informer import Informer
from tutti.kube.resources import APIResource
from tutti.kube.retry import Backoff
from tutti.kube.store import Change, Deletion

log = structlog.get_logger(__name__)

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


class Definition(msgspec.Struct, frozen=True):
    """As much of a CustomResourceDefinition as says what is served."""

    spec: _Spec = _Spec()
    status: _Status = _Status()

    def serves(self, version: str) -> bool:
        """Whether the server serves a version of the kind now."""
        established = any(c.type == "Established" and c.status == "True" for c in self.status.conditions)
        return established and any(v.name == version and v.served for v in self.spec.versions)


class _Missing:
    """The definitions that are still missing; moved by an informer."""

    def __init__(self, wanted: Iterable[str]) -> None:
        self.names = set(wanted)
        self._wanted = frozenset(wanted)
        self.none = asyncio.Event()

    def take(self, changes: Sequence[Change[Definition]]) -> None:
        """Apply what the informer saw."""
        for change in changes:
            name = change.key.name
            if name in self._wanted and (isinstance(change, Deletion) or not change.obj.serves(VERSION)):
                self.names.add(name)
            else:
                self.names.discard(name)
        if not self.names:
            self.none.set()


async def installed(client: Client, health: Health) -> None:
    """Return once the server serves all our kinds; until then the check `crds` and the log say which are missing."""
    missing = _Missing([resource.label for resource in OUR_RESOURCES.values()])
    informer = Informer(client, CRDS, view=Definition, deliver=missing.take)
    health.ready["crds"] = lambda: _crds_check(missing, informer)
    watching = asyncio.create_task(informer.run(), name="watch CRDs")
    try:
        await first_of(watching, informer.synced)
        if missing.names and not watching.done():
            log.warning("crds_not_installed", missing=sorted(missing.names), hint="kubectl apply -k crds")
        await first_of(watching, missing.none)
        if watching.done():
            watching.result()
    finally:
        watching.cancel()
        await asyncio.wait({watching})
    health.passed("crds")


def _crds_check(missing: _Missing, informer: Informer[Definition]) -> Check:
    if informer.problem or not informer.synced.is_set():
        return Check(ok=False, detail=informer.problem or "not listed yet")
    return Check(ok=not missing.names, detail="not installed: " + ", ".join(sorted(missing.names)))


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


class _Named(msgspec.Struct, frozen=True):
    name: str = ""


class _Resources(msgspec.Struct, frozen=True):
    """What a group and version has (meta/v1 APIResourceList)."""

    resources: list[_Named] = []


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
