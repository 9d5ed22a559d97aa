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

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from http import HTTPStatus
from time import perf_counter
from typing import Any, Final, NamedTuple

import msgspec
import structlog

from tutti.api.core import ObjectMeta
from tutti.api.storage import BOUND_BY_CONTROLLER, SELECTED_NODE, PersistentVolume, PersistentVolumeClaim
from tutti.engine.records.decisions import Bind, ReserveVolume, SelectNode
from tutti.engine.records.observations import BindAnswer, ClaimWritten
from tutti.kube.amending import GONE, amend_pod
from tutti.kube.client import JSON, MERGE_PATCH, Client
from tutti.kube.decoding import object_decoder
from tutti.kube.errors import ApiError, NotSent, UnknownOutcome, WireError, is_retryable
from tutti.kube.fencing import GENERATION_ANNOTATION, Fence, LeaseTerm, no_term
from tutti.kube.fetching import read_pod
from tutti.kube.flow_control import PriorityLevel
from tutti.kube.node_lock import lock_node, unlock_node
from tutti.kube.protobuf import PROTOBUF, binding
from tutti.kube.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS
from tutti.kube.retry import Backoff, retrying, settling

log = structlog.get_logger(__name__)


class BindOutcome(Enum):
    """What became of a binding: the word of metrics and logs, and the answer that the engine is given.

    The pod is on the node: BOUND (by this call), ALREADY_HERE (before it). It is not, and will not be: ELSEWHERE (on
    another node), GONE (deleted, being deleted, or its name taken by another pod), GATED (a scheduling gate was added),
    REFUSED (the server does not allow it). FAILED: it is not, after all tries. UNKNOWN: it may be, or become so.
    """

    BOUND = "bound", BindAnswer.BOUND
    ALREADY_HERE = "already_here", BindAnswer.BOUND
    ELSEWHERE = "elsewhere", BindAnswer.BOUND_ELSEWHERE
    GONE = "gone", BindAnswer.GONE
    GATED = "gated", BindAnswer.GATED
    REFUSED = "refused", BindAnswer.FAILED
    FAILED = "failed", BindAnswer.FAILED
    UNKNOWN = "unknown", BindAnswer.UNKNOWN

    def __init__(self, label: str, answer: BindAnswer) -> None:
        self.label = label
        self.answer = answer


class BindResult(NamedTuple):
    """What became of a binding; `message` explains anything but BOUND to people."""

    outcome: BindOutcome
    message: str = ""


class FirstTry(NamedTuple):
    """The first try of a bind that did not end with it.

    Attributes:
        began: Since when it was waited for, by `time.perf_counter`.
        annotations: What it wrote into the pod.
        content_type: What it was written in.
        error: What came back.
    """

    began: float
    annotations: Mapping[str, str]
    content_type: str
    error: WireError


_BOUND: Final = BindResult(BindOutcome.BOUND)
_ON_NODE: Final = BindAnswer.BOUND
_LEVEL: Final = PriorityLevel.BIND
_UNREAD: Final = frozenset({HTTPStatus.BAD_REQUEST, HTTPStatus.UNSUPPORTED_MEDIA_TYPE})


