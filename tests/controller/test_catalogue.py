"""What wakes those who wait for a change of our kinds, and what does not."""

from __future__ import annotations

import asyncio

from tests.controller.objects import local_queue, obj
from tutti.controller.object_cache import ObjectCache


def queue(*, generation=1, deleting=False, pending=0, conditions=()):
    meta = {"name": "cq", "uid": "u", "generation": generation, "resourceVersion": str(generation + pending)}
    if deleting:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return {"metadata": meta, "spec": {}, "status": {"pendingWorkloads": pending, "conditions": list(conditions)}}


def workload(name):
    return {"metadata": {"name": name, "namespace": "team"}, "status": {"conditions": []}}


def test_a_change_of_usage_alone_wakes_nobody():
    catalogue = ObjectCache()
    catalogue.seen("ClusterQueue", queue())
    version = catalogue.version

    catalogue.seen("ClusterQueue", queue(pending=5))
    catalogue.seen("Workload", workload("a"))

    assert catalogue.version == version


def test_a_new_generation_and_a_new_condition_wake():
    catalogue = ObjectCache()
    catalogue.seen("ClusterQueue", queue())
    catalogue.seen("ClusterQueue", queue(generation=2))
    assert catalogue.version == 2

    catalogue.seen("ClusterQueue", queue(generation=2, conditions=[{"type": "Active", "status": "True"}]))
    assert catalogue.version == 3
    assert catalogue.stored["ClusterQueue", "", "cq"].condition("Active") == {"type": "Active", "status": "True"}
    assert catalogue.stored["ClusterQueue", "", "cq"].condition("Other") == {}


def test_users_are_counted_only_while_a_queue_waits_to_be_deleted():
    holds = {("PodGroup", "team", "a"): "cq"}
    catalogue = ObjectCache(lambda: dict(holds))
    catalogue.seen("ClusterQueue", queue())
    assert not catalogue.count_users()

    catalogue.seen("ClusterQueue", queue(deleting=True))
    assert catalogue.count_users()
    assert catalogue.specs.admitted == holds
    assert not catalogue.count_users()
    holds.clear()
    assert catalogue.count_users()


def test_what_a_new_list_does_not_show_is_gone_and_what_it_shows_stays_known_meanwhile():
    catalogue = ObjectCache()
    for name in ("a", "b"):
        catalogue.seen("ResourceFlavor", obj("ResourceFlavor", name))
    catalogue.seen("LocalQueue", local_queue())
    before = catalogue.version
    catalogue.keep({("ResourceFlavor", "", "a"), ("LocalQueue", "default", "lq")})
    assert sorted(catalogue.stored) == [("LocalQueue", "default", "lq"), ("ResourceFlavor", "", "a")]
    assert list(catalogue.specs.flavors) == ["a"]
    assert catalogue.version > before
    before = catalogue.version
    catalogue.keep(catalogue.stored.keys())
    assert catalogue.version == before


def test_what_was_never_seen_can_go_without_waking_anybody():
    catalogue = ObjectCache()
    catalogue.gone("Topology", "", "racks")
    catalogue.gone("PodGroup", "team", "a")
    assert catalogue.version == 0


async def test_a_waiter_gets_the_version_it_has_not_seen():
    catalogue = ObjectCache()
    waiting = asyncio.ensure_future(catalogue.changed(0))
    await asyncio.sleep(0)
    assert not waiting.done()

    catalogue.seen("Topology", {"metadata": {"name": "racks"}})
    assert await asyncio.wait_for(waiting, 60) == 1
    assert await catalogue.changed(0) == 1
