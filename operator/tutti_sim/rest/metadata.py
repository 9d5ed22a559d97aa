"""Rules that hold for writes to all kinds: the options of a request, and metadata.

Sources: apiserver registry/rest, apimachinery api/validation; options are checked as kube-apiserver checks them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from tutti_sim.kinds.resource import Resource
from tutti_sim.meta import Json, clock, names, numbers
from tutti_sim.meta.checks import GC_FINALIZERS, NO_STANDARD, STANDARD_FINALIZERS, check_labels
from tutti_sim.meta.errors import (
    FieldError,
    bad_options,
    bad_request,
    forbidden_field,
    invalid,
    required,
    unsupported,
)

VALIDATIONS = ("Ignore", "Strict", "Warn")
MANAGER_LIMIT = 128


@dataclass(frozen=True, slots=True)
class User:
    """Who sends a request."""

    name: str
    groups: tuple[str, ...] = ()


class Call(msgspec.Struct):
    """One write: its options, who makes it, and the warnings to answer with.

    Attributes:
        subresource: the subresource written through, or empty.
        manager: name for managedFields.
        trusted: whether the caller is part of this cluster, whose objects need no field validation or webhooks.
        applied: whether field management has been settled by server-side apply.
        noted: what strict field validation would refuse, and others are warned of, beside unknown fields.
    """

    user: User
    dry_run: bool = False
    manager: str = "unknown"
    field_validation: str = "Warn"
    force: bool = False
    subresource: str = ""
    trusted: bool = False
    applied: bool = False
    warnings: list[str] = msgspec.field(default_factory=list)
    noted: list[str] = msgspec.field(default_factory=list)


def truth(value: str | None) -> bool:
    """A boolean query parameter: present and not false."""
    return value is not None and value.lower() not in ("false", "0")


def integer(query: Mapping[str, str], name: str) -> int | None:
    """A whole number from the query; None where it is absent; ApiError 400 where it is none."""
    raw = query.get(name)
    if raw is None or raw == "":
        return None
    try:
        return numbers.integer(raw)
    except ValueError as error:
        raise bad_request(str(error)) from None


def write_call(query: Mapping[str, str], *, kind: str, user: User, agent: str, apply: bool = False) -> Call:
    """The options of a write; ApiError 422 names what is wrong. `kind` is for example CreateOptions."""
    errors: list[FieldError] = []
    manager, validation = query.get("fieldManager", ""), query.get("fieldValidation", "")
    if apply and not manager:
        errors.append(required("fieldManager", "is required for apply patch"))
    if "force" in query and not apply and kind == "PatchOptions":
        errors.append(forbidden_field("force", "may not be specified for non-apply patch"))
    errors.extend(_manager_faults(manager))
    errors.extend(dry_run_faults([query["dryRun"]] if "dryRun" in query else []))
    if validation and validation not in VALIDATIONS:
        errors.append(unsupported("fieldValidation", validation, ["", *VALIDATIONS]))
    if errors:
        raise bad_options(kind, errors)
    return Call(
        user=user,
        dry_run="dryRun" in query,
        manager=manager or agent.split("/", 1)[0][:MANAGER_LIMIT] or "unknown",
        field_validation=validation or "Warn",
        force=truth(query.get("force")),
        applied=apply,
    )


def dry_run_faults(given: Sequence[str]) -> list[FieldError]:
    """What is wrong with the stages that a dry run is to go through: all is the only choice."""
    return [unsupported("dryRun", given, ["All"])] if any(one != "All" for one in given) else []


def _manager_faults(manager: str) -> list[FieldError]:
    if len(manager.encode()) > MANAGER_LIMIT:
        return [
            FieldError("FieldValueTooLong", "fieldManager", f"Too long: may not be more than {MANAGER_LIMIT} bytes")
        ]
    return [
        invalid("fieldManager", manager, f"invalid character U+{ord(char):04X} (at position {index})")
        for index, char in enumerate(manager)
        if not char.isprintable()
    ]


ANNOTATION_BYTES = 256 * 1024
SYSTEM_FIELDS = ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink")
NAME_ATTEMPTS = 8
NEVER_SET = ("deletionTimestamp", "deletionGracePeriodSeconds")
KEPT = ("uid", "creationTimestamp", "generation", *SYSTEM_FIELDS)


def fresh_uid(draw: random.Random) -> str:
    """A random version 4 UUID."""
    digits = f"{draw.getrandbits(128):032x}"
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


def before_create(resource: Resource, meta: Json, draw: random.Random, taken: Callable[[str], bool]) -> Json:
    """Metadata of a new object, in the order it is shown.

    A generated name that is `taken` is drawn again, as often as a real server tries (RetryGenerateName, since 1.32).
    """
    for name in (*KEPT, "resourceVersion"):
        if name != "generation" or resource.strategy.generation or not meta.get(name):  # others' is what they say
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
        if name not in merged and (name not in KEPT or name in NEVER_SET):
            merged[name] = value
    return merged


def validate_metadata(resource: Resource, meta: Json) -> list[FieldError]:
    """What is wrong with metadata."""
    errors: list[FieldError] = []
    strategy = resource.strategy
    if prefix := meta.get("generateName"):
        # what follows the prefix makes a trailing dash good
        masked = f"{prefix[:-1]}a" if len(prefix) > 1 and prefix[-1] == "-" else prefix
        errors.extend(invalid("metadata.generateName", prefix, fault) for fault in strategy.check_name(masked))
    if not meta.get("name"):
        errors.append(required("metadata.name", "name or generateName is required"))
    else:
        errors.extend(invalid("metadata.name", meta["name"], fault) for fault in strategy.check_name(meta["name"]))
    if meta.get("generation", 0) < 0:
        errors.append(invalid("metadata.generation", meta["generation"], "must be greater than or equal to 0"))
    if labels := meta.get("labels"):
        errors.extend(check_labels(labels, "metadata.labels"))
    if annotations := meta.get("annotations"):
        errors.extend(_annotations(annotations))
    core = not resource.custom and resource.strategy.standard_finalizers
    errors.extend(_finalizers(meta.get("finalizers", ()), core=core))
    errors.extend(_owners(meta.get("ownerReferences", ())))
    return errors


def _annotations(annotations: Json) -> list[FieldError]:
    errors = [
        invalid("metadata.annotations", key, fault)
        for key in sorted(annotations)
        for fault in names.qualified_faults(key.lower())
    ]
    if sum(len(key) + len(value) for key, value in annotations.items()) > ANNOTATION_BYTES:
        text = f"Too long: may not be more than {ANNOTATION_BYTES} bytes"
        errors.append(FieldError("FieldValueTooLong", "metadata.annotations", text))
    return errors


def _finalizers(finalizers: Any, *, core: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    for finalizer in finalizers:
        errors.extend(invalid("metadata.finalizers", finalizer, fault) for fault in names.qualified_faults(finalizer))
    for index, finalizer in enumerate(finalizers):
        if core and "/" not in finalizer and finalizer not in STANDARD_FINALIZERS:
            errors.append(invalid(f"metadata.finalizers[{index}]", finalizer, NO_STANDARD))
    if set(GC_FINALIZERS) <= set(finalizers):
        text = "finalizer orphan and foregroundDeletion cannot be both set"
        errors.append(invalid("metadata.finalizers", list(finalizers), text))
    return errors


def _owners(owners: Any) -> list[FieldError]:
    errors = []
    field = "metadata.ownerReferences"
    for owner in owners:
        version = owner.get("apiVersion", "")
        if not version or version.count("/") > 1:
            errors.append(invalid(f"{field}.apiVersion", version, "version must not be empty"))
        errors.extend(
            invalid(f"{field}.{name}", "", "must not be empty")
            for name in ("kind", "name", "uid")
            if not owner.get(name)
        )
        if owner.get("kind") == "Event" and version in ("v1", "events.k8s.io/v1", "events.k8s.io/v1beta1"):
            group, _, short = version.rpartition("/")
            errors.append(invalid(field, owner, f"{group}/{short}, Kind=Event is disallowed from being an owner"))
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
    errors = validate_metadata(resource, meta) if meta.keys() != old.keys() or meta != old else []
    if meta["uid"] != old["uid"]:
        errors.append(invalid("metadata.uid", meta["uid"], "field is immutable"))
    errors.extend(
        invalid(f"metadata.{name}", meta[name], "field is immutable")
        for name in NEVER_SET
        if name in meta and name not in old
    )
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
