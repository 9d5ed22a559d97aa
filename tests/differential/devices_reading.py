"""Turns a recorded case of pods with claims on devices into a world, and a world into what an engine decides about it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import msgspec

from tests.engine.devices import made, written
from tutti.api.configuration import TuttiConfiguration
from tutti.api.core import Node, Pod, PodResourceClaim
from tutti.api.device_taints import DeviceTaintRule
from tutti.api.devices import DeviceClass, ResourceClaim, ResourceClaimSpec, ResourceSlice
from tutti.cluster.classes import PodClass
from tutti.cluster.cluster import Cluster
from tutti.cluster.devices.allotments import ClaimAllotment
from tutti.cluster.nodes import NodeColumns
from tutti.engine.cycle.engine import Engine
from tutti.engine.records import device_observations as devices_seen
from tutti.engine.records import observations as seen
from tutti.engine.records.decisions import AnyDecision, WriteDeviceClaim, WriteExtendedClaim

Case = dict[str, Any]

_MOST_TURNS = 8

T = TypeVar("T")


@dataclass
class DeviceWorld:
    """Everything that exists, and a pod that wants a node."""

    nodes: list[Node]
    pods: list[Pod]
    slices: list[ResourceSlice]
    classes: list[DeviceClass]
    claims: list[ResourceClaim]
    probe: Pod
    rules: list[DeviceTaintRule] = field(default_factory=list)
    groups: list[Case] = field(default_factory=list)
    _cluster: Cluster | None = field(default=None, init=False)

    @property
    def now(self) -> float:
        """Unix seconds, when the pod was decided on: just after it was made, and after the last allocation."""
        made = [one.status.allocation for one in self.claims if one.status.allocation is not None]
        times = [one.allocation_timestamp.timestamp() for one in made if one.allocation_timestamp]
        return max([self.probe.metadata.created, *times]) + 1

    def cluster(self) -> Cluster:
        """All of it."""
        if self._cluster is None:
            cluster = self._cluster = Cluster()
            cluster.device_users.pass_time(self.now)
            for one in (*self.slices, *self.classes, *self.claims, *self.rules):
                cluster.device_users.put(one)
            for group in self.groups:
                meta = group["metadata"]
                cluster.device_users.put_group((meta["namespace"], meta["name"]), meta["uid"], _listed(group))
            for node in self.nodes:
                cluster.put_node(node)
            for pod in self.pods:
                cluster.put_pod(pod, keep=False)
            cluster.put_pod(self.probe, keep=True)
        return self._cluster

    @property
    def pod_class(self) -> PodClass:
        """The class of the pod that wants a node."""
        return self.cluster().pods[self.probe.metadata.namespace, self.probe.metadata.name].pod_class

    @cached_property
    def claims_of_probe(self) -> dict[str, str]:
        """The claims of the pod by what it calls them."""
        made = {one.name: one.resource_claim_name for one in self.probe.status.resource_claim_statuses}
        names = {one.name: one.resource_claim_name or made.get(one.name) for one in self.probe.spec.resource_claims}
        return {name: claim for name, claim in names.items() if claim}

    @cached_property
    def specs(self) -> dict[str, ResourceClaimSpec]:
        """What claims ask for, by name."""
        return {one.metadata.name: one.spec for one in self.claims}

    @cached_property
    def device_classes(self) -> dict[str, DeviceClass]:
        """All classes by name."""
        return {one.metadata.name: one for one in self.classes}


def world_of(case: Case) -> DeviceWorld:
    """Everything that existed when the pod in question was decided on."""
    return DeviceWorld(
        nodes=[_read(one, Node) for one in case["nodes"]],
        pods=[_read(one, Pod) for one in case["pods"]],
        slices=[_read(one, ResourceSlice) for one in case["resourceSlices"]],
        classes=[_read(one, DeviceClass) for one in case["deviceClasses"]],
        claims=[_read(one, ResourceClaim) for one in case["claims"]],
        probe=_read(case["probe"], Pod),
        rules=[_read(one, DeviceTaintRule) for one in case.get("deviceTaintRules", ())],
        groups=case.get("podGroups", []),
    )


def _listed(group: Case) -> list[PodResourceClaim]:
    return [_read(one, PodResourceClaim) for one in group["spec"].get("resourceClaims", ())]


def _read(raw: Any, kind: type[T]) -> T:
    return msgspec.json.decode(json.dumps(raw), type=kind)


class Decided(NamedTuple):
    """What an engine decides about the pod.

    Attributes:
        node: Where it is to go; None where it waits.
        given: What its claims are to get there.
        decisions: All that was decided, when what was to be written on claims was written and seen.
        claims: The claims then, by namespace and name.
    """

    node: str | None
    given: list[ClaimAllotment]
    decisions: list[AnyDecision]
    claims: dict[tuple[str, str], ResourceClaim]


def decided(world: DeviceWorld) -> Decided:
    """What a new engine decides that is told of everything there is, and then of the pod."""
    engine = Engine(TuttiConfiguration())
    for one in _existing(world):
        engine.observe(one)
    engine.observe(seen.PodSeen(_ours(world.probe)))
    engine.observe(seen.Synced())
    claims = {one.key: one for one in world.claims}
    out = decisions = engine.decide(world.now)
    key = (world.probe.metadata.namespace, world.probe.metadata.name)
    place = engine.state.cluster.pods[key].place
    given = [one.allotment for one in engine.state.cluster.nodes.devices.promises.of_pod(key)]
    for version in range(1, _MOST_TURNS):
        writes = [one for one in out if isinstance(one, WriteDeviceClaim) and one.change != "free"]
        for write in writes:
            claim = written(claims[write.namespace, write.name], write)
            meta = msgspec.structs.replace(claim.metadata, resource_version=str(version))
            claim = claims[claim.key] = msgspec.structs.replace(claim, metadata=meta)
            engine.observe(devices_seen.DeviceClaimSeen(claim))
            about = (write.namespace, write.name, write.uid, write.change)
            engine.observe(seen.DeviceClaimWritten(*about, done=True, version=str(version)))
        for extended in (one for one in out if isinstance(one, WriteExtendedClaim)):
            if extended.change == "make":
                claim = claims[extended.namespace, extended.name] = made(extended)
                engine.observe(devices_seen.DeviceClaimSeen(claim))
            about = (extended.namespace, extended.name, extended.uid, extended.change)
            engine.observe(seen.DeviceClaimWritten(*about, done=True))
        out = engine.decide(world.now)
        decisions = [*decisions, *out]
    return Decided(place or None, given, decisions, claims)


def _ours(pod: Pod) -> Pod:
    """The pod as one that the engine is to place, of which nothing has been said yet but which claims are made for it."""
    spec = msgspec.structs.replace(pod.spec, scheduler_name="tutti", node_name="")
    status = type(pod.status)(resource_claim_statuses=pod.status.resource_claim_statuses)
    return msgspec.structs.replace(pod, spec=spec, status=status)


def _existing(world: DeviceWorld) -> Iterator[seen.AnyObservation]:
    yield from map(devices_seen.SliceSeen, world.slices)
    yield from map(devices_seen.DeviceClassSeen, world.classes)
    yield from map(devices_seen.DeviceClaimSeen, world.claims)
    yield from map(devices_seen.DeviceTaintRuleSeen, world.rules)
    yield from (seen.GangObjectSeen(one["apiVersion"], one["kind"], one) for one in world.groups)
    yield from map(seen.NodeSeen, world.nodes)
    yield from map(seen.PodSeen, world.pods)


def allotments(nodes: NodeColumns, pod_class: PodClass, node: str) -> list[ClaimAllotment]:
    """What is kept for a pod of a class on a node."""
    promises = nodes.devices.promises
    earmark = promises.take_over(pod_class.signature, node)
    assert earmark is not None
    promises.put_back(pod_class.signature, node, earmark)
    return list(earmark)
