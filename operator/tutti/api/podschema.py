"""The schema of a pod template in our CRDs: what the API server checks of it, generated from the view that reads it.

What it refuses is of the wrong type, or nothing that Kubernetes would take in a pod, or more than is kept of a template
(`api/templates.py`), so that no template of a Job or a PyTorchJob is refused that pods could be made of. What is not
read is kept as it was written, whatever it is; of it only the number of fields is bounded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import inspect

from tutti.api import core, quantity
from tutti.api.labels import LabelSelector, LabelSelectorRequirement, NodeSelectorRequirement
from tutti.api.model import QUANTITY_SCHEMA
from tutti.api.taints import Toleration
from tutti.api.templates import MOST_BYTES, PodTemplate, TemplateMeta

MOST_ITEMS: Final = MOST_BYTES // len("{},")
"""Items of a list: more would not be kept even if there were nothing in any of them."""
MOST_ENTRIES: Final = MOST_BYTES // len('"":0,')
"""Entries of a map: more would not be kept even if they had no names."""
MOST_FIELDS: Final = 256
"""Fields of an object, those included that are not read. The widest of Kubernetes 1.36, PodSpec, has 43."""

_LABEL_KEY: Final = 317
_LABEL_VALUE = _PART_NAME = 63
_OBJECT_NAME: Final = 253
_Place = tuple[type[msgspec.Struct], str]

TEXTS: Final[Mapping[_Place, int]] = {
    (TemplateMeta, "labels"): _LABEL_VALUE,
    (core.PodSpec, "nodeName"): _OBJECT_NAME,
    (core.PodSpec, "nodeSelector"): _LABEL_VALUE,
    (core.PodSpec, "priorityClassName"): _OBJECT_NAME,
    (core.Container, "name"): _PART_NAME,
    (core.Volume, "name"): _PART_NAME,
    (core.SchedulingGate, "name"): _LABEL_KEY,
    (core.PodAffinityTerm, "topologyKey"): _LABEL_KEY,
    (Toleration, "key"): _LABEL_KEY,
    (Toleration, "value"): _LABEL_VALUE,
    (LabelSelector, "matchLabels"): _LABEL_VALUE,
    (LabelSelectorRequirement, "key"): _LABEL_KEY,
    (NodeSelectorRequirement, "key"): _LABEL_KEY,
}
"""Characters of a text, or of each text in a map, where Kubernetes 1.36 takes no more in any pod
(pkg/apis/core/validation/validation.go and apimachinery, pkg/util/validation). Elsewhere as many as are kept at all."""

NUMBERS: Final[Mapping[_Place, tuple[int, int]]] = {
    (core.ContainerPort, "containerPort"): (1, 65_535),
    (core.ContainerPort, "hostPort"): (0, 65_535),
    (core.PreferredSchedulingTerm, "weight"): (1, 100),
    (core.WeightedPodAffinityTerm, "weight"): (1, 100),
    (core.TopologySpreadConstraint, "maxSkew"): (1, 2**31 - 1),
    (core.TopologySpreadConstraint, "minDomains"): (0, 2**31 - 1),
}
"""The smallest and the largest number where Kubernetes 1.36 takes no other in any pod (the same files)."""

QUANTITY: Final[Mapping[str, Any]] = {
    "x-kubernetes-preserve-unknown-fields": True,
    "minimum": 0,
    "pattern": QUANTITY_SCHEMA["pattern"],
    "maxLength": quantity.MAX_LENGTH,
    "not": {"enum": [False, True]},
    "minItems": 1,
    "maxItems": 0,
    "minProperties": 1,
    "maxProperties": 0,
}
"""An amount: text, or any number. `x-kubernetes-int-or-string` would refuse the `cpu: 0.5` that a pod may ask for, and
no type of a structural schema is both; so what is neither is refused by bounds that no list or object can meet."""

_PRESERVED: Final = {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "maxProperties": MOST_FIELDS}
_AMOUNT: Final = {inspect.StrType, inspect.IntType, inspect.FloatType}


def template_schema() -> dict[str, Any]:
    """The structural schema of a pod template."""
    return _schema(inspect.type_info(PodTemplate), (PodTemplate, ""))


def _schema(said: inspect.Type, place: _Place) -> dict[str, Any]:
    """The schema of a type of the view; `place` is the field that it is of."""
    match said:
        case inspect.Metadata(type=inner):
            return _schema(inner, place)
        case inspect.UnionType(types=types):
            return _union([one for one in types if not isinstance(one, inspect.NoneType)], place)
        case inspect.StructType(cls=view, fields=fields):
            properties = {one.encode_name: _schema(one.type, (view, one.encode_name)) for one in fields}
            return {**_PRESERVED, "properties": properties} if properties else dict(_PRESERVED)
        case inspect.ListType(item_type=items):
            kept = {"maxItems": MOST_ITEMS, "x-kubernetes-list-type": "atomic"}
            return {"type": "array", **kept, "items": _schema(items, place)}
        case inspect.DictType(value_type=inspect.AnyType()):
            return dict(_PRESERVED)
        case inspect.DictType(value_type=values):
            return {"type": "object", "maxProperties": MOST_ENTRIES, "additionalProperties": _schema(values, place)}
        case _:
            return _scalar(said, place)


def _scalar(said: inspect.Type, place: _Place) -> dict[str, Any]:
    match said:
        case inspect.StrType():
            return {"type": "string", "maxLength": TEXTS.get(place, MOST_BYTES)}
        case inspect.IntType(ge=None, le=None) if place not in NUMBERS:
            return {"type": "integer", "format": "int64"}  # as numbers of a schema, its bounds would not be exact
        case inspect.IntType(ge=least, le=most):
            low, high = NUMBERS.get(place, (least, most))
            return {"type": "integer", "minimum": low, "maximum": high}
        case inspect.BoolType():
            return {"type": "boolean"}
        case _:
            raise TypeError(f"{place[0].__name__}.{place[1]}: no schema is known of {said}")


def _union(types: list[inspect.Type], place: _Place) -> dict[str, Any]:
    if {type(one) for one in types} == _AMOUNT:
        return dict(QUANTITY)
    (only,) = types
    return _schema(only, place)
