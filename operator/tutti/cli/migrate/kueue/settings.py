"""Kueue's Configuration: which of its settings have no counterpart here, alone in a file or in its ConfigMap.

Settings: Kueue 0.20, apis/config/v1beta2/configuration_types.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

from tutti.api.configuration import TuttiConfiguration
from tutti.api.model import API_VERSION
from tutti.api.problems import problems_of
from tutti.cli.migrate.conforming import found
from tutti.cli.migrate.kueue.kinds import mapping
from tutti.cli.migrate.kueue.resources import configurations_in
from tutti.cli.migrate.kueue.words import LostWord
from tutti.cli.migrate.report import NoteLevel, Notes

SETTINGS: Mapping[str, LostWord] = MappingProxyType(
    {
        "resources.transformations": LostWord(
            "no resource is made of another: pods are charged for what they request",
            "give quota of what pods request; quota of what only a transformation makes limits nothing",
        ),
        "resources.deviceClassMappings": LostWord(
            "the operator has a setting of the same name, with the same fields",
            "write it into the TuttiConfiguration as it stands",
            NoteLevel.NOTE,
        ),
        "resources.excludeResourcePrefixes": LostWord(
            "nothing is left out: pods are charged for all that they request",
            "give quota of these resources, or take them out of pods",
        ),
        "resources.quotaCheckStrategy": LostWord(
            "each resource that a pod requests needs quota", "give quota of all that pods request"
        ),
        "manageJobsWithoutQueueName": LostWord(
            "only pods with our schedulerName are managed, whatever their queue",
            "give pods schedulerName, and namespaces a LocalQueue called default",
            NoteLevel.CHANGED,
        ),
        "waitForPodsReady": LostWord(
            "each Workload says for itself how long its pods may take to get ready",
            "set readyTimeoutSeconds where it matters; a lack of nodes is known before anything starts",
            NoteLevel.CHANGED,
        ),
        "multiKueue": LostWord("work is not sent to other clusters", "keep Kueue's manager for that"),
        "integrations.externalFrameworks": LostWord(
            "kinds of your own are known by what the configuration says of them",
            "describe each under frameworks of the TuttiConfiguration",
            NoteLevel.CHANGED,
        ),
        "objectRetentionPolicies": LostWord(
            "workloads that have ended stay until they are deleted",
            "set ttlSecondsAfterFinished of jobs",
        ),
        "fairSharing": LostWord(
            "the operator has a setting of the same name",
            "write it into the TuttiConfiguration, and compare what each strategy means",
            NoteLevel.NOTE,
        ),
        "admissionFairSharing": LostWord(
            "the operator has a setting of the same name", "write it into the TuttiConfiguration", NoteLevel.NOTE
        ),
    }
)
"""What becomes of each setting, by its path."""


def say_settings(document: dict[str, Any], at: str, notes: Notes) -> None:
    """Tell of the settings that stand in a Configuration, or beside one another in the text at a place."""
    for path, word in SETTINGS.items():
        if found(document, path) not in (None, False, [], {}):
            place = at or path
            happens = f"{path}: {word.happens}" if at else word.happens
            notes.add(word.level, place, happens, word.do)


def say_embedded(document: dict[str, Any], notes: Notes) -> bool:
    """Tell of a Configuration in the data of a ConfigMap; False where there is none."""
    any_found = False
    for at, inner in configurations_in(document):
        say_settings(inner, at, notes)
        any_found = True
    return any_found


def as_ours(document: dict[str, Any], notes: Notes) -> dict[str, Any] | None:
    """Return the TuttiConfiguration that holds what both have of a Configuration; None where that is nothing."""
    mappings = mapping(document, "resources").get("deviceClassMappings")
    if not mappings:
        return None
    ours = {
        "apiVersion": API_VERSION,
        "kind": "TuttiConfiguration",
        "resources": {"deviceClassMappings": mappings},
    }
    try:
        TuttiConfiguration.model_validate(ours)
    except ValidationError as error:
        wrong = "; ".join(str(problem) for problem in problems_of(error, TuttiConfiguration))
        notes.add(
            NoteLevel.INVALID, "resources.deviceClassMappings", f"left out: {wrong}", "correct it, and migrate again"
        )
        return None
    return ours
