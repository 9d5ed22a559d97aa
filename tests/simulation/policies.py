"""What throttles, limits of users, orders of queues and links allow, recounted from what the API server has alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime

from tests.simulation.loop import EPOCH, VirtualLoop
from tests.simulation.pods import gpus_of, lives
from tests.simulation.server import GUESTS, Json, Server
from tutti.api.conventions.order_annotations import USER
from tutti.api.network import GROUP_LABEL, WORKLOAD_LABEL, ZONE
from tutti_sim.kinds.resource import Resource
from tutti_sim.store.collection import Version

THROTTLED = {"sim": "throttled"}
"""The labels of pods that the throttle is about."""
APPLICATION = "shop"
LINK = ("r0", "r1")
"""Between these zones little goes, in either direction."""
M = 1_000_000
BURST_SECONDS = 0.5
"""The binds of one turn are with the server after so long."""


class Policies:
    """Makes the objects, and complains of binds that they forbid.

    Nobody can know at the moment of a bind what has changed while it was under way: a threshold counts as it was at any
    time in the last `slack` seconds, and who is overdue so much later.
    """

    def __init__(self, server: Server, loop: VirtualLoop, complain: Callable[[str], None]) -> None:
        self._server = server
        self._loop = loop
        self._complain = complain
        self._slack = 60.0
        self._thresholds: list[tuple[float, int]] = []
        self._most: dict[str, int] = {}
        self._max_wait = 0.0
        self._bandwidth: tuple[int, int] | None = None
        self._lost_at = -1000.0
        server.backend.after.append(self._follow)

    async def do_policies(self, slack: float) -> None:
        """Say how much later than they are told operators may act by what has changed."""
        self._slack = slack

    async def do_throttle(self, pods: int) -> None:
        """Have so many pods at once, from now on."""
        self._thresholds.append((self._loop.time(), pods))
        terms = [{"podSelector": {"matchLabels": THROTTLED}}]
        spec = {"throttlerName": "kube-throttler", "selector": {"selectorTerms": terms}}
        await self._put("Throttle", "some", {**spec, "threshold": {"resourceCounts": {"pod": pods}}})

    async def do_users(self, most: dict[str, int]) -> None:
        """Note how many GPUs users may have of cq8."""
        self._most = most

    async def do_order(self, max_wait: float) -> None:
        """Note after how many seconds somebody goes first in q7."""
        self._max_wait = max_wait

    async def do_links(self, needs: int, capacity: int) -> None:
        """Have every web pod need so many Mbit/s to every db pod, and so many go between two zones."""
        self._bandwidth = (needs, capacity)
        links = [
            {"origin": one, "costList": [{"destination": two, "networkCost": 5, "bandwidthCapacity": f"{capacity}M"}]}
            for one, two in (LINK, LINK[::-1])
        ]
        costs = {"name": "UserDefined", "topologyList": [{"topologyKey": ZONE, "originList": links}]}
        await self._put("NetworkTopology", "nt-default", {"weights": [costs]})
        db = {"workload": {"selector": "db"}, "maxNetworkCost": 20, "minBandwidth": f"{needs}M"}
        parts = [{"workload": {"selector": "web"}, "dependencies": [db]}, {"workload": {"selector": "db"}}]
        await self._put("AppGroup", APPLICATION, {"workloads": parts})

    async def _put(self, kind: str, name: str, spec: Json) -> None:
        resource = self._server.resource(*GUESTS[kind])
        found = self._server.backend.collection(resource).get("default", name)
        if found is not None:
            self._server.user.write(resource, found, {**found.obj, "spec": spec})
            return
        version = f"{GUESTS[kind][0]}/{GUESTS[kind][1]}"
        await self._server.user.create(
            resource, "default", {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}
        )

    def _follow(self, resource: Resource, old: Version | None, new: Version | None) -> None:
        if resource.storage == "nodes" and (new is None or (old is None and self._lost_at >= 0)):
            self._lost_at = self._loop.time()  # one is gone, or may be one that was
        if resource.storage != "pods" or new is None or not new.obj["spec"].get("nodeName"):
            return
        if old is not None and old.obj["spec"].get("nodeName"):
            return
        checks = (self._throttled, self._limited, self._linked)
        for what in (told for one in checks for told in one(new.obj)):
            self._complain(what)
        for passed, what in self._overtaking(new.obj):
            self._loop.call_later(BURST_SECONDS, self._left_behind, passed["metadata"], what)

    def _bound(self) -> Iterator[Json]:
        """Our pods that are on a node and have not ended."""
        for pod in self._server.all_pods():
            if pod["spec"].get("nodeName") and lives(pod) and pod["spec"]["schedulerName"] == "tutti":
                yield pod

    def _throttled(self, pod: Json) -> Iterator[str]:
        if not (self._thresholds and _has(pod, THROTTLED)):
            return
        since = self._loop.time() - self._slack
        before = [pods for at, pods in self._thresholds if at <= since]
        most = max([*before[-1:], *(pods for at, pods in self._thresholds if at > since)])
        there = sum(_has(one, THROTTLED) for one in self._bound())
        if there > most:
            yield f"{there} pods of a throttle are bound that allows {most}, with {pod['metadata']['name']}"

    def _limited(self, pod: Json) -> Iterator[str]:
        user = (pod["metadata"].get("annotations") or {}).get(USER)
        if user not in self._most:
            return
        mine = (one for one in self._bound() if one["metadata"].get("annotations", {}).get(USER) == user)
        used = sum(gpus_of(one) for one in mine if not one["metadata"].get("deletionTimestamp"))
        if used > self._most[user]:
            yield f"{user} has {used} GPUs of cq8 and may have {self._most[user]}, with {pod['metadata']['name']}"

    def _overtaking(self, pod: Json) -> Iterator[tuple[Json, str]]:
        """Yield who of q7 has waited for too long and is passed by one who is younger and has not, and say so."""
        if not self._max_wait or not _is_in(pod, "q7"):
            return
        mine = _age(self._loop, pod)
        for one in self._server.all_pods():
            waits = _is_in(one, "q7") and not one["spec"].get("nodeName") and lives(one)
            if not waits or one["spec"].get("schedulingGates") or one["metadata"].get("deletionTimestamp"):
                continue
            age = _age(self._loop, one)
            if age > self._max_wait + self._slack and mine < self._max_wait:
                what = f"{pod['metadata']['name']} passes {one['metadata']['name']}, which waits for {age:.0f} s in q7"
                yield one, what

    def _left_behind(self, passed: Json, what: str) -> None:
        """Complain of somebody who was passed, unless it was bound in the same burst: those arrive in any order."""
        found = self._server.backend.collection(self._server.pods).get(passed["namespace"], passed["name"])
        if (
            found is not None
            and found.obj["metadata"]["uid"] == passed["uid"]
            and not found.obj["spec"].get("nodeName")
        ):
            self._complain(what)

    def _linked(self, pod: Json) -> Iterator[str]:
        if self._bandwidth is None or self._loop.time() < self._lost_at + self._slack + 30:
            return  # what was on a node that is gone is of no link, and may be there again
        if pod["metadata"].get("labels", {}).get(GROUP_LABEL) != APPLICATION:
            return
        needs, capacity = self._bandwidth
        zones: dict[str, Counter[str]] = {"web": Counter(), "db": Counter()}
        for one in self._bound():
            part = one["metadata"].get("labels", {}).get(WORKLOAD_LABEL)
            node = self._server.backend.find("nodes", "", one["spec"]["nodeName"])
            if part in zones and node is not None:
                zones[part][node["metadata"]["labels"].get(ZONE, "")] += 1
        for here, there in (LINK, LINK[::-1]):
            taken = zones["web"][here] * zones["db"][there] * needs
            if taken > capacity:
                yield f"{taken}M go from {here} to {there}, of {capacity}M, with {pod['metadata']['name']}"


def _has(pod: Json, labels: dict[str, str]) -> bool:
    return labels.items() <= (pod["metadata"].get("labels") or {}).items()


def _is_in(pod: Json, queue: str) -> bool:
    return (pod["metadata"].get("labels") or {}).get("scheduling.tutti.dev/queue-name") == queue


def _age(loop: VirtualLoop, pod: Json) -> float:
    """How long ago a pod was made, in seconds."""
    return EPOCH + loop.time() - datetime.fromisoformat(pod["metadata"]["creationTimestamp"]).timestamp()
