"""Validation of how a pod is known and finds others: its host's names, aliases, DNS, operating system."""

from __future__ import annotations

import ipaddress
import re
from typing import Any

from tutti_sim.meta import Json, names
from tutti_sim.meta.checks import check_text
from tutti_sim.meta.errors import FieldError, forbidden_field, invalid, required, too_long, unsupported

ADDRESS_RULE = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
LONGEST_OVERRIDE = 64
MOST_SERVERS = 3
MOST_SEARCHES = 32
LONGEST_SEARCH = 2048
SYSTEMS = ("linux", "windows")

_PADDED = re.compile(r"\b0+(?=\d)")


def check_host(spec: Json, at: str) -> list[FieldError]:
    """What is wrong with a name that stands for that of the host, and whether users may be others than the node's."""
    errors = _own_users(spec, at)
    name, where = spec.get("hostnameOverride"), f"{at}.hostnameOverride"
    if name is None:
        return errors
    if spec.get("setHostnameAsFQDN"):
        errors.append(forbidden_field(where, "may not be specified when setHostnameAsFQDN is true"))
    if spec.get("hostNetwork"):
        errors.append(forbidden_field(where, "may not be specified when hostNetwork is true"))
    if len(name.encode()) > LONGEST_OVERRIDE:
        errors.append(too_long(where, LONGEST_OVERRIDE))
    return [*errors, *check_text(name, where, names.subdomain_faults)]


def _own_users(spec: Json, at: str) -> list[FieldError]:
    """What a pod may not share with its node when it has users of its own."""
    if spec.get("hostUsers", True):
        return []
    shared = (("hostPID", "HostPID"), ("hostIPC", "HostIPC"))
    return [forbidden_field(f"{at}.{shown}", "when `hostUsers` is false") for field, shown in shared if spec.get(field)]


def check_aliases(aliases: Any, at: str) -> list[FieldError]:
    """What is wrong with the names that the host's file is to have."""
    errors: list[FieldError] = []
    for index, alias in enumerate(aliases):
        errors.extend(check_address(alias.get("ip", ""), f"{at}[{index}].ip"))
        for place, name in enumerate(alias.get("hostnames", ())):
            errors.extend(check_text(name, f"{at}[{index}].hostnames[{place}]", names.subdomain_faults))
    return errors


def check_dns(spec: Json, at: str) -> list[FieldError]:
    """What is wrong with how a pod asks for names."""
    config, alone = spec.get("dnsConfig"), spec.get("dnsPolicy") == "None"
    if config is None:
        return [required(at, "must provide `dnsConfig` when `dnsPolicy` is None")] if alone else []
    servers, searches = config.get("nameservers", []), config.get("searches", [])
    if alone and not servers:
        return [required(f"{at}.nameservers", "must provide at least one DNS nameserver when `dnsPolicy` is None")]
    errors: list[FieldError] = []
    if len(servers) > MOST_SERVERS:
        errors.append(invalid(f"{at}.nameservers", servers, f"must not have more than {MOST_SERVERS} nameservers"))
    for index, server in enumerate(servers):
        errors.extend(check_address(server, f"{at}.nameservers[{index}]"))
    if len(searches) > MOST_SEARCHES:
        errors.append(invalid(f"{at}.searches", searches, f"must not have more than {MOST_SEARCHES} search paths"))
    if len(" ".join(searches).encode()) > LONGEST_SEARCH:
        text = f"must not have more than {LONGEST_SEARCH} characters (including spaces) in the search list"
        errors.append(invalid(f"{at}.searches", searches, text))
    for index, search in enumerate(searches):
        if search != ".":
            errors.extend(check_text(search.removesuffix("."), f"{at}.searches[{index}]", names.underscored_faults))
    for index, option in enumerate(config.get("options", ())):
        if not option.get("name"):
            errors.append(required(f"{at}.options[{index}]", "must not be empty"))
    return errors


def check_system(system: Json | None, at: str) -> list[FieldError]:
    """What is wrong with the operating system that a pod names."""
    if system is None:
        return []
    name = system.get("name", "")
    if not name:
        return [required(f"{at}.name")]
    return [] if name in SYSTEMS else [unsupported(at, name, SYSTEMS)]


def check_address(text: str, at: str) -> list[FieldError]:
    """Whether a text is an address; leading zeros of IPv4 are read as ever."""
    plain = text if ":" in text else _PADDED.sub("", text)
    try:
        ipaddress.ip_address(plain.partition("%")[0] if "%" not in plain else "")
    except ValueError:
        return [invalid(at, text, ADDRESS_RULE)]
    return []