class Binder:
    """Sends bindings, at the most important priority level; each records the term of the lease it is sent in."""

    def __init__(
        self,
        client: Client,
        *,
        fence: Fence,
        term: Callable[[], LeaseTerm | None] = no_term,
        tries: int = 5,
        backoff: Callable[[], Backoff] = Backoff,
    ) -> None:
        self._client = client
        self._fence = fence
        self._term = term
        self._tries = tries
        self._backoff = backoff
        self._content_type = PROTOBUF  # until it is refused where JSON is taken
        self._observe_seconds = client.metrics.bind_seconds.observe
        self._counts = {outcome: client.metrics.writes.labels("bind", outcome.label) for outcome in BindOutcome}

    async def bind(self, bind: Bind) -> BindResult:
        """Bind one pod, trying again while that can help.

        Raises:
            LeadershipLost: Before anything, or anything more, was sent.
        """
        tried = await self.try_first(bind, perf_counter())
        return await self.go_on(bind, tried) if isinstance(tried, FirstTry) else tried

    async def try_first(self, bind: Bind, began: float) -> BindResult | FirstTry:
        """Send a binding once, and before it what has to be written first; `go_on` must follow a `FirstTry`.

        Args:
            bind: The pod and its node.
            began: Since when it waits to be sent, by `time.perf_counter`.

        Raises:
            LeadershipLost: Before anything, or anything more, was sent.
        """
        said, content_type = _annotations(bind, self._term()), self._content_type
        try:
            if bind.labels or bind.tolerations:
                wrong = await self._amend(bind)
                if wrong is not None:
                    return self._ended(bind, wrong, began)
            if bind.card_lock is not None:
                why = await lock_node(self._client, bind, bind.card_lock, fence=self._fence)
                if why:
                    return self._ended(bind, _failed(bind, why), began)
            await self._send(bind, said, content_type)
        except WireError as error:
            return FirstTry(began, said, content_type, error)
        return self._ended(bind, _BOUND, began)  # nearly always

    async def go_on(self, bind: Bind, tried: FirstTry) -> BindResult:
        """Find out what a first try has come to, and try again while that can help.

        Raises:
            LeadershipLost: Before anything more was sent.
        """
        result = await self._settle(bind, tried.annotations, tried.content_type, after=tried.error)
        if bind.card_lock is not None and result.outcome.answer not in (_ON_NODE, BindAnswer.UNKNOWN):
            await unlock_node(self._client, bind, fence=self._fence)
        return self._ended(bind, result, tried.began)

    def _ended(self, bind: Bind, result: BindResult, began: float) -> BindResult:
        """Measure, count and, where the pod is not on its node, log what has become of a bind."""
        self._observe_seconds(perf_counter() - began)
        outcome, message = result
        self._counts[outcome].inc()
        if outcome.answer is not _ON_NODE:
            log.info(
                "pod_not_bound",
                namespace=bind.namespace,
                name=bind.name,
                node=bind.node,
                outcome=outcome.label,
                message=message,
            )
        return result

    async def _amend(self, bind: Bind) -> BindResult | None:
        """Give a pod what admission checks add to it; returns why it is not bound, None where it may be."""
        try:
            wrong = await amend_pod(self._client, bind, fence=self._fence)
        except WireError as error:
            return _failed(bind, f"it could not be given what admission checks add to it: {error}")
        if not wrong:
            return None
        return BindResult(BindOutcome.GONE if wrong == GONE else BindOutcome.REFUSED, wrong)

    def _send(self, bind: Bind, annotations: Mapping[str, str], content_type: str) -> Awaitable[bytes]:
        """Write a binding, once this is awaited."""
        path = PODS.path(bind.namespace, bind.name, "binding")
        if content_type == PROTOBUF:
            body = binding(bind.namespace, bind.name, bind.uid, bind.node, annotations)
        else:
            body = _as_json(bind, annotations)
        return self._client.write(_LEVEL, "POST", path, body=body, fence=self._fence, content_type=content_type)

    async def _settle(
        self, bind: Bind, annotations: Mapping[str, str], content_type: str, *, after: WireError
    ) -> BindResult:
        """Say what the error of the first try means, and try again while that can help.

        Each bind whose protobuf may not have been read goes on in JSON, also where another has found out before it:
        many are under way at once.
        """
        ours = False  # whether an earlier attempt of this call may have been the one that bound it
        unread: WireError | None = None  # what was answered to protobuf, where JSON may do better

        async def send() -> BindResult:
            await self._send(bind, annotations, content_type)
            if unread is not None:
                self._keep_to_json(unread)
            return _BOUND

        async def judge(error: WireError) -> BindResult | None:
            nonlocal ours, unread, content_type
            ours = ours or _may_have_landed(error)
            if content_type == PROTOBUF and _unread(error):
                unread, content_type = error, JSON
                return None
            return await self._judge(bind, error, ours=ours)

        try:
            return await settling(send, judge, tries=self._tries, backoff=self._backoff(), after=after)
        except WireError as error:
            return BindResult(BindOutcome.UNKNOWN, str(error)) if ours else _failed(bind, str(error))

    def _keep_to_json(self, unread: WireError) -> None:
        """Bind in JSON from now on: it was taken where protobuf was refused."""
        if self._content_type != JSON:
            self._content_type = JSON
            log.info("bindings_in_json", answer=str(unread))

    async def _judge(self, bind: Bind, error: WireError, *, ours: bool) -> BindResult | None:
        """Say what an error means for the pod; None where another try is in order."""
        if isinstance(error, NotSent):
            return None
        if isinstance(error, ApiError):
            if error.status == HTTPStatus.NOT_FOUND:
                return BindResult(BindOutcome.GONE, str(error))
            if error.status == HTTPStatus.TOO_MANY_REQUESTS:
                return None
        final = isinstance(error, ApiError) and error.status != HTTPStatus.CONFLICT and not error.retryable
        try:
            found = await self._look(bind, ours=ours)
        except WireError as unread:
            log.debug("pod_not_read_back", namespace=bind.namespace, name=bind.name, error=str(unread))
            passes = is_retryable(unread) and not final
            return None if passes else BindResult(BindOutcome.UNKNOWN, f"{error}; then: {unread}")
        if found is None and final:
            return BindResult(BindOutcome.UNKNOWN if ours else BindOutcome.REFUSED, str(error))
        return found

    async def _look(self, bind: Bind, *, ours: bool) -> BindResult | None:
        """Read the pod and say what is the matter with it; None where nothing is."""
        pod = await read_pod(self._client, bind.namespace, bind.name, uid=bind.uid, tries=2)
        if pod is None:
            return BindResult(BindOutcome.GONE, "the pod is no more")
        if pod.spec.node_name == bind.node:
            return BindResult(BindOutcome.BOUND if ours else BindOutcome.ALREADY_HERE, "found bound when read back")
        if pod.spec.node_name:
            return BindResult(BindOutcome.ELSEWHERE, f"the pod is on node {pod.spec.node_name!r}")
        if pod.metadata.deletion_timestamp:
            return BindResult(BindOutcome.GONE, "the pod is being deleted")
        if pod.spec.scheduling_gates:
            gates = ", ".join(str(gate.get("name")) for gate in pod.spec.scheduling_gates)
            return BindResult(BindOutcome.GATED, f"the pod has scheduling gates: {gates}")
        return None


