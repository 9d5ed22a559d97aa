"""The controllers by name, so that each can be left out: what a cluster lacks is part of what one tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol, runtime_checkable

from tutti.api.problems import nearest
from tutti_sim.controllers.claims import EphemeralVolumes, VolumeProtection
from tutti_sim.controllers.device_claims import ResourceClaims
from tutti_sim.controllers.device_taints import DeviceTaintEvictions
from tutti_sim.controllers.disruption import DisruptionController
from tutti_sim.controllers.garbage import (
    QUARANTINE_SECONDS,
    TTL_SECONDS,
    EventTtl,
    GarbageCollector,
    NamespaceController,
    PodGarbage,
)
from tutti_sim.controllers.jobs import JobController
from tutti_sim.controllers.nodes import MONITOR_GRACE_SECONDS, NodeLifecycle, TaintEvictions
from tutti_sim.controllers.volumes import VolumeBinder
from tutti_sim.kinds.resource import Resource
from tutti_sim.rest.backend import Backend
from tutti_sim.store.collection import Version


class Controller(Protocol):
    """Something that reacts to writes."""

    def follow(self, resource: Resource, old: Version | None, new: Version | None) -> None:
        """Take note of a write; None stands for an object that is not there yet, or no longer."""
        ...


@runtime_checkable
class Working(Protocol):
    """A controller with a task of its own."""

    async def run(self) -> None:
        """Work until cancelled."""
        ...


@dataclass(frozen=True, slots=True)
class Timing:
    """How long the controllers wait, in seconds; the defaults are those of a real control plane."""

    event_ttl: float = TTL_SECONDS
    node_grace: float = MONITOR_GRACE_SECONDS
    quarantine: float = QUARANTINE_SECONDS
    provision: float = 0.0


MAKERS: Mapping[str, Callable[[Backend, Timing], Controller]] = MappingProxyType(
    {
        "namespace": lambda backend, _: NamespaceController(backend),
        "garbage-collector": lambda backend, _: GarbageCollector(backend),
        "job": lambda backend, _: JobController(backend),
        "disruption": lambda backend, _: DisruptionController(backend),
        "volume-binder": lambda backend, timing: VolumeBinder(backend, timing.provision),
        "ephemeral-volume": lambda backend, _: EphemeralVolumes(backend),
        "volume-protection": lambda backend, _: VolumeProtection(backend),
        "resource-claim": lambda backend, _: ResourceClaims(backend),
        "device-taint-eviction": lambda backend, _: DeviceTaintEvictions(backend),
        "node-lifecycle": lambda backend, timing: NodeLifecycle(backend, timing.node_grace),
        "taint-eviction": lambda backend, _: TaintEvictions(backend),
        "pod-garbage": lambda backend, timing: PodGarbage(backend, timing.quarantine),
        "event-ttl": lambda backend, timing: EventTtl(backend, timing.event_ttl),
    }
)
ALL = tuple(MAKERS)


def chosen(names: Iterable[str] = ALL, without: Iterable[str] = ()) -> tuple[str, ...]:
    """The controllers of these names but not of those, in the order they are started.

    Raises:
        ValueError: There is no controller of such a name.
    """
    wanted, unwanted = list(names), list(without)
    for name in (*wanted, *unwanted):
        if name not in MAKERS:
            raise ValueError(f"there is no controller {name!r}; {nearest(name, ALL)}")
    return tuple(name for name in ALL if name in wanted and name not in unwanted)


def make(backend: Backend, names: Iterable[str], timing: Timing) -> list[Controller]:
    """The controllers of these names."""
    return [MAKERS[name](backend, timing) for name in names]
