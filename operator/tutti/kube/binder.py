"""Binds pods to nodes, and their claims to volumes, and always finds out what became of it.

The server accepts a binding for a pod that has no node, no gates and is not being deleted (kube-apiserver 1.36,
registry/core/pod/storage); it looks at neither the node nor its room. With the pod's uid in the body, binding to the
same node again is harmless: the second attempt is refused. So every unclear answer is retried with the same target,
and every refusal is explained by reading the pod, never by reading the refusal's words.

What is chosen for a claim, the node that its volume is made for or the free volume that it gets, is written with the
version that the choice was made by, so that nobody else's choice is written over. Claims change often in their first
moments; where one has changed, it is read, and if that leaves the choice standing it is written again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from http import HTTPStatus
from time import perf_counter
from typing import Any, Final

import msgspec
import structlog

from tutti.api.core import ObjectMeta
from tutti.api.storage import BOUND_BY_CONTROLLER, SELECTED_NODE, PersistentVolume, PersistentVolumeClaim
from tutti.kube.client import MERGE_PATCH, Client
from tutti.kube.decoding import object_decoder
from tutti.kube.errors import ApiError, NotSent, UnknownOutcome, WireError, is_retryable
from tutti.kube.fencing import Fence
from tutti.kube.fetching import read_pod
from tutti.kube.flow_control import PriorityLevel
from tutti.kube.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS
from tutti.kube.retry import Backoff, retrying, settling

log = structlog.get_logger(__name__)


class BindOutcome(Enum):
    """What became of a binding.

    The pod is on the node: BOUND (by this call), ALREADY_HERE (before it). It is not, and will not be: ELSEWHERE (on
    another node), GONE (deleted, being deleted, or its name taken by another pod), GATED (a scheduling gate was added),
    REFUSED (the server does not allow it). FAILED: it is not, after all tries. UNKNOWN: it may be, or become so.
    """

    BOUND = "bound"
    ALREADY_HERE = "already_here"
    ELSEWHERE = "elsewhere"
    GONE = "gone"
    GATED = "gated"
    REFUSED = "refused"
    FAILED = "failed"
    UNKNOWN = "unknown"

    @property
    def on_node(self) -> bool:
        """Whether the pod is now where it was meant to be."""
        return self in _ON_NODE


# Looked up once: a member of an enum takes longer to find than to compare.
_ON_NODE: Final = (BindOutcome.BOUND, BindOutcome.ALREADY_HERE)
_BOUND: Final = (BindOutcome.BOUND, "")
_LANE: Final = PriorityLevel.BIND


class Binding(msgspec.Struct, frozen=True):
    """Which pod goes to which node, with annotations to put on the pod in the same write."""

    namespace: str
    name: str
    uid: str
    node: str
    annotations: Mapping[str, str] = {}


class BindResult(msgspec.Struct, frozen=True):
    """What became of a binding; `message` explains anything but BOUND to people."""

    namespace: str
    name: str
    uid: str
    node: str
    outcome: BindOutcome
    message: str = ""


class Binder:
    """Sends bindings, in the most important lane."""

    def __init__(
        self,
        client: Client,
        *,
        fence: Fence,
        tries: int = 5,
        backoff: Callable[[], Backoff] = Backoff,
    ) -> None:
        self._client = client
        self._fence = fence
        self._tries = tries
        self._backoff = backoff
        self._seconds = client.metrics.write_seconds.labels("bind")
        self._counts = {outcome: client.metrics.writes.labels("bind", outcome.value) for outcome in BindOutcome}

    async def bind(self, binding: Binding) -> BindResult:
        """Bind one pod, trying again while that can help.

        Raises:
            LeadershipLost: Before anything, or anything more, was sent.
        """
        began = perf_counter()
        body, path = _encode(binding), PODS.path(binding.namespace, binding.name, "binding")
        try:
            await self._client.write(_LANE, "POST", path, body=body, fence=self._fence)
            outcome, message = _BOUND  # nearly always
        except WireError as error:
            outcome, message = await self._go_on(binding, body, path, after=error)
        finally:
            self._seconds.observe(perf_counter() - began)
        self._counts[outcome].inc()
        if not outcome.on_node:
            log.info(
                "pod_not_bound",
                namespace=binding.namespace,
                name=binding.name,
                node=binding.node,
                outcome=outcome.value,
                message=message,
            )
        return BindResult(binding.namespace, binding.name, binding.uid, binding.node, outcome, message)

    async def _go_on(self, binding: Binding, body: bytes, path: str, *, after: WireError) -> tuple[BindOutcome, str]:
        """Say what the error of the first try means, and try again while that can help."""
        ours = False  # whether an earlier attempt of this call may have been the one that bound it

        async def send() -> tuple[BindOutcome, str]:
            await self._client.write(_LANE, "POST", path, body=body, fence=self._fence)
            return _BOUND

        async def judge(error: WireError) -> tuple[BindOutcome, str] | None:
            nonlocal ours
            ours = ours or _may_have_landed(error)
            return await self._judge(binding, error, ours=ours)

        try:
            return await settling(send, judge, tries=self._tries, backoff=self._backoff(), after=after)
        except WireError as error:
            return (BindOutcome.UNKNOWN if ours else BindOutcome.FAILED), str(error)

    async def _judge(self, binding: Binding, error: WireError, *, ours: bool) -> tuple[BindOutcome, str] | None:
        """Say what an error means for the pod; None where another try is in order."""
        if isinstance(error, NotSent):
            return None
        if isinstance(error, ApiError):
            if error.status == HTTPStatus.NOT_FOUND:
                return BindOutcome.GONE, str(error)
            if error.status == HTTPStatus.TOO_MANY_REQUESTS:
                return None
            if error.status != HTTPStatus.CONFLICT and not error.retryable:
                return BindOutcome.REFUSED, str(error)
        try:
            return await self._look(binding, ours=ours)
        except WireError as unread:
            log.debug("pod_not_read_back", namespace=binding.namespace, name=binding.name, error=str(unread))
            return None if is_retryable(unread) else (BindOutcome.UNKNOWN, f"{error}; then: {unread}")

    async def _look(self, binding: Binding, *, ours: bool) -> tuple[BindOutcome, str] | None:
        """Read the pod and say what is the matter with it; None where nothing is."""
        pod = await read_pod(self._client, binding.namespace, binding.name, uid=binding.uid, tries=2)
        if pod is None:
            return BindOutcome.GONE, "the pod is no more"
        if pod.spec.node_name == binding.node:
            return BindOutcome.BOUND if ours else BindOutcome.ALREADY_HERE, "found bound when read back"
        if pod.spec.node_name:
            return BindOutcome.ELSEWHERE, f"the pod is on node {pod.spec.node_name!r}"
        if pod.metadata.deletion_timestamp:
            return BindOutcome.GONE, "the pod is being deleted"
        if pod.spec.scheduling_gates:
            gates = ", ".join(str(gate.get("name")) for gate in pod.spec.scheduling_gates)
            return BindOutcome.GATED, f"the pod has scheduling gates: {gates}"
        return None


def _may_have_landed(error: WireError) -> bool:
    """Whether the write may take effect, or already has, although this is what came back."""
    if isinstance(error, ApiError):
        return error.status >= HTTPStatus.INTERNAL_SERVER_ERROR
    return isinstance(error, UnknownOutcome)


def _encode(binding: Binding) -> bytes:
    """Return the body of a binding (core/v1 Binding)."""
    metadata: dict[str, object] = {"name": binding.name, "namespace": binding.namespace, "uid": binding.uid}
    if binding.annotations:
        metadata["annotations"] = binding.annotations
    return msgspec.json.encode(
        {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": metadata,
            "target": {"apiVersion": "v1", "kind": "Node", "name": binding.node},
        }
    )


_CLAIM_TRIES = 4


class _Written(msgspec.Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()


_WRITTEN = msgspec.json.Decoder(_Written)
_CLAIM = object_decoder(PersistentVolumeClaim)
_VOLUME = object_decoder(PersistentVolume)


@dataclass(frozen=True, slots=True)
class ClaimResult:
    """What became of a write: the version that it stands under now, or why it does not."""

    done: bool
    version: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class _Write:
    """One write: where, what (without the version), and how an object that has changed meanwhile is judged.

    `judge` returns whether the object says already what was to be written, and its version; it raises `_Overtaken`
    where somebody else has decided.
    """

    path: str
    body: Mapping[str, Any]
    judge: Callable[[bytes], tuple[bool, str]]


class _Overtaken(Exception):  # noqa: N818 - what has happened to the choice
    """Somebody else has decided on the claim or the volume; says what."""


class ClaimWriter:
    """Writes choices, each as often as it takes."""

    def __init__(self, client: Client, *, fence: Fence) -> None:
        self._client = client
        self._fence = fence

    async def select_node(self, namespace: str, name: str, uid: str, node: str, *, version: str) -> ClaimResult:
        """Write the node that a claim's volume is to be made for.

        Raises:
            LeadershipLost: Before anything, or anything more, was sent.
        """

        def judge(body: bytes) -> tuple[bool, str]:
            """Judge a claim that has changed."""
            claim = _CLAIM(body)
            if claim.metadata.uid != uid or claim.metadata.deletion_timestamp is not None:
                raise _Overtaken("it was deleted")
            if claim.spec.volume_name:
                raise _Overtaken(f"it was bound to {claim.spec.volume_name!r}")
            if claim.selected_node not in ("", node):
                raise _Overtaken(f"node {claim.selected_node!r} was chosen for it")
            return claim.selected_node == node, claim.metadata.resource_version

        body = {"metadata": {"uid": uid, "annotations": {SELECTED_NODE: node}}}
        write = _Write(PERSISTENT_VOLUME_CLAIMS.path(namespace, name), body, judge)
        return await self._settle(write, version, what=f"{namespace}/{name}")

    async def reserve_volume(self, namespace: str, name: str, uid: str, volume: str, *, version: str) -> ClaimResult:
        """Write into a volume that it is for a claim (component-helpers/storage/volume, GetBindVolumeToClaim, 1.36).

        Raises:
            LeadershipLost: Before anything, or anything more, was sent.
        """

        def judge(body: bytes) -> tuple[bool, str]:
            """Judge a volume that has changed."""
            found = _VOLUME(body)
            reference = found.spec.claim_ref
            if found.metadata.deletion_timestamp is not None:
                raise _Overtaken(f"volume {volume!r} is being deleted")
            if reference is not None and (reference.namespace, reference.name) != (namespace, name):
                raise _Overtaken(f"volume {volume!r} is for claim {reference.namespace}/{reference.name}")
            if reference is not None and reference.uid not in ("", uid):
                raise _Overtaken(f"volume {volume!r} is for a claim of that name that is no more")
            return reference is not None and reference.uid == uid, found.metadata.resource_version

        claim = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": namespace,
            "name": name,
            "uid": uid,
        }
        body = {"metadata": {"annotations": {BOUND_BY_CONTROLLER: "yes"}}, "spec": {"claimRef": claim}}
        write = _Write(PERSISTENT_VOLUMES.path(None, volume), body, judge)
        return await self._settle(write, version, what=volume)

    async def _settle(self, write: _Write, version: str, *, what: str) -> ClaimResult:
        """Write until it stands, or somebody else has decided."""
        try:
            for _ in range(_CLAIM_TRIES):
                try:
                    return ClaimResult(done=True, version=await self._patch(write, version))
                except ApiError as error:
                    if error.status != HTTPStatus.CONFLICT:
                        raise
                stands, version = write.judge(await retrying(lambda: self._client.request("GET", write.path)))
                if stands:
                    return ClaimResult(done=True, version=version)
        except (WireError, _Overtaken) as error:
            log.warning("claim_not_written", object=what, error=str(error))
            return ClaimResult(done=False, message=str(error))
        return ClaimResult(done=False, message="it changes too often")

    async def _patch(self, write: _Write, version: str) -> str:
        """Write over one version; an answer that was lost is found out about by the conflict that the next try meets.

        Returns:
            The version written.
        """
        metadata = {**write.body["metadata"], "resourceVersion": version}
        body = msgspec.json.encode({**write.body, "metadata": metadata})

        async def attempt() -> bytes:
            return await self._client.write(
                PriorityLevel.BIND, "PATCH", write.path, body=body, fence=self._fence, content_type=MERGE_PATCH
            )

        return _WRITTEN.decode(await retrying(attempt)).metadata.resource_version
