"""The fleet as a file: shapes of nodes, what becomes of pods on them, and what happens to the nodes over time."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from tutti.api.model import LabelKey, Model, ResourceName, ShortName
from tutti_sim.hollow.devices import Driver
from tutti_sim.hollow.fate import Fates, PodDefaults
from tutti_sim.hollow.nodes import GPU_LABEL, RACK, ZONE, manifest
from tutti_sim.meta import Json, names, yamlfile
from tutti_sim.meta.amounts import amount, canonical_amount

IMAGES_SHOWN = 50
"""A node tells of so many images only, the largest (kubelet, nodeStatusMaxImages)."""


def _amount(text: str) -> str:
    try:
        value = amount(text)
    except ValueError:
        raise ValueError(f"must be a quantity such as 64, 1500m or 512Gi, not {text!r}") from None
    if value < 0:
        raise ValueError(f"must not be negative, but is {text!r}")
    return canonical_amount(text)


def _label(text: str) -> str:
    fault = names.label_value(text)
    if fault:
        raise ValueError(fault)
    return text


Amount = Annotated[str, BeforeValidator(str), AfterValidator(_amount)]
LabelValue = Annotated[str, BeforeValidator(str), AfterValidator(_label)]
Positive = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(ge=0)]


class Taint(Model):
    """What a node repels pods with."""

    key: LabelKey
    value: LabelValue = ""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]


class Image(Model):
    """A container image that a node has already."""

    names: Annotated[list[str], Field(min_length=1)]
    size: Amount


class Layout(Model):
    """How nodes are spread over racks and zones; racks and zones are numbered on from shape to shape."""

    nodes_per_rack: Positive = 4
    racks_per_zone: Positive = 4
    rack_label: LabelKey = RACK
    zone_label: LabelKey = ZONE


class Shape(Model):
    """Nodes that are alike."""

    name: ShortName
    """What their names begin with: `gpu` makes gpu-0000, gpu-0001, ..."""
    count: Annotated[int, Field(ge=0, le=100_000)]
    resources: Annotated[dict[ResourceName, Amount], Field(min_length=1)]
    """Their capacity; 110 pods, unless `pods` is among it."""
    allocatable: dict[ResourceName, Amount] = {}
    """What pods may have of it, where that is less."""
    labels: dict[LabelKey, LabelValue] = {}
    layout: Layout = Layout()
    gpu_model: LabelValue | None = None
    images: list[Image] = []
    taints: list[Taint] = []

    @model_validator(mode="after")
    def check_allocatable(self) -> Self:
        """Nothing can be given away that is not there."""
        for resource, value in self.allocatable.items():
            have = self.resources.get(resource)
            if have is None:
                raise ValueError(f"allocatable names {resource}, which is not among the resources of {self.name!r}")
            if amount(value) > amount(have):
                raise ValueError(f"allocatable {resource} is {value}, more than the {have} that {self.name!r} has")
        return self

    def nodes(self, *, rack: int, zone: int) -> list[Json]:
        """The nodes as objects, their racks and zones numbered from those given."""
        made = []
        for index in range(self.count):
            place, layout = index // self.layout.nodes_per_rack, self.layout
            labels = {
                layout.zone_label: f"zone-{zone + place // layout.racks_per_zone}",
                layout.rack_label: f"rack-{rack + place:03d}",
                **({GPU_LABEL: self.gpu_model} if self.gpu_model else {}),
                **self.labels,
            }
            made.append(self._complete(manifest(f"{self.name}-{index:04d}", {"pods": "110", **self.resources}, labels)))
        return made

    def _complete(self, node: Json) -> Json:
        node["status"]["allocatable"].update(self.allocatable)
        if self.taints:
            node["spec"]["taints"] = [one.model_dump(exclude_defaults=True) for one in self.taints]
        largest = sorted(self.images, key=lambda one: amount(one.size), reverse=True)[:IMAGES_SHOWN]
        if largest:
            node["status"]["images"] = [{"names": one.names, "sizeBytes": int(amount(one.size))} for one in largest]
        return node

    @property
    def racks(self) -> int:
        """How many racks the nodes fill."""
        return -(-self.count // self.layout.nodes_per_rack)

    @property
    def zones(self) -> int:
        """How many zones the nodes fill."""
        return -(-self.racks // self.layout.racks_per_zone)


class Deed(Model):
    """Something that is done to nodes at a time."""

    at: Seconds
    """Seconds since the start of the cluster."""
    do: Literal["drain", "uncordon", "kill", "revive", "remove"]
    """Drain cordons and evicts; kill pulls the plug and revive puts it back; remove deletes the node."""
    nodes: str = "*"
    """Names of nodes, with * and ? as in a shell."""
    pick: Positive | None = None
    """How many of them, chosen by the seed; all if not given."""
    every: Annotated[float, Field(gt=0)] | None = None
    """Seconds after which it is done again, and so on."""


class Shapes(Model):
    """A fleet, as a user writes it."""

    nodes: Annotated[list[Shape], Field(min_length=1)]
    pods: PodDefaults = PodDefaults()
    schedule: list[Deed] = []
    drivers: list[Driver] = []
    """Who has devices on these nodes, for ResourceClaims."""
    seed: int = 0

    @model_validator(mode="after")
    def check_names(self) -> Self:
        """No two shapes may make nodes of the same name."""
        seen: set[str] = set()
        for shape in self.nodes:
            if shape.name in seen:
                raise ValueError(f"two shapes are called {shape.name!r}; their nodes would have the same names")
            seen.add(shape.name)
        drivers = [one.name for one in self.drivers]
        for name in drivers:
            if drivers.count(name) > 1:
                raise ValueError(f"two drivers are called {name!r}")
        return self

    @property
    def fates(self) -> Fates:
        """What becomes of pods."""
        return Fates(self.pods, self.seed)

    def manifests(self) -> list[Json]:
        """The nodes as objects to be created."""
        made: list[Json] = []
        rack = zone = 0
        for shape in self.nodes:
            made.extend(shape.nodes(rack=rack, zone=zone))
            rack, zone = rack + shape.racks, zone + shape.zones
        return made


def load_shapes(path: Path) -> Shapes:
    """The fleet in a file.

    Raises:
        ConfigurationError: The file is not as it should be; the error says where, and what would be right.
    """
    return yamlfile.read_yaml(path.read_text(encoding="utf-8"), Shapes, str(path))
