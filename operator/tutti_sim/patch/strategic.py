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
from tutti_sim.meta.errors import GO_NAMES, ApiError, bad_request, internal, too_large
from tutti_sim.meta.gotext import go_kind, go_text


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
    if DIRECTIVE in patch:
        return _directed(patch)
    _check_directives(patch)
    result = _retained(target, patch) if RETAIN in patch else dict(target)
    for key, value in patch.items():
        if key.startswith(DELETE_FROM):
            _remove_values(result, key.removeprefix(DELETE_FROM), value)
    for key, value in patch.items():
        if key.startswith("$"):
            continue
        if value is None:
            result.pop(key, None)
        elif key not in result or go_kind(result[key]) != go_kind(value):
            result.pop(key, None)
            if not _is_directed(value):
                result[key] = _without_directives(value)
        else:
            result[key] = _value(result[key], value, shape.field(key))
    for key, order in patch.items():
        if key.startswith(ORDER):
            _reorder(result, key.removeprefix(ORDER), order, shape)
    return result


def _retained(target: Json, patch: Json) -> Json:
    """The parts of a map that a patch keeps, which has to name what it sets among them."""
    keys = patch[RETAIN]
    if any(value is not None and key[:1] != "$" and key not in keys for key, value in patch.items()):
        raise bad_request("invalid patch format of retainKeys")
    return {key: value for key, value in target.items() if key in keys}


def _directed(patch: Json) -> Json:
    """What a map becomes whose patch says what to do with the whole of it."""
    directive = patch[DIRECTIVE]
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != DIRECTIVE}
    if directive == "delete":
        return {}
    raise internal(f"unknown patch type: {go_text(directive)} in map: {go_text(patch)}", reason="")


def _is_directed(value: Any) -> bool:
    return isinstance(value, dict) and DIRECTIVE in value


def _without_directives(value: Any) -> Any:
    """What is taken of a patch where there is nothing that it could change: all but nulls and directives."""
    if isinstance(value, dict):
        kept = {key: one for key, one in value.items() if one is not None and not _is_directed(one)}
        return {key: _without_directives(one) for key, one in kept.items()}
    if isinstance(value, list):
        return [_without_directives(one) for one in value if not _is_directed(one)]
    return value


def _check_directives(patch: Json) -> None:
    for key, value in patch.items():
        if key.startswith(LISTS) and not isinstance(value, list):
            raise bad_request(f"{key} must be a list")


def _value(target: Any, patch: Any, shape: DocumentShape) -> Any:
    """A value of the same kind with its patch applied."""
    if isinstance(patch, dict):
        return patch if shape.merge_key == "=" else merge(target, patch, shape)
    return _join(target, patch, shape) if isinstance(patch, list) and shape.merge_key else patch


def _join(target: list[Any], patch: list[Any], shape: DocumentShape) -> list[Any]:
    """Two lists as one, in the order of the patch, and what it does not name where it stood before them."""
    if not target and not patch:
        return target
    if _element_kind(target, patch) != "map":
        merged = [*target, *(one for at, one in enumerate(patch) if one not in target and one not in patch[:at])]
        return _interleaved(merged, patch, target, str if shape.merge_key == "." else _no_map)
    key = shape.merge_key

    def key_of(item: Json) -> Any:
        return item.get(key)

    if any(item.get(DIRECTIVE) == "replace" for item in patch):
        return [item for item in patch if DIRECTIVE not in item]
    gone = _deleted(patch, key)
    result = [one for one in target if key_of(one) not in gone]
    plain = [item for item in patch if DIRECTIVE not in item]
    for item in plain:
        if key not in item:
            raise _no_key(item, key)
        at = next((at for at, one in enumerate(result) if key_of(one) == item[key]), None)
        if at is None:
            result.append(_without_directives(item))
        else:
            result[at] = merge(result[at], item, shape.element())
    return _interleaved(result, plain, target, key_of)


def _element_kind(target: list[Any], patch: list[Any]) -> str:
    """What Go calls the kind of the items of both lists; ApiError where there are several, or lists among them."""
    kinds = dict.fromkeys(go_kind(one) for one in (*target, *patch))
    first = next(iter(kinds))
    if first == "slice":
        raise ApiError(422, "", "lists of lists are not supported")
    if len(kinds) > 1:
        raise internal(f"list element types are not identical: {go_text([target, patch])}", reason="")
    return first


def _deleted(patch: list[Json], key: str) -> list[Any]:
    """The keys of the items that a patch of a list deletes."""
    found = []
    for item in patch:
        directive = item.get(DIRECTIVE, "delete")
        if directive == "merge":
            raise internal("merging lists cannot yet be specified in the patch", reason="")
        if directive != "delete":
            raise internal(f"unknown patch type: {go_text(directive)} in map: {go_text(item)}", reason="")
        if DIRECTIVE in item:
            if key not in item:
                raise _no_key(item, key)
            found.append(item[key])
    return found


def _no_key(item: Json, key: str) -> ApiError:
    return internal(f"map: {go_text(item)} does not contain declared merge key: {key}", reason="")


def _no_map(item: Any) -> Any:
    raise internal(f"expected a map, but received a {go_kind(item)}", reason="")


def _interleaved(items: list[Any], patch: list[Any], before: list[Any], key_of: Callable[[Any], Any]) -> list[Any]:
    """Items in the order of the patch, and what it does not name where it stood before them (mergeSortedSlice)."""
    patched, known = [key_of(one) for one in patch], [key_of(one) for one in before]
    by_patch = sorted((one for one in items if key_of(one) in patched), key=lambda one: patched.index(key_of(one)))
    others = [one for one in items if key_of(one) not in patched]
    merged: list[Any] = []
    for item in by_patch:
        place = known.index(key_of(item)) if key_of(item) in known else -1
        while others and known.index(key_of(others[0])) < place:
            merged.append(others.pop(0))
        merged.append(item)
    return merged + others


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
    keys = [item.get(place.merge_key) if isinstance(item, dict) else _no_map(item) for item in order]
    known = [item.get(place.merge_key) if isinstance(item, dict) else _no_map(item) for item in items]
    places = [keys.index(key) if key in keys else len(keys) for key in known]
    result[field] = [items[at] for at in sorted(range(len(items)), key=places.__getitem__)]
