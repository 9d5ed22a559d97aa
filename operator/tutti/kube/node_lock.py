"""Locks a node for one pod before that is bound, as HAMi's own scheduler does (HAMi 2.9, pkg/util/nodelock).

The lock is an annotation of the node with the time and the pod. It is written over the version of the node that was
read, so that of two who want it one gets it; HAMi's device plugin takes it off once it has served the pod. One of a
pod that is no more gives way, and one that was decided to be a leftover. A pod that is then not bound gives it back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from http import HTTPStatus
from typing import Any, Final

import msgspec
import structlog

from tutti.api.cards import NodeCards, overdrawn_card, parts_as_asked, peak_use
from tutti.api.core import Node, Pod
from tutti.api.hami import LOCK, NODE, read_cards, read_lock, read_needs, read_parts
from tutti.engine.records.decisions import Bind, CardLock
from tutti.kube.client import MERGE_PATCH, Client
from tutti.kube.decoding import object_decoder
from tutti.kube.errors import ApiError, WireError
from tutti.kube.fencing import Fence
from tutti.kube.fetching import ListScope, fetch_all, read_pod
from tutti.kube.flow_control import PriorityLevel
from tutti.kube.resources import NODES, PODS
from tutti.kube.retry import retrying

log = structlog.get_logger(__name__)

_TRIES: Final = 5
_LONGEST_LABEL: Final = 63
_NODE = object_decoder(Node)
_POD = object_decoder(Pod)


async def lock_node(client: Client, bind: Bind, lock: CardLock, *, fence: Fence) -> str:
    """Lock the node of a pod for it, and label the pod with the node, by which HAMi's monitor finds it.

    Whoever has the lock is the only one who gives away cards of the node. What others were given before it was taken,
    and the engine had not seen when it decided, is read then: what is not free any more is not promised.

    Returns:
        Why it cannot be; "" where it is done.

    Raises:
        LeadershipLost: Before anything, or anything more, was sent.
    """
    path, taken = NODES.path(None, bind.node), False
    try:
        for _ in range(_TRIES):
            node = _NODE(await retrying(lambda: client.request("GET", path)))
            why = await _in_the_way(client, bind, lock, node)
            if why:
                return why
            try:
                if not _is_ours(bind, node):
                    await _annotate(client, path, node, lock.text, fence)
                taken = True
                break
            except ApiError as error:
                if error.status != HTTPStatus.CONFLICT:
                    raise
        if not taken:
            return f"node {bind.node} changes too often to be locked for HAMi"
        if len(bind.node) <= _LONGEST_LABEL:
            meta = {"uid": bind.uid, "labels": {NODE: bind.node}}
            await _patch(client, PODS.path(bind.namespace, bind.name), {"metadata": meta}, fence)
        why = await _given_away(client, bind, lock, node)
    except WireError as error:
        why = f"node {bind.node} could not be locked for HAMi: {error}"
        if isinstance(error, ApiError) and error.status == HTTPStatus.FORBIDDEN:
            why = f"nodes cannot be locked for HAMi, or pods labelled (manifests/components/hami): {error}"
    if why and taken:
        await unlock_node(client, bind, fence=fence)
    return why


async def unlock_node(client: Client, bind: Bind, *, fence: Fence) -> None:
    """Give back the lock of a pod that was not bound; where that fails, the next to bind there finds it a leftover.

    Raises:
        LeadershipLost: Before anything, or anything more, was sent.
    """
    path = NODES.path(None, bind.node)
    try:
        for _ in range(_TRIES):
            node = _NODE(await retrying(lambda: client.request("GET", path)))
            if not _is_ours(bind, node):
                return
            try:
                await _annotate(client, path, node, None, fence)
            except ApiError as error:
                if error.status != HTTPStatus.CONFLICT:
                    raise
            else:
                return
    except WireError as error:
        log.warning("node_not_unlocked", node=bind.node, namespace=bind.namespace, name=bind.name, error=str(error))


async def _in_the_way(client: Client, bind: Bind, wanted: CardLock, node: Node) -> str:
    """Return whose lock must not be replaced; "" where there is none."""
    lock = read_lock(node.metadata.annotations)
    if lock is None or _is_ours(bind, node) or lock.text == wanted.replaces:
        return ""
    if lock.namespace and lock.name and await read_pod(client, lock.namespace, lock.name, uid="", tries=2) is None:
        return ""
    return f"node {bind.node} is locked for pod {lock.namespace}/{lock.name} by HAMi ({LOCK})"


def _is_ours(bind: Bind, node: Node) -> bool:
    lock = read_lock(node.metadata.annotations)
    return lock is not None and (lock.namespace, lock.name) == (bind.namespace, bind.name)


async def _given_away(client: Client, bind: Bind, lock: CardLock, node: Node) -> str:
    """Return which card of a pod others were given before the lock was taken, and nobody had seen it; "" if none."""
    told = read_cards(node.metadata.annotations)
    gone = lock.left.keys() - {card.id for card in (told.cards if told is not None else ())}
    if gone:
        return f"node {bind.node} does not tell of card {min(gone)} any more"
    scope = ListScope(PODS.path(None), field_selector=f"spec.nodeName={bind.node}")
    known = {bind.uid, *lock.counted}
    unseen = [
        _use(pod, told)
        for pod in _readable(await fetch_all(client, scope))
        if pod.metadata.uid not in known and not pod.terminated and pod.metadata.annotations.get(NODE) == bind.node
    ]
    return overdrawn_card(lock.left, unseen)


def _readable(pods: Iterable[msgspec.Raw]) -> Iterator[Pod]:
    """Yield pods but for those that cannot be read: whoever watches pods says so, and counts nothing for them."""
    for raw in pods:
        with suppress(ValueError):
            yield _POD(raw)


def _use(pod: Pod, told: NodeCards | None) -> dict[str, tuple[int, int, int]]:
    """Return what a pod has of each card, by what its annotations say: MiB, percent of compute, slots."""
    said = pod.metadata.annotations
    needs = read_needs(pod.spec, said)
    stated = read_parts(said, len(pod.spec.init_containers) + len(pod.spec.containers))
    return peak_use(parts_as_asked(stated, needs, told), needs.first)


async def _annotate(client: Client, path: str, node: Node, lock: str | None, fence: Fence) -> None:
    meta = {"resourceVersion": node.metadata.resource_version, "annotations": {LOCK: lock}}
    await _patch(client, path, {"metadata": meta}, fence)


async def _patch(client: Client, path: str, change: dict[str, Any], fence: Fence) -> None:
    body = msgspec.json.encode(change)

    async def attempt() -> bytes:
        return await client.write(PriorityLevel.BIND, "PATCH", path, body=body, fence=fence, content_type=MERGE_PATCH)

    await retrying(attempt)
