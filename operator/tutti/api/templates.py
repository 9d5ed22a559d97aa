"""Pod templates in objects of ours, cut down to what is read of them.

A template is kept as it was written by the API server (its schema, `api/podschema.py`, preserves what it does not
know), so 0.9 MB of made-up small maps were 12.6 MB in memory. What is left of one is what its view has a field for:
what pods are placed by; one that is too large all the same is replaced by how large it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final, TypeAlias, get_args, get_origin

import msgspec

from tutti.api.core import PodSpec, View

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
