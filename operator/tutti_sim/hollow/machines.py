"""What is done to nodes over time: drained, killed, revived, uncordoned, removed, as a schedule has it or on demand."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

import structlog

from tutti_sim.controllers.worker import Place, Tended, Worker
from tutti_sim.hollow.nodes import switched
from tutti_sim.hollow.shapes import Deed
from tutti_sim.hollow.timetable import follow_time
from tutti_sim.kinds.resource import Resource
from tutti_sim.meta import Json
from tutti_sim.meta.errors import ApiError
from tutti_sim.rest import binding
from tutti_sim.rest.backend import Backend
from tutti_sim.rest.local import Local
from tutti_sim.rest.metadata import User
from tutti_sim.store.collection import Key, Version

log = structlog.get_logger()


OPERATOR = User("node-operator", ("system:masters", "system:authenticated"))
REFUSED = 429
GONE = 404


def picked(deed: Deed, nodes: Sequence[str], *, seed: int, turn: int) -> list[str]:
    """The nodes that a deed is done to, out of all there are; the same for the same seed and turn."""
    found = sorted(name for name in nodes if fnmatchcase(name, deed.nodes))
    if deed.pick is None or deed.pick >= len(found):
        return found
    draw = random.Random(f"{seed}/{deed.at}/{deed.do}/{deed.nodes}/{turn}")  # noqa: S311 - no secret
    return sorted(draw.sample(found, deed.pick))


class Machines:
    """Whoever stands in front of the machines.

    Args:
        schedule: what to do, and when.
        seed: seed of what the schedule leaves to chance.
    """

    def __init__(self, backend: Backend, schedule: Iterable[Deed] = (), seed: int = 0) -> None:
        self._backend = backend
        self._local = Local(backend, "node-operator")
        self._nodes = Tended(backend, "", "v1", "nodes")
        self._pods = Tended(backend, "", "v1", "pods")
        self._schedule = tuple(schedule)
        self._seed = seed
        self._draining: dict[Key, None] = {}
        self._worker = Worker("node-operator", self._sync)

    def follow(self, resource: Resource, old: Version | None, new: Version | None) -> None:
        """Go on draining when a pod has gone, or a budget may allow more."""
        if not self._draining or resource.storage not in (self._pods.storage, "poddisruptionbudgets.policy"):
            return
        if resource.storage == self._pods.storage and (new is not None or old is None):
            return
        for key in self._draining:
            self._worker.note((self._nodes.storage, key))

    async def run(self) -> None:
        """Do what the schedule says until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._worker.run())
            for deed in self._schedule:
                tasks.create_task(self._follow_schedule(deed))

    async def _follow_schedule(self, deed: Deed) -> None:
        async for turn in follow_time(deed.at, deed.every):
            names = [version.key[1] for version in self._nodes.scan()]
            for name in picked(deed, names, seed=self._seed, turn=turn):
                self.do(deed.do, name)

    def do(self, what: str, name: str) -> None:
        """Do something to a node, if it is there: drain, uncordon, kill, revive or remove."""
        current = self._nodes.get(("", name))
        if current is None:
            return
        log.info("node_operated", node=name, what=what)
        match what:
            case "drain":
                self._cordon(current, cordoned=True)
                self._draining[current.key] = None
                self._worker.note((self._nodes.storage, current.key))
            case "uncordon":
                self._draining.pop(current.key, None)
                self._cordon(current, cordoned=False)
            case "kill" | "revive":
                meta = switched(current.obj, on=what == "revive")
                self._local.write(self._nodes.resource, current, {**current.obj, "metadata": meta})
            case "remove":
                self._local.remove(self._nodes.resource, current)
            case _:
                raise ValueError(f"nodes cannot be told to {what!r}; known: drain, uncordon, kill, revive, remove")

    def _cordon(self, current: Version, *, cordoned: bool) -> None:
        spec = {key: value for key, value in current.obj.get("spec", {}).items() if key != "unschedulable"}
        if cordoned:
            spec["unschedulable"] = True
        meta = dict(current.obj["metadata"])
        self._local.write(self._nodes.resource, current, {**current.obj, "metadata": meta, "spec": spec})

    async def _sync(self, place: Place) -> None:
        """Evict what is left on a node that is being drained; what its budget keeps is tried again when that moves."""
        if place[1] not in self._draining or self._nodes.get(place[1]) is None:
            self._draining.pop(place[1], None)
            return
        left = [version for version in self._pods.scan() if evictable(version.obj, place[1][1])]
        for version in left:
            named = {"metadata": {"name": version.key[1]}}
            try:
                binding.evict(self._backend, *version.key, named, user=OPERATOR, dry_run=False)
            except ApiError as error:
                if error.code not in (REFUSED, GONE):
                    raise
                log.debug("eviction_refused", pod="/".join(version.key), error=str(error))
        if not left:
            del self._draining[place[1]]
            log.info("node_drained", node=place[1][1])


def evictable(pod: Json, node: str) -> bool:
    """Whether a drain of a node has to wait for a pod: as kubectl drain, it leaves daemons and what has ended."""
    if pod["spec"].get("nodeName") != node or pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
        return False
    owners = pod["metadata"].get("ownerReferences", ())
    return not any(one.get("controller") and one.get("kind") == "DaemonSet" for one in owners)
