"""What may be written through parts of a pod: sizes of its containers, and containers to look into it with."""

from __future__ import annotations

from typing import Final

from tutti_sim.kinds.podrules import check_spec
from tutti_sim.meta import Json
from tutti_sim.meta.errors import FieldError, forbidden_field, invalid

MUTABLE: Final = frozenset(("cpu", "memory"))


def check_resize(new: Json, old: Json, *, quality: str, before: str) -> list[FieldError]:
    """What is wrong with new sizes; `quality` is the class of service that they make, `before` what it has been."""
    errors = check_spec(new["spec"], "spec")
    if quality != before:
        errors.append(invalid("spec", before, "Pod QOS Class may not change as a result of resizing"))
    if _unsupported(old):
        errors.append(forbidden_field("spec", "Pod running on node without support for resize"))
    elif _others(new["spec"]) != _others(old["spec"]):
        errors.append(forbidden_field("spec", "only cpu and memory resources are mutable"))
    return errors


def _unsupported(pod: Json) -> bool:
    """Whether a container runs of which its node does not say what it has got."""
    statuses = pod.get("status", {}).get("containerStatuses", ())
    return any("running" in one.get("state", {}) and "resources" not in one for one in statuses)


def _others(spec: Json) -> list[Json]:
    """What containers ask for beside what can be resized."""
    return [
        {
            field: {
                name: value for name, value in one.get("resources", {}).get(field, {}).items() if name not in MUTABLE
            }
            for field in ("requests", "limits")
        }
        for field_of_all in ("containers", "initContainers")
        for one in spec.get(field_of_all, ())
    ]


def check_added(new: Json, old: Json) -> list[FieldError]:
    """What is wrong with containers that are added to look into a pod: they only ever come."""
    at = "spec.ephemeralContainers"
    errors = check_spec(new["spec"], "spec")
    kept = {one.get("name"): one for one in new["spec"].get("ephemeralContainers", ())}
    for one in old["spec"].get("ephemeralContainers", ()):
        name = one.get("name", "")
        if name not in kept:
            errors.append(forbidden_field(at, f'existing ephemeral containers "{name}" may not be removed\n'))
        elif kept[name] != one:
            errors.append(forbidden_field(at, f'existing ephemeral containers "{name}" may not be changed\n'))
    return errors
