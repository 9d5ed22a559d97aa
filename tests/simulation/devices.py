"""Devices of simulated machines: who publishes, taints and takes them, and what must hold of them at any moment.

Each machine has a few devices, published by a driver that follows its node. Another scheduler takes what is free by what
the API server says, in one step: whoever of us takes the same has not seen that yet, and has to find out before it binds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tests.simulation.loop import VirtualLoop
from tests.simulation.pods import lives, plain
from tests.simulation.server import Json, Server
from tutti_sim.kinds.resource import Resource
from tutti_sim.rest import binding
from tutti_sim.store.collection import Version

DRIVER = "gpu.example.com"
CLASS = "gpu"
GROUP = ("resource.k8s.io", "v1")
PER_NODE = 2
FINALIZER = "resource.kubernetes.io/delete-protection"
MADE_FOR = "resource.kubernetes.io/pod-claim-name"
PUBLISH_SECONDS = 0.5

Device = tuple[str, str]
"""Pool, which is the node, and name."""


class Devices:
    """Looks after the devices of a simulated cluster.

    Args:
        server: Knows nodes, slices, claims and pods.
        loop: Tells the time.
        complain: Is told what must not be.
    """

    def __init__(self, server: Server, loop: VirtualLoop, complain: Callable[[str], None]) -> None:
        self._server = server
        self._loop = loop
        self._complain = complain
        self._works = False
        self._gone: set[str] = set()
        self._tainted: dict[Device, Json] = {}
        server.backend.after.append(self._follow)

    # What happens.

    async def do_driver(self) -> None:
        """There is a driver from now on, and a class of its devices."""
        self._works = True
        expression = f'device.driver == "{DRIVER}"'
        await self._create("deviceclasses", "", CLASS, {"selectors": [{"cel": {"expression": expression}}]})
        for version in self._server.backend.collection(self._server.nodes).scan():
            await self._publish(version.key[1])

    async def do_claim_template(self, name: str, count: int) -> None:
        """A template of claims for so many devices of one machine."""
        await self._create("resourceclaimtemplates", "default", name, {"spec": _asked(count)})

    async def do_claim(self, name: str, count: int) -> None:
        """A claim that pods may share."""
        await self._create("resourceclaims", "default", name, _asked(count))

    async def do_taint_device(self, node: str, device: str, effect: str) -> None:
        """A device is said to be broken."""
        self._tainted[node, device] = {"key": "broken", "effect": effect, "timeAdded": "2020-01-01T00:00:00Z"}
        self._rewrite(node)

    async def do_untaint_device(self, node: str, device: str) -> None:
        """A device works again."""
        self._tainted.pop((node, device), None)
        self._rewrite(node)

    async def do_driver_gone(self, node: str) -> None:
        """The driver of a machine takes away what it has published; who has its devices keeps them."""
        self._gone.add(node)
        found = self._slice(node)
        if found is not None:
            self._server.user.remove(self._resource("resourceslices"), found)

    async def do_driver_back(self, node: str) -> None:
        """It publishes them again."""
        self._gone.discard(node)
        await self._publish(node)

    async def do_rival_claim(self, name: str, node: str, seconds: float) -> None:
        """Another scheduler gives a pod of its own a device that is free by what is stored, and binds it."""
        free = [one for one in self._published(node) if (node, one) not in self.taken()]
        if not free or self._server.backend.find("nodes", "", node) is None:
            return
        pod = plain(name, 0, seconds, labels={}, annotations={}, scheduler="default-scheduler")
        pod["spec"]["resourceClaims"] = [{"name": "device", "resourceClaimName": name}]
        made = await self._server.user.create(self._server.pods, "default", pod)
        owner = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": name,
            "uid": made.obj["metadata"]["uid"],
            "controller": True,
        }
        meta = {"annotations": {MADE_FOR: "device"}, "ownerReferences": [owner], "finalizers": [FINALIZER]}
        claim = await self._create("resourceclaims", "default", name, _asked(1), **meta)
        result = {"request": "r", "driver": DRIVER, "pool": node, "device": free[0]}
        users = [{"resource": "pods", "name": name, "uid": owner["uid"]}]
        status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": users}
        self._server.user.set_status(self._resource("resourceclaims"), claim, status)
        binding.bind(
            self._server.backend,
            "default",
            name,
            {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}},
        )

    async def heal(self) -> None:
        """Every device is there and works."""
        self._tainted.clear()
        self._gone.clear()
        for version in list(self._server.backend.collection(self._server.nodes).scan()):
            await self._publish(version.key[1])
            self._rewrite(version.key[1])

    # What is there.

    def claims(self) -> list[Json]:
        """All claims."""
        return [version.obj for version in self._scan("resourceclaims")]

    def taken(self) -> dict[Device, list[str]]:
        """Devices that claims have, and which claims these are."""
        found: dict[Device, list[str]] = {}
        for claim in self.claims():
            for device in devices_of(claim):
                found.setdefault(device, []).append(claim["metadata"]["name"])
        return found

    def orphans(self) -> list[str]:
        """Claims with devices that no living pod uses."""
        return [
            f"claim {claim['metadata']['name']}"
            for claim in self.claims()
            if any(devices_of(claim)) and not any(map(self._is_used_by, claim["status"].get("reservedFor", ())))
        ]

    def _is_used_by(self, user: Json) -> bool:
        if user["resource"] == "podgroups":
            group = self._server.native_group(user["name"])
            return group is not None and group["metadata"]["uid"] == user["uid"]
        pod = self._server.pod(user["name"])
        return pod is not None and pod["metadata"]["uid"] == user["uid"] and lives(pod)

    # What must hold.

    def _follow(self, resource: Resource, old: Version | None, new: Version | None) -> None:
        if resource.storage == "nodes" and new is not None and old is None and self._works:
            self._loop.call_later(PUBLISH_SECONDS, self._publish_soon, new.key[1])
        elif resource.storage == "pods" and new is not None and was_bound(old, new):
            for what in self._wrong_with(new.obj):
                self._complain(what)

    def _wrong_with(self, pod: Json) -> Iterator[str]:
        """What is wrong with the devices of a pod that has been bound just now."""
        if pod["spec"]["schedulerName"] != "tutti" or not pod["spec"].get("resourceClaims"):
            return
        name, taken = pod["metadata"]["name"], self.taken()
        made = {one["name"]: one.get("resourceClaimName") for one in pod["status"].get("resourceClaimStatuses", ())}
        for entry in pod["spec"]["resourceClaims"]:
            own = entry.get("resourceClaimName") or made.get(entry["name"]) or ""
            claim = self._server.backend.find("resourceclaims.resource.k8s.io", "default", own)
            if claim is None or not any(devices_of(claim)):
                yield f"{name} was bound, and its claim {own} has no devices"
                continue
            if not any(self._stands_for(user, pod) for user in claim["status"].get("reservedFor", ())):
                yield f"{name} was bound, and its claim {own} is not reserved for it"
            for device in devices_of(claim):
                if len(taken[device]) > 1:
                    yield f"{name} was bound with {'/'.join(device)}, which several claims have: {taken[device]}"
                if device[0] != pod["spec"]["nodeName"]:
                    yield f"{name} was bound to {pod['spec']['nodeName']}, and has {'/'.join(device)}"

    def _stands_for(self, user: Json, pod: Json) -> bool:
        """Whether a user of a claim is a pod, or its PodGroup where it has one, which lists all claims of its pods."""
        group = (pod["spec"].get("schedulingGroup") or {}).get("podGroupName")
        if group is None:
            return bool(user["uid"] == pod["metadata"]["uid"])
        return (user["resource"], user["name"]) == ("podgroups", group)

    # Slices.

    def _publish_soon(self, node: str) -> None:
        self._loop.create_task(self._publish(node))

    async def _publish(self, node: str) -> None:
        home = self._server.backend.find("nodes", "", node)
        if not self._works or home is None or node in self._gone or self._slice(node) is not None:
            return
        owner = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": home["metadata"]["uid"]}
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": DRIVER, "pool": pool, "nodeName": node, "devices": self._devices(node)}
        await self._create("resourceslices", "", f"{node}-{DRIVER}", spec, ownerReferences=[owner])

    def _devices(self, node: str) -> list[Json]:
        made: list[Json] = [{"name": f"gpu-{number}"} for number in range(PER_NODE)]
        for one in made:
            if (node, one["name"]) in self._tainted:
                one["taints"] = [self._tainted[node, one["name"]]]
        return made

    def _rewrite(self, node: str) -> None:
        found = self._slice(node)
        devices = self._devices(node)
        if found is not None and found.obj["spec"]["devices"] != devices:
            spec = {**found.obj["spec"], "devices": devices}
            changed = {**found.obj, "metadata": dict(found.obj["metadata"]), "spec": spec}
            self._server.user.write(self._resource("resourceslices"), found, changed)

    def _published(self, node: str) -> list[str]:
        found = self._slice(node)
        devices = found.obj["spec"]["devices"] if found is not None else ()
        return [one["name"] for one in devices if not one.get("taints")]

    def _slice(self, node: str) -> Version | None:
        return self._server.backend.collection(self._resource("resourceslices")).get("", f"{node}-{DRIVER}")

    def _resource(self, plural: str) -> Any:
        return self._server.resource(*GROUP, plural)

    def _scan(self, plural: str) -> list[Version]:
        return list(self._server.backend.collection(self._resource(plural)).scan())

    async def _create(self, plural: str, namespace: str, name: str, spec: Json, **meta: Any) -> Version:
        found = self._server.backend.collection(self._resource(plural)).get(namespace, name)
        if found is not None:
            return found
        made = {"metadata": {"name": name, **meta}, "spec": spec}
        return await self._server.user.create(self._resource(plural), namespace, made)


def was_bound(old: Version | None, new: Version) -> bool:
    """Whether a pod has got its node with this change."""
    return bool(new.obj["spec"].get("nodeName")) and not (old is not None and old.obj["spec"].get("nodeName"))


def _asked(count: int) -> Json:
    return {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": CLASS, "count": count}}]}}


def devices_of(claim: Json) -> Iterator[Device]:
    """The devices that a claim has."""
    for one in ((claim.get("status") or {}).get("allocation") or {}).get("devices", {}).get("results") or ():
        yield one["pool"], one["device"]
