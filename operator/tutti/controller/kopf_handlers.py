"""What kopf is embedded for: it holds finalizers on kinds whose deletion has to wait, and serves the webhooks.

It sees no pods, keeps no state on objects, posts no events, and elects no leader: all of that is ours
(`leader_session.py`). Each of its two tasks is a part of the process that may fail by itself (`supervision.py`), such
as for want of a right, or because a definition was deleted. It runs in a loop of its own, for at its end it cancels
every task of its loop that was begun after it; what its handlers ask is answered in the loop of those who know.

A deletion waits for an event of the object cache, not for a retry: kopf's handler simply has not returned yet. The
condition that says what is waited for is the one that every object has (`references.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import kopf
import structlog

from tutti.api.configuration import TuttiConfiguration
from tutti.api.frameworks import KNOWN_KINDS, FrameworkKind
from tutti.api.kinds import KINDS
from tutti.api.messages import join_listed
from tutti.api.model import API_VERSION, GROUP, VERSION
from tutti.controller.discovery import OUR_RESOURCES
from tutti.controller.event_loops import OtherLoop
from tutti.controller.object_cache import ObjectCache
from tutti.controller.pod_defaults import PodDefaults
from tutti.controller.references import Raw, References, listed_users, text_at, users
from tutti.controller.reviews import Classes, Review, review
from tutti.controller.webhook_server import BoundedWebhookServer
from tutti.engine.records.decisions import EmitEvent
from tutti.kube.credentials import MAX_AGE_SECONDS, Access, Credentials, CredentialsError

log = structlog.get_logger(__name__)

GUARDED_KINDS = ("ClusterQueue", "ResourceFlavor", "Topology")
"""Kinds whose deletion waits for their users: workloads, queues and cohorts, flavors."""


class DeletionGuard:
    """Decides when an object that is being deleted may go.

    A replica that does not lead holds on: it would act on what only the leader may end. Nor is anything released before
    our own stream, which is the engine's, has shown the deletion: only then does the engine admit nothing more.
    """

    def __init__(
        self,
        catalogue: ObjectCache,
        *,
        deciding: asyncio.Event,
        record: Callable[[EmitEvent], None],
        concerns: Callable[[str, str, str], bool] = lambda *_: True,
    ) -> None:
        self._catalogue = catalogue
        self._concerns = concerns  # whether it is this process that may let an object go, or that of another shard
        self._deciding = deciding
        self._record = record

    def free(self) -> list[tuple[str, str]]:
        """Return what is being deleted and may go by now, as kind and name."""
        return [one for one in self._catalogue.specs.leaving() if self._used_by(*one) == []]

    def _used_by(self, kind: str, name: str) -> list[str] | None:
        """Return what uses an object that is being deleted; None where that is not this process's to say now."""
        mine = self._deciding.is_set() and self._concerns(kind, "", name)
        if not (mine and self._catalogue.specs.is_leaving(kind, name)):
            return None
        self._catalogue.count_users()
        return users(kind, name, self._catalogue.specs)

    async def released(self, kind: str, name: str, uid: str) -> None:
        """Return once nothing uses the object, or it is gone by itself."""
        said: list[str] = []
        while (kind, "", name) in self._catalogue.stored:
            version = self._catalogue.version
            used_by = self._used_by(kind, name)
            if used_by == []:
                log.info("deletion_released", kind=kind, name=name)
                return
            if used_by is not None:
                if not said:
                    self._say(kind, name, uid, used_by)
                said = used_by
            await self._catalogue.changed(version)

    def _say(self, kind: str, name: str, uid: str, used_by: list[str]) -> None:
        log.info("deletion_held", kind=kind, name=name, users=len(used_by), first=used_by[0])
        note = f"It stays until nothing uses it; still used by {listed_users(used_by)}"
        self._record(EmitEvent(API_VERSION, kind, "", name, uid, "Warning", "StillInUse", "Deleting", note))


_QUEUED = ("Workload", "PodGroup")
_IMPLICIT = "scheduling.tutti.dev/implicit"
_UNPROCESSABLE = 422


def spec_defaults(kind: str, raw: Raw, specs: References, *, queue: str) -> dict[str, Any]:
    """Return what is to be filled into a new object's spec; empty where nothing is.

    Args:
        kind: Of the object.
        raw: The object.
        specs: What is known of the others.
        queue: The LocalQueue, in namespaces that have it, of workloads that name none; "" for no such thing.
    """
    namespace = text_at(raw, "metadata", "namespace")
    if kind not in _QUEUED or text_at(raw, "spec", "queueName") or (namespace, queue) not in specs.local_queues:
        return {}
    labels = raw.get("metadata", {}).get("labels") or {}
    # A PodGroup made for annotated pods says what they say, and they name no queue.
    return {} if _IMPLICIT in labels else {"queueName": queue}


class Reviewer:
    """Reviews against what is known at that moment; to be asked in the loop that keeps this up to date."""

    def __init__(self, catalogue: ObjectCache, classes: Callable[[], Classes], *, default_queue: str) -> None:
        self._catalogue = catalogue
        self._classes = classes
        self._default_queue = default_queue

    async def review(self, kind: str, raw: Raw, old: Raw | None) -> Review:
        """Review one write (`review`)."""
        return review(kind, raw, old, self._catalogue.specs, classes=self._classes())

    async def defaults(self, kind: str, raw: Raw) -> dict[str, Any]:
        """Return what is to be filled in (`defaults`)."""
        return spec_defaults(kind, raw, self._catalogue.specs, queue=self._default_queue)


