"""What is refused, warned of or filled in when an object of ours is written.

Refused is what can never be right: a spec that cannot be read, a ring of cohorts. A name that nothing bears yet is
only warned of, because objects may be created in any order and heal when the missing one appears.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import kopf
import structlog

from tutti.api.kinds import KINDS, ObjectError, parse_object
from tutti.api.lengths import listed
from tutti.api.model import GROUP, VERSION
from tutti.api.problems import Problem
from tutti.controller.catalogue import Catalogue
from tutti.controller.references import caught_cohorts, verdict_on
from tutti.controller.specs import Raw, Specs, text
from tutti.quota.references import ring_problem

log = structlog.get_logger(__name__)

DEFAULT_QUEUE = "default"
"""The LocalQueue that workloads go to which name none, in namespaces that have it (as in Kueue)."""

_QUEUED = ("Workload", "PodGroup")
_IMPLICIT = "scheduling.tutti.dev/implicit"
_UNPROCESSABLE = 422
# Reasons that say what an administrator has chosen, not what he may have overlooked.
_INTENDED = ("Stopped", "Terminating")


@dataclass(frozen=True, slots=True)
class Review:
    """What is to be said about a write: it is refused if there are problems."""

    problems: list[Problem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def review(kind: str, raw: Raw, old: Raw | None, specs: Specs) -> Review:
    """Review the creation of an object, or its change from `old`, among the others as they are known.

    An object whose spec stays as it is, or that is being deleted, is never refused: it is stored already, and whoever
    removes a finalizer from it must not have to mend it first.
    """
    if text(raw, "metadata", "deletionTimestamp") or (old is not None and old.get("spec") == raw.get("spec")):
        return Review()
    try:
        parse_object(kind, raw)
    except ObjectError as error:
        return Review(problems=error.problems)
    if kind == "Cohort":
        ring = caught_cohorts(specs.with_object(kind, raw)).get(text(raw, "metadata", "name"), ())
        if text(raw, "metadata", "name") in ring:
            return Review(problems=[Problem("spec.parentName", ring_problem(ring).message)])
    return Review(warnings=_warnings(kind, raw, specs))


def _warnings(kind: str, raw: Raw, specs: Specs) -> list[str]:
    namespace, name = text(raw, "metadata", "namespace"), text(raw, "metadata", "name")
    if kind in _QUEUED:
        queue = text(raw, "spec", "queueName")
        if queue and (namespace, queue) not in specs.local_queues:
            return [f"spec.queueName: LocalQueue {namespace}/{queue} does not exist; it waits until that is created"]
        return []
    verdict = verdict_on((kind, namespace, name), specs.with_object(kind, raw))
    if verdict is None or verdict.active or verdict.reason in _INTENDED:
        return []
    return [f"{verdict.message}; it stays inactive until then"]


def defaults(kind: str, raw: Raw, specs: Specs) -> dict[str, Any]:
    """Return what is to be filled into a new object's spec; empty where nothing is."""
    namespace = text(raw, "metadata", "namespace")
    if kind not in _QUEUED or text(raw, "spec", "queueName") or (namespace, DEFAULT_QUEUE) not in specs.local_queues:
        return {}
    labels = raw.get("metadata", {}).get("labels") or {}
    # A PodGroup made for annotated pods says what they say, and they name no queue.
    return {} if _IMPLICIT in labels else {"queueName": DEFAULT_QUEUE}


class Reviewer:
    """Reviews against what the catalogue knows at that moment."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue

    def review(self, kind: str, raw: Raw, old: Raw | None) -> Review:
        """Review one write (`review`)."""
        return review(kind, raw, old, self._catalogue.specs)

    def defaults(self, kind: str, raw: Raw) -> dict[str, Any]:
        """Return what is to be filled in (`defaults`)."""
        return defaults(kind, raw, self._catalogue.specs)


def register(registry: kopf.OperatorRegistry, reviewer: Reviewer) -> None:
    """Serve `/validate-<kind>` for all our kinds, and `/default-<kind>` for those that are queued."""
    for kind in KINDS:
        _validate(registry, kind, reviewer)
    for kind in _QUEUED:
        _default(registry, kind, reviewer)


def _validate(registry: kopf.OperatorRegistry, kind: str, reviewer: Reviewer) -> None:
    @kopf.on.validate(
        GROUP,
        VERSION,
        KINDS[kind].PLURAL,
        id=f"validate-{kind.lower()}",
        operations=["CREATE", "UPDATE"],
        registry=registry,
    )
    async def validate(body: kopf.Body, warnings: list[str], **kwargs: Any) -> None:
        found = reviewer.review(kind, body, kwargs.get("old"))
        warnings.extend(found.warnings)
        if found.problems:
            name, namespace = text(body, "metadata", "name"), text(body, "metadata", "namespace")
            log.info("write_refused", kind=kind, namespace=namespace, name=name, problems=len(found.problems))
            raise kopf.AdmissionError(listed(found.problems), code=_UNPROCESSABLE)


def _default(registry: kopf.OperatorRegistry, kind: str, reviewer: Reviewer) -> None:
    @kopf.on.mutate(
        GROUP, VERSION, KINDS[kind].PLURAL, id=f"default-{kind.lower()}", operations=["CREATE"], registry=registry
    )
    async def default(body: kopf.Body, patch: kopf.Patch, **_: Any) -> None:
        filled = reviewer.defaults(kind, body)
        if filled:
            patch.setdefault("spec", {}).update(filled)
