"""Under which names quota counts devices of dynamic resource allocation, and what of them: deviceClassMappings.

Fields: Kueue 0.20, apis/config/v1beta2, DeviceClassMapping.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field, model_validator

from tutti.api.model import Model, ResourceName

Driver = Annotated[str, Field(min_length=1, max_length=63)]
QualifiedName = Annotated[str, Field(min_length=1, max_length=317)]
Expression = Annotated[str, Field(min_length=1, max_length=10 * 1024)]


class SourceCEL(Model):
    """An expression over a device."""

    expression: Expression
    """CEL, as in the selectors of a DeviceClass: `device.driver == "gpu.example.com"`."""


class SourceSelector(Model):
    """Which devices are counted."""

    cel: SourceCEL


class DeviceSource(Model):
    """A counter or a capacity of devices that quota counts."""

    name: QualifiedName
    """Of the counter, in whichever counter set; or of the capacity, with its domain where that is not the driver's."""
    driver: Driver
    """Whose devices are counted."""
    device_selector: SourceSelector
    """Which of these."""


class DeviceClassSource(Model):
    """What of a device is counted: exactly one of these."""

    counter: DeviceSource | None = None
    """Of partitionable devices, how much they consume of a shared counter, such as the memory of their card."""
    capacity: DeviceSource | None = None
    """Of devices that are shared, how much of a capacity is had."""

    @model_validator(mode="after")
    def check_one(self) -> DeviceClassSource:
        """Exactly one is named."""
        if (self.counter is None) == (self.capacity is None):
            raise ValueError("name exactly one of counter and capacity")
        return self

    @property
    def said(self) -> DeviceSource:
        """The one that is named."""
        found = self.counter or self.capacity
        assert found is not None  # checked
        return found


class DeviceClassMapping(Model):
    """A name under which ClusterQueues have quota of devices."""

    name: ResourceName
    """As `coveredResources` of ClusterQueues name it. Where it is also a resource that pods request, both are counted
    together."""
    device_class_names: Annotated[list[QualifiedName], Field(min_length=1, max_length=64)]
    """The DeviceClasses whose devices are counted."""
    sources: Annotated[list[DeviceClassSource], Field(max_length=16)] = []
    """What of each device is counted, all together; left out: each device counts 1."""

    @property
    def counted(self) -> set[tuple[str, str]]:
        """What of devices it counts: counters and capacities by name; ("", "") where it counts devices."""
        named = {("counter" if one.counter else "capacity", one.said.name) for one in self.sources}
        return named or {("", "")}


class ResourcesSettings(Model):
    """What quota counts beside the requests of pods."""

    device_class_mappings: Annotated[list[DeviceClassMapping], Field(max_length=256)] = []
    """Devices that pods claim, counted under names of quota; devices of classes that no entry names are not counted."""

    @model_validator(mode="after")
    def check_classes(self) -> ResourcesSettings:
        """What a device counts under two names must be different things, and each name is given once."""
        for problem in _clashes(self.device_class_mappings):
            raise ValueError(problem)
        return self


def _clashes(mappings: list[DeviceClassMapping]) -> Iterator[str]:
    names: set[str] = set()
    counted: dict[tuple[str, tuple[str, str]], str] = {}
    devices: dict[str, str] = {}
    for mapping in mappings:
        if mapping.name in names:
            yield f"deviceClassMappings: {mapping.name} is there twice; write its classes into one entry"
        names.add(mapping.name)
        for of in mapping.device_class_names:
            for what in mapping.counted:
                before = (
                    counted.setdefault((of, what), mapping.name) if what[0] else devices.setdefault(of, mapping.name)
                )
                if before != mapping.name:
                    yield f"deviceClassMappings: class {of} is counted as {before} and {mapping.name}; keep one of them"
