"""The keys of labels and annotations that anybody reads, and what the JSON in annotations may be."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from functools import cache
from types import ModuleType

import msgspec

import tutti.api
import tutti.cluster
import tutti.engine
import tutti.placement
from tests.hostile.shapes import Shape, shape_of
from tutti.api.configuration import Conventions
from tutti.api.conventions import membership_keys, reading
from tutti.engine.records.pod_admission import PodAdmission


def _modules(*packages: ModuleType) -> Iterator[ModuleType]:
    for package in packages:
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            yield importlib.import_module(found.name)


@cache
def keys() -> tuple[str, ...]:
    """Every key of a label or an annotation that anybody reads, and more that only look like one."""
    found = set(membership_keys(Conventions()))
    for module in _modules(tutti.api, tutti.cluster, tutti.placement, tutti.engine):
        for value in vars(module).values():
            texts = value if isinstance(value, tuple | frozenset | list) else (value,)
            found |= {one for one in texts if isinstance(one, str) and _is_key(one)}
    return tuple(sorted(found))


def _is_key(text: str) -> bool:
    domain, _, name = text.partition("/")
    return "." in domain and name.replace("-", "").replace("_", "").replace(".", "").isalnum() and " " not in domain


JSON = {"_GANGS_JSON": "koordinator", "_TASK_GROUPS_JSON": "yunikorn", "_LAYERS": "kueue"}
"""The convention of each decoder of JSON in an annotation."""


@cache
def texts_of_json() -> Mapping[str, Shape]:
    """What the JSON of annotations may be, by the key of the annotation."""
    found: dict[str, Shape] = {"scheduling.tutti.dev/admission": shape_of(PodAdmission)}
    for module in _modules(importlib.import_module("tutti.api.conventions")):
        for name, value in vars(module).items():
            if isinstance(value, msgspec.json.Decoder):
                shape = shape_of(value.type)
                found.update({key: shape for key in reading.KEYS[JSON[name]](Conventions()) if key not in found})
    return found
