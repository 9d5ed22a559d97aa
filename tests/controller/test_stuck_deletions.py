"""What nobody lets go though nothing uses it: kopf looks after no kind whose definition is being deleted."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from tests.controller.objects import cluster_queue, obj
from tests.controller.process import until
from tutti.controller.discovery import OUR_RESOURCES
from tutti.controller.kopf_handlers import FINALIZER, DeletionGuard
from tutti.controller.object_cache import ObjectCache
from tutti.controller.stuck_deletions import StuckDeletions
from tutti.kube.client import Client
from tutti.kube.credentials import Credentials
from tutti.kube.fencing import unfenced

QUEUES, FLAVORS = OUR_RESOURCES["ClusterQueue"], OUR_RESOURCES["ResourceFlavor"]
OTHERS = "example.com/other"


@asynccontextmanager
async def looked_after(kubeconfig, *, leads=True):
    """Somebody who looks after a cluster without kopf; gives what he is told of it by."""
    catalogue, deciding = ObjectCache(), asyncio.Event()
    if leads:
        deciding.set()
    guard = DeletionGuard(catalogue, deciding=deciding, record=lambda _: None)
    async with Client(await Credentials.load(kubeconfig)) as client:
        stuck = StuckDeletions(client, guard, catalogue, fence=unfenced, patience_seconds=0.05)
        work = asyncio.create_task(stuck.run())
        yield catalogue
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work


async def left(cluster, resource, name):
    """The finalizers of an object; None where it is gone."""
    found = await cluster.get(resource, name)
    return None if found is None else found["metadata"].get("finalizers", [])


async def delete_both(cluster, catalogue, *finalizers):
    """Delete a queue that nothing uses and the flavor that the queue uses; shows that."""
    await cluster.create(FLAVORS, obj("ResourceFlavor", "f", finalizers=[FINALIZER]))
    queue = cluster_queue()
    queue["metadata"]["finalizers"] = [FINALIZER, *finalizers]
    await cluster.create(QUEUES, queue)
    for kind, name in (("ResourceFlavor", "f"), ("ClusterQueue", "cq")):
        await cluster.delete(OUR_RESOURCES[kind], name)
        catalogue.seen(kind, await cluster.get(OUR_RESOURCES[kind], name))


async def test_what_nothing_uses_goes_and_then_what_that_has_used(cluster, kubeconfig):
    async with looked_after(kubeconfig) as catalogue:
        await delete_both(cluster, catalogue)
        await until(lambda: gone(cluster, QUEUES, "cq"))
        assert await left(cluster, FLAVORS, "f") == [FINALIZER]
        catalogue.gone("ClusterQueue", "", "cq")
        await until(lambda: gone(cluster, FLAVORS, "f"))


async def gone(cluster, resource, name):
    return await left(cluster, resource, name) is None


async def test_what_others_hold_stays_theirs(cluster, kubeconfig):
    async with looked_after(kubeconfig) as catalogue:
        await delete_both(cluster, catalogue, OTHERS)
        await until(lambda: only_theirs(cluster))


async def only_theirs(cluster):
    return await left(cluster, QUEUES, "cq") == [OTHERS]


async def test_who_does_not_lead_lets_nothing_go(cluster, kubeconfig):
    async with looked_after(kubeconfig, leads=False) as follower, looked_after(kubeconfig) as leader:
        await delete_both(cluster, follower)
        await cluster.create(FLAVORS, obj("ResourceFlavor", "other", finalizers=[FINALIZER]))
        await cluster.delete(FLAVORS, "other")
        for one in (follower, leader):
            one.seen("ResourceFlavor", await cluster.get(FLAVORS, "other"))
        await until(lambda: gone(cluster, FLAVORS, "other"))
        assert await left(cluster, QUEUES, "cq") == [FINALIZER]
