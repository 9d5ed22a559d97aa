"""Keeps the conditions of queues, cohorts, flavors and topologies true: written on change, and only then.

`Active` is on all of them. `QuotaExceeded` comes with the first time that a ClusterQueue or Cohort uses more than there
is, as the engine finds it, and stays as False when that is over. `TemporaryQuotas` is on those of them
that have windows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from tutti.api.conditions import timestamp
from tutti.api.kinds import AdmissionCheck
from tutti.controller.discovery import OUR_RESOURCES
from tutti.controller.object_cache import CachedObject, ObjectCache
from tutti.controller.references import ActiveCondition, KindKey, active_conditions
from tutti.engine.reading.quota_windows import WindowNote
from tutti.engine.status.queue_statuses import QUOTA_EXCEEDED
from tutti.kube.statuses import StatusTarget, StatusWriter
from tutti.quota.tree import cohort_key

log = structlog.get_logger(__name__)

ACTIVE = "Active"
TEMPORARY_QUOTAS = "TemporaryQuotas"


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A condition as it should be, without its times."""

    kind: str
    status: bool
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class _Said:
    """What was last asked to be written, and the conditions that it was to replace."""

    uid: str
    generation: int
    wanted: tuple[_Wanted, ...]
    instead_of: tuple[Mapping[str, Any], ...]


_SETTLED = -1
"""Generation of a wish that the server has been seen to fulfil: the next one is news, whatever it is."""


