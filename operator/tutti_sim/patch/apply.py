"""Server-side apply: a manager states the fields it wants; conflicts with other managers are refused unless forced.

Fields that a manager stated before and states no more are removed, if nobody else manages them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from tutti_sim.meta import clock
from tutti_sim.meta.errors import ApiError
from tutti_sim.patch import fieldset, managed
from tutti_sim.patch.fieldset import MISSING, FieldSet, Path
from tutti_sim.patch.managed import Entry
from tutti_sim.patch.shape import Form, Shape, form_of

Json = dict[str, Any]


def apply(
    live: Json, config: Json, shape: Shape, *, manager: str, api_version: str, subresource: str, force: bool
) -> Json:
    """The live object with a manager's configuration applied, managedFields included; ApiError 409 on conflicts."""
    stated: FieldSet = set()
    fieldset.collect(config, shape, (), stated, containers=False)
    stated = managed.managed(stated, "both" if subresource == "" else subresource)
    if subresource != "status":
        stated = {path for path in stated if path[0] != "f:status"}
    mine = Entry(manager, "Apply", api_version, subresource, clock.now(), frozenset(stated))
    before = managed.entries(live.get("metadata", {}))
    others = [entry for entry in before if not entry.same_as(mine)]
    previous = next((entry for entry in before if entry.same_as(mine)), None)
    contested = [(entry, _contested(entry, stated, live, config, shape)) for entry in others]
    if not force and any(paths for _, paths in contested):
        raise _conflicts([(entry, paths) for entry, paths in contested if paths])
    others = [replace(entry, fields=entry.fields - frozenset(paths)) for entry, paths in contested]
    result: Json = merged(live, config, shape)
    if previous is not None:
        dropped = set(previous.fields) - stated
        held = {path for entry in others for path in entry.fields} | stated
        result = _without(result, _removable(dropped, held), shape)
        if previous.fields == mine.fields:
            mine = previous
    result = {**result, "metadata": dict(result["metadata"])}
    others = [replace(one, fields=frozenset(fieldset.existing(set(one.fields), result, shape))) for one in others]
    managed.write(result["metadata"], [*others, mine])
    return result


def merged(live: Any, config: Any, shape: Shape) -> Any:
    """The live value with a configuration laid over it."""
    form = form_of(shape, config)
    if form in (Form.STRUCT, Form.MAP) and isinstance(live, dict):
        result = dict(live)
        for key, value in config.items():
            result[key] = merged(live.get(key), value, shape.field(key))
        return result
    if form is Form.SET and isinstance(live, list):
        return live + [item for item in config if item not in live]
    if form is Form.KEYED and isinstance(live, list):
        stated = {fieldset.step_of_item(item, shape): item for item in config}
        element = shape.element()
        joined = []
        for item in live:
            own = stated.pop(fieldset.step_of_item(item, shape), None)
            joined.append(item if own is None else merged(item, own, element))
        return [*joined, *stated.values()]
    return config


def _contested(entry: Entry, stated: FieldSet, live: Json, config: Json, shape: Shape) -> list[Path]:
    found = []
    for path in sorted(entry.fields & stated):
        wanted, place = fieldset.resolve(config, shape, path)
        if form_of(place, wanted) in (Form.STRUCT, Form.MAP, Form.KEYED, Form.SET) and wanted:
            continue
        have, _ = fieldset.resolve(live, shape, path)
        if have is not MISSING and have != wanted:
            found.append(path)
    return found


def _conflicts(contested: list[tuple[Entry, list[Path]]]) -> ApiError:
    causes, texts = [], []
    for entry, paths in contested:
        owner = f'"{entry.manager}"'
        if entry.subresource:
            owner += f' with subresource "{entry.subresource}"'
        if entry.operation == "Update":
            owner += f" using {entry.api_version}"
        for path in paths:
            field = fieldset.shown(path)
            causes.append({"reason": "FieldManagerConflict", "message": f"conflict with {owner}", "field": field})
        shown = [fieldset.shown(path) for path in paths]
        texts.append(
            f"conflict with {owner}: {shown[0]}"
            if len(shown) == 1
            else f"conflicts with {owner}:\n" + "\n".join(f"- {one}" for one in shown)
        )
    noun = "conflict" if len(causes) == 1 else "conflicts"
    message = f"Apply failed with {len(causes)} {noun}: " + "\n".join(texts)
    return ApiError(409, "Conflict", message, details={"causes": causes})


def _removable(dropped: FieldSet, held: FieldSet) -> list[Path]:
    """Dropped fields that nobody holds, nor anything below them.

    An item goes as a whole, with what the server has added to it: without its keys it could be found no more.
    """
    prefixes = {path[:length] for path in held for length in range(1, len(path) + 1)}
    free = dropped - prefixes
    return sorted(path for path in free if not any(path[:length] in free for length in range(1, len(path))))


def _without(value: Json, paths: Iterable[Path], shape: Shape) -> Json:
    result = value
    for path in paths:
        result = _cut(result, path, shape)
    return result


def _cut(value: Any, path: Path, shape: Shape) -> Any:
    """A copy of the value without the field at a path."""
    step, rest = path[0], path[1:]
    if step.startswith("f:"):
        name = step[2:]
        if not isinstance(value, dict) or name not in value:
            return value
        if not rest:
            return {key: inner for key, inner in value.items() if key != name}
        return {**value, name: _cut(value[name], rest, shape.field(name))}
    if not isinstance(value, list):
        return value
    kept = []
    for item in value:
        same = step == (fieldset.step_of_item(item, shape) if step.startswith("k:") else fieldset.step_of_member(item))
        if not same:
            kept.append(item)
        elif rest:
            kept.append(_cut(item, rest, shape.element()))
    return kept
