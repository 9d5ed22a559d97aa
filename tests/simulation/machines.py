"""What becomes of machines: they vanish, die and are switched on again, flap, and are drained.

A machine that dies takes its kubelet with it. Its node stays, is said to be unreachable, and after a while the control
plane tells its pods to end; nobody says that they have. A node that flaps is said to be unreachable though it runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.simulation.loop import VirtualLoop
from tests.simulation.pods import lives
from tests.simulation.server import Json, Server
from tutti.api.network import ZONE
from tutti_sim.hollow.nodes import is_off, switched
from tutti_sim.store.collection import Version

UNREACHABLE = [{"key": "node.kubernetes.io/unreachable", "effect": effect} for effect in ("NoSchedule", "NoExecute")]


class Machines:
    """Switches the machines of a simulated cluster.

    Args:
        server: Knows the nodes and pods.
        loop: Tells the time.
        stranded: Is called with the name of each pod that is told to end where nobody says when it has.
    """

    def __init__(self, server: Server, loop: VirtualLoop, stranded: Callable[[str], None]) -> None:
        self._server = server
        self._loop = loop
        self._stranded = stranded
        self._homes: dict[str, Json] = {}

    async def do_node(self, name: str, gpus: int, rack: str) -> None:
        """Have a machine, as it was if it has been there before."""
        self._homes[name] = {"name": name, "gpus": gpus, "rack": rack}
        await self._server.put_node(name, gpus, {"rack": rack, **({ZONE: rack} if self._server.serves_guests else {})})

    async def do_lose_node(self, name: str) -> None:
        """A machine is taken away, with its node."""
        self._server.remove_node(name)

    async def do_die(self, name: str, seconds: float) -> None:
        """A machine dies; so many seconds later its pods are told to end, unless it is on again by then."""
        if self._change(name, on=False, taints=UNREACHABLE):
            self._loop.call_later(seconds, self._tell_to_end, name)

    async def do_revive(self, name: str) -> None:
        """A machine is switched on again: what ran on it is dead, and who was told to end there has."""
        self._change(name, on=True, taints=[])

    async def do_flap(self, name: str, seconds: float) -> None:
        """A machine is said to be unreachable for a while, though it runs."""
        if self._change(name, on=True, taints=UNREACHABLE):
            self._loop.call_later(seconds, self._steady, name)

    async def do_drain(self, name: str) -> None:
        """An administrator has a machine to himself: no pod comes, and those that are there are deleted."""
        found = self._node(name)
        if found is not None:
            self._write(found, {**found.obj["spec"], "unschedulable": True}, on=not is_off(found.obj))
            self._delete_all(name)

    async def do_uncordon(self, name: str) -> None:
        """Pods may come to a machine again."""
        found = self._node(name)
        if found is not None:
            spec = {key: value for key, value in found.obj["spec"].items() if key != "unschedulable"}
            self._write(found, spec, on=not is_off(found.obj))

    async def heal(self) -> None:
        """Have every machine there, on, and open to pods."""
        for home in self._homes.values():
            await self.do_node(**home)
            await self.do_revive(home["name"])
            await self.do_uncordon(home["name"])

    def is_dead(self, name: str) -> bool:
        """Whether nobody says of the pods on a machine what becomes of them."""
        found = self._node(name)
        return found is not None and is_off(found.obj)

    def _node(self, name: str) -> Version | None:
        found: Version | None = self._server.backend.collection(self._server.nodes).get("", name)
        return found

    def _change(self, name: str, *, on: bool, taints: list[Json]) -> bool:
        found = self._node(name)
        if found is None or (is_off(found.obj) and not on):
            return False
        spec: dict[str, Any] = {key: value for key, value in found.obj["spec"].items() if key != "taints"}
        self._write(found, {**spec, **({"taints": taints} if taints else {})}, on=on)
        return True

    def _write(self, found: Version, spec: Json, *, on: bool) -> None:
        self._server.user.write(
            self._server.nodes, found, {**found.obj, "metadata": switched(found.obj, on=on), "spec": spec}
        )

    def _steady(self, name: str) -> None:
        if not self.is_dead(name):
            self._change(name, on=True, taints=[])

    def _tell_to_end(self, name: str) -> None:
        if self.is_dead(name):
            self._delete_all(name)

    def _delete_all(self, name: str) -> None:
        pods = self._server.backend.collection(self._server.pods)
        for found in list(pods.scan()):
            pod = found.obj
            if pod["spec"].get("nodeName") != name or not lives(pod) or pod["metadata"].get("deletionTimestamp"):
                continue
            self._server.user.remove(self._server.pods, found)
            if self.is_dead(name):
                self._stranded(pod["metadata"]["name"])
