"""What kopf is embedded for: it holds finalizers on kinds whose deletion has to wait, and serves the webhooks.

It sees no pods, keeps no state on objects, posts no events, and elects no leader: all of that is ours (`room.py`).
Each of its two tasks is a part of the process that may fail by itself (`parts.py`), such as for want of a right, or
because a definition was deleted. It runs in a loop of its own, for at its end it cancels every task of its loop that
was begun after it; what its handlers ask is answered in the loop of those who know.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import kopf

from tutti.api.configuration import TuttiConfiguration
from tutti.api.model import GROUP, VERSION
from tutti.controller.crds import RESOURCES
from tutti.controller.deletion import HELD, Holder
from tutti.controller.own_loop import Elsewhere
from tutti.controller.webhooks import Reviewer, register
from tutti.kube.credentials import Access, Credentials, CredentialsError

FINALIZER = f"{GROUP}/in-use"
_PREFIX = f"kopf.{GROUP}"
# How soon a certificate that was renewed is served.
_NEW_CERTIFICATE_SECONDS = 5.0
_RELOGIN = timedelta(minutes=10)


class _NoDiffBase(kopf.DiffBaseStorage):
    """Remembers nothing on objects: no handler of ours asks what has changed since the last time."""

    def fetch(self, *, body: kopf.Body) -> kopf.BodyEssence | None:  # noqa: ARG002 - kopf's signature
        """Return nothing."""
        return None

    def store(self, *, body: kopf.Body, patch: kopf.Patch, essence: kopf.BodyEssence) -> None:
        """Write nothing."""


def settings_for(
    configuration: TuttiConfiguration, certificate: Path | None = None, *, serves: bool = False
) -> kopf.OperatorSettings:
    """Return kopf's settings: static resources, no events, no peering, our own names on objects.

    Args:
        configuration: What an administrator has set.
        certificate: A file with a certificate and its key, in place of those that are mounted.
        serves: Whether webhooks are served.
    """
    settings = kopf.OperatorSettings()
    settings.process.ultimate_exiting_timeout = None  # the pod's grace period ends what hangs
    settings.posting.enabled = False
    settings.peering.standalone = True
    settings.watching.server_timeout = 300
    settings.networking.error_backoffs = (1, 2)  # what lasts longer is begun again, visibly (`parts.py`)
    settings.queueing.exit_timeout = 0.1  # a held deletion waits for ever, also at the end of the process
    settings.execution.max_workers = 1  # every handler is a coroutine
    settings.persistence.finalizer = FINALIZER
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=_PREFIX)
    settings.persistence.diffbase_storage = _NoDiffBase()
    webhook = configuration.webhook
    if serves:
        settings.admission.server = kopf.WebhookServer(
            port=webhook.port,
            certfile=certificate or f"{webhook.cert_dir}/tls.crt",
            pkeyfile=certificate or f"{webhook.cert_dir}/tls.key",
            file_check_interval=_NEW_CERTIFICATE_SECONDS,
        )
    return settings


def holding(credentials: Credentials, holder: Holder, there: Elsewhere) -> kopf.OperatorRegistry:
    """Return the handlers that hold deletions."""
    registry = _registry(credentials, there)
    for kind in HELD:
        _hold(registry, kind, holder, there)
    return registry


def reviewing(credentials: Credentials, reviewer: Reviewer, there: Elsewhere) -> kopf.OperatorRegistry:
    """Return the handlers that review what is written."""
    registry = _registry(credentials, there)
    register(registry, reviewer, there)
    return registry


def _registry(credentials: Credentials, there: Elsewhere) -> kopf.OperatorRegistry:
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)
    async def login(**_: Any) -> kopf.ConnectionInfo:
        """Hand kopf the credentials that everything else uses."""
        try:
            return connection(await there.run(credentials.refresh()))
        except CredentialsError as error:
            raise kopf.LoginError(str(error)) from error

    return registry


def _hold(registry: kopf.OperatorRegistry, kind: str, holder: Holder, there: Elsewhere) -> None:
    @kopf.on.delete(GROUP, VERSION, RESOURCES[kind].plural, id=f"hold-{kind.lower()}", registry=registry)
    async def hold(name: str | None, uid: str | None, **_: Any) -> None:
        await there.run(holder.released(kind, name or "", uid or ""))


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


async def run_kopf(registry: kopf.OperatorRegistry, settings: kopf.OperatorSettings) -> None:
    """Run kopf until cancelled.

    Raises:
        Exception: What kopf could not go on from, such as a watch that was refused.
    """
    await kopf.operator(registry=registry, settings=settings, clusterwide=True, standalone=True)
