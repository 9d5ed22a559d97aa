"""How an object that makes pods is started, and suspended again: what is changed in it, and how that is taken back.

At its start the labels of the nodes that its pods are to have are added to the node selectors of its templates, and
tolerations to their tolerations; what stood there before is kept in an annotation of the object. Everything else about
a start can be told from the object itself, so that a process that was killed between two writes is followed by one
that ends what it began. What may be changed while an object is suspended: batch/v1, KEP-2926 (node selector and
tolerations, of a Job that has no start time); JobSet 08dfbdfd, pkg/webhooks/jobset_webhook.go (the same of each
replicated job). Where the templates stand elsewhere, a patch of ours is added to those of the object, and taken away
(`tutti.api.frameworks.patches`).
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from tutti.api.framework_kind import MOST_ROLES, FrameworkKind, TemplatePatches
from tutti.api.frameworks.fields import FieldReader, holds, wanted
from tutti.api.frameworks.patches import patches_with
from tutti.api.frameworks.records import StartState
from tutti.api.model import GROUP

STARTED_ANNOTATION: Final = f"{GROUP}/started"
"""On an object that was started here: when, and what stood in its templates before."""
MOST_KEPT_BYTES: Final = 64 * 1024
"""How much JSON is kept of what stood in templates."""
_DONE: Final = frozenset({"Complete", "Completed", "Failed", "Succeeded"})


class Directives(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is added to the pods of a role: labels that their nodes must have, and tolerations."""

    node_selector: dict[str, str] = {}
    tolerations: tuple[dict[str, Any], ...] = ()


class _Before(msgspec.Struct, frozen=True, rename="camel"):
    """What stood in the template of a role; None: the field was not there."""

    node_selector: dict[str, Any] | None = None
    tolerations: list[Any] | None = None


class _Started(msgspec.Struct, frozen=True):
    """What the annotation holds."""

    at: int = 0
    before: dict[str, _Before] = {}


class StartError(ValueError):
    """An object cannot be started as it is; the text says why."""


def start_state(raw: Mapping[str, Any], kind: FrameworkKind, version: str) -> StartState | None:
    """Return what of an object decides whether it is started or suspended; None of kinds that nobody starts here."""
    if not kind.startable:
        return None
    top = FieldReader(raw, problems=[])
    annotations = top.value("metadata.annotations")
    said: Mapping[str, Any] = annotations if isinstance(annotations, Mapping) else {}
    text = said.get(STARTED_ANNOTATION)
    read = _read(text)
    generation = top.count("metadata.generation")
    restarts = top.count("status.restarts") if kind.attempt_label else None
    return StartState(
        version=version,
        plural=kind.plural,
        generation=generation or 0,
        created=top.text("metadata.creationTimestamp"),
        started=isinstance(text, str),
        started_at=read.at if read is not None else 0,
        finished=_is_finished(top, kind) or bool(top.text("metadata.deletionTimestamp")),
        unfit="" if all(holds(top, one, said) for one in kind.startable_when) else wanted(kind.startable_when),
        attempt=str(restarts) if restarts else "",
        patched=kind.template_patches is not None,
        active=_is_active(top, kind),
    )


def _read(text: object) -> _Started | None:
    """Return what our annotation says; None where it is none of ours, or somebody has written another thing over it."""
    if not isinstance(text, str) or len(text) > MOST_KEPT_BYTES:
        return None
    try:
        return msgspec.json.decode(text, type=_Started)
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        return None


def _is_finished(top: FieldReader, kind: FrameworkKind) -> bool:
    if any(holds(top, one, {}) for one in kind.ended_when):
        return True
    conditions = top.value("status.conditions")
    listed = [one for one in (conditions if isinstance(conditions, list) else ()) if isinstance(one, Mapping)]
    return any(
        one.get("status") == "True" and isinstance(said := one.get("type"), str) and said in _DONE for one in listed
    )


