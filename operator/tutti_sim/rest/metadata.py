"""Rules for metadata that hold for all kinds (apiserver registry/rest, apimachinery api/validation)."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from tutti_sim.kinds.resource import Resource
from tutti_sim.meta import clock, names
from tutti_sim.meta.errors import FieldError, forbidden_field, internal, invalid, required

Json = dict[str, Any]

ANNOTATION_BYTES = 256 * 1024
GC_FINALIZERS = ("foregroundDeletion", "orphan")
STANDARD_FINALIZERS = (*GC_FINALIZERS, "kubernetes")
SYSTEM_FIELDS = ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink")
NAME_ATTEMPTS = 8
KEPT = ("uid", "creationTimestamp", "generation", *SYSTEM_FIELDS)


def fresh_uid(draw: random.Random) -> str:
    """A random version 4 UUID."""
    digits = f"{draw.getrandbits(128):032x}"
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


def before_create(resource: Resource, meta: Json, draw: random.Random, taken: Callable[[str], bool]) -> Json:
    """Metadata of a new object, in the order it is shown; refuses a resource version.

    A generated name that is `taken` is drawn again, as often as a real server tries (RetryGenerateName, since 1.32).
    """
    if meta.get("resourceVersion"):
        raise internal("resourceVersion should not be set on objects to be created", reason="")
    for name in (*KEPT, "resourceVersion"):
        meta.pop(name, None)
    if not meta.get("name") and meta.get("generateName"):
        meta["name"] = _free_name(meta["generateName"], draw, taken)
    head: Json = {}
    for name in ("name", "generateName", "namespace"):
        if meta.get(name):
            head[name] = meta.pop(name)
        else:
            meta.pop(name, None)
    head["uid"] = fresh_uid(draw)
    head["resourceVersion"] = ""
    if resource.strategy.generation:
        head["generation"] = 1
    head["creationTimestamp"] = clock.now()
    return {**head, **meta}


def _free_name(prefix: str, draw: random.Random, taken: Callable[[str], bool]) -> str:
    """A generated name; the last one drawn where all were taken, which the creation is then refused for."""
    name = names.generated(prefix, draw)
    for _ in range(NAME_ATTEMPTS - 1):
        if not taken(name):
            break
        name = names.generated(prefix, draw)
    return name


def before_update(meta: Json, old: Json) -> Json:
    """Metadata of an update: what only the server sets is put back, in the order of the old metadata."""
    merged: Json = {}
    for name in ("name", "generateName", "namespace", *KEPT, "resourceVersion"):
        if name in old:
            merged[name] = old[name]
    merged["uid"] = meta.get("uid") or old["uid"]
    for name, value in meta.items():
        if name not in merged and name not in KEPT:
            merged[name] = value
    return merged


def validate(resource: Resource, meta: Json) -> list[FieldError]:
    """What is wrong with metadata."""
    errors: list[FieldError] = []
    if not meta.get("name"):
        errors.append(required("metadata.name", "name or generateName is required"))
    else:
        fault = resource.strategy.check_name(meta["name"])
        if fault:
            errors.append(invalid("metadata.name", meta["name"], fault))
    for key, value in meta.get("labels", {}).items():
        if fault := names.qualified(key):
            errors.append(invalid("metadata.labels", key, fault))
        if fault := names.label_value(value):
            errors.append(invalid("metadata.labels", value, fault))
    errors.extend(_annotations(meta.get("annotations", {})))
    core = not resource.custom and resource.group != "apiextensions.k8s.io"
    errors.extend(_finalizers(meta.get("finalizers", ()), core=core))
    errors.extend(_owners(meta.get("ownerReferences", ())))
    return errors


def _annotations(annotations: Json) -> list[FieldError]:
    errors = [
        invalid("metadata.annotations", key, fault) for key in annotations if (fault := names.qualified(key.lower()))
    ]
    if sum(len(key) + len(value) for key, value in annotations.items()) > ANNOTATION_BYTES:
        text = f"Too long: may not be more than {ANNOTATION_BYTES} bytes"
        errors.append(FieldError("FieldValueTooLong", "metadata.annotations", text))
    return errors


def _finalizers(finalizers: Any, *, core: bool) -> list[FieldError]:
    errors = []
    for index, finalizer in enumerate(finalizers):
        if fault := names.qualified(finalizer):
            errors.append(invalid("metadata.finalizers", finalizer, fault))
        elif core and "/" not in finalizer and finalizer not in STANDARD_FINALIZERS:
            text = "name is neither a standard finalizer name nor is it fully qualified"
            errors.append(invalid(f"metadata.finalizers[{index}]", finalizer, text))
    if set(GC_FINALIZERS) <= set(finalizers):
        text = "finalizer orphan and foregroundDeletion cannot be both set"
        errors.append(invalid("metadata.finalizers", list(finalizers), text))
    return errors


def _owners(owners: Any) -> list[FieldError]:
    errors = []
    field = "metadata.ownerReferences"
    for owner in owners:
        if not owner.get("apiVersion"):
            errors.append(invalid(f"{field}.apiVersion", "", "version must not be empty"))
        errors.extend(
            invalid(f"{field}.{name}", "", f"{name} must not be empty")
            for name in ("kind", "name", "uid")
            if not owner.get(name)
        )
    controllers = [owner for owner in owners if owner.get("controller")]
    if len(controllers) > 1:
        first, second = (f"{one.get('kind')}/{one.get('name')}" for one in controllers[:2])
        text = (
            f'Only one reference can have Controller set to true. Found "true" in references for {first} and {second}'
        )
        errors.append(invalid(field, owners, text))
    return errors


def validate_update(resource: Resource, meta: Json, old: Json) -> list[FieldError]:
    """What is wrong with a change of metadata."""
    errors = validate(resource, meta) if meta.keys() != old.keys() or meta != old else []
    if meta["uid"] != old["uid"]:
        errors.append(invalid("metadata.uid", meta["uid"], "field is immutable"))
    if old.get("deletionTimestamp"):
        added = [one for one in meta.get("finalizers", ()) if one not in old.get("finalizers", ())]
        if added:
            listed = ", ".join(f'"{one}"' for one in added)
            text = (
                "no new finalizers can be added if the object is being deleted, "
                f"found new finalizers []string{{{listed}}}"
            )
            errors.append(forbidden_field("metadata.finalizers", text))
    return errors
