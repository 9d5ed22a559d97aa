"""Patches of documents: JSON merge patch (RFC 7386), JSON patch (RFC 6902), and strategic merge patch.

The last is a merge patch that joins lists by the key their items are known by. The shape of a document says for each
place whether its parts are managed one by one, and by which keys the items of a list are told apart; it is made from
the table of built-in types and from the structural schemas of custom resources; where nothing is known, maps are
granular and lists atomic.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

import jsonpatch
import msgspec
from jsonpointer import JsonPointer, JsonPointerException

from tutti_sim.meta import Json
from tutti_sim.meta.errors import GO_NAMES, ApiError, bad_request, too_large


def merge_json(target: Any, patch: Any) -> Any:
    """The target with a merge patch applied; shares what the patch does not touch."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge_json(result.get(key), value)
    return result


# How much kube-apiserver lets a JSON patch do: its operations, and the bytes of JSON that its copies add up to.
OPERATIONS = 10_000
COPIED_BYTES = 3 << 20


def operations(target: Json, patch: Any) -> Json:
    """The target with a JSON patch applied.

    Raises:
        ApiError: 400 when it is no patch, 413 when it has too many operations, 422 when it does not apply.
    """
    result: Json = copy.deepcopy(target)
    copied = 0
    try:
        for step in _steps(patch):
            meant, size = _as_meant(step, result)
            copied += size
            if copied > COPIED_BYTES:
                raise _applies_not()
            result = jsonpatch.apply_patch(result, meant, in_place=True)
    except (jsonpatch.JsonPatchException, JsonPointerException, TypeError, KeyError, AttributeError, RecursionError):
        raise _applies_not() from None
    return result


def _applies_not() -> ApiError:
    return ApiError(422, "Invalid", "the server rejected our request due to an error in our request", details={})


def _steps(patch: Any) -> list[Json]:
    """The operations of a patch; ApiError 400 when it has something else, 413 when it has too many."""
    if patch is None:
        return []
    if not isinstance(patch, list):
        raise _no_patch(patch, "value of type []handlers.jsonPatchOp")
    steps = [{} if step is None else step for step in patch]
    for step in steps:
        if not isinstance(step, dict):
            raise _no_patch(step, "value of type handlers.jsonPatchOp")
        for name in ("op", "path", "from"):
            if not isinstance(step.get(name), str | None):
                raise _no_patch(step[name], f"struct field jsonPatchOp.{name} of type string")
    if len(steps) > OPERATIONS:
        raise too_large(f"The allowed maximum operations in a JSON patch is {OPERATIONS}, got {len(steps)}")
    return steps


def _no_patch(value: Any, expected: str) -> ApiError:
    what = GO_NAMES.get(type(value), "value")
    return bad_request(f"error decoding patch: json: cannot unmarshal {what} into Go {expected}")


def _as_meant(step: Json, target: Json) -> tuple[list[Json], int]:
    """What the API server's library (evanphx/json-patch v4) does for an operation, and how many bytes it copies.

    What is missing from an object is null, and can be replaced. The whole document can be tested and replaced only.

    Raises:
        JsonPointerException: A path leads nowhere.
    """
    operation, path = step.get("op"), step["path"]
    if path == "" and operation not in ("test", "replace"):
        raise JsonPointerException("no place in the document")
    match operation:
        case "replace" if path == "":
            if not isinstance(step["value"], dict | list):
                raise JsonPointerException("no document")
        case "replace" if _lacks(target, path):
            return [{**step, "op": "add"}], 0
        case "copy" | "move" if step["from"] == "":
            raise JsonPointerException("no place in the document")
        case "copy":
            value = None if _lacks(target, step["from"]) else JsonPointer(step["from"]).resolve(target)
            size = 0 if value is None else len(msgspec.json.encode(value))
            return [{"op": "add", "path": path, "value": value}], size
        case "test" if path and step.get("value") is None and _lacks(target, path):
            return [], 0
    return [step], 0


def _lacks(target: Json, path: str) -> bool:
    """Whether the last part of a path is missing from an object that the rest leads to."""
    parent, key = JsonPointer(path).to_last(target)
    return isinstance(parent, dict) and key not in parent


class Form(Enum):
    """How the parts of a value are managed."""

    LEAF = auto()
    STRUCT = auto()
    MAP = auto()
    ATOMIC = auto()
    SET = auto()
    KEYED = auto()


