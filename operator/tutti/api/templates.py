"""Pod templates in objects of ours: what is kept of them, and the schema by which the API server checks them.

The schema preserves what it does not know, so 0.9 MB of made-up small maps were 12.6 MB in memory. What is left of a
template is what its view has a field for: what pods are placed by; one that is too large all the same is replaced by
how large it is. The schema is generated from that view. It refuses what is of the wrong type, or nothing that
Kubernetes would take in a pod, or more than is kept, so that no template of a Job or a PyTorchJob is refused that pods
could be made of.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final, TypeAlias, get_args, get_origin

import msgspec
from msgspec import inspect

from tutti.api import core, quantity
from tutti.api.core import PodSpec, View
from tutti.api.model import QUANTITY_SCHEMA
from tutti.api.selectors import LabelSelector, LabelSelectorRequirement, NodeSelectorRequirement, Toleration

MOST_BYTES: Final = 64 * 1024
"""How much JSON the rest of a template may be."""
TOO_LARGE: Final = "tooLarge"
"""In place of everything: how many bytes it came to."""

_Shape: TypeAlias = "Mapping[str, _Shape] | None"
"""The fields of an object, or of each object of a list, by the names on the wire; None for what has no such fields."""


class TemplateMeta(View, frozen=True):
    """What pods of a template are selected by."""

    labels: dict[str, str] = {}


class PodTemplate(View, frozen=True):
    """What is read of a template, and what its schema is made from."""

    metadata: TemplateMeta = TemplateMeta()
    spec: PodSpec = PodSpec()


def prune_workload(raw: Any) -> Any:
    """Cut down the templates of a Workload as it was read, in place; whatever is not as it should be stays to be told.

    Returns:
        The same object.
    """
    spec = raw.get("spec") if isinstance(raw, dict) else None
    groups = spec.get("podGroups") if isinstance(spec, dict) else None
    for group in groups if isinstance(groups, list) else ():
        if isinstance(group, dict) and isinstance(group.get("template"), dict):
            group["template"] = pruned(group["template"])
    return raw


def pruned(template: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is read of a template; what is of another type than it should be stays of that type, but empty."""
    out: dict[str, Any] = _fitted(template, _shape_of(PodTemplate))
    size = len(msgspec.json.encode(out))
    return {TOO_LARGE: size} if size > MOST_BYTES else out


def _fitted(value: Any, shape: _Shape) -> Any:
    if isinstance(value, list):
        return [_fitted(one, shape) for one in value]
    if not isinstance(value, dict):
        return value
    if shape is None:  # names to scalars, or what the view keeps whole; nothing in it has a depth
        return {key: type(one)() if isinstance(one, dict | list) else one for key, one in value.items()}
    return {key: _fitted(one, shape[key]) for key, one in value.items() if key in shape}


@cache
def _shape_of(view: type[msgspec.Struct]) -> Mapping[str, _Shape]:
    return {field.encode_name: _shape_in(field.type) for field in msgspec.structs.fields(view)}


def _shape_in(said: Any) -> _Shape:
    """Return the fields of the view that a type is, or a list of, or that is one of several."""
    if isinstance(said, type) and issubclass(said, msgspec.Struct):
        return _shape_of(said)
    if get_origin(said) is dict:
        return None
    return next((shape for one in get_args(said) if (shape := _shape_in(one)) is not None), None)


MOST_ITEMS: Final = MOST_BYTES // len("{},")
"""Items of a list: more would not be kept even if there were nothing in any of them."""
MOST_ENTRIES: Final = MOST_BYTES // len('"":0,')
"""Entries of a map: more would not be kept even if they had no names."""
MOST_FIELDS: Final = 256
"""Fields of an object, those included that are not read. The widest of Kubernetes 1.36, PodSpec, has 43."""

_LABEL_KEY: Final = 317
_LABEL_VALUE = _PART_NAME = 63
_OBJECT_NAME: Final = 253
_FieldOf = tuple[type[msgspec.Struct], str]

TEXTS: Final[Mapping[_FieldOf, int]] = {
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

NUMBERS: Final[Mapping[_FieldOf, tuple[int, int]]] = {
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
    return _schema_of(inspect.type_info(PodTemplate), (PodTemplate, ""))


def _schema_of(said: inspect.Type, place: _FieldOf) -> dict[str, Any]:
    """The schema of a type of the view; `place` is the field that it is of."""
    match said:
        case inspect.Metadata(type=inner):
            return _schema_of(inner, place)
        case inspect.UnionType(types=types):
            return _union([one for one in types if not isinstance(one, inspect.NoneType)], place)
        case inspect.StructType(cls=view, fields=fields):
            properties = {one.encode_name: _schema_of(one.type, (view, one.encode_name)) for one in fields}
            return {**_PRESERVED, "properties": properties} if properties else dict(_PRESERVED)
        case inspect.ListType(item_type=items):
            kept = {"maxItems": MOST_ITEMS, "x-kubernetes-list-type": "atomic"}
            return {"type": "array", **kept, "items": _schema_of(items, place)}
        case inspect.DictType(value_type=inspect.AnyType()):
            return dict(_PRESERVED)
        case inspect.DictType(value_type=values):
            return {"type": "object", "maxProperties": MOST_ENTRIES, "additionalProperties": _schema_of(values, place)}
        case _:
            return _scalar(said, place)


def _scalar(said: inspect.Type, place: _FieldOf) -> dict[str, Any]:
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


def _union(types: list[inspect.Type], place: _FieldOf) -> dict[str, Any]:
    if {type(one) for one in types} == _AMOUNT:
        return dict(QUANTITY)
    (only,) = types
    return _schema_of(only, place)
