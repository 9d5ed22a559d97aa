"""Keeps the `Active` condition of queues, cohorts, flavors and topologies true: written on change, and only then."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import structlog

from tutti.api.conditions import timestamp
from tutti.controller.catalogue import Catalogue, Stored
from tutti.controller.crds import RESOURCES
from tutti.controller.references import Verdict, judge
from tutti.controller.specs import ObjectKey
from tutti.kube.statuses import StatusWriter, Target

log = structlog.get_logger(__name__)

ACTIVE = "Active"


@dataclass(frozen=True, slots=True)
class _Said:
    """What was last asked to be written, and the condition that it was to replace."""

    uid: str
    generation: int
    verdict: Verdict
    instead_of: Mapping[str, Any]


_SETTLED = -1
"""Generation of a wish that the server has been seen to fulfil: the next one is news, whatever it is."""


class ConditionKeeper:
    """Compares what should be said with what the server shows, each time something relevant changes.

    It has a status writer of its own, because a writer knows one wanted value per object, and the engine wants usage
    figures in the same statuses. The two never write the same field.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        statuses: StatusWriter,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._catalogue = catalogue
        self._statuses = statuses
        self._clock = clock
        self._said: dict[ObjectKey, _Said] = {}

    async def run(self) -> None:
        """Keep conditions true until cancelled; to be started once everything is listed and this process leads."""
        version = -1
        while True:
            version = await self._catalogue.changed(version)
            self._review()

    def _review(self) -> None:
        self._catalogue.count_users()
        for key, verdict in judge(self._catalogue.specs):
            stored = self._catalogue.stored.get(key)
            if stored is not None:
                self._say(key, stored, verdict)
        for key in self._said.keys() - self._catalogue.stored.keys():
            self._statuses.forget(_target(key, self._said.pop(key).uid))

    def _say(self, key: ObjectKey, stored: Stored, verdict: Verdict) -> None:
        before = stored.condition(ACTIVE)
        said = _Said(stored.uid, stored.generation, verdict, instead_of=before)
        if is_said(stored, verdict):
            self._said[key] = _Said(stored.uid, _SETTLED, verdict, instead_of=before)
            return
        if self._said.get(key) == said:
            return  # it is on its way: the server has yet to show it
        self._said[key] = said
        kind, namespace, name = key
        if before.get("status") != _status(verdict) or before.get("reason") != verdict.reason:
            log.info(
                "condition_changed",
                kind=kind,
                namespace=namespace,
                name=name,
                active=verdict.active,
                reason=verdict.reason,
                message=verdict.message,
            )
        self._statuses.put(_target(key, stored.uid), {"conditions": with_active(stored, verdict, now=self._clock())})


def is_said(stored: Stored, verdict: Verdict) -> bool:
    """Whether the object's condition already says the verdict about its current generation."""
    condition = stored.condition(ACTIVE)
    return (
        condition.get("status") == _status(verdict)
        and condition.get("reason") == verdict.reason
        and condition.get("message") == verdict.message
        and condition.get("observedGeneration", 0) == stored.generation
    )


def with_active(stored: Stored, verdict: Verdict, *, now: float) -> list[Mapping[str, Any]]:
    """Return the object's conditions with the verdict in place; the time moves only when the status does."""
    before = stored.condition(ACTIVE)
    same = before.get("status") == _status(verdict)
    condition = {
        "type": ACTIVE,
        "status": _status(verdict),
        "reason": verdict.reason,
        "message": verdict.message,
        "lastTransitionTime": before.get("lastTransitionTime") if same else timestamp(now),
        "observedGeneration": stored.generation,
    }
    return [*(c for c in stored.conditions if c.get("type") != ACTIVE), condition]


def _status(verdict: Verdict) -> str:
    return "True" if verdict.active else "False"


def _target(key: ObjectKey, uid: str) -> Target:
    kind, namespace, name = key
    return Target(RESOURCES[kind], namespace, name, uid)