def _failed(bind: Bind, message: str) -> BindResult:
    """Return what became of a bind of which nothing has taken effect now; of one sent before, that may have then."""
    return BindResult(BindOutcome.UNKNOWN if bind.again else BindOutcome.FAILED, message)


def _unread(error: WireError) -> bool:
    """Whether the server, or what stands before it and looks into bodies, may not read protobuf."""
    return isinstance(error, ApiError) and error.status in _UNREAD


def _may_have_landed(error: WireError) -> bool:
    """Whether the write may take effect, or already has, although this is what came back."""
    if isinstance(error, ApiError):
        return error.status >= HTTPStatus.INTERNAL_SERVER_ERROR
    return isinstance(error, UnknownOutcome)


def _annotations(bind: Bind, term: LeaseTerm | None) -> Mapping[str, str]:
    """Return what a binding writes into its pod; in which term of the lease it was sent is part of it."""
    if term is None:
        return bind.annotations
    return {**bind.annotations, GENERATION_ANNOTATION: str(term.generation)}


def _as_json(bind: Bind, annotations: Mapping[str, str]) -> bytes:
    """Return the body of a binding for a server that reads no protobuf."""
    metadata: dict[str, object] = {"name": bind.name, "namespace": bind.namespace, "uid": bind.uid}
    if annotations:
        metadata["annotations"] = annotations
    target = {"kind": "Node", "name": bind.node}
    return msgspec.json.encode({"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target})


_CLAIM_TRIES = 4


class _Written(msgspec.Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()


_WRITTEN = msgspec.json.Decoder(_Written)
_CLAIM = object_decoder(PersistentVolumeClaim)
_VOLUME = object_decoder(PersistentVolume)


@dataclass(frozen=True, slots=True)
class _Write:
    """One write: about what, where, what (without the version), and how what has changed meanwhile is judged.

    `judge` returns whether the object says already what was to be written, and its version; it raises `_Overtaken`
    where somebody else has decided.
    """

    about: str
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

    async def select_node(self, choice: SelectNode) -> ClaimWritten:
        """Write the node that a claim's volume is to be made for.

        Raises:
            LeadershipLost: Before anything, or anything more, was sent.
        """
        namespace, name, uid, node = choice.namespace, choice.name, choice.uid, choice.node

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
        write = _Write(f"{namespace}/{name}", PERSISTENT_VOLUME_CLAIMS.path(namespace, name), body, judge)
        return await self._settle(choice, write, target=node)

    async def reserve_volume(self, choice: ReserveVolume) -> ClaimWritten:
        """Write into a volume that it is for a claim (component-helpers/storage/volume, GetBindVolumeToClaim, 1.36).

        Raises:
            LeadershipLost: Before anything, or anything more, was sent.
        """
        namespace, name, uid, volume = choice.namespace, choice.name, choice.uid, choice.volume

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
        write = _Write(volume, PERSISTENT_VOLUMES.path(None, volume), body, judge)
        return await self._settle(choice, write, target=volume)

    async def _settle(self, choice: SelectNode | ReserveVolume, write: _Write, *, target: str) -> ClaimWritten:
        """Write until it stands, or somebody else has decided."""
        version, stands, why = choice.version, False, ""
        try:
            for _ in range(_CLAIM_TRIES):
                try:
                    version, stands = await self._patch(write, version), True
                except ApiError as error:
                    if error.status != HTTPStatus.CONFLICT:
                        raise
                    stands, version = write.judge(await retrying(lambda: self._client.request("GET", write.path)))
                if stands:
                    break
        except (WireError, _Overtaken) as error:
            why = str(error)
            log.warning("claim_not_written", object=write.about, error=why)
        if stands:
            return ClaimWritten(choice.namespace, choice.name, choice.uid, target, done=True, version=version)
        message = why or "it changes too often"
        return ClaimWritten(choice.namespace, choice.name, choice.uid, target, done=False, message=message)

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
