"""Kueue's checks that ask for nodes: the ProvisioningRequestConfig becomes part of the AdmissionCheck that names it."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tutti.api.kinds.provisioning import PROVISIONING_CONTROLLER
from tutti.cli.migrate.report import NoteLevel, Notes

OF_KUEUE: Final = "kueue.x-k8s.io/provisioning-request"
"""The controllerName of such checks there."""
_GROUP: Final = "kueue.x-k8s.io"
_TAKEN_OVER: Final = ("provisioningClassName", "parameters", "managedResources", "retryStrategy", "podSetUpdates")


@dataclass
class KnownProvisioning:
    """What the files of one run say of provisioning.

    Attributes:
        configs: The spec of each ProvisioningRequestConfig, by name.
        checks: The AdmissionChecks that ask for nodes, by name, with the config that each names.
    """

    configs: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    checks: dict[str, str] = field(default_factory=dict)

    def add(self, document: Mapping[str, Any]) -> None:
        """Take in a document, if it is one of these."""
        group, _, _ = str(document.get("apiVersion", "")).rpartition("/")
        spec, name = document.get("spec"), str(_mapping(document.get("metadata")).get("name", ""))
        if group != _GROUP or not isinstance(spec, Mapping):
            return
        if document.get("kind") == "ProvisioningRequestConfig":
            self.configs[name] = spec
        elif document.get("kind") == "AdmissionCheck" and spec.get("controllerName") == OF_KUEUE:
            self.checks[name] = str(_mapping(spec.get("parameters")).get("name", ""))

    def covers(self, names: list[str]) -> bool:
        """Whether all of some checks ask for nodes, as far as is known."""
        return bool(names) and all(name in self.checks for name in names)


def provisioning_check(spec: dict[str, Any], name: str, known: KnownProvisioning, notes: Notes) -> None:
    """Rewrite the spec of an AdmissionCheck that asks for nodes; it has the config with it."""
    config = known.configs.get(known.checks.get(name, ""))
    if config is None:
        notes.add(
            NoteLevel.LOST,
            "spec.parameters",
            "its ProvisioningRequestConfig is in none of the files, so what it asks for is not known",
            "migrate both in one call, or write spec.provisioning (docs/howto/provisioning.md)",
        )
        return
    spec.pop("parameters", None)
    spec["controllerName"] = PROVISIONING_CONTROLLER
    taken = {key: copy.deepcopy(value) for key, value in config.items() if key in _TAKEN_OVER and value is not None}
    spec["provisioning"] = taken
    notes.add(
        NoteLevel.CHANGED,
        "spec.controllerName",
        "nodes are asked for where a flavor has none, not always; when that has failed for good the next flavor is "
        "tried, and a workload whose capacity is revoked waits again instead of being set inactive",
        "add the component provisioning-requests to the operator's manifests (docs/howto/provisioning.md)",
    )
    for key in config:
        if key == "podSetMergePolicy":
            happens = "podSetMergePolicy is left out: equal pods are one pod set always"
            notes.add(NoteLevel.NOTE, "spec.provisioning", happens, "nothing")
        elif key not in _TAKEN_OVER:
            happens = f"{key} is left out: it is not known here"
            notes.add(NoteLevel.LOST, "spec.provisioning", happens, "check that it can be done without")


def left_out(name: str, known: KnownProvisioning, notes: Notes) -> None:
    """Say what becomes of a ProvisioningRequestConfig."""
    users = sorted(check for check, config in known.checks.items() if config == name)
    if users:
        happens = f"left out: it has become spec.provisioning of AdmissionCheck {', '.join(users)}"
        notes.add(NoteLevel.NOTE, "", happens, "nothing")
        return
    happens = "left out: no AdmissionCheck in the files names it, and it is part of that here"
    notes.add(NoteLevel.LOST, "", happens, "migrate both in one call (docs/howto/provisioning.md)")


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
