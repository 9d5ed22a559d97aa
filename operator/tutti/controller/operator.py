"""The operator's frame: kopf, set up to do what it is good at and nothing else.

kopf holds finalizers on kinds whose deletion has to wait, and serves the webhooks. It sees no pods, keeps no state on
objects, posts no events, and elects no leader: all of that is ours (`room.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import kopf

from tutti.api.configuration import TuttiConfiguration
from tutti.api.model import GROUP, VERSION
from tutti.controller.crds import RESOURCES
from tutti.controller.deletion import HELD, Holder
from tutti.controller.webhooks import Reviewer, register
from tutti.kube.credentials import Access, Credentials, CredentialsError

FINALIZER = f"{GROUP}/in-use"
_PREFIX = f"kopf.{GROUP}"
# How soon a certificate that was renewed is served.
_NEW_CERTIFICATE_SECONDS = 5.0
_RELOGIN = timedelta(minutes=10)


class _Persistence:
    """The waits between the attempts of a request, without end: an outage of an hour ends no stream, and no process."""

    def __iter__(self) -> Iterator[float]:
        return chain((1, 1, 2, 3), repeat(5))


class _NoDiffBase(kopf.DiffBaseStorage):
    """Remembers nothing on objects: no handler of ours asks what has changed since the last time."""

    def fetch(self, *, body: kopf.Body) -> kopf.BodyEssence | None:  # noqa: ARG002 - kopf's signature
        """Return nothing."""
        return None

    def store(self, *, body: kopf.Body, patch: kopf.Patch, essence: kopf.BodyEssence) -> None:
        """Write nothing."""


def settings_for(configuration: TuttiConfiguration, certificate: Path | None = None) -> kopf.OperatorSettings:
    """Return kopf's settings: static resources, no events, no peering, our own names on objects.

    Args:
        configuration: What an administrator has set.
        certificate: A file with a certificate and its key, in place of those that are mounted.
    """
    settings = kopf.OperatorSettings()
    settings.process.ultimate_exiting_timeout = None  # the pod's grace period ends what hangs
    settings.posting.enabled = False
    settings.peering.standalone = True
    settings.scanning.disabled = True  # our kinds are installed before kopf is started
    settings.watching.server_timeout = 300
    settings.networking.error_backoffs = _Persistence()
    settings.queueing.exit_timeout = 0.1  # a held deletion waits for ever, also at the end of the process
    settings.execution.max_workers = 1  # every handler is a coroutine
    settings.persistence.finalizer = FINALIZER
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=_PREFIX)
    settings.persistence.diffbase_storage = _NoDiffBase()
    webhook = configuration.webhook
    if webhook.enabled:
        settings.admission.server = kopf.WebhookServer(
            port=webhook.port,
            certfile=certificate or f"{webhook.cert_dir}/tls.crt",
            pkeyfile=certificate or f"{webhook.cert_dir}/tls.key",
            file_check_interval=_NEW_CERTIFICATE_SECONDS,
        )
    return settings


def registry_for(
    *,
    credentials: Credentials,
    startup: Callable[[], Awaitable[None]],
    cleanup: Callable[[], Awaitable[None]],
    holder: Holder,
    reviewer: Reviewer | None,
) -> kopf.OperatorRegistry:
    """Return the handlers: login, start and end of the engine, held deletions, and reviews where they are served."""
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)
    async def login(**_: Any) -> kopf.ConnectionInfo:
        """Hand kopf the credentials that everything else uses."""
        try:
            return connection(await credentials.refresh())
        except CredentialsError as error:
            raise kopf.LoginError(str(error)) from error

    @kopf.on.startup(registry=registry, errors=kopf.ErrorsMode.PERMANENT)
    async def start(**_: Any) -> None:
        """Start the engine."""
        await startup()

    @kopf.on.cleanup(registry=registry, errors=kopf.ErrorsMode.PERMANENT)
    async def end(**_: Any) -> None:
        """Let the engine come to an end."""
        await cleanup()

    for kind in HELD:
        _hold(registry, kind, holder)
    if reviewer is not None:
        register(registry, reviewer)
    return registry


def _hold(registry: kopf.OperatorRegistry, kind: str, holder: Holder) -> None:
    @kopf.on.delete(GROUP, VERSION, RESOURCES[kind].plural, id=f"hold-{kind.lower()}", registry=registry)
    async def hold(name: str | None, uid: str | None, **_: Any) -> None:
        await holder.released(kind, name or "", uid or "")


def connection(access: Access) -> kopf.ConnectionInfo:
    """Return our access in kopf's form; kopf asks again before it could age, and after a 401."""
    scheme, _, token = access.headers.get("Authorization", "").partition(" ")
    return kopf.ConnectionInfo(
        server=access.server,
        ca_path=access.ca_path,
        insecure=access.insecure,
        scheme=scheme or None,
        token=token or None,
        certificate_path=access.certificate_path,
        private_key_path=access.private_key_path,
        default_namespace=access.namespace,
        proxy_url=access.proxy,
        expiration=datetime.now(UTC) + _RELOGIN,
    )


async def run_kopf(
    registry: kopf.OperatorRegistry, settings: kopf.OperatorSettings, *, stop: asyncio.Event, ready: asyncio.Event
) -> None:
    """Run kopf until `stop` is set, and set `ready` once its handlers run.

    Raises:
        Exception: What kopf could not go on from, such as a watch that was refused.
    """
    await kopf.operator(
        registry=registry, settings=settings, clusterwide=True, standalone=True, stop_flag=stop, ready_flag=ready
    )
