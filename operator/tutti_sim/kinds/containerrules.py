"""Validation of what containers hold: environment, ports, probes, mounts; and of the volumes of a pod."""

from __future__ import annotations

from typing import Any

from tutti_sim.meta import names
from tutti_sim.meta.errors import FieldError, duplicate, invalid, not_found_field, required, unsupported

Json = dict[str, Any]

HIGHEST_PORT = 65535
PORT_RULE = "must be between 1 and 65535, inclusive"
HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc")
PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
PROTOCOLS = ("SCTP", "TCP", "UDP")


def check_environment(variables: Any, at: str) -> list[FieldError]:
    """What is wrong with environment variables."""
    errors: list[FieldError] = []
    for index, variable in enumerate(variables):
        if not variable.get("name"):
            errors.append(required(f"{at}[{index}].name"))
        reference = variable.get("valueFrom", {}).get("fieldRef")
        if reference is not None and not reference.get("fieldPath"):
            errors.append(required(f"{at}[{index}].valueFrom.fieldRef.fieldPath"))
    return errors


def check_ports(ports: Any, at: str) -> list[FieldError]:
    """What is wrong with container ports."""
    errors: list[FieldError] = []
    for index, port in enumerate(ports):
        number = port.get("containerPort", 0)
        if not number:
            errors.append(required(f"{at}[{index}].containerPort"))
        elif not 1 <= number <= HIGHEST_PORT:
            errors.append(invalid(f"{at}[{index}].containerPort", number, PORT_RULE))
        if port.get("protocol") not in PROTOCOLS:
            errors.append(unsupported(f"{at}[{index}].protocol", port.get("protocol"), PROTOCOLS))
    return errors


def check_probes(container: Json, at: str) -> list[FieldError]:
    """What is wrong with probes."""
    errors: list[FieldError] = []
    for name in PROBES:
        probe = container.get(name)
        if probe is None:
            continue
        if not any(handler in probe for handler in HANDLERS):
            errors.append(required(f"{at}.{name}", "must specify a handler type"))
        for handler in ("httpGet", "tcpSocket"):
            port = probe.get(handler, {}).get("port", 1)
            if isinstance(port, int) and not 1 <= port <= HIGHEST_PORT:
                errors.append(invalid(f"{at}.{name}.{handler}.port", port, PORT_RULE))
    return errors


def check_mounts(container: Json, volumes: set[str], at: str) -> list[FieldError]:
    """What is wrong with volume mounts: each needs a volume and a path of its own."""
    errors: list[FieldError] = []
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
            error = invalid(f"{at}[{index}].mountPath", where, "must be unique")
            errors.append(error)
        taken.add(where)
    return errors


def check_volumes(volumes: Any, at: str) -> list[FieldError]:
    """What is wrong with the volumes of a pod."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, volume in enumerate(volumes):
        name = volume.get("name", "")
        if not name:
            errors.append(required(f"{at}[{index}].name"))
        elif fault := names.label(name):
            errors.append(invalid(f"{at}[{index}].name", name, fault))
        if name in seen:
            errors.append(duplicate(f"{at}[{index}].name", name))
        seen.add(name)
        claim = volume.get("persistentVolumeClaim")
        if claim is not None and not claim.get("claimName"):
            errors.append(required(f"{at}[{index}].persistentVolumeClaim.claimName"))
    return errors
