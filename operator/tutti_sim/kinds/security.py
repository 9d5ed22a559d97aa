"""Validation of what containers may do on their node: users and groups, profiles, sysctls (core validation.go)."""

from __future__ import annotations

import re

from tutti_sim.meta import Json, names
from tutti_sim.meta.errors import FieldError, duplicate, invalid, required, too_long, unsupported

LONGEST = 2**31 - 1
LONGEST_PATH = 4095
LONGEST_SYSCTL = 253
SYSCTL = r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
SYSCTL_RULE = f"must have at most {LONGEST_SYSCTL} characters and match regex ^{SYSCTL}$"
PROFILES = ("Localhost", "RuntimeDefault", "Unconfined")
SPEC_LIMIT_KIB = 64

_SYSCTL = re.compile(SYSCTL)


def check_pod_security(context: Json, at: str) -> list[FieldError]:
    """What is wrong with what a pod asks for all its containers."""
    errors = [error for field in ("fsGroup", "runAsUser", "runAsGroup") for error in _identity(context, field, at)]
    for index, value in enumerate(context.get("supplementalGroups", ())):
        errors.extend(_number(value, f"{at}.supplementalGroups[{index}]"))
    errors.extend(_sysctls(context.get("sysctls", ()), f"{at}.sysctls"))
    errors.extend(_choice(context, "fsGroupChangePolicy", ("Always", "OnRootMismatch"), at))
    errors.extend(_seccomp(context.get("seccompProfile"), f"{at}.seccompProfile"))
    errors.extend(_windows(context.get("windowsOptions", {}), f"{at}.windowsOptions"))
    errors.extend(_app_armor(context.get("appArmorProfile"), f"{at}.appArmorProfile"))
    errors.extend(_choice(context, "supplementalGroupsPolicy", ("Merge", "Strict"), at))
    errors.extend(_choice(context, "seLinuxChangePolicy", ("Recursive",), at))
    return errors


def check_container_security(context: Json, at: str, *, host_users: bool) -> list[FieldError]:
    """What is wrong with what a container asks for itself.

    Args:
        context: What it asks for.
        at: Its path.
        host_users: Whether the pod's users are those of its node.
    """
    errors = [error for field in ("runAsUser", "runAsGroup") for error in _identity(context, field, at)]
    errors.extend(_choice(context, "procMount", ("Default", "Unmasked"), at))
    if host_users and context.get("procMount") == "Unmasked":
        errors.append(invalid(f"{at}.procMount", "Unmasked", "`hostUsers` must be false to use `Unmasked`"))
    errors.extend(_seccomp(context.get("seccompProfile"), f"{at}.seccompProfile"))
    errors.extend(_windows(context.get("windowsOptions", {}), f"{at}.windowsOptions"))
    errors.extend(_app_armor(context.get("appArmorProfile"), f"{at}.appArmorProfile"))
    return errors


def _identity(context: Json, field: str, at: str) -> list[FieldError]:
    value = context.get(field)
    return [] if value is None else _number(value, f"{at}.{field}")


def _number(value: int, at: str) -> list[FieldError]:
    return [] if 0 <= value <= LONGEST else [invalid(at, value, f"must be between 0 and {LONGEST}, inclusive")]


def _choice(context: Json, field: str, supported: tuple[str, ...], at: str) -> list[FieldError]:
    value = context.get(field)
    return [] if value is None or value in supported else [unsupported(f"{at}.{field}", value, supported)]


def _sysctls(sysctls: list[Json], at: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, one in enumerate(sysctls):
        where, name = f"{at}[{index}].name", one.get("name", "")
        if not name:
            errors.append(required(where))
        elif len(name) > LONGEST_SYSCTL or not _SYSCTL.fullmatch(name):
            errors.append(invalid(where, name, SYSCTL_RULE))
        elif name in seen:
            errors.append(duplicate(where, name))
        seen.add(name)
    return errors


def _seccomp(profile: Json | None, at: str) -> list[FieldError]:
    if profile is None:
        return []
    kind, path = profile.get("type", ""), profile.get("localhostProfile")
    errors = [] if kind in PROFILES else [unsupported(f"{at}.type", kind, PROFILES)]
    if path is None:
        text = "must be set when seccomp type is Localhost"
        errors.extend([required(f"{at}.localhostProfile", text)] if kind == "Localhost" else [])
    elif kind == "Localhost":
        errors.extend(check_relative_path(path, f"{at}.localhostProfile"))
    else:
        shown = {"Type": kind, "LocalhostProfile": path}
        errors.append(invalid(f"{at}.localhostProfile", shown, "can only be set when seccomp type is Localhost"))
    return errors


def _app_armor(profile: Json | None, at: str) -> list[FieldError]:
    if profile is None:
        return []
    kind, path = profile.get("type", ""), profile.get("localhostProfile")
    if not kind:
        return [required(f"{at}.type", "type is required when appArmorProfile is set")]
    if kind not in PROFILES:
        return [unsupported(f"{at}.type", kind, PROFILES)]
    where = f"{at}.localhostProfile"
    if kind != "Localhost":
        text = "can only be set when AppArmor type is Localhost"
        return [] if path is None else [invalid(where, path, text)]
    errors: list[FieldError] = []
    if path is not None and path.strip() != path:
        errors.append(invalid(where, path, "must not be padded with whitespace"))
    elif not path:
        errors.append(required(where, "must be set when AppArmor type is Localhost"))
    if path is not None and len(path) > LONGEST_PATH:
        errors.append(too_long(where, LONGEST_PATH))
    return errors


def _windows(options: Json, at: str) -> list[FieldError]:
    """What is wrong with the credentials of a container on Windows; users' names are not looked at."""
    errors: list[FieldError] = []
    name, credentials = options.get("gmsaCredentialSpecName"), options.get("gmsaCredentialSpec")
    user = options.get("runAsUserName")
    if name is not None:
        faults = names.subdomain_faults(name)
        errors.extend(invalid(f"{at}.gmsaCredentialSpecName", name, fault) for fault in faults)
    if credentials is not None and not credentials:
        errors.append(invalid(f"{at}.gmsaCredentialSpec", "", "gmsaCredentialSpec cannot be an empty string"))
    elif credentials is not None and len(credentials.encode()) > SPEC_LIMIT_KIB * 1024:
        text = f"gmsaCredentialSpec size must be under {SPEC_LIMIT_KIB} KiB"
        errors.append(invalid(f"{at}.gmsaCredentialSpec", credentials, text))
    if user is not None and not user:
        errors.append(invalid(f"{at}.runAsUserName", "", "runAsUserName cannot be an empty string"))
    return errors


def check_relative_path(path: str, at: str) -> list[FieldError]:
    """What keeps a path from leading down from where it begins."""
    errors = [invalid(at, path, "must be a relative path")] if path.startswith("/") else []
    return [*errors, *check_no_backsteps(path, at)]


def check_no_backsteps(path: str, at: str) -> list[FieldError]:
    """Whether a path leads up somewhere."""
    return [invalid(at, path, "must not contain '..'")] if ".." in path.split("/") else []
