"""Serves reviews of our objects to the API server, by kopf: refusals and warnings (`reviews.py`), and defaults."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import kopf
import structlog

from tutti.api.kinds import KINDS
from tutti.api.lengths import listed
from tutti.api.model import GROUP, VERSION
from tutti.controller.catalogue import Catalogue
from tutti.controller.own_loop import Elsewhere
from tutti.controller.reviews import Classes, Review, review
from tutti.controller.specs import Raw, Specs, text

log = structlog.get_logger(__name__)

_QUEUED = ("Workload", "PodGroup")
_IMPLICIT = "scheduling.tutti.dev/implicit"
_UNPROCESSABLE = 422


def defaults(kind: str, raw: Raw, specs: Specs, *, queue: str) -> dict[str, Any]:
    """Return what is to be filled into a new object's spec; empty where nothing is.

    Args:
        kind: Of the object.
        raw: The object.
        specs: What is known of the others.
        queue: The LocalQueue, in namespaces that have it, of workloads that name none; "" for no such thing.
    """
    namespace = text(raw, "metadata", "namespace")
    if kind not in _QUEUED or text(raw, "spec", "queueName") or (namespace, queue) not in specs.local_queues:
        return {}
    labels = raw.get("metadata", {}).get("labels") or {}
    # A PodGroup made for annotated pods says what they say, and they name no queue.
    return {} if _IMPLICIT in labels else {"queueName": queue}


class Reviewer:
    """Reviews against what is known at that moment; to be asked in the loop that keeps this up to date."""

    def __init__(self, catalogue: Catalogue, classes: Callable[[], Classes], *, default_queue: str) -> None:
        self._catalogue = catalogue
        self._classes = classes
        self._default_queue = default_queue

    async def review(self, kind: str, raw: Raw, old: Raw | None) -> Review:
        """Review one write (`review`)."""
        return review(kind, raw, old, self._catalogue.specs, classes=self._classes())

    async def defaults(self, kind: str, raw: Raw) -> dict[str, Any]:
        """Return what is to be filled in (`defaults`)."""
        return defaults(kind, raw, self._catalogue.specs, queue=self._default_queue)


def register(registry: kopf.OperatorRegistry, reviewer: Reviewer, there: Elsewhere) -> None:
    """Serve `/validate-<kind>` for all our kinds, and `/default-<kind>` for those that are queued."""
    for kind in KINDS:
        _validate(registry, kind, reviewer, there)
    for kind in _QUEUED:
        _default(registry, kind, reviewer, there)


def _validate(registry: kopf.OperatorRegistry, kind: str, reviewer: Reviewer, there: Elsewhere) -> None:
    @kopf.on.validate(
        GROUP,
        VERSION,
        KINDS[kind].PLURAL,
        id=f"validate-{kind.lower()}",
        operations=["CREATE", "UPDATE"],
        registry=registry,
    )
    async def validate(body: kopf.Body, warnings: list[str], **kwargs: Any) -> None:
        found = await there.run(reviewer.review(kind, body, kwargs.get("old")))
        warnings.extend(found.warnings)
        if found.problems:
            name, namespace = text(body, "metadata", "name"), text(body, "metadata", "namespace")
            log.info("write_refused", kind=kind, namespace=namespace, name=name, problems=len(found.problems))
            raise kopf.AdmissionError(listed(found.problems), code=_UNPROCESSABLE)


def _default(registry: kopf.OperatorRegistry, kind: str, reviewer: Reviewer, there: Elsewhere) -> None:
    @kopf.on.mutate(
        GROUP, VERSION, KINDS[kind].PLURAL, id=f"default-{kind.lower()}", operations=["CREATE"], registry=registry
    )
    async def default(body: kopf.Body, patch: kopf.Patch, **_: Any) -> None:
        filled = await there.run(reviewer.defaults(kind, body))
        if filled:
            patch.setdefault("spec", {}).update(filled)