def register(registry: kopf.OperatorRegistry, reviewer: Reviewer, there: OtherLoop) -> None:
    """Serve `/validate-<kind>` for all our kinds, and `/default-<kind>` for those that are queued."""
    for kind in KINDS:
        _validate(registry, kind, reviewer, there)
    for kind in _QUEUED:
        _default(registry, kind, reviewer, there)


def _validate(registry: kopf.OperatorRegistry, kind: str, reviewer: Reviewer, there: OtherLoop) -> None:
    @kopf.on.validate(
        GROUP,
        VERSION,
        KINDS[kind].PLURAL,
        id=f"validate-{kind.lower()}",
        operations=["CREATE", "UPDATE"],
        registry=registry,
    )
    async def validate(body: kopf.Body, warnings: list[str], **kwargs: Any) -> None:
        found = await there.run(reviewer.review(kind, body, kwargs.get("old")))
        warnings.extend(found.warnings)
        if found.problems:
            name, namespace = text_at(body, "metadata", "name"), text_at(body, "metadata", "namespace")
            log.info("write_refused", kind=kind, namespace=namespace, name=name, problems=len(found.problems))
            raise kopf.AdmissionError(join_listed(found.problems), code=_UNPROCESSABLE)


def _default(registry: kopf.OperatorRegistry, kind: str, reviewer: Reviewer, there: OtherLoop) -> None:
    @kopf.on.mutate(
        GROUP, VERSION, KINDS[kind].PLURAL, id=f"default-{kind.lower()}", operations=["CREATE"], registry=registry
    )
    async def default(body: kopf.Body, patch: kopf.Patch, **_: Any) -> None:
        filled = await there.run(reviewer.defaults(kind, body))
        if filled:
            patch.setdefault("spec", {}).update(filled)


def _name_scheduler(registry: kopf.OperatorRegistry, pods: PodDefaults, there: OtherLoop) -> None:
    """Serve `/schedule-pod`: the scheduler of new pods, where their namespace has opted in."""

    @kopf.on.mutate("", "v1", "pods", id="schedule-pod", operations=["CREATE"], registry=registry)
    async def schedule(body: kopf.Body, namespace: str | None, patch: kopf.Patch, **_: Any) -> None:
        scheduler = await there.run(pods.scheduler_of(dict(body), namespace or ""))  # a view is not read as what it is
        if scheduler:
            patch.setdefault("spec", {})["schedulerName"] = scheduler


def _keep_suspended(
    registry: kopf.OperatorRegistry, kind: FrameworkKind, version: str, pods: PodDefaults, there: OtherLoop
) -> None:
    """Serve `/suspend-<kind>-<version>`: new objects wait suspended where their queue keeps them so."""
    id_ = f"suspend-{kind.kind.lower()}-{version}"

    @kopf.on.mutate(kind.group, version, kind.plural, id=id_, operations=["CREATE"], registry=registry)
    async def suspend(body: kopf.Body, namespace: str | None, patch: kopf.Patch, **_: Any) -> None:
        if await there.run(pods.suspends(dict(body), kind, namespace or "")):
            *steps, last = (kind.suspended or "").split(".")
            at: Any = patch
            for step in steps:
                at = at.setdefault(step, {})
            at[last] = True


FINALIZER = f"{GROUP}/in-use"
_PREFIX = f"kopf.{GROUP}"
# How soon a certificate that was renewed is served.
_NEW_CERTIFICATE_SECONDS = 5.0
_RELOGIN = timedelta(seconds=MAX_AGE_SECONDS)
"""kopf asks anew after a 401 by itself, but not where it does not believe the server's certificate."""


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
    settings.networking.error_backoffs = (1, 2)  # what lasts longer is begun again, visibly (`supervision.py`)
    settings.queueing.exit_timeout = 0.1  # a held deletion waits for ever, also at the end of the process
    settings.execution.max_workers = 1  # every handler is a coroutine
    settings.persistence.finalizer = FINALIZER
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=_PREFIX)
    settings.persistence.diffbase_storage = _NoDiffBase()
    webhook = configuration.webhook
    if serves:
        settings.admission.server = BoundedWebhookServer(
            port=webhook.port,
            certfile=certificate or f"{webhook.cert_dir}/tls.crt",
            pkeyfile=certificate or f"{webhook.cert_dir}/tls.key",
            file_check_interval=_NEW_CERTIFICATE_SECONDS,
        )
    return settings


def holding(credentials: Credentials, holder: DeletionGuard, there: OtherLoop) -> kopf.OperatorRegistry:
    """Return the handlers that hold deletions."""
    registry = _registry(credentials, there)
    for kind in GUARDED_KINDS:
        _hold(registry, kind, holder, there)
    return registry


def reviewing(
    credentials: Credentials, reviewer: Reviewer, pods: PodDefaults, there: OtherLoop
) -> kopf.OperatorRegistry:
    """Return the handlers that review what is written, and fill in what it leaves out."""
    registry = _registry(credentials, there)
    register(registry, reviewer, there)
    _name_scheduler(registry, pods, there)
    for kind in KNOWN_KINDS:
        for version in kind.versions if kind.startable else ():
            _keep_suspended(registry, kind, version, pods, there)
    return registry


def _registry(credentials: Credentials, there: OtherLoop) -> kopf.OperatorRegistry:
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)
    async def login(**_: Any) -> kopf.ConnectionInfo:
        """Hand kopf the credentials that everything else uses."""
        try:
            return connection(await there.run(credentials.refresh()))
        except CredentialsError as error:
            raise kopf.LoginError(str(error)) from error

    return registry


def _hold(registry: kopf.OperatorRegistry, kind: str, holder: DeletionGuard, there: OtherLoop) -> None:
    @kopf.on.delete(GROUP, VERSION, OUR_RESOURCES[kind].plural, id=f"hold-{kind.lower()}", registry=registry)
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
