"""Cards that pods share on simulated machines: HAMi's device plugin, its own scheduler, and what must always hold.

A plugin tells of the cards of its node, and serves one pod at a time: the one for which the node is locked. Another
scheduler binds pods in the same way beside us, in one step, where the node is not locked and a card has room.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

from tests.simulation.devices import was_bound
from tests.simulation.loop import VirtualLoop
from tests.simulation.pods import lives, plain
from tests.simulation.server import Json, Server
from tutti_sim.kinds.resource import Resource
from tutti_sim.meta import clock
from tutti_sim.rest import binding
from tutti_sim.store.collection import Version

PER_NODE = 2
MEMORY, SLOTS, CORES = 16_000, 4, 100
OF_MEMORY, OF_PERCENT = "nvidia.com/gpumem", "nvidia.com/gpumem-percentage"
REGISTER, LOCK, NODE = "hami.io/node-nvidia-register", "hami.io/mutex.lock", "hami.io/vgpu-node"
PHASE, TO_ALLOCATE, ALLOCATED = (
    "hami.io/bind-phase",
    "hami.io/vgpu-devices-to-allocate",
    "hami.io/vgpu-devices-allocated",
)
BOUND_AT, ASSIGNED_AT = "hami.io/bind-time", "hami.io/vgpu-time"
PUBLISH_SECONDS = 0.5


class Cards:
    """Looks after the cards of a simulated cluster.

    Args:
        server: Knows nodes and pods.
        loop: Tells the time.
        complain: Is told what must not be.
        draw: Chooses how long a plugin takes.
    """

    def __init__(
        self,
        server: Server,
        loop: VirtualLoop,
        complain: Callable[[str], None],
        *,
        draw: random.Random,
    ) -> None:
        self._server = server
        self._loop = loop
        self._complain = complain
        self._draw = draw
        self._works = False
        self._deaf: set[str] = set()
        server.backend.after.append(self._follow)

    # What happens.

    async def do_plugins(self) -> None:
        """There are plugins on all machines from now on."""
        self._works = True
        for version in list(self._server.backend.collection(self._server.nodes).scan()):
            self._register(version.key[1])

    async def do_deaf_plugin(self, node: str, seconds: float) -> None:
        """The plugin of a machine serves nobody for a while."""
        self._deaf.add(node)
        self._loop.call_later(seconds, self._hears, node)

    async def do_rival_share(self, name: str, node: str, memory: int, seconds: float) -> None:
        """HAMi's own scheduler gives a pod part of a card with room, by what is stored, if the node is not locked."""
        home = self._node(node)
        if home is None or LOCK in _said(home.obj) or REGISTER not in _said(home.obj):
            return
        used = self.used(node)
        free = [card for card in _cards(node) if used.get(card, (0, 0))[0] + memory <= MEMORY]
        free = [card for card in free if used.get(card, (0, 0))[1] < SLOTS]
        if not free:
            return
        pod = plain(name, 1, seconds, labels={}, annotations={}, scheduler="hami-scheduler")
        pod["spec"]["containers"][0]["resources"]["limits"][OF_MEMORY] = str(memory)  # and so its requests
        await self._server.user.create(self._server.pods, "default", pod)
        parts, now = f"{free[0]},NVIDIA,{memory},0:;", str(int(clock.moment()))
        self._annotate(node, {LOCK: f"{clock.now()},default,{name}"})
        annotations = {NODE: node, TO_ALLOCATE: parts, ALLOCATED: parts, PHASE: "allocating"}
        annotations |= {BOUND_AT: now, ASSIGNED_AT: now}
        target = {"target": {"kind": "Node", "name": node}, "metadata": {"name": name, "annotations": annotations}}
        binding.bind(self._server.backend, "default", name, target)

    async def heal(self) -> None:
        """Every plugin tells of its cards, and serves whoever was left."""
        for node in list(self._deaf):
            self._hears(node)
        for version in list(self._server.backend.collection(self._server.nodes).scan()):
            self._register(version.key[1])

    # What is there.

    def used(self, node: str) -> dict[str, tuple[int, int]]:
        """MiB and slots that living pods on a node have of each card."""
        found: dict[str, tuple[int, int]] = {}
        for pod in self._server.all_pods():
            if pod["spec"].get("nodeName") == node and lives(pod):
                for card, memory in _parts(pod):
                    before = found.get(card, (0, 0))
                    found[card] = before[0] + memory, before[1] + 1
        return found

    # What must hold.

    def _follow(self, resource: Resource, old: Version | None, new: Version | None) -> None:
        if not self._works or new is None:
            return
        if resource.storage == "nodes" and old is None:
            self._loop.call_later(PUBLISH_SECONDS, self._register, new.key[1])
        elif resource.storage == "pods" and was_bound(old, new):
            for what in self._wrong_with(new.obj):
                self._complain(what)
            self._loop.call_later(self._draw.uniform(0.05, 2.0), self._serve, new.key[1], new.obj["metadata"]["uid"])

    def _wrong_with(self, pod: Json) -> Iterator[str]:
        """What is wrong with the cards of a pod that has been bound just now."""
        name, node = pod["metadata"]["name"], pod["spec"]["nodeName"]
        home = self._node(node)
        if pod["spec"]["schedulerName"] != "tutti" or home is None or not _asks(pod):
            return
        said = _said(pod)
        if not list(_parts(pod)):
            yield f"{name} was bound to {node}, and its annotations say nothing of cards"
        if said.get(NODE) != node or said.get(PHASE) != "allocating" or said.get(TO_ALLOCATE) != said.get(ALLOCATED):
            yield f"{name} was bound to {node}, and its plugin is told something else: {said}"
        if not _said(home.obj).get(LOCK, "").endswith(f",default,{name}"):
            yield f"{name} was bound to {node}, which is locked for {_said(home.obj).get(LOCK, 'nobody')}"
        for card, (memory, slots) in self.used(node).items():
            if memory > MEMORY or slots > SLOTS:
                yield f"{memory} MiB and {slots} slots of card {card} are promised, with {name}"

    # The plugin.

    def _hears(self, node: str) -> None:
        self._deaf.discard(node)
        for pod in self._server.all_pods():
            if pod["spec"].get("nodeName") == node and _said(pod).get(PHASE) == "allocating":
                self._serve(pod["metadata"]["name"], pod["metadata"]["uid"])

    def _serve(self, name: str, uid: str) -> None:
        """Give a pod its cards, and open the lock of the node."""
        found = self._server.backend.collection(self._server.pods).get("default", name)
        if found is None or found.obj["metadata"]["uid"] != uid or _said(found.obj).get(PHASE) != "allocating":
            return
        node = found.obj["spec"]["nodeName"]
        if node in self._deaf:
            return
        self._write(self._server.pods, found, {PHASE: "success", TO_ALLOCATE: ";"})
        home = self._node(node)
        if home is not None and _said(home.obj).get(LOCK, "").endswith(f",default,{name}"):
            self._annotate(node, {LOCK: None})

    def _register(self, node: str) -> None:
        told = [
            {
                "id": card,
                "index": at,
                "count": SLOTS,
                "devmem": MEMORY,
                "devcore": CORES,
                "health": True,
                "mode": "hami-core",
            }
            for at, card in enumerate(_cards(node))
        ]
        if self._works and self._node(node) is not None:
            self._annotate(node, {REGISTER: json.dumps(told)})

    def _node(self, name: str) -> Version | None:
        found: Version | None = self._server.backend.collection(self._server.nodes).get("", name)
        return found

    def _annotate(self, node: str, change: dict[str, str | None]) -> None:
        found = self._node(node)
        if found is not None:
            self._write(self._server.nodes, found, change)

    def _write(self, resource: Any, found: Version, change: dict[str, str | None]) -> None:
        said = {**_said(found.obj), **change}
        meta = {**found.obj["metadata"], "annotations": {key: one for key, one in said.items() if one is not None}}
        if meta != found.obj["metadata"]:
            self._server.user.write(resource, found, {**found.obj, "metadata": meta})


def _cards(node: str) -> list[str]:
    return [f"GPU-{node}-{at}" for at in range(PER_NODE)]


def _said(one: Json) -> dict[str, str]:
    return one["metadata"].get("annotations") or {}


def _asks(pod: Json) -> bool:
    limits = pod["spec"]["containers"][0]["resources"].get("limits", {})
    return OF_MEMORY in limits or OF_PERCENT in limits


def _parts(pod: Json) -> Iterator[tuple[str, int]]:
    """The parts of cards that a pod has: card and MiB."""
    for said in _said(pod).get(ALLOCATED, "").replace(";", "").split(":"):
        if said:
            card, _, memory, _ = said.split(",")
            yield card, int(memory)
