"""The options of a request, read from its query and checked as kube-apiserver checks them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tutti_sim.meta.errors import FieldError, bad_options, bad_request, forbidden_field, required, unsupported

VALIDATIONS = ("Ignore", "Strict", "Warn")
MANAGER_LIMIT = 128


@dataclass(frozen=True, slots=True)
class User:
    """Who sends a request."""

    name: str
    groups: tuple[str, ...] = ()


@dataclass(slots=True)
class Call:
    """One write: its options, who makes it, and the warnings to answer with.

    Attributes:
        subresource: the subresource written through, or empty.
        manager: name for managedFields.
        trusted: whether the caller is part of this cluster, whose objects need no field validation or webhooks.
        applied: whether field management has been settled by server-side apply.
    """

    user: User
    dry_run: bool = False
    manager: str = "unknown"
    field_validation: str = "Warn"
    force: bool = False
    subresource: str = ""
    trusted: bool = False
    applied: bool = False
    warnings: list[str] = field(default_factory=list)


def truth(value: str | None) -> bool:
    """A boolean query parameter: present and not false."""
    return value is not None and value.lower() not in ("false", "0")


def integer(query: Mapping[str, str], name: str) -> int | None:
    """A whole number from the query; None where it is absent; ApiError 400 where it is none."""
    raw = query.get(name)
    if raw is None or raw == "":
        return None
    try:
        return int(raw)
    except ValueError:
        raise bad_request(f'strconv.ParseInt: parsing "{raw}": invalid syntax') from None


def write_call(query: Mapping[str, str], *, kind: str, user: User, agent: str, apply: bool = False) -> Call:
    """The options of a write; ApiError 422 names what is wrong. `kind` is for example CreateOptions."""
    errors: list[FieldError] = []
    dry_run = query.get("dryRun", "")
    if dry_run not in ("", "All"):
        errors.append(unsupported("dryRun", [dry_run], ["All"]))
    validation = query.get("fieldValidation", "") or "Warn"
    if validation not in VALIDATIONS:
        errors.append(unsupported("fieldValidation", validation, ["", *VALIDATIONS]))
    manager = query.get("fieldManager", "")
    if apply and not manager:
        errors.append(required("fieldManager", "is required for apply patch"))
    if "force" in query and not apply and kind == "PatchOptions":
        errors.append(forbidden_field("force", "may not be specified for non-apply patch"))
    if errors:
        raise bad_options(kind, errors)
    return Call(
        user=user,
        dry_run=dry_run == "All",
        manager=manager or agent.split("/", 1)[0][:MANAGER_LIMIT] or "unknown",
        field_validation=validation,
        force=truth(query.get("force")),
        applied=apply,
    )
