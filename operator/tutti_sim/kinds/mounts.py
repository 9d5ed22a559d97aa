"""Validation of the volumes that a container mounts, and of those that it uses as devices (core validation.go)."""

from __future__ import annotations

from collections.abc import Mapping

from tutti_sim.kinds.security import check_no_backsteps, check_relative_path
from tutti_sim.meta import Json
from tutti_sim.meta.errors import FieldError, forbidden_field, invalid, not_found_field, required, unsupported

PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")
RECURSIVE = ("Disabled", "Enabled", "IfPossible")
CLAIMS = ("persistentVolumeClaim", "ephemeral")


def check_mounts(container: Json, volumes: Mapping[str, Json], at: str) -> list[FieldError]:
    """What is wrong with volume mounts: each needs a volume and a path of its own."""
    errors: list[FieldError] = []
    devices = container.get("volumeDevices", ())
    device_names, device_paths = _names_and_paths(devices, "devicePath")
    taken: set[str] = set()
    for index, mount in enumerate(container.get("volumeMounts", ())):
        name, where = mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            errors.append(required(f"{at}[{index}].name"))
        if name not in volumes:
            errors.append(not_found_field(f"{at}[{index}].name", name))
        if not where:
            errors.append(required(f"{at}[{index}].mountPath"))
        if where in taken:
            errors.append(invalid(f"{at}[{index}].mountPath", where, "must be unique"))
        taken.add(where)
        if name in device_names:
            errors.append(invalid(f"{at}[{index}].name", name, "must not already exist in volumeDevices"))
        if where in device_paths:
            text = "must not already exist as a path in volumeDevices"
            errors.append(invalid(f"{at}[{index}].mountPath", where, text))
        errors.extend(_below(mount, at, index))
        errors.extend(_sharing(mount, container, at))
    return errors


def check_devices(container: Json, volumes: Mapping[str, Json], at: str) -> list[FieldError]:
    """What is wrong with volumes that are used as devices: each comes from a claim, and has a path of its own."""
    errors: list[FieldError] = []
    mount_names, mount_paths = _names_and_paths(container.get("volumeMounts", ()), "mountPath")
    names: set[str] = set()
    paths: set[str] = set()
    for index, device in enumerate(container.get("volumeDevices", ())):
        name, path = device.get("name", ""), device.get("devicePath", "")
        name_at, path_at = f"{at}[{index}].name", f"{at}[{index}].devicePath"
        if not name:
            errors.append(required(name_at))
        if name in names:
            errors.append(invalid(name_at, name, "must be unique"))
        if name not in volumes:
            errors.append(not_found_field(name_at, name))
        elif not any(one in volumes[name] for one in CLAIMS):
            text = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            errors.append(invalid(name_at, name, text))
        if not path:
            errors.append(required(path_at))
        if path in paths:
            errors.append(invalid(path_at, path, "must be unique"))
        if check_no_backsteps(path, path_at):
            errors.append(invalid(path_at, path, "can not contain backsteps ('..')"))
        else:
            paths.add(path)
        if name in mount_names:
            errors.append(invalid(name_at, name, "must not already exist in volumeMounts"))
        if path in mount_paths:
            errors.append(invalid(path_at, path, "must not already exist as a path in volumeMounts"))
        names.update((name,) if name else ())
    return errors


def _names_and_paths(items: list[Json], path: str) -> tuple[set[str], set[str]]:
    return {one.get("name", "") for one in items}, {one.get(path, "") for one in items}


def _below(mount: Json, at: str, index: int) -> list[FieldError]:
    """What is wrong with which part of its volume a mount shows."""
    errors: list[FieldError] = []
    plain, expression = mount.get("subPath", ""), mount.get("subPathExpr", "")
    if plain:
        errors.extend(check_relative_path(plain, f"{at}.subPath"))
    if expression and plain:
        text = "subPathExpr and subPath are mutually exclusive"
        errors.append(invalid(f"{at}[{index}].subPathExpr", expression, text))
    if expression:
        errors.extend(check_relative_path(expression, f"{at}.subPathExpr"))
    return errors


def _sharing(mount: Json, container: Json, at: str) -> list[FieldError]:
    """What is wrong with how mounts below a mount are shared with the node, and written to."""
    errors: list[FieldError] = []
    shared, recursive = mount.get("mountPropagation"), mount.get("recursiveReadOnly")
    if shared is not None and shared not in PROPAGATIONS:
        errors.append(unsupported(f"{at}.mountPropagation", shared, PROPAGATIONS))
    if shared == "Bidirectional" and not container.get("securityContext", {}).get("privileged"):
        text = "Bidirectional mount propagation is available only to privileged containers"
        errors.append(forbidden_field(f"{at}.mountPropagation", text))
    if recursive is not None and recursive not in RECURSIVE:
        errors.append(unsupported(f"{at}.recursiveReadOnly", recursive, RECURSIVE))
    elif recursive in ("Enabled", "IfPossible"):
        if not mount.get("readOnly"):
            errors.append(forbidden_field(f"{at}.recursiveReadOnly", "may only be specified when readOnly is true"))
        if shared not in (None, "None"):
            text = "may only be specified when mountPropagation is None or not specified"
            errors.append(forbidden_field(f"{at}.recursiveReadOnly", text))
    return errors
