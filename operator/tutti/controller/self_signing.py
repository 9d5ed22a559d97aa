"""A certificate for the webhooks that the operator makes itself, renews, and has the API server trust.

All replicas serve webhooks, so they share one certificate, in a Secret. Whoever finds that it is due makes the next
one; the version of the Secret decides between two who do. What the API server trusts is the new certificate and the
one before it, and is written first, so that it trusts every replica whichever of the two that serves at the moment.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import os
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import structlog

from tutti.api.configuration import SelfSigned, WebhookSettings
from tutti.controller.supervision import first_of
from tutti.kube.certificate import Certificate, spelled
from tutti.kube.client import MERGE_PATCH, Client
from tutti.kube.errors import ApiError, WireError
from tutti.kube.resources import APIResource
from tutti.kube.retry import Backoff

log = structlog.get_logger(__name__)

SECRETS: Final = APIResource("", "v1", "secrets")
_GROUP = "admissionregistration.k8s.io"
CONFIGURATIONS: Final = tuple(
    APIResource(_GROUP, "v1", f"{kind}webhookconfigurations", namespaced=False) for kind in ("validating", "mutating")
)
# How often it is looked whether another replica has renewed it, or somebody has changed what is trusted.
_LOOK_SECONDS = 60.0
_CONFLICTS = 5
_FILE_MODE = 0o600


@dataclass(frozen=True, slots=True)
class _Kept:
    """What the Secret holds: the certificate, and all that is trusted, in PEM."""

    certificate: Certificate
    trusted: bytes


class SelfSigning:
    """Keeps the certificate good.

    Attributes:
        file: Where the certificate is served from, with its key; in one file, so that the two are never at odds.
    """

    def __init__(
        self,
        client: Client,
        wanted: SelfSigned,
        folder: Path,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._client = client
        self._wanted = wanted
        self._clock = clock
        self._lasts = timedelta(days=wanted.days)
        self._served = b""
        self.file = folder / "tls.pem"

    async def run(self, ready: asyncio.Event) -> None:
        """Keep it good until cancelled; `ready` is set when it is for the first time."""
        backoff = Backoff()
        while True:
            try:
                await self.renew()
            except WireError as error:
                secret = f"{self._wanted.secret_namespace}/{self._wanted.secret_name}"
                log.warning("certificate_not_looked_after", secret=secret, error=str(error))
                await asyncio.sleep(backoff.next(None))
                continue
            backoff.reset()
            ready.set()
            await asyncio.sleep(_LOOK_SECONDS)

    async def renew(self) -> None:
        """Make another certificate if that is due, have the one that counts trusted, and serve it.

        Raises:
            WireError: the Secret or a configuration cannot be read or written, such as where there is none.
        """
        for _ in range(_CONFLICTS):
            try:
                kept = await self._keep()
                for resource in CONFIGURATIONS:
                    await self._trust(resource, kept.trusted)
            except ApiError as error:
                if error.status != HTTPStatus.CONFLICT:
                    raise
                continue  # somebody else was faster: look at what they have written
            self._serve(kept.certificate)
            return

    def stand_in(self) -> None:
        """Serve a certificate that nobody trusts, so that everything else can begin; it is replaced later."""
        self._serve(self._made())

    async def _keep(self) -> _Kept:
        """Return what is in the Secret, after making it anew where that is due."""
        path = SECRETS.path(self._wanted.secret_namespace, self._wanted.secret_name)
        secret = json.loads(await self._client.request("GET", path))
        kept = _read(secret.get("data") or {})
        if kept is not None and not self._is_due(kept.certificate):
            return kept
        made = self._made()
        before = b"" if kept is None or kept.certificate.ends < self._clock() else kept.certificate.pem
        new = _Kept(made, made.pem + before)
        data = {"tls.crt": made.pem, "tls.key": made.key, "ca.crt": new.trusted}
        written = {name: base64.b64encode(value).decode() for name, value in data.items()}
        await self._patch(path, secret, {"data": written})
        log.info("certificate_made", secret=self._wanted.secret_name, ends=made.ends.isoformat())
        return new

    def _made(self) -> Certificate:
        return Certificate.make(self._wanted.hosts, name="tutti webhook", lasts=self._lasts, now=self._clock())

    def _is_due(self, certificate: Certificate) -> bool:
        other = set(certificate.hosts) != set(spelled(self._wanted.hosts))
        return other or self._clock() >= certificate.ends - self._lasts / 3

    async def _trust(self, resource: APIResource, bundle: bytes) -> None:
        """Have all webhooks of a configuration trust a bundle."""
        path = resource.path(None, self._wanted.configuration_name)
        found = json.loads(await self._client.request("GET", path))
        wanted = base64.b64encode(bundle).decode()
        webhooks = found.get("webhooks") or []
        if all(hook["clientConfig"].get("caBundle") == wanted for hook in webhooks):
            return
        changed = [{**hook, "clientConfig": {**hook["clientConfig"], "caBundle": wanted}} for hook in webhooks]
        await self._patch(path, found, {"webhooks": changed})
        log.info("certificate_trusted", configuration=resource.label, name=self._wanted.configuration_name)

    async def _patch(self, path: str, found: dict[str, Any], change: dict[str, Any]) -> None:
        """Change an object that is still as it was found."""
        version = {"resourceVersion": found["metadata"]["resourceVersion"]}
        body = json.dumps({"metadata": version, **change}).encode()
        await self._client.request("PATCH", path, body=body, content_type=MERGE_PATCH)

    def _serve(self, certificate: Certificate) -> None:
        """Put a certificate where it is served from, all at once."""
        whole = certificate.key + certificate.pem
        if whole == self._served:
            return
        fresh = self.file.with_suffix(".new")
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _FILE_MODE), "wb") as out:
            out.write(whole)
        fresh.replace(self.file)
        self._served = whole


def _read(data: dict[str, str]) -> _Kept | None:
    """Return what a Secret holds; None where that is no certificate with its key."""
    try:
        pem, key, trusted = (base64.b64decode(data[name], validate=True) for name in ("tls.crt", "tls.key", "ca.crt"))
        certificate = Certificate(pem, key)
        certificate.context()
        usable = bool(certificate.hosts) and pem in trusted
    except (KeyError, ValueError, binascii.Error, ssl.SSLError):
        return None
    return _Kept(certificate, trusted) if usable else None


# How long a start waits for a certificate that the API server trusts.
_PATIENCE_SECONDS = 10.0


@asynccontextmanager
async def own_certificate(webhook: WebhookSettings, client: Client, stop: asyncio.Event) -> AsyncIterator[Path | None]:
    """Keep a certificate for the webhooks inside the block, and yield its file; None where it is not ours to make.

    Nothing waits for it for long: without one that is trusted, writes of our kinds are refused, and all else goes on.
    What ends the keeping sets `stop`, and is raised at the end of the block.
    """
    if not webhook.enabled or webhook.self_signed is None:
        yield None
        return

    with TemporaryDirectory() as folder:
        signing, ready = SelfSigning(client, webhook.self_signed, Path(folder)), asyncio.Event()
        keeping = asyncio.create_task(signing.run(ready), name="certificate")
        keeping.add_done_callback(lambda _: stop.set())
        try:
            with suppress(TimeoutError):  # what is wrong has been logged
                async with asyncio.timeout(_PATIENCE_SECONDS):
                    await first_of(ready, stop)
            if not ready.is_set():
                signing.stand_in()
            yield signing.file
        finally:
            keeping.cancel()
            await asyncio.wait({keeping})
        if not keeping.cancelled():
            keeping.result()
