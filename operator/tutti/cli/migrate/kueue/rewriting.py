"""One document of Kueue's world rewritten as ours, whatever kind it is of."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from tutti.api.model import API_VERSION
from tutti.cli.migrate.conforming import conform
from tutti.cli.migrate.kueue import jobs, remarks, settings, words
from tutti.cli.migrate.kueue.jobs import Run
from tutti.cli.migrate.kueue.kinds import (
    admission_check,
    as_it_is,
    cluster_queue,
    cohort,
    made_by_kueue,
    mapping,
    resource_flavor,
    workload,
)
from tutti.cli.migrate.kueue.provisioning import KnownProvisioning, left_out
from tutti.cli.migrate.kueue.resources import say_virtual
from tutti.cli.migrate.report import NoteLevel, Notes

GROUP = words.GROUP
VERSIONS = ("v1alpha1", "v1beta1", "v1beta2")
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
WRITTEN_BY_SERVER = (
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "selfLink",
    "managedFields",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)

QUOTAS: Mapping[str, Callable[[dict[str, Any], Notes], None]] = MappingProxyType(
    {
        "Cohort": cohort,
        "LocalQueue": as_it_is,
        "ResourceFlavor": resource_flavor,
        "Topology": as_it_is,
        "WorkloadPriorityClass": as_it_is,
    }
)
"""Kinds that have an equal here, and how their specs are rewritten."""

CHECKED: Mapping[str, Callable[[dict[str, Any], Notes, KnownProvisioning], None]] = MappingProxyType(
    {"AdmissionCheck": admission_check, "ClusterQueue": cluster_queue}
)
"""The same of kinds that become what other documents say of checks, too."""

WITHOUT_EQUAL: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "MultiKueueConfig": ("work is not sent to other clusters", "keep Kueue's manager for that"),
        "MultiKueueCluster": ("work is not sent to other clusters", "keep Kueue's manager for that"),
        "Configuration": (
            "the operator has a configuration of its own",
            "write a TuttiConfiguration; what becomes of single settings is said beside this",
        ),
    }
)
"""Kinds that are left out: why, and what to do instead."""


PROVISIONING_CONFIG = "ProvisioningRequestConfig"
"""What has become part of the AdmissionCheck that names it."""


class Rewritten(NamedTuple):
    """What a document has become.

    Attributes:
        before: Documents to be written before it.
        document: The document itself; None where it is left out.
        notes: What there is to know.
        known: Whether it was something of Kueue's or ours; what was not is passed on as it is.
    """

    before: list[dict[str, Any]]
    document: dict[str, Any] | None
    notes: Notes
    known: bool = True


def rewrite(given: dict[str, Any], run: Run) -> Rewritten:
    """Rewrite one document; the given one is left as it is."""
    group, _, version = str(given.get("apiVersion", "")).rpartition("/")
    kind = str(given.get("kind", ""))
    notes = Notes()
    if group in (GROUP, f"config.{GROUP}"):
        return _of_kueue(copy.deepcopy(given), kind, version, notes, run)
    document = copy.deepcopy(given)
    if settings.say_embedded(document, notes):
        return Rewritten([], given, notes, known=False)
    before = jobs.rewrite_job(document, notes, run)
    if before is None:
        return Rewritten([], given, notes, known=given.get("apiVersion") == API_VERSION)
    remarks.say_left_over(document, notes)
    return Rewritten(before, document, notes)


def _of_kueue(document: dict[str, Any], kind: str, version: str, notes: Notes, run: Run) -> Rewritten:
    if kind == PROVISIONING_CONFIG:
        left_out(str(mapping(document, "metadata").get("name", "")), run.provisioning, notes)
        return Rewritten([], None, notes)
    if kind in WITHOUT_EQUAL:
        why, do = WITHOUT_EQUAL[kind]
        ours = settings.as_ours(document, notes) if kind == "Configuration" else None
        if ours is None:
            notes.add(NoteLevel.LOST, "", f"left out: {why}", do)
        else:
            happens = f"only its device class mappings are taken over: {why}"
            notes.add(NoteLevel.LOST, "", happens, f"start the operator with it (--config), not kubectl; {do}")
        if kind == "Configuration":
            settings.say_settings(document, "", notes)
        return Rewritten([], ours, notes)
    if version not in VERSIONS or (kind not in {*QUOTAS, *CHECKED, "Workload"}):
        known = sorted({*QUOTAS, *CHECKED, "Workload", PROVISIONING_CONFIG, *WITHOUT_EQUAL})
        do = f"versions known here: {', '.join(VERSIONS)}; kinds: {', '.join(known)}"
        notes.add(NoteLevel.LOST, "apiVersion", f"left as it is: {version} {kind} is not known here", do)
        return Rewritten([], document, notes, known=False)
    owner = made_by_kueue(document) if kind == "Workload" else ""
    if owner:
        happens = f"left out: Kueue made it for {owner}"
        notes.add(NoteLevel.NOTE, "", happens, f"migrate {owner} itself: its pods are one gang by it")
        return Rewritten([], None, notes)
    document["apiVersion"] = API_VERSION
    _undress(document, notes)
    if kind == "Workload":
        workload(document, notes, scheduler=run.scheduler)
    elif kind in CHECKED:
        CHECKED[kind](document, notes, run.provisioning)
        say_virtual(mapping(document, "spec"), notes, run.queues.mapped)
    else:
        QUOTAS[kind](document, notes)
        say_virtual(mapping(document, "spec"), notes, run.queues.mapped)
    conform(document, notes, unsupported=run.unsupported)
    return Rewritten([], document, notes)


def _undress(document: dict[str, Any], notes: Notes) -> None:
    """Take out what a server has written into the object, and what Kueue has."""
    document.pop("status", None)
    metadata = mapping(document, "metadata")
    for field in WRITTEN_BY_SERVER:
        metadata.pop(field, None)
    annotations = mapping(metadata, "annotations")
    if annotations.pop(LAST_APPLIED, None) is not None and not annotations:
        del metadata["annotations"]
    finalizers = metadata.get("finalizers")
    if isinstance(finalizers, list):
        metadata["finalizers"] = [one for one in finalizers if not str(one).startswith(words.PREFIX)]
        if not metadata["finalizers"]:
            del metadata["finalizers"]
    words.clean(document, "", notes)