class ConditionKeeper:
    """Compares what should be said with what the server shows, each time something relevant changes.

    It has a status writer of its own, because a writer knows one wanted value per object, and the engine wants usage
    figures in the same statuses. The two never write the same field.
    """

    def __init__(
        self,
        catalogue: ObjectCache,
        statuses: StatusWriter,
        *,
        overused: Callable[[], Mapping[KindKey, str] | None] = dict,
        windows: Callable[[], Mapping[str, WindowNote] | None] = dict,
        followed: Callable[[], bool | None] = bool,
        concerns: Callable[[str, str, str], bool] = lambda *_: True,
        misled: Callable[[], Mapping[KindKey, str]] = dict,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Keep them by what is known, and written by a writer.

        Args:
            catalogue: Tells when anything has changed, and what the objects are like.
            statuses: Writes.
            overused: Returns the ClusterQueues and Cohorts that use more quota than there is, and what they are told;
                None while nobody has looked yet, so that what is said of it stands.
            windows: Returns what ClusterQueues are told of their windows, by name, and Cohorts, by `cohort_key`; None
                as with `overused`.
            followed: Returns whether ProvisioningRequests are seen; None as with `overused`.
            concerns: Returns whether an object of this kind, namespace and name is written here, or by another shard.
            misled: Returns the LocalQueues that lead into another shard, and what they are told.
            clock: Unix seconds.
        """
        self._catalogue = catalogue
        self._statuses = statuses
        self._overused = overused
        self._windows = windows
        self._followed = followed
        self._concerns = concerns
        self._misled = misled
        self._clock = clock
        self._said: dict[KindKey, _Said] = {}

    async def run(self) -> None:
        """Keep conditions true until cancelled; to be started once everything is listed and this process leads."""
        version = -1
        while True:
            version = await self._catalogue.changed(version)
            self._review()

    def _review(self) -> None:
        self._catalogue.count_users()
        overused, windows, followed = self._overused(), self._windows(), self._followed()
        self._catalogue.specs.requests_followed = bool(followed)
        misled = self._misled()
        for key, found in active_conditions(self._catalogue.specs):
            stored = self._catalogue.stored.get(key)
            if not self._concerns(*key):
                continue
            verdict = (
                ActiveCondition(active=False, reason="OtherShard", message=misled[key]) if key in misled else found
            )
            if stored is not None and not (followed is None and key[0] == AdmissionCheck.KIND):
                readable = key not in self._catalogue.specs.broken
                exceeded = () if overused is None else _exceeded(stored, overused.get(key, ""), readable=readable)
                note = None if windows is None else _note_of(key, windows)
                turns = () if windows is None else _temporary(stored, note, readable=readable)
                self._say(key, stored, (_active(verdict), *exceeded, *turns))
        for key in self._said.keys() - self._catalogue.stored.keys():
            self._statuses.forget(_target(key, self._said.pop(key).uid))

    def _say(self, key: KindKey, stored: CachedObject, wanted: tuple[_Wanted, ...]) -> None:
        before = tuple(stored.condition(one.kind) for one in wanted)
        said = _Said(stored.uid, stored.generation, wanted, instead_of=before)
        if all(_is_said(stored, one) for one in wanted):
            self._said[key] = _Said(stored.uid, _SETTLED, wanted, instead_of=before)
            return
        if self._said.get(key) == said:
            return  # it is on its way: the server has yet to show it
        self._said[key] = said
        for one, known in zip(wanted, before, strict=True):
            if known.get("status") != str(one.status) or known.get("reason") != one.reason:
                _log(key, one)
        self._statuses.put(_target(key, stored.uid), {"conditions": _with(stored, wanted, now=self._clock())})


def _active(verdict: ActiveCondition) -> _Wanted:
    return _Wanted(ACTIVE, verdict.active, verdict.reason, verdict.message)


def _exceeded(stored: CachedObject, message: str, *, readable: bool) -> tuple[_Wanted, ...]:
    """Return what is to be said of quota: nothing of an object where there has never been anything to say."""
    if message:
        return (_Wanted(QUOTA_EXCEEDED, True, "MoreInUse", message),)
    if readable and stored.condition(QUOTA_EXCEEDED).get("status") == "True":
        return (_Wanted(QUOTA_EXCEEDED, False, "WithinQuota", "no more is used than there is quota for"),)
    return ()


def _note_of(key: KindKey, windows: Mapping[str, WindowNote]) -> WindowNote | None:
    """Return what a ClusterQueue or Cohort is told of its windows; None where it has none."""
    kind, _, name = key
    return windows.get(cohort_key(name) if kind == "Cohort" else name if kind == "ClusterQueue" else "")


def _temporary(stored: CachedObject, note: WindowNote | None, *, readable: bool) -> tuple[_Wanted, ...]:
    """Return what is to be said of windows: nothing of an object where there have never been any."""
    if note is not None:
        return (_Wanted(TEMPORARY_QUOTAS, note.is_on, note.reason, note.message),)
    if readable and stored.condition(TEMPORARY_QUOTAS):
        return (_Wanted(TEMPORARY_QUOTAS, False, "NoWindows", "it has no temporaryQuotas"),)
    return ()


def _is_said(stored: CachedObject, wanted: _Wanted) -> bool:
    """Whether a condition of an object already says this about its current generation."""
    condition = stored.condition(wanted.kind)
    return (
        condition.get("status") == str(wanted.status)
        and condition.get("reason") == wanted.reason
        and condition.get("message") == wanted.message
        and condition.get("observedGeneration", 0) == stored.generation
    )


def _with(stored: CachedObject, wanted: Sequence[_Wanted], *, now: float) -> list[Mapping[str, Any]]:
    """Return an object's conditions with those that are wanted in place; a time moves only when the status does."""
    kinds = [one.kind for one in wanted]
    return [*(c for c in stored.conditions if c.get("type") not in kinds), *(_put(stored, one, now) for one in wanted)]


def _put(stored: CachedObject, wanted: _Wanted, now: float) -> Mapping[str, Any]:
    before = stored.condition(wanted.kind)
    same = before.get("status") == str(wanted.status)
    return {
        "type": wanted.kind,
        "status": str(wanted.status),
        "reason": wanted.reason,
        "message": wanted.message,
        "lastTransitionTime": before.get("lastTransitionTime") if same else timestamp(now),
        "observedGeneration": stored.generation,
    }


def _log(key: KindKey, wanted: _Wanted) -> None:
    kind, namespace, name = key
    said = {"active": wanted.status} if wanted.kind == ACTIVE else {"condition": wanted.kind, "status": wanted.status}
    log.info(
        "condition_changed",
        kind=kind,
        namespace=namespace,
        name=name,
        **said,
        reason=wanted.reason,
        message=wanted.message,
    )


def _target(key: KindKey, uid: str) -> StatusTarget:
    kind, namespace, name = key
    return StatusTarget(OUR_RESOURCES[kind], namespace, name, uid)
