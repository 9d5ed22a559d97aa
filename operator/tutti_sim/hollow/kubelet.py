"""The hollow kubelet: one task that plays the kubelet of every hollow node.

A pod that is bound to a hollow node is admitted if it fits, starts, runs and ends as its fate has it (`fate`), and
stops when it is deleted. A node that is switched off (`power`) does nothing any more; when it is switched on again, it
finds the containers it had dead, as after a power cut; so does one whose object comes back. Nodes that were not made
here are left alone.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import structlog

from tutti.api.hami import UNOFFERED
from tutti_sim.hollow import statuses
from tutti_sim.hollow.fate import Fate, Fates
from tutti_sim.hollow.nodes import is_hollow, is_off, ready_again
from tutti_sim.kinds.resource import Resource
from tutti_sim.meta import Json
from tutti_sim.meta.amounts import amount
from tutti_sim.rest.backend import Backend
from tutti_sim.rest.local import Local
from tutti_sim.store.collection import Key, Version

Amounts = dict[str, Fraction]

PODS = "pods"
FIRST = (PODS, "cpu", "memory", "ephemeral-storage")


def _add(total: Amounts, more: Mapping[str, Any]) -> None:
    for name, value in more.items():
        total[name] = total.get(name, Fraction(0)) + (amount(value) if isinstance(value, str) else value)


def _most(total: Amounts, other: Amounts) -> None:
    for name, value in other.items():
        total[name] = max(total.get(name, Fraction(0)), value)


def requests(spec: Json) -> Amounts:
    """What a pod asks for: its containers together, or its largest init container, plus sidecars and overhead.

    Requests for the pod as a whole stand in place of those of its containers; the pod itself counts as one of `pods`.

    Source: k8s.io/component-helpers/resource, PodRequests.
    """
    running: Amounts = {}
    for container in spec.get("containers", ()):
        _add(running, container.get("resources", {}).get("requests", {}))
    started: Amounts = {}
    sidecars: Amounts = {}
    for container in spec.get("initContainers", ()):
        own = {name: amount(value) for name, value in container.get("resources", {}).get("requests", {}).items()}
        if container.get("restartPolicy") == "Always":
            _add(sidecars, own)
            _most(started, sidecars)
        else:
            both = dict(sidecars)
            _add(both, own)
            _most(started, both)
    _add(running, sidecars)
    _most(running, started)
    running.update({name: amount(value) for name, value in _whole(spec).items()})
    _add(running, spec.get("overhead", {}))
    running[PODS] = Fraction(1)
    return running


def _whole(spec: Json) -> Mapping[str, str]:
    found: Mapping[str, str] = (spec.get("resources") or {}).get("requests") or {}
    return found


def total(pods: Iterable[Amounts]) -> Amounts:
    """What pods take of a node together, themselves counted as `pods`."""
    used: Amounts = {PODS: Fraction(0)}
    for asked in pods:
        _add(used, asked)
    return used


def lacking(asked: Amounts, used: Amounts, allocatable: Mapping[str, str]) -> tuple[str, str] | None:
    """The first resource that does not fit and the kubelet's words for it; None when the pod fits.

    The order is that of kube-scheduler's fit (pods, cpu, memory, ephemeral storage, then by name), which the kubelet
    asks; of several reasons it tells the first. A resource that the node does not have at all is refused too: a real
    kubelet leaves that to the device plugin, but whoever bound the pod has made a mistake that should be seen. What
    HAMi's pods ask of cards, no node offers: of that the kubelet knows nothing.
    """
    for name in sorted(asked, key=lambda one: (FIRST.index(one) if one in FIRST else len(FIRST), one)):
        have, taken = amount(allocatable.get(name, "0")), used.get(name, Fraction(0))
        if asked[name] > 0 and taken + asked[name] > have and name not in UNOFFERED:
            scale = 1000 if name == "cpu" else 1
            text = (
                f"Pod was rejected: Node didn't have enough resource: {name}, requested: {int(asked[name] * scale)}, "
                f"used: {int(taken * scale)}, capacity: {int(have * scale)}"
            )
            return name, text
    return None


def asked_of_node(pod: Json) -> Amounts:
    """What a pod takes of its node; what a claim stands in for is none of it (extendedResourceClaimStatus)."""
    said = pod.get("status", {}).get("extendedResourceClaimStatus") or {}
    claimed = {one.get("resourceName") for one in said.get("requestMappings", ())}
    return {name: much for name, much in requests(pod["spec"]).items() if name not in claimed}


log = structlog.get_logger()


ENDED = ("Succeeded", "Failed")
CLAIMS = "resourceclaims.resource.k8s.io"


@dataclass(slots=True)
class PodRun:
    """A pod that a kubelet has taken on.

    Attributes:
        asked: What it takes of the node; nothing once it has ended.
        stops_at: When `stopping` is due, on the clock of the event loop.
    """

    node: str
    uid: str
    asked: Amounts
    fate: Fate
    restarts: int = 0
    rejected: bool = False
    timer: asyncio.Handle | None = None
    stopping: asyncio.Handle | None = None
    stops_at: float = 0.0

    def halt(self) -> None:
        """Drop what was going to happen."""
        for timer in (self.timer, self.stopping):
            if timer is not None:
                timer.cancel()
        self.timer = self.stopping = None


class Kubelet:
    """Follows pods and nodes, and acts on what is bound to hollow nodes."""

    def __init__(self, backend: Backend, fates: Fates | None = None) -> None:
        self._backend = backend
        self._local = Local(backend, "kubelet")
        self._fates = fates or Fates()
        self._pods = backend.resource("", "v1", "pods")
        self._nodes = backend.resource("", "v1", "nodes")
        self._changed: deque[Key] = deque()
        self._switched: deque[str] = deque()
        self._wake = asyncio.Event()
        self._runs: dict[Key, PodRun] = {}
        self._on: dict[str, dict[Key, None]] = {}
        self._address = 0
        self._unprepared: dict[Key, None] = {}

    def follow(self, resource: Resource, old: Version | None, new: Version | None) -> None:
        """Note that a pod on a node has changed, or that a node was switched."""
        version = new or old
        if version is None:
            return
        if resource.storage == "pods":
            node = version.obj["spec"].get("nodeName")
            if not node:
                return
            if new is None:
                self._on.get(node, {}).pop(version.key, None)
            else:
                self._on.setdefault(node, {})[new.key] = None
            self._changed.append(version.key)
            self._wake.set()
        elif resource.storage == "nodes" and (new is None or old is None or is_off(old.obj) != is_off(new.obj)):
            self._switched.append(version.key[1])
            self._wake.set()
        elif resource.storage == CLAIMS and self._unprepared:
            self._changed.extend(key for key in self._unprepared if key[0] == version.key[0])
            self._wake.set()

    async def run(self) -> None:
        """Act until cancelled."""
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                for _ in range(len(self._switched)):
                    self._switch(self._switched.popleft())
                for _ in range(len(self._changed)):
                    self._sync(self._changed.popleft())
                await asyncio.sleep(0)
        finally:
            for found in self._runs.values():
                found.halt()

    def _switch(self, name: str) -> None:
        """Stop everything on a node that lost power; on one that has it again, go on with what is left."""
        current = self._backend.store.collection("nodes").get("", name)
        on = current is not None and not is_off(current.obj)
        if current is not None and on and is_hollow(current.obj):
            status = ready_again(current.obj)
            if status != current.obj["status"]:
                log.info("node_powered_on", node=name)
                self._local.set_status(self._nodes, current, status)
        for key in list(self._on.get(name, ())):
            found = self._runs.get(key)
            if found is not None:
                found.halt()
            if on:
                if found is not None:
                    self._reboot(key, found)
                self._sync(key)

    def _powered(self, node: str) -> bool:
        """Whether a kubelet of ours is at work on a node."""
        found = self._backend.find("nodes", "", node) if node else None
        return found is not None and is_hollow(found) and not is_off(found)

    def _current(self, key: Key) -> Version | None:
        return self._backend.store.collection("pods").get(*key)

    def _sync(self, key: Key) -> None:
        """Bring one pod to where it belongs."""
        self._unprepared.pop(key, None)
        current, known = self._current(key), self._runs.get(key)
        if known is not None and (current is None or current.obj["metadata"]["uid"] != known.uid):
            known.halt()
            del self._runs[key]
            known = None
        if current is None or not self._powered(current.obj["spec"].get("nodeName", "")):
            return
        pod = current.obj
        phase = pod.get("status", {}).get("phase")
        if known is not None and phase in ENDED:
            known.asked = {}
        if pod["metadata"].get("deletionTimestamp"):
            self._plan_stop(current, known)
        elif known is None and phase == "Pending" and not self._has_devices(pod):
            self._unprepared[key] = None
            log.debug("devices_not_prepared", pod="/".join(key))
        elif known is None and phase == "Pending":
            self._admit(current)
        elif known is None and phase == "Running":
            self._plan_end(key, self._take(current))

    def _has_devices(self, pod: Json) -> bool:
        """Whether a pod's claims have devices and are reserved for it: else no kubelet starts it (kubelet/cm/dra)."""
        claims = pod["spec"].get("resourceClaims")
        if not claims:
            return True
        meta, said = pod["metadata"], pod.get("status", {}).get("resourceClaimStatuses", ())
        made = {one["name"]: one.get("resourceClaimName") for one in said}
        for one in claims:
            name = one.get("resourceClaimName") or made.get(one["name"], "")
            if name is None:
                continue  # its template needs no claim
            claim = self._backend.find(CLAIMS, meta["namespace"], name)
            status = (claim or {}).get("status") or {}
            group = (pod["spec"].get("schedulingGroup") or {}).get("podGroupName")
            users = [(user.get("resource"), user.get("name")) for user in status.get("reservedFor", ())]
            mine = meta["uid"] in (user.get("uid") for user in status.get("reservedFor", ()))
            if not status.get("allocation") or not (mine or (group and ("podgroups", group) in users)):
                return False
        return True

    def _fate(self, pod: Json, restarts: int = 0) -> Fate:
        try:
            return self._fates.of(pod, restarts)
        except ValueError as error:
            log.warning("annotation_ignored", pod=pod["metadata"]["name"], error=str(error))
            meta = {key: value for key, value in pod["metadata"].items() if key != "annotations"}
            return self._fates.of({**pod, "metadata": meta}, restarts)

    def _take(self, current: Version) -> PodRun:
        pod = current.obj
        taken = PodRun(pod["spec"]["nodeName"], pod["metadata"]["uid"], asked_of_node(pod), self._fate(pod))
        self._runs[current.key] = taken
        return taken

    def _admit(self, current: Version) -> None:
        """Take a pod on, or refuse it as a kubelet without room does."""
        node = current.obj["spec"]["nodeName"]
        held = [one.asked for key in self._on.get(node, ()) if (one := self._runs.get(key)) is not None and one.asked]
        offered = (self._backend.find("nodes", "", node) or {}).get("status", {}).get("allocatable", {})
        taken = self._take(current)
        lack = lacking(taken.asked, total(held), offered)
        if lack is not None:
            taken.asked, taken.rejected = {}, True
            log.info("pod_rejected", pod="/".join(current.key), node=node, resource=lack[0])
            self._local.set_status(self._pods, current, statuses.rejected(current.obj, *lack))
        elif taken.fate.startup > 0:
            self._local.set_status(self._pods, current, statuses.starting(current.obj))
            self._after(current.key, taken, taken.fate.startup, self._start)
        else:
            self._start(current.key, taken)

    def _after(self, key: Key, found: PodRun, seconds: float, act: Callable[[Key, PodRun], None]) -> None:
        if found.timer is not None:
            found.timer.cancel()
        found.timer = asyncio.get_running_loop().call_later(seconds, act, key, found)

    def _start(self, key: Key, found: PodRun) -> None:
        """Have a pod's containers run."""
        found.timer = None
        current = self._current(key)
        if current is None or current.obj["metadata"].get("deletionTimestamp"):
            return
        address = current.obj.get("status", {}).get("podIP") or self._next_address()
        self._local.set_status(self._pods, current, statuses.running(current.obj, address, found.restarts))
        self._plan_end(key, found)

    def _next_address(self) -> str:
        self._address += 1
        return f"10.{64 + (self._address >> 16) % 64}.{self._address >> 8 & 255}.{self._address & 255}"

    def _plan_end(self, key: Key, found: PodRun) -> None:
        if found.fate.run is not None:
            self._after(key, found, found.fate.run, self._end)

    def _end(self, key: Key, found: PodRun) -> None:
        """End a pod that has run for as long as it was to."""
        found.timer = None
        self._ended(key, found, found.fate.code)

    def _ended(self, key: Key, found: PodRun, code: int) -> None:
        """A pod's containers have ended: for good, or until they are started again."""
        current = self._current(key)
        if current is None or current.obj.get("status", {}).get("phase") != "Running":
            return
        policy = current.obj["spec"].get("restartPolicy", "Always")
        if policy == "Never" or (policy == "OnFailure" and not code):
            found.asked = {}
            self._local.set_status(self._pods, current, statuses.ended(current.obj, code))
            return
        self._local.set_status(self._pods, current, statuses.between(current.obj, code))
        found.restarts += 1
        pause, found.fate = found.fate.restart, self._fate(current.obj, found.restarts)
        self._after(key, found, pause, self._start)

    def _reboot(self, key: Key, found: PodRun) -> None:
        """Go on with a pod after its node was off: what ran is dead, what was starting starts again."""
        current = self._current(key)
        phase = current.obj.get("status", {}).get("phase") if current is not None else None
        if phase == "Running":
            self._ended(key, found, statuses.LOST)
        elif phase == "Pending":
            self._after(key, found, found.fate.startup, self._start)

    def _plan_stop(self, current: Version, found: PodRun | None) -> None:
        """End a deleted pod in its time; one that hangs is killed when its period of grace is over."""
        if found is None:
            found = self._take(current)
        grace = current.obj["metadata"].get("deletionGracePeriodSeconds", 0)
        seconds = float(grace) if found.fate.hangs else min(found.fate.stop, float(grace))
        loop = asyncio.get_running_loop()
        due = loop.time() + seconds
        if found.stopping is not None:
            if found.stops_at <= due:
                return
            found.stopping.cancel()
        found.stopping, found.stops_at = loop.call_at(due, self._stop, current.key, found), due

    def _stop(self, key: Key, found: PodRun) -> None:
        """Remove a deleted pod: its containers have ended."""
        found.halt()
        current = self._current(key)
        if current is None or current.obj["metadata"].get("deletionGracePeriodSeconds") == 0:
            return
        if current.obj.get("status", {}).get("phase") == "Running":
            code = statuses.KILLED if found.fate.hangs else statuses.TERMINATED
            current = self._local.set_status(self._pods, current, statuses.ended(current.obj, code))
        self._local.remove(self._pods, current, grace=0, policy="")
