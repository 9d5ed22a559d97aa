"""Waiting, visibly, until the server serves our kinds: an operator installed before its CRDs must not crash-loop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

import msgspec
import structlog

from tutti.api.kinds import KINDS
from tutti.api.model import GROUP, VERSION
from tutti.controller.health import Check, Health
from tutti.controller.supervisor import first_of
from tutti.kube.changes import Change, Gone
from tutti.kube.client import Client
from tutti.kube.informer import Informer
from tutti.kube.resources import Resource

log = structlog.get_logger(__name__)

RESOURCES: Mapping[str, Resource] = MappingProxyType(
    {name: Resource(GROUP, VERSION, kind.PLURAL, namespaced=kind.NAMESPACED) for name, kind in KINDS.items()}
)
"""Where each of our kinds is served."""

CRDS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", namespaced=False)
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
            if name in self._wanted and (isinstance(change, Gone) or not change.obj.serves(VERSION)):
                self.names.add(name)
            else:
                self.names.discard(name)
        if not self.names:
            self.none.set()


async def installed(client: Client, health: Health) -> None:
    """Return once the server serves all our kinds; until then the check `crds` and the log say which are missing."""
    missing = _Missing([resource.label for resource in RESOURCES.values()])
    informer = Informer(client, CRDS, view=Definition, deliver=missing.take)
    health.ready["crds"] = lambda: _check(missing, informer)
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


def _check(missing: _Missing, informer: Informer[Definition]) -> Check:
    if informer.problem or not informer.synced.is_set():
        return Check(ok=False, detail=informer.problem or "not listed yet")
    return Check(ok=not missing.names, detail="not installed: " + ", ".join(sorted(missing.names)))
