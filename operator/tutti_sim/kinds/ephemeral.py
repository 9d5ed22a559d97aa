"""Validation of containers that are added to look into a pod (core validation.go)."""

from __future__ import annotations

from typing import Final

from tutti_sim.kinds.containers import Surroundings, check_container
from tutti_sim.meta import Json
from tutti_sim.meta.errors import FieldError, duplicate, forbidden_field, invalid, not_found_field

NOT_HERE: Final = "cannot be set for an Ephemeral Container"
TRIMMED: Final = "must not have leading or trailing whitespace"
_UNSUITED: Final = (
    "ports", "resources", "resizePolicy", "restartPolicy", "restartPolicyRules", "livenessProbe", "readinessProbe",
    "startupProbe", "lifecycle",
)  # fmt: skip


def check_ephemeral(spec: Json, around: Surroundings, at: str) -> list[FieldError]:
    """What is wrong with them: they only look, so they ask for nothing, offer nothing and are not probed."""
    errors: list[FieldError] = []
    others = {one.get("name", "") for field in ("containers", "initContainers") for one in spec.get(field, ())}
    taken = set(others)
    for index, container in enumerate(spec.get("ephemeralContainers", ())):
        where, name, target = f"{at}[{index}]", container.get("name", ""), container.get("targetContainerName", "")
        errors.extend(check_container(container, where, around))
        errors.extend(check_image(container, where))
        if name in taken:
            errors.append(duplicate(f"{where}.name", name))
        taken.add(name)
        if target and target not in others:
            errors.append(not_found_field(f"{where}.targetContainerName", target))
        errors.extend(forbidden_field(f"{where}.{field}", NOT_HERE) for field in _UNSUITED if container.get(field))
        for place, mount in enumerate(container.get("volumeMounts", ())):
            parts = (field for field in ("subPath", "subPathExpr") if mount.get(field))
            errors.extend(forbidden_field(f"{where}.volumeMounts[{place}].{field}", NOT_HERE) for field in parts)
    return errors


def check_image(container: Json, at: str) -> list[FieldError]:
    """What is wrong with the name of an image in a pod, while its template may have it."""
    image = container.get("image", "")
    return [] if image.strip() == image else [invalid(f"{at}.image", image, TRIMMED)]
