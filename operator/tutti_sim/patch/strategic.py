"""Strategic merge patch: a merge patch that joins lists by the key their items are known by.

Directives: `$patch: delete|replace|merge` in objects, `$deleteFromPrimitiveList/<field>`, `$retainKeys`,
`$setElementOrder/<field>` (apimachinery/pkg/util/strategicpatch).
"""

from __future__ import annotations

from typing import Any

from tutti_sim.meta.errors import bad_request
from tutti_sim.patch.shape import Form, Shape

Json = dict[str, Any]

DIRECTIVE = "$patch"
DELETE_FROM = "$deleteFromPrimitiveList/"
ORDER = "$setElementOrder/"
RETAIN = "$retainKeys"
LISTS = (DELETE_FROM, ORDER, RETAIN)


def merge(target: Json, patch: Json, shape: Shape) -> Json:
    """The target with a strategic merge patch applied; shares what the patch does not touch."""
    _check_directives(patch)
    directive = patch.get(DIRECTIVE)
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != DIRECTIVE}
    if directive == "delete":
        return {}
    result = dict(target)
    if RETAIN in patch:
        result = {key: value for key, value in result.items() if key in patch[RETAIN]}
    for key, value in patch.items():
        if key.startswith(DELETE_FROM):
            _remove_values(result, key.removeprefix(DELETE_FROM), value)
    for key, value in patch.items():
        if key.startswith("$"):
            continue
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _value(result.get(key), value, shape.field(key))
    for key, order in patch.items():
        if key.startswith(ORDER):
            _reorder(result, key.removeprefix(ORDER), order, shape)
    return result


def _check_directives(patch: Json) -> None:
    for key, value in patch.items():
        if key.startswith(LISTS) and not isinstance(value, list):
            raise bad_request(f"{key} must be a list")


def _value(target: Any, patch: Any, shape: Shape) -> Any:
    if isinstance(patch, dict) and shape.merge_key == "=":
        return patch
    if isinstance(patch, dict):
        return merge(target if isinstance(target, dict) else {}, patch, shape)
    if isinstance(patch, list) and shape.merge_key:
        existing = target if isinstance(target, list) else []
        if shape.merge_key == ".":
            return existing + [item for item in patch if item not in existing]
        return _join(existing, patch, shape)
    return patch


def _join(target: list[Any], patch: list[Any], shape: Shape) -> list[Any]:
    key = shape.merge_key
    if any(isinstance(item, dict) and item.get(DIRECTIVE) == "replace" and key not in item for item in patch):
        return [item for item in patch if not (isinstance(item, dict) and DIRECTIVE in item)]
    result = list(target)
    for item in patch:
        position = _position(result, key, item)
        if item.get(DIRECTIVE) == "delete":
            if position is not None:
                del result[position]
        elif position is None:
            result.append(merge({}, item, shape.element()))
        else:
            result[position] = merge(result[position], item, shape.element())
    return result


def _position(items: list[Any], key: str, wanted: Json) -> int | None:
    for index, item in enumerate(items):
        if isinstance(item, dict) and item.get(key) == wanted.get(key):
            return index
    return None


def _remove_values(result: Json, field: str, values: list[Any]) -> None:
    if isinstance(result.get(field), list):
        result[field] = [item for item in result[field] if item not in values]


def _reorder(result: Json, field: str, order: list[Any], shape: Shape) -> None:
    items = result.get(field)
    if not isinstance(items, list):
        return
    place = shape.field(field)
    if place.form is Form.SET or not place.merge_key or place.merge_key == ".":
        wanted = list(order)
        result[field] = sorted(items, key=lambda item: wanted.index(item) if item in wanted else len(wanted))
        return
    keys = [item.get(place.merge_key) for item in order]
    result[field] = sorted(
        items, key=lambda item: keys.index(item[place.merge_key]) if item.get(place.merge_key) in keys else len(keys)
    )
