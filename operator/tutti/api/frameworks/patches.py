"""The patch of ours among those by which an object changes templates that it has from elsewhere.

Its entry is known by its manager, so that it is written over and taken away whole, whatever stands in those of others.
Entries are applied in their order: ours is the last one, and goes before what a template and others say (Trainer
8c0f5059, pkg/runtime/core/trainingruntime.go, mergeRuntimePatches).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tutti.api.framework_kind import TemplatePatches
from tutti.api.model import GROUP

MANAGER: Final = f"{GROUP}/operator"
"""Who wrote an entry of ours; a domain and a path, as Trainer's webhook asks for."""


def patches_with(
    before: Sequence[Any], patches: TemplatePatches, roles: Mapping[str, Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """Return a list of patches with that of ours which says these things, and no other of ours.

    Args:
        before: The list as it is.
        patches: What stands where in it.
        roles: Fields of a pod's spec, by role; a role without any is left out. None at all: there is no patch of ours.
    """
    others = [one for one in before if not (isinstance(one, Mapping) and one.get("manager") == MANAGER)]
    template = f"{patches.template}.spec"
    ours = [{"name": role, **_nested(template, fields)} for role, fields in sorted(roles.items()) if fields]
    return [*others, {"manager": MANAGER, **_nested(patches.roles, ours)}] if ours else others


def _nested(path: str, value: Any) -> dict[str, Any]:
    """Return mappings in one another, with a value under a path."""
    for step in reversed(path.split(".")):
        value = {step: value}
    out: dict[str, Any] = value
    return out