def _is_active(top: FieldReader, kind: FrameworkKind) -> bool:
    patches = kind.template_patches
    if patches is None or patches.active_in is None:
        return False
    return any(one.number("active") for one in top.entries(patches.active_in, MOST_ROLES))


def started(
    raw: Mapping[str, Any],
    kind: FrameworkKind,
    templates: Mapping[str, Sequence[str | int]],
    directives: Mapping[str, Directives],
    at: int,
) -> dict[str, Any]:
    """Return the merge patch that starts a suspended object.

    Args:
        raw: The object as it is.
        kind: The description of its kind.
        templates: The steps to the pod template of each role in the object.
        directives: What is added to the pods of each role; where its templates stand elsewhere, all tolerations that
            they are to have.
        at: Unix seconds.

    Raises:
        StartError: What it says already contradicts that, or is too much to be kept.
    """
    changed = copy.deepcopy(dict(raw))
    before: dict[str, _Before] = {}
    if kind.template_patches is not None:
        _put_patch(changed, kind.template_patches, {role: _fields(added) for role, added in directives.items()})
    else:
        before = _changed_templates(changed, templates, directives)
    text = msgspec.json.encode(_Started(at, before)).decode()
    if len(text.encode()) > MOST_KEPT_BYTES:
        raise StartError(
            f"what its templates say would need {len(text)} bytes to be kept: {MOST_KEPT_BYTES} is the most"
        )
    _put(changed, kind.suspended or "", False)
    return {**_change(raw, changed), "metadata": _metadata(raw, text)}


def _put_patch(changed: dict[str, Any], patches: TemplatePatches, roles: Mapping[str, Mapping[str, Any]]) -> None:
    """Have an object have this patch of ours; a list that would be empty, and was not, is left out."""
    *steps, last = patches.path.split(".")
    at: Any = changed
    for step in steps:
        at = at.get(step) if isinstance(at, dict) else None
    if not isinstance(at, dict):
        return  # it cannot be started without these fields
    said = at.get(last)
    if said is not None and not isinstance(said, list):
        raise StartError(f"{patches.path} must be a list")
    listed = patches_with(said or [], patches, roles)
    if listed:
        at[last] = listed
    elif said:
        del at[last]


def _fields(added: Directives) -> dict[str, Any]:
    fields = {"nodeSelector": added.node_selector, "tolerations": list(added.tolerations)}
    return {name: value for name, value in fields.items() if value}


def _changed_templates(
    changed: dict[str, Any], templates: Mapping[str, Sequence[str | int]], directives: Mapping[str, Directives]
) -> dict[str, _Before]:
    """Add to the templates of an object; returns what stood in those that say another thing then."""
    before: dict[str, _Before] = {}
    for role, added in directives.items():
        if role not in templates:
            raise StartError(f"it has no role {role} any more")
        spec = _pod_spec(changed, templates[role])
        kept = _Before(copy.deepcopy(spec.get("nodeSelector")), copy.deepcopy(spec.get("tolerations")))
        if _add(spec, added, role):
            before[role] = kept
    return before


def _add(spec: dict[str, Any], added: Directives, role: str) -> bool:
    """Add to what a pod template says; returns whether that is another thing then."""
    said, known = spec.get("nodeSelector") or {}, spec.get("tolerations") or []
    if not isinstance(said, dict) or not isinstance(known, list):
        raise StartError(
            f"the nodeSelector or the tolerations of role {role} are not what the API server takes of pods"
        )
    selector = dict(said)
    for key, value in added.node_selector.items():
        if selector.setdefault(key, value) != value:
            raise StartError(f"role {role} asks for nodes with {key}={selector[key]}, and its flavor has {key}={value}")
    tolerations = list(known)
    missing = [one for one in added.tolerations if one not in tolerations]
    is_other = selector != (spec.get("nodeSelector") or {}) or bool(missing)
    if selector != (spec.get("nodeSelector") or {}):
        spec["nodeSelector"] = selector
    if missing:
        spec["tolerations"] = [*tolerations, *missing]
    return is_other


