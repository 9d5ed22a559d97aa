"""Which shard has what, as it is read from the API server and written there.

It is written by compare-and-swap: whoever gives something up has read it just now, and the server refuses where it has
changed since. So what a former leader sends late has no effect on what has gone to somebody else meanwhile.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, Final

import msgspec
import structlog

from tutti.api.core import Node, Pod
from tutti.api.frameworks.fields import FieldReader
from tutti.api.shards import DEFAULT_SHARD, SHARD_ANNOTATION
from tutti.controller.discovery import OUR_RESOURCES
from tutti.engine.records.pod_admission import ADMISSION_ANNOTATION, admission_in_status
from tutti.kube.client import MERGE_PATCH, Client
from tutti.kube.decoding import object_decoder
from tutti.kube.errors import ApiError, WireError
from tutti.kube.fencing import Fence
from tutti.kube.fetching import FIRST_PAGE, ListScope, fetch_object, fetch_page, next_limit
from tutti.kube.flow_control import PriorityLevel
from tutti.kube.resources import NAMESPACES, NODES, PODS, APIResource
from tutti.kube.retry import retrying
from tutti.shards.ownership import CLUSTER_QUEUE, COHORT, NAMESPACE, NODE, Holding, Ownership

log = structlog.get_logger(__name__)

_RESOURCES: Final[Mapping[str, APIResource]] = MappingProxyType(
    {
        NODE: NODES,
        NAMESPACE: NAMESPACES,
        CLUSTER_QUEUE: OUR_RESOURCES[CLUSTER_QUEUE],
        COHORT: OUR_RESOURCES[COHORT],
    }
)
_PAGE: Final = 2000
_TRIES: Final = 5


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""
    creation_timestamp: str = ""
    labels: dict[str, Any] = {}
    annotations: dict[str, Any] = {}


class _Head(msgspec.Struct, frozen=True):
    """As much of an object of any kind as says whose it is."""

    metadata: _Meta = _Meta()
    spec: Any = None

    def named(self, field: str) -> str:
        """Return what a field of the spec names; "" where it names nothing."""
        return FieldReader(self.spec).text(field)


class _Admission(msgspec.Struct, frozen=True, rename="camel"):
    cluster_queue: str = ""


_HEAD: Final = object_decoder(_Head)
_POD: Final = object_decoder(Pod)
_NODE: Final = object_decoder(Node)
_ADMISSION: Final = msgspec.json.Decoder(_Admission)


async def read_ownership(client: Client, ownership: Ownership) -> None:
    """Tell of everything that shards have; LocalQueues first, by which namespaces go.

    Raises:
        WireError: It could not be read.
    """
    async for one in _each(client, OUR_RESOURCES["LocalQueue"]):
        meta = one.metadata
        ownership.put_local_queue(meta.namespace, meta.name, meta.creation_timestamp, one.named("clusterQueue"))
    async for one in _each(client, _RESOURCES[COHORT]):
        ownership.put_cohort(one.metadata.name, one.named("parentName"), one.metadata.annotations)
    async for one in _each(client, _RESOURCES[CLUSTER_QUEUE]):
        ownership.put_cluster_queue(one.metadata.name, one.named("cohortName"), one.metadata.annotations)
    async for one in _each(client, NAMESPACES):
        ownership.put_namespace(one.metadata.name, one.metadata.annotations)
    async for one in _each(client, NODES):
        ownership.put_node(one.metadata.name, one.metadata.labels, one.metadata.annotations)


async def _each(client: Client, resource: APIResource) -> AsyncIterator[_Head]:
    async for raw in _raws(client, ListScope(resource.path())):
        yield _HEAD(raw)


async def _raws(client: Client, scope: ListScope) -> AsyncIterator[msgspec.Raw]:
    """Yield what there is, a page after the other: nodes are large."""
    cursor, limit = "", FIRST_PAGE
    while True:
        page = await fetch_page(client, scope, limit=limit, cursor=cursor)
        for raw in page.items or ():
            yield raw
        cursor, limit = page.metadata.cursor, next_limit(limit, page, most=_PAGE)
        if not cursor:
            return


async def read_node(client: Client, name: str) -> Node | None:
    """Return a node as it is now; None where there is none.

    Raises:
        WireError: It could not be read.
    """
    body = await fetch_object(client, NODES.path(name=name))
    return None if body is None else _NODE(body)


async def read_pods(client: Client, *, node: str = "", namespace: str = "") -> list[Pod]:
    """Return the pods that are on a node, or in a namespace, now.

    Raises:
        WireError: They could not be read.
    """
    scope = ListScope(PODS.path(namespace or None), field_selector=f"spec.nodeName={node}" if node else "")
    return [_POD(raw) async for raw in _raws(client, scope)]


async def read_charges(client: Client) -> Counter[tuple[str, str]]:
    """Return how many pods with a node hold quota, by namespace and ClusterQueue.

    Raises:
        WireError: They could not be read.
    """
    found: Counter[tuple[str, str]] = Counter()
    async for raw in _raws(client, ListScope(PODS.path())):
        pod = _POD(raw)
        said = admission_in_status(pod) or pod.metadata.annotations.get(ADMISSION_ANNOTATION, "")
        if said and pod.spec.node_name and not pod.terminated:
            try:
                queue = _ADMISSION.decode(said).cluster_queue
            except msgspec.MsgspecError:
                continue  # no admission of ours
            found[pod.metadata.namespace, queue] += 1
    return found


async def hand_over(client: Client, holding: Holding, giver: str, taker: str, *, fence: Fence) -> bool:
    """Write that another shard has something from now on; returns whether that is so, or it is no more.

    Args:
        client: Reads and writes.
        holding: What is given up.
        giver: The shard that has it; where another one has it by now, nothing is written.
        taker: The shard that is to have it.
        fence: That of the giver's lease.

    Raises:
        LeadershipLost: The giver may write nothing any more.
    """
    path = _RESOURCES[holding.kind].path(name=holding.name)
    for _ in range(_TRIES):
        try:
            head = _HEAD(await retrying(lambda: client.request("GET", path)))
            has = head.metadata.annotations.get(SHARD_ANNOTATION) or DEFAULT_SHARD
            if has != giver:
                return has == taker
            said = {"resourceVersion": head.metadata.resource_version, "annotations": {SHARD_ANNOTATION: taker}}
            body = msgspec.json.encode({"metadata": said})
            await client.write(PriorityLevel.STATUS, "PATCH", path, body=body, fence=fence, content_type=MERGE_PATCH)
        except ApiError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return True
            if error.status == HTTPStatus.CONFLICT:
                continue  # nodes change often
            return _not_handed_over(holding, taker, error)
        except WireError as error:
            return _not_handed_over(holding, taker, error)
        log.info("handed_over", kind=holding.kind, name=holding.name, shard=giver, to=taker)
        return True
    return False


def _not_handed_over(holding: Holding, taker: str, error: WireError) -> bool:
    log.warning("not_handed_over", kind=holding.kind, name=holding.name, to=taker, error=str(error))
    return False
