"""Drivers of devices as a file tells of them, and the slices that they publish, of nodes and of networks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from itertools import islice
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from tutti.api.model import Model, ShortName
from tutti_sim.devices import slices
from tutti_sim.meta import Json, names
from tutti_sim.meta.amounts import amount, canonical_amount

API: Final = "resource.k8s.io"
_MOST_IN_SLICE: Final = 128
_MOST_WITH_COUNTERS: Final = 64
_MOST_COUNTER_SETS: Final = 8


def _amount(text: str) -> str:
    try:
        value = amount(text)
    except ValueError:
        raise ValueError(f"must be a quantity such as 80Gi, not {text!r}") from None
    if value < 0:
        raise ValueError(f"must not be negative, but is {text!r}")
    return canonical_amount(text)


def _subdomain(text: str) -> str:
    if fault := names.subdomain(text):
        raise ValueError(fault)
    return text


Amount = Annotated[str, BeforeValidator(str), AfterValidator(_amount)]
DriverName = Annotated[str, Field(max_length=63), AfterValidator(_subdomain)]
Positive = Annotated[int, Field(ge=1)]


class Version(Model):
    """An attribute that is a semantic version."""

    version: str


Attribute = bool | int | str | Version


class DeviceTaint(Model):
    """What a device repels claims with."""

    key: str
    value: str = ""
    effect: Literal["NoSchedule", "NoExecute", "None"] = "NoSchedule"


class Partition(Model):
    """A part of a device that can be had by itself, as a MIG profile.

    It takes `slices` of a device's slices that lie side by side, from one of `starts` on.
    """

    name: Annotated[str, Field(max_length=32), AfterValidator(_subdomain)]
    slices: Positive
    starts: Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)]
    attributes: dict[str, Attribute] = {}
    capacity: dict[str, Amount] = {}


class DriverDeed(Model):
    """Something that happens to devices at a time."""

    at: Annotated[float, Field(ge=0)]
    """Seconds since the start of the cluster."""
    do: Literal["taint", "untaint", "vanish", "publish"]
    """Taint puts a taint on devices, untaint takes it off; vanish takes away what is published, publish undoes that."""
    nodes: str = "*"
    """Names of nodes, with * and ? as in a shell; of devices of a network, those of its domains."""
    devices: str = "*"
    """Names of devices, alike."""
    taint: DeviceTaint | None = None
    every: Annotated[float, Field(gt=0)] | None = None
    """Seconds after which it is done again, and so on."""

    @model_validator(mode="after")
    def check_taint(self) -> Self:
        """Only who taints, or takes a taint off, says which."""
        if (self.taint is not None) != (self.do in ("taint", "untaint")):
            raise ValueError("taint goes with `do: taint` and `do: untaint`, and with nothing else")
        return self


class Driver(Model):
    """A driver, and the devices that it has on each of its nodes; with `domainNodes`, of nodes that are linked."""

    name: DriverName
    nodes: str = "*"
    """Names of nodes, with * and ? as in a shell."""
    devices: Annotated[int, Field(ge=1, le=128)]
    """How many there are on each node, or in each domain."""
    prefix: ShortName = "gpu"
    """What their names begin with: `gpu` makes gpu-0, gpu-1, ..."""
    device_class: ShortName | None = None
    """The name of a DeviceClass of all devices of this driver, which is made with the cluster."""
    attributes: dict[str, Attribute] = {}
    capacity: dict[str, Amount] = {}
    groups: dict[str, Positive] = {}
    """Attributes that so many devices, one after the other, have in common: `pcieRoot: 2`."""
    node_groups: dict[str, Positive] = {}
    """Attributes that the devices of so many nodes, one after the other, have in common: `nvlinkDomain: 4`."""
    domain_nodes: Positive | None = None
    """The devices belong to a network: each domain of so many nodes has its own, which all of them can use."""
    slices: Positive | None = None
    """Into how many slices each device can be partitioned."""
    partitions: list[Partition] = []
    shared: bool = False
    """Whether several claims may use one device, each a part of its capacity."""
    binding_conditions: Annotated[list[str], Field(max_length=4)] = []
    """Conditions that a device is waited for, once it is allocated; `ready_seconds` later they are true."""
    ready_seconds: Annotated[float, Field(ge=0)] = 0.0
    schedule: list[DriverDeed] = []

    @model_validator(mode="after")
    def check_partitions(self) -> Self:
        """Partitions lie within a device."""
        if self.partitions and self.slices is None:
            raise ValueError(f"the partitions of {self.name!r} need `slices`: how many there are of each device")
        for part in self.partitions:
            if max(part.starts) + part.slices > (self.slices or 0):
                raise ValueError(f"partition {part.name!r} ends beyond the {self.slices} slices of a device")
        return self

    @model_validator(mode="after")
    def check_published(self) -> Self:
        """What it publishes is what an API server takes."""
        for made in self.published(["node"]):
            faults = slices.slice_faults(made["spec"], "spec")
            if faults:
                raise ValueError(f"no API server would take its slices: {faults[0].field}: {faults[0].message}")
        return self

    def published(self, nodes: Sequence[str]) -> list[Json]:
        """The slices for nodes, of which all are given, in order."""
        chosen = [name for name in nodes if fnmatchcase(name, self.nodes)]
        if self.domain_nodes is None:
            return [one for index, name in enumerate(chosen) for one in self._pool(name, index, {"nodeName": name})]
        made: list[Json] = []
        for index in range(0, len(chosen), self.domain_nodes):
            held = list(islice(chosen, index, index + self.domain_nodes))
            term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": held[:1]}]}
            terms = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": held}]}
            where = {"nodeSelectorTerms": [term if len(held) == 1 else terms]}
            name = f"domain-{index // self.domain_nodes}"
            made += self._pool(name, index, {"nodeSelector": where})
        return made

    def classes(self) -> list[Json]:
        """The DeviceClass of this driver, if it has one."""
        if self.device_class is None:
            return []
        expression = f'device.driver == "{self.name}"'
        return [{"metadata": {"name": self.device_class}, "spec": {"selectors": [{"cel": {"expression": expression}}]}}]

    def _pool(self, name: str, index: int, where: Json) -> list[Json]:
        devices = [one for number in range(self.devices) for one in self._device(number, index)]
        counters = [self._counters(number) for number in range(self.devices)] if self.slices else []
        most = _MOST_WITH_COUNTERS if counters else _MOST_IN_SLICE
        parts: list[Json] = [{"sharedCounters": part} for part in _parts(counters, _MOST_COUNTER_SETS)]
        parts += [{"devices": part} for part in _parts(devices, most)]
        pool = {"name": name, "generation": 1, "resourceSliceCount": len(parts)}
        return [
            {
                "metadata": {"name": f"{name}-{self.name}-{number}"},
                "spec": {"driver": self.name, "pool": dict(pool), **where, **part},
            }
            for number, part in enumerate(parts)
        ]

    def _counters(self, number: int) -> Json:
        return {"name": f"{self.prefix}-{number}", "counters": _counted(range(self.slices or 0))}

    def _device(self, number: int, index: int) -> Iterable[Json]:
        own: dict[str, Attribute] = {**self.attributes}
        own |= {name: f"{name.rpartition('/')[2]}-{number // size}" for name, size in self.groups.items()}
        own |= {name: f"{name.rpartition('/')[2]}-{index // size}" for name, size in self.node_groups.items()}
        own["index"] = number
        name = f"{self.prefix}-{number}"
        made = self._one(name, own, self.capacity)
        if self.slices:
            made["consumesCounters"] = [{"counterSet": name, "counters": _counted(range(self.slices))}]
        yield made
        for part in self.partitions:
            for start in part.starts:
                both = {**own, "profile": part.name, **part.attributes}
                piece = self._one(f"{name}-{part.name}-{start}".replace(".", "-"), both, part.capacity)
                taken = _counted(range(start, start + part.slices))
                piece["consumesCounters"] = [{"counterSet": name, "counters": taken}]
                yield piece

    def _one(self, name: str, attributes: dict[str, Attribute], capacity: dict[str, Amount]) -> Json:
        made: Json = {"name": name, "attributes": {key: _attribute(value) for key, value in attributes.items()}}
        if capacity:
            made["capacity"] = {key: {"value": value} for key, value in capacity.items()}
        if self.shared:
            made["allowMultipleAllocations"] = True
        if self.binding_conditions:
            made["bindingConditions"] = list(self.binding_conditions)
            made["bindingFailureConditions"] = ["Failed"]
        return made


def _counted(held: Iterable[int]) -> Json:
    return {f"slice-{number}": {"value": "1"} for number in held}


def _attribute(value: Attribute) -> Json:
    if isinstance(value, Version):
        return {"version": value.version}
    return (
        {"bool": value} if isinstance(value, bool) else {"int": value} if isinstance(value, int) else {"string": value}
    )


def _parts(items: Sequence[Any], most: int) -> list[list[Any]]:
    return [list(items[start : start + most]) for start in range(0, len(items), most)]