def suspended(raw: Mapping[str, Any], kind: FrameworkKind) -> dict[str, Any]:
    """Return the merge patch that suspends an object, and changes nothing else of it."""
    changed = copy.deepcopy(dict(raw))
    _put(changed, kind.suspended or "", True)
    return {**_change(raw, changed), "metadata": _metadata(raw)}


def as_suspended(raw: Mapping[str, Any], kind: FrameworkKind) -> Mapping[str, Any]:
    """Return an object as it would be if it were suspended; one that cannot be, for its shape, as it is."""
    *steps, last = (kind.suspended or "").split(".")
    out: dict[str, Any] = dict(raw)
    at = out
    for step in steps:
        inner = at.get(step)
        if not isinstance(inner, Mapping):
            return raw
        at[step] = dict(inner)
        at = at[step]
    at[last] = True
    return out


def restored(
    raw: Mapping[str, Any], kind: FrameworkKind, templates: Mapping[str, Sequence[str | int]]
) -> dict[str, Any] | None:
    """Return the merge patch by which a suspended object says what it said before its start; None where it does.

    A role that is not there any more, or whose template is none, is left out. Where somebody has written over the
    annotation, that alone is taken off, and templates stay as they are.
    """
    annotations = raw.get("metadata", {}).get("annotations") or {}
    if STARTED_ANNOTATION not in annotations:
        return None
    read = _read(annotations[STARTED_ANNOTATION]) or _Started()
    changed = copy.deepcopy(dict(raw))
    _put(changed, kind.suspended or "", True)
    if kind.template_patches is not None:
        _put_patch(changed, kind.template_patches, {})
    for role, kept in read.before.items():
        if role in templates:
            try:
                spec = _pod_spec(changed, templates[role])
            except StartError:
                continue
            for field, value in (("nodeSelector", kept.node_selector), ("tolerations", kept.tolerations)):
                if value is None:
                    spec.pop(field, None)
                else:
                    spec[field] = value
    return {**_change(raw, changed), "metadata": _metadata(raw, None, forgets=True)}


def has_start_time(raw: Mapping[str, Any]) -> bool:
    """Whether a Job says that it has started, by which its templates may not be changed though it is suspended."""
    status = raw.get("status")
    return isinstance(status, Mapping) and status.get("startTime") is not None


def _metadata(raw: Mapping[str, Any], kept: str | None = None, *, forgets: bool = False) -> dict[str, Any]:
    """Return by which version of the object a patch goes, and what it keeps in our annotation."""
    meta = raw["metadata"]
    out: dict[str, Any] = {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
    return {**out, "annotations": {STARTED_ANNOTATION: kept}} if kept is not None or forgets else out


def _pod_spec(changed: dict[str, Any], steps: Sequence[str | int]) -> dict[str, Any]:
    at: Any = changed
    for step in steps:
        at = at[step]
    spec = at.setdefault("spec", {}) if isinstance(at, dict) else None
    if not isinstance(spec, dict):
        raise StartError(f"{'.'.join(map(str, steps))} is no pod template")
    return spec


def _put(changed: dict[str, Any], path: str, value: object) -> None:
    *steps, last = path.split(".")
    at = changed
    for step in steps:
        at = at.setdefault(step, {})
    at[last] = value


def _change(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the merge patch from one object to another, metadata and status left out."""
    return {key: value for key, value in merge_patch(before, after).items() if key not in ("metadata", "status")}


def merge_patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the merge patch (RFC 7386) from one JSON object to another; lists are replaced as a whole."""
    return dict(_differences(before, after))


def _differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key in before.keys() - after.keys():
        yield key, None
    for key, value in after.items():
        known = before.get(key)
        if isinstance(value, Mapping) and isinstance(known, Mapping):
            inner = merge_patch(known, value)
            if inner:
                yield key, inner
        elif key not in before or known != value or type(known) is not type(value):
            yield key, value