@dataclass(slots=True, eq=False)
class DocumentShape:
    """One place of a document.

    Attributes:
        form: how its parts are managed.
        child: the shape of a field (STRUCT); None where the field is not known.
        item: the shape of map values or list items.
        keys: the fields that tell the items of a KEYED list apart.
        merge_key: the field by which a strategic merge patch joins list items; `.` where it joins plain values, empty
            where it replaces the list; `=` where it replaces even an object.
        defaults: values of `keys` that are taken where an item leaves them out.
        always: fields of a STRUCT that an object of Go has before anybody sets them, as empty objects or as null.
    """

    form: Form
    child: Callable[[str], DocumentShape | None] | None = None
    item: Callable[[], DocumentShape] | None = None
    keys: tuple[str, ...] = ()
    merge_key: str = ""
    defaults: dict[str, Any] | None = None
    always: frozenset[str] = frozenset()
    _fields: dict[str, DocumentShape] = field(default_factory=dict, init=False, repr=False)
    _element: DocumentShape | None = field(default=None, init=False, repr=False)

    def field(self, name: str) -> DocumentShape:
        """The shape of a field or map value; untyped where nothing is known."""
        if self.form is Form.STRUCT and self.child is not None:
            found = self._fields.get(name)
            if found is None:
                found = self.child(name)
                if found is None:
                    return UNTYPED
                self._fields[name] = found
            return found
        return self.element()

    def element(self) -> DocumentShape:
        """The shape of a list's items, or of a map's values."""
        if self._element is None:
            self._element = self.item() if self.item is not None else UNTYPED
        return self._element


OF_OBJECTS = (Form.STRUCT, Form.MAP, Form.ATOMIC)
OF_LISTS = (Form.SET, Form.KEYED)
LEAF = DocumentShape(Form.LEAF)
UNTYPED = DocumentShape(Form.MAP)


def form_of(shape: DocumentShape, value: Any) -> Form:
    """How this value is managed here: a value of another JSON type than the shape expects is a leaf."""
    if isinstance(value, dict):
        return shape.form if shape.form in OF_OBJECTS else Form.LEAF
    if isinstance(value, list):
        return shape.form if shape.form in OF_LISTS else Form.ATOMIC
    return Form.LEAF


DIRECTIVE = "$patch"
DELETE_FROM = "$deleteFromPrimitiveList/"
ORDER = "$setElementOrder/"
RETAIN = "$retainKeys"
LISTS = (DELETE_FROM, ORDER, RETAIN)


def merge(target: Json, patch: Json, shape: DocumentShape) -> Json:
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


def _value(target: Any, patch: Any, shape: DocumentShape) -> Any:
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


def _join(target: list[Any], patch: list[Any], shape: DocumentShape) -> list[Any]:
    key = shape.merge_key
    if any(isinstance(item, dict) and item.get(DIRECTIVE) == "replace" and key not in item for item in patch):
        return [item for item in patch if not (isinstance(item, dict) and DIRECTIVE in item)]
    result = list(target)
    patched: list[Any] = []
    for item in patch:
        position = _position(result, key, item)
        if item.get(DIRECTIVE) == "delete":
            if position is not None:
                del result[position]
        elif position is None:
            result.append(merge({}, item, shape.element()))
            patched.append(item.get(key))
        else:
            result[position] = merge(result[position], item, shape.element())
            patched.append(item.get(key))
    return _interleaved(result, patched, [_key_of(item, key) for item in target], key)


def _interleaved(items: list[Any], patched: list[Any], before: list[Any], key: str) -> list[Any]:
    """Items in the order of the patch, and what it does not name where it stood before them (mergeSortedSlice)."""
    by_patch = sorted((one for one in items if _key_of(one, key) in patched), key=lambda one: patched.index(one[key]))
    others = [one for one in items if _key_of(one, key) not in patched]
    merged: list[Any] = []
    for item in by_patch:
        place = before.index(item[key]) if item[key] in before else -1
        while others and before.index(_key_of(others[0], key)) < place:
            merged.append(others.pop(0))
        merged.append(item)
    return merged + others


def _key_of(item: Any, key: str) -> Any:
    return item.get(key) if isinstance(item, dict) else None


def _position(items: list[Any], key: str, wanted: Json) -> int | None:
    for index, item in enumerate(items):
        if isinstance(item, dict) and item.get(key) == wanted.get(key):
            return index
    return None


def _remove_values(result: Json, field: str, values: list[Any]) -> None:
    if isinstance(result.get(field), list):
        result[field] = [item for item in result[field] if item not in values]


def _reorder(result: Json, field: str, order: list[Any], shape: DocumentShape) -> None:
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
